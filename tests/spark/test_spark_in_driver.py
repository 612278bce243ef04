"""Statements that the driver executes as without Spark give what Spark gives; all others are Spark's."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from decimal import Decimal

import pyarrow as pa
import pytest
from effort import examples
from hypothesis import given
from hypothesis import strategies as st
from naive import unreferenced
from spark_expressions import ROWS as EDGES
from spark_expressions import view
from spark_support import configured, same

from lsmlake import DmlReport, set_option
from lsmlake.api.lake import Lake
from lsmlake.api.table import Table
from lsmlake.dialect.row_evaluation import columns_of, type_of_expression
from lsmlake.dialect.scope import Scope
from lsmlake.errors import InvalidQuery
from lsmlake.spark.statements import by_key, by_position

pytestmark = pytest.mark.spark

SIZE = "write.driver-statement-size"
DDL = "id INT NOT NULL, k INT, v BIGINT, c DECIMAL(10, 2), x DOUBLE, s STRING, b BOOLEAN, d DATE, ts TIMESTAMP"
SMALL = {"target-file-size": "1 kb", "file.block-size": "200 b"}
KINDS: dict[str, dict] = {
    "key": {"primary_key": ["id"], "options": {"bucket": 2}},
    "vectors": {"options": SMALL, "partition_by": ["k"]},
    "copy on write": {"options": SMALL | {"deletion-vectors.enabled": "false"}},
}
STATEMENTS = [
    "UPDATE d.t SET v = v * 2 - k, c = c * 3 - 0.5, s = s || '!' WHERE id % 4 = 1 AND NOT (k IS NULL OR v > 300)",
    "UPDATE d.t SET x = CASE WHEN x <=> double('nan') THEN 0 ELSE x END WHERE id < 9",
    "UPDATE d.t SET x = v / k, b = v > 10 AND b, ts = TIMESTAMP '2026-03-29 02:30:00' WHERE k <> 0 AND d <= DATE '2026-01-09'",
    r"DELETE FROM d.t WHERE s LIKE 'a\\_%' ESCAPE '\\' OR s LIKE '%0' OR c IN (0.1, 3) OR ts > '2026-01-04'",
    "UPDATE d.t AS o SET v = 7, k = NULL WHERE o.id BETWEEN 20 AND '24'",
    "DELETE FROM d.t WHERE id + k = 31 OR x = 0.1 OR b <=> NULL AND id > 36",
    "UPDATE d.t SET v = -v",
    "DELETE FROM d.t WHERE v = -8",
    "DELETE FROM d.t WHERE id = id AND k = 77",
]
MERGES = [
    "WHEN MATCHED AND s.v > t.k THEN UPDATE SET v = t.v + s.v, s = s.s WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT *",
    "WHEN MATCHED THEN UPDATE SET c = 1.25, x = s.v WHEN NOT MATCHED AND s.id % 2 = 0 THEN INSERT (id, v) VALUES (s.id, 5)",
]
ROWS = [
    {
        "id": n,
        "k": n % 3 or None,
        "v": 10 * n,
        "c": Decimal(n) / 10,
        "x": [0.1, float("nan"), None, -0.0][n % 4],
        "s": [f"a_{n}", f"a{n}", None][n % 3],
        "b": [True, False, None][n % 3],
        "d": dt.date(2026, 1, 1 + n % 28),
        "ts": dt.datetime(2026, 1, 1 + n % 5, tzinfo=dt.timezone.utc),
    }
    for n in range(40)
]


@pytest.fixture
def by_spark(monkeypatch) -> list:
    """The statements that Spark executed."""
    executed = []
    for module in (by_key, by_position):
        run = module.run
        monkeypatch.setattr(module, "run", lambda statement, run=run: executed.append(statement) or run(statement))
    return executed


def two(spark_lake: Lake, kind: str) -> tuple[Table, Table]:
    """A table, and one with the same rows whose statements Spark executes."""
    made = []
    for name, size in (("d.t", "1 mb"), ("d.o", "0")):
        table = spark_lake.create_table(name, DDL, **KINDS[kind])
        table.alter(set_option(SIZE, size))
        (table.upsert if table.primary_key else table.append)(ROWS)
        made.append(table)
    return made[0], made[1]


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_rows_and_reports_as_spark(spark, spark_lake, kind, by_spark):
    table, other = two(spark_lake, kind)
    given_ = {"id": [3, 5, 8, 90, 91], "v": [1, None, 300, 5, 6], "ts": [dt.datetime(2026, 5, 5, tzinfo=dt.timezone.utc)] * 5}
    source = spark.createDataFrame(pa.table(given_)).selectExpr(
        "cast(id as int) id", "1 as k", "v", "1.5BD as c", "0D as x", "'m' as s", "true as b", "date(null) as d", "ts"
    )
    with configured(spark, spark__sql__session__timeZone="Europe/Berlin"):
        merges = [f"MERGE INTO d.t AS t USING given AS s ON t.id = s.id {clauses}" for clauses in MERGES]
        for text in (STATEMENTS + merges)[list(KINDS).index(kind) :: len(KINDS)]:
            by_spark.clear()
            found = spark_lake.sql(text, tables={"given": source}).to_arrow().drop_columns(["snapshot"])
            assert len(by_spark) == ("double(" in text), text
            by_spark.clear()
            expected = spark_lake.sql(text.replace("d.t ", "d.o "), tables={"given": source}).to_arrow()
            assert found.to_pylist() == expected.drop_columns(["snapshot"]).to_pylist(), text
            same(table.scan().to_arrow(), other.scan().to_arrow())
    assert table.verify() == [] and unreferenced(table) == []


SPARKS = {
    "a function": "UPDATE d.t SET s = upper(s)",
    "a cast": "UPDATE d.t SET s = CAST(v AS STRING)",
    "a query": "DELETE FROM d.t WHERE id % 2 = (SELECT 1)",
    "a decimal that would be rounded": "UPDATE d.t SET c = c / 3",
    "a division by zero": "UPDATE d.t SET v = 1 % (id - id)",
    "a key": "UPDATE d.t SET id = id + 1",
}
SETTINGS = {
    "spark.sql.ansi.enabled": "false",
    "spark.sql.caseSensitive": "true",
    "spark.sql.decimalOperations.allowPrecisionLoss": "false",
}
PLAIN = "DELETE FROM d.t WHERE id % 2 = 1"


def test_other_statements_are_those_of_spark(spark, spark_lake, monkeypatch):
    """Also statements that fail in the driver."""
    table, _ = two(spark_lake, "key")
    executed: list = []
    monkeypatch.setattr(by_key, "run", lambda statement: executed.append(statement) or DmlReport())
    before = table.version.number
    for what, text in SPARKS.items():
        executed.clear()
        if what == "a key":
            with pytest.raises(InvalidQuery, match="id"):
                spark_lake.sql(text)
        else:
            assert spark_lake.sql(text) is not None and len(executed) == 1, what
    untyped = spark.createDataFrame(pa.table({"id": [1]})).selectExpr("id", "null as v")
    executed.clear()
    table.merge(untyped, "t.id = s.id").when_matched_update({"v": "s.v"}).execute()
    assert len(executed) == 1, "a source with a column without a type"
    for name, value in SETTINGS.items():
        executed.clear()
        with configured(spark, **{name.replace(".", "__"): value}):
            spark_lake.sql(PLAIN)
        assert len(executed) == 1, name
    for size in ("100 b", "600 b"):  # less than the keys of 40 rows; less than 20 changed rows
        executed.clear()
        table.alter(set_option(SIZE, size))
        spark_lake.sql(PLAIN)
        assert len(executed) == 1, size
    assert table.version.number == before + 2 and unreferenced(table) == [], "the table was altered, and nothing else"


# -- expressions --------------------------------------------------------------------------------------------------------

_NUMBERS = st.sampled_from(["i", "l", "c", "f", "d", "3", "-2", "1.50", "0.001", "1e2", "7L", "NULL", "'10'"])
_TEXTS = st.sampled_from(["s", "'ab'", "''", "' 7 '", "s || '%'", "NULL"])
_TIMES = st.sampled_from(["dt", "ts", "DATE '2026-11-22'", "TIMESTAMP '2026-11-22 05:06:07.8'", "'1969-12-31'", "NULL"])
_COMPARED = st.sampled_from(["=", "<>", "<", ">=", "<=>"])


def _numbers(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.one_of(
        st.builds("({} {} {})".format, inner, st.sampled_from(["+", "-", "*"]), inner),
        st.builds("({} {} {})".format, inner, st.sampled_from(["/", "%", "DIV"]), st.sampled_from(["3", "-2", "0.7", "1e1"])),
        st.builds("(- {})".format, inner),
        st.builds("CASE WHEN {} > 0 THEN {} ELSE {} END".format, inner, inner, inner),
    )


_NUMBER = st.recursive(_NUMBERS, _numbers, max_leaves=3)
_CONDITION = st.recursive(
    st.one_of(
        st.builds("{} {} {}".format, _NUMBER, _COMPARED, _NUMBER),
        st.builds("{} {} {}".format, _TEXTS, _COMPARED, _TEXTS),
        st.builds("{} {} {}".format, _TIMES, _COMPARED, _TIMES),
        st.builds("{} LIKE {}".format, _TEXTS, st.sampled_from(["'a%'", "'_b'", "'%7%'", "''", "NULL"])),
        st.builds("{} IN ({}, {})".format, _NUMBER, _NUMBERS, _NUMBERS),
        st.builds("{} NOT BETWEEN {} AND {}".format, _NUMBER, _NUMBERS, _NUMBERS),
        st.builds("{} IS NOT NULL".format, _NUMBER),
        st.just("b"),
    ),
    lambda inner: (
        st.builds("({} {} {})".format, inner, st.sampled_from(["AND", "OR"]), inner) | st.builds("(NOT {})".format, inner)
    ),
    max_leaves=3,
)


def test_operators_compute_what_spark_computes(spark):
    """If Spark computes a value, the driver computes the same, or fails, and Spark computes it."""
    scope = Scope.of(EDGES.schema)
    view(spark)

    def here(text: str) -> str | None:
        try:
            kind = type_of_expression(text, scope)
            made = columns_of({"x": text}, scope, pa.schema([("x", kind)])).over(EDGES)
        except InvalidQuery:
            return None
        return str(made["x"].to_pylist())

    def by_spark(found: Sequence[str]) -> dict[str, str]:
        """Of all expressions in one job; one by one only if it fails."""
        if not found:
            return {}
        try:
            rows = spark.table("spark_expressions").selectExpr(*(f"{one} AS c{at}" for at, one in enumerate(found))).toArrow()
        except Exception:  # of many classes
            half = len(found) // 2
            parts = [dict([*found.items()][:half]), dict([*found.items()][half:])]
            return (
                {text: made for part in parts for text, made in by_spark(part).items()} if half else dict.fromkeys(found, "error")
            )
        return {text: str(column.to_pylist()) for text, column in zip(found, rows.columns, strict=True)}

    @examples(2)
    @given(st.lists(_NUMBER | _CONDITION, min_size=40, max_size=40, unique=True))
    def check(texts: list[str]) -> None:
        found = {text: made for text in texts if (made := here(text)) is not None}
        assert len(found) > 10
        assert found == by_spark([*found])

    check()
