"""Registers a published table in a catalog of Iceberg: any that PyIceberg connects to, such as REST, SQL, Glue and Hive."""

from __future__ import annotations

from collections.abc import Mapping

from lsmlake.errors import StorageFailed
from lsmlake.extras import need


def register(metadata_file: str, catalog: Mapping[str, str], name: str) -> None:
    """Let the table `name` of a catalog be the one that a metadata file describes; its namespace is created if it is missing.

    Args:
        metadata_file: the address of the file.
        catalog: the properties of the catalog, as PyIceberg takes them; `name` is the name of the catalog.
        name: namespace and name of the table in the catalog.

    Raises:
        MissingDependency: PyIceberg is not installed.
        StorageFailed: the catalog refused.
    """
    properties = dict(catalog)
    load_catalog = need("pyiceberg.catalog", "a catalog of Iceberg").load_catalog
    try:
        found = load_catalog(properties.pop("name", "default"), **properties)
        found.create_namespace_if_not_exists(name.rpartition(".")[0])
        if not found.table_exists(name):
            found.register_table(name, metadata_file)
            return
        try:
            found.register_table(name, metadata_file, overwrite=True)
        except NotImplementedError:  # for a moment the catalog has no such table; the files stay
            found.drop_table(name)
            found.register_table(name, metadata_file)
    except Exception as refused:  # of many kinds
        cure = "correct the properties of the catalog, or try again; the table is published"
        raise StorageFailed("the catalog did not register the table", where=name, found=repr(refused), cure=cure) from refused
