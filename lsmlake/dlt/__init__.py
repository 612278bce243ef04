"""A destination of dlt: pipelines load into tables of a warehouse. Needs the extra `dlt`.

A dataset of dlt is a database. Each table gets one commit for a load package, however often the package is tried again: the load
id is the writer. See the page "Loads by dlt".
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePath
from typing import Any

from lsmlake.extras import need

_WHAT = "lsmlake.dlt"


def destination(
    warehouse: str | PurePath | None = None,
    *,
    storage_options: Mapping[str, object] | None = None,
    destination_name: str | None = None,
    environment: str | None = None,
) -> Any:
    """The destination for `dlt.pipeline(destination=...)`.

    Args:
        warehouse: the location of the warehouse, as for `lsmlake.connect`. Default: `destination.lsmlake.warehouse` of dlt's
            configuration.
        storage_options: as for `lsmlake.connect`. Default: `destination.lsmlake.storage_options` of dlt's configuration.
        destination_name: the name of the destination, which is also that of its section in dlt's configuration. Default: lsmlake.
        environment: the environment that dlt notes for the destination.

    Raises:
        MissingDependency: dlt is not installed.

    Example:
        >>> pipeline = dlt.pipeline("shop", destination=lsmlake.dlt.destination("warehouse"), dataset_name="sales")
        >>> pipeline.run(orders, table_name="orders", primary_key="order_id", write_disposition="merge")
    """
    named = {"destination_name": destination_name, "environment": environment}
    return _class()(warehouse, storage_options=storage_options, **named)


def adapter(data: Any, *, options: Mapping[str, object]) -> Any:
    """A resource of dlt whose table gets options of `create_table`. Each load brings the table to them.

    Args:
        data: a resource, or data of which dlt makes one.
        options: options of the table, such as {"bucket": 4}.

    Raises:
        MissingDependency: dlt is not installed.

    Example:
        >>> pipeline.run(lsmlake.dlt.adapter(orders, options={"changelog-producer": "lookup"}))
    """
    resource_of = need("dlt.destinations.utils", _WHAT).get_resource_for_adapter
    from lsmlake.dlt.table_design import OPTIONS_HINT  # loads dlt

    return resource_of(data).apply_hints(additional_table_hints={OPTIONS_HINT: dict(options)})


def __getattr__(name: str) -> object:
    """The class of the destination, which dlt finds by the name "lsmlake.dlt.lsmlake"."""
    if name != "lsmlake":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return _class()


def _class() -> Any:
    need("dlt", _WHAT)
    from lsmlake.dlt.dlt_factory import lsmlake  # loads dlt

    return lsmlake
