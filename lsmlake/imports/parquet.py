"""Reads a folder of Parquet files: the columns of all files, and the partitions in the names of folders.

1. List the files. A folder means all Parquet files below it; names that begin with "_" or "." are left out, as in Spark.
2. Folders such as `dt=2026-01-01/` are partitions, as Hive writes them. All files must be below folders of the same names, in any
   order, unless the files have the column themselves.
3. Read all footers. The columns of the table are those of all files, by name, in the order in which they first appear; each has
   the widest of its types. A column that some files lack is null there.
4. If the files have field ids that agree, the columns keep them. Else columns are found by name.
"""

from __future__ import annotations

import datetime
import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path, PurePosixPath
from typing import NamedTuple
from urllib.parse import unquote

import pyarrow as pa

from lsmlake.errors import InvalidData, InvalidSchema
from lsmlake.files.parquet_facts import read_footer
from lsmlake.imports.foreign import ForeignFile, ForeignTable
from lsmlake.inputs import input_files
from lsmlake.schema.adapt import names_of
from lsmlake.schema.from_data import schema_from
from lsmlake.schema.partitioning import Partitioning
from lsmlake.schema.transform import IDENTITY, Transform
from lsmlake.storage.address import scheme_of
from lsmlake.storage.concurrency import side_by_side
from lsmlake.storage.location import Outside, joined
from lsmlake.types import column_types
from lsmlake.types.column_types import field_id, has_field_id, inner_fields
from lsmlake.types.type_text import format_type
from lsmlake.types.widening import widens

_NULL = "__HIVE_DEFAULT_PARTITION__"
_ENDINGS = tuple(f".{suffix}" for suffix in input_files.PARQUET_SUFFIXES)
_EXPECTED = f"Parquet files, whose names end in {', '.join(_ENDINGS)}"
_WILDCARDS = re.compile(r"[*?\[]")
_INTEGER, _DATE = re.compile(r"-?(0|[1-9][0-9]{0,17})"), re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_INDEX = re.compile(r"__index_level_\d+__")
"""Names of the index of a DataFrame of pandas."""
_INT = range(-(1 << 31), 1 << 31)
_LOAD = "load them with create_table_from, which converts every row"


class _ListedFile(NamedTuple):
    """A file: its address, its size, and the values of the partitions that its folders name."""

    uri: str
    bytes: int
    partition: Mapping[str, str | None]


def read_parquet(outside: Outside, name: str, primary_key: Sequence[str], *, partitioned: bool, workers: int) -> ForeignTable:
    """The table that Parquet files hold.

    Args:
        outside: reaches the files.
        name: a path, a glob or a folder, or the address of one in an object store.
        primary_key: the primary key of the new table.
        partitioned: whether the partitions of folders are partitions of the table.
        workers: how many footers to read side by side.

    Raises:
        InvalidData: there are no such files; or only some are below folders that name a column.
        InvalidSchema: the columns of the files do not fit together, no table can have them, or they lack one of the key.
        Corrupt, StorageFailed: a file is damaged, or cannot be read.
    """
    listed = _listed(outside, name)
    read = [partial(_stored, outside, one) for one in listed]
    stored = side_by_side(read, workers)
    columns = _merged(stored, listed)
    keys = [key for key in listed[0].partition if all(key in one.partition for one in listed)]
    _check_folders(listed, stored, keys)
    lacking = [key for key in keys if key not in columns.names]
    if lacking:
        columns = pa.schema([*columns, *(pa.field(key, _type_of([one.partition[key] for one in listed])) for key in lacking)])
    _check_key(primary_key, columns.names, name)
    ids = _ids(stored)
    columns = _numbered(columns, ids or {})
    of = {field.name: field for field in columns}
    kept = keys if partitioned else []
    partitioning = Partitioning.first((field_id(of[key]), key, Transform(IDENTITY)) for key in kept)
    files = []
    for one in listed:
        values = {key: _value(one.partition[key], of[key].type, one.uri, key) for key in keys}
        constants = {field_id(of[key]): value for key, value in values.items()}
        partition = tuple(values[key] for key in kept)
        files.append(ForeignFile(one.uri, one.uri, "parquet", one.bytes, None, 0, partition, (), 0, constants))
    highest = max(column_types.field_ids(columns))
    return ForeignTable(name, columns, highest, partitioning, files, names=names_of(columns), by_name=ids is None, by_folder=True)


# -- the files ----------------------------------------------------------------------------------------------------------


def _listed(outside: Outside, name: str) -> list[_ListedFile]:
    files = list(_in_store(outside, name) if scheme_of(name) is not None else _here(outside, name))
    if not files:
        raise InvalidData("no Parquet file found", where=name, expected=_EXPECTED, cure="correct the path")
    return files


def _here(outside: Outside, name: str) -> Iterator[_ListedFile]:
    root = _root(name)
    for path in input_files.find(name, _EXPECTED):
        if not path.lower().endswith(_ENDINGS):
            raise _no_parquet(path)
        size = outside.place(path).size()
        if size is None:
            raise InvalidData("a symbolic link is not followed", where=path, expected="a file", cure="name the file itself")
        yield _ListedFile(path, size, _partition_of(PurePosixPath(path).relative_to(root).parts[:-1]))


def _no_parquet(path: str) -> InvalidData:
    return InvalidData("not a Parquet file", where=path, expected=_EXPECTED, cure=_LOAD)


def _root(name: str) -> PurePosixPath:
    """The folder below which folders name partitions: the folder `name`, or the part of it before the first wildcard."""
    path = input_files.local_path(name)
    if path.is_dir():
        return PurePosixPath(path)
    plain = itertools.takewhile(lambda part: not _WILDCARDS.search(part), path.parts)
    return PurePosixPath(path.parent if path.is_file() else Path(*plain))


def _in_store(outside: Outside, url: str) -> Iterator[_ListedFile]:
    wildcard = _WILDCARDS.search(url)
    root = url[: wildcard.start()].rpartition("/")[0] if wildcard else url.rstrip("/")
    pattern = url[len(root) + 1 :] if wildcard else ""
    if not wildcard and root.lower().endswith(_ENDINGS) and (size := outside.place(root).size()) is not None:
        yield _ListedFile(root, size, {})
        return
    for entry in outside.list(root):
        parts = PurePosixPath(entry.path).parts
        if parts[0] == input_files.DELTA_LOG:
            raise input_files.of_other_format("Delta Lake", "import_delta", root)
        if fnmatchcase(entry.path, input_files.ICEBERG_METADATA):
            raise input_files.of_other_format("Iceberg", "import_iceberg", root)
        if any(part.startswith(("_", ".")) for part in parts) or (pattern and not _matches(parts, pattern)):
            continue
        if entry.path.lower().endswith(_ENDINGS):
            yield _ListedFile(joined(root, entry.path), entry.size, _partition_of(parts[:-1]))
        elif input_files.has_known_format(entry.path):
            raise _no_parquet(joined(root, entry.path))


def _matches(parts: Sequence[str], pattern: str) -> bool:
    """Whether a path, or a folder that it is in, matches a glob."""
    wanted = PurePosixPath(pattern).parts
    return len(parts) >= len(wanted) and all(map(fnmatchcase, parts, wanted))


def _partition_of(folders: Sequence[str]) -> dict[str, str | None]:
    """The values that folders such as `dt=2026-01-01` name, as text; None: null."""
    pairs = (folder.partition("=") for folder in folders)
    named = [(unquote(key), unquote(text)) for key, equals, text in pairs if key and equals]
    texts = dict(named)
    if len(texts) < len(named):
        raise InvalidData(
            "folders name two values of one column",
            expected="one folder for each column",
            found="/".join(folders),
            cure="rename one of the folders, or import the files of each alone",
        )
    return {key: None if text == _NULL else text for key, text in texts.items()}


def _check_folders(files: Sequence[_ListedFile], stored: Sequence[pa.Schema], keys: Sequence[str]) -> None:
    """Raises InvalidData if a folder names a value that its files lack, and that is no partition. `keys`: the columns that the
    folders of all files name."""
    for file, schema in zip(files, stored, strict=True):
        for key in file.partition:
            if key not in keys and key not in schema.names:
                other = next(one.uri for one in files if key not in one.partition)
                raise InvalidData(
                    f"only some folders name a value of the column {key!r}",
                    where=file.uri,
                    expected=f"folders such as {key}=... above all files",
                    found=f"none above {other}",
                    cure="move the files, or import those of each kind of folder alone",
                )


def _type_of(texts: Sequence[str | None]) -> pa.DataType:
    """The type of a partition column that no file has: a date, an integer, or else text."""
    known = [text for text in texts if text is not None]
    if known and all(map(_INTEGER.fullmatch, known)):
        return pa.int32() if all(int(text) in _INT for text in known) else pa.int64()
    if known and all(map(_is_date, known)):
        return pa.date32()
    return pa.string()


def _is_date(text: str) -> bool:
    try:
        return _DATE.fullmatch(text) is not None and datetime.date.fromisoformat(text) is not None
    except ValueError:
        return False


def _value(text: str | None, type_: pa.DataType, where: str, key: str) -> object:
    if text is None:
        return None
    try:
        return pa.scalar(text).cast(type_).as_py()
    except (pa.ArrowException, ValueError, OverflowError) as unfit:  # the last: a date before the year 1
        raise InvalidData(
            f"a folder names no value of the column {key!r}",
            where=where,
            expected=format_type(column_types.plain(type_)),
            found=repr(text),
            cure="rename the folder, or pass the files of each folder alone",
        ) from unfit


def _check_key(primary_key: Sequence[str], names: Sequence[str], where: str) -> None:
    for key in primary_key:
        if key not in names:
            raise InvalidSchema(
                f"primary key column {key!r} is neither in the files nor the name of folders",
                where=where,
                expected=f"one of {list(names)}",
                cure=f"correct the name, or pass a folder whose files are all below folders such as {key}=...",
            )


# -- the columns --------------------------------------------------------------------------------------------------------


def _stored(outside: Outside, file: _ListedFile) -> pa.Schema:
    _, footer = read_footer(outside.place(file.uri), file.bytes, file.uri)
    return footer.schema.to_arrow_schema()


def _merged(stored: Sequence[pa.Schema], files: Sequence[_ListedFile]) -> pa.Schema:
    """The columns of all files, without ids. Raises InvalidSchema."""
    types: dict[str, tuple[pa.DataType, str]] = {}
    known: dict[str, tuple[pa.Schema, pa.Schema]] = {}
    for schema, file in zip(stored, files, strict=True):
        if str(schema) not in known:
            typed = pa.schema([field for field in schema if not (pa.types.is_null(field.type) or _INDEX.fullmatch(field.name))])
            known[str(schema)] = schema, schema_from(typed)
            for field in known[str(schema)][1]:
                earlier = types.get(field.name)
                types[field.name] = (field.type, file.uri) if earlier is None else _wider(field, file.uri, *earlier)
    if not types:
        raise InvalidSchema("the files have no columns whose types are known", where=files[0].uri, cure=_LOAD)
    return pa.schema([pa.field(name, type_) for name, (type_, _) in types.items()])


def _wider(field: pa.Field, uri: str, type_: pa.DataType, of: str) -> tuple[pa.DataType, str]:
    if field.type == type_:
        return type_, of
    if not inner_fields(type_) and not inner_fields(field.type):
        if widens(field.type, type_):
            return type_, of
        if widens(type_, field.type):
            return field.type, uri
    raise InvalidSchema(
        f"the files have different types of the column {field.name!r}",
        where=uri,
        expected=f"{format_type(type_)}, as in {of}",
        found=format_type(field.type),
        cure="import the files of each type alone, or load them into a table with a schema of your own",
    )


_Path = tuple[str, ...]


def _ids(stored: Sequence[pa.Schema]) -> dict[_Path, int] | None:
    """The ids of columns, by their names from the root, if all files with ids agree on them and all have some; else None."""
    ids: dict[_Path, int] = {}
    for schema in {str(one): one for one in stored}.values():
        for path, field in _fields(schema, ()):
            if not has_field_id(field) or ids.setdefault(path, field_id(field)) != field_id(field):
                return None
    unique = len(set(ids.values())) == len(ids)
    return ids if unique and all(0 < id <= column_types.FIELD_ID_MAX for id in ids.values()) else None


def _fields(fields: Sequence[pa.Field], above: _Path) -> Iterator[tuple[_Path, pa.Field]]:
    for field in fields:
        yield (*above, field.name), field
        yield from _fields(_inside(field.type), (*above, field.name))


def _inside(type_: pa.DataType) -> list[pa.Field]:
    """The fields inside a type, those of lists and maps with their canonical names."""
    if pa.types.is_struct(type_):
        return list(type_)
    if pa.types.is_map(type_):
        return [type_.key_field.with_name("key"), type_.item_field.with_name("value")]
    return [type_.field(0).with_name("element")] if type_.num_fields == 1 else []


def _numbered(columns: pa.Schema, ids: Mapping[_Path, int]) -> pa.Schema:
    fresh = itertools.count(max(ids.values(), default=0) + 1)

    def numbered(field: pa.Field, above: _Path) -> pa.Field:
        path = (*above, field.name)
        id = ids[path] if path in ids else next(fresh)
        inner = [numbered(one, path) for one in _inside(field.type)]
        type_ = column_types.with_inner_fields(field.type, inner) if inner else field.type
        return field.with_type(type_).with_metadata({column_types.FIELD_ID: str(id).encode()})

    return pa.schema([numbered(field, ()) for field in columns])
