"""Spark schemas and Arrow schemas, each as the other."""

from __future__ import annotations

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import StructType

from lsmlake.errors import InvalidSchema


def to_arrow(schema: StructType) -> pa.Schema:
    """Raises InvalidSchema for a type that Arrow does not know."""
    try:
        return to_arrow_schema(schema)
    except PySparkException as unknown:
        raise InvalidSchema("a Spark type has no Arrow type", found=unknown, cure="cast the column first") from unknown


def to_spark(schema: pa.Schema) -> StructType:
    return from_arrow_schema(schema, prefer_timestamp_ntz=True)
