"""`format("lsmlake")`: a table as a Spark data source, for batches and streams: reads here, writes in `format_write`.

The offset of a stream is a `cdc.follow.Offset`. Spark records it before reading up to it, and the pieces between two offsets are
always the same, so each change is delivered exactly once, also over restarts. One task reads all changes of a bucket in a
micro-batch, in order.

`Table.df` is faster, because Python data sources cannot prune columns by themselves. Spark 4.1 has no limits for such sources: a
micro-batch reads all available changes, `availableNow` is one micro-batch, and a consumer lags one micro-batch behind.
"""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from difflib import get_close_matches
from functools import partial
from typing import TypeVar

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
)
from pyspark.sql.types import StructType

from lsmlake.api.following import Following
from lsmlake.api.lake import table_at
from lsmlake.api.runtime import Runtime
from lsmlake.api.table import Table
from lsmlake.cdc.changes import by_bucket, read_piece
from lsmlake.cdc.follow import UNLIMITED, Follower, Limit, Offset
from lsmlake.errors import InvalidOption, InvalidQuery, SnapshotNotFound
from lsmlake.lsm.difference import KIND_FIELD
from lsmlake.maintain.alter import evolve
from lsmlake.options.types import boolean
from lsmlake.read.plan import Plan, Projection
from lsmlake.read.scan import read_split
from lsmlake.read.travel import Moment, resolve
from lsmlake.schema.schema import Schema
from lsmlake.schema.widening import widens
from lsmlake.spark.format_write import BatchWriter, StreamWriter
from lsmlake.spark.ship import Package, carried, restored
from lsmlake.spark.types import to_arrow, to_spark
from lsmlake.store.version import Version
from lsmlake.write.replace import Replacement

try:
    from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows, SupportsTriggerAvailableNow
except ImportError:  # Spark 4.1
    ReadAllAvailable = SupportsTriggerAvailableNow = None

_BATCH_ROWS = 1 << 16
_UPSERTS = ("+I", "+U")

Writer = TypeVar("Writer", BatchWriter, StreamWriter)

PATH, WHERE, COLUMNS, ZONE = "path", "where", "columns", "zone"
SNAPSHOT, TIMESTAMP, TAG = "scan.snapshot-id", "scan.timestamp", "scan.tag-name"
START, MODE, CONSUMER, CHANGELOG = "scan.mode", "changes.mode", "consumer-id", "read.changelog"
MAX_ROWS, MAX_BYTES, MAX_FILES = (f"read.stream.max{what}PerTrigger" for what in ("Rows", "Bytes", "Files"))
BRANCH, SCHEMA, MERGE_SCHEMA = "branch", "read.schema-id", "write.merge-schema"
REPLACE_WHERE, OVERWRITE_MODE = "replaceWhere", "partitionOverwriteMode"
OPTIONS = {
    PATH: "the table's directory",
    BRANCH: "the branch to read or write; default: the table itself",
    WHERE: "a predicate in SQL text",
    COLUMNS: "names, separated by commas, or a JSON array of names",
    ZONE: "the time zone of times without a zone, here and in `where`; default UTC",
    SNAPSHOT: "the snapshot to read, or to start from",
    TIMESTAMP: "the time to read at, or to start from",
    TAG: "the tag to read",
    START: "stream: latest-full, latest, from-snapshot, from-snapshot-full or from-timestamp",
    MODE: "stream: changelog, diff or delta",
    CONSUMER: "stream: the consumer that protects snapshots that are not read yet",
    CHANGELOG: "stream: true = all changes with their `_row_kind`; false (default) = only +I and +U rows",
    MAX_ROWS: "stream: approximate rows per micro-batch",
    MAX_BYTES: "stream: bytes of files per micro-batch",
    MAX_FILES: "stream: files per micro-batch",
    SCHEMA: "stream: the schema that names the columns; default: the one in effect when the query starts",
    MERGE_SCHEMA: "write: add the columns that the table lacks; default: the option of the table",
    REPLACE_WHERE: "overwrite: replace the partitions for which this predicate is true; default: all rows",
    OVERWRITE_MODE: "overwrite: static = replace all rows (default); dynamic = the partitions of the new rows",
}

_OF_SPARK = {"checkpointlocation", "queryname"}
"""Options of a streaming write that are for Spark."""

_CATALOG_PROPERTIES = {"owner", "provider", "location", "comment", "external", "is_managed_location", "collation", "table_type"}
"""Properties that Spark adds to the options of a catalog table; it also repeats each option as `option.<name>`."""

_OPTIONS = "lsmlake.options.table_options"

_STREAMING = {START, MODE, CONSUMER, CHANGELOG, MAX_ROWS, MAX_BYTES, MAX_FILES, SCHEMA}


class _InZone(Runtime):
    """The runtime of this process with the time zone of a read: a data source cannot see the session's time zone."""

    def __init__(self, zone: str) -> None:
        self._zone = zone

    @property
    def zone(self) -> str:
        return self._zone


class LakeSource(DataSource):
    """One table, identified by its directory."""

    def __init__(self, options: Mapping[str, str], package: Package | None = None, env: bytes | None = None) -> None:
        """`package`: the package for readers in processes that may lack lsmlake. `env`: the pickled Env of the warehouse; None:
        its address is enough. It is no option, since Spark shows options."""
        super().__init__(options)
        self.package, self.env, self.in_catalog = package, env, False
        known = {name.lower(): name for name in OPTIONS}
        self.given: dict[str, str] = {}
        for name, value in options.items():
            if name.lower() in _CATALOG_PROPERTIES or name.lower().startswith("option."):
                self.in_catalog |= name.lower() == "provider"
                continue
            if name.lower() in _OF_SPARK:
                continue
            if name.lower() not in known:
                near = get_close_matches(name.lower(), known, n=1)
                cure = f"did you mean {known[near[0]]!r}?" if near else f"use one of {', '.join(OPTIONS)}"
                raise InvalidOption(f"unknown option {name!r}", where='format("lsmlake")', cure=cure)
            self.given[known[name.lower()]] = value

    @classmethod
    def name(cls) -> str:
        return "lsmlake"

    def _table(self) -> Table:
        if PATH not in self.given:
            raise InvalidOption(
                "the option path is missing",
                where='format("lsmlake")',
                expected="the table's directory, <warehouse>/<database>.db/<table>",
                cure='pass it: .load(path), .save(path), or OPTIONS (path "...") of CREATE TABLE',
            )
        table = table_at(self.given[PATH], None if self.env is None else pickle.loads(self.env))
        return table.branch(self.given[BRANCH]) if BRANCH in self.given else table

    @property
    def changelog(self) -> bool:
        return boolean.parse(CHANGELOG, self.given.get(CHANGELOG, "false"), 'format("lsmlake")')

    @property
    def columns(self) -> list[str] | None:
        text = self.given.get(COLUMNS)
        if text is None or text.startswith("["):
            return None if text is None else json.loads(text)
        return [name.strip() for name in text.split(",")]

    @property
    def zone(self) -> str:
        return self.given.get(ZONE, "UTC")

    def schema(self) -> StructType:
        schema = self._schema_offered(self._table())
        names = Projection.of(schema, None, self.columns).columns
        made = to_spark(_fields(schema, names, [KIND_FIELD] if self.changelog else []))
        if self.in_catalog:
            made.fields[0].metadata = {**made.fields[0].metadata, _OPTIONS: json.dumps(self.given)}
        return made

    def _schema_offered(self, table: Table) -> Schema:
        """A batch has the columns of the snapshot that it reads, a stream those of now. Spark does not tell which of them is
        wanted; options may."""
        if self.given.keys() & _STREAMING:
            return self._schema_followed(table) or table.current
        try:
            return Version.at(table.meta, resolve(table.meta, self._moment(), self.zone)).schema
        except SnapshotNotFound:  # a batch fails later; a stream can start there
            return table.current

    def _schema_followed(self, table: Table) -> Schema | None:
        return None if (number := self._number(SCHEMA)) is None else table.meta.schemas.get(number)

    def _moment(self) -> Moment:
        return Moment(self._number(SNAPSHOT), self.given.get(TIMESTAMP), self.given.get(TAG))

    def _recall(self, schema: StructType) -> None:
        """Restores the options of a catalog table from the metadata of its first column: Spark passes only the columns to a read
        or an insert."""
        if PATH not in self.given:
            self.given = {**(table_options(schema) or {}), **self.given}

    def reader(self, schema: StructType) -> DataSourceReader:
        self._refuse_write_options()
        self._recall(schema)
        if streaming := sorted(self.given.keys() & _STREAMING):
            raise InvalidOption(f"option {streaming[0]!r} is for streams only", where='format("lsmlake")', cure="remove it")
        table, asked = replace(self._table(), runtime=_InZone(self.zone)), to_arrow(schema)
        moment = self._moment()
        stored = Version.at(table.meta, resolve(table.meta, moment, self.zone)).schema
        _check_asked(asked, stored, table.path, "load the DataFrame again, or drop and create the table in Spark's catalog again")
        scan = table.scan(where=self.given.get(WHERE), columns=asked.names, **asdict(moment))
        return _Reader(self.package, scan.plan(), asked)

    def writer(self, schema: StructType, overwrite: bool) -> BatchWriter:
        return self._writer(BatchWriter, schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamWriter:
        """`overwrite`: the output mode is complete."""
        return self._writer(StreamWriter, schema, overwrite)

    def _writer(self, kind: type[Writer], schema: StructType, overwrite: bool) -> Writer:
        allowed = {PATH, BRANCH, MERGE_SCHEMA, *((REPLACE_WHERE, OVERWRITE_MODE, ZONE) if overwrite else ())}
        if other := sorted(self.given.keys() - allowed):
            raise InvalidOption(
                f"option {other[0]!r} is not supported for {'an overwrite' if overwrite else 'an append'}",
                where='format("lsmlake")',
                expected=f"one of {', '.join(name for name in OPTIONS if name in allowed)}",
                cure="remove it" if other[0] not in (REPLACE_WHERE, OVERWRITE_MODE) else 'remove it, or use .mode("overwrite")',
            )
        self._recall(schema)
        table, found = self._table(), to_arrow(schema)
        version = table.version
        replaces = self._replacement(version.schema, table.name) if overwrite else None
        given = self.given.get(MERGE_SCHEMA)
        if version.options.write.merge_schema if given is None else boolean.parse(MERGE_SCHEMA, given, 'format("lsmlake")'):
            version = evolve(version, table.name, found, None, partial(table.runtime.compactions, table.meta))
        return kind(self.package, table, version.schema, found, replaces)

    def _replacement(self, schema: Schema, name: str) -> Replacement:
        """What an overwrite replaces."""
        where, mode = self.given.get(REPLACE_WHERE), self.given.get(OVERWRITE_MODE, "static").lower()
        if mode not in ("static", "dynamic") or (where is not None and mode == "dynamic"):
            raise InvalidOption(
                f"option {OVERWRITE_MODE!r} is not valid",
                where='format("lsmlake")',
                expected=f"static or dynamic; no {REPLACE_WHERE} with dynamic",
                found=repr(self.given[OVERWRITE_MODE]),
                cure="remove it, or correct it",
            )
        return Replacement.of(schema, where, mode == "static" and where is None, self.zone, name)

    def _refuse_write_options(self) -> None:
        if writing := sorted(self.given.keys() & {MERGE_SCHEMA, REPLACE_WHERE, OVERWRITE_MODE}):
            raise InvalidOption(f"option {writing[0]!r} is for writes only", where='format("lsmlake")', cure="remove it")

    def following(self, columns: Sequence[str]) -> Following:
        """Parses the options of a stream."""
        if TAG in self.given:
            cure = f"start the stream with {SNAPSHOT!r}"
            raise InvalidOption(f"option {TAG!r} is not for streams", where='format("lsmlake")', cure=cure)
        number = {name: self._number(name) for name in (SNAPSHOT, MAX_ROWS, MAX_BYTES, MAX_FILES)}
        return Following(
            self.given.get(START),
            number[SNAPSHOT],
            self.given.get(TIMESTAMP),
            self.given.get(MODE),
            self.given.get(WHERE),
            columns,
            self.given.get(CONSUMER),
            Limit(number[MAX_ROWS], number[MAX_BYTES], number[MAX_FILES]),
        )

    def _number(self, name: str) -> int | None:
        text = self.given.get(name)
        if text is None or text.strip().isdigit():
            return None if text is None else int(text)
        raise InvalidOption(f"option {name!r} is a number", where='format("lsmlake")', found=repr(text), cure="pass an integer")

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        self._refuse_write_options()
        self._recall(schema)
        table, asked = self._table(), to_arrow(schema)
        columns = pa.schema(list(asked)[1:]) if self.changelog else asked
        followed = self._schema_followed(table) or table.current
        again = f"load the stream again, with option {START!r} if it starts at a snapshot or a time"
        _check_asked(columns, followed, table.path, again)
        following = self.following(columns.names)
        follower = following.follower(table.meta, self.zone, followed)
        kind = _Stream if ReadAllAvailable is None else _LimitedStream
        return kind(self.package, follower, following.limit, asked, self.changelog)


def table_options(schema: StructType) -> dict[str, str] | None:
    """The options of a table in Spark's catalog; None if it is not a table of lsmlake."""
    text = schema.fields[0].metadata.get(_OPTIONS) if schema.fields else None
    return None if text is None else json.loads(text)


def _fields(schema: Schema, names: Sequence[str], kind: Sequence[pa.Field] = ()) -> pa.Schema:
    return pa.schema([*kind, *(schema.plain_columns.field(name).with_nullable(True) for name in names)])


def _check_asked(asked: pa.Schema, stored: Schema, where: str, cure: str) -> None:
    """Raises InvalidQuery unless the table has the columns of a DataFrame or of a table in Spark's catalog, with types that
    these can hold."""
    offered = _fields(stored, [name for name in asked.names if name in stored.columns.names])
    given, found = to_spark(asked), to_spark(offered)
    if given.simpleString() == found.simpleString():
        return
    if asked.names == offered.names and all(map(widens, offered.types, asked.types)):
        return
    raise InvalidQuery(
        "the table does not have the columns that Spark asks for; it may have been altered",
        where=where,
        expected=given.simpleString(),
        found=to_spark(stored.plain_columns).simpleString(),
        cure=cure,
    )


class _Carried:
    """Pickles with the package, if it was shipped: on Connect, Spark does not send it to the tasks of a stream."""

    package: Package | None

    def __reduce__(self):
        return carried(self.package, restored, type(self), dict(self.__dict__))


class _Reader(_Carried, DataSourceReader):
    def __init__(self, package: Package | None, plan: Plan, schema: pa.Schema) -> None:
        self.package, self.plan, self.arrow = package, plan, schema

    def partitions(self) -> Sequence[InputPartition]:
        return [InputPartition(split) for split in self.plan.splits]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if partition.value is None:  # Spark reads one partition even if there is none
            return
        for table in read_split(self.plan, partition.value):
            yield from table.cast(self.arrow).to_batches(max_chunksize=_BATCH_ROWS)


class _Stream(_Carried, DataSourceStreamReader):
    """The reader of Spark 4.1."""

    def __init__(self, package: Package | None, follower: Follower, limit: Limit, schema: pa.Schema, changelog: bool) -> None:
        self.package, self.follower, self.limit, self.arrow, self.changelog = package, follower, limit, schema, changelog

    def initialOffset(self) -> dict:
        offset = self.follower.begin()
        self.follower.note(offset)
        return offset._asdict()

    def latestOffset(self) -> dict:
        return self.follower.end()._asdict()

    def partitions(self, start: dict, end: dict) -> Sequence[InputPartition]:
        """Each partition carries the columns to read: those of this reader, whatever the table has when a task begins."""
        first, last = Offset(**start), Offset(**end)
        self.follower.note(first)
        pieces = [piece for _, piece in self.follower.pieces(first, last)]
        alone = first.full and last.snapshot <= first.snapshot + (last.pieces == 0)  # no key is in two of them
        return [InputPartition((self.follower.like, piece)) for piece in (pieces if alone else by_bucket(pieces))]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        like, piece = partition.value
        for table in read_piece(self.follower.meta, like, piece):
            if not self.changelog:
                kinds = table[KIND_FIELD.name]
                table = table.filter(pc.is_in(kinds, value_set=pa.array(_UPSERTS))).drop_columns([KIND_FIELD.name])
            yield from table.cast(self.arrow).to_batches(max_chunksize=_BATCH_ROWS)

    def commit(self, end: dict) -> None:
        """Records progress. Spark calls this one batch late and not for the last batch; but it requests a batch only after the
        previous one is in its checkpoint, so `partitions` records progress as well."""
        self.follower.note(Offset(**end))

    def stop(self) -> None:
        """There is nothing to release."""


if ReadAllAvailable is None:
    _LimitedStream = None
else:

    class _LimitedStream(_Stream, SupportsTriggerAvailableNow):
        """The reader of Spark 4.2 and later, which supports read limits."""

        until: int | None = None

        def getDefaultReadLimit(self):
            return ReadAllAvailable() if self.limit == UNLIMITED else ReadMaxRows(self.limit.rows or 1 << 62)

        def latestOffset(self, start: dict, limit) -> dict:
            self.follower.note(Offset(**start))
            allowed = UNLIMITED if isinstance(limit, ReadAllAvailable) else self.limit
            return self.follower.advance(Offset(**start), allowed, self.until)._asdict()

        def reportLatestOffset(self) -> dict:
            return self.follower.end()._asdict()

        def prepareForTriggerAvailableNow(self) -> None:
            self.until = self.follower.end().snapshot - 1
