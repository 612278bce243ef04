"""`Scan.to_polars` and `Scan.to_duckdb` read the Parquet files themselves, and give the rows of `to_arrow`."""

from __future__ import annotations

import datetime as dt
import random
import re
from collections import Counter
from decimal import Decimal
from pathlib import Path

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from effort import scaled

import lsmlake
from lsmlake import Scan, add_column, change_type, drop_column, move_column, rename_column
from lsmlake.cli.docs import DOCUMENTS
from lsmlake.errors import InvalidQuery

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


@pytest.mark.parametrize("name", ["duckdb", "polars"])
def test_the_program_of_a_document_runs(name, tmp_path, monkeypatch):
    lake = lsmlake.connect(tmp_path / "lake")
    lake.create_database("sales")
    columns = "order_id INT, status STRING, amount DOUBLE"
    orders = lake.create_table("sales.orders", columns, primary_key=["order_id"])
    orders.upsert([{"order_id": 1, "status": "open", "amount": 12.0}, {"order_id": 2, "status": "done", "amount": 3.0}])
    monkeypatch.chdir(tmp_path)
    (program,) = re.findall(r"^```python\n(.*?)^```", DOCUMENTS[name].read_text(), re.M | re.S)
    exec(program, {})
