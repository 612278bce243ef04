"""The Parquet files of a load package as record batches with the columns of a table."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lsmlake.dialect.connection import connected, translated_errors
from lsmlake.errors import InvalidData

_BATCH_ROWS = 1 << 16


def batches_of(
    paths: Iterable[str], columns: pa.Schema, required: Collection[str] = (), precisions: Mapping[str, int] | None = None
) -> Iterator[pa.RecordBatch]:
    """Yields the rows of the files with these columns. A file may lack columns, which are null then; its other columns are left
    out.

    Raises:
        InvalidData: a value does not fit its column or the precision of it, or a `required` column has a null.
    """
    for path in paths:
        with pq.ParquetFile(path) as file:
            named = [name for name in columns.names if name in file.schema_arrow.names]
            for batch in file.iter_batches(_BATCH_ROWS, columns=named):
                arrays = [_array(batch, field, path) for field in columns]
                rows = pa.RecordBatch.from_arrays(arrays, schema=pa.schema([field.with_nullable(True) for field in columns]))
                _check(rows, required, path)
                for name, precision in (precisions or {}).items():
                    if name in rows.schema.names:
                        _check_precision(rows, name, precision, path)
                yield rows


def check_columns(paths: Iterable[str], columns: Collection[str], table: str) -> None:
    """Raises InvalidData if a file has a column that the table lacks."""
    for path in paths:
        if unknown := [name for name in pq.read_schema(path).names if name not in columns]:
            cure = "load a package whose schema has these columns"
            raise InvalidData(f"the table {table} lacks columns of a file", where=path, found=unknown, cure=cure)


def _array(batch: pa.RecordBatch, field: pa.Field, path: str) -> pa.Array:
    if field.name not in batch.schema.names:
        return pa.nulls(batch.num_rows, field.type)
    given = batch.column(field.name)
    if given.type == field.type:
        return given
    try:
        if pa.types.is_nested(given.type) and pa.types.is_string(field.type):
            return _json(given)
        return given.cast(field.type)
    except pa.ArrowException as error:
        raise InvalidData(
            f"values of the column {field.name} do not fit the table",
            where=path,
            expected=str(field.type),
            found=str(error),
            cure="change the data_type of the column in dlt's schema, or its values",
        ) from error


def _json(values: pa.Array) -> pa.Array:
    """Nested values as texts of JSON."""
    with connected("UTC", "a column of JSON") as database, translated_errors():
        database.register("given", pa.table({"value": values}))
        made = database.sql("SELECT CASE WHEN value IS NULL THEN NULL ELSE to_json(value)::VARCHAR END AS value FROM given")
        return made.to_arrow_table().column(0).combine_chunks().cast(pa.string())


def _check(rows: pa.RecordBatch, required: Collection[str], path: str) -> None:
    for name in required:
        if name in rows.schema.names and (nulls := rows.column(name).null_count):
            raise InvalidData(
                f"the column {name} is null, which dlt's schema does not allow",
                where=path,
                found=f"{nulls:,} nulls",
                cure="give the values, or set nullable to true in the hints of the column",
            )


def _check_precision(rows: pa.RecordBatch, name: str, precision: int, path: str) -> None:
    """`precision`: the characters of a text, the bytes of a binary, the bits of an integer with or without a sign."""
    values = rows.column(name)
    if pa.types.is_string(values.type) or pa.types.is_binary(values.type):
        is_text = pa.types.is_string(values.type)
        longest = pc.max(pc.utf8_length(values) if is_text else pc.binary_length(values)).as_py()
        fits, unit = longest is None or longest <= precision, "characters" if is_text else "bytes"
        found = f"{longest} {unit}"
    else:
        least, greatest = (value.as_py() for value in pc.min_max(values).values())
        fits, unit = least is None or (least >= -(1 << precision >> 1) and greatest < 1 << precision), "bits"
        found = f"integers from {least} to {greatest}"
    if not fits:
        raise InvalidData(
            f"values of the column {name} have more than {precision} {unit}, the precision of the column in dlt's schema",
            where=path,
            found=found,
            cure="give a greater precision in the hints of the column, or smaller values",
        )
