"""Filters and joins of a DataFrame skip partitions, for all values that directory names can represent."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pyarrow as pa
import pytest
from spark_support import SMALL_FILES, by_strategy, on_connect, plan_of, same

import lsmlake
from lsmlake.errors import InvalidData

pytestmark = pytest.mark.spark

KEEP_DEAD = {"compaction.tier-runs": 50, "compaction.reclaim-dead-percent": 100}


def files_read(frame) -> int:
    """How many data files the DataFrame reads."""
    frame = frame.select("*")  # nothing of it has run yet
    frame.collect()
    return sum(scan.metrics().apply("numFiles").value() for scan in scans_of(frame._jdf.queryExecution().executedPlan()))


def scans_of(plan) -> list:
    """The file scans of a physical plan, those inside finished stages included."""
    kind = plan.getClass().getSimpleName()
    if kind == "AdaptiveSparkPlanExec":
        return scans_of(plan.executedPlan())
    if kind.endswith("QueryStageExec"):
        return scans_of(plan.plan())
    children = plan.children()
    found = [scan for i in range(children.size()) for scan in scans_of(children.apply(i))]
    return [plan] if kind == "FileSourceScanExec" else found


@pytest.fixture
def days(lake):
    """Ten days in a table whose partition column is not the first, some with dead rows, one without rows of today's columns."""
    schema = "id BIGINT NOT NULL, v BIGINT, dt DATE, s STRING"
    table = lake.create_table("d.days", schema, primary_key=["dt", "id"], partition_by=["dt"], options=KEEP_DEAD)
    table.upsert({"id": range(100), "v": range(100), "dt": [DAYS[i % 10] for i in range(100)], "s": list(map(str, range(100)))})
    table.upsert({"id": [0, 1], "v": [-1, -1], "dt": DAYS[:2], "s": ["0", "1"]})
    return table


DAYS = [dt.date(2026, 1, 1) + dt.timedelta(days=i) for i in range(10)]


@pytest.mark.connect(short="connect")
def test_a_filter_on_a_frame_reads_the_files_of_its_partitions_only(spark, spark_lake, days, capsys):
    table = spark_lake.table("d.days")
    for day, files in (("2026-01-01", 2), ("2026-01-05", 1)):
        found = table.df().where(f"dt = '{day}'")
        assert "PartitionFilters: [isnotnull(dt" in plan_of(found, capsys)
        same(found, table.scan(where=f"dt = '{day}'").to_arrow())
        if not on_connect():
            assert files_read(found) == files
    assert table.df().columns == ["id", "v", "dt", "s"]
    assert "skip directories: 12 of 12 files" in table.scan().explain()
    same(table.df(columns=["s", "dt"]), days.scan(columns=["s", "dt"]).to_arrow())


@pytest.mark.connect
def test_a_join_prunes_partitions_by_what_the_other_side_holds(spark, spark_lake, days, capsys):
    small = spark.createDataFrame(pa.table({"dt": DAYS[4:6], "name": ["x", "y"]}))
    joined = spark_lake.table("d.days").df().join(small.where("name = 'x'"), "dt")
    assert "dynamicpruning" in plan_of(joined, capsys)
    assert joined.count() == 10
    if not on_connect():
        assert files_read(joined) == 1


TYPES = {
    "string": ["a b", "a/b", "a=b", "50%", "%2F", "né😀", "..", "x:y", " lead", "{a,b}", "01", "1e3", "2026-01-01", "null"],
    "int": [1, -5, 0, 2**31 - 1],
    "bigint": [-(2**63), 7],
    "date": [dt.date(2026, 1, 1), dt.date(1500, 1, 1), dt.date(9999, 12, 31)],
    "boolean": [True, False],
    "decimal(10,2)": [Decimal("1.50"), Decimal("-0.10"), Decimal("0.00"), Decimal("99999999.99")],
    "decimal(38,10)": [Decimal("0.0000000000"), Decimal("-9999999999999999999999999999.9999999999")],
    "tinyint": [-128, 127],
    "double": [1e300, -0.5],
    "timestamp": [dt.datetime(2026, 1, 1, 1, 2, 3, 4, tzinfo=dt.timezone.utc)],
    "timestamp_ntz": [dt.datetime(2026, 1, 1, 1, 2, 3), dt.datetime(1500, 1, 1)],
    "binary": [b"\x00\xff", b"a"],
}
BY_DIRECTORY = {"string", "int", "bigint", "date", "boolean", "decimal(10,2)", "decimal(38,10)"}


@pytest.mark.parametrize("type_", TYPES)
def test_values_of_partitions_are_those_that_were_written(spark, lake, spark_lake, type_):
    """Null beside each; where a directory's name cannot tell, the values come from the files."""
    table = lake.create_table("d.t", f"p {type_}, id INT, v INT", primary_key=["p", "id"], partition_by=["p"], options=KEEP_DEAD)
    values = [*TYPES[type_], None, *([""] if type_ == "string" else [])]
    both = {"p": values * 2, "id": [i // len(values) for i in range(2 * len(values))], "v": list(range(2 * len(values)))}
    table.upsert(pa.table(both, schema=table.schema))
    table.upsert(pa.table({"p": values[:1], "id": [0], "v": [-1]}, schema=table.schema))
    attached = spark_lake.table("d.t")
    same(attached.df(), table.scan().to_arrow())
    same(attached.df().where("p is null"), table.scan(where="p is null").to_arrow())
    together = by_strategy(attached.scan(), SMALL_FILES)
    same(together, table.scan().to_arrow())
    same(together.where("p is null"), table.scan(where="p is null").to_arrow())
    skipped = len(TYPES[type_]) if type_ in BY_DIRECTORY else 0
    assert f"skip directories: {skipped + bool(skipped)} of {len(values) + 1} files" in attached.scan().explain()
    frame = attached.df()
    if skipped:
        for some in (TYPES[type_][::2], TYPES[type_][1::2]):
            found = frame.where(frame["p"].isin(some)).groupBy("p").count().collect()
            assert sorted(found) == sorted((value, 2) for value in some)


def test_two_partition_columns_and_a_null_in_one(spark, lake, spark_lake):
    table = lake.create_table(
        "d.t", "b STRING, a INT, id INT, v INT", primary_key=["a", "b", "id"], partition_by=["a", "b"], options=KEEP_DEAD
    )
    values = [(a, b) for a in (1, 2, None) for b in ("x", "y/z", None)]
    table.upsert({"b": [b for _, b in values], "a": [a for a, _ in values], "id": [0] * 9, "v": range(9)})
    table.upsert({"b": ["x"], "a": [1], "id": [0], "v": [-1]})
    frame = spark_lake.table("d.t").df()
    same(frame, table.scan().to_arrow())
    together = by_strategy(spark_lake.table("d.t").scan(), SMALL_FILES)
    same(together, table.scan().to_arrow())
    assert together.where("a = 1 and b = 'y/z'").collect() == [("y/z", 1, 0, 1)]
    found = frame.where("a = 1 and b = 'y/z'")
    assert (found.collect(), files_read(found)) == ([("y/z", 1, 0, 1)], 1 + 5)  # and those of null partitions


def written(frame, how: str, table) -> None:
    table.overwrite(frame, **({"where": "dt <= '2026-01-03'"} if how == "where" else {"truncate": True} if how == "all" else {}))


OVERWRITES = [
    pytest.param("data", False, marks=pytest.mark.connect(short="connect")),
    ("data", True),
    ("where", False),
    ("all", True),
]


@pytest.mark.parametrize("how, collected", OVERWRITES)
def test_an_overwrite_with_a_frame_is_one_with_its_rows(spark, spark_lake, lake, days, how, collected):
    """Whether tasks write the rows, or the driver because the last batch was small."""
    table = spark_lake.table("d.days")
    frame = spark.sql("SELECT id, id * 10 AS v, DATE'2026-01-02' AS dt, 'new' AS s FROM range(5)").repartition(3)
    if not collected:
        table.alter(lsmlake.set_option("write.collect-rows", 0))
    twin = lake.create_table("d.twin", days.schema, primary_key=["dt", "id"], partition_by=["dt"], options=KEEP_DEAD)
    twin.upsert(table.scan().to_arrow())
    written(frame, how, table)
    written(frame.toArrow(), how, twin)
    same(table.df(), twin.scan().to_arrow())
    same(table.changes(2, mode="delta").to_spark(), table.changes(2, mode="delta").to_arrow())
    assert table.verify() == []
    with pytest.raises(InvalidData, match="outside of the partitions"):
        table.overwrite(frame, where="dt = '2026-01-03'")
    assert table.truncate().total_rows == table.df().count() == 0
