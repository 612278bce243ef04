"""The partition of a row as expressions of Spark, to bring the rows of a partition to one task.

A column that is a partition field is its own value. Other transforms are computed in Python workers by the function that tasks
route rows with (`schema.transform`), so rows that come to one task are those that it writes to one partition.
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
from pyspark.sql import functions as F

from lsmlake.schema.partitioning import PartitionColumn
from lsmlake.schema.schema import Schema
from lsmlake.schema.transform import Transform
from lsmlake.spark.frame_types import to_spark


def partition_values(schema: Schema, named: Callable[[str], str | None]) -> list:
    """Columns with the values of the partition fields, some to shuffle by.

    Args:
        schema: of the table.
        named: what the rows call a column of the table; None: they lack it, so all of them have its default.
    """
    names = ((field, named(field.column)) for field in schema.partition_columns)
    return [_values(field, name) for field, name in names if name is not None]


def _values(field: PartitionColumn, name: str):
    if field.transform.is_identity:
        return F.col(name)
    source, result = (to_spark(pa.schema([pa.field("c", type_)]))[0].dataType for type_ in (field.source_type, field.type))
    return F.arrow_udf(_applied(field.transform, field.source_type), result)(F.col(name).try_cast(source))


def _applied(transform: Transform, type_: pa.DataType) -> Callable[[pa.Array], pa.Array]:
    def applied(values: pa.Array) -> pa.Array:
        return transform.apply(values.cast(type_))

    return applied
