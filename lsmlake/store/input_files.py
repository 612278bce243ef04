"""Files that users name as data: Parquet, CSV and JSON on a local file system, read as tables one after the other.

Text files have no types. CSV columns are read as text and nothing is guessed: "007" stays "007" until the table's type
decides. An empty field is null, an empty field in quotes is an empty text. JSON has numbers, booleans and text, which are kept.
"""

from __future__ import annotations

import glob
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as csv
import pyarrow.json as json
import pyarrow.parquet as pq

from lsmlake.errors import InvalidData
from lsmlake.format import types

_PARQUET, _CSV, _TSV, _JSON = "parquet", "csv", "tsv", "json"
_KINDS = {"parquet": _PARQUET, "pq": _PARQUET, "csv": _CSV, "tsv": _TSV, "json": _JSON, "jsonl": _JSON, "ndjson": _JSON}
_COMPRESSED = "gz", "bz2", "zst", "lz4"
_BATCH_ROWS = 1 << 16
_EXPECTED = ", ".join(f".{suffix}" for suffix in _KINDS) + ", text files also with ." + ", .".join(_COMPRESSED)


def find(name: str) -> list[str]:
    """The files that a path or a glob means, ascending; of a folder all files in it and below whose kind is known. Raises
    InvalidData if there is none."""
    path = Path(name.removeprefix("file://")).expanduser()
    if path.is_dir():
        found = [str(file) for file in sorted(path.rglob("*")) if file.is_file() and _kind(file) and not _hidden(file, path)]
    else:
        found = [str(path)] if path.is_file() else sorted(glob.glob(str(path), recursive=True))
    if not found:
        raise InvalidData(
            "there is no such file of data", where=name, expected=f"files {_EXPECTED}", cure="correct the path or the glob"
        )
    for file in found:
        if _kind(Path(file)) is None:
            raise InvalidData("the file is of no kind that can be read", where=file, expected=_EXPECTED, cure="read it yourself")
    return found


def is_text(path: str) -> bool:
    """Whether the values of a file have no types."""
    return _kind(Path(path)) != _PARQUET


def read(path: str, schema: pa.Schema | None) -> Iterator[pa.Table]:
    """The rows of one file. `schema`: the columns of the table they are for, if it exists. Raises InvalidData."""
    try:
        kind = _kind(Path(path))
        if kind == _PARQUET:
            yield from _parquet(path)
        elif kind == _JSON:
            yield _json(path, schema)
        else:
            yield from _csv(path, "\t" if kind == _TSV else ",")
    except (pa.ArrowException, OSError, UnicodeDecodeError) as broken:
        raise InvalidData("the file cannot be read", where=path, found=broken, cure="correct the file") from broken


def inferred(path: str) -> pa.Schema:
    """The columns of a text file with the types that its first block seems to have. Numbers that begin with a zero are text, as
    are columns without a value. Raises InvalidData."""
    try:
        if _kind(Path(path)) == _JSON:
            return _without_null_types(json.read_json(path).schema)
        parse = csv.ParseOptions(delimiter="\t" if _kind(Path(path)) == _TSV else ",", newlines_in_values=True)
        with csv.open_csv(path, parse_options=parse) as reader:
            guessed = reader.schema
        texts = next((batch for batch in read(path, None) if batch.num_rows), None)
    except (pa.ArrowException, OSError, UnicodeDecodeError) as broken:
        raise InvalidData("the file cannot be read", where=path, found=broken, cure="correct the file") from broken
    coded = _with_leading_zeros(texts) if texts is not None else []
    fields = [field.with_type(pa.string()) if field.name in coded and not _is_time(field.type) else field for field in guessed]
    return _without_null_types(pa.schema(fields))


def _with_leading_zeros(texts: pa.Table) -> list[str]:
    starts = (pc.any(pc.match_substring_regex(column, r"^\s*[+-]?0\d")).as_py() for column in texts.columns)
    return [name for name, zero in zip(texts.column_names, starts, strict=True) if zero]


def _is_time(type_: pa.DataType) -> bool:
    return pa.types.is_temporal(type_)


def _without_null_types(schema: pa.Schema) -> pa.Schema:
    return pa.schema([field.with_type(pa.string()) if pa.types.is_null(field.type) else field for field in schema])


def _kind(path: Path) -> str | None:
    suffixes = [suffix[1:].lower() for suffix in path.suffixes]
    if len(suffixes) > 1 and suffixes[-1] in _COMPRESSED and _KINDS.get(suffixes[-2]) not in (None, _PARQUET):
        return _KINDS[suffixes[-2]]
    return _KINDS.get(suffixes[-1]) if suffixes else None


def _hidden(file: Path, root: Path) -> bool:
    return any(part.startswith((".", "_")) for part in file.relative_to(root).parts)


def _parquet(path: str) -> Iterator[pa.Table]:
    with pq.ParquetFile(path) as file:
        yield file.schema_arrow.empty_table()
        for batch in file.iter_batches(_BATCH_ROWS):
            yield pa.Table.from_batches([batch])


def _csv(path: str, delimiter: str) -> Iterator[pa.Table]:
    parse = csv.ParseOptions(delimiter=delimiter, newlines_in_values=True)
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


def _json(path: str, schema: pa.Schema | None) -> pa.Table:
    """Text for a STRING column is not looked at; elsewhere PyArrow takes text that looks like a time for one."""
    texts = [field for field in schema or () if types.is_text(field.type)]
    return json.read_json(path, parse_options=json.ParseOptions(explicit_schema=pa.schema(texts)))
