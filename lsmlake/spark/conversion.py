"""Converts the values of a DataFrame in tasks, before hashing and shuffling, which depend on the types.

It uses the conversion of the writer without Spark (`schema.conform.converted`), so both accept the same values. A value that
cannot be converted becomes a row with the error, which the writing task returns to the driver.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from functools import partial

import pyarrow as pa
from pyspark.sql import types as st

from lsmlake.errors import InvalidData
from lsmlake.kernels import nested
from lsmlake.schema.conform import Cast, converted
from lsmlake.schema.schema import RESERVED
from lsmlake.spark.frame_types import of_tasks, to_spark

ERROR = f"{RESERVED}error"


def cast_rows(df, names: Sequence[str], fields: Sequence[pa.Field | None], cast: Cast):
    """Converts the columns `names` of `df` to the types of `fields` (None: unchanged) and adds the column `ERROR`."""
    pairs = zip(names, fields, df.schema.fields, strict=True)
    made = [st.StructField(name, field.dataType if wanted is None else _type(wanted), True) for name, wanted, field in pairs]
    return df.mapInArrow(
        partial(_task, tuple(fields), cast), st.StructType([*made, st.StructField(ERROR, st.BinaryType(), True)])
    )


def raise_error(table: pa.Table) -> pa.Table:
    """Returns `table` without the column `ERROR`. Raises InvalidData if it contains an error."""
    if ERROR not in table.column_names:
        return table
    errors = table[ERROR].drop_null()
    if len(errors):
        raise pickle.loads(errors[0].as_py())
    return table.drop_columns([ERROR])


def _type(field: pa.Field) -> st.DataType:
    return to_spark(pa.schema([field.with_type(nested.nullable(field.type)).with_nullable(True)]))[0].dataType


def _task(fields: Sequence[pa.Field | None], cast: Cast, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        columns, error = list(batch.columns), None
        try:
            for number, field in enumerate(fields):
                if field is not None:
                    columns[number] = converted(pa.chunked_array([columns[number]]), field, cast).combine_chunks()
            errors = pa.nulls(batch.num_rows, pa.binary())
        except InvalidData as refused:
            error = refused
            types = (column.type if f is None else nested.nullable(f.type) for column, f in zip(columns, fields, strict=True))
            columns, errors = [pa.nulls(1, type_) for type_ in types], pa.array([pickle.dumps(refused)], pa.binary())
        made = pa.RecordBatch.from_arrays([*columns, errors], names=[*batch.schema.names, ERROR])
        yield made.cast(of_tasks(made.schema))
        if error is not None:
            return
