"""Expressions whose meaning differs between SQL engines, with rows to evaluate them on and what Spark makes of them.

`spark_expressions.txt` has one line per expression: the expression, a tab, then Spark's type and its value for each row of
`ROWS`, or `error`. `python tests/support/spark_expressions.py` asks Spark again and writes the file.
"""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from pathlib import Path

import pyarrow as pa

UTC = dt.timezone.utc
FILE = Path(__file__).parent / "spark_expressions.txt"
ZONES = Path(__file__).parent / "spark_zones.txt"
"""As `FILE`, with a session's time zone before each expression: what the zone changes, at both edges of daylight saving, too."""
QUERIES = Path(__file__).parent / "spark_queries.txt"
"""Whole queries, each with the types of its columns and its rows, in order, as texts."""
ROWS = pa.table(
    {
        "i": [1, None, -(2**31)],
        "l": [5, None, 2**40],
        "c": [Decimal("1.50"), None, Decimal("-99999999.99")],
        "f": [0.1, None, math.nan],
        "d": [math.nan, None, 0.5],
        "s": ["ab", None, " 7 "],
        "b": [True, None, False],
        "dt": [dt.date(2026, 11, 22), None, dt.date(1969, 12, 31)],
        "ts": [dt.datetime(2026, 11, 22, 5, 6, 7, 800000, UTC), None, dt.datetime(1969, 12, 31, 23, 59, 59, 999999, UTC)],
        "st": [{"a": 1, "Inner": {"t": "x"}}, None, {"a": None, "Inner": None}],
        "tags": [["a", "b"], None, []],
    },
    schema=pa.schema(
        [
            ("i", pa.int32()),
            ("l", pa.int64()),
            ("c", pa.decimal128(10, 2)),
            ("f", pa.float32()),
            ("d", pa.float64()),
            ("s", pa.string()),
            ("b", pa.bool_()),
            ("dt", pa.date32()),
            ("ts", pa.timestamp("us", "UTC")),
            ("st", pa.struct([("a", pa.int32()), ("Inner", pa.struct([("t", pa.string())]))])),
            ("tags", pa.list_(pa.string())),
        ]
    ),
)
ERROR = "error"


def table() -> dict[str, str]:
    """Expression -> what Spark makes of it."""
    return dict(line.split("\t") for line in FILE.read_text().splitlines())


def zoned() -> dict[str, dict[str, str]]:
    """Time zone -> expression -> what Spark makes of it in a session of this zone."""
    found: dict[str, dict[str, str]] = {}
    for line in ZONES.read_text().splitlines():
        zone, expression, expected = line.split("\t")
        found.setdefault(zone, {})[expression] = expected
    return found


def queries() -> dict[str, str]:
    """Query -> what Spark makes of it."""
    return dict(line.split("\t") for line in QUERIES.read_text().splitlines())


def answer(kinds: list[str], rows: list[tuple[str | None, ...]]) -> str:
    """The types and rows of a query as a line of the file has them."""
    return f"{', '.join(kinds)} {[tuple(row) for row in rows]}"


def outcome(kind: str, values: list) -> str:
    """A type and values as a line of the file has them."""
    kind = kind.lower().replace("`", "").replace(": ", ":").replace(", ", ",").replace("null", "void")
    return f"{kind} {[seen(value) for value in values]}".replace("\n", "\\n")


def seen(value: object) -> object:
    if isinstance(value, dt.datetime):
        return value.astimezone(UTC).isoformat() if value.tzinfo else value.isoformat()
    if isinstance(value, dict):
        return {key: seen(item) for key, item in value.items()}
    if isinstance(value, list):
        return [seen(item) for item in value]
    return value if isinstance(value, (str, int, float, list, type(None))) else str(value)


def by_spark(spark, expression: str) -> str:
    """What Spark makes of an expression."""
    try:
        frame = spark.sql(f"SELECT {expression} AS x FROM spark_expressions")
        kind = frame.schema[0].dataType.simpleString()
        if kind.startswith("interval"):  # the values are their texts: Arrow does not have all of them
            frame = frame.selectExpr("CAST(x AS STRING) AS x")
        return outcome(kind, frame.toArrow()["x"].to_pylist())
    except Exception:  # of many classes
        return ERROR


def query_by_spark(spark, query: str) -> str:
    """What Spark makes of a query."""
    try:
        frame = spark.sql(query)
        kinds = [field.dataType.simpleString() for field in frame.schema]
        named = frame.toDF(*(f"c{number}" for number in range(len(kinds))))
        rows = named.selectExpr(*(f"CAST(c{number} AS STRING)" for number in range(len(kinds)))).collect()
        return answer(kinds, rows)
    except Exception:  # of many classes
        return ERROR


def view(spark) -> None:
    """Registers the rows."""
    spark.createDataFrame(ROWS).coalesce(1).createOrReplaceTempView("spark_expressions")


if __name__ == "__main__":
    from tempfile import mkdtemp

    from spark_support import classic_session

    session = classic_session(Path(mkdtemp()))
    view(session)
    lines = [f"{expression}\t{by_spark(session, expression)}\n" for expression in table()]
    FILE.write_text("".join(lines))
    lines = []
    for zone, expressions in zoned().items():
        session.conf.set("spark.sql.session.timeZone", zone)
        lines += [f"{zone}\t{expression}\t{by_spark(session, expression)}\n" for expression in expressions]
    ZONES.write_text("".join(lines))
    session.conf.set("spark.sql.session.timeZone", "UTC")
    QUERIES.write_text("".join(f"{query}\t{query_by_spark(session, query)}\n" for query in queries()))
