"""The options of `format("lsmlake")`: their names, and their effect on a read, a stream or a write."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from difflib import get_close_matches

from pyspark.sql.types import StructType

from lsmlake.api.following import Following
from lsmlake.cdc.change_input import ChangeArguments, ChangeInput
from lsmlake.cdc.event_formats import ChangeFormat
from lsmlake.cdc.follow import Limit
from lsmlake.errors import InvalidOption, naming
from lsmlake.format.snapshot import Snapshot
from lsmlake.options.option_types import boolean
from lsmlake.read.plan import Projection
from lsmlake.read.travel import Moment, resolve
from lsmlake.schema.schema import Schema
from lsmlake.tables.version import Metadata
from lsmlake.types.literal import zone_named
from lsmlake.write.order import ANY, OrderBy
from lsmlake.write.replace import Replacement

PATH, WHERE, COLUMNS, ZONE = "path", "where", "columns", "zone"
SNAPSHOT, TIMESTAMP, TAG = "scan.snapshot-id", "scan.timestamp", "scan.tag-name"
START, MODE, CONSUMER, CHANGELOG = "scan.mode", "changes.mode", "consumer-id", "read.changelog"
MAX_ROWS, MAX_BYTES, MAX_FILES = (f"read.stream.max{what}PerTrigger" for what in ("Rows", "Bytes", "Files"))
BRANCH, SCHEMA, MERGE_SCHEMA, COMMITS = "branch", "read.schema-id", "write.merge-schema", "read.commit-columns"
DELETES, LEFT_OUT = "apply-as-deletes", "except-columns"
EVENTS = "changes.format"
REPLACE_WHERE, OVERWRITE_MODE, ORDER_BY = "replaceWhere", "partitionOverwriteMode", "order-by"
_ANY = "any"
OPTIONS = {
    PATH: "the table's directory",
    BRANCH: "the branch to read or write; default: the table itself",
    WHERE: "a predicate in SQL text",
    COLUMNS: "the columns to read or to write: names, separated by commas, or a JSON array of names; default: all",
    ZONE: "the time zone of times without a zone, here and in `where`; default UTC",
    SNAPSHOT: "the snapshot to read, or to start from",
    TIMESTAMP: "the time to read at, or to start from",
    TAG: "the tag to read",
    START: "stream: latest-full, latest, from-snapshot, from-snapshot-full or from-timestamp",
    MODE: "stream: changelog, diff or delta",
    CONSUMER: "stream: the consumer that protects snapshots that are not read yet",
    CHANGELOG: "stream: true = all changes with their `_row_kind`; false (default) = only +I and +U rows",
    COMMITS: "stream: true = add _commit_snapshot_id, _commit_time and _change_ordinal; default false",
    EVENTS: "stream: change events, as messages with key and value: debezium-json and others, or a JSON object of ChangeFormat",
    MAX_ROWS: "stream: approximate rows per micro-batch",
    MAX_BYTES: "stream: bytes of files per micro-batch",
    MAX_FILES: "stream: files per micro-batch",
    SCHEMA: "stream: the schema that names the columns; default: the one in effect when the query starts",
    MERGE_SCHEMA: "write: add the columns that the table lacks; default: the option of the table",
    ORDER_BY: "write: columns or SQL expressions that order the rows of a key, separated by commas; any: any row will do",
    DELETES: "write: a condition in SQL text on the rows that delete the row of their key",
    LEFT_OUT: "write: columns of the data that are not written, as in `columns`",
    REPLACE_WHERE: "overwrite: replace the partitions for which this predicate is true; default: all rows",
    OVERWRITE_MODE: "overwrite: static = replace all rows (default); dynamic = the partitions of the new rows",
}

_LIMITS = dict(zip(("max_rows", "max_bytes", "max_files"), (MAX_ROWS, MAX_BYTES, MAX_FILES), strict=True))
_OF_TABLE = {name: name for name in (PATH, BRANCH, COLUMNS)}
ARGUMENTS_OF_READS = {
    **_OF_TABLE,
    **_LIMITS,
    "where": WHERE,
    "snapshot": SNAPSHOT,
    "timestamp": TIMESTAMP,
    "tag": TAG,
    "start": START,
    "mode": MODE,
    "consumer": CONSUMER,
    "commit_columns": COMMITS,
    "format": EVENTS,
    "ChangeFormat": EVENTS,
}
"""Argument of a method -> the option by which a read or a stream gives it: the words of errors (`errors.in_options`)."""
ARGUMENTS_OF_WRITES = {
    **_OF_TABLE,
    "where": REPLACE_WHERE,
    "order_by": ORDER_BY,
    "lsmlake.ANY": _ANY,
    "apply_as_deletes": DELETES,
    "except_columns": LEFT_OUT,
}
"""The same of a write."""

_FORMAT = 'format("lsmlake")'
_ONE_PATH = "load one table, and combine DataFrames by union()"
_NAMES_OF_OTHERS = {
    "paths": _ONE_PATH,
    **dict.fromkeys(("versionasof", "snapshot-id", "startingversion", "start-snapshot-id"), f"write {SNAPSHOT!r}"),
    **dict.fromkeys(("timestampasof", "as-of-timestamp", "startingtimestamp"), f"write {TIMESTAMP!r}"),
    "startingoffsets": f"write {START!r}: latest, or latest-full for all rows and then the changes",
    **dict.fromkeys(("readchangefeed", "readchangedata"), f"read a stream with {CHANGELOG!r}, or Table.changes"),
    **dict.fromkeys(("ignoredeletes", "ignorechanges", "skipchangecommits"), f"leave it out: {CHANGELOG!r} = false skips -D"),
    "overwriteschema": "leave it out; alter the columns by ALTER TABLE, or drop and create the table",
    **dict.fromkeys(("inferschema", "samplingratio"), "leave it out: the table has its columns"),
    **dict.fromkeys(("compression", "codec"), "set the option 'file.compression' of the table"),
    "overwrite-mode": f"write {OVERWRITE_MODE!r}",
}
"""Options of other formats, in lower case -> what to write here. Names that look like one of ours are found without it."""
_KNOWN = {name.lower(): name for name in OPTIONS}

_STREAMING = {START, MODE, CONSUMER, CHANGELOG, COMMITS, EVENTS, MAX_ROWS, MAX_BYTES, MAX_FILES, SCHEMA}
_WRITING = {MERGE_SCHEMA, ORDER_BY, DELETES, LEFT_OUT, REPLACE_WHERE, OVERWRITE_MODE}

_OF_SPARK = {name.lower(): name for name in ("checkpointLocation", "queryName")}
"""Options of a streaming write that Spark itself uses."""

_PROVIDER = "provider"
_CATALOG_PROPERTIES = {"owner", _PROVIDER, "location", "comment", "external", "is_managed_location", "collation", "table_type"}
"""Properties that Spark adds to the options of a catalog table; it also repeats each option as `option.<name>`."""

_REPEATED = "option."

_STORED = "lsmlake.options.table_options"
"""The metadata key under which the first column of a catalog table keeps the options: Spark passes only the columns to a
read or an insert."""


@dataclass(frozen=True)
class Given:
    """The options of one use of the format.

    Attributes:
        texts: option name -> text.
        in_catalog: whether Spark is about to create a catalog table.
        of_spark: the options of a streaming write that Spark itself uses.
    """

    texts: Mapping[str, str]
    in_catalog: bool = False
    of_spark: tuple[str, ...] = ()

    @staticmethod
    def of(options: Mapping[str, str]) -> Given:
        """The options that Spark passes. Raises InvalidOption for an unknown name."""
        texts, of_spark, in_catalog = {}, [], any(name.lower() == _PROVIDER for name in options)
        for name, value in options.items():
            if in_catalog and name.lower() in _CATALOG_PROPERTIES:
                continue
            if in_catalog and name.lower().startswith(_REPEATED):
                _check_repeated(name.lower().removeprefix(_REPEATED), value, options)
                continue
            if value is None:
                raise InvalidOption(f"option {name!r} has no value", where=_FORMAT, cure="leave it out, or correct the value")
            if name.lower() in _OF_SPARK:
                of_spark.append(_OF_SPARK[name.lower()])
                continue
            if name.lower() not in _KNOWN:
                raise InvalidOption(f"unknown option {name!r}", where=_FORMAT, cure=_cure_of_unknown(name.lower()))
            texts[_KNOWN[name.lower()]] = value
        return Given(texts, in_catalog, tuple(of_spark))

    def store_in(self, schema: StructType) -> None:
        """Stores the options in the metadata of the columns of a catalog table."""
        schema.fields[0].metadata = {**schema.fields[0].metadata, _STORED: json.dumps(dict(self.texts))}

    def recalled(self, schema: StructType) -> Given:
        """These options and those stored in the columns of a catalog table."""
        if PATH in self.texts:
            return self
        return replace(self, texts={**(table_options(schema) or {}), **self.texts})

    # -- the table ----------------------------------------------------------------------------------------------------

    @property
    def path(self) -> str:
        if PATH not in self.texts:
            raise InvalidOption(
                "the option path is missing",
                where=_FORMAT,
                expected="the table's directory, <warehouse>/<database>.db/<table>",
                cure='pass it: .load(path), .save(path), or OPTIONS (path "...") of CREATE TABLE',
            )
        return self.texts[PATH]

    @property
    def branch(self) -> str | None:
        return self.texts.get(BRANCH)

    # -- reads --------------------------------------------------------------------------------------------------------

    @property
    def zone(self) -> str:
        """The time zone of times without a zone. Raises InvalidOption for a name that no zone has."""
        name = self.texts.get(ZONE, "UTC")
        try:
            zone_named(name)
        except ValueError:
            expected = "a name such as Europe/Berlin or +01:00"
            raise InvalidOption(
                f"option {ZONE!r} is no time zone", where=_FORMAT, expected=expected, found=repr(name), cure="correct it"
            ) from None
        return name

    @property
    def where(self) -> str | None:
        return self.texts.get(WHERE)

    @property
    def columns(self) -> list[str] | None:
        return self._names(COLUMNS)

    @property
    def moment(self) -> Moment:
        """The moment at which a batch read sees the table."""
        return Moment(self._number(SNAPSHOT), self.texts.get(TIMESTAMP), self.texts.get(TAG))

    def snapshot(self, meta: Metadata) -> Snapshot | None:
        """The snapshot that a batch reads, see `read.travel.resolve`."""
        argument = next((name for name, value in asdict(self.moment).items() if value is not None), "snapshot")
        with naming(argument):
            return resolve(meta, self.moment, self.zone)

    def projection(self, schema: Schema) -> tuple[str, ...]:
        """The columns to read. Raises InvalidQuery."""
        with naming("columns"):
            return Projection.of(schema, None, self.columns).columns

    def refuse_writing(self) -> None:
        """Raises InvalidOption for an option that is only for writes."""
        if writing := sorted({*self.of_spark, *(self.texts.keys() & _WRITING)}):
            raise InvalidOption(f"option {writing[0]!r} is for writes only", where=_FORMAT, cure="remove it")

    def refuse_streaming(self) -> None:
        """Raises InvalidOption for an option that is only for streams."""
        if streaming := sorted(self.texts.keys() & _STREAMING):
            raise InvalidOption(f"option {streaming[0]!r} is for streams only", where=_FORMAT, cure="remove it")

    # -- streams ------------------------------------------------------------------------------------------------------

    @property
    def streams(self) -> bool:
        """Whether an option that is only for streams is set."""
        return bool(self.texts.keys() & _STREAMING)

    @property
    def changelog(self) -> bool:
        return self._boolean(CHANGELOG, self.texts.get(CHANGELOG, "false"))

    @property
    def events(self) -> ChangeFormat | None:
        """The format of change events; None: the changes are rows. Raises InvalidOption, InvalidQuery."""
        text = self.texts.get(EVENTS)
        if text is None:
            return None
        if CHANGELOG in self.texts and not self.changelog:
            cure = "remove one of them: events have all changes"
            raise InvalidOption(f"{EVENTS!r} and {CHANGELOG!r} = false contradict each other", where=_FORMAT, cure=cure)
        with naming("format"):
            return ChangeFormat.of_text(text)

    @property
    def commit_columns(self) -> bool:
        return self._boolean(COMMITS, self.texts.get(COMMITS, "false"))

    @property
    def schema_id(self) -> int | None:
        return self._number(SCHEMA)

    def following(self, columns: Sequence[str]) -> Following:
        """The `Following` of a stream of these columns."""
        if TAG in self.texts:
            cure = f"start the stream with {SNAPSHOT!r}"
            raise InvalidOption(f"option {TAG!r} is not for streams", where=_FORMAT, cure=cure)
        number = {name: self._number(name) for name in (SNAPSHOT, MAX_ROWS, MAX_BYTES, MAX_FILES)}
        return Following(
            self.texts.get(START),
            number[SNAPSHOT],
            self.texts.get(TIMESTAMP),
            self.texts.get(MODE),
            self.where,
            columns,
            self.texts.get(CONSUMER),
            Limit(number[MAX_ROWS], number[MAX_BYTES], number[MAX_FILES]),
            self.commit_columns,
            self.events,
        )

    # -- writes -------------------------------------------------------------------------------------------------------

    def check_write(self, overwrite: bool, *, stream: bool) -> None:
        """Raises InvalidOption for an option that this kind of write does not accept."""
        if self.of_spark and not stream:
            what = f"option {self.of_spark[0]!r} is for streaming writes only"
            raise InvalidOption(what, where=_FORMAT, cure="remove it")
        allowed = {PATH, BRANCH, MERGE_SCHEMA, ORDER_BY, *((REPLACE_WHERE, OVERWRITE_MODE) if overwrite else ())}
        allowed |= set() if overwrite else {DELETES, COLUMNS, LEFT_OUT}
        allowed |= {ZONE} if overwrite or ORDER_BY in self.texts or DELETES in self.texts else set()
        if other := sorted(self.texts.keys() - allowed):
            raise InvalidOption(
                f"option {other[0]!r} is not supported for {'an overwrite' if overwrite else 'an append'}",
                where=_FORMAT,
                expected=f"one of {', '.join(name for name in OPTIONS if name in allowed)}",
                cure="remove it" if other[0] not in (REPLACE_WHERE, OVERWRITE_MODE) else 'remove it, or use .mode("overwrite")',
            )

    def check_entry(self, overwrite: bool) -> None:
        """Raises InvalidOption for an option of a catalog table with which a write would not do what it says."""
        if past := sorted(self.texts.keys() & {SNAPSHOT, TIMESTAMP, TAG}):
            what, cure = (
                f"option {past[0]!r} makes an old snapshot of the table, which cannot be changed",
                "write to the table itself",
            )
            raise InvalidOption(what, where=_FORMAT, cure=cure)
        if overwrite and (of_rows := sorted(self.texts.keys() & {DELETES, LEFT_OUT})):
            what = f"option {of_rows[0]!r} is not supported for an overwrite"
            raise InvalidOption(what, where=_FORMAT, cure="write to a catalog table without it")

    def check_columns(self, schema: Schema, asked: Sequence[str]) -> None:
        """Raises InvalidOption if the option `columns` names other columns than those that Spark asks for, by a schema."""
        if self.columns is not None and (chosen := self.projection(schema)) != tuple(asked):
            what, cure = f"option {COLUMNS!r} and the schema of the DataFrame or catalog table differ", "leave one of them out"
            raise InvalidOption(what, where=_FORMAT, expected=list(asked), found=list(chosen), cure=cure)

    def replacement(self, schema: Schema, name: str, now: str | None) -> Replacement:
        """The `Replacement` of an overwrite of the table `name`. `now`: the time of the write; None: a stream."""
        where, mode = self.texts.get(REPLACE_WHERE), self.texts.get(OVERWRITE_MODE, "static").lower()
        if mode not in ("static", "dynamic") or (where is not None and mode == "dynamic"):
            raise InvalidOption(
                f"option {OVERWRITE_MODE!r} is not valid",
                where=_FORMAT,
                expected=f"static or dynamic; no {REPLACE_WHERE!r} with dynamic",
                found=repr(self.texts[OVERWRITE_MODE]),
                cure="remove it, or correct it",
            )
        with naming("where"):
            return Replacement.of(schema, where, mode == "static" and where is None, self.zone, name, now)

    def order_by(self, keyed: bool) -> OrderBy | None:
        """The order of the rows of a key. `keyed`: whether the table has a primary key."""
        text = self.texts.get(ORDER_BY)
        if text is not None and not keyed:
            what, cure = f"option {ORDER_BY!r} needs a primary key", "remove it: no row replaces another one"
            raise InvalidOption(what, where=_FORMAT, found=repr(text), cure=cure)
        return OrderBy.of(ANY if text is not None and text.strip().lower() == _ANY else text, self.zone)

    def changes(self, schema: Schema) -> ChangeInput | None:
        """What the rows of an append mean; None if they are rows of the table as they are."""
        if schema.append_only and DELETES in self.texts:
            what, cure = f"option {DELETES!r} needs a primary key", "remove it: no row replaces another one"
            raise InvalidOption(what, where=_FORMAT, found=repr(self.texts[DELETES]), cure=cure)
        words = ChangeArguments(
            apply_as_deletes=self.texts.get(DELETES), columns=self.columns, except_columns=self._names(LEFT_OUT)
        )
        if words != ChangeArguments() and self.evolves(default=False):
            options = [name for name in (DELETES, COLUMNS, LEFT_OUT) if name in self.texts]
            raise InvalidOption(
                f"option {MERGE_SCHEMA!r} adds the columns of the rows, and other options say that not all are written",
                where=_FORMAT,
                found=[MERGE_SCHEMA, *options],
                cure=f"leave {MERGE_SCHEMA} out, and add columns by ALTER TABLE; or leave out {', '.join(options)}",
            )
        return ChangeInput.of(schema, words, row_kind=False, evolve=False)

    def evolves(self, default: bool) -> bool:
        """Whether the write adds new columns to the table. `default`: if no option says it."""
        given = self.texts.get(MERGE_SCHEMA)
        return default if given is None else self._boolean(MERGE_SCHEMA, given)

    # -- types --------------------------------------------------------------------------------------------------------

    def _names(self, option: str) -> list[str] | None:
        text = self.texts.get(option)
        if text is None or not text.lstrip().startswith("["):
            return None if text is None else [name.strip() for name in text.split(",")]
        try:
            names = json.loads(text)
        except ValueError:
            names = None
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            cure = "correct the option"
            raise InvalidOption(f"option {option!r} is no list", where=_FORMAT, expected="names", found=repr(text), cure=cure)
        return names

    def _number(self, name: str) -> int | None:
        text = self.texts.get(name)
        if text is None or (text.isascii() and text.strip().isdecimal()):
            return None if text is None else int(text)
        what, cure = f"option {name!r} is a number", "pass an integer of at least 0"
        raise InvalidOption(what, where=_FORMAT, found=repr(text), cure=cure)

    def _boolean(self, name: str, text: str) -> bool:
        return boolean.parse(name, text, _FORMAT)


def _cure_of_unknown(name: str) -> str:
    """The cure for a name, in lower case, that is not one of an option."""
    if name in _NAMES_OF_OTHERS:
        return _NAMES_OF_OTHERS[name]
    near = get_close_matches(name, _KNOWN, n=1)
    return f"did you mean {_KNOWN[near[0]]!r}?" if near else f"use one of {', '.join(OPTIONS)}"


def _check_repeated(name: str, value: str, options: Mapping[str, str]) -> None:
    """Raises InvalidOption unless a property of a new catalog table repeats an option: one of the user may contradict it."""
    given = next((text for one, text in options.items() if one.lower() == name), None)
    if given == value or name == PATH or name in _CATALOG_PROPERTIES:  # Spark itself may rewrite the path
        return
    raise InvalidOption(
        f"the options and the properties of the catalog table differ in {name!r}",
        where="CREATE TABLE",
        found=f"{value!r} and {given!r}" if given is not None else f"the property {_REPEATED}{name} without the option",
        cure="write it once, in OPTIONS",
    )


def table_options(schema: StructType) -> dict[str, str] | None:
    """The options of a table in Spark's catalog; None if it is not a table of lsmlake."""
    text = schema.fields[0].metadata.get(_STORED) if schema.fields else None
    return None if text is None else json.loads(text)
