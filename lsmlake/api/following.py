"""Following a table: the arguments of `Table.follow` and `Table.read_stream`, and the batches that `follow` yields."""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from lsmlake.api.public_types import ChangesMode, StartMode
from lsmlake.api.readable import Readable
from lsmlake.border import public, through
from lsmlake.cdc.change_reader import AUTO, Piece, changes_schema, check_mode, read_piece
from lsmlake.cdc.commits import Feed
from lsmlake.cdc.encoding import EventWriter
from lsmlake.cdc.event_formats import ChangeFormat
from lsmlake.cdc.follow import LATEST_FULL, SNAPSHOT, TIMESTAMP, UNLIMITED, Follower, Limit, Offset, Start, check_start
from lsmlake.errors import InvalidQuery, naming, with_arguments
from lsmlake.notebook import html_pairs
from lsmlake.predicate.where import predicate_of
from lsmlake.read.travel import milliseconds
from lsmlake.schema.schema import Schema
from lsmlake.tables.version import Metadata, Version


@dataclass(frozen=True)
class Following:
    """The start, the content and the batch size of a stream; see `Table.read_stream`. `follower` checks the values."""

    start: StartMode | None = None
    snapshot: int | None = None
    timestamp: str | datetime.datetime | None = None
    mode: ChangesMode | None = None
    where: str | None = None
    columns: Sequence[str] | None = None
    consumer: str | None = None
    limit: Limit = UNLIMITED
    commit_columns: bool = False
    format: str | ChangeFormat | None = None

    def follower(self, meta: Metadata, zone: str, schema: Schema | None = None) -> Follower:
        """The follower for these values. `zone`: the time zone of times without one, here and in `where`. `schema`: the schema
        whose column names are used; default: the schema in effect. Raises InvalidQuery."""
        schema, root = schema or Version.latest(meta).schema, meta.paths.root
        if self.snapshot is not None and self.timestamp is not None:
            what, cure = with_arguments("{} and {} exclude each other", "snapshot", "timestamp"), "give one of them"
            raise InvalidQuery(what, where=root, cure=cure)
        implied = SNAPSHOT if self.snapshot is not None else TIMESTAMP if self.timestamp is not None else LATEST_FULL
        with naming("timestamp"):
            time_ms = None if self.timestamp is None else milliseconds(self.timestamp, zone)
        start = check_start(Start(implied if self.start is None else self.start, self.snapshot, time_ms), root)
        mode = check_mode(AUTO if self.mode is None else self.mode, schema, root)
        for name, most in zip(Limit._fields, self.limit, strict=True):
            if most is not None and (isinstance(most, bool) or not isinstance(most, int) or most < 1):
                raise InvalidQuery(
                    with_arguments("{} is too small", f"max_{name}"),
                    where=root,
                    expected="1 or more",
                    found=repr(most),
                    cure="correct the limit",
                )
        if self.consumer is not None:
            with naming("consumer"):
                meta.paths.consumer(self.consumer)  # refuses an invalid name
        with naming("where"):  # no current time: it would change while the stream runs
            predicate = predicate_of(self.where, schema.typed_columns, zone, None)
        with naming("columns"):
            feed = Feed.asked(schema, predicate, self.columns, self.commit_columns, root)
        return Follower(meta, feed, mode, start, self.consumer)

    def events(self, follower: Follower) -> EventWriter | None:
        """The writer of the changes as events; None: the changes are rows. Raises InvalidQuery."""
        return None if self.format is None else EventWriter.of(follower.meta, follower.like, self.format)


@public
@dataclass(frozen=True)
class ChangeBatch(Readable):
    """The changes of one snapshot, or all rows of the first snapshot: an item of `Table.follow`.

    The first column is `_row_kind`; with `commit_columns` the last ones are the commit columns. With `format` the columns are
    `key` and `value`, the messages of events. The object has the Arrow stream interface.

    Attributes:
        snapshot: the id of the snapshot.
    """

    meta: Metadata
    like: Feed
    snapshot: int
    pieces: tuple[Piece, ...]
    events: EventWriter | None = None

    def to_batches(self) -> pa.RecordBatchReader:
        """The changes as a stream of record batches; the changes of one key are in order."""
        batches = (batch for table in self._tables() for batch in table.to_batches())
        schema = changes_schema(self.like) if self.events is None else self.events.schema
        return pa.RecordBatchReader.from_batches(schema, through(batches, "ChangeBatch"))

    def _tables(self) -> Iterator[pa.Table]:
        for piece in self.pieces:
            yield from read_piece(self.meta, self.like, piece) if self.events is None else self.events.read(self.meta, piece)

    def __repr__(self) -> str:
        return f"<lsmlake changes of {self.meta.paths.root} at snapshot {self.snapshot}>"

    def _repr_html_(self) -> str:
        return html_pairs("ChangeBatch", [("of", self.meta.paths.root), ("snapshot", self.snapshot)])


def follow(follower: Follower, wait_s: float | None, events: EventWriter | None = None) -> Iterator[ChangeBatch]:
    """One batch per snapshot, from the start of the follower. After the latest snapshot: stop, or poll every `wait_s` seconds.
    The progress of the consumer is stored when the next batch is requested."""
    offset = follower.begin()
    follower.note(offset)
    return _batches(follower, offset, wait_s, events)


def _batches(follower: Follower, offset: Offset, wait_s: float | None, events: EventWriter | None) -> Iterator[ChangeBatch]:
    meta = follower.meta
    while True:
        end = follower.end()
        while offset < end:
            following = Offset(offset.snapshot + 1)
            pieces = tuple(piece for _, piece in follower.pieces(offset, following))
            if pieces:
                yield ChangeBatch(meta, follower.like, offset.snapshot, pieces, events)
            offset = following
            follower.note(offset)
        if wait_s is None:
            return
        _wait(meta, end.snapshot, wait_s)


_LOOK_S = 0.05


def _wait(meta: Metadata, number: int, seconds: float) -> None:
    """Waits for some seconds. In a directory, where it is cheap to look for a file, it waits only until snapshot `number` exists:
    so a follower gets its changes within `_LOOK_S` of the commit."""
    storage, path, left = meta.env.storage, meta.paths.snapshot(number), seconds
    if storage.at_once > 1:
        meta.env.sleep(seconds)
        return
    while left > 0 and storage.size(path) is None:
        meta.env.sleep(min(left, _LOOK_S))
        left -= _LOOK_S
