"""The data that users pass, as a stream of Arrow tables: one table in memory, or one table per batch.

A stream is read while it is written. Polars LazyFrames, DuckDB relations and datasets are read by batches, CSV and Parquet files
by blocks; a JSON or Excel file is read whole. `in_memory` converts data in memory, `places` reads files.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, islice
from pathlib import PurePath
from typing import NamedTuple

import pyarrow as pa

from lsmlake.errors import InvalidData, LakeError, RowPlace
from lsmlake.inputs import input_files
from lsmlake.inputs.in_memory import as_table, is_pandas, is_spark, refuse_lossy, unknown, without_index
from lsmlake.inputs.places import FileTables
from lsmlake.inputs.text_files import FileOptions
from lsmlake.interruption import told
from lsmlake.schema.conform import Cast, converted
from lsmlake.schema.from_data import schema_from

_BATCH_ROWS, _DICTS = 1 << 17, 1 << 14


class Input(NamedTuple):
    """`tables`: the data in order. `text`: the data comes from files without types, so its values must be converted. `guessed`:
    the types of the first table were inferred from the values of such a file. `files`: the files it is read from, if any."""

    tables: Iterator[pa.Table]
    text: bool = False
    guessed: bool = False
    files: FileTables | None = None

    def placed(self, error: InvalidData) -> InvalidData:
        """The error with the file and the line of the row that it is about, if the data comes from files."""
        return error if self.files is None else self.files.placed(error)

    @property
    def recognised(self) -> list[dict[str, object]]:
        """How the files were read, as far as this was recognised: {"file", "files", "recognised"}."""
        return [] if self.files is None else self.files.recognised


def as_input(
    data: object, schema: pa.Schema | None = None, *, inferred: bool = False, options: FileOptions = FileOptions()
) -> Input:
    """The tables of `data`.

    Args:
        data: see `Table.upsert`.
        schema: the columns of the table that the data is for, if it exists.
        inferred: the first table has the types that the data appears to have, also if the data is text; the values of the other
            tables then need conversion.
        options: how text files are read.

    Raises:
        InvalidData: `data` is not data, or cannot be read; also raised while `tables` is read.
    """
    if isinstance(data, Input):
        return data
    if not (names := _paths(data)):
        options.check((), "", f"data of type {type(data).__name__}")
    if is_spark(data):  # its Arrow stream would fetch all rows into this process
        raise unknown(data)
    if names:
        return _of_files([path for name in names for path in input_files.find(name)], schema, inferred, options)
    if isinstance(data, (list, tuple)) and data and hasattr(data[0], "__arrow_c_array__"):
        return Input(_tables(data, schema))
    if isinstance(data, (pa.Table, pa.RecordBatch, dict, list, tuple)) or is_pandas(data) or _is_polars(data, "DataFrame"):
        return Input(iter([as_table(data, schema)]))
    if _is_polars(data, "LazyFrame"):
        return Input(_tables(data.collect_batches(chunk_size=_BATCH_ROWS, maintain_order=True), schema))
    if _is_of_dataset(data, "Dataset"):
        data = data.scanner()
    if _is_of_dataset(data, "Scanner"):
        return Input(_of_reader(data.to_reader(), schema))
    refuse_lossy(data)
    if hasattr(data, "__arrow_c_stream__"):
        try:
            is_reader = isinstance(data, pa.RecordBatchReader)  # as a stream it would turn an interruption into text
            return Input(_of_reader(data if is_reader else pa.RecordBatchReader.from_stream(data), schema))
        except (pa.ArrowException, TypeError, ValueError) as broken:
            what, cure = "the data cannot be read as an Arrow stream", "pass a pyarrow.Table"
            raise told(broken) or InvalidData(what, found=broken, cure=cure) from broken
    if hasattr(data, "__next__"):
        return Input(_tables(_of_rows(_of_iterator(data)), schema))
    if hasattr(data, "__arrow_c_array__") or hasattr(data, "keys"):
        return Input(iter([as_table(data, schema)]))
    raise unknown(data)


def typed(given: Input, fields: Mapping[str, pa.Field], cast: Cast) -> Iterator[pa.Table]:
    """The tables of `given`. If they are read from files without types, the columns in `fields`, by their names in lower case,
    are converted to the types there. Raises InvalidData with the file and the line."""
    for rows in given.tables:
        for place, name in enumerate(rows.column_names if given.text else ()):
            if field := fields.get(name.lower()):
                try:
                    made = converted(rows[name], field, cast, given.files.row)
                except InvalidData as error:
                    raise given.placed(error) from error.__cause__
                rows = rows.set_column(place, name, made)
        yield rows


def _of_files(paths: list[str], schema: pa.Schema | None, inferred: bool, options: FileOptions) -> Input:
    input_files.check_options(paths, options)
    text = not all(map(input_files.is_typed, paths))
    files = FileTables(paths, schema, options)
    if not (inferred and text):
        return Input(_without_index(files, schema), text, files=files)
    first = without_index(files.inferred().empty_table(), None)
    files.schema = schema_from(first.schema)
    files.guessed = guessed = not input_files.is_typed(paths[0])
    return Input(chain([files.schema.empty_table()], _without_index(files, files.schema)), text, guessed, files)


def _tables(parts: Iterable[object], schema: pa.Schema | None) -> Iterator[pa.Table]:
    """The parts as tables; an error counts the rows through all of them."""
    first = 0
    for part in parts:
        try:
            table = as_table(part, schema)
        except InvalidData as error:
            where = error.where
            if first and isinstance(where, RowPlace):
                raise error.changed(where=RowPlace(where.column, first + where.row)) from error.__cause__
            raise
        yield table
        first += table.num_rows


def _of_rows(parts: Iterator[object]) -> Iterator[object]:
    """The parts; dicts that are rows (with single values, or empty) come together in lists."""
    for part in parts:
        if not isinstance(part, Mapping) or (part and not any(map(_is_single, part.values()))):
            yield part
            continue
        rows = [part, *islice(parts, _DICTS - 1)]
        while rows:
            yield rows
            rows = list(islice(parts, _DICTS))


def _is_single(value: object) -> bool:
    return isinstance(value, (str, bytes, Mapping)) or not (hasattr(value, "__len__") and hasattr(value, "__getitem__"))


def _paths(data: object) -> list[str]:
    """The file names in `data`, if it is one name or a list of names."""
    names = data if isinstance(data, (list, tuple)) else [data]
    return [str(name) for name in names] if names and all(isinstance(name, (str, PurePath)) for name in names) else []


def _is_of_dataset(data: object, name: str) -> bool:
    """Whether `data` is a pyarrow.dataset.Dataset or Scanner, tested without importing that module, which imports pandas."""
    return any((kind.__module__, kind.__name__) == ("pyarrow._dataset", name) for kind in type(data).__mro__)


def _is_polars(data: object, name: str) -> bool:
    return type(data).__module__.partition(".")[0] == "polars" and type(data).__name__ == name


def _without_index(tables: Iterator[pa.Table], schema: pa.Schema | None) -> Iterator[pa.Table]:
    return (without_index(table, schema) for table in tables)


def _of_iterator(parts: Iterator[object]) -> Iterator[object]:
    try:
        yield from parts
    except (LakeError, MemoryError):
        raise
    except Exception as broken:
        raise told(broken) or InvalidData(
            "the iterator of data failed", found=repr(broken), cure="correct the iterator; nothing was written"
        ) from broken


def _of_reader(reader: pa.RecordBatchReader, schema: pa.Schema | None) -> Iterator[pa.Table]:
    yield without_index(reader.schema.empty_table(), schema)  # so that the columns of an empty stream are known
    try:
        for batch in reader:
            yield without_index(pa.Table.from_batches([batch]), schema)
    except (pa.ArrowException, OSError) as broken:
        raise told(broken) or InvalidData(
            "the stream of data failed", found=broken, cure="check the source of the stream; nothing was written"
        ) from broken
