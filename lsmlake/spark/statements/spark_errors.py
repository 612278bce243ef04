"""Translates Spark's errors about a statement into errors of lsmlake."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.errors import (
    AnalysisException,
    ArithmeticException,
    ArrayIndexOutOfBoundsException,
    DateTimeException,
    IllegalArgumentException,
    NumberFormatException,
    ParseException,
    PySparkException,
    SparkRuntimeException,
)

from lsmlake.errors import InvalidData, InvalidQuery
from lsmlake.spark.statements.clauses import LOST_VALUE
from lsmlake.statements.merge_join import repeated
from lsmlake.write.changeable import OLDER

REPEATED = repeated().what
"""The message that a query raises if several source rows match one target row."""

_OF_THE_TEXT = (
    AnalysisException,
    ArithmeticException,
    ArrayIndexOutOfBoundsException,
    DateTimeException,
    IllegalArgumentException,
    NumberFormatException,
    ParseException,
    SparkRuntimeException,
)
_FOUND_MAX = 500


@contextmanager
def translated() -> Iterator[None]:
    """Translates Spark's errors about the text of a statement, or about computed values, into errors of lsmlake."""
    try:
        yield
    except PySparkException as error:
        text = str(error)
        if REPEATED in text:
            raise repeated() from error
        if OLDER in text:
            raise InvalidData(OLDER, cure="update to a value that is not older") from error
        if LOST_VALUE in text:
            what = text[text.index(LOST_VALUE) :].splitlines()[0]
            raise InvalidData(what, cure="update to another value, or delete the rows and insert them again") from error
        if not isinstance(error, _OF_THE_TEXT):
            raise
        raise InvalidQuery(
            "Spark cannot evaluate the statement", found=text[:_FOUND_MAX], cure="correct the expression that it names"
        ) from error
