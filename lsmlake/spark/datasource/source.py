"""`LakeSource`: a table as a data source, for batches and streams. The readers are in `readers`, the writers in `writers`.

`Table.df` is faster, because Python data sources cannot prune columns by themselves.
"""

from __future__ import annotations

import pickle
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from typing import TypeVar

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader
from pyspark.sql.types import StructType

from lsmlake.api.lake import table_at
from lsmlake.api.runtime import Runtime
from lsmlake.api.table import Table
from lsmlake.api.table_verbs.handle import writable
from lsmlake.cdc.commits import COMMIT_FIELDS
from lsmlake.cdc.encoding import messages_of
from lsmlake.errors import InvalidOption, InvalidQuery, SnapshotNotFound, few, in_options, naming
from lsmlake.lsm.difference import KIND_FIELD
from lsmlake.maintain.alter import evolve
from lsmlake.schema.schema import Schema
from lsmlake.spark.datasource.options import ARGUMENTS_OF_READS, ARGUMENTS_OF_WRITES, SCHEMA, START, Given
from lsmlake.spark.datasource.readers import BatchReader, LimitedStreamReader, StreamReader
from lsmlake.spark.datasource.writers import BatchWriter, StreamWriter
from lsmlake.spark.frame_types import to_arrow, to_spark
from lsmlake.spark.ship import Package
from lsmlake.storage.env import moment_of
from lsmlake.tables.version import Version
from lsmlake.types.widening import widens
from lsmlake.write.order import commit_columns_in
from lsmlake.write.write_request import WriteRequest

Writer = TypeVar("Writer", BatchWriter, StreamWriter)


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
        the address is enough. `env` is not an option of the format, because Spark displays options."""
        super().__init__(options)
        self.package, self.env, self.given = package, env, Given.of(options)

    @classmethod
    def name(cls) -> str:
        return "lsmlake"

    def _table(self, given: Given) -> Table:
        with naming("path"):
            table = table_at(given.path, None if self.env is None else pickle.loads(self.env))
        with naming("branch"):
            return table if given.branch is None else table.branch(given.branch)

    @in_options(ARGUMENTS_OF_READS)
    def schema(self) -> StructType:
        given = self.given
        schema = _offered(given, self._table(given))
        if given.events is not None:
            made = to_spark(messages_of(given.events))
            if given.in_catalog:
                given.store_in(made)
            return made
        fields = _fields(schema, given.projection(schema))
        made = to_spark(pa.schema([*([KIND_FIELD] if given.changelog else []), *fields, *_commits(given)]))
        if given.in_catalog:
            given.store_in(made)
        return made

    @in_options(ARGUMENTS_OF_READS)
    def reader(self, schema: StructType) -> DataSourceReader:
        self.given.refuse_writing()
        given = self.given.recalled(schema)
        given.refuse_streaming()
        table, asked = replace(self._table(given), runtime=_InZone(given.zone)), to_arrow(schema)
        stored = Version.at(table.meta, given.snapshot(table.meta)).schema
        _check_asked(asked, stored, table.path, "load the DataFrame again, or drop and create the table in Spark's catalog again")
        given.check_columns(stored, asked.names)
        with naming("where"):
            scan = table.scan(where=given.where, columns=asked.names, **asdict(given.moment))
            return BatchReader(self.package, scan.plan(), asked)

    @in_options(ARGUMENTS_OF_READS)
    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        self.given.refuse_writing()
        given = self.given.recalled(schema)
        table, asked = self._table(given), to_arrow(schema)
        followed = _followed(given, table) or table.version.schema
        if given.events is not None:
            following = given.following(given.columns)
            follower = following.follower(table.meta, given.zone, followed)
            return (LimitedStreamReader or StreamReader)(
                self.package, follower, following.limit, asked, True, following.events(follower)
            )
        columns = pa.schema(list(asked)[int(given.changelog) : len(asked) - len(_commits(given))])
        again = f"load the stream again, with option {START!r} if it starts at a snapshot or a time"
        _check_asked(columns, followed, table.path, again)
        given.check_columns(followed, columns.names)
        following = given.following(columns.names)
        follower = following.follower(table.meta, given.zone, followed)
        kind = LimitedStreamReader or StreamReader
        return kind(self.package, follower, following.limit, asked, given.changelog)

    def writer(self, schema: StructType, overwrite: bool) -> BatchWriter:
        return self._writer(BatchWriter, schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamWriter:
        """`overwrite`: whether the output mode is complete."""
        return self._writer(StreamWriter, schema, overwrite)

    @in_options(ARGUMENTS_OF_WRITES)
    def _writer(self, kind: type[Writer], schema: StructType, overwrite: bool) -> Writer:
        self.given.check_write(overwrite, stream=kind is StreamWriter)
        given = self.given.recalled(schema)
        given.check_entry(overwrite)
        table, columns = self._table(given), to_arrow(schema)
        version = writable(table)
        now = moment_of(table.meta.env) if kind is BatchWriter else None
        replaces = given.replacement(version.schema, table.name, now) if overwrite else None
        changes = None if overwrite else given.changes(version.schema)
        if changes is None and given.evolves(version.options.write.merge_schema):
            unstored, compactions = commit_columns_in(columns, version.schema), partial(table.runtime.compactions, table.meta)
            version = evolve(version, table.name, columns, unstored, compactions)
        order_by = given.order_by(not version.schema.append_only)
        request = WriteRequest(replaces=replaces, order_by=order_by)
        return kind(self.package, table, version.schema, columns, request, changes, given.zone)


def _offered(given: Given, table: Table) -> Schema:
    """The schema offered to Spark: for a batch, that of the snapshot that it reads; for a stream, the current one. Spark does
    not say which of the two it plans; options may."""
    if given.streams:
        return _followed(given, table) or table.version.schema
    try:
        return Version.at(table.meta, given.snapshot(table.meta)).schema
    except SnapshotNotFound:  # a batch fails later; a stream can start there
        return table.version.schema


def _followed(given: Given, table: Table) -> Schema | None:
    """The schema whose id an option gives for a stream; None without this option."""
    if given.schema_id is None:
        return None
    known = table.schemas()["schema_id"].to_pylist()
    if given.schema_id not in known:
        what, expected = f"option {SCHEMA!r} names no schema of the table", f"one of {few(known)}"
        raise InvalidOption(what, where=table.path, expected=expected, found=given.schema_id, cure="correct the option")
    return table.meta.schemas.get(given.schema_id)


def _fields(schema: Schema, names: Sequence[str]) -> pa.Schema:
    return pa.schema([schema.typed_columns.field(name).with_nullable(True) for name in names])


def _commits(given: Given) -> Sequence[pa.Field]:
    return COMMIT_FIELDS if given.commit_columns else ()


def _check_asked(asked: pa.Schema, stored: Schema, where: str, cure: str) -> None:
    """Raises InvalidQuery unless the table has the columns `asked` by a DataFrame or a catalog table of Spark, with types that
    widen to theirs."""
    offered = _fields(stored, [name for name in asked.names if name in stored.columns.names])
    given, columns = to_spark(asked), to_spark(offered)
    if given.simpleString() == columns.simpleString():
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
