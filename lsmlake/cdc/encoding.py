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
from lsmlake.cdc.event_formats import ID, ChangeFormat
from lsmlake.cdc.event_queries import KEY, VALUE
from lsmlake.cdc.event_texts import WrittenColumn
from lsmlake.cdc.registered_schemas import registered
from lsmlake.errors import InvalidQuery, with_arguments
from lsmlake.format.paths import on_branch, split_name
from lsmlake.kernels.avro_rows import BYTES
from lsmlake.kernels.keys import joined as in_one_chunk
from lsmlake.kernels.text_format import TEXT
from lsmlake.lsm.difference import KIND_FIELD, equal_rows
from lsmlake.schema.rowkind import DELETE, NAMES, UPDATE_AFTER, UPDATE_BEFORE
from lsmlake.tables.version import Metadata

_ROWS, _BYTES = 1 << 16, 32 << 20


def messages_of(format: ChangeFormat) -> pa.Schema:
    """The columns of events out, as Kafka's sinks take them: text or, of Avro, bytes. The key is null without a primary key, the
    value of a tombstone is."""
    return _messages(pa.binary() if format.events.avro else pa.string())


def _messages(type_: pa.DataType) -> pa.Schema:
    return pa.schema([pa.field(name, type_) for name in (KEY, VALUE)])


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
        if like.commits:
            raise InvalidQuery(
                with_arguments(
                    "{} adds columns to rows, and {} gives events, which have their positions inside", "commit_columns", "format"
                ),
                where=where,
                found=f"events of {format.name}",
                cure="leave one of them out",
            )
        key = like.schema.primary_key
        if lacking := [name for name in key if name not in like.columns]:
            raise InvalidQuery(
                "change events need the key", where=where, expected=f"all of {list(key)}", found=f"not {lacking}",
                cure=with_arguments("name the key columns in {}, too", "columns"),
            )  # fmt: skip
        if format.events.document and key not in ((), (ID,)) and ID in like.columns:
            raise InvalidQuery(
                f"the key is the field {ID} of a document, and the table has a column of this name",
                where=where,
                expected=f"no column {ID}, or that it is the key",
                found=f"the key {list(key)}",
                cure="rename the column, or leave it out: columns=[...]",
            )
        fields = list(changes_schema(like))[1:]
        columns = tuple(WrittenColumn.of(field, format, where, is_key=field.name in key) for field in fields)
        database, table = split_name(meta.paths.table_name)
        branch = meta.paths.branch
        table = table if branch is None else on_branch(table, branch.name)
        origin = EventOrigin(database, table, key, format, columns)
        return EventWriter(like, registered(origin, where) if format.events.avro else origin)

    @property
    def schema(self) -> pa.Schema:
        """The columns of the messages."""
        return messages_of(self.origin.format)

    def read(self, meta: Metadata, piece: Piece) -> Iterator[pa.Table]:
        """The events of a piece, in order, as messages."""
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
        written = self.origin.written(rows)
        ordinals = pa.array(commit.first + begun + place, pa.int64())
        events = Events(written, self.origin.rows(written), kinds, new, old, commit, ordinals, initial)
        envelope = ENVELOPES[self.origin.format.name](events, self.origin)
        wide = _messages(BYTES if self.origin.of_bytes else TEXT)
        made = pa.table([self.origin.keys(written, place), envelope.value], schema=wide)
        if not (self.origin.key and envelope.tombstones):
            return made.cast(self.schema)
        deletes = kinds == DELETE
        places = np.repeat(np.arange(len(kinds)), 1 + deletes)
        stones = np.append(places[1:] == places[:-1], False)  # the message before its tombstone
        blank = pa.array(np.append(False, stones[:-1]))
        made = made.take(pa.array(places))
        value = pc.if_else(blank, pa.scalar(None, wide.field(1).type), in_one_chunk(made[VALUE]))
        return made.set_column(1, wide.field(1), value).cast(self.schema)

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


def _in_parts(table: pa.Table, overhead: int) -> Iterator[pa.Table]:
    """Tables of a size whose events fit one array. `overhead`: the bytes of an event beside the values."""
    rows = max(1, min(_ROWS, _BYTES // (overhead + table.nbytes // max(1, table.num_rows))))
    for start in range(0, table.num_rows, rows):
        yield table.slice(start, rows)
