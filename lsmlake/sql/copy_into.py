"""COPY INTO: loads the files of a folder that were not loaded before.

The commit that adds the rows also names the list of loaded files (`tables.copied`), so each file is loaded exactly once. If
two statements run at the same time, the one that loses the commit starts again with the remaining files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from fnmatch import fnmatch
from functools import partial
from pathlib import Path

import pyarrow as pa

from lsmlake.api.lake import Lake
from lsmlake.api.table import Table
from lsmlake.api.table_verbs.handle import writable
from lsmlake.commit.request import Identity
from lsmlake.errors import InvalidData
from lsmlake.format.snapshot import Snapshot
from lsmlake.inputs.places import PlacedTables
from lsmlake.inputs.text_files import FileOptions
from lsmlake.schema.conform import Cast
from lsmlake.sql.file_relations import FORMATS, loaded, paths_of
from lsmlake.sql.token_reader import Words, full_name
from lsmlake.storage.concurrency import attempts
from lsmlake.tables.copied import WRITER, Copied, files_of, list_of, put_copied, read_copied
from lsmlake.tables.version import Version
from lsmlake.write.write import write_tables
from lsmlake.write.write_request import WriteRequest

_ROUNDS = 5
_FORM = (
    "COPY INTO table FROM 'path' FILEFORMAT = CSV | JSON | PARQUET [FILES = ('name', ...) | PATTERN = 'glob'] "
    "[FORMAT_OPTIONS ('header' = 'true', 'delimiter' = ';', 'nullValue' = 'NA', 'encoding' = 'latin-1')] "
    "[COPY_OPTIONS ('force' = 'true')]"
)
_CURES = {
    "inferSchema": "leave it out: the table has the types",
    "mergeSchema": "write ALTER TABLE ... ADD COLUMN before",
}
_SYNONYMS = {"delimiter": "sep", "charset": "encoding"}
"""Another name of an option -> its name, in lower case."""


@dataclass
class Copy:
    """A parsed COPY INTO."""

    path: str
    kind: str = ""
    files: list[str] = field(default_factory=list)
    pattern: str | None = None
    header: bool = False
    separator: str | None = None
    null_value: str | None = None
    encoding: str | None = None
    force: bool = False

    def paths(self) -> list[str]:
        """The files that the statement names, loaded before or not."""
        if outside := [file for file in self.files if Path(file).is_absolute() or ".." in Path(file).parts]:
            raise InvalidData(
                "FILES names a file outside of the path",
                where=self.path,
                expected="files below the path, named from there",
                found=repr(outside[0]),
                cure="write the folder of the files behind FROM",
            )
        if self.files:
            return [path for file in self.files for path in paths_of(str(Path(self.path) / file))]
        files = paths_of(self.path)
        if self.pattern is None:
            return files
        chosen = [path for path in files if fnmatch(_below(path, self.path), self.pattern)]
        if not chosen:
            raise InvalidData("no file fits the pattern", where=self.path, found=self.pattern, cure="correct the pattern")
        return chosen


def _below(path: str, folder: str) -> str:
    return path.removeprefix(folder.rstrip("/") + "/") if path.startswith(folder.rstrip("/") + "/") else Path(path).name


def copy_into(lake: Lake, words: Words) -> Callable[[], object]:
    """See `_FORM`."""
    if lake.session.served:
        words.refuse("a server reads no files but those of tables", cure="load them in a process that opens the warehouse itself")
    words.need("INTO")
    name = full_name(lake, words)
    if words.follows("("):
        words.refuse("the columns of the table cannot be listed", cure="write INSERT INTO ... SELECT ... FROM csv.`path`")
    words.need("FROM")
    if words.follows("("):
        words.refuse("COPY INTO loads files as they are", cure="write INSERT INTO ... SELECT ... FROM csv.`path`")
    copy, given = Copy(words.literal("a path")), set()
    while words.any_follow():
        clause = words.take_one("FILEFORMAT", "FILES", "PATTERN", "FORMAT_OPTIONS", "COPY_OPTIONS")
        if not clause:
            words.refuse("this is not supported in COPY INTO", expected=_FORM)
        if clause in given:
            words.refuse(f"{clause} is given twice", cure="give it once")
        given.add(clause)
        _read(words, clause, copy)
    if not copy.kind:
        words.refuse("FILEFORMAT is missing", expected=_FORM)
    if copy.files and copy.pattern is not None:
        words.refuse("FILES and PATTERN exclude each other", cure="use one of them")
    if copy.kind != "csv" and (copy.header or copy.separator is not None):
        words.refuse(f"files of {copy.kind} have no header and no separator", cure="leave the options out")
    if copy.kind != "csv" and copy.null_value is not None:
        words.refuse(f"nullValue does not apply to files of {copy.kind}", cure="leave it out")
    if copy.kind == "parquet" and copy.encoding is not None:
        words.refuse("encoding does not apply to files of parquet", cure="leave it out")
    return partial(_copied, lake.table(name), copy)


def _read(words: Words, clause: str, copy: Copy) -> None:
    if clause == "FORMAT_OPTIONS":
        for option, value in _options(words):
            _format_option(words, copy, option, value)
    elif clause == "COPY_OPTIONS":
        for option, value in _options(words):
            if option.lower() == "force":
                copy.force = _flag(words, option, value)
            else:
                _only_off(words, option, value, "force")
    else:
        words.need("=")
        if clause == "FILEFORMAT":
            copy.kind = words.identifier("a format").lower()
            if copy.kind not in FORMATS:
                words.refuse(f"files of {copy.kind} are not read", expected=", ".join(FORMATS), cure="attach Spark, and INSERT")
        elif clause == "FILES":
            copy.files = words.listed(lambda: words.literal("the name of a file"))
        else:
            copy.pattern = words.literal("a pattern")


def _options(words: Words) -> list[tuple[str, str]]:
    """The options of a clause. Refuses one that is given twice, also in another case or under another name."""
    options = list(words.pairs("an option").items())
    names = [_SYNONYMS.get(name.lower(), name.lower()) for name, _ in options]
    if twice := [name for place, name in enumerate(names) if name in names[:place]]:
        words.refuse(f"the option {twice[0]} is given twice", cure="give it once")
    return options


def _format_option(words: Words, copy: Copy, option: str, value: str) -> None:
    match option.lower():
        case "header":
            copy.header = _flag(words, option, value)
        case "sep" | "delimiter":
            copy.separator = value
        case "nullvalue":
            copy.null_value = value
        case "encoding" | "charset":
            copy.encoding = value
        case _:
            _only_off(words, option, value, "header, sep, nullValue, encoding")


def _flag(words: Words, option: str, value: str) -> bool:
    if value.lower() not in ("true", "false"):
        words.refuse(f"{option} is true or false")
    return value.lower() == "true"


def _only_off(words: Words, option: str, value: str, known: str) -> None:
    """Refuses an option whose value is not the default."""
    cure = next((cure for name, cure in _CURES.items() if name.lower() == option.lower()), None)
    if cure is None or value.lower() != "false":
        words.refuse(f"the option {option} is not supported", expected=known, cure=cure or "leave it out")


# -- the load -----------------------------------------------------------------------------------------------------------


def _copied(table: Table, copy: Copy) -> pa.Table:
    """Loads the files. Returns one row: rows loaded, files loaded, files skipped as loaded before, and the snapshot."""
    options = FileOptions.of(copy.null_value, copy.separator, copy.encoding)
    meta, paths = writable(table).meta, list(dict.fromkeys(str(Path(path).resolve()) for path in copy.paths()))
    for _ in attempts(_ROUNDS, "other COPY INTO came first on every attempt", table.name, "run it again"):
        version = Version.latest(meta)
        owner = list_of(version.snapshot)
        newest = None if owner is None or (copy.force and not _readable(version, owner)) else read_copied(meta, owner)
        known = set() if copy.force else files_of(meta, newest)
        wanted = [path for path in paths if path not in known]
        if not wanted:
            return _report(0, 0, len(paths), None)
        made = put_copied(meta, newest, wanted)
        columns = version.schema.plain_columns
        tables = PlacedTables(loaded(copy.kind, wanted, columns, copy.header, options), columns)
        rows = Counted(tables)
        try:
            snapshot = _written(table, version, rows, _identity(version, made, owner))
        except InvalidData as error:
            if list_of(Version.latest(meta).snapshot) == owner:
                raise tables.placed(error) from error.__cause__
            meta.files.delete_quietly([meta.paths.copied(made.name)])  # another COPY INTO came first
            continue
        if snapshot is None:
            meta.files.delete_quietly([meta.paths.copied(made.name)])
        return _report(rows.count, len(wanted), len(paths) - len(wanted), snapshot)


def _readable(version: Version, name: str) -> bool:
    """Whether the list of loaded files exists. A copy of a table lacks this file."""
    return version.meta.env.storage.size(version.meta.paths.copied(name)) is not None


def _identity(version: Version, made: Copied, owner: str | None) -> Identity:
    """Takes the name `WRITER` over from the previous COPY INTO. The commit fails if another COPY INTO took it meanwhile."""
    last = version.snapshot.writers.get(WRITER, 0) if version.snapshot else 0
    return Identity(WRITER, last + 1, query=made.name, replaces=owner)


class Counted:
    """Yields tables unchanged and counts their rows."""

    def __init__(self, tables: Iterator[pa.Table]) -> None:
        self.count, self._tables = 0, tables

    def __iter__(self) -> Iterator[pa.Table]:
        for table in self._tables:
            self.count += table.num_rows
            yield table


def _written(table: Table, version: Version, rows: Counted, identity: Identity) -> Snapshot | None:
    return write_tables(version, rows, WriteRequest(identity, cast=Cast(table.runtime.zone)))


def _report(rows: int, files: int, skipped: int, snapshot: Snapshot | None) -> pa.Table:
    columns = {
        "num_affected_rows": rows,
        "num_loaded_files": files,
        "num_skipped_files": skipped,
        "snapshot": snapshot and snapshot.id,
    }
    return pa.table({name: pa.array([value], pa.int64()) for name, value in columns.items()})
