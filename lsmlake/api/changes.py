"""`Changes`: described row changes between two snapshots, made by `Table.changes`."""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from functools import partial

import pyarrow as pa

from lsmlake.api.public_types import ChangesMode, SparkDataFrame
from lsmlake.api.readable import Readable
from lsmlake.api.runtime import Runtime
from lsmlake.border import public, through
from lsmlake.cdc.change_reader import (
    DIFF,
    MODES,
    Piece,
    by_bucket,
    changes_schema,
    check_mode,
    diff_pieces,
    read_piece,
    snapshot_pieces,
)
from lsmlake.cdc.commits import Feed
from lsmlake.cdc.encoding import EventWriter
from lsmlake.cdc.event_formats import ChangeFormat
from lsmlake.errors import InvalidQuery, SnapshotNotFound
from lsmlake.format.snapshot import Snapshot
from lsmlake.notebook import html_pairs
from lsmlake.predicate.where import predicate_of
from lsmlake.read.travel import Moment, resolve
from lsmlake.storage.env import moment_of
from lsmlake.tables.snapshots import LIST_SNAPSHOTS
from lsmlake.tables.version import Metadata, Version


@public
@dataclass(frozen=True)
class Changes(Readable):
    """Described row changes between two snapshots: `Table.changes`. Nothing is read until a method is called.

    The first column is `_row_kind` ('+I', '-U', '+U', '-D'). Applied in order to the rows as of snapshot `start` (exclusive), the
    changes give the rows as of snapshot `end` (inclusive). With `format` the columns are `key` and `value`, the messages of
    events. The object has the Arrow stream interface.
    """

    meta: Metadata
    runtime: Runtime
    start: int | str | datetime.datetime
    end: int | str | datetime.datetime | None
    where: str | None
    columns: tuple[str, ...] | None
    mode: ChangesMode = DIFF
    commit_columns: bool = False
    format: str | ChangeFormat | None = None

    def __repr__(self) -> str:
        return f"<lsmlake changes {', '.join(f'{name} {value}' for name, value in self._arguments())}>"

    def _repr_html_(self) -> str:
        return html_pairs("Changes", self._arguments())

    def _arguments(self) -> list[tuple[str, object]]:
        """The arguments that were given. Reads nothing."""
        given = ("of", self.meta.paths.root), ("after", self.start), ("to", self.end), ("where", self.where), ("mode", self.mode)
        given = (*given, ("format", None if self.format is None else ChangeFormat.of(self.format).name))
        return [(name, value) for name, value in given if value is not None]

    def _planned(self) -> tuple[Feed, list[Piece]]:
        """The columns and predicate, and the pieces to read."""
        latest = Version.latest(self.meta)
        schema = latest.schema
        if self.mode not in MODES:
            check_mode(self.mode, schema, self.meta.paths.root)
        predicate = predicate_of(self.where, schema.typed_columns, self.runtime.zone, partial(moment_of, self.meta.env))
        like = Feed.asked(schema, predicate, self.columns, self.commit_columns, self.meta.paths.root)
        last = latest.snapshot if self.end is None else self._last(self.end)
        first = None if isinstance(self.start, int) else self._first()
        start = 0 if first is None and isinstance(self.start, datetime.datetime) else self.start if first is None else first.id
        self._check_start(start, last)
        if last is None:
            return like, []
        if self.mode == DIFF:
            first = self._snapshot(start) if start and first is None else first
            with self.meta.snapshots.unless_expired(first, last):
                return like, diff_pieces(self.meta, like, first, last)
        with self.meta.snapshots.unless_expired(*range(max(1, start), last.id + 1)):
            numbers = range(start + 1, last.id + 1)
            return like, by_bucket(piece for n in numbers for piece in snapshot_pieces(self.meta, like, n, self.mode))

    def _snapshot(self, at: int | str | datetime.datetime) -> Snapshot | None:
        """The snapshot of a number, a tag or a time."""
        if isinstance(at, datetime.datetime):
            return resolve(self.meta, Moment(timestamp=at), self.runtime.zone)
        return resolve(self.meta, Moment(tag=at) if isinstance(at, str) else Moment(at), self.runtime.zone)

    def _last(self, end: int | str | datetime.datetime) -> Snapshot | None:
        """The last snapshot; if it has expired, the copy that is kept with its changelog."""
        try:
            return self._snapshot(end)
        except SnapshotNotFound:
            if self.mode == DIFF or not isinstance(end, int):
                raise
            return self.meta.snapshots.recorded(end)

    def _first(self) -> Snapshot | None:
        """The snapshot of a start given as tag or time; None for a time before the first snapshot."""
        if not isinstance(self.start, (str, datetime.datetime)):
            return None
        try:
            return self._snapshot(self.start)
        except SnapshotNotFound:
            if isinstance(self.start, datetime.datetime) and self.meta.snapshots.ids()[:1] in ([], [1]):
                return None
            raise

    def _check_start(self, start: object, last: Snapshot | None) -> None:
        if isinstance(start, bool) or not isinstance(start, int) or start < 0:
            raise InvalidQuery(
                "the start of changes is a snapshot id, a tag, a time, or 0 for the beginning",
                found=repr(start),
                cure=LIST_SNAPSHOTS,
            )
        if last is not None and start > last.id:
            raise InvalidQuery(
                "the end of the changes is before their start",
                expected=f"a start up to {last.id}",
                found=start,
                cure="swap start and end",
            )

    def to_batches(self) -> pa.RecordBatchReader:
        """The changes as a stream of record batches, bucket by bucket; the changes of one bucket are in order.

        Memory holds, in mode 'diff', the changed rows of one bucket; in the other modes, one chunk of a file.

        Raises:
            InvalidQuery: a column, `where` or the mode does not fit the table.
            SnapshotNotFound: a snapshot is not retained.
        """
        like, pieces = self._planned()
        events = self._events(like)
        read = partial(read_piece, self.meta, like) if events is None else partial(events.read, self.meta)
        batches = (batch for piece in pieces for table in read(piece) for batch in table.to_batches())
        schema = changes_schema(like) if events is None else events.schema
        return pa.RecordBatchReader.from_batches(schema, through(batches, "Changes"))

    def _events(self, like: Feed) -> EventWriter | None:
        return None if self.format is None else EventWriter.of(self.meta, like, self.format)

    def to_spark(self) -> SparkDataFrame:
        """Spark: the changes as a DataFrame, evaluated lazily.

        In mode 'changelog', Spark itself reads the files, only the columns that a query needs, and rows come in any order. With
        `where`, `commit_columns` or `format`, and in the other modes, one task per bucket reads the changes, and rows are in
        order within a partition of the DataFrame."""
        return frame_of(self, in_order=False)

    def count(self) -> int:
        """The number of changes. An update counts as two: -U and +U; with `format` as one. A tombstone counts, too."""
        return sum(batch.num_rows for batch in self.to_batches())


def frame_of(changes: Changes, *, in_order: bool) -> SparkDataFrame:
    """`Changes.to_spark`. `in_order`: a partition of the DataFrame has all changes of its buckets in order."""
    like, pieces = changes._planned()
    spark = changes.runtime.on_spark("to_spark()")
    return spark.changes_frame(changes.meta, like, pieces, changes._events(like), in_order=in_order)
