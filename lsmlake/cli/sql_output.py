"""Where `lsmlake sql` and `lsmlake export` write rows: standard output, or a file that appears when it is whole; and the
formats, whose writers take record batches one after the other and write bytes.

A writer of JSON or Parquet refuses two columns of one name. Parquet and Arrow are not text.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from functools import partial
from itertools import chain
from pathlib import Path
from typing import BinaryIO, NamedTuple, Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from lsmlake.beside import begin
from lsmlake.cli.output import Sentences, emit
from lsmlake.cli.progress import waiting
from lsmlake.cli.whole_file import checked_path, whole_file
from lsmlake.errors import InvalidQuery
from lsmlake.kernels.interval_text import with_texts
from lsmlake.kernels.text_format import csv_lines, json_lines
from lsmlake.report.rows import Rows
from lsmlake.report.text import counted
from lsmlake.sql.streamed_rows import Streamed
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
"""Ending of a file name -> format."""
_HALF_ROWS_MIN = 2048
_GROUP_ROWS, _GROUP_BYTES = 122_880, 64 << 20
"""A Parquet row group ends at this number of rows or bytes."""


class RowSink(Protocol):
    """The destination of encoded rows."""

    def write(self, data: memoryview | bytes, /) -> object: ...


class Writer(Protocol):
    """Writes batches. The output is complete only after `end`."""

    def write(self, batch: pa.RecordBatch) -> None: ...

    def end(self) -> None: ...


class Csv:
    """A line of names, then a line per row. Null is written as nothing, empty text as ""."""

    def __init__(self, sink: RowSink, schema: pa.Schema, seekable: bool) -> None:
        self._sink = sink
        if schema.names:
            self._sink.write(bytes_of(csv_lines([pa.array([name], pa.string()) for name in schema.names])))

    def write(self, batch: pa.RecordBatch) -> None:
        for lines in _in_halves(batch, lambda half: bytes_of(csv_lines(with_texts(half).columns))):
            self._sink.write(lines)

    def end(self) -> None:
        """Writes nothing: the format has no footer."""


class JsonLines:
    """An object per row and line."""

    def __init__(self, sink: RowSink, schema: pa.Schema, seekable: bool) -> None:
        _check_names(schema)
        self._sink = sink

    def write(self, batch: pa.RecordBatch) -> None:
        for lines in _in_halves(batch, _objects):
            self._sink.write(lines)

    def end(self) -> None:
        """Writes nothing: the format has no footer."""


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
    """Parquet with row groups of about 100,000 rows."""

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
    """The lines of a batch. For a large batch, another thread formats the first half."""
    half = batch.num_rows // 2
    if half < _HALF_ROWS_MIN:
        yield lines(batch)
        return
    first, second = begin(partial(lines, batch.slice(0, half))), lines(batch.slice(half))
    yield first.result()
    yield second


def _objects(batch: pa.RecordBatch, end: str = "\n") -> memoryview:
    return bytes_of(json_lines(batch.schema.names, with_texts(batch).columns, end=end))


def bytes_of(lines: pa.Array) -> memoryview:
    """The texts of an array one after the other. The array is not a slice of another one."""
    _, offsets, data = lines.buffers()
    end = memoryview(offsets).cast("b").cast("q")[len(lines)]
    return memoryview(b"" if data is None else data)[:end]


# -- where rows go ----------------------------------------------------------------------------------------------------

_SHOWN = 100
_CURE = "--format csv prints all"


class Output(NamedTuple):
    """The output options of `sql` and `export`. `file`: None is standard output."""

    format: str
    file: Path | None

    @property
    def takes_one_query(self) -> str:
        """The option that allows the rows of only one query; "" if there is none."""
        return "--output" if self.file is not None else f"--format {self.format}" if self.format in BINARY else ""


def output_of(format: str | None, as_json: bool, file: str | None, formats: Sequence[str] = FORMATS) -> Output:
    """The output that --format, --json and --output ask for; one of `formats`. Raises InvalidQuery."""
    if format is not None and format not in formats:
        raise InvalidQuery("unknown format", where="--format", expected=" or ".join(formats), found=repr(format))
    if format is not None and as_json:
        raise InvalidQuery("two formats are given", found=f"--json and --format {format}", cure="leave one of them out")
    if file is None:
        chosen = ARRAY if as_json else format or TABLE
        if chosen in BINARY and sys.stdout.isatty():
            cure = f"write --output rows.{chosen}, or send it to a pipe"
            raise InvalidQuery(f"a terminal does not show {chosen}", where="--format", cure=cure)
        return Output(chosen, None)
    path = checked_path(file, "--output")
    chosen = ARRAY if as_json else format or ENDINGS.get(path.suffix.lower())
    if chosen not in (ARRAY, *formats):
        cure = "add --format " + ", ".join(FORMATS[1:])
        raise InvalidQuery("the name of the file does not tell its format", where="--output", found=repr(file), cure=cure)
    return Output(chosen, path)


@contextmanager
def opened(output: Output) -> Iterator[BinaryIO | None]:
    """The file of an output, which appears under its name at the end, without an error; None for standard output."""
    if output.file is None:
        yield None
        return
    with whole_file(output.file) as file:
        yield file


def write(rows: Streamed, output: Output, file: BinaryIO | None) -> None:
    """Writes the rows of a statement."""
    with closing(rows.batches):
        if output.format == TABLE:
            _write_table(rows, file)
        elif file is not None:
            count = waiting(lambda: _write_all(rows.schema, rows.batches, output.format, file, True))
            emit(None, Sentences((f"{counted(count, 'row')} in {output.file}",)), False)
        else:
            sys.stdout.flush()
            _write_all(rows.schema, _begun(rows.batches), output.format, sys.stdout.buffer, False)


def _begun(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The batches, with a spinner while the query looks for the first one."""
    first = waiting(lambda: next(batches, None))
    return batches if first is None else chain([first], batches)


class _Ending:
    """A file that ignores what comes after an error: a writer of Parquet makes its file whole when it is collected."""

    closed = False

    def __init__(self, file: BinaryIO) -> None:
        self._file: BinaryIO | None = file

    def write(self, data: memoryview | bytes) -> int:
        return len(data) if self._file is None else self._file.write(data)

    def flush(self) -> None:
        if self._file is not None:
            self._file.flush()

    def drop(self) -> None:
        self._file = None


def _write_all(schema: pa.Schema, batches: Iterable[pa.RecordBatch], format: str, file: BinaryIO, seekable: bool) -> int:
    sink, count = _Ending(file), 0
    try:
        writer = WRITERS[format](sink, schema, seekable)
        for batch in batches:
            if batch.num_rows:
                writer.write(batch)
                count += batch.num_rows
        writer.end()
        sink.flush()
    except BaseException:
        sink.drop()
        raise
    return count


def _write_table(rows: Streamed, file: BinaryIO | None) -> None:
    """Writes the first rows as a table. What is left out is said below it on a terminal, else on standard error."""
    if not rows.schema.names:
        emit(None, Sentences(("done",)), False)
        return
    first_rows = waiting(lambda: _first(rows, _SHOWN + 1))
    shown = with_texts(first_rows.slice(0, _SHOWN))
    of = "" if rows.count is None else f" of {rows.count:,}"
    first = f"first {_SHOWN}{of} rows" if first_rows.num_rows > _SHOWN else ""
    view = Rows(shown, first=first, cure=_CURE)
    if file is not None:
        file.writelines(f"{line}\n".encode() for line in view.lines())
    else:
        emit(None, view, False)
    if first and (file is not None or not sys.stdout.isatty()):
        sys.stdout.flush()
        print(f"{first}: {_CURE}", file=sys.stderr)


def _first(rows: Streamed, count: int) -> pa.Table:
    batches, held = [], 0
    for batch in rows.batches:
        batches.append(batch)
        held += batch.num_rows
        if held >= count:
            break
    return pa.Table.from_batches(batches, rows.schema).slice(0, count)
