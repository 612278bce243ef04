"""Altered tables on Spark: files of every schema are scanned natively and give the rows of the embedded reader."""

from __future__ import annotations

import datetime as dt
import zipfile
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from effort import SCALE
from spark_support import SMALL_FILES, by_strategy, plan_of, same

import lsmlake
from lsmlake.api.table import Table
from lsmlake.errors import InvalidData

pytestmark = [pytest.mark.spark, pytest.mark.in_turn]

STRATEGIES = ("native", "arrow", SMALL_FILES)
IN_TURN = STRATEGIES if SCALE >= 1 else ("native",)
"""A short run leaves to the first checks of each table what tasks read by our own reader."""
DDL = """id BIGINT, day STRING, a INT, short SMALLINT, f FLOAT, dec DECIMAL(5,2), date DATE, text STRING,
    p STRUCT<x: INT, y: STRING>, l ARRAY<STRUCT<q: INT>>, m MAP<STRING, STRUCT<z: INT>>"""


def row(i: int, **other: object) -> dict:
    made = {"id": i, "day": f"d{i % 2}", "a": i, "short": i, "f": i + 0.5, "dec": Decimal("1.25") * i, "text": f"t{i}"}
    made |= {"date": dt.date(2020, 1, 1 + i), "p": {"x": i, "y": str(i)} if i % 3 else None}
    return made | {"l": [{"q": i}, None, {"q": None}] if i % 2 else None, "m": [("k", {"z": i})]} | other


def made(lake: lsmlake.Lake, **options: object) -> Table:
    """Rows in files without and with deleted rows, and at level 0, in two partitions."""
    options = {"bucket": 2, "compaction.tier-runs": 50, "compaction.reclaim-dead-percent": 100} | options
    table = lake.create_table("d.t", DDL, primary_key=["id", "day"], partition_by=["day"], options=options)
    write(table, range(10))
    write(table, range(3, 6), a=100)
    write(table, range(7, 9), compact=False, a=200)
    return table


def write(table: Table, ids, compact: bool | None = None, **other: object) -> None:
    found = [row(i, **other) for i in ids]
    types = pa.schema([table.schema.field(name) for name in found[0]])
    table.upsert(pa.Table.from_pylist(found, types), compact=compact)


def agree(embedded: Table, spark: Table, strategies: tuple[str, ...] = STRATEGIES, **how: object) -> int:
    expected, schemas = embedded.scan(**how).to_arrow(), set()
    for strategy in strategies:
        found = by_strategy(spark.scan(**how), strategy)
        same(found, expected)
        schemas.add(found.schema.json())
    assert len(schemas) == 1
    return expected.num_rows


WIDENINGS = {
    "a": ("BIGINT", "a > 4"),
    "short": ("DECIMAL(12,2)", "short = 5"),
    "f": ("DOUBLE", "f < 4"),
    "dec": ("DECIMAL(20,4)", "dec = 5"),
    "date": ("TIMESTAMP_NTZ", "date = timestamp_ntz'2020-01-05 00:00:00'"),
}


def test_widened_columns_are_scanned_once_with_pushed_filters(lake, spark_lake, capsys):
    table = made(lake)
    table.alter(*(lsmlake.change_type(name, type_) for name, (type_, _) in WIDENINGS.items()))
    table.alter(lsmlake.add_column("n", "INT"), lsmlake.add_column("p.n", "STRING"))
    spark = spark_lake.table("d.t")
    assert agree(table, spark) == 10
    for _, where in WIDENINGS.values():
        assert 0 < agree(table, spark, where=where) < 10, where
    assert agree(table, spark, where="a = 5000000000") == 0, "a literal beyond the type in the file"
    assert agree(table, spark, where="n IS NULL AND p.n IS NULL") == 10
    write(table, [11], a=5_000_000_000, short=Decimal("5.00"), date=dt.datetime(2020, 1, 5))
    assert agree(table, spark, where="a = 5000000000") == 1
    table.compact(full=True)
    plan = plan_of(spark.df(where="a > 4"), capsys)
    assert "GreaterThan(a,4)" in plan and plan.count("FileScan") == 1


ALTERATIONS = {
    "renamed": [lsmlake.rename_column("a", "b"), lsmlake.rename_column("text", "a")],
    "defaults": [
        lsmlake.add_column("i", "INT", default=-7),
        lsmlake.add_column("s", "STRING", default="it's \\ ü", first=True),
        lsmlake.add_column("d", "DECIMAL(10,2)", default="1.5"),
        lsmlake.add_column("b", "BINARY", default=b"\0'"),
        lsmlake.add_column("t", "TIMESTAMP", default="2020-01-01 00:00:00.000001"),
        lsmlake.add_column("nt", "TIMESTAMP_NTZ", default="1582-10-10 00:00:01"),
        lsmlake.add_column("day2", "DATE", default=dt.date(2020, 2, 29)),
        lsmlake.add_column("f2", "DOUBLE", default=float("nan")),
        lsmlake.add_column("ok", "BOOLEAN NOT NULL", default=True),
    ],
    "nested": [
        lsmlake.rename_column("p.y", "text"),
        lsmlake.add_column("p.n", "INT", default=7),
        lsmlake.rename_column("l.element.q", "r"),
        lsmlake.change_type("m.value.z", "BIGINT"),
        lsmlake.add_column("m.value.w", "STRING", default="w"),
    ],
    "dropped and added again": [
        lsmlake.drop_column("text"),
        lsmlake.add_column("text", "STRING"),
        lsmlake.drop_column("p.x"),
        lsmlake.add_column("p.x", "STRING"),
    ],
    "other fields only": [lsmlake.add_column("l.element.n", "INT"), lsmlake.drop_column("l.element.q")],
    "the key renamed": [lsmlake.rename_column("id", "number"), lsmlake.rename_column("day", "part")],
    "moved": [
        lsmlake.move_column("m", first=True),
        lsmlake.move_column("day", after="p"),
        lsmlake.move_column("p.y", first=True),
    ],
}
FILTERS = {
    "renamed": ("b > 4 AND a <> 't7'", "a = 't3'"),
    "defaults": ("i = -7 AND ok", "s LIKE 'it%'", "d > 1 AND nt < timestamp_ntz'1700-01-01 00:00:00'"),
    "nested": ("p.n = 7", "p.text = '4'"),
    "dropped and added again": ("text IS NULL", "text = 't3'"),
    "other fields only": ("l IS NULL",),
    "the key renamed": ("number = 4", "part = 'd1' AND number > 3"),
    "moved": ("day = 'd0'",),
}


ON_CONNECT = "renamed"
"""Columns found by id; the plans of the other alterations are made by the same server."""


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.connect(short="classic")) if name == ON_CONNECT else name for name in ALTERATIONS],
)
def test_files_of_an_older_schema_give_the_rows_of_the_embedded_reader(lake, spark_lake, name):
    table = made(lake)
    table.alter(*ALTERATIONS[name])
    spark = spark_lake.table("d.t")
    assert agree(table, spark) == 10
    for where in FILTERS[name]:
        agree(table, spark, ("native",), where=where)  # tasks filter as one process does
    table.upsert(table.scan(limit=2).to_arrow(), compact=False)
    agree(table, spark)
    agree(table, spark, IN_TURN, columns=list(reversed(table.schema.names))[:2])
    agree(table, spark, IN_TURN, snapshot=3)
    same(spark.changes(1, 3).to_spark(), table.changes(1, 3).to_arrow())
    spark.compact(full=True)
    assert agree(table, spark, IN_TURN) == 10


@pytest.mark.connect(short="connect")
def test_a_dataframe_omits_columns_and_adds_new_ones(lake, spark_lake, spark):
    table = made(lake)
    table.alter(lsmlake.add_column("i", "INT", default=5), lsmlake.add_column("p.n", "INT"))
    on_spark = spark_lake.table("d.t")
    text = "20L as id, 'd0' as day, 1 as a, 1S as short, 1F as f, 1.25BD as dec, date'2020-01-01' as date, 't' as text"
    nested = "named_struct('x', 1, 'y', 'y') as p, array(named_struct('q', 1)) as l, map('k', named_struct('z', 1)) as m"
    batch = spark.sql(f"SELECT {text}, {nested}")
    on_spark.upsert(batch)
    found = table.get({"id": 20, "day": "d0"})
    assert (found["i"], found["p"]) == (5, {"x": 1, "y": "y", "n": None})
    more = spark.sql(f"SELECT {text}, {nested}, 7L as count, named_struct('u', 1) as s")
    with pytest.raises(InvalidData, match="extra columns"):
        on_spark.upsert(more)
    on_spark.upsert(more, evolve=True)
    assert table.get({"id": 20, "day": "d0"})["s"] == {"u": 1}
    on_spark.alter(lsmlake.set_option("write.merge-schema", "true"))
    on_spark.upsert(spark.sql(f"SELECT {text}, {nested}, 7L as count, named_struct('u', 1, 'v', 2) as s"))
    assert table.get({"id": 20, "day": "d0"})["s"] == {"u": 1, "v": 2}
    agree(table, on_spark)


def test_files_of_iceberg_tables_are_scanned_natively(lake, spark_lake, tmp_path):
    """Adopted files, of partitions with transforms and of columns that were altered in every way; some under a primary key."""
    with zipfile.ZipFile(Path(__file__).parents[1] / "golden" / "iceberg-tables.zip") as packed:
        packed.extractall(tmp_path / "golden")
    for name, key in (("v2", ()), ("v3", ()), ("evolved", ()), ("evolved", ("id",))):
        table = f"d.{name}{len(key)}"
        partitions = {"partition_by": []} if key else {}
        report = lake.import_iceberg(str(tmp_path / "golden" / name), table, key, **partitions)
        assert report.adopted
        agree(lake.table(table), spark_lake.table(table))


def test_a_column_that_no_file_has_may_be_null_whatever_its_default(lake, spark_lake):
    """As it may once a file has it; else the schema of a DataFrame would change with the first row."""
    table = lake.create_table("d.defaults", "id INT, s STRUCT<a: INT>", primary_key=["id"])
    table.upsert([{"id": 1, "s": {"a": 2}}])
    moment = dt.datetime(2020, 1, 1, tzinfo=dt.timezone.utc)
    values = {"BINARY": b"x", "TIMESTAMP": moment, "STRING": "it's", "BOOLEAN": True, "DATE": moment.date(), "DOUBLE": 1.5}
    table.alter(*(lsmlake.add_column(type_.lower(), type_, default=value) for type_, value in values.items()))
    table.alter(lsmlake.add_column("s.b", "BINARY"))
    assert agree(table, spark_lake.table("d.defaults")) == 1
    assert all(field.nullable for field in spark_lake.table("d.defaults").df().schema)
    (row,) = spark_lake.table("d.defaults").df().collect()
    assert (bytes(row.binary), row.string, row.boolean, row.double) == (b"x", "it's", True, 1.5)
