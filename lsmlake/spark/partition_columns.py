"""The partition of a row as Spark expressions, to bring the rows of a partition to one task.

The value of an identity field is the column itself. Other transforms are computed in Python workers by `schema.transform`, the
function with which tasks route rows, so all rows of a partition come to one task.
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
    """Spark columns with the values of the partition fields, to shuffle by.

    Args:
        schema: the schema of the table.
        named: column of the table -> its name in the rows; None: the rows lack the column and have its default.
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
