"""What `spark_expressions.txt` and the files beside it say of Spark is what Spark does."""

from __future__ import annotations

import pytest
from spark_expressions import by_spark, queries, query_by_spark, table, view, zoned

pytestmark = [pytest.mark.spark, pytest.mark.in_turn]


def test_the_table_holds_what_spark_does(spark):
    view(spark)
    expressions = list(table())[::13]  # a sample: each costs a job
    assert {expression: by_spark(spark, expression) for expression in expressions} == {e: table()[e] for e in expressions}
    for zone, expected in zoned().items():
        spark.conf.set("spark.sql.session.timeZone", zone)
        try:
            sample = list(expected)[::16]
            assert {expression: by_spark(spark, expression) for expression in sample} == {e: expected[e] for e in sample}
        finally:
            spark.conf.set("spark.sql.session.timeZone", "UTC")
    sample = list(queries())[::8]
    assert {query: query_by_spark(spark, query) for query in sample} == {query: queries()[query] for query in sample}
