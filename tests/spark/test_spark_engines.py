"""Merge engines on Spark: batches, fresh and raw reads with both strategies, and compaction give the expected rows."""

from __future__ import annotations

import random
from itertools import product
from operator import itemgetter

import pyarrow as pa
import pytest
from effort import SCALE
from engine_model import apply_commit
from history import MODES
from merge_setups import SETUPS
from pyspark.sql import functions
from spark_support import same

import lsmlake

pytestmark = [pytest.mark.spark, pytest.mark.in_turn]

COLUMNS = ("k", "a", "b", "c", "d")


def history(kinds: tuple[str, ...], seed: int) -> list[list[tuple]]:
    """Batches of (kind, k, a, b, c, d)."""
    chance = random.Random(seed)
    value = [None, *range(6)]
    return [
        [(chance.choice(kinds), chance.randint(0, 40), *(chance.choice(value) for _ in "abcd")) for _ in range(60)]
        for _ in range(4)
    ]


def frame(spark, rows: list[tuple]):
    """The rows over several partitions; `place` is their order."""
    columns = zip(*[(place, *row) for place, row in enumerate(rows)], strict=True)
    types = [pa.int64(), pa.string(), *[pa.int32()] * 5]
    names = ["place", "op", *COLUMNS]
    data = pa.table([pa.array(c, t) for c, t in zip(columns, types, strict=True)], names=names)
    return spark.createDataFrame(data).repartitionByRange(3, "place").sortWithinPartitions("place")


def check(table: lsmlake.Table, expected: dict[int, dict], mode: str = "fresh") -> None:
    rows = [tuple(row[name] for name in COLUMNS) for row in expected.values()]
    scan = table.scan(mode=mode)
    same(scan.to_spark("native"), as_table(rows, COLUMNS))
    same(scan.to_spark("arrow"), as_table(rows, COLUMNS))
    wanted = [row[:2] for row in rows if row[2] is not None and row[2] > 2]
    same(table.scan(where="b > 2", columns=["k", "a"], mode=mode).to_spark("native"), as_table(wanted, COLUMNS[:2]))


def as_table(rows: list[tuple], names: tuple[str, ...]) -> pa.Table:
    columns = list(zip(*rows, strict=True)) or [()] * len(names)
    return pa.table([pa.array(column, pa.int32()) for column in columns], names=list(names))


RULES = ("first-row", "deduplicate by sequence", "partial-update, aggregates", "aggregation, taking back")
KINDS = ("vectors", "merge on read")
RUNS = [
    (rule, mode)
    for (place, rule), (number, mode) in product(enumerate(RULES), enumerate(KINDS))
    if SCALE >= 1 or place % len(KINDS) == number
]
"""Each rule on each kind of table; on a short run on one of them."""


@pytest.mark.parametrize(("name", "mode"), RUNS)
def test_a_history_through_spark(spark, spark_lake, name, mode):
    setup = SETUPS[name]
    options = MODES[mode] | {"bucket": 2, **setup.options}
    table = spark_lake.create_table("d.t", f"k INT NOT NULL, {setup.ddl}", primary_key=["k"], options=options)
    expected: dict[int, dict] = {}
    deletes: dict[int, dict] = {}
    for number, rows in enumerate(history(setup.kinds, seed=len(name))):
        table.upsert(frame(spark, rows), row_kind="op", compact=number in (0, 2), order_by="place")
        given = [(kind, dict(zip(COLUMNS, values, strict=True))) for kind, *values in rows]
        apply_commit(setup.fold, expected, deletes, given, itemgetter("k"))
        if number in (1, 2):
            check(table, expected)
    table.compact()
    check(table, expected, "raw" if mode == "vectors" else "fresh")
    table.compact(full=True)
    check(table, expected, "raw")
    assert table.verify() == []


def test_an_invalid_row_reaches_the_user_as_the_error_it_is(spark, spark_lake):
    columns = f"k INT NOT NULL, {SETUPS['first-row'].ddl}"
    table = spark_lake.create_table("d.t", columns, primary_key=["k"], options={"merge-engine": "first-row"})
    with pytest.raises(lsmlake.errors.InvalidData, match="first-row does not support deletes"):
        table.upsert(frame(spark, [("-D", 1, 1, 1, 1, 1)]), row_kind="op", order_by="place")
    assert table.snapshots().num_rows == 0


def test_sketches_of_spark_and_ours_are_the_same_bytes(spark, spark_lake):
    """What Spark's aggregates make goes in, what comes out its functions read."""
    options = {
        "merge-engine": "aggregation",
        "fields.people.aggregate-function": "hll_sketch",
        "fields.visits.aggregate-function": "theta_sketch",
    }
    table = spark_lake.create_table("d.t", "k INT, people BINARY, visits BINARY", primary_key=["k"], options=options)
    thetas = hasattr(functions, "theta_sketch_agg")  # from 4.1 on
    visits = "theta_sketch_agg(id)" if thetas else "cast(null as binary)"
    for start in (0, 500):
        people = spark.range(start, start + 1_000)
        table.upsert(
            people.selectExpr("cast(1 as int) as k", "id")
            .groupBy("k")
            .agg(functions.expr("hll_sketch_agg(id) as people"), functions.expr(f"{visits} as visits"))
        )
    (row,) = (
        table.df().selectExpr("hll_sketch_estimate(people)", *(["theta_sketch_estimate(visits)"] if thetas else [])).collect()
    )
    assert abs(row[0] - 1_500) < 60
    assert not thetas or row[1] == 1_500
