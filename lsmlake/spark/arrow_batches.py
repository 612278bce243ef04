"""Sends rows to Python in batches that are bounded by the number of rows, because Spark's bound of their bytes is slow.

Spark 4.1 to 4.3 ends an Arrow batch for Python at 10,000 rows or 64 MiB. It computes the bytes of a batch anew after each row,
over all columns, which takes more than a third of the time that the JVM needs to send rows of 13 columns. `by_rows` turns this
off for the jobs of this thread; other threads and other sessions keep Spark's bounds.

The bound of 64 MiB stays: `short_rows` replaces the values of rows that are too long for it by nulls and marks these rows, and
the task that gets a mark refuses the batch (`refuse_long`). The caller then writes with Spark's own bounds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import types as st

from lsmlake.errors import InvalidData
from lsmlake.spark.python import threads_are_pinned
from lsmlake.types.type_text import backticked

_BATCH_BYTES = 64 << 20  # as in Spark
_ROWS = 4096
_VALUE_BYTES = 16  # of a value of a type with a fixed size, at most
_LIMITS = {
    "spark.sql.execution.arrow.maxBytesPerBatch": ("67108864b", "2147483647"),
    "spark.sql.execution.arrow.maxRecordsPerBatch": ("10000", f"{_ROWS}"),
}
"""Settings: Spark's default, and the value by which batches are bounded by rows only: Spark does not measure bytes if the first
setting has its greatest value."""
_LONG = -1
"""The bucket number of a row that is too long."""
_TEXTS = st.StringType, st.BinaryType  # CHAR(n) and VARCHAR(n) are texts too
_FIXED = st.NumericType, st.BooleanType, st.DateType, st.TimestampType, st.TimestampNTZType, st.NullType


class LongRows(InvalidData):
    """Some rows are too long to be counted instead of measured. Never leaves the write that catches it."""


def can_bound(spark, fields: Sequence[st.StructField]) -> bool:
    """Whether `by_rows` and `short_rows` work in this classic session, for rows with these columns, and the user has changed none
    of the limits, neither for the session nor for jobs of this thread."""
    known = ((spark.conf.get(name), spark.sparkContext.getLocalProperty(name), default) for name, (default, _) in _LIMITS.items())
    if any(session != default or own is not None for session, own, default in known):
        return False
    return threads_are_pinned() and _lengths(fields) is not None and _room(fields) >= _BATCH_BYTES // _ROWS // 2


@contextmanager
def by_rows(spark) -> Iterator[None]:
    """Jobs of this thread bound batches by rows inside the block; a value that the user has set in the session comes first."""
    context = spark.sparkContext
    before = {name: context.getLocalProperty(name) for name in _LIMITS}
    try:
        for name, (_, better) in _LIMITS.items():
            context.setLocalProperty(name, better)
        yield
    finally:
        for name, value in before.items():
            context.setLocalProperty(name, value)


def short_rows(rows, bucket: str):
    """Marks rows that are too long: their texts and binary values become null, and their bucket number -1.

    Args:
        rows: a DataFrame for whose columns `can_bound` holds.
        bucket: the column with the bucket number.
    """
    fields = rows.schema.fields
    lengths = _lengths(fields)
    if not lengths:
        return rows
    is_long = f"{' + '.join(lengths)} > {_room(fields)}"
    marked = rows.selectExpr("*", f"{is_long} as is_long")
    return marked.selectExpr(*(_unless_long(field, bucket) for field in fields))


def refuse_long(buckets: pa.Array) -> None:
    """Raises LongRows if a row of a batch was marked. `buckets`: the bucket numbers of its rows."""
    if len(buckets) and pc.min(buckets).as_py() == _LONG:
        raise LongRows("a row is too long for batches that are bounded by rows", cure="write it with Spark's own bounds")


def _unless_long(field: st.StructField, bucket: str) -> str:
    name = backticked(field.name)
    if field.name == bucket:
        return f"if(is_long, {_LONG}, {name}) as {name}"
    return f"if(is_long, null, {name}) as {name}" if _length(name, field.dataType) else name


def _room(fields: Sequence[st.StructField]) -> int:
    """The bytes that a row has for its texts and binary values."""
    return _BATCH_BYTES // _ROWS - sum(_values(field.dataType) for field in fields) * _VALUE_BYTES


def _values(kind: st.DataType) -> int:
    """How many values a value of this type consists of."""
    return sum(_values(field.dataType) for field in kind.fields) if isinstance(kind, st.StructType) else 1


def _lengths(fields: Sequence[st.StructField]) -> list[str] | None:
    """The bytes of the columns whose values differ in length, as SQL. None if SQL has no cheap expression for a column."""
    lengths = [_length(backticked(field.name), field.dataType) for field in fields]
    return None if None in lengths else [length for length in lengths if length]


def _length(value: str, kind: st.DataType) -> str | None:
    """The bytes of a value as SQL, empty for a type with a fixed size; None: unknown."""
    if isinstance(kind, _TEXTS):
        return f"coalesce(octet_length({value}), 0)"
    if isinstance(kind, st.StructType):
        inner = [_length(f"{value}.{backticked(field.name)}", field.dataType) for field in kind.fields]
        return None if None in inner else " + ".join(filter(None, inner))
    return "" if isinstance(kind, _FIXED) else None
