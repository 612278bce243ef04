"""Iceberg metadata of tables, read by PyIceberg, Polars and the Java code of Iceberg: rows of every type, partitions, evolved
schemas, time travel, level 0; and how it is published: by commits, by several publishers, before files are deleted, and again
after it was left behind."""

from __future__ import annotations

import datetime as dt
import json
import warnings
from decimal import Decimal
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pytest
from iceberg_reader import IcebergReader
from java_iceberg import java_rows, java_table
from strategies import new_lake

import lsmlake
from lsmlake import add_column, change_type, drop_column, rename_column, set_option
from lsmlake.errors import InvalidOption, InvalidQuery, InvalidSchema, StorageFailed
from lsmlake.iceberg import iceberg_manifests, mirror, published, table_metadata
from lsmlake.storage.local import LocalStorage
from lsmlake.storage.storage import read_bytes
from lsmlake.tables.live import Live

UTC = dt.timezone.utc
ALL = {
    "b": (pa.bool_(), [True, None]),
    "i8": (pa.int8(), [-128, 127]),
    "i16": (pa.int16(), [-32768, None]),
    "i32": (pa.int32(), [-(1 << 31), 7]),
    "i64": (pa.int64(), [1 << 62, None]),
    "f": (pa.float32(), [1.5, float("-inf")]),
    "d": (pa.float64(), [None, 2.5]),
    "dec": (pa.decimal128(38, 4), [Decimal("-123456789012345678901234567890.1234"), None]),
    "small": (pa.decimal128(5, 2), [Decimal("-1.28"), Decimal("1.27")]),
    "s": (pa.string(), ["ä€𝄞", ""]),
    "bin": (pa.binary(), [b"\0\xff", None]),
    "day": (pa.date32(), [dt.date(1969, 12, 31), dt.date(2026, 1, 2)]),
    "at": (pa.timestamp("us", "UTC"), [dt.datetime(1969, 1, 1, 0, 0, 0, 1, UTC), None]),
    "local": (pa.timestamp("us"), [dt.datetime(2026, 1, 2, 3, 4, 5, 6), None]),
    "st": (pa.struct([("x", pa.int32()), ("y", pa.list_(pa.string()))]), [{"x": 1, "y": ["a", None]}, None]),
    "m": (pa.map_(pa.string(), pa.int64()), [[("k", 1)], []]),
}
FILES = {"write-only": "true"}
LAZY = {"compaction.tier-runs": "9", "compaction.reclaim-dead-percent": "100"}


@pytest.fixture
def lake(tmp_path):
    found = lsmlake.connect(str(tmp_path))
    found.create_database("d")
    return found


def made(lake, columns, options=(), key=("id",), **more):
    return lake.create_table(
        "d.t", pa.schema(columns), primary_key=list(key), options=({"bucket": "2"} if key else {}) | dict(options), **more
    )


def sorted_rows(table: pa.Table) -> list[dict]:
    return sorted(table.to_pylist(), key=repr)


def pyiceberg_rows(file: str, snapshot: int | None = None) -> list[dict]:
    from pyiceberg.table import StaticTable

    return sorted_rows(StaticTable.from_metadata(file).scan(snapshot_id=snapshot).to_arrow())


def polars_rows(file: str, snapshot: int | None = None) -> list[dict]:
    import polars

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return sorted_rows(polars.scan_iceberg(file, snapshot_id=snapshot).collect().to_arrow())


READERS = [
    pytest.param(pyiceberg_rows, id="pyiceberg"),
    pytest.param(polars_rows, id="polars"),
    pytest.param(java_rows, id="java", marks=pytest.mark.spark),
]


def own(table, file: str | None = None) -> IcebergReader:
    """The table as the reader written from the specification sees it."""
    file = file or table.publish_iceberg()
    return IcebergReader(json.loads(Path(file.removeprefix("file://")).read_text()), lambda uri: read(uri))


def read(uri: str) -> bytes:
    return Path(uri.removeprefix("file://")).read_bytes()


def same(table, reader, **scan) -> None:
    expected = sorted_rows(table.scan(**scan).to_arrow())
    assert reader(table.publish_iceberg(), scan.get("snapshot")) == expected


@pytest.mark.parametrize("reader", READERS)
def test_rows_of_every_type(lake, reader):
    table = made(lake, [("id", pa.int64()), *((name, type_) for name, (type_, _) in ALL.items())])
    columns = {name: pa.array(values, type_) for name, (type_, values) in ALL.items()}
    table.upsert(pa.table({"id": pa.array([1, 2]), **columns}))
    table.upsert(pa.table({"id": pa.array([2, 3]), **{name: column.slice(0, 2) for name, column in columns.items()}}))
    table.compact()
    found = reader(table.publish_iceberg())
    plain = [{name: dict(value) if name == "m" and value is not None else value for name, value in row.items()} for row in found]
    expected = table.scan().to_arrow().to_pylist()
    by_id = {row["id"]: {**row, "m": dict(row["m"])} for row in expected}
    got = {row["id"]: {**row, "m": _pairs(row["m"])} for row in plain}
    assert got == by_id


def _pairs(value) -> dict:
    return {pair["key"]: pair["value"] for pair in value} if isinstance(value, list) and value else dict(value)


@pytest.mark.parametrize("reader", READERS)
def test_vectors_partitions_and_time_travel(lake, reader):
    columns = [("id", pa.int64()), ("ts", pa.timestamp("us")), ("code", pa.string()), ("v", pa.int32())]
    table = made(
        lake, columns, key=["id", "ts", "code"], partition_by=["days(ts)", "truncate(1, code)", "bucket(2, id)"], options=LAZY
    )
    days = [dt.datetime(1969, 12, 31, 23), dt.datetime(2026, 1, 2), dt.datetime(2026, 1, 3, 4)]

    def rows(numbers, value):
        made = [{"id": n, "ts": days[n % 3], "code": f"{'%ab'[n % 2]}{n}", "v": value} for n in numbers]
        return pa.Table.from_pylist(made, table.schema)

    table.upsert(rows(range(200), 0))
    table.compact()
    table.upsert(rows(range(0, 200, 40), 1))
    table.compact()
    table.delete("v = 0 AND id < 9")
    table.compact()
    assert any(file.dead for file in own(table).files(table.version.number)[0])
    for snapshot in {1, table.version.number - 1, table.version.number}:
        same(table, reader, snapshot=snapshot)


@pytest.mark.parametrize("reader", READERS)
def test_evolved_schemas(lake, reader):
    table = made(lake, [("id", pa.int64()), ("gone", pa.string()), ("n", pa.int32()), ("f", pa.float32())])
    table.upsert(
        pa.table({"id": [1, 2], "gone": ["a", "b"], "n": pa.array([1, 2], pa.int32()), "f": pa.array([1.5, 2], pa.float32())})
    )
    table.compact()
    table.alter(
        drop_column("gone"),
        rename_column("n", "number"),
        change_type("number", "BIGINT"),
        change_type("f", "DOUBLE"),
        add_column("gone", "INT"),
        add_column("later", "STRING", default="x"),
    )
    table.upsert(pa.table({"id": [2, 3], "number": [1 << 40, 3], "f": [0.1, 0.2], "gone": [1, 2], "later": ["y", None]}))
    table.compact()
    same(table, reader)
    same(table, reader, snapshot=1)


@pytest.mark.parametrize("reader", READERS)
def test_tables_without_a_key_and_with_a_null_partition(lake, reader):
    table = made(lake, [("p", pa.string()), ("n", pa.int64())], key=[], partition_by=["p"])
    table.append(pa.table({"p": ["a/b%", None, ""], "n": [1, 2, 3]}))
    table.append(pa.table({"p": [None, "c"], "n": [4, 5]}))
    table.delete("n = 2")
    same(table, reader)


@pytest.mark.spark
def test_java_applies_level_0_and_prunes_by_every_transform(lake):
    columns = [("id", pa.int64()), ("at", pa.timestamp("us", "UTC")), ("local", pa.timestamp("us")), ("code", pa.string())]
    key, parts = ["id", "at", "local", "code"], ["hours(at)", "years(local)", "truncate(2, code)", "bucket(3, id)"]
    table = made(lake, [*columns, ("v", pa.int32())], FILES, key, partition_by=parts)

    def rows(numbers, v):
        at, local = dt.datetime(1969, 12, 31, 22, 30, tzinfo=UTC), dt.datetime(1969, 6, 1)
        of = [
            (n, at + dt.timedelta(hours=n % 4), local + dt.timedelta(days=300 * (n % 2)), f"äß{n % 3}"[n % 2 :]) for n in numbers
        ]
        return pa.Table.from_pylist([dict(zip([*key, "v"], (*row, v), strict=True)) for row in of], table.schema)

    table.upsert(rows(range(24), 0))
    table.compact()
    table.upsert(rows(range(0, 24, 5), 1))
    table.delete_keys(rows([0, 1, 2, 30], 0).drop(["v"]))
    table.upsert(rows([1, 30], 2))
    for snapshot in range(1, table.version.number + 1):
        same(table, java_rows, snapshot=snapshot)
    for where, expression in {
        "id = 5": ("equal", "id", 5),
        "code >= 'ß1'": ("greaterThanOrEqual", "code", "ß1"),
        "at < TIMESTAMP '1970-01-01 00:00:00'": ("lessThan", "at", "1970-01-01T00:00:00+00:00"),
        "local < TIMESTAMP_NTZ '1970-01-01 00:00:00'": ("lessThan", "local", "1970-01-01T00:00:00"),
        "v > 0": ("greaterThan", "v", 0),
    }.items():
        expected = sorted_rows(table.scan(where=where).to_arrow())
        assert 0 < len(expected) < table.scan().count()
        assert java_rows(table.publish_iceberg(), None, expression) == expected, where


def test_a_column_that_iceberg_does_not_widen_is_refused_until_its_files_are_rewritten(lake):
    table = made(lake, [("id", pa.int64()), ("n", pa.int32())])
    table.upsert(pa.table({"id": [1], "n": pa.array([1], pa.int32())}))
    table.alter(change_type("n", "DOUBLE"))
    with pytest.raises(InvalidSchema, match=r"column 'n'.*does not widen"):
        table.publish_iceberg()
    table.overwrite(table.scan().to_arrow())
    found = own(table)
    assert (found.rows(), sorted(found.snapshots)) == ([{"id": 1, "n": 1.0}], [1, 3])


def test_tables_that_cannot_be_published_say_so(lake, tmp_path):
    with pytest.raises(InvalidOption, match=r"without deletion vectors"):
        made(lake, [("id", pa.int64())], {"deletion-vectors.enabled": "false"}).publish_iceberg()
    memory = lsmlake.connect("memory://iceberg")
    memory.create_database("d")
    with pytest.raises(InvalidQuery, match="memory"):
        made(memory, [("id", pa.int64())]).publish_iceberg()


def test_commits_publish_and_keep_only_what_changed(lake):
    table = made(lake, [("id", pa.int64()), ("v", pa.int64())], {"metadata.iceberg": "true"} | LAZY)
    for n in range(1, 25):
        table.upsert(pa.table({"id": [n % 7, n], "v": [n, n]}), compact=bool(n % 3 == 0))
        current = published.current(table.meta)
        assert current.content["current-snapshot-id"] == table.version.number
    found = own(table, published.uri_of(table.meta, table.meta.paths.iceberg(f"v{current.number}.metadata.json")))
    assert sorted_rows(pa.Table.from_pylist(found.rows())) == sorted_rows(table.scan().to_arrow())
    last, before = found.manifests(table.version.number), found.manifests(table.version.number - 1)
    shared = {one["manifest_path"] for one in last} & {one["manifest_path"] for one in before}
    assert shared, "manifests of which nothing changed are inherited"
    folder = Path(found.metadata["location"].removeprefix("file://")) / "metadata"
    named = {Path(uri).name for uri in found.named()} | {"version-hint.text"}
    files = {path.name for path in folder.iterdir() if not path.name.endswith(".metadata.json")}
    assert {name for name in named if not name.startswith("data-")} == files, "files that no snapshot names are gone"
    assert len(list(folder.glob("*.metadata.json"))) == table_metadata.KEPT
    assert (folder / "version-hint.text").read_text() == str(current.number)


def test_a_commit_does_not_fail_with_its_publication_and_the_next_one_catches_up(lake, caplog, monkeypatch):
    table = made(lake, [("id", pa.int64())], {"metadata.iceberg": "true"})
    table.upsert(pa.table({"id": [1]}))
    with monkeypatch.context() as broken:
        broken.setattr(published, "newest", lambda meta: 1 / 0)
        table.upsert(pa.table({"id": [2]}))
        assert "Iceberg metadata was not brought up to date" in caplog.text
    table.upsert(pa.table({"id": [3]}))
    found = own(table, mirror.publish(table.meta).metadata_file)
    assert sorted(found.snapshots) == [1, 2, 3]
    assert sorted(row["id"] for row in found.rows()) == [1, 2, 3]


def test_of_two_publishers_one_begins_again(lake, monkeypatch):
    table = made(lake, [("id", pa.int64())])
    table.upsert(pa.table({"id": [1]}))
    put, others = type(table.meta.env.storage).put_if_absent, []

    def first(self, path, data):
        if path.endswith(".metadata.json") and not others:
            others.append(path)
            lake.table("d.t").publish_iceberg()
        return put(self, path, data)

    monkeypatch.setattr(type(table.meta.env.storage), "put_if_absent", first)
    found = own(table)
    folder = Path(found.metadata["location"].removeprefix("file://")) / "metadata"
    assert {path.name for path in folder.iterdir()} == {
        *(Path(uri).name for uri in found.named() if "/metadata/" in uri),
        "v1.metadata.json",
        "version-hint.text",
    }


def refuse(meta, **how):
    raise StorageFailed("no more")


def test_files_are_deleted_after_the_metadata_that_names_them(lake, monkeypatch):
    table = made(lake, [("id", pa.int64()), ("v", pa.int64())], {"metadata.iceberg": "true"})
    for n in range(6):
        table.upsert(pa.table({"id": [1, 2], "v": [n, n]}))
    table.compact(full=True)
    table.create_tag("kept", snapshot=2)
    files = set(Path(table.meta.env.storage.place("d.db/t")).rglob("data-*.parquet"))
    with monkeypatch.context() as broken:
        broken.setattr(mirror, "publish", refuse)
        with pytest.raises(StorageFailed):
            table.expire_snapshots(retain_max=1, retain_min=1)
    assert set(Path(table.meta.env.storage.place("d.db/t")).rglob("data-*.parquet")) == files
    found = own(table)
    assert sorted(found.snapshots) == [2, table.version.number]
    assert found.metadata["refs"]["kept"] == {"snapshot-id": 2, "type": "tag"}
    assert sorted_rows(pa.Table.from_pylist(found.rows(2))) == sorted_rows(table.scan(tag="kept").to_arrow())
    assert all(read(uri) for uri in found.named())


@pytest.mark.spark
def test_what_other_programs_commit_is_left_out_and_they_delete_no_files(lake):
    table = made(lake, [("id", pa.int64()), ("v", pa.int64())], {"metadata.iceberg": "true"})
    for n in range(3):
        table.upsert(pa.table({"id": [1, 2], "v": [n, n]}))
    theirs, expressions = java_table(table.publish_iceberg())
    with pytest.raises(Exception, match="Cannot expire snapshots: GC is disabled"):
        theirs.expireSnapshots().retainLast(1).commit()
    theirs.newDelete().deleteFromRowFilter(expressions.alwaysTrue()).commit()
    assert any("another program has committed" in str(finding) for finding in table.verify())
    table.remove_orphan_files(older_than=dt.datetime.now(UTC) + dt.timedelta(hours=1))
    table.upsert(pa.table({"id": [3], "v": [9]}))
    for snapshot in range(1, 5):
        same(table, java_rows, snapshot=snapshot)
    assert table.verify() == []


def test_a_renamed_table_is_published_anew(lake):
    table = made(lake, [("id", pa.int64())])
    table.upsert(pa.table({"id": [1, 2]}))
    table.publish_iceberg()
    lake.rename_table("d.t", "d.u")
    table = lake.table("d.u")
    found = own(table)
    assert found.metadata["location"].endswith("/d.db/u")
    assert sorted(row["id"] for row in found.rows()) == [1, 2]


def test_metadata_with_the_addresses_of_an_earlier_release_is_made_anew(lake, monkeypatch):
    """Tables at az:// were published under addresses that no other reader knows."""
    table = made(lake, [("id", pa.int64())])
    table.upsert(pa.table({"id": [1, 2]}))
    monkeypatch.setattr(type(table.meta.env.storage), "url", lambda self, path: f"az://c/{path}")
    table.publish_iceberg()
    table.delete_keys(pa.table({"id": [2]}))
    account = "abfss://c@account.dfs.core.windows.net"
    monkeypatch.setattr(type(table.meta.env.storage), "url", lambda self, path: f"{account}/{path}")
    path = table.publish_iceberg().removeprefix(f"{account}/")
    read = lambda uri: read_bytes(table.meta.env.storage, uri.removeprefix(f"{account}/"))  # noqa: E731
    found = IcebergReader(json.loads(read(path)), read)
    assert found.metadata["location"] == f"{account}/{table.meta.paths.root}"
    assert found.rows() == [{"id": 1}]
    assert table.verify() == []


def test_level_0_is_hidden_on_demand(lake):
    table = made(lake, [("id", pa.int64()), ("v", pa.int64())], FILES)
    table.upsert(pa.table({"id": [1, 2], "v": [1, 1]}))
    table.delete_keys(pa.table({"id": [2]}))
    assert own(table).rows() == [{"id": 1, "v": 1}]
    table.alter(set_option("metadata.iceberg.level0", "false"))
    found = own(table)
    assert (found.rows(), {row["id"] for row in found.rows(1)}) == ([], {1, 2})
    table.compact()
    assert own(table).rows() == [{"id": 1, "v": 1}]


@pytest.mark.parametrize(
    ("level0", "operations"),
    [("true", ["overwrite", "overwrite", "replace", "replace"]), ("false", ["append", "append", "append", "replace"])],
)
def test_readers_of_changes_skip_only_compactions_that_show_the_rows_before(lake, level0, operations):
    """A reader skips snapshots of the operation "replace", so rows must not come with one."""
    table = made(lake, [("id", pa.int64())], FILES | {"metadata.iceberg.level0": level0, "bucket": "1"})
    for id in (1, 2):
        table.upsert(pa.table({"id": [id]}))
    table.compact()
    table.rescale(2)
    found = own(table).metadata["snapshots"]
    assert table.snapshots()["commit_kind"].to_pylist() == ["APPEND", "APPEND", "COMPACT", "COMPACT"]
    assert [one["summary"]["operation"] for one in found] == operations


@pytest.mark.parametrize("level0", ["true", "false"])
@pytest.mark.parametrize(("ages", "operation"), [((0, 0), "replace"), ((9, 0), "overwrite"), ((9, 9), "delete")])
def test_a_compaction_that_drops_expired_rows_is_no_replacement(tmp_path, level0, ages, operation):
    """A reader of changes may skip a compaction only if it dropped no row that expired while it was in the table."""
    lake = new_lake(LocalStorage(tmp_path))
    expiry = {"record-level.expire-time": "1 h", "record-level.time-field": "at", "metadata.iceberg.level0": level0}
    table = made(lake, [("id", pa.int64()), ("at", pa.int64())], FILES | expiry | {"bucket": "1"})
    now_s = table.meta.env.clock() // 1000
    for id, age in enumerate(ages):
        table.upsert(pa.table({"id": [id], "at": [now_s - 3_600 + 100 - age * 11]}))
    table.compact(full=True)
    before = len(own(table).rows())
    table.meta.env.clock.now_ms += 50_000
    number = table.version.number
    if operation == "replace":
        table.rescale(2)
    else:
        table.compact(full=True)
    assert table.version.number > number
    found = own(table)
    assert found.metadata["snapshots"][-1]["summary"]["operation"] == operation
    assert (before, len(found.rows())) == (2, ages.count(0))


def test_the_first_snapshot_that_is_published_is_no_compaction_of_one_that_readers_know(lake):
    table = made(lake, [("id", pa.int64())], FILES)
    table.upsert(pa.table({"id": [1]}))
    table.compact(full=True)
    table.expire_snapshots(retain_max=1, retain_min=1)
    (snapshot,) = own(table).metadata["snapshots"]
    assert snapshot["summary"]["operation"] == "append"


def test_a_table_that_can_no_longer_be_published_still_expires(lake):
    table = made(lake, [("id", pa.int64()), ("v", pa.int64())], {"metadata.iceberg": "true"})
    for n in range(3):
        table.upsert(pa.table({"id": [1, 2], "v": [n, n]}))
    table.alter(set_option("metadata.iceberg", "false"), set_option("deletion-vectors.enabled", "false"))
    table.upsert(pa.table({"id": [1], "v": [9]}))
    assert table.expire_snapshots(retain_max=1, retain_min=1).snapshots
    found = published.current(table.meta).content
    assert (found["snapshots"], "current-snapshot-id" in found, found["refs"]) == ([], False, {})


def test_a_table_in_a_catalog(lake, tmp_path):
    from pyiceberg.catalog import load_catalog

    table = made(lake, [("id", pa.int64())], {"metadata.iceberg.level0": "false"})
    catalog = {"name": "sales", "type": "sql", "uri": f"sqlite:///{tmp_path}/catalog.db"}
    for n in (1, 2):
        table.upsert(pa.table({"id": [n]}))
        table.compact()
        table.publish_iceberg(catalog=catalog, name="shop.orders")
        found = load_catalog(**catalog).load_table("shop.orders")
        assert sorted_rows(found.scan().to_arrow()) == sorted_rows(table.scan().to_arrow())
        found.catalog.close()
    with pytest.raises(StorageFailed, match="the table is published"):
        table.publish_iceberg(catalog={"type": "none"})


def test_an_entry_is_written_again_only_a_few_times(lake, monkeypatch):
    monkeypatch.setattr(iceberg_manifests, "_ENTRIES", 16)
    table = made(lake, [("id", pa.int64())], {"metadata.iceberg": "true"}, key=[])
    for n in range(72):
        table.append(pa.table({"id": [n]}))
    found = own(table)
    lists = [{one["manifest_path"] for one in found.manifests(number)} for number in sorted(found.snapshots)]
    written = [len(after - before) for before, after in pairwise(lists)]
    assert max(written) <= 2 and sum(written) <= 1.25 * len(written) + 1
    assert len(lists[-1]) < 24


def test_a_file_keeps_its_row_ids_and_no_id_is_given_twice(lake):
    table = made(lake, [("id", pa.int64()), ("v", pa.int64())], {"metadata.iceberg": "true", "bucket": "1"} | LAZY)
    for n in range(1, 6):
        table.upsert(pa.table({"id": [n, n + 1], "v": [n, n]}), compact=n % 2 == 0)
    table.compact(full=True)
    found = own(table)
    ids: dict[str, set[int]] = {}
    for number in found.snapshots:
        for file in found.files(number)[0]:
            ids.setdefault(file.uri, set()).add(file.first_row)
            ranges = ids.setdefault("", set())
            ranges.add((file.first_row, file.rows))
    ranges = sorted(ids.pop(""))
    assert all(len(first) == 1 for first in ids.values()) and len(ranges) == len(ids) > 3
    assert all(first + rows <= following for (first, rows), (following, _) in pairwise(ranges))


def test_a_publication_folds_no_files_of_the_table(lake, monkeypatch):
    table = made(lake, [("id", pa.int32()), ("v", pa.int32())], {"bucket": "1", "metadata.iceberg": "true"})
    table.upsert([{"id": number, "v": 0} for number in range(100)])
    table.compact(full=True)
    monkeypatch.setattr(Live, "all", lambda *_: pytest.fail("all live files were folded"))
    for number in range(4):
        table.upsert([{"id": number, "v": 1}], compact=True)
    table.delete("id = 99")
    assert published.current(table.meta).content["current-snapshot-id"] == table.version.number
