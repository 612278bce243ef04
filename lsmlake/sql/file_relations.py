"""Files in FROM: parquet.`path`, csv.`path`, json.`path`, with the columns that Spark reads without options.

CSV has no header: its columns are `_c0`, `_c1`, ... of type STRING. The columns of JSON lines are sorted by name; texts stay
texts. Parquet files have the columns of the first file. A path is a file, a folder or a glob.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from sqlglot import exp

from lsmlake.api.readable import Readable
from lsmlake.dialect.sql_text import Text
from lsmlake.dialect.sql_types import of_column
from lsmlake.errors import InvalidData, LakeError
from lsmlake.format.paths import is_name
from lsmlake.inputs import input_files, json_files, json_text, text_files
from lsmlake.inputs.csv_files import CsvFile, check_first_line
from lsmlake.inputs.input_files import InputFile, ParquetFile
from lsmlake.inputs.text_files import FileOptions
from lsmlake.schema.from_data import schema_from
from lsmlake.types.type_table import is_text, is_time
from lsmlake.types.type_text import format_type

FORMATS = "parquet", "csv", "json"
_OTHERS = "avro", "binaryfile", "delta", "iceberg", "orc", "text", "xml"
_BATCH_ROWS = 1 << 16
_COMMA = ","


def is_file(node: exp.Table) -> bool:
    """Whether a table in FROM is a file. Such a name cannot be the name of a table."""
    parts = [part.name for part in node.parts]
    return len(parts) == 2 and parts[0].lower() in (*FORMATS, *_OTHERS) and not is_name(parts[1])


def opened(node: exp.Table, text: Text) -> FileRows:
    """The rows of a file, a folder or a glob. Refuses other formats. Raises InvalidData."""
    kind, path = (part.name for part in node.parts)
    if kind.lower() not in FORMATS:
        text.refuse(node, f"files of {kind} are not read", expected=", ".join(FORMATS), cure="attach Spark")
    paths = tuple(paths_of(path))
    schema = _SCHEMAS[kind.lower()](paths)
    return FileRows(paths, kind.lower(), pa.schema([pa.field(one.name, of_column(one), True) for one in schema]))


def paths_of(path: str) -> list[str]:
    """The files that a path names: the file itself, the files in a folder, or the files that match a glob. Raises InvalidData."""
    paths, folder = input_files.find_any(path), input_files.local_path(path)
    for one in paths if folder.is_dir() else ():
        if any("=" in part for part in Path(one).relative_to(folder).parts[:-1]):
            raise InvalidData(
                "the values in the names of folders are not read",
                where=one,
                expected="files outside of folders such as dt=2026-01-31",
                cure="name the files of one folder, attach Spark, or CALL import_parquet",
            )
    return paths


def loaded(
    kind: str, paths: Iterable[str], columns: pa.Schema, header: bool, options: FileOptions
) -> Iterator[tuple[InputFile, pa.Table]]:
    """The rows of files that are loaded into a table with these columns. CSV without a header has the columns in this order."""
    for path in paths:
        with _readable(path):
            file: InputFile = ParquetFile(path)
            if kind == "csv":
                names = None if header else tuple(columns.names)
                text = text_files.opened(path, options.encoding)
                check_first_line(text)
                file = CsvFile(text, options.delimiter or _COMMA, options.null_values, names=names, quoted_nulls=True)
                tables = file.tables(columns)
            elif kind == "json":
                file = json_text.opened(path, options.encoding)
                tables = iter([json_files.read(file, columns)])
            else:
                tables = _parquet_rows(path)
            for table in tables:
                yield file, table


@dataclass(frozen=True)
class FileRows(Readable):
    """The rows of files, one after the other."""

    paths: tuple[str, ...]
    kind: str
    schema: pa.Schema
    failed: list[LakeError] = field(default_factory=list)

    def to_batches(self) -> pa.RecordBatchReader:
        """The rows as a stream of record batches."""
        return pa.RecordBatchReader.from_batches(self.schema, self._batches())

    def _batches(self) -> Iterator[pa.RecordBatch]:
        try:
            for path in self.paths:
                with _readable(path):
                    for table in _READERS[self.kind](path, self.schema):
                        yield from _conformed(table, self.schema, path).to_batches()
        except LakeError as error:
            self.failed.append(error)
            raise


@contextmanager
def own_errors(sources: Iterable[object]) -> Iterator[None]:
    """Raises the original error of a file instead of DuckDB's error about it."""
    try:
        yield
    except LakeError:
        for source in sources:
            if isinstance(source, FileRows) and source.failed:
                raise source.failed[0] from None
        raise


@contextmanager
def _readable(path: str) -> Iterator[None]:
    """Raises InvalidData for a file that cannot be read."""
    try:
        yield
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise InvalidData("the file cannot be read", where=path, found=error, cure="correct the file") from error


def _conformed(table: pa.Table, schema: pa.Schema, path: str) -> pa.Table:
    """The rows of a file with the columns of the first file: missing columns are null, other columns are left out, as in
    Spark."""
    columns = []
    for one in schema:
        column = table[one.name] if one.name in table.column_names else pa.chunked_array([pa.nulls(table.num_rows, one.type)])
        try:
            if is_text(column.type) != is_text(one.type):
                raise pa.ArrowInvalid(format_type(column.type))
            columns.append(column if column.type == one.type else column.cast(one.type))
        except pa.ArrowException as unfit:
            raise InvalidData(
                "a value does not fit the type of the column",
                where=f"{path}, column {one.name}",
                expected=format_type(one.type),
                found=unfit,
                cure="read the files one by one, or convert them",
            ) from unfit
    return pa.table(columns, schema=schema)


# -- formats ------------------------------------------------------------------------------------------------------------


def _parquet_schema(paths: tuple[str, ...]) -> pa.Schema:
    with _readable(paths[0]):
        return schema_from(pq.read_schema(paths[0]))


def _parquet(path: str, schema: pa.Schema) -> Iterator[pa.Table]:
    with pq.ParquetFile(path) as file:
        names = [name for name in schema.names if name in file.schema_arrow.names]
        for batch in file.iter_batches(_BATCH_ROWS, columns=names):
            yield pa.Table.from_batches([batch])


def _parquet_rows(path: str) -> Iterator[pa.Table]:
    with pq.ParquetFile(path) as file:
        for batch in file.iter_batches(_BATCH_ROWS):
            yield pa.Table.from_batches([batch])


def _csv_schema(paths: tuple[str, ...]) -> pa.Schema:
    with _readable(paths[0]):
        count = len(CsvFile(text_files.opened(paths[0], None), ",").header())
    return pa.schema([(f"_c{number}", pa.string()) for number in range(count)])


def _csv(path: str, schema: pa.Schema) -> Iterator[pa.Table]:
    return CsvFile(text_files.opened(path, None), ",", names=tuple(schema.names)).tables(schema)


def _json_schema(paths: tuple[str, ...]) -> pa.Schema:
    """The columns of all JSON files."""
    kinds: dict[str, pa.DataType] = {}
    for path in paths:
        with _readable(path):
            for one in json_files.inferred(json_text.opened(path, None)):
                kind = one.type if pa.types.is_null(one.type) else _of_json(one.type)
                known = kinds.get(one.name, pa.null())
                kinds[one.name] = kind if pa.types.is_null(known) else _both(known, kind, f"{path}, column {one.name}")
    return pa.schema(sorted((name, _of_json(kind)) for name, kind in kinds.items()))


def _of_json(kind: pa.DataType) -> pa.DataType:
    """The type that Spark infers for a type that PyArrow has inferred: times in texts stay text, and fields are sorted by
    name."""
    t = pa.types
    if t.is_struct(kind):
        return pa.struct(sorted(((field.name, _of_json(field.type)) for field in kind), key=lambda pair: pair[0]))
    if t.is_list(kind):
        return pa.list_(pa.field("element", _of_json(kind.value_type)))
    return pa.string() if t.is_null(kind) or is_time(kind) else kind


def _both(one: pa.DataType, other: pa.DataType, where: str) -> pa.DataType:
    """The type of a column that has two types in two files."""
    if one == other or pa.types.is_null(other):
        return one
    if {one, other} != {pa.int64(), pa.float64()}:
        cure = "read them one by one"
        raise InvalidData(
            "the files have other types", where=where, expected=format_type(one), found=format_type(other), cure=cure
        )
    return pa.float64()


def _json(path: str, schema: pa.Schema) -> Iterator[pa.Table]:
    yield json_files.read(json_text.opened(path, None), schema)


_SCHEMAS = {"parquet": _parquet_schema, "csv": _csv_schema, "json": _json_schema}
_READERS = {"parquet": _parquet, "csv": _csv, "json": _json}
