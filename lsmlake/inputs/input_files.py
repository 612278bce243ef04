"""Input files that users load into tables: Parquet, CSV, JSON and Excel on a local file system, read in sequence as Arrow tables.

`opened` recognises how a file is to be read, or obeys the `FileOptions` of the call: `inputs.csv_files`, `inputs.json_text` and
`inputs.excel_files` do that for their formats.
"""

from __future__ import annotations

import glob
from collections.abc import Iterator
from contextlib import contextmanager
from fnmatch import fnmatch
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from lsmlake.errors import InvalidData, Wording
from lsmlake.format.paths import first_schema
from lsmlake.inputs import csv_files, excel_files, json_files, json_text
from lsmlake.inputs.csv_files import CsvFile
from lsmlake.inputs.excel_files import ExcelFile
from lsmlake.inputs.json_text import JsonFile
from lsmlake.inputs.text_files import COMPRESSED, FileOptions
from lsmlake.storage.address import scheme_of, without_scheme
from lsmlake.storage.local import expanded

_PARQUET, _CSV, _TSV, _JSON, _EXCEL = "parquet", "csv", "tsv", "json", "excel"
PARQUET_SUFFIXES = ("parquet", "pq", "parq")
_KINDS = {
    **dict.fromkeys(PARQUET_SUFFIXES, _PARQUET),
    "csv": _CSV,
    "tsv": _TSV,
    **dict.fromkeys(("json", "jsonl", "ndjson"), _JSON),
    **dict.fromkeys(excel_files.SUFFIXES, _EXCEL),
}
_DELIMITERS = {_CSV: ",", _TSV: "\t"}
_OPTIONS = {
    _PARQUET: ("Parquet files", ()),
    _CSV: ("CSV files", ("null_values", "delimiter", "encoding")),
    _TSV: ("CSV files", ("null_values", "delimiter", "encoding")),
    _JSON: ("JSON files", ("encoding",)),
    _EXCEL: ("Excel files", ("null_values",)),
}
"""Format -> its files, and the options that apply to them."""
_TEXTS = _CSV, _TSV, _JSON
_HIDDEN = "_", ".", "~$"
"""Names that begin so are skipped in a folder or glob; Excel marks an open workbook by a file "~$" and its name."""
DELTA_LOG, ICEBERG_METADATA = "_delta_log", "metadata/*.metadata.json"
"""The files by which the folder of a table of another format is recognised."""
_BATCH_ROWS = 1 << 16
_EXPECTED = ", ".join(f".{suffix}" for suffix in _KINDS) + ", text files also with ." + ", .".join(COMPRESSED)


def find(name: str, expected: str = f"files {_EXPECTED}") -> list[str]:
    """The files that match a path or a glob; for a folder, all files of a known format inside it, recursively. The file that was
    modified last comes last, as its rows are the newest; files of one millisecond are in the order of their paths.

    As in Spark, files and folders whose names begin with "_" or "." are skipped unless the path names them, and those of "~$", by
    which Excel marks open workbooks. Raises InvalidData if no file matches, or if one has an unknown format or belongs to a
    table. `expected`: the possible matches, for the message.
    """
    path = local_path(name)
    files = [str(path)] if path.is_file() else _below(path) if path.is_dir() else _matching(path)
    if not files:
        raise InvalidData("no input file found", where=name, expected=expected, cure="correct the path or the glob")
    for file in files:
        if _kind(Path(file)) is None:
            raise InvalidData(
                "the file format is not supported",
                where=file,
                expected=_EXPECTED,
                cure="give the file the suffix of its format, or convert it",
            )
    _check_no_table(files)
    return sorted(files, key=_modified)


def _modified(file: str) -> tuple[int, str]:
    try:
        return Path(file).stat().st_mtime_ns // 1_000_000, file
    except FileNotFoundError:  # the error of reading the file says so
        return 0, file


def find_any(name: str, *, empty: bool = False) -> list[str]:
    """As `find`, for files whose names say nothing of their format. `empty`: a folder may have no files yet."""
    path = local_path(name)
    if path.is_file():
        files = [str(path)]
    elif path.is_dir():
        files = [str(file) for file in sorted(path.rglob("*")) if file.is_file() and not _hidden(file, path)]
    else:
        files = sorted(str(match) for match in _visible(path) if match.is_file())
    if not files and not (empty and path.is_dir()):
        raise InvalidData("no input file found", where=name, cure="correct the path or the glob")
    _check_no_table(files)
    return sorted(files, key=_modified)


def local_path(name: str) -> Path:
    """A path or a `file:` URI, as a path. Raises InvalidData."""
    if (scheme := scheme_of(name)) is not None:
        raise InvalidData(
            "the address is not one of this machine",
            where=f"{scheme}:/...",
            expected="a path or a glob of files of this machine",
            cure="read the files with PyArrow, DuckDB, Polars or Spark, and pass the rows",
        )
    path = expanded(without_scheme(name))
    if path is None:
        raise InvalidData(
            "not a path",
            found=repr(name),
            expected="a path or a glob of files, '.' for the current folder",
            cure="name the input files",
        )
    return path


def _below(folder: Path) -> list[str]:
    return [str(file) for file in sorted(folder.rglob("*")) if file.is_file() and _kind(file) and not _hidden(file, folder)]


def _matching(pattern: Path) -> list[str]:
    """The files that match a glob; for a matching folder, all files inside it, recursively."""
    files: set[str] = set()
    for match in _visible(pattern):
        files.update(_below(match) if match.is_dir() else [str(match)])
    return sorted(files)


def _visible(pattern: Path) -> Iterator[Path]:
    """The files and folders that match a glob. Hidden ones match only if the glob names them."""
    named = [part for part in pattern.parts if part.startswith(_HIDDEN)]
    for match in map(Path, glob.glob(str(pattern), recursive=True)):
        if not any(part.startswith(_HIDDEN) and not any(fnmatch(part, one) for one in named) for part in match.parts):
            yield match


def _check_no_table(files: list[str]) -> None:
    """Raises InvalidData if one of `files` belongs to a table, since its data files include superseded and deleted rows."""
    for folder in sorted({folder for file in files for folder in Path(file).resolve().parents}):
        if Path(first_schema(str(folder))).is_file():
            raise InvalidData(
                "the input files belong to a table, so they include superseded and deleted rows",
                where=folder,
                expected="files outside of tables",
                cure=Wording(
                    'pass the rows of the table: connect(...).table("database.table").scan()',
                    command="copy the table in a program: pass table.scan() to create_table_from or upsert",
                ),
            )
        if (folder / DELTA_LOG).is_dir():
            raise of_other_format("Delta Lake", "import_delta", str(folder))
        if any(folder.glob(ICEBERG_METADATA)):
            raise of_other_format("Iceberg", "import_iceberg", str(folder))


def of_other_format(format: str, verb: str, folder: str) -> InvalidData:
    """The error for input files that belong to a table of another format. `verb`: the method that imports such a table."""
    return InvalidData(
        f"the input files belong to a table of {format}, so they may include superseded and deleted rows",
        where=folder,
        expected="files outside of tables",
        cure=Wording(
            f"make a table of that table: lake.{verb}(folder, name)",
            command="make a table of that table: lsmlake adopt FOLDER TABLE",
        ),
    )


class ParquetFile(NamedTuple):
    """A Parquet file."""

    path: str
    recognised: tuple[str, ...] = ()

    def line_of(self, row: int) -> None:
        """Parquet files have no lines."""


InputFile = ParquetFile | CsvFile | JsonFile | ExcelFile


def is_typed(path: str) -> bool:
    """Whether the types of a file are stored in it, and not inferred from its values."""
    return _kind(Path(path)) == _PARQUET


def has_columns(path: str) -> bool:
    """Whether a file has named columns, by its suffix: not a file of lines or of JSON."""
    return _kind(Path(path)) not in (None, _JSON)


def check_options(paths: list[str], options: FileOptions) -> None:
    """Raises InvalidData for an option that does not apply to one of the files."""
    for path in paths if options.given else ():
        what, known = _OPTIONS[_kind(Path(path))]
        options.check(known, path, what)


def opened(path: str, options: FileOptions) -> InputFile:
    """A file, and how it is read. Raises InvalidData."""
    with readable(path):
        kind = _kind(Path(path))
        if kind == _PARQUET:
            return ParquetFile(path)
        if kind == _JSON:
            return json_text.opened(path, options.encoding)
        if kind == _EXCEL:
            return excel_files.opened(path, options.null_values)
        return csv_files.opened(path, _DELIMITERS[kind], options)


def read(file: InputFile, schema: pa.Schema | None) -> Iterator[pa.Table]:
    """Yields the rows of one file. `schema`: the columns of the target table, if it exists. Raises InvalidData."""
    with readable(file.path):
        if isinstance(file, CsvFile):
            yield from file.tables(schema)
        elif isinstance(file, JsonFile):
            yield json_files.read(file, schema)
        elif isinstance(file, ExcelFile):
            yield file.table(schema)
        else:
            yield from _parquet(file.path)


def inferred(file: InputFile) -> pa.Schema:
    """The columns of a file with their types: the stored types of Parquet, or types inferred from values.

    Inference reads the first block of a CSV file, and all of a JSON or Excel file. Columns without a value, of numbers with a
    leading zero and of times of day are STRING. Integers beyond 64 bits are DECIMAL(38,0), or STRING if they have more than 38
    digits. Raises InvalidData.
    """
    with readable(file.path):
        if isinstance(file, (CsvFile, ExcelFile)):
            return file.columns()
        if isinstance(file, JsonFile):
            return pa.schema([field.with_type(_without_nulls(field.type)) for field in json_files.inferred(file)])
        return pq.read_schema(file.path)


@contextmanager
def readable(path: str) -> Iterator[None]:
    """Raises InvalidData for a file that cannot be read."""
    try:
        yield
    except (pa.ArrowException, OSError, UnicodeDecodeError) as broken:
        raise InvalidData("the file cannot be read", where=path, found=broken, cure="correct the file") from broken


def _without_nulls(type_: pa.DataType) -> pa.DataType:
    """`type_`, with STRING where no value shows a type."""
    if pa.types.is_struct(type_):
        return pa.struct([field.with_type(_without_nulls(field.type)) for field in type_])
    if pa.types.is_list(type_):
        return pa.list_(type_.value_field.with_type(_without_nulls(type_.value_type)))
    return pa.string() if pa.types.is_null(type_) else type_


def has_known_format(path: str) -> bool:
    """Whether a folder of input files includes a file of this name."""
    return _kind(Path(path)) is not None


def _kind(path: Path) -> str | None:
    suffixes = [suffix[1:].lower() for suffix in path.suffixes]
    if len(suffixes) > 1 and suffixes[-1] in COMPRESSED and _KINDS.get(suffixes[-2]) in _TEXTS:
        return _KINDS[suffixes[-2]]
    return _KINDS.get(suffixes[-1]) if suffixes else None


def _hidden(file: Path, root: Path) -> bool:
    return any(part.startswith(_HIDDEN) for part in file.relative_to(root).parts)


def _parquet(path: str) -> Iterator[pa.Table]:
    with pq.ParquetFile(path) as file:
        yield file.schema_arrow.empty_table()
        for batch in file.iter_batches(_BATCH_ROWS):
            yield pa.Table.from_batches([batch])
