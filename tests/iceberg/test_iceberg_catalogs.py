"""Tables in catalogs of Iceberg: registered once, then brought up to date by commits, so that readers find them at any moment.
And what is refused. In catalogs of all kinds: SQLite, moto's server for Glue, Iceberg's REST catalog, and a metastore of Hive."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import traceback
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import cache
from http.server import BaseHTTPRequestHandler, HTTPServer
from importlib import import_module
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from threading import Event, Thread

import pytest
from hive_catalog import hive_catalog
from object_servers import glue_server
from rest_catalog import rest_catalog

import lsmlake
from lsmlake import add_column, drop_column, rename_column, set_comment
from lsmlake.errors import CommitConflict, InvalidQuery, LakeError, MissingDependency, StorageFailed, TableExists
from lsmlake.iceberg import catalog as catalogs
from lsmlake.iceberg import catalog_backoff as patience
from lsmlake.iceberg import catalog_kinds as kinds
from lsmlake.iceberg import mirror, published
from lsmlake.storage.local import LocalStorage

pytest.importorskip("pyiceberg.catalog")
from pyiceberg import catalog as pyiceberg_catalogs
from pyiceberg.catalog import load_catalog
from pyiceberg.table import update
from pyiceberg.typedef import IcebergBaseModel
from pyiceberg.utils.config import Config

REST, HIVE = (pytest.param(kind, marks=pytest.mark.spark) for kind in ("rest", "hive"))
KINDS = ["sql", "glue", REST, HIVE]
SECRET = "tops3cret"
_names = count()


@pytest.fixture(autouse=True)
def no_rests(monkeypatch):
    """No catalog gets a rest, however slow the machine is."""
    monkeypatch.setattr(patience, "_TIMES", 0)


@pytest.fixture(scope="module")
def rest(tmp_path_factory):
    with rest_catalog(tmp_path_factory.mktemp("rest")) as address:
        yield {"type": "rest", "uri": address}


@pytest.fixture(scope="module")
def glue():
    session = pytest.importorskip("botocore.session")
    with glue_server() as properties, pytest.MonkeyPatch.context() as patch:
        patch.setattr(session, "create_loader", cache(session.create_loader))  # else each client reads what services there are
        yield properties


@pytest.fixture(scope="module")
def hive(tmp_path_factory):
    pytest.importorskip("thrift")
    with hive_catalog(tmp_path_factory.mktemp("hive")) as address:
        yield {"type": "hive", "uri": address}


@pytest.fixture(params=KINDS)
def catalog(request, tmp_path) -> dict[str, str]:
    """The properties of a catalog."""
    return sql(tmp_path) if request.param == "sql" else request.getfixturevalue(request.param)


def sql(folder: Path) -> dict[str, str]:
    return {"type": "sql", "uri": f"sqlite:///{folder}/catalog.db"}


@pytest.fixture
def name() -> str:
    """Of a table that no catalog has."""
    return f"shop{os.getpid()}_{next(_names)}.orders"


@pytest.fixture
def lake(tmp_path):
    found = lsmlake.connect(tmp_path / "lake")
    found.create_database("d")
    return found


@pytest.fixture
def table(lake):
    found = lake.create_table("d.t", "id BIGINT, v STRING", primary_key=["id"], options={"bucket": 1})
    written(found, 1)
    return found


def written(table, *ids: int) -> None:
    table.upsert([{"id": id, table.schema.names[1]: f"v{id}"} for id in ids])
    table.compact()


@contextmanager
def loaded(catalog, name):
    """The table as a reader finds it."""
    with closing(load_catalog(**{"name": "default", **catalog})) as found:
        yield found.load_table(name)


def location(catalog, name) -> str:
    with loaded(catalog, name) as found:
        return found.metadata_location


def follow(table, catalog, name, of_branches=None) -> None:
    """Publish, and compare all snapshots, tags and branches with what a reader finds in the catalog. `of_branches`: reference ->
    scan of a branch."""
    table.publish_iceberg(catalog=catalog, name=name)
    of_branches = of_branches or {}
    with loaded(catalog, name) as found:
        assert found.current_snapshot().snapshot_id == table.version.number
        ids = table.snapshots()["snapshot_id"].to_pylist()
        there = [one.snapshot_id for one in found.snapshots()]
        assert ids == ([id for id in there if id in ids] if of_branches else there)
        assert {*found.refs()} == {"main", *table.tags()["tag_name"].to_pylist(), *of_branches}
        assert found.schema().as_arrow().names == table.schema.names
        states = {None: table.scan(), **{id: table.scan(snapshot=id) for id in ids}}
        states |= {found.refs()[one].snapshot_id: scan for one, scan in of_branches.items()}
        for id, scan in states.items():
            assert rows(found.scan(snapshot_id=id)) == rows(scan)


def rows(scan) -> list[dict]:
    return scan.to_arrow().sort_by("id").to_pylist()


@pytest.fixture
def drops(monkeypatch) -> list[str]:
    """The names of tables that PyIceberg drops from catalogs."""
    from pyiceberg.catalog import glue, rest, sql

    found: list[str] = []
    classes = [sql.SqlCatalog, glue.GlueCatalog, rest.RestCatalog]
    if find_spec("thrift"):
        classes.append(import_module("pyiceberg.catalog.hive").HiveCatalog)
    for kind in classes:

        def dropped(self, name, *rest, drop=kind.drop_table, **more):
            found.append(name)
            return drop(self, name, *rest, **more)

        monkeypatch.setattr(kind, "drop_table", dropped)
    return found


def test_a_table_in_a_catalog_follows_the_published_one(table, catalog, name, drops):
    follow(table, catalog, name)
    follow(table, catalog, name)
    written(table, 2, 3)
    table.create_tag("two")
    table.delete("id = 2")
    follow(table, catalog, name)
    table.alter(add_column("w", "INT"), rename_column("v", "text"))
    follow(table, catalog, name)
    table.alter(add_column("x", "INT"))
    table.alter(drop_column("x"))  # a REST catalog takes these columns for those of before
    table.alter(add_column("y", "INT"))
    written(table, 4)
    follow(table, catalog, name)
    table.delete_tag("two")
    table.expire_snapshots(retain_max=2, retain_min=1)
    follow(table, catalog, name)
    for n in range(22):  # more than the metadata files that stay
        table.delete(f"id = {n}")
        table.publish_iceberg()
    table.rollback(snapshot=table.version.number - 1)
    follow(table, catalog, name)
    assert not drops, "readers found the table at any moment"
    assert not table.verify()


def test_a_branch_in_a_catalog(table, catalog, name, drops):
    branch = table.create_branch("b1")
    for number in (5, 6):
        written(branch, number)
        written(table, 10 * number)
        follow(table, catalog, name, {"b1": branch.scan()})
    branch.create_tag("six")
    written(branch, 7)
    follow(table, catalog, name, {"b1": branch.scan(), "b1/six": branch.scan(tag="six")})
    table.delete_branch("b1")
    branch = table.create_branch("b2")
    written(branch, 7)
    follow(table, catalog, name, {"b2": branch.scan()})
    table.fast_forward("b2")
    follow(table, catalog, name, {"b2": branch.scan()})
    assert not drops


def test_metadata_made_anew_is_registered_anew(table, tmp_path, catalog, name, drops):
    follow(table, catalog, name)
    for file in (tmp_path / "lake" / "d.db" / "t" / "metadata").glob("v*"):
        file.unlink()
    for _ in range(2):
        follow(table, catalog, name)
        assert drops == [name]
        written(table, 2)


def test_columns_in_other_places(table, catalog, name, drops):
    """A metastore of Hive refuses them, unless its administrator lets it; but not in a table that is registered anew."""
    table.alter(add_column("n", "INT"))
    follow(table, catalog, name)
    table.alter(drop_column("v"), add_column("w", "STRING"))
    for _ in range(2):
        follow(table, catalog, name)
        assert drops == ([name] if catalog["type"] == "hive" else [])
    table.delete("id = 1")
    table.compact()
    follow(table, catalog, name)
    assert drops == ([name] if catalog["type"] == "hive" else [])


@pytest.mark.parametrize("catalog", [HIVE], indirect=True)
def test_types_that_a_metastore_of_hive_2_does_not_know(table, catalog, name, drops):
    table.alter(add_column("at", "TIMESTAMP"))
    for settings in ({}, {"hive.hive2-compatible": "true"}, {"hive.hive2-compatible": "true"}):
        drops.clear()
        table.delete("id = 7")
        follow(table, catalog | settings, name)
        follow(table, catalog | settings, name)
    assert not drops, "by this property PyIceberg tells a type that it knows"


def test_a_catalog_whose_metadata_file_is_lost_gets_the_table_anew(table, catalog, name, drops):
    for number in (2, 3):
        follow(table, catalog, name)
        written(table, number)
    follow(table, catalog, name)
    lost = Path(re.sub("^file:(//)?", "", location(catalog, name)))
    assert lost.name[0] != "v", "of the catalog"
    lost.unlink()
    for number in (4, 5):
        written(table, number)
        follow(table, catalog, name)
    assert drops == [name]


@pytest.mark.parametrize("catalog", ["glue"], indirect=True)
def test_long_comments_in_glue(table, catalog, name):
    for comment in ("x" * 256, "two\nlines"):
        table.alter(set_comment("v", comment))
        follow(table, catalog, name)
        with loaded(catalog, name) as found:
            assert found.schema().find_field("v").doc == comment


@pytest.mark.parametrize("catalog", [HIVE], indirect=True)
def test_a_metastore_of_hive_4(table, catalog, name, monkeypatch):
    """It has no `get_table`, which PyIceberg 0.12 calls."""
    for number in (2, 3):
        with monkeypatch.context() as patch:

            def refuse(*arguments):
                raise import_module("thrift.Thrift").TApplicationException(message="Invalid method name: 'get_table'")

            patch.setattr(import_module("hive_metastore.ThriftHiveMetastore").Client, "get_table", refuse)
            table.publish_iceberg(catalog=catalog, name=name)
        follow(table, catalog, name)
        written(table, number)


@pytest.mark.parametrize("catalog", [HIVE], indirect=True)
def test_names_that_hive_does_not_take(table, catalog, name):
    with pytest.raises(StorageFailed, match=r"not a valid database name.*Hive takes letters"):
        table.publish_iceberg(catalog=catalog, name=f"ö{name}")
    with pytest.raises(StorageFailed, match=r"not a valid object name.*Hive takes letters"):
        table.publish_iceberg(catalog=catalog, name=f"{name}ö")


def test_the_catalog_keeps_a_bounded_number_of_files(table, tmp_path, name, caplog):
    for n in range(25):
        written(table, n)
        table.publish_iceberg(catalog=sql(tmp_path), name=name)
    there = list((tmp_path / "lake" / "d.db" / "t" / "metadata").glob("0*.metadata.json"))
    assert len(there) <= 21
    assert not caplog.text
    table.remove_orphan_files(older_than="2100-01-01")
    with loaded(sql(tmp_path), name) as found:
        assert found.scan().count() == 25


def test_other_programs_are_told_to_keep_its_files(table, catalog, name):
    table.publish_iceberg(catalog=catalog, name=name)
    with loaded(catalog, name) as found:
        assert found.properties["gc.enabled"] == "false"


def test_a_table_that_was_dropped_in_the_catalog_is_registered_again(table, catalog, name):
    table.publish_iceberg(catalog=catalog, name=name)
    with closing(load_catalog("default", **catalog)) as found:
        found.drop_table(name)
    follow(table, catalog, name)


def test_another_table_of_the_name_stays(lake, table, tmp_path, catalog, name):
    lake.create_table("d.other", "id BIGINT", primary_key=["id"]).publish_iceberg(catalog=catalog, name=name)
    there = location(catalog, name)
    with pytest.raises(TableExists, match=r"another table of this name.*give another name"):
        table.publish_iceberg(catalog=catalog, name=name)
    assert location(catalog, name) == there


@pytest.mark.parametrize("parameters", [{}, {"table_type": "DELTA"}])
@pytest.mark.parametrize("catalog", ["glue", HIVE], indirect=True)
def test_a_table_of_another_format_stays(table, tmp_path, catalog, name, parameters):
    add_plain(catalog, name, str(tmp_path), parameters)
    with pytest.raises(TableExists, match=r"a table of another format, found Property table_type.*give another name"):
        table.publish_iceberg(catalog=catalog, name=name)


def add_plain(catalog, name, folder, parameters) -> None:
    """A table of Glue or Hive that is none of Iceberg."""
    namespace, _, last = name.partition(".")
    with closing(load_catalog("default", **catalog)) as found:
        found.create_namespace(namespace)
        if catalog["type"] == "glue":
            columns = {"Columns": [{"Name": "id", "Type": "bigint"}], "Location": folder}
            made = {"Name": last, "TableType": "EXTERNAL_TABLE", "Parameters": parameters, "StorageDescriptor": columns}
            found.glue.create_table(DatabaseName=namespace, TableInput=made)
            return
        of = import_module("hive_metastore.ttypes")
        columns = of.StorageDescriptor([of.FieldSchema("id", "bigint")], f"file://{folder}", serdeInfo=of.SerDeInfo())
        made = of.Table(last, namespace, sd=columns, parameters={"EXTERNAL": "TRUE", **parameters}, tableType="EXTERNAL_TABLE")
        with found._client as client:
            client.create_table(made)


def test_a_copy_of_the_folder_does_not_take_the_place_of_the_table(lake, table, tmp_path, name):
    table.publish_iceberg(catalog=sql(tmp_path), name=name)
    there = location(sql(tmp_path), name)
    (tmp_path / "other").mkdir()
    os.system(f"cp -r {tmp_path}/lake {tmp_path}/other/lake")
    copied = lsmlake.connect(tmp_path / "other" / "lake").table("d.t")
    with pytest.raises(TableExists, match=r"expected table .* at file:///.*/other/lake/d.db/t"):
        copied.publish_iceberg(catalog=sql(tmp_path), name=name)
    assert location(sql(tmp_path), name) == there


def write_metadata(metadata, io, metadata_path) -> None:
    """For PyIceberg, which writes no metadata of version 3 to SQL catalogs."""
    with io.new_output(metadata_path).create() as sink:
        sink.write(IcebergBaseModel.model_dump_json(metadata).encode())


def test_what_other_programs_wrote_is_not_overwritten(table, catalog, name):
    table.publish_iceberg(catalog=catalog, name=name)
    with loaded(catalog, name) as found:
        last = found.current_snapshot()
        summary = type(last.summary)("append")
        theirs = last.model_copy(update={"snapshot_id": 77, "sequence_number": 77, "parent_snapshot_id": 1, "summary": summary})
        theirs = theirs.model_copy(update={"first_row_id": found.metadata.next_row_id, "timestamp_ms": last.timestamp_ms + 1})
        main = update.SetSnapshotRefUpdate(ref_name="main", type="branch", snapshot_id=77)
        found.catalog._write_metadata = write_metadata
        with found.transaction() as transaction:
            transaction._apply((update.AddSnapshotUpdate(snapshot=theirs), main))
    written(table, 2)
    with pytest.raises(TableExists, match=r"another program has written.*snapshot 77"):
        table.publish_iceberg(catalog=catalog, name=name)


def test_the_folder_of_a_registered_table_was_moved(lake, table, catalog, name):
    table.publish_iceberg(catalog=catalog, name=name)
    lake.rename_table("d.t", "d.u")
    with pytest.raises(StorageFailed, match=r"the table was moved, drop the table in the catalog, but not its files"):
        lake.table("d.u").publish_iceberg(catalog=catalog, name=name)
    lake.table("d.u").publish_iceberg(catalog=catalog, name=f"{name}_u")


def test_a_registered_table_whose_address_was_spelled_otherwise(table, catalog, name, monkeypatch):
    """As az:// was, by earlier releases."""
    with monkeypatch.context() as earlier:
        earlier.setattr(LocalStorage, "url", lambda self, path: f"file:{self.place(path)}")
        table.publish_iceberg(catalog=catalog, name=name)
    written(table, 2)
    table.publish_iceberg(catalog=catalog, name=name)
    with loaded(catalog, name) as found:
        assert found.location() == f"file://{table.meta.env.storage.place(table.path)}"
        assert found.current_snapshot().snapshot_id == table.version.number


def test_an_older_publication_changes_nothing(table, catalog, name):
    old = mirror.publish(table.meta)
    written(table, 2)
    follow(table, catalog, name)
    there = location(catalog, name)
    catalogs.register(old.metadata_file, old.content, catalog, name)
    assert location(catalog, name) == there


@pytest.mark.parametrize("there", [True, False])
def test_of_two_that_register_the_older_gives_way(table, catalog, name, monkeypatch, there):
    if there:
        table.publish_iceberg(catalog=catalog, name=name)
        written(table, 2)
    older = mirror.publish(table.meta)
    written(table, 3)
    updates, others = catalogs.updates.updates, []

    def late(*arguments):
        if not others:
            others.append(name)
            table.publish_iceberg(catalog=catalog, name=name)
        return updates(*arguments)

    monkeypatch.setattr(catalogs.updates, "updates", late)
    catalogs.register(older.metadata_file, older.content, catalog, name)
    assert others
    with loaded(catalog, name) as found:
        assert found.current_snapshot().snapshot_id == table.version.number


@pytest.mark.parametrize("catalog", ["sql", "glue"], indirect=True)
def test_of_two_that_commit_the_later_tries_again(table, tmp_path, catalog, name, monkeypatch):
    """The other one commits after PyIceberg has checked the table: SQL and Glue then compare it once more."""
    table.publish_iceberg(catalog=catalog, name=name)
    writer, others = kinds.writer, []

    def overtaken(*arguments):
        def write(metadata, io, metadata_path):
            if not others:
                others.append(name)
                table.publish_iceberg(catalog=catalog, name=name)
            writer(*arguments)(metadata, io, metadata_path)

        return write

    written(table, 2)
    older = mirror.publish(table.meta)
    written(table, 3)
    monkeypatch.setattr(kinds, "writer", overtaken)
    catalogs.register(older.metadata_file, older.content, catalog, name)
    assert others
    with loaded(catalog, name) as found:
        assert found.current_snapshot().snapshot_id == table.version.number
        named = {found.metadata_location, *(one.metadata_file for one in found.metadata.metadata_log)}
    there = (tmp_path / "lake" / "d.db" / "t" / "metadata").glob("0*")
    assert {file.as_uri() for file in there} <= named, "the file of the commit that was lost is deleted"


@pytest.mark.parametrize("catalog", [HIVE], indirect=True)
def test_a_table_that_another_program_has_locked(table, catalog, name):
    table.publish_iceberg(catalog=catalog, name=name)
    written(table, 2)
    with closing(load_catalog("default", **catalog)) as found, found._client as client:
        held = client.lock(found._create_lock_request(*name.split(".")))
        with pytest.raises(StorageFailed, match=r"Failed to acquire lock.*expires after some minutes; the table is published"):
            table.publish_iceberg(catalog={**catalog, "lock-check-retries": "1"}, name=name)
        client.unlock(import_module("hive_metastore.ttypes").UnlockRequest(held.lockid))
    follow(table, catalog, name)


def test_a_catalog_that_changes_on_every_attempt(table, tmp_path, name, monkeypatch):
    from pyiceberg.catalog.sql import SqlCatalog
    from pyiceberg.exceptions import CommitFailedException

    def commit_table(self, *arguments):
        raise CommitFailedException("main is another one")

    monkeypatch.setattr(SqlCatalog, "commit_table", commit_table)
    with pytest.raises(CommitConflict, match=r"on every attempt.*publish again"):
        table.publish_iceberg(catalog=sql(tmp_path), name=name)


def test_a_catalog_to_which_pyiceberg_does_not_commit(table, tmp_path, name, monkeypatch, drops):
    """As DynamoDB and BigQuery."""
    from pyiceberg.catalog.sql import SqlCatalog

    def commit_table(self, *arguments):
        raise NotImplementedError

    monkeypatch.setattr(SqlCatalog, "commit_table", commit_table)
    follow(table, sql(tmp_path), name)
    assert not drops
    written(table, 2)
    follow(table, sql(tmp_path), name)
    assert drops == [name]


def test_a_comment_that_was_removed_leaves_the_catalog(lake, table, tmp_path, name):
    catalog = sql(tmp_path)
    for comment, expected in (("'of the shop'", "of the shop"), ("'of shops'", "of shops"), ("NULL", None)):
        lake.sql(f"COMMENT ON TABLE d.t IS {comment}")
        follow(table, catalog, name)
        with loaded(catalog, name) as found:
            assert found.properties.get("comment") == expected


@pytest.mark.parametrize("published_before", [False, True], ids=["at once", "after a commit"])
def test_a_comment_that_others_set_in_the_catalog_stays(lake, table, tmp_path, name, published_before):
    catalog, others = sql(tmp_path), {"comment": "of the catalog", "schema.name-mapping.default": "[]", "owner": "ann"}
    follow(table, catalog, name)
    if published_before:
        written(table, 2)
        follow(table, catalog, name)
    with loaded(catalog, name) as found:
        content = json.loads(found.io.new_input(found.metadata_location).open().read())
        found.catalog._write_metadata = kinds.writer(content, [])  # PyIceberg does not write version 3
        with found.transaction() as changes:
            changes.set_properties(**others)
    written(table, 3)
    follow(table, catalog, name)
    with loaded(catalog, name) as found:
        assert {key: found.properties[key] for key in others} == others
    for comment, expected in (("'of the shop'", "of the shop"), ("NULL", None)):
        lake.sql(f"COMMENT ON TABLE d.t IS {comment}")
        follow(table, catalog, name)
        with loaded(catalog, name) as found:
            assert found.properties.get("comment") == expected
            assert found.properties["owner"] == "ann"


def test_a_namespace_of_several_levels(table, catalog):
    if catalog["type"] in ("glue", "hive"):
        with pytest.raises(StorageFailed, match=r"hierarchical namespaces are not supported.*give a name of two parts"):
            table.publish_iceberg(catalog=catalog, name="levels.a.b.orders")
    else:
        follow(table, catalog, "levels.a.b.orders")


@pytest.mark.parametrize("wrong", ["orders", "", ".orders", "sales.", "a..b"])
def test_a_name_needs_a_namespace(table, tmp_path, wrong):
    with pytest.raises(InvalidQuery, match=r"expected namespace.table"):
        table.publish_iceberg(catalog=sql(tmp_path), name=wrong)
    with pytest.raises(InvalidQuery, match=r"but no catalog; add catalog="):
        table.publish_iceberg(name=wrong)
    assert published.current(table.meta) is None, "nothing was published"


def test_a_branch_is_not_published_alone(lake, table):
    table.create_branch("b1")
    with pytest.raises(InvalidQuery, match=r"a branch is published with its table.*lake.table\('d.t'\)"):
        lake.table("d.t$branch_b1").publish_iceberg()


def test_a_catalog_that_pyiceberg_is_configured_for(lake, table, tmp_path):
    told = {
        "PYICEBERG_CATALOG__PROD__URI": f"sqlite:///{tmp_path}/catalog.db",
        "PYTHONPATH": str(Path(lsmlake.__file__).parents[1]),
    }
    command = "from lsmlake.cli.main import run; run()", "iceberg", "d.t", "-w", str(tmp_path / "lake"), "--catalog"
    done = subprocess.run([sys.executable, "-c", *command, "prod"], env={**os.environ, **told}, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == (f"{table.publish_iceberg()}\n", "")
    with loaded({"name": "prod", "type": "sql", "uri": told["PYICEBERG_CATALOG__PROD__URI"]}, "d.t") as found:
        assert found.scan().count() == 1
    with pytest.raises(StorageFailed, match=r"URI missing.*PYICEBERG_CATALOG__NOBODY__URI"):
        table.publish_iceberg(catalog="nobody")
    assert lake.sql("CALL publish_iceberg('d.t')").fetchall() == [(table.publish_iceberg(),)]


# -- renamed and dropped tables, with a catalog of the configuration -----------------------------------------------------


@pytest.fixture
def configured(catalog, monkeypatch) -> dict[str, str]:
    """The catalog, which PyIceberg's configuration has as `prod`."""
    for key, value in catalog.items():
        monkeypatch.setenv(f"PYICEBERG_CATALOG__PROD__{key.upper()}", value)
    monkeypatch.setattr(pyiceberg_catalogs, "_ENV_CONFIG", Config())
    return {**catalog, "name": "prod"}


def in_prod(lake, database: str, **options: str):
    """A table that every commit brings up to date in `prod`."""
    lake.create_database(database)
    prod = {"bucket": 1, "metadata.iceberg": "true", "metadata.iceberg.catalog": "prod"}
    found = lake.create_table(f"{database}.t", "id BIGINT, v STRING", primary_key=["id"], options=prod | options)
    written(found, 1, 2)
    return found


def has(catalog, name) -> bool:
    with closing(load_catalog(**{"name": "default", **catalog})) as found:
        return found.table_exists(name)


def same_rows(table, catalog, name) -> None:
    with loaded(catalog, name) as found:
        assert found.location() == f"file://{table.meta.env.storage.place(table.path)}"
        assert rows(found.scan()) == rows(table.scan())


def test_a_table_is_imported_by_its_name_in_a_catalog(lake, configured, name):
    database = name.split(".")[0]
    table = in_prod(lake, database)
    assert lake.import_iceberg(f"prod.{database}.t", "d.imported").rows == table.scan().count()
    assert rows(lake.table("d.imported").scan()) == rows(table.scan())
    for lacking in (f"{database}.none", "none.t"):
        with pytest.raises(InvalidQuery, match=rf"prod.{lacking}: the catalog has no such table"):
            lake.import_iceberg(f"prod.{lacking}", "d.lacking")


def test_a_renamed_table_has_its_new_name_in_the_catalog(lake, configured, name, caplog):
    database = name.split(".")[0]
    table = in_prod(lake, database)
    table.create_branch("b")
    renamed = lake.rename_table(f"{database}.t", f"{database}.u")
    assert not has(configured, f"{database}.t")
    same_rows(renamed, configured, f"{database}.u")
    written(renamed, 3)
    same_rows(renamed, configured, f"{database}.u")
    assert renamed.verify() == []
    assert not caplog.text
    lake.drop_table(f"{database}.u")
    assert not has(configured, f"{database}.u")
    assert not caplog.text


@pytest.mark.parametrize("catalog", ["sql", REST], indirect=True)
def test_a_renamed_table_keeps_a_name_that_is_fixed(lake, configured, name, caplog):
    database = name.split(".")[0]
    in_prod(lake, database, **{"metadata.iceberg.table": name})
    for old, new in (("t", "u"), ("u", "t")):
        renamed = lake.rename_table(f"{database}.{old}", f"{database}.{new}")
        same_rows(renamed, configured, name)
    lake.sql(f"DROP TABLE {database}.t")
    assert not has(configured, name)
    assert not caplog.text


@pytest.mark.parametrize("catalog", ["sql", REST], indirect=True)
@pytest.mark.parametrize("change", ["rename", "drop"])
def test_another_table_of_the_catalog_stays(lake, table, configured, name, caplog, change):
    database = name.split(".")[0]
    table.publish_iceberg(catalog=configured, name=name)
    in_prod(lake, database, **{"metadata.iceberg.table": name})
    assert "another table of this name" in caplog.text
    if change == "rename":
        lake.rename_table(f"{database}.t", f"{database}.u")
    else:
        lake.drop_table(f"{database}.t")
    same_rows(table, configured, name)


@pytest.mark.parametrize("change", ["rename", "drop"])
def test_a_catalog_that_fails_fails_no_rename_and_no_drop(lake, tmp_path, monkeypatch, caplog, change):
    broken = {"TYPE": "sql", "URI": f"sqlite:///{tmp_path}/no/catalog.db"}
    for key, value in broken.items():
        monkeypatch.setenv(f"PYICEBERG_CATALOG__PROD__{key}", value)
    monkeypatch.setattr(pyiceberg_catalogs, "_ENV_CONFIG", Config())
    in_prod(lake, "e")
    caplog.clear()
    if change == "drop":
        lake.drop_table("e.t")
        assert lake.tables("e") == []
    else:
        renamed = lake.rename_table("e.t", "e.u")
        assert "after the table was renamed: e.u: the catalog did not register the table" in caplog.text
        where = published.current(renamed.meta).content["location"]
        assert where.endswith("/e.db/u")
    assert (
        "the table may remain in a catalog of Iceberg; then drop it there, without its files: e.t: the catalog did not show"
        in caplog.text
    )


# -- catalogs that refuse -----------------------------------------------------------------------------------------------


class Refusing(BaseHTTPRequestHandler):
    """Answers with the status in the first part of the path, and tells the secret; 0: does not answer."""

    over = Event()

    def do_GET(self) -> None:
        status = int(self.path.split("/")[1])
        if not status:
            self.over.wait(30)
            return
        body = f'{{"error": {{"message": "no {self.headers.get("Authorization")}", "type": "X", "code": {status}}}}}'.encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_POST = do_HEAD = do_GET

    def log_message(self, *arguments) -> None:
        pass


@pytest.fixture
def refusing(monkeypatch) -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), Refusing) as server:
        thread = Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        Refusing.over.set()
        server.shutdown()
        thread.join()
        Refusing.over.clear()


@pytest.mark.parametrize(
    ("properties", "told"),
    [
        (
            {"type": "rest", "uri": "{server}/403", "token": SECRET},
            r"found X: no Bearer \*\*\*.*correct the properties",
        ),
        ({"type": "rest", "uri": "{server}/401", "header.Authorization": SECRET}, "X: no"),
        ({"type": "rest", "uri": "{server}/500", "token": SECRET}, "X: no Bearer"),
        (
            {
                "type": "rest",
                "uri": "http://127.0.0.1:1",
                "credential": f"me:{SECRET}",
                "oauth2-server-uri": "http://127.0.0.1:1/token",
            },
            "Connection refused",
        ),
        ({"type": "rest", "uri": f"http://me:{SECRET}@127.0.0.1:1"}, "Connection refused"),
        ({"type": "sql", "uri": f"nosuch://me:{SECRET}@h/db"}, "Can't load plugin"),
        ({"type": "bears", "password": "ear", "token": "bears"}, r"'\*\*\*' is not"),
        ({"type": "bears", "password": "ear"}, "'bears' is not"),
        ({"type": SECRET}, "not a valid CatalogType"),
        ({"uri": "sqlite:////nowhere/x.db", "type": "sql"}, "unable to open"),
    ],
)
def test_a_catalog_that_refuses(table, refusing, properties, told):
    catalog = {key: value.format(server=refusing) for key, value in properties.items()}
    with pytest.raises(StorageFailed, match=told) as refused:
        table.publish_iceberg(catalog=catalog, name="shop.orders")
    shown = "".join(traceback.format_exception(refused.value))
    assert "the table is published" in shown
    assert catalog["type"] == SECRET or SECRET not in shown


def test_properties_of_a_wrong_type_are_not_shown(table):
    with pytest.raises(LakeError) as refused:
        table.publish_iceberg(catalog={"token": [SECRET]})
    assert SECRET not in str(refused.value)


def test_a_catalog_that_does_not_answer(table, refusing, monkeypatch):
    monkeypatch.setattr(catalogs, "_within", lambda seconds, call, within=catalogs._within: within(seconds / 120, call))
    with pytest.raises(
        StorageFailed, match=r"did not answer, expected an answer within 60 seconds; try again; the table is publ"
    ):
        table.publish_iceberg(catalog={"type": "rest", "uri": f"{refusing}/0"}, name="shop.orders")


def test_a_catalog_that_needs_more_packages(table, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyiceberg.catalog.hive", None)
    with pytest.raises(MissingDependency, match=r"lacks packages.*pip install 'pyiceberg\[hive\]'; run such"):
        table.publish_iceberg(catalog={"type": "hive", "uri": "thrift://127.0.0.1:1"}, name="shop.orders")
