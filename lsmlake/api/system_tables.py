"""The system tables of a table by name, made by `Table.system_table`: metadata as Arrow tables, rows as streams."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import pyarrow as pa

from lsmlake.api.changes import Changes, frame_of
from lsmlake.api.public_types import SparkDataFrame
from lsmlake.api.readable import Readable
from lsmlake.api.runtime import Runtime
from lsmlake.api.scan import Scan
from lsmlake.border import public, through
from lsmlake.cdc.binlog import ROWKIND, as_lists, list_schema
from lsmlake.cdc.change_reader import AUTO
from lsmlake.errors import InvalidQuery, Wording
from lsmlake.maintain.system_listings import TABLES, OfTable
from lsmlake.read.plan import FRESH, RAW
from lsmlake.read.travel import Moment, resolve
from lsmlake.schema.rowkind import INSERT, NAMES
from lsmlake.tables.version import Metadata, Version

_KIND = pa.field(ROWKIND, pa.string(), nullable=False)


@public
@dataclass(frozen=True)
class AuditLog(Readable):
    """The rows of a table as changes: `rowkind`, always '+I', then the columns. Streams, with the Arrow stream interface."""

    scan: Scan

    def to_batches(self) -> pa.RecordBatchReader:
        """The rows as a stream of record batches, as `Scan.to_batches`.

        Raises:
            InvalidQuery: the table has a column `rowkind`.
            SnapshotNotFound: the snapshot is not retained.
        """
        rows = self.scan.to_batches()
        _check_columns(rows.schema.names, self.scan.meta.paths.root)
        schema = pa.schema([_KIND, *rows.schema])
        batches = (
            pa.RecordBatch.from_arrays([pa.repeat(NAMES[INSERT], batch.num_rows), *batch.columns], schema=schema)
            for batch in rows
        )
        return pa.RecordBatchReader.from_batches(schema, through(batches, "AuditLog"))

    def to_spark(self) -> SparkDataFrame:
        """Spark: the rows as a DataFrame, evaluated lazily, as `Scan.to_spark`. Raises as `to_batches`."""
        rows = self.scan.to_spark()
        _check_columns(rows.columns, self.scan.meta.paths.root)
        return rows.selectExpr(f"'{NAMES[INSERT]}' as {ROWKIND}", "*")


@public
@dataclass(frozen=True)
class Binlog(Readable):
    """The changes of a table, an update as one row: `rowkind` ('+I', '+U', '-D'), then every column as a list: [before, after]
    for an update, else one value. Streams, with the Arrow stream interface."""

    changes: Changes

    def to_batches(self) -> pa.RecordBatchReader:
        """The changes as a stream of record batches, bucket by bucket; the changes of one bucket are in order.

        A -U or +U that the changelog holds without its counterpart, as `changelog-producer = input` allows, is a row of its own.

        Raises:
            InvalidQuery: the table has a column `rowkind`.
            SnapshotNotFound: a snapshot is not retained.
        """
        changes = self.changes.to_batches()
        columns = pa.schema(list(changes.schema)[1:])
        _check_columns(columns.names, self.changes.meta.paths.root)
        schema = list_schema(_KIND, columns)
        tables = as_lists(changes, Version.latest(self.changes.meta).schema.primary_key, schema)
        batches = (batch for table in tables for batch in table.to_batches())
        return pa.RecordBatchReader.from_batches(schema, through(batches, "Binlog"))

    def to_spark(self) -> SparkDataFrame:
        """Spark: the changes as a DataFrame, evaluated lazily, one task per bucket. Raises as `to_batches`."""
        changes, runtime = frame_of(self.changes, in_order=True), self.changes.runtime
        _check_columns(changes.columns[1:], self.changes.meta.paths.root)
        return runtime.on_spark("to_spark()").as_lists(changes, Version.latest(self.changes.meta).schema.primary_key)


class Asked(NamedTuple):
    """The table and the arguments for a system table. `start`: the snapshot before the first change. `commit_columns`: see
    `Changes`."""

    meta: Metadata
    runtime: Runtime
    moment: Moment
    start: int | str | None
    commit_columns: bool = False


class OfRows(NamedTuple):
    """A system table with the rows of the table. `about`: one line."""

    read: Callable[[Asked], Readable]
    about: str


def _scan(asked: Asked, mode: str) -> Scan:
    return Scan(asked.meta, asked.runtime, None, None, mode, asked.moment)


def _binlog(asked: Asked) -> Binlog:
    meta, end = asked.meta, None
    if asked.moment != Moment():
        snapshot = resolve(meta, asked.moment, asked.runtime.zone)
        end = None if snapshot is None else snapshot.id
    start = asked.start
    if start is None:
        first = next(iter(meta.snapshots.ids()), 1)
        start = 0 if first == 1 else first
    return Binlog(Changes(meta, asked.runtime, start, end, None, None, AUTO, asked.commit_columns))


ROWS: Mapping[str, OfRows] = {
    "audit_log": OfRows(lambda asked: AuditLog(_scan(asked, FRESH)), "all rows, with their row kind +I"),
    "binlog": OfRows(_binlog, "the changes of the retained snapshots, an update as one row"),
    "ro": OfRows(lambda asked: _scan(asked, RAW), "the rows that need no merging"),
}
SUMMARIES = {name: table.about for name, table in {**TABLES, **ROWS}.items()}
"""Name -> one line about the system table."""


def system_table(name: str, asked: Asked) -> pa.Table | Readable:
    """The system table of this name. Raises InvalidQuery for an unknown name, or an argument that has no effect."""
    where = asked.meta.paths.root
    if name not in SUMMARIES:
        near = difflib.get_close_matches(name.lower(), SUMMARIES, n=1)
        cure = f"did you mean {near[0]!r}?" if near else "correct the name"
        expected = "one of " + ", ".join(SUMMARIES)
        raise InvalidQuery("unknown system table", where=where, expected=expected, found=repr(name), cure=cure)
    if asked.start is not None and name != "binlog":
        raise InvalidQuery(f"{name} has no start", where=where, found=f"start={asked.start!r}", cure="leave start out")
    if asked.commit_columns and name != "binlog":
        raise InvalidQuery(f"{name} has no commit columns", where=where, found="commit_columns=True", cure="leave it out")
    if name in ROWS:
        return ROWS[name].read(asked)
    entry = TABLES[name]
    if not isinstance(entry, OfTable):
        return entry.read(Version.at(asked.meta, resolve(asked.meta, asked.moment, asked.runtime.zone)))
    if asked.moment != Moment():
        cure = "leave out the snapshot, tag or timestamp"
        raise InvalidQuery(f"{name} is about all snapshots of the table", where=where, cure=cure)
    return entry.read(asked.meta)


def _check_columns(names: list[str], where: str) -> None:
    if _KIND.name in map(str.lower, names):
        raise InvalidQuery(
            f"the table has a column {_KIND.name!r}, like this system table",
            where=where,
            cure=Wording(
                "read scan() or changes() instead, or rename the column",
                command="use `lsmlake head` or `lsmlake changes` instead, or rename the column",
            ),
        )
