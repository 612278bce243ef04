"""Statistics and system tables on Spark, against those of this process."""

from __future__ import annotations

import random

import pytest
from strategies import Shape
from test_statistics import VALUES, statistics

from lsmlake.warehouse import connect

pytestmark = pytest.mark.spark


def filled(lake, name: str, **options: object):
    """All types; rows at level 0, superseded and deleted ones."""
    shape = Shape.of("bigint", "string", {**VALUES, "d": Shape.of("bigint").kind("d"), "tags": Shape.of("bigint").kind("tags")})
    table, chance = shape.create(lake, name, bucket=2, **options), random.Random(3)
    for start, compact in ((0, None), (10, None), (25, False)):
        codes = {shape.key_of(row): row for row in (some_row(shape, code, chance) for code in range(start, start + 30))}
        table.upsert(shape.table(list(codes.values()), table.schema), compact=compact)
    table.delete_keys(table.scan(limit=9).to_arrow().select(list(table.primary_key)), compact=False)
    return table


def some_row(shape: Shape, code: int, chance: random.Random) -> tuple:
    values = (chance.choice([None, *kind.values]) for _, kind in shape.columns[2:])
    return (*shape.key_values(code), *values)


@pytest.mark.parametrize("vectors", [True, False])
def test_an_analysis_finds_the_same(spark, spark_lake, vectors):
    table = filled(spark_lake, f"d.a{int(vectors)}", deletion_vectors__enabled=vectors)
    here = connect(spark_lake.env.storage.root).table(table.name)
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        table.analyze()
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
    on_spark = statistics(table)
    here.analyze()
    expected = statistics(here)
    assert on_spark.pop("snapshot_id") + 1 == expected.pop("snapshot_id")
    for name, found in on_spark["colstat"].items():
        distinct, other = found.pop("distinctCount"), expected["colstat"][name].pop("distinctCount")
        assert distinct == (other if other is None else pytest.approx(other, abs=1)), name
    assert on_spark == expected
    table.analyze([])
    assert (statistics(table)["mergedRecordCount"], statistics(table)["colstat"]) == (expected["mergedRecordCount"], {})
