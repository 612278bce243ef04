"""The formats of `lsmlake sql`: writers that take record batches one after the other and write bytes.

A writer of JSON or Parquet refuses two columns of one name. Parquet and Arrow are not text.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from lsmlake.beside import begin
from lsmlake.errors import InvalidQuery
from lsmlake.kernels.interval_text import with_texts
from lsmlake.kernels.text import csv_lines, json_lines
from lsmlake.types.intervals import column_of_months

TABLE, ARRAY, BINARY = "table", "JSON array", ("parquet", "arrow")
FORMATS = (TABLE, "csv", "json", *BINARY)
ENDINGS = {
    ".csv": "csv",
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
    ".parquet": "parquet",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".txt": TABLE,
}
"""The format of a file by the end of its name."""
_HALF_ROWS_MIN = 2048
_GROUP_ROWS, _GROUP_BYTES = 122_880, 64 << 20
"""When the rows for Parquet are enough for a row group."""


class RowSink(Protocol):
    """Where bytes go."""

    def write(self, data: memoryview | bytes, /) -> object: ...


class Writer(Protocol):
    """Writes the batches that it is given. Only `end` makes the output whole."""

    def write(self, batch: pa.RecordBatch) -> None: ...

    def end(self) -> None: ...


class Csv:
    """A line of names, a line per row. Nothing between commas is a null; an empty text is ""."""

    def __init__(self, sink: RowSink, schema: pa.Schema, seekable: bool) -> None:
        self._sink = sink
        if schema.names:
            self._sink.write(_bytes(csv_lines([pa.array([name], pa.string()) for name in schema.names])))

    def write(self, batch: pa.RecordBatch) -> None:
        for lines in _in_halves(batch, lambda half: _bytes(csv_lines(with_texts(half).columns))):
            self._sink.write(lines)

    def end(self) -> None:
        """There is no end."""


class JsonLines:
    """An object per row and line."""

    def __init__(self, sink: RowSink, schema: pa.Schema, seekable: bool) -> None:
        _check_names(schema)
        self._sink = sink

    def write(self, batch: pa.RecordBatch) -> None:
        for lines in _in_halves(batch, _objects):
            self._sink.write(lines)

    def end(self) -> None:
        """There is no end."""


class JsonArray:
    """An array of an object per row, each on a line."""

    def __init__(self, sink: RowSink, schema: pa.Schema, seekable: bool) -> None:
        _check_names(schema)
        self._sink, self._before = sink, b"[\n"

    def write(self, batch: pa.RecordBatch) -> None:
        for lines in _in_halves(batch, partial(_objects, end=",\n")):
            self._sink.write(self._before)
            self._sink.write(lines[: -len(",\n")])
            self._before = b",\n"

    def end(self) -> None:
        self._sink.write(b"[]\n" if self._before == b"[\n" else b"\n]\n")


class Parquet:
    """Row groups of some 100,000 rows."""

    def __init__(self, sink: RowSink, schema: pa.Schema, seekable: bool) -> None:
        _check_names(schema)
        if (name := column_of_months(schema)) is not None:
            cure = "cast it to STRING, or use --format arrow"
            raise InvalidQuery("Parquet has no INTERVAL of months", where="--format", found=f"column {name!r}", cure=cure)
        self._schema, self._waiting = schema, []
        self._writer = pq.ParquetWriter(sink, schema, compression="zstd")

    def write(self, batch: pa.RecordBatch) -> None:
        self._waiting.append(batch)
        if sum(one.num_rows for one in self._waiting) >= _GROUP_ROWS or sum(one.nbytes for one in self._waiting) >= _GROUP_BYTES:
            self._write_group()

    def end(self) -> None:
        if self._waiting:
            self._write_group()
        self._writer.close()

    def _write_group(self) -> None:
        rows = pa.Table.from_batches(self._waiting, self._schema)
        self._waiting = []
        self._writer.write_table(rows, row_group_size=rows.num_rows)


class Arrow:
    """The file format of Arrow in a file, its stream format in a pipe."""

    def __init__(self, sink: RowSink, schema: pa.Schema, seekable: bool) -> None:
        self._writer = (pa.ipc.new_file if seekable else pa.ipc.new_stream)(sink, schema)

    def write(self, batch: pa.RecordBatch) -> None:
        self._writer.write_batch(batch)

    def end(self) -> None:
        self._writer.close()


WRITERS: Mapping[str, Callable[[RowSink, pa.Schema, bool], Writer]] = {
    "csv": Csv,
    "json": JsonLines,
    ARRAY: JsonArray,
    "parquet": Parquet,
    "arrow": Arrow,
}
"""By format: makes a writer of rows with a schema. Its last argument: whether the output is a file, not a pipe."""


def _check_names(schema: pa.Schema) -> None:
    if twice := [name for number, name in enumerate(schema.names) if name in schema.names[:number]]:
        cure = f"name one of them with AS, or use --format csv: SELECT ... AS {json.dumps(twice[0] + '_2')[1:-1]}"
        raise InvalidQuery("two columns have one name", where="--format", found=repr(twice[0]), cure=cure)


def _in_halves(batch: pa.RecordBatch, lines: Callable[[pa.RecordBatch], memoryview]) -> Iterator[memoryview]:
    """The lines of a batch. Another thread makes the first half of many."""
    half = batch.num_rows // 2
    if half < _HALF_ROWS_MIN:
        yield lines(batch)
        return
    first, second = begin(partial(lines, batch.slice(0, half))), lines(batch.slice(half))
    yield first.result()
    yield second


def _objects(batch: pa.RecordBatch, end: str = "\n") -> memoryview:
    return _bytes(json_lines(batch.schema.names, with_texts(batch).columns, end=end))


def _bytes(lines: pa.Array) -> memoryview:
    """The texts of an array one after the other. The array is not a slice of another one."""
    _, offsets, data = lines.buffers()
    end = memoryview(offsets).cast("b").cast("q")[len(lines)]
    return memoryview(b"" if data is None else data)[:end]
