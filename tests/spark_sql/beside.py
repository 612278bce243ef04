"""Random statements in this process, beside a session of PySpark: queries over the same rows, changes of the same tables."""

from __future__ import annotations

import datetime as dt
import random
import re
import tempfile
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import lsmlake
from lsmlake.errors import InvalidData
from spark_sql.grammar import ARRAY, BIGINT, BOOL, DATE, DECIMAL, DOUBLE, INT, STRING, TABLES, Grammar
from spark_sql.judge import rows_differ
from spark_sql.layouts import write
from spark_sql.verdict import BOTH, EQUAL, WRONG, Outcome, of_error
from spark_sql.views import DATABASE, Views

_BUGS = re.compile(r"SQLSTATE: XX000|INTERNAL_ERROR|NoSuchElementException")
"""Errors of Spark that say that it failed itself: no answer."""
_TYPES = {
    INT: pa.int32(),
    BIGINT: pa.int64(),
    DOUBLE: pa.float64(),
    DECIMAL: pa.decimal128(10, 2),
    STRING: pa.string(),
    BOOL: pa.bool_(),
    DATE: pa.date32(),
    ARRAY: pa.list_(pa.int32()),
}
_VALUES = {
    INT: (None, 0, 1, 2, 3, -1, 7),
    BIGINT: (None, 0, 1, 5, 2**40),
    DOUBLE: (None, 0.0, 0.5, -2.25, 7.0, float("nan")),
    DECIMAL: (None, Decimal("0.00"), Decimal("1.25"), Decimal("-3.10"), Decimal("99999.99")),
    STRING: (None, "", "a", "b", "ab", "B c", "x_1"),
    BOOL: (None, True, False),
    DATE: (None, *(dt.date(2026, month, 15) for month in range(1, 10)), dt.date(2024, 2, 29)),
    ARRAY: (None, [], [1], [2, None, 1], [3, 3]),
}
_ROWS = {"t": 24, "u": 12, "r": 8}


def rows_of(table: str, seed: int) -> pa.Table:
    """Random rows. The first column is unique, but for that of u."""
    dice, columns = random.Random(f"{seed} {table}"), TABLES[table]
    made = {name: [dice.choice(_VALUES[kind]) for _ in range(_ROWS[table])] for name, kind in columns.items()}
    if table != "u":
        made[next(iter(columns))] = list(range(_ROWS[table]))
    return pa.table(made, schema=pa.schema([(name, _TYPES[kind]) for name, kind in columns.items()]))


def queries(spark: SparkSession, seeds: range) -> Iterator[Outcome]:
    """The outcome of a random query for each seed."""
    for seed in seeds:
        if seed % 50 == 0 or seed == seeds[0]:
            views = _lake(spark, seed)
        yield _query(spark, views, Grammar(seed).statement(), f"random {seed}")


def changes(spark: SparkSession, seeds: range) -> Iterator[Outcome]:
    """The outcome of a random change of rows for each seed: in this process, and by a lake with Spark attached."""
    for seed in seeds:
        with tempfile.TemporaryDirectory() as folder:
            yield _change(spark, Path(folder), seed)


def _lake(spark: SparkSession, seed: int) -> Views:
    lake = lsmlake.connect(f"memory://beside-{seed}")
    lake.create_database(DATABASE)
    views = Views(lake, seed)
    for table in TABLES:
        rows = rows_of(table, seed)
        views.store(table, rows)
        spark.createDataFrame(rows).createOrReplaceTempView(table)
    return views


def _query(spark: SparkSession, views: Views, text: str, place: str) -> Outcome:
    try:
        expected = spark.sql(text).toArrow()
    except (PySparkException, Py4JJavaError) as error:
        expected, shown = None, str(error)[:600]
    else:
        shown = f"{expected.num_rows} rows: {', '.join(map(str, expected.schema.types))}"
    try:
        found = views.query(text)
    except Exception as error:  # of any kind: it is an outcome
        return of_error(place, text, error, shown, expected is None)
    if expected is None:
        kind = BOTH if _BUGS.search(shown) else WRONG
        return Outcome(place, text, kind, expected=shown, found=f"{found.num_rows} rows", failed=True)
    differs = rows_differ(expected, found, "UTC")
    return Outcome(place, text, WRONG if differs else EQUAL, expected=shown, found=differs)


def _change(spark: SparkSession, folder: Path, seed: int) -> Outcome:
    text, place = Grammar(seed, f"{DATABASE}.").change(), f"changes {seed}"
    lakes = [lsmlake.connect(folder / "here"), lsmlake.connect(folder / "spark", spark=spark)]
    errors: list[Exception | None] = []
    for lake in lakes:
        plain = lsmlake.connect(folder / ("here" if lake is lakes[0] else "spark"))
        plain.create_database(DATABASE)
        for table in TABLES:
            write(plain, f"{DATABASE}.{table}", rows_of(table, seed), seed)
        try:
            lake.sql(text)
        except Exception as error:  # of any kind: it is an outcome
            errors.append(error)
        else:
            errors.append(None)
    here, there = errors
    tables = [lsmlake.connect(folder / name).table(f"{DATABASE}.t").scan().to_arrow() for name in ("here", "spark")]
    shown = f"{type(there).__name__}: {there}"[:600] if there else f"{tables[1].num_rows} rows"
    if here is not None:
        return of_error(place, text, here, shown, there is not None)
    if there is not None:
        by_name = _BUGS.search(shown) or isinstance(there, InvalidData)  # Spark's rows have no order where those here have one
        return Outcome(place, text, BOTH if by_name else WRONG, expected=shown, found=f"{tables[0].num_rows} rows", failed=True)
    differs = rows_differ(tables[1], tables[0], "UTC")
    return Outcome(place, text, WRONG if differs else EQUAL, expected=shown, found=differs)
