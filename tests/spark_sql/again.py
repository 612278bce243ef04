"""Asks the installed PySpark again where this process differs from a golden file: the files are of another release."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from functools import cache

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from spark_sql.golden import ZONE, Statement, statements
from spark_sql.hive import lines
from spark_sql.shared import SHARED, shared
from spark_sql.verdict import FOREIGN, WRONG, Outcome


def asked_again(spark: SparkSession, outcomes: Iterable[Outcome]) -> dict[str, Statement]:
    """The statements of golden files whose outcome is wrong, by place, as the installed PySpark answers them."""
    wrong = {one.place: one.file for one in outcomes if one.kind in (WRONG, FOREIGN)}
    said: dict[str, Statement] = {}
    for file in dict.fromkeys(wrong.values()):
        session = spark.newSession()
        session.conf.set("spark.sql.session.timeZone", ZONE)
        session.sql(f"CREATE DATABASE {_database(file)}")
        session.sql(f"USE {_database(file)}")
        for name in SHARED:
            session.createDataFrame(_rows(name)).createOrReplaceTempView(name)
        for statement in statements(file):
            if statement.place in wrong:
                said[statement.place] = _answered(session, statement)
            elif not statement.is_query:
                with suppress(PySparkException):
                    session.sql(statement.bare)
    return said


def _answered(session: SparkSession, statement: Statement) -> Statement:
    try:
        frame = session.sql(statement.bare)
        rows = frame.toArrow()
    except PySparkException as error:
        return replace(statement, schema="struct<>", output=f"{type(error).__module__}.{type(error).__name__}\n{error}"[:600])
    schema = ",".join(f"{field.name}:{field.dataType.simpleString()}" for field in frame.schema)
    return replace(statement, schema=f"struct<{schema}>", output="\n".join("\t".join(row) for row in lines(rows, ZONE)))


@cache
def _rows(name: str) -> pa.Table:
    return shared(name)


def _database(file: str) -> str:
    return "golden_" + "".join(letter if letter.isalnum() else "_" for letter in file)
