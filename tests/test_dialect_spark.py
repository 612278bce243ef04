"""What `spark_expressions.txt` says of Spark is what Spark does."""

from __future__ import annotations

import pytest
from spark_expressions import by_spark, table, view

pytestmark = pytest.mark.spark


def test_the_table_holds_what_spark_does(spark):
    view(spark)
    expressions = list(table())[::13]  # a sample: each costs a job
    assert {expression: by_spark(spark, expression) for expression in expressions} == {e: table()[e] for e in expressions}
