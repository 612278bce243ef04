"""Writes row changes as change events: the inverse of `cdc.decoding`. Arrow in, Arrow out; no engine.

1. A -U and the +U after it become one event with the row before and the row after. Every other change is an event of its own: a
   -U alone is a row that left the condition of the reader, so a delete.
2. The rows become objects of JSON (`cdc.event_texts`); the envelope of the format goes around them (`cdc.envelopes`).
3. The position of an event is the snapshot and the number of the change in its commit. So a reader that orders events by their
   positions orders them by commits, and a repeated read gives the same events.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lsmlake.cdc.change_reader import Inserts, Piece, changes_schema, read_piece
from lsmlake.cdc.commits import Commit, Feed
from lsmlake.cdc.envelopes import ENVELOPES, EventOrigin, Events
from lsmlake.cdc.event_formats import ChangeFormat
from lsmlake.cdc.event_texts import WrittenColumn
from lsmlake.errors import InvalidQuery, Wording
from lsmlake.format.paths import on_branch, split_name
from lsmlake.kernels.keys import joined as in_one_chunk
from lsmlake.kernels.text_format import TEXT
from lsmlake.lsm.difference import KIND_FIELD, equal_rows
from lsmlake.schema.rowkind import DELETE, NAMES, UPDATE_AFTER, UPDATE_BEFORE
from lsmlake.tables.version import Metadata

MESSAGES = pa.schema([pa.field("key", pa.string()), pa.field("value", pa.string())])
"""The columns of events out, as Kafka's sinks take them. The key is null without a primary key, the value of a tombstone is."""
_ROWS, _BYTES = 1 << 16, 32 << 20


@dataclass(frozen=True)
class EventWriter:
    """Writes the changes of a table as events.

    Attributes:
        like: the columns that the changes have.
        origin: the table, and the format of the events.
    """

    like: Feed
    origin: EventOrigin

    @staticmethod
    def of(meta: Metadata, like: Feed, given: str | ChangeFormat) -> EventWriter:
        """The writer for the argument `format` of a verb. Raises InvalidQuery for a format or columns that cannot be written."""
        format, where = ChangeFormat.of(given), meta.paths.root
        if format.name not in ENVELOPES:
            what = f"{format.name} is a format of events in, and not of events out"
            raise InvalidQuery(what, where=where, expected=list(ENVELOPES), found=repr(format.name), cure=_CURES[format.name])
        if like.commits:
            raise InvalidQuery(
                "commit_columns are columns of rows, and format gives events, which have their positions inside",
                where=where,
                found=f"format={format.name!r}, commit_columns=True",
                cure="leave one of them out",
            )
        key = like.schema.primary_key
        if lacking := [name for name in key if name not in like.columns]:
            raise InvalidQuery(
                "change events need the key", where=where, expected=f"all of {list(key)}", found=f"no {lacking} in columns",
                cure="name the key columns in columns, too",
            )  # fmt: skip
        columns = tuple(WrittenColumn.of(field, format, where) for field in list(changes_schema(like))[1:])
        database, table = split_name(meta.paths.table_name)
        branch = meta.paths.branch
        table = table if branch is None else on_branch(table, branch.name)
        return EventWriter(like, EventOrigin(database, table, key, format, columns))

    def read(self, meta: Metadata, piece: Piece) -> Iterator[pa.Table]:
        """The events of a piece, in order, as `MESSAGES`."""
        for step, commit in zip(piece.steps, piece.commits, strict=True):
            changes = read_piece(meta, self.like, replace(piece, steps=(step,), commits=(commit,)))
            yield from self.messages(changes, commit, initial=isinstance(step, Inserts))

    def messages(self, changes: Iterable[pa.Table], commit: Commit, *, initial: bool = False) -> Iterator[pa.Table]:
        """The events of changes. `commit`: that of the changes. `initial`: they are the rows of a snapshot as inserts."""
        held: pa.Table | None = None  # a -U, whose +U may be the first row of the next table
        begun = 0
        for part in (part for table in changes for part in _in_parts(table, self.origin.overhead)):
            rows = part if held is None else pa.concat_tables([held, part])
            last = rows.num_rows - 1
            held = rows.slice(last) if rows[KIND_FIELD.name][last].as_py() == NAMES[UPDATE_BEFORE] else None
            rows = rows if held is None else rows.slice(0, last)
            if rows.num_rows:
                yield self._written(rows, commit, begun, initial)
            begun += rows.num_rows
        if held is not None:
            yield self._written(held, commit, begun, initial)

    def _written(self, rows: pa.Table, commit: Commit, begun: int, initial: bool) -> pa.Table:
        """The events of changes, of which the first has number `begun`; a -U and its +U are not separated."""
        kinds, new, old = self._events(rows)
        place = np.where(new >= 0, new, old)
        texts = {one.field.name: one.texts(in_one_chunk(rows[one.field.name])) for one in self.origin.columns}
        events = Events(texts, kinds, new, old, commit, pa.array(commit.first + begun + place, pa.int64()), initial)
        envelope = ENVELOPES[self.origin.format.name](events, self.origin)
        made = pa.table([self.origin.keys(texts, place), envelope.value], schema=_WIDE)
        if not (self.origin.key and envelope.tombstones):
            return made.cast(MESSAGES)
        deletes = kinds == DELETE
        places = np.repeat(np.arange(len(kinds)), 1 + deletes)
        stones = np.append(places[1:] == places[:-1], False)  # the message before its tombstone
        blank = pa.array(np.append(False, stones[:-1]))
        made = made.take(pa.array(places))
        value = pc.if_else(blank, pa.scalar(None, TEXT), in_one_chunk(made["value"]))
        return made.set_column(1, _WIDE.field(1), value).cast(MESSAGES)

    def _events(self, rows: pa.Table) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The kind of each event, +I, +U or -D, and the places of the rows after and before it; -1: there is none."""
        number = pc.index_in(in_one_chunk(rows[KIND_FIELD.name]), pa.array(NAMES))
        kinds = np.asarray(number).astype(np.int8)
        pairs = np.flatnonzero((kinds[:-1] == UPDATE_BEFORE) & (kinds[1:] == UPDATE_AFTER))
        key = list(self.like.schema.primary_key)
        pairs = pairs[equal_rows(rows.select(key), pairs, pairs + 1)] if key else pairs[:0]
        places = np.delete(np.arange(len(kinds)), pairs)
        gone = (kinds == DELETE) | (kinds == UPDATE_BEFORE)
        old = np.where(gone, np.arange(len(kinds)), -1)
        old[pairs + 1] = pairs
        kinds = np.where(gone, DELETE, kinds)
        return kinds[places], np.where(gone, -1, np.arange(len(kinds)))[places], old[places]


_CURES = {
    "mongodb": 'its rows are documents of MongoDB: write "debezium-json"',
    "debezium-avro": Wording(
        "its schemas must be registered first, which lsmlake does not do: write "
        'ChangeFormat("debezium-json", schema=True), whose events have their schemas inside',
        command='write \'{"name": "debezium-json", "schema": true}\', whose events have their schemas inside',
    ),
}
_WIDE = pa.schema([pa.field(name, TEXT) for name in MESSAGES.names])


def _in_parts(table: pa.Table, overhead: int) -> Iterator[pa.Table]:
    """Tables of a size whose events fit one array. `overhead`: the bytes of an event beside the values."""
    rows = max(1, min(_ROWS, _BYTES // (overhead + table.nbytes // max(1, table.num_rows))))
    for start in range(0, table.num_rows, rows):
        yield table.slice(start, rows)
