"""Input files that users load into tables: Parquet, CSV and JSON on a local file system, read in sequence as Arrow tables.

CSV columns are read as text without type inference: "007" stays "007" until it is converted to the table's type. An empty field
is null; an empty field in quotes is an empty text. JSON numbers, booleans and texts keep their types (`store.json_files`).
"""

from __future__ import annotations

import glob
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as csv
import pyarrow.parquet as pq

from lsmlake.errors import InvalidData, Wording
from lsmlake.format.paths import first_schema
from lsmlake.store import json_files
from lsmlake.store.address import without_scheme
from lsmlake.store.local import expanded

_PARQUET, _CSV, _TSV, _JSON = "parquet", "csv", "tsv", "json"
_KINDS = {"parquet": _PARQUET, "pq": _PARQUET, "csv": _CSV, "tsv": _TSV, "json": _JSON, "jsonl": _JSON, "ndjson": _JSON}
_DELIMITERS = {_CSV: ",", _TSV: "\t"}
_LEADING_ZERO, _INTEGER, _INTEGER_OF_38_DIGITS = r"^\s*[+-]?0\d", r"^\s*[+-]?\d+\s*$", r"^\s*[+-]?\d{1,38}\s*$"
_COMPRESSED = "gz", "bz2", "zst", "lz4"
_HIDDEN = "_", "."
DELTA_LOG, ICEBERG_METADATA = "_delta_log", "metadata/*.metadata.json"
"""What the folder of a table of another format has."""
_BATCH_ROWS = 1 << 16
_EXPECTED = ", ".join(f".{suffix}" for suffix in _KINDS) + ", text files also with ." + ", .".join(_COMPRESSED)


def find(name: str, expected: str = f"files {_EXPECTED}") -> list[str]:
    """The files that match a path or a glob, ascending; for a folder, all files of a known format inside it, recursively.

    As in Spark, files and folders whose names begin with "_" or "." are skipped unless the path names them. Raises InvalidData
    if no file matches, or if one has an unknown format or belongs to a table. `expected`: what could match, for the message.
    """
    path = local_path(name)
    found = [str(path)] if path.is_file() else _below(path) if path.is_dir() else _matching(path)
    if not found:
        raise InvalidData("no input file found", where=name, expected=expected, cure="correct the path or the glob")
    for file in found:
        if _kind(Path(file)) is None:
            raise InvalidData("the file format is not supported", where=file, expected=_EXPECTED, cure="convert the file")
    _check_no_table(found)
    return found


def find_any(name: str) -> list[str]:
    """As `find`, for files whose names say nothing of their format."""
    path = local_path(name)
    if path.is_file():
        found = [str(path)]
    elif path.is_dir():
        found = [str(file) for file in sorted(path.rglob("*")) if file.is_file() and not _hidden(file, path)]
    else:
        found = sorted(str(match) for match in _visible(path) if match.is_file())
    if not found:
        raise InvalidData("no input file found", where=name, cure="correct the path or the glob")
    _check_no_table(found)
    return found


def local_path(name: str) -> Path:
    """A path or a `file:` URI, as a path. Raises InvalidData."""
    found = expanded(without_scheme(name))
    if found is None:
        raise InvalidData(
            "not a path",
            found=repr(name),
            expected="a path or a glob of files, '.' for the current folder",
            cure="name the input files",
        )
    return found


def _below(folder: Path) -> list[str]:
    return [str(file) for file in sorted(folder.rglob("*")) if file.is_file() and _kind(file) and not _hidden(file, folder)]


def _matching(pattern: Path) -> list[str]:
    """The files that match a glob; for a matching folder, all files inside it, recursively."""
    found: set[str] = set()
    for match in _visible(pattern):
        found.update(_below(match) if match.is_dir() else [str(match)])
    return sorted(found)


def _visible(pattern: Path) -> Iterator[Path]:
    """The files and folders that match a glob. Of those whose names begin with "_" or ".", the ones that it names."""
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
    """The error for input files that belong to a table of another format. `verb`: that imports such a table."""
    return InvalidData(
        f"the input files belong to a table of {format}, so they may include superseded and deleted rows",
        where=folder,
        expected="files outside of tables",
        cure=Wording(
            f"make a table of that table: lake.{verb}(folder, name)",
            command="make a table of that table: lsmlake adopt FOLDER TABLE",
        ),
    )


def is_text(path: str) -> bool:
    """Whether a file is a text file: CSV, TSV or JSON."""
    return _kind(Path(path)) != _PARQUET


def read(path: str, schema: pa.Schema | None) -> Iterator[pa.Table]:
    """Yield the rows of one file. `schema`: the columns of the target table, if it exists. Raises InvalidData."""
    try:
        kind = _kind(Path(path))
        if kind == _PARQUET:
            yield from _parquet(path)
        elif kind == _JSON:
            yield json_files.read(path, schema)
        else:
            yield from _csv(path, _DELIMITERS[kind])
    except (pa.ArrowException, OSError, UnicodeDecodeError) as broken:
        raise InvalidData("the file cannot be read", where=path, found=broken, cure="correct the file") from broken


def inferred(path: str) -> pa.Schema:
    """The columns of a file with their types: the stored types of Parquet, or types inferred from text.

    Inference reads the first block of a CSV file and all of a JSON file. Columns without a value, of numbers with a leading zero
    and of times of day are STRING. Integers beyond 64 bits are DECIMAL(38,0), or STRING if they have more than 38 digits. Raises
    InvalidData.
    """
    try:
        kind = _kind(Path(path))
        if kind == _PARQUET:
            return pq.read_schema(path)
        return _without_null_types(json_files.inferred(path) if kind == _JSON else _of_csv(path, _DELIMITERS[kind]))
    except (pa.ArrowException, OSError, UnicodeDecodeError) as broken:
        raise InvalidData("the file cannot be read", where=path, found=broken, cure="correct the file") from broken


def _of_csv(path: str, delimiter: str) -> pa.Schema:
    with csv.open_csv(path, parse_options=_parse_options(delimiter)) as reader:
        guessed = reader.schema
    texts = next((batch for batch in _csv(path, delimiter) if batch.num_rows), guessed.empty_table())
    decided = [_type_of_texts(field.type, column) for field, column in zip(guessed, texts.columns, strict=True)]
    return pa.schema([field.with_type(type_) for field, type_ in zip(guessed, decided, strict=True)])


def _type_of_texts(guessed: pa.DataType, texts: pa.ChunkedArray) -> pa.DataType:
    """The column type for texts that PyArrow infers as type `guessed`."""
    t = pa.types
    if t.is_time(guessed):
        return pa.string()  # no column type is a time of day
    if t.is_integer(guessed) or t.is_floating(guessed):
        if pc.any(pc.match_substring_regex(texts, _LEADING_ZERO)).as_py():
            return pa.string()
        if t.is_floating(guessed) and pc.all(pc.match_substring_regex(texts, _INTEGER)).as_py():
            short = pc.all(pc.match_substring_regex(texts, _INTEGER_OF_38_DIGITS)).as_py()
            return pa.decimal128(38, 0) if short else pa.string()
    return guessed


def _without_null_types(schema: pa.Schema) -> pa.Schema:
    return pa.schema([field.with_type(pa.string()) if pa.types.is_null(field.type) else field for field in schema])


def _kind(path: Path) -> str | None:
    suffixes = [suffix[1:].lower() for suffix in path.suffixes]
    if len(suffixes) > 1 and suffixes[-1] in _COMPRESSED and _KINDS.get(suffixes[-2]) not in (None, _PARQUET):
        return _KINDS[suffixes[-2]]
    return _KINDS.get(suffixes[-1]) if suffixes else None


def _hidden(file: Path, root: Path) -> bool:
    return any(part.startswith(_HIDDEN) for part in file.relative_to(root).parts)


def _parquet(path: str) -> Iterator[pa.Table]:
    with pq.ParquetFile(path) as file:
        yield file.schema_arrow.empty_table()
        for batch in file.iter_batches(_BATCH_ROWS):
            yield pa.Table.from_batches([batch])


def _parse_options(delimiter: str) -> csv.ParseOptions:
    return csv.ParseOptions(delimiter=delimiter, newlines_in_values=True)


def _csv(path: str, delimiter: str) -> Iterator[pa.Table]:
    parse = _parse_options(delimiter)
    with csv.open_csv(path, parse_options=parse) as first:
        names = first.schema.names
    convert = csv.ConvertOptions(
        column_types=dict.fromkeys(names, pa.string()),
        null_values=[""],
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
    )
    with csv.open_csv(path, parse_options=parse, convert_options=convert) as reader:
        yield reader.schema.empty_table()
        for batch in reader:
            yield pa.Table.from_batches([batch])
