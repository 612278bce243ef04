"""Keeps a history of a table: `Lake.history_of`. It follows the changes of the source and writes their versions.

Every commit of the history carries its position: the last snapshot of the source that it holds, and the schema of the source
whose columns it has (`commit.request.Advance`, as for view tables). So each change is in the history exactly once, whatever fails
when, also after a rollback of the history. A consumer of the source protects the snapshots that the history has not read yet; it
moves after the commits. The options of the history say what it keeps (`api.history_terms`), so that a maintainer can run it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lsmlake.api.history_columns import followed, renames
from lsmlake.api.history_terms import HistoryTerms
from lsmlake.api.table import Table
from lsmlake.cdc.change_reader import Piece, by_bucket, read_piece
from lsmlake.cdc.commits import Feed
from lsmlake.cdc.follow import SNAPSHOT, SNAPSHOT_FULL, Follower, Limit, Offset, Start
from lsmlake.cdc.history_axis import HistoryAxis
from lsmlake.cdc.row_versions import RowChanges, versions_by_place, versions_in_order
from lsmlake.commit.commit import again
from lsmlake.commit.request import Advance, Identity, Position, Request
from lsmlake.commit.requirements import Fits, Follows, Overtaken
from lsmlake.errors import InvalidData, InvalidQuery, InvalidSchema, SnapshotNotFound, Wording
from lsmlake.format.snapshot import SourcePosition
from lsmlake.lsm.cover import route
from lsmlake.lsm.lookup import in_batches
from lsmlake.maintain.alter import succeed
from lsmlake.options.history_options import EARLIEST_FULL, SOURCE, VALID_FROM, VALID_TO
from lsmlake.predicate.tree import Column, Compare, In, Literal, Predicate, and_
from lsmlake.read.plan import Plan, plan
from lsmlake.read.point import rows_with_keys
from lsmlake.schema.alterations.altered import altered
from lsmlake.schema.alterations.draft import Alteration
from lsmlake.schema.alterations.of_table import SetOption
from lsmlake.schema.rowkind import COMMIT_TIME
from lsmlake.schema.schema import Schema
from lsmlake.storage.concurrency import side_by_side
from lsmlake.tables.consumers import remove_consumer
from lsmlake.tables.version import Version
from lsmlake.types.type_table import is_text
from lsmlake.write.write import write_tables
from lsmlake.write.write_request import WriteRequest

_ROWS = 1_000_000
_PART_ROWS = 100_000
"""Fewer changes are not divided among threads."""
_PARTS = 2
"""The parts of changes for each thread."""
_KEYS_NAMED = 1000
"""Up to this many values of a key column choose the rows of the history; of more the least and the greatest do."""
_OVERTAKEN = "another run of the same history came first on every attempt", "run it again when the other one is done"


class _Begun(NamedTuple):
    """The last snapshot of the source that a history holds, None before its first commit, and where it continues."""

    number: int | None
    offset: Offset


@dataclass(frozen=True)
class HistoryRun:
    """Brings a history up to date.

    Attributes:
        source: the table.
        version: the version of the source up to which the history is brought.
        name: the name of the history.
        terms: what the history keeps.
        axis: what orders versions.
        tracked: the columns of which a change begins a version; None: all.
    """

    source: Table
    version: Version
    name: str
    terms: HistoryTerms
    axis: HistoryAxis
    tracked: tuple[str, ...] | None

    @staticmethod
    def of(source: Table, name: str, given: HistoryTerms, history: Table | None) -> HistoryRun:
        """The run for the arguments of a call. `history`: None if there is none yet. Raises InvalidQuery, InvalidSchema."""
        version, where = source.version, source.name
        schema = version.schema
        if schema.append_only:
            cure = "create the table with a primary key, or query it as it is: its rows do not change"
            raise InvalidQuery("a history needs a primary key", where=where, found="an append-only table", cure=cure)
        if taken := [one for one in schema.columns.names if one.lower() in (VALID_FROM, VALID_TO)]:
            cure = "rename the column of the table"
            raise InvalidSchema(f"the table has a column {taken[0]!r}, which the history adds", where=where, cure=cure)
        if history is None:
            terms = given
        else:
            kept, gone = _kept_terms(source, version, history)
            kept = kept.without(gone, where)
            terms = given.without(gone, where).agreed(kept, history.name)
        axis = HistoryAxis.of(schema, terms.sequence_by, where)
        terms = terms._replace(sequence_by=axis.column or COMMIT_TIME)
        tracked = terms.tracked(schema, where)
        if history is None:
            terms.check_new(schema, where)
        if tracked is not None and axis.late:
            raise InvalidQuery(
                "track needs changes in their order, and changes of this table may be late",
                where=where,
                expected="changelog-producer = none, lookup or full-compaction",
                found=f"changelog-producer = input, versions ordered by {axis.column!r}",
                cure=Wording(
                    'leave track out, or pass sequence_by="_commit_time"',
                    command="leave --track out, or add --sequence-by _commit_time",
                ),
            )
        return HistoryRun(source, version, name, terms, axis, tracked)

    @property
    def consumer(self) -> str:
        """The consumer of the source that the history is."""
        return f"history-{self.name.replace('.', '-')}"

    def columns(self) -> pa.Schema:
        """The columns of a new history: those of the source, nullable outside of its key, and the two of the time."""
        schema = self.version.schema
        fields = [one if one.name in schema.primary_key else one.with_nullable(True) for one in schema.typed_columns]
        times = [pa.field(VALID_FROM, self.axis.type, nullable=False), pa.field(VALID_TO, self.axis.type)]
        return pa.schema([*fields, *times])

    @property
    def primary_key(self) -> list[str]:
        """The primary key of the history."""
        return [*self.version.schema.primary_key, VALID_FROM]

    @property
    def options(self) -> Mapping[str, str]:
        """The options of a new history."""
        return {"bucket-key": ",".join(self.version.schema.primary_key), **self.terms.options(self.source.name)}

    def forget(self) -> None:
        """Before the history is made: removes the progress of an older one of this name."""
        remove_consumer(self.source.meta, self.consumer)

    def run(self, history: Table) -> int:
        """Adds the changes up to the latest snapshot of the source, and returns how many rows were written. Raises
        SnapshotNotFound if unread snapshots expired."""
        follower, end, rows = self._follower(), Offset(self.version.number + 1), 0
        try:
            while (begun := self._begin(history, follower)).offset < end or begun.number is None:
                stop = self._stop(follower, begun.offset, end)
                pieces = by_bucket(piece for _, piece in follower.pieces(begun.offset, stop))
                write = partial(self._written, history, begun.number, pieces, follower.like, stop.snapshot - 1)
                written = again(history.version, write, *_OVERTAKEN)
                if written is not None:
                    follower.note(stop)
                    rows += written
        except SnapshotNotFound as gone:
            raise gone.changed(
                where=f"{self.source.name}, for the history {self.name}",
                cure=f"the consumer {self.consumer!r} of the table protects what the history has not read, as long as it exists; "
                "the changes in between are lost, so create a new history under another name, or drop this one first",
            ) from gone
        return rows

    def _follower(self) -> Follower:
        meta = self.source.meta
        feed = Feed.asked(self.version.schema, None, None, True, meta.paths.root)
        start = Start()
        if self.terms.start == EARLIEST_FULL and (kept := meta.snapshots.ids()):
            recorded = {*kept, *meta.snapshots.recorded_ids()}
            start = Start(SNAPSHOT, 1) if recorded >= set(range(1, kept[0])) else Start(SNAPSHOT_FULL, kept[0])
        return Follower(meta, feed, self.axis.mode, start, self.consumer)

    def _begin(self, history: Table, follower: Follower) -> _Begun:
        """Where the history stands and continues. Saves this as the progress of its consumer."""
        number = _number(history.version)
        offset = follower.begin() if number is None else Offset(number + 1)
        follower.note(offset)
        return _Begun(number, offset)

    def _stop(self, follower: Follower, offset: Offset, end: Offset) -> Offset:
        """The end of the next commit: whole snapshots with about `_ROWS` changes."""
        if offset.full:
            return Offset(offset.snapshot + 1)
        if offset >= end:  # the first run, before the source has rows
            return offset
        reached = follower.advance(offset, Limit(rows=_ROWS), end.snapshot - 1)
        return Offset(max(reached.snapshot, offset.snapshot + 1))

    def _written(
        self, history: Table, begun: int | None, pieces: Sequence[Piece], like: Feed, last: int, now: Version
    ) -> int | None:
        """Writes the versions of the changes up to the snapshot `last` as one commit; returns how many. None: another run has
        moved the history on from `begun`, and nothing is written."""
        if _number(now) != begun:
            return None
        now = self._followed(history, now)
        before, count = position_of(now), Count()
        advance = Advance(before, self._position(last))
        request = WriteRequest(Identity(now.meta.env.ids()), requires=(Fits(now.schema),), advance=advance)
        try:
            write_tables(now, count.of(self._versions(now, like, pieces)), request)
        except InvalidData:
            if position_of(Version.latest(history.meta)) == before:
                raise
            raise Overtaken from None
        return count.rows

    def _position(self, snapshot: int) -> Position:
        return {self.source.name: SourcePosition(self.source.meta.paths.line, snapshot, self.version.schema.id)}

    def _followed(self, history: Table, now: Version) -> Version:
        """The history with the columns of the source, by a commit of its own. Raises Overtaken if another commit came first."""
        schema, meta = now.schema, now.meta
        changes = [*_renames(self.source, self.version, now, history.name)]
        changes = followed(schema, self.columns(), changes, history.name)
        if schema.parsed_options.history.source != self.source.name:
            changes.append(SetOption(SOURCE, self.source.name))
        if not changes:
            return now
        made = altered(schema, changes, meta.schemas.ids()[-1] + 1, meta.env.clock(), history.name)
        before = position_of(now)
        advance = None if before is None else Advance(before, self._position(_only(before).snapshot))
        request = Request(Identity(meta.env.ids()), requires=(Follows(now.number),), schema=made, advance=advance)
        if succeed(now, request) is None:
            raise Overtaken
        return Version.latest(meta)

    def _versions(self, now: Version, like: Feed, pieces: Sequence[Piece]) -> Iterator[pa.Table]:
        """The changed versions. The history is read once for buckets of the source with `_ROWS` changes together."""
        key, root = self.version.schema.primary_key, self.source.name
        read = (list(read_piece(self.source.meta, like, piece)) for piece in pieces)
        least = 1 if now.snapshot is None else _ROWS
        for group in in_batches(read, lambda tables: sum(table.num_rows for table in tables), least):
            tables = [table for tables in group for table in tables if table.num_rows]
            if not tables:
                continue
            changes = self.axis.changes(pa.concat_tables(tables), key, root)
            if nulls := [name for name in key if changes.rows[name].null_count]:
                cure = "a history needs keys without nulls: fill the column in the source"
                raise InvalidData("a key has a null", where=f"{root}, column {nulls[0]!r}", cure=cure)
            changes = changes._replace(rows=_aligned(changes.rows, now.schema))
            made = partial(self._made, changes=changes, tracked=self.tracked or like.columns)
            parts = [partial(made, *part) for part in _parts(now, changes, key)]
            # one table: a writer keeps a single table in memory, and may spill several
            yield pa.concat_tables(side_by_side(parts, now.meta.env.workers))

    def _made(self, reads: Plan, rows: np.ndarray | None, changes: RowChanges, tracked: Sequence[str]) -> pa.Table:
        """The versions that changes make or alter. `reads`: the plan of the history for their keys. `rows`: the numbers of the
        changes; None: all."""
        key = self.version.schema.primary_key
        changes = changes if rows is None else changes.take(rows)
        known = _known(reads, changes, key)
        if self.axis.late:
            return versions_by_place(known, changes, key)
        return versions_in_order(known, changes, key, tracked)


@dataclass
class Count:
    """Counts the rows of tables that pass."""

    rows: int = 0

    def of(self, tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
        for table in tables:
            self.rows += table.num_rows
            yield table


def position_of(history: Version) -> Position | None:
    """The position of a history; None before its first commit."""
    return None if history.snapshot is None else history.snapshot.position


def _number(history: Version) -> int | None:
    """The last snapshot of the source that a history holds."""
    position = position_of(history)
    return None if position is None else _only(position).snapshot


def _only(position: Position) -> SourcePosition:
    return next(iter(position.values()))


def _renames(source: Table, version: Version, history: Version, where: str) -> list[Alteration]:
    position = position_of(history)
    if position is None:
        return []
    return renames(history.schema, source.meta.schemas.get(_only(position).schema_id), version.schema, where)


def _kept_terms(source: Table, version: Version, history: Table) -> tuple[HistoryTerms, set[str]]:
    """The terms of a history, with the names that columns of the source have now, and the columns that the source has no longer.
    Raises InvalidQuery if a table is no history of the source."""
    now = history.version
    position, options = position_of(now), now.schema.parsed_options.history
    others = position is not None and _only(position).table_uuid != source.meta.paths.line
    if options.source is None or others or (position is None and now.snapshot is not None and now.snapshot.total_rows):
        expected = f"a history of {source.name}"
        found = "a table that history_of did not make" if options.source is None else f"a history of {options.source}"
        found = f"{found}, of which there was another table of this name" if options.source == source.name else found
        cure = "choose another name for the history"
        raise InvalidQuery(
            "the table is no history of this source", where=history.name, expected=expected, found=found, cure=cure
        )
    found = _renames(source, version, now, history.name)
    schema = altered(now.schema, found, now.schema.id + 1, now.schema.time_ms, history.name)
    key = [*version.schema.primary_key, VALID_FROM]
    if list(schema.primary_key) != key or VALID_TO not in schema.columns.names:
        raise InvalidQuery(
            "the table has not the columns of a history",
            where=history.name,
            expected=f"primary key {key} and a column {VALID_TO!r}",
            found=f"primary key {list(schema.primary_key)}",
            cure=f"choose another name for the history, or remove the option {SOURCE}, which history_of sets",
        )
    gone = {*schema.columns.names} - {*version.schema.columns.names, VALID_FROM, VALID_TO}
    return HistoryTerms.kept(schema.parsed_options.history), gone


def _aligned(rows: pa.Table, schema: Schema) -> pa.Table:
    """The rows with the columns of the history, without the two of the time. Columns that the source has no longer are null."""
    fields = [one for one in schema.row_columns if one.name not in (VALID_FROM, VALID_TO)]
    columns = [rows[one.name] if one.name in rows.column_names else pa.nulls(rows.num_rows, one.type) for one in fields]
    return pa.table(columns, names=[one.name for one in fields])


def _parts(now: Version, changes: RowChanges, key: Sequence[str]) -> Iterator[tuple[Plan, np.ndarray | None]]:
    """Divides many changes by the buckets of the history; each bucket has all versions of its keys. Yields the plan for the keys
    of each part, and the numbers of its changes, None for all changes."""
    schema, reads = now.schema, plan(now, _predicate(now.schema, changes.rows.select(list(key))))
    most = min(changes.rows.num_rows // _PART_ROWS, _PARTS * now.meta.env.workers)
    if most <= 1 or schema.partition_columns or not {*schema.bucket_key} <= {*key} or (covers := now.covers()).most == 1:
        yield reads, None
        return
    count = min(most, covers.most)
    parts = route(changes.rows, schema, covers).codes % count
    for part in range(count):
        rows = np.flatnonzero(parts == part)
        if len(rows):
            yield replace(reads, splits=tuple(split for split in reads.splits if split.bucket.number % count == part)), rows


def _known(reads: Plan, changes: RowChanges, key: Sequence[str]) -> pa.Table:
    """The versions of the keys of changes that the history has, with the types of the changes."""
    times = [reads.schema.row_columns.field(name) for name in (VALID_FROM, VALID_TO)]
    fields = pa.schema([*changes.rows.schema, *times])
    found = rows_with_keys(reads, changes.rows.select(list(key)))
    return pa.concat_tables([fields.empty_table(), *(rows.select(fields.names).cast(fields) for rows in found)])


def _predicate(schema: Schema, keys: pa.Table) -> Predicate:
    """A condition that is true of the keys, and prunes files: it lists few values of a column, and limits many by the least and
    the greatest."""
    conditions: list[Predicate] = []
    for name in keys.column_names:
        type_, values = schema.columns.field(name).type, pc.unique(keys[name])
        column = Column((name,), type_)
        if len(values) <= _KEYS_NAMED and (pa.types.is_integer(type_) or is_text(type_)):
            conditions.append(In(column, tuple(values.to_pylist())))
        else:
            ends = pc.min_max(values).as_py()
            conditions += [Compare(">=", column, Literal(ends["min"])), Compare("<=", column, Literal(ends["max"]))]
    return and_(*conditions)
