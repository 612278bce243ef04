"""Spark decides what SQL means (`tests/spark_sql`) in short: some of Spark's golden files, some random statements beside PySpark,
and the judge, who must find what is wrong."""

from __future__ import annotations

import datetime as dt
import os
from decimal import Decimal

import pyarrow as pa
import pytest
from spark_sql import beside
from spark_sql.golden import ZONE, Statement, statements
from spark_sql.hive import lines
from spark_sql.judge import difference
from spark_sql.run import golden
from spark_sql.verdict import BOTH, EQUAL, FOREIGN, REFUSED, WRONG, of_error

from bench.peers.setup import NotReady
from lsmlake.errors import InvalidQuery

FILES = (
    "comparator", "conditional-functions", "cte-nested", "except-all", "generators", "having", "null-handling",
    "order-by-nulls-ordering", "subquery/exists-subquery/exists-orderby-limit", "subquery/in-subquery/in-set-operations",
    "try_cast", "using-join",
)  # fmt: skip
"""Golden files, of which each takes a part of a second."""


@pytest.mark.parametrize("file", FILES)
def test_golden_files(file):
    try:
        statements(file)
    except NotReady as why:
        if os.environ.get("LSMLAKE_REQUIRE_SPARK") == "1":
            pytest.fail(f"the tests of Spark cannot be had: {why}", pytrace=False)
        pytest.skip(f"the tests of Spark cannot be had: {why}")
    found = list(golden([file], seed=1))
    assert [one for one in found if one.kind in (WRONG, FOREIGN)] == []
    assert sum(one.kind == EQUAL for one in found) > sum(one.kind == REFUSED for one in found)


@pytest.mark.spark
def test_random_statements_beside_spark(spark):
    found = [*beside.queries(spark, range(5)), *beside.changes(spark, range(2))]
    assert [one for one in found if one.kind in (WRONG, FOREIGN)] == []
    assert any(one.kind == EQUAL for one in found)


def test_values_are_printed_as_hive_does():
    moment = dt.datetime(2026, 1, 1, 8, 0, 0, 500000, dt.timezone.utc)
    rows = pa.table(
        {
            "d": [1e7, 0.001, -0.0, float("nan")],
            "c": [Decimal("1.50"), None, Decimal("0.00"), Decimal("-3.10")],
            "t": pa.array([moment, None, None, None], pa.timestamp("us", "UTC")),
            "a": [["x", None], [], None, ["y"]],
            "m": pa.array([[(2, True), (1, None)], None, [], None], pa.map_(pa.int32(), pa.bool_())),
        }
    )
    assert lines(rows, ZONE) == [
        ("1.0E7", "1.50", "2026-01-01 00:00:00.5", '["x",null]', "{1:null,2:true}"),
        ("0.001", "NULL", "NULL", "[]", "NULL"),
        ("-0.0", "0.00", "NULL", "NULL", "{}"),
        ("NaN", "-3.10", "NULL", '["y"]', "NULL"),
    ]


def test_other_rows_and_types_are_found():
    asked = Statement("f", 1, "SELECT a, b FROM t", "struct<(a, b:int):int,b:double>", "1\t0.30000000000000004\n2\tNULL")
    right = pa.table({"a": pa.array([2, 1], pa.int32()), "b": [None, 0.3]})
    assert not difference(asked, right, ZONE)
    for wrong in (
        right.slice(1),
        pa.concat_tables([right, right]),
        right.set_column(1, "b", pa.array([None, 0.4])),
        right.set_column(0, "a", pa.array([2, 1])),
    ):
        assert difference(asked, wrong, ZONE)


def test_an_error_is_refused_in_both_wrong_or_foreign():
    text = "SELECT soundex(a) FROM varchar"
    refusal = InvalidQuery("the function soundex is not supported in process", cure="attach Spark")
    one = of_error("f 1", text, refusal, "", failed=False)
    assert (one.kind, one.reason, one.detail) == (REFUSED, "the function _ is not supported in process", "soundex")
    assert of_error("f 1", text, refusal, "", failed=True).kind == BOTH
    assert of_error("f 1", text, InvalidQuery("the statement failed"), "", failed=False).kind == WRONG
    assert of_error("f 1", text, InvalidQuery("no", found="Binder Error: x"), "", failed=True).kind == FOREIGN
    assert of_error("f 1", text, InvalidQuery("no", found="varchar"), "", failed=False).kind == REFUSED
    assert of_error("f 1", text, KeyError("value"), "", failed=True).kind == FOREIGN
