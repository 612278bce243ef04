"""`Scan.to_polars` and `Scan.to_duckdb` read the Parquet files themselves, and give the rows of `to_arrow`."""

from __future__ import annotations

import datetime as dt
import gc
import json
import random
from collections import Counter
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from effort import scaled

import lsmlake
from lsmlake import Scan, add_column, change_type, drop_column, move_column, rename_column
from lsmlake.api.table import Table
from lsmlake.errors import Corrupt, InvalidQuery, SnapshotNotFound
from lsmlake.read import native

TYPES = {
    "b": ("BOOLEAN", (True, False)),
    "i": ("INT", (-(2**31), -1, 0, 7, 2**31 - 1)),
    "l": ("BIGINT", (-(2**63), 0, 5, 2**63 - 1)),
    "f": ("FLOAT", (0.0, -0.0, 1.5, 0.1, float("nan"), float("inf"))),
    "g": ("DOUBLE", (0.0, -0.0, 2.5, float("nan"), float("-inf"))),
    "s": ("STRING", ("", "a", "ab%", "a_b", "a\\b", "A", "naïve\n")),
    "y": ("BINARY", (b"", b"\0", b"'\xff")),
    "d": ("DATE", (dt.date(1, 1, 1), dt.date(2024, 2, 29), dt.date(9999, 12, 31))),
    "t": ("TIMESTAMP", (dt.datetime(1900, 1, 1, tzinfo=dt.UTC), dt.datetime(2024, 3, 31, 1, 30, 0, 1, tzinfo=dt.UTC))),
    "n": ("TIMESTAMP_NTZ", (dt.datetime(1900, 1, 1), dt.datetime(2024, 3, 31, 2, 30, 0, 1))),
    "c": ("DECIMAL(9,2)", (Decimal("-1.25"), Decimal("0.00"), Decimal("9999999.99"))),
    "x": ("STRUCT<u: INT, v: STRING>", ({"u": 1, "v": "a"}, {"u": None, "v": None})),
    "a": ("ARRAY<INT>", ([], [1, None])),
    "m": ("MAP<STRING, INT>", ([], [("k", 1)])),
}
WIDER = {"i": "BIGINT", "f": "DOUBLE", "c": "DECIMAL(20,4)", "d": "TIMESTAMP_NTZ"}
ADDED = {
    "INT": 41,
    "STRING": "it's",
    "DECIMAL(9,2)": Decimal("1.50"),
    "DATE": dt.date(2024, 1, 1),
    "DOUBLE": 0.5,
    "BINARY": b"'\0",
}
CONDITIONS = (
    "id > 20",
    "id IN (1, 5, 7, 30) OR i IS NULL",
    "g > 1",
    "NOT (f <= 1.5)",
    "f = 0.1 OR g = 0",
    "g IN (double('NaN'), 0)",
    "s LIKE 'a%' OR s LIKE '%\\\\_%'",
    "s LIKE 'a_b'",
    "(s = 'a') IS NULL",
    "d >= DATE '2024-01-01'",
    "t < TIMESTAMP '2020-01-01 00:00:00'",
    "n = TIMESTAMP_NTZ '2024-03-31 02:30:00.000001'",
    "c > 0.5 AND b",
    "y = X'00'",
    "x.u = 1",
    "i < l",
    "i = id",
    "NOT (b <=> true)",
    "l IN (5, 0)",
    "p = 'it''s' OR p IS NULL",
    "1 = 2",
)


def bag(rows: pa.Table) -> Counter[str]:
    return Counter(repr(tuple(_plain(value) for value in row.values())) for row in rows.to_pylist())


def _plain(value: object) -> object:
    if isinstance(value, dt.datetime):
        return value.astimezone(dt.UTC) if value.tzinfo else value
    if isinstance(value, float):
        return value + 0.0
    return value


def same(scan: Scan, connection: duckdb.DuckDBPyConnection) -> None:
    expected = scan.to_arrow()
    lazy, relation = scan.to_polars(), scan.to_duckdb(connection)
    assert lazy.collect_schema().names() == relation.columns == expected.column_names
    assert lazy.collect_schema() == pl.from_arrow(expected.schema.empty_table()).schema
    assert relation.types == connection.from_arrow(expected).types
    found = {"polars": lazy.collect().to_arrow().cast(expected.schema), "duckdb": relation.to_arrow_table().cast(expected.schema)}
    for engine, rows in found.items():
        if scan.limit is None or scan.order_by_key is not None:
            assert bag(rows) == bag(expected), engine
        else:
            assert rows.num_rows == expected.num_rows, engine
            assert not bag(rows) - bag(Scan.to_arrow(_without_limit(scan))), engine


def _without_limit(scan: Scan) -> Scan:
    return Scan(scan.meta, scan.runtime, scan.where, scan.columns, scan.mode, scan.moment)


class World:
    """A table that random writes, deletes and alterations change."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.dice = random.Random(seed)
        lake = lsmlake.connect(folder / f"lake {seed} 'quoted'")
        lake.create_database("d")
        columns = ", ".join(f"{name} {type_}" for name, (type_, _) in TYPES.items())
        options = {"bucket": 2, "deletion-vectors.enabled": seed % 4 != 3, "target-file-size": "4 kb", "file.block-size": "1 kb"}
        key, parts = (["id", "p"], ["p"]) if seed % 2 else (["id"], [])
        self.table = lake.create_table(
            "d.t", f"id INT, p STRING, {columns}", primary_key=key, partition_by=parts, options=options
        )
        self.renamed: dict[str, str] = {}

    def rows(self) -> pa.Table:
        schema, dice = self.table.scan().to_batches().schema, self.dice
        keys = dice.sample(range(60), dice.randrange(1, 30))
        made = []
        for key in keys:
            row = {"id": key, "p": dice.choice(["a/b", "it's", "€"])}
            for name, (_, values) in TYPES.items():
                now = self.renamed.get(name, name)
                value = dice.choice((None, *values))
                midnight = isinstance(value, dt.date) and not isinstance(value, dt.datetime)
                if now in schema.names and midnight and pa.types.is_timestamp(schema.field(now).type):
                    value = dt.datetime(value.year, value.month, value.day)
                row[now] = value
            made.append(row)
        fields = [field for field in schema if not field.name.startswith("added")]
        return pa.Table.from_pylist(made, pa.schema(fields))

    def step(self) -> None:
        dice, table = self.dice, self.table
        verb = dice.choice(("upsert", "upsert", "upsert", "delete", "alter", "compact"))
        if verb == "upsert":
            table.upsert(self.rows(), compact=dice.random() < 0.6, cast=True)
        elif verb == "delete":
            table.delete(f"id % 7 = {dice.randrange(7)}" if dice.random() < 0.5 else f"id = {dice.randrange(60)}")
        elif verb == "compact":
            table.compact(full=dice.random() < 0.5)
        else:
            self.alter()

    def alter(self) -> None:
        dice, names = self.dice, self.table.schema.names
        kind = dice.choice(("add", "rename", "widen", "move", "drop"))
        if kind == "add":
            type_, value = dice.choice(list(ADDED.items()))
            self.table.alter(add_column(f"added{len(names)}", type_, default=dice.choice((None, value))))
        elif kind == "rename":
            name = dice.choice(list(TYPES))
            now = self.renamed.get(name, name)
            if now in names and now in ("l", "s", "l2", "s2"):
                self.renamed[name] = now[0] + ("" if now[1:] else "2")
                self.table.alter(rename_column(now, self.renamed[name]))
        elif kind == "widen":
            name = dice.choice(list(WIDER))
            self.table.alter(change_type(name, WIDER[name]))
        elif kind == "move":
            self.table.alter(move_column("g", first=True))
        elif "added" in names[-1]:
            self.table.alter(drop_column(names[-1]))


@pytest.mark.parametrize("seed", range(scaled(4)))
def test_both_engines_read_the_rows_of_a_random_table(seed, tmp_path):
    world = World(tmp_path, seed)
    table, dice = world.table, world.dice
    connection = duckdb.connect()
    connection.execute(f"SET TimeZone = '{dice.choice(['UTC', 'America/New_York', 'Asia/Kathmandu'])}'")
    same(table.scan(), connection)
    for _ in range(12):
        world.step()
    same(table.scan(), connection)
    same(table.scan(mode="raw"), connection)
    same(table.scan(snapshot=dice.randrange(1, table.snapshots().num_rows + 1)), connection)
    names = table.schema.names
    for where in dice.sample(CONDITIONS, 9):
        try:
            scan = table.scan(where=where, columns=dice.sample(names, dice.randrange(1, 4)))
            scan.plan()
        except InvalidQuery as error:
            assert "unknown column" in str(error) and world.renamed
            continue
        same(scan, connection)
    for limit in (0, 3, 2**70):
        same(table.scan(limit=limit, where=dice.choice((None, "id > 9"))), connection)
    same(table.scan(limit=4, order_by_key="desc"), connection)
    same(table.scan(where=pc.field("id") > 9, columns=["b"]), connection)
    with connection:
        assert connection.sql("SELECT * FROM duckdb_tables()").fetchall() == []
        assert connection.sql("SELECT * FROM duckdb_views() WHERE NOT internal").fetchall() == []


def orders(folder: Path, name: str = "d.t", **options: object) -> lsmlake.Table:
    """Rows 0 to 99 of which ten are replaced: by vectors, or by a merge of files."""
    lake = lsmlake.connect(folder)
    if "d" not in lake.databases():
        lake.create_database("d")
    table = lake.create_table(name, "id INT, v STRING, w DOUBLE", primary_key=["id"], options={"bucket": 1, **options})
    table.upsert([{"id": number, "v": "old", "w": 0.5} for number in range(100)])
    table.compact(full=True)
    table.upsert([{"id": number, "v": "new", "w": float("nan")} for number in range(0, 100, 10)])
    return table


def newest(table: lsmlake.Table) -> list[dict[str, object]]:
    return [{"id": number, "v": "newest", table.schema.names[-1]: None} for number in range(200)]


VECTORS, MERGED = {}, {"deletion-vectors.enabled": False}


def count(rows: duckdb.DuckDBPyRelation | pl.LazyFrame, value: str) -> int:
    if isinstance(rows, pl.LazyFrame):
        return rows.filter(pl.col("v") == value).collect().height
    return rows.filter(f"v = '{value}'").aggregate("count(*)").fetchall()[0][0]


SCANS = {
    "all": {},
    "condition": {"where": "id >= 0"},
    "order": {"order_by_key": "asc", "limit": 1000},
    "pyarrow": {"where": pc.field("id") >= 0},
}


@pytest.mark.parametrize("options", [VECTORS, MERGED], ids=["vectors", "merged"])
@pytest.mark.parametrize("arguments", SCANS.values(), ids=SCANS)
def test_rows_outlive_the_table_handle_and_stay_those_of_their_snapshot(tmp_path, arguments, options):
    def made() -> list[object]:
        scan = orders(tmp_path, **options).scan(**arguments)
        return [scan.to_polars(), scan.to_duckdb(duckdb.connect())]

    found = made()
    gc.collect()
    other = lsmlake.connect(tmp_path).table("d.t")
    for _ in range(2):
        assert [count(rows, "new") for rows in found] == [10, 10]
        other.upsert(newest(other), compact=True)
        other.alter(rename_column(other.schema.names[-1], f"w{other.version.number}"))
        assert [count(rows, "newest") for rows in found] == [0, 0]
    assert count(other.scan(**arguments).to_duckdb(), "newest") == 200


def test_a_handle_sees_each_commit_though_it_keeps_what_it_found(tmp_path):
    table = orders(tmp_path)
    for number in range(3):
        for _ in range(2):
            scan = table.scan()
            same(scan, duckdb.connect())
            same(table.scan(where="id < 50", columns=["v"]), duckdb.connect())
            assert scan.to_polars().collect().height == 100 - number
        table.delete(f"id = {number}")


def test_a_snapshot_that_expired_is_an_error_that_says_so(tmp_path):
    for name, options in (("d.v", VECTORS), ("d.m", MERGED)):
        table = orders(tmp_path, name, **options)
        lazy, relation = table.scan().to_polars(), table.scan().to_duckdb(duckdb.connect())
        table.compact(full=True)
        table.upsert(newest(table), compact=True)
        table.expire_snapshots(retain_max=1, retain_min=1)
        # the engine reads files itself and says which one is gone; what PyArrow reads says that the snapshot has expired
        expired = "snapshot 3 has expired while it was read; read the latest snapshot"
        gone = r"(?s)No (such file|files found).*v/bucket-0/data-"
        with pytest.raises(FileNotFoundError if name == "d.v" else SnapshotNotFound, match=gone if name == "d.v" else expired):
            lazy.collect()
        with pytest.raises(duckdb.Error, match=gone if name == "d.v" else expired):
            relation.fetchall()


@pytest.mark.parametrize("options", [VECTORS, MERGED], ids=["vectors", "merged"])
def test_names_that_look_like_patterns(tmp_path, options):
    lake = lsmlake.connect(tmp_path)
    lake.create_database("d")
    names = ["k", "*", "^k$", "^.*$", "%", "s"]
    rows = [{"k": n, "*": n + 10, "^k$": n + 20, "^.*$": n + 30, "%": n + 40, "s": {"*": n, "^x$": -n, "x": 0}} for n in range(4)]
    table = lake.create_table_from("d.t", pa.Table.from_pylist(rows).select(names), primary_key=["k"], options=options)
    table.delete("k = 1")
    table.alter(rename_column("%", "a*"))
    with duckdb.connect() as connection:
        for where in (None, "`*` > 10", "`^k$` = 22", "`^.*$` IN (30, 33) AND `a*` = 43", "s.`*` = 2", "s.`^x$` = -2"):
            for columns in (None, ["*"], ["^k$", "k"], ["s", "^.*$"]):
                same(table.scan(where=where, columns=columns), connection)


def test_a_connection_keeps_its_settings_and_has_many_relations(tmp_path):
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'Asia/Kathmandu'; SET threads = 2; SET preserve_insertion_order = false")
    settings = connection.sql("SELECT name, value FROM duckdb_settings()").fetchall()
    first, second = orders(tmp_path, "d.v"), orders(tmp_path, "d.m", **MERGED)
    ours, theirs = first.scan().to_duckdb(connection), second.scan().to_duckdb(connection)
    assert ours.set_alias("a").join(theirs.set_alias("b"), "a.id = b.id").filter("a.v = b.v").shape[0] == 100
    assert ours.union(first.scan(where="id < 5").to_duckdb(connection)).shape[0] == 105
    assert connection.sql("SELECT name, value FROM duckdb_settings()").fetchall() == settings


def test_a_connection_without_access_to_files_reads_through_arrow(tmp_path):
    table = orders(tmp_path)
    connection = duckdb.connect()
    connection.execute("SET enable_external_access = false")
    for arguments in ({}, {"where": "id < 50 AND v = 'new'"}, {"columns": ["v"], "limit": 7}):
        same(table.scan(**arguments), connection)
    assert count(table.scan().to_duckdb(connection), "new") == 10
    with pytest.raises(duckdb.PermissionException):
        connection.read_parquet(str(tmp_path / "d.db" / "t" / "*" / "*.parquet"))


def test_duckdb_plans_with_the_number_of_rows_and_not_with_that_of_the_first_file(tmp_path):
    table = orders(tmp_path)
    files = table.files()
    assert sorted(files["record_count"].to_pylist()) == [10, 100] and sum(files["deleted_record_count"].to_pylist()) == 10
    with duckdb.connect() as connection:
        table.scan().to_duckdb(connection).create_view("orders")
        ((_, plan),) = connection.sql("EXPLAIN (FORMAT JSON) SELECT max(v) FROM orders").fetchall()
    scans = [node for node in _nodes(json.loads(plan)) if node["name"].strip() == "READ_PARQUET"]
    assert [node["extra_info"]["Estimated Cardinality"] for node in scans] == ["100"]


def _nodes(nodes: list[dict]) -> Iterator[dict]:
    for node in nodes:
        yield node
        yield from _nodes(node["children"])


def test_what_arrow_reads_is_only_what_a_query_needs(tmp_path, monkeypatch):
    asked: list[tuple[str, ...]] = []
    read = native.read_plan
    monkeypatch.setattr(native, "read_plan", lambda plan: asked.append(plan.columns) or read(plan))
    scan = orders(tmp_path, **MERGED).scan()
    relation = scan.to_duckdb(duckdb.connect())
    assert relation.filter("w = 0.5").project("v").distinct().fetchall() == [("old",)]
    assert relation.aggregate("count(*)").fetchall() == [(100,)]
    assert scan.to_polars().select(pl.col("v").unique()).collect().height == 2
    assert all(columns in (("v", "w"), ("w", "v"), ("id",), ("v",)) for columns in asked)


FILTERS = (
    "g > 1", "g <= 2.5", "NOT (f <= 1.5)", "g = 'nan'::DOUBLE", "f = 0.5::FLOAT",
    "s LIKE 'a%'", "s >= 'A' AND b", "i IS NULL", "l IN (5, 0)",
    "d >= DATE '2024-01-01'", "y = '\\x00'::BLOB", "t < TIMESTAMPTZ '2020-01-01 00:00:00+00'",
    "n = TIMESTAMP '2024-03-31 02:30:00.000001'", "c > 0.5", "x.u = 1", "len(a) = 2 OR i = id", "p = 'it''s' OR p IS NULL",
)  # fmt: skip


def test_duckdb_filters_what_arrow_reads_as_it_does_itself(tmp_path):
    world = World(tmp_path, seed=3)  # without deletion vectors: rows must be merged
    for _ in range(4):
        world.table.upsert(world.rows(), cast=True)
    connection = duckdb.connect()
    expected, relation = connection.from_arrow(world.table.scan().to_arrow()), world.table.scan().to_duckdb(connection)
    for condition in FILTERS:
        found = relation.filter(condition).project("id, s, y").to_arrow_table()
        assert bag(found) == bag(expected.filter(condition).project("id, s, y").to_arrow_table()), condition
    assert relation.limit(3).shape[0] == 3


# --- damage ---


def damaged(table: Table, where: float) -> Path:
    """Flips a bit of the only data file, at this part of its length or, from the end, at this negative number of bytes."""
    (file,) = Path(table.meta.env.storage.root).rglob("data-*.parquet")
    content = bytearray(file.read_bytes())
    content[int(where * len(content)) if where > 0 else int(where)] ^= 4
    file.unlink()  # it may be a link
    file.write_bytes(content)
    return file


WAYS = {
    "polars": lambda table, **settings: table.scan().to_polars(**settings).collect(),
    "duckdb": lambda table, **settings: table.scan().to_duckdb(**settings).to_arrow_table(),
}


@pytest.fixture(params=["written", "imported"])
def of_one_file(request, tmp_path) -> Table:
    """A table with one file; an imported one has no checksum of the whole."""
    rows = pa.table({"k": range(5000), "v": [number * 7919 % 5003 / 7 for number in range(5000)]})
    lake = lsmlake.connect(tmp_path / "lake")
    lake.create_database("d")
    if request.param == "written":
        return lake.create_table_from("d.t", rows, primary_key=["k"])
    pq.write_table(rows, tmp_path / "x.parquet", write_page_checksum=True)
    lake.import_parquet(tmp_path / "x.parquet", "d.t")
    return lake.table("d.t")


@pytest.mark.parametrize("way", WAYS)
def test_damage_of_pages_is_found_on_request(of_one_file, way):
    expected = WAYS[way](of_one_file)
    assert WAYS[way](of_one_file, verify=True).shape == expected.shape
    file = damaged(of_one_file, 0.5)
    fresh = lsmlake.connect(of_one_file.meta.env.storage.root).table("d.t")
    for _ in range(2):
        with pytest.raises(Corrupt, match=file.name):
            WAYS[way](fresh, verify=True)
    with pytest.raises(Corrupt, match=file.name):
        fresh.scan().to_arrow()


@pytest.mark.parametrize("way", [*WAYS, "sql"])
def test_damage_of_a_footer_is_always_found(of_one_file, way):
    file = damaged(of_one_file, -60)
    lake = lsmlake.connect(of_one_file.meta.env.storage.root)
    read = (lambda table: lake.sql("SELECT sum(v) FROM d.t")) if way == "sql" else WAYS[way]
    with pytest.raises(Corrupt, match=f"{file.name}: data file has a damaged footer"):
        read(lake.table("d.t"))


def test_what_is_checked_is_told(of_one_file):
    assert "checksums of footers checked, those of pages with verify=True" in of_one_file.scan().explain()


@pytest.mark.parametrize("compact", [True, False], ids=["dead", "superseded"])
@pytest.mark.parametrize("where", ["10 / v > 4", "k < 5 OR CAST(s AS INT) < 5", "NOT (1 % v = 1) AND k < 4"])
def test_a_row_that_is_no_longer_there_fails_no_condition(lake, where: str, compact: bool):
    options = {"compaction.tier-runs": 50, "compaction.reclaim-dead-percent": 100}
    table = lake.create_table("d.t", "k INT NOT NULL, v INT, s STRING", primary_key=["k"], options=options)
    table.upsert([{"k": k, "v": k, "s": str(k) if k else "no number"} for k in range(100)])
    table.upsert([{"k": 0, "v": 1, "s": "1"}], compact=compact)
    rows = {k: (k or 1) for k in range(100)}
    expected = {
        "10 / v > 4": [k for k, v in rows.items() if 10 / v > 4],
        "k < 5 OR CAST(s AS INT) < 5": [k for k, v in rows.items() if k < 5 or v < 5],
        "NOT (1 % v = 1) AND k < 4": [k for k, v in rows.items() if 1 % v != 1 and k < 4],
    }[where]
    scan = table.scan(where=where, columns=["k"])
    found = {
        "to_arrow": scan.to_arrow()["k"].to_pylist(),
        "to_duckdb": [k for (k,) in scan.to_duckdb().fetchall()],
        "to_polars": scan.to_polars().collect()["k"].to_list(),
        "sql": lake.sql(f"SELECT k FROM d.t WHERE {where}").to_arrow()["k"].to_pylist(),
    }
    assert {way: sorted(keys) for way, keys in found.items()} == dict.fromkeys(found, expected)
    assert table.delete(where).deleted == len(expected)
