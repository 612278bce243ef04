"""Statistics and system tables on Spark, against those of this process."""

from __future__ import annotations

import random
from collections.abc import Mapping

import pyarrow as pa
import pytest
from analyzed import VALUES, statistics
from strategies import ColumnKind, Shape, multiset, rows_of

from lsmlake.errors import InvalidQuery
from lsmlake.warehouse import connect

pytestmark = [pytest.mark.spark, pytest.mark.in_turn]


SOME = ("boolean", "decimal_38_10", "float", "string", "binary", "date", "timestamp", "timestamp_ntz")
FEW = {name: Shape.of("bigint").kind(name) for name in ("d", "tags")}


def filled(lake, name: str, values: Mapping[str, ColumnKind], **options: object):
    """Rows at level 0, superseded and deleted ones."""
    shape = Shape.of("bigint", "string", values)
    table, chance = shape.create(lake, name, bucket=2, **options), random.Random(3)
    for start, compact in ((0, None), (10, None), (25, False)):
        codes = {shape.key_of(row): row for row in (some_row(shape, code, chance) for code in range(start, start + 30))}
        table.upsert(shape.table(list(codes.values()), table.schema), compact=compact)
    table.delete_keys(table.scan(limit=9).to_arrow().select(list(table.primary_key)), compact=False)
    return table


def some_row(shape: Shape, code: int, chance: random.Random) -> tuple:
    values = (chance.choice([None, *kind.values]) for _, kind in shape.columns[2:])
    return (*shape.key_values(code), *values)


def test_an_analysis_finds_the_same(spark, spark_lake):
    table = filled(spark_lake, "d.analyzed", {**FEW, **{name: VALUES[name] for name in SOME}})
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


def test_the_tables_of_rows_are_dataframes(spark, spark_lake):
    table = filled(spark_lake, "d.log", FEW, changelog_producer="lookup")
    table.compact()
    here = connect(spark_lake.env.storage.root).table(table.name)
    for name, how in (("audit_log", {"snapshot": 4}), ("ro", {}), ("binlog", {"start": 1})):
        expected, frame = here.system_table(name, **how).to_arrow(), table.system_table(name, **how).to_spark()
        found = frame.toArrow()
        assert found.column_names == expected.column_names
        assert multiset(rows_of(found.cast(nullable(expected.schema)))) == multiset(rows_of(expected)), (name, how)
    assert set(found["rowkind"].to_pylist()) == {"+I", "+U", "-D"}, "of the binlog"
    named = spark_lake.create_table("d.named", "k INT, RowKind STRING", primary_key=["k"])
    for name in ("audit_log", "binlog"):
        with pytest.raises(InvalidQuery, match="the table has a column 'rowkind'"):
            named.system_table(name).to_spark()
        with pytest.raises(InvalidQuery, match="needs Spark"):
            here.system_table(name).to_spark()


def nullable(schema: pa.Schema) -> pa.Schema:
    return pa.schema([field.with_nullable(True) for field in schema])
