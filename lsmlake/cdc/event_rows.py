"""Turns the texts of change events (`cdc.event_queries`) into rows with row kinds. Arrow in, Arrow out; pure.

1. The code of the operation says what an event means. Tombstones, heartbeats, schema changes and the like are left out.
2. Texts become values (`cdc.event_values`). A value that cannot be read rejects its event, with the reason.
3. An update that changes the key becomes a delete of the old key and an insert.
4. A value that the event does not have, because it has not changed, is null, and its column is named in `KEPT`.

The engine around it only parses JSON, so events mean the same in this process and in the tasks of Spark.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Container, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lsmlake.cdc import event_queries
from lsmlake.cdc.event_digits import MARK, tells_numbers, unmarked
from lsmlake.cdc.event_fields import EventFields
from lsmlake.cdc.event_formats import (
    CHANGES,
    DELETE,
    ID,
    INSERT,
    SKIP,
    TRUNCATE,
    UPDATE,
    Absent,
    ChangeFormat,
    Counting,
    PositionPart,
)
from lsmlake.cdc.event_lines import in_utf_8, unreadable
from lsmlake.cdc.event_queries import (
    EVENT,
    IMAGE,
    KIND,
    NAMES,
    OFFSET,
    OLD_NAMES,
    REMOVED,
    SHORTENED,
    UNPAIRED,
    WRONG,
    EventQuery,
)
from lsmlake.cdc.event_values import Encoding, decoded, encoding_in, encodings_of, plain_json, schema_in
from lsmlake.cdc.inner_names import lacking_inside, unknown_inside
from lsmlake.errors import InvalidData, InvalidQuery, Wording
from lsmlake.kernels import encoded_bytes, nested
from lsmlake.kernels.fitting import fitted
from lsmlake.kernels.keys import joined
from lsmlake.kernels.search import contains
from lsmlake.schema.conform import shown
from lsmlake.schema.lossless import Unfit
from lsmlake.schema.omitted import may_be_omitted, with_default
from lsmlake.types.column_types import plain
from lsmlake.types.type_table import is_bytes, is_text
from lsmlake.types.type_text import format_type, format_type_of

ROW_KIND, POSITION, PLACE = "_row_kind", "_event_position", "_event_offset"
KEPT, TEXT, REASON = "_event_kept", "_event_text", "_event_reason"
OWN_COLUMNS = ROW_KIND, POSITION, KEPT, TEXT, REASON, PLACE
"""The columns of decoded rows beside those of the table."""
TRUNCATED, REJECTED = "truncate", "reject"
"""Row kinds, in a decoded table, of an event that removes all rows, and of one that cannot be read."""
_ACTIONS = INSERT, UPDATE, DELETE, TRUNCATE, SKIP
_INSERT, _UPDATE, _DELETE, _TRUNCATE, _SKIP, _BAD = range(6)
_KINDS = "+I", "+U", "-D", TRUNCATED, None, REJECTED
_DIGITS = 20
_NUMBERED_FILE = r"^.*?(?P<file>[0-9]+)$"
_FILE_AND_NUMBER = r"^.*?(?P<file>[0-9]+):(?P<number>[0-9]+)$"
_SHOWN = 300
_OF_ONE_SHARD = "the event removes all rows of its table at the source, and the table has the rows of other shards, too"
_NO_ROW = "the event has no value: it deletes the row of its key, which rows without operations cannot say; use another format"
NO_EVENT = r'^\s*(null|\{\s*"schema"\s*:\s*null\s*,\s*"payload"\s*:\s*null\s*\})\s*$'
"""The texts of a tombstone, beside no text."""
_SCHEMA, _LATE_SCHEMA = r'^\s*\{\s*"schema"\s*:', r'(?s)^\s*\{\s*"payload"\s*:\s*\{.*\}\s*,\s*"schema"\s*:\s*\{'
_LEFT_OUT = "or leave the field out, by except_columns of upsert, write_stream or sink"
_SCHEMA_IS_LATE = "the field schema comes after the field payload, whose values it describes: it must be the first"


@dataclass(frozen=True)
class EventReader:
    """Reads events as rows of a table.

    Attributes:
        format: their format.
        columns: the columns of the rows.
        key: the names of the key columns; may be empty.
        zone: the time zone of times without a zone.
        sequence: the columns of `sequence.field`: a delete without them would be older than any row.
        combines: the table combines rows, so it may lack any nullable column.
        with_before: the rows before updates are wanted, too, as -U.
        allowed: the fields that the rows of events may have; None: any, of which only `columns` are read.
        inside: the paths of fields that nested values may have beside those of their columns; None: any, which are not read.
        truncates_apply: an event may remove all rows.
        may_lack: events may lack the field of any nullable column, which is then null.
        key_may_be_id: the field `_id` of documents may be the key, if the table has no such column.
        computes: gives decoded rows their computed columns (`computed_columns.tried`); None: they have none, or get them later.
        fits: raises InvalidData for such rows that the table cannot hold; None: the rows are for no table.
        met: the fields of the rows that were read until now, and the paths in `inside` that values had.
    """

    format: ChangeFormat
    columns: pa.Schema
    key: tuple[str, ...] = ()
    zone: str = "UTC"
    sequence: tuple[str, ...] = ()
    combines: bool = False
    with_before: bool = False
    allowed: frozenset[str] | None = None
    inside: frozenset[str] | None = None
    truncates_apply: bool = True
    may_lack: bool = False
    key_may_be_id: bool = True
    computes: Callable[[pa.Table], tuple[pa.Table, dict[int, str]]] | None = None
    fits: Callable[[pa.Table], None] | None = None
    met: set[str] = field(default_factory=set, compare=False)

    def __post_init__(self) -> None:
        if taken := [name for name in self.columns.names if name in OWN_COLUMNS]:
            cure = "rename the column"
            raise InvalidQuery(
                "events cannot be read into columns with these names", expected=f"none of {OWN_COLUMNS}", found=taken, cure=cure
            )

    @cached_property
    def query(self) -> EventQuery:
        """The query that reads the texts of the events."""
        old = range(len(self.columns)) if self.with_before else map(self.columns.names.index, self.key)
        format, names, whole = self.format.events, self.columns.names, self.with_before
        tells = any(keeps for *_, keeps in self.text_columns([event_queries.after(number) for number in range(len(names))]))
        key = {"key": tuple(self.key), "key_is_id": self.key_is_id}
        return EventQuery(format, names, tuple(old), whole_before=whole, tells_numbers=tells, **key)

    @property
    def key_is_id(self) -> bool:
        """Whether the key columns are the field `_id` of documents, or the fields of it."""
        return self.key_may_be_id and self.format.events.document and bool(self.key) and ID not in self.columns.names

    @cached_property
    def fields(self) -> pa.Schema:
        """The columns of decoded rows. All are nullable: a rejected event has no values."""
        own = [pa.field(one.name, nested.nullable(plain(one.type))) for one in self.columns]
        others = [pa.field(name, pa.int64() if name == PLACE else pa.string()) for name in OWN_COLUMNS]
        return pa.schema([*own, *others])

    def text_columns(self, names: Sequence[str]) -> Iterator[tuple[pa.Field, str, bool]]:
        """The columns of texts, of those with these names, each with the column of the table, and whether that tells numbers from
        texts."""
        decimals = self.format.events.typed and self.format.decimals is None
        for number, column in enumerate(self.columns):
            for name in (event_queries.after(number), event_queries.before(number)):
                if name in names:
                    yield column, name, tells_numbers(column.type, decimals=decimals)

    def without_marks(self, texts: pa.Table) -> pa.Table:
        """The result of the query over events with marks, see `cdc.event_digits`."""
        keep = {name: keeps for _, name, keeps in self.text_columns(texts.column_names)}
        for number, name in enumerate(texts.column_names):
            if is_text(texts[name].type) and name != EVENT:
                texts = texts.set_column(number, name, unmarked(joined(texts[name]), keep=keep.get(name, False)))
        return texts

    def rows(self, texts: pa.Table, *, described: bool = True) -> pa.Table:
        """Decodes events. `texts`: the result of the query, with the column `OFFSET` if the events have one. `described`: some
        events may have a schema."""
        texts = texts.combine_chunks()
        groups = self._by_schema(texts) if described else [_Described(np.arange(texts.num_rows), {})]
        if len(groups) == 1:
            return groups[0].batch(self, texts).decoded()[0]
        made, places = [], []
        for group in groups:
            one, numbers = group.batch(self, texts.take(pa.array(group.rows))).decoded()
            made.append(one)
            places.append(group.rows[numbers])
        return pa.concat_tables(made).take(pa.array(np.argsort(np.concatenate(places), kind="stable")))

    def unfit(self, rows: pa.Table) -> dict[int, str]:
        """The decoded rows that the table cannot hold, or of which nothing can be computed, each with the reason. Raises
        InvalidData if it can hold none of this form, whatever their values; InvalidQuery as `computes`."""
        rows, wrong = (rows, {}) if self.computes is None else self.computes(rows)
        if self.fits is None:
            return wrong
        try:
            self.fits(rows)
        except InvalidData:
            self.fits(rows.slice(0, 0))
            left = np.setdiff1d(np.arange(rows.num_rows + len(wrong)), list(wrong)).tolist()
            wrong |= {left[row]: " ".join(reason.split()) for row, reason in unreadable(rows, self.fits).items()}
        return wrong

    def described(self, texts: pa.Table, encodings: dict[str, Encoding], bad: dict[int, str]) -> tuple[pa.Table, np.ndarray]:
        """Decodes events whose fields have these encodings. `bad`: the reasons for events that cannot be read. Also returns the
        numbers of the events that the rows come from."""
        return _Batch(self, encodings, texts.combine_chunks(), dict(bad)).decoded()

    def _by_schema(self, texts: pa.Table) -> list[_Described]:
        """The rows whose events have the same schema."""
        events = texts[EVENT]
        left, groups = np.arange(texts.num_rows), []
        if not self.format.events.typed:
            return [_Described(left, {})]
        matches = [pc.match_substring_regex(events, pattern) for pattern in (_SCHEMA, _LATE_SCHEMA)]
        described, late = (np.asarray(pc.fill_null(one, False)) for one in matches)
        groups = [_Described(left[~described & ~late], {}), _Described(left[late], {}, _SCHEMA_IS_LATE)]
        left = left[described]
        while len(left):
            schema, prefix = schema_in(events[left[0]].as_py())
            same = np.asarray(pc.starts_with(events.take(pa.array(left)), prefix)) if prefix else np.arange(len(left)) == 0
            groups.append(_Described.of(left[same], schema))
            left = left[~same]
        return [group for group in groups if len(group.rows)] or groups[:1]


class _Described(NamedTuple):
    """Rows whose events have the same schema, and the encodings that it gives to fields. `wrong`: why it cannot be read."""

    rows: np.ndarray
    encodings: dict[str, Encoding]
    wrong: str = ""

    @staticmethod
    def of(rows: np.ndarray, schema: object) -> _Described:
        try:
            return _Described(rows, encodings_of(schema))
        except (AttributeError, KeyError, TypeError, ValueError) as broken:
            return _Described(rows, {}, f"the schema of the event cannot be read: {type(broken).__name__}: {broken}")

    def batch(self, reader: EventReader, texts: pa.Table) -> _Batch:
        return _Batch(reader, self.encodings, texts, dict.fromkeys(range(texts.num_rows), self.wrong) if self.wrong else {})


@dataclass
class _Batch:
    """Events with the same schema while they are decoded. `bad`: the reason for each row that cannot be read. `fields`: those of
    the rows; None: all have those of their schema."""

    reader: EventReader
    encodings: dict[str, Encoding]
    texts: pa.Table
    bad: dict[int, str] = field(default_factory=dict)
    fields: EventFields | None = None

    def decoded(self) -> tuple[pa.Table, np.ndarray]:
        """The rows, and the numbers of the events that they come from, ascending."""
        action = self._actions()
        for name in (WRONG, UNPAIRED):
            if name in self.texts.column_names and self.texts[name].null_count < len(action):
                self._refuse_all(action, self.texts[name])
        kept = np.flatnonzero(action != _SKIP)
        if len(kept) < len(action):
            self.texts, action = self.texts.take(pa.array(kept)), action[kept]
            left = zip(np.searchsorted(kept, list(self.bad)).tolist(), self.bad.items(), strict=True)
            self.bad = {place: reason for place, (row, reason) in left if place < len(kept) and kept[place] == row}
        self.fields = EventFields.of(self.texts[NAMES]) if NAMES in self.texts.column_names else None
        self._refuse_others(action <= _UPDATE)
        self._refuse_without_row(action)
        if not self.reader.truncates_apply:
            self._refuse(action == _TRUNCATE, _OF_ONE_SHARD)
        rows, unchanged = self._rows(action)
        before, has_before = self._before(rows, action)

        def assembled() -> tuple[pa.Table, np.ndarray]:
            action[list(self.bad)] = _BAD
            return self._assembled(rows, unchanged, action, kept, before, has_before & (action != _BAD))

        made, numbers = assembled()
        if not (wrong := self._unfit(made)):
            return made, numbers
        places = np.searchsorted(kept, numbers[list(wrong)])
        self.bad |= dict(zip(places.tolist(), wrong.values(), strict=True))
        return assembled()

    def _unfit(self, made: pa.Table) -> dict[int, str]:
        """The rows that the table cannot hold, of decoded ones."""
        good = np.flatnonzero(np.asarray(pc.not_equal(made[ROW_KIND], REJECTED)))
        rows = made if len(good) == made.num_rows else made.take(pa.array(good))
        return {int(good[row]): reason for row, reason in self.reader.unfit(rows).items()}

    def _refuse_all(self, action: np.ndarray, reasons: pa.ChunkedArray) -> None:
        """Refuses the events that have a reason, also those that say nothing of rows."""
        rows = np.flatnonzero(np.asarray(reasons.is_valid()))
        action[rows] = _BAD
        self.bad |= dict(zip(rows.tolist(), reasons.drop_null().to_pylist(), strict=True))

    # -- operations ---------------------------------------------------------------------------------------------------

    def _actions(self) -> np.ndarray:
        given, texts = self.reader.format.events, self.texts
        empty = np.asarray(texts[EVENT].is_null())
        if not given.operation:
            self.bad |= dict.fromkeys(np.flatnonzero(empty).tolist(), _NO_ROW)
            return np.where(empty, _BAD, _INSERT).astype(np.int8)
        codes = pa.array(list(given.operations))
        meanings = np.array([_ACTIONS.index(one) for one in given.operations.values()], np.int8)
        number = pc.index_in(texts[KIND], codes)
        known = np.asarray(number.is_valid())
        action = meanings[np.asarray(pc.fill_null(number, 0))]
        action[~known] = np.where(empty[~known], _SKIP, _BAD)
        if not is_bytes(texts[EVENT].type):
            unread = np.flatnonzero((action == _BAD) & np.asarray(texts[KIND].is_null()))
            pattern = f"(?s){NO_EVENT}|{given.control}" if given.control else f"(?s){NO_EVENT}"
            events = texts[EVENT].take(pa.array(unread))
            is_change = pc.match_substring_regex(events, CHANGES)
            skipped = pc.and_(pc.match_substring_regex(events, pattern), pc.invert(is_change))
            action[unread[np.asarray(skipped)]] = _SKIP
        name = " or ".join(given.operation)
        for row in np.flatnonzero(action == _BAD).tolist():
            code = texts[KIND][row].as_py()
            self.bad[row] = self.bad.get(row) or (
                f"the event is no object with the field {name!r}"
                if code is None
                else f"unknown operation {code!r} in {name!r}, expected one of {list(given.operations)}"
            )
        return action

    # -- values -------------------------------------------------------------------------------------------------------

    def _rows(self, action: np.ndarray) -> tuple[list[pa.Array], dict[int, np.ndarray]]:
        """The values of each column, and for each column with kept values which rows keep them."""
        changes, written = action <= _DELETE, action <= _UPDATE
        made, unchanged = [], {}
        for number, one in enumerate(self.reader.columns):
            texts = self._texts(event_queries.after(number))
            texts, keeps = self._without_unchanged(texts, one, action)
            if keeps is not None:
                unchanged[number] = keeps
            lacking = self._lacking(texts, one, written if keeps is None else written & ~keeps)
            values = self._values(texts, one, written)
            if lacking.any() and one.name not in self.reader.key:
                values = self._completed(values, one, lacking)
            missing = np.asarray(values.is_null()) & changes
            if one.name in self.reader.key:
                self._refuse(missing, f"the event has no value for the key column {one.name!r}")
            elif one.name in self.reader.sequence:
                what = f"the delete has no value for {one.name!r}, the sequence.field of the table, so it would delete nothing"
                self._refuse(missing & ~written, what)
            elif not one.nullable and missing.any():
                unsent = ~written if keeps is None else ~written | keeps
                self._refuse(missing & ~unsent, f"column {one.name!r} is NOT NULL, and the event has no value for it")
                values = pc.if_else(pa.array(missing & ~written), empty(values.type), values)
            made.append(values)
        return made, unchanged

    def _texts(self, name: str) -> pa.Array:
        """The texts of a column."""
        texts = joined(self.texts[name])
        return texts if is_bytes(texts.type) or pa.types.is_nested(texts.type) else texts.cast(pa.string())

    def _refuse(self, rows: np.ndarray, reason: str) -> None:
        for row in np.flatnonzero(rows).tolist():
            self.bad.setdefault(row, reason)

    def _refuse_others(self, written: np.ndarray) -> None:
        """Refuses the events whose rows have a field that is not allowed, or one twice. `written`: flags those that write a
        row."""
        fields = EventFields([list(self.encodings)], np.zeros(len(written), np.int64)) if self.fields is None else self.fields
        self.reader.met.update(name for names in fields.lists for name in names)
        allowed = self.reader.allowed
        for number, names in enumerate(fields.lists):
            own = written & (fields.of_event == number)
            if twice := next((name for name in names if names.count(name) > 1), None):
                self._refuse(own, f"the event has the field {twice!r} twice")
            known = names if allowed is None else allowed | {ID} if self.reader.key_is_id else allowed
            paths = np.zeros(len(own), bool)
            if self.reader.format.events.document and any("." in name for name in names):
                paths = np.asarray(self.texts[IMAGE].is_valid())  # an update names parts of fields
                self._refuse_unknown([name.partition(".")[0] for name in names], known, own & paths)
            self._refuse_unknown(names, known, own & ~paths)

    def _refuse_unknown(self, names: list[str], known: Container[str], rows: np.ndarray) -> None:
        if other := next((name for name in names if name not in known), None):
            self._refuse(rows, f"the table has no column for the field {other!r}: add the column, {_LEFT_OUT}")

    def _refuse_without_row(self, action: np.ndarray) -> None:
        """Refuses the events that have no row where they need one: documents, and rows that an aggregation takes back."""
        reader, texts = self.reader, self.texts
        if reader.format.events.document and self.fields is not None:
            nothing = self.fields.having(lambda names: not names) & np.asarray(texts[IMAGE].is_null())
            self._refuse((action <= _UPDATE) & nothing, "the event has no document, and does not say which fields change")
        if not reader.with_before:
            return
        if OLD_NAMES in texts.column_names:
            whole = self._has_whole_row_before()
        else:
            names = [event_queries.before(reader.columns.names.index(name)) for name in reader.key]
            known = [np.asarray(texts[name].is_valid()) for name in names if name in texts.column_names]
            whole = np.logical_and.reduce(known) if known else np.zeros(len(action), bool)
            whole |= action == _DELETE  # whose row is the one before it, so a missing key is refused
        taken_back = (action == _UPDATE) | (action == _DELETE)
        what = "the event lacks the row before the change, or some of its fields, and an aggregation must take that row back"
        self._refuse(taken_back & ~whole, f"{what}: let the source send whole rows, such as by REPLICA IDENTITY FULL")

    def _has_whole_row_before(self) -> np.ndarray:
        """Flags the events whose row before the change has the fields of the row after it or, of deletes, more than the key."""
        columns, key = set(self.reader.columns.names), set(self.reader.key)
        new, old = self.fields, EventFields.of(self.texts[OLD_NAMES])
        pairs, of_event = np.unique(new.of_event * len(old.lists) + old.of_event, return_inverse=True)
        flags = []
        for pair in pairs.tolist():
            place, old_place = divmod(pair, len(old.lists))
            after, before = set(new.lists[place]) & columns, set(old.lists[old_place]) & columns
            flags.append(after <= before if after else bool(before - key) or columns <= key)
        return np.array(flags, bool)[of_event]

    def _without_unchanged(self, texts: pa.Array, one: pa.Field, action: np.ndarray) -> tuple[pa.Array, np.ndarray | None]:
        """The texts without those that stand for a value that has not changed, and the rows of these; None: there are none."""
        given = self.reader.format.events
        keeps = None
        if given.typed and (is_text(one.type) or is_bytes(one.type) or pa.types.is_nested(one.type)):
            keeps = marked(texts, self.reader.format.unavailable)
        elif given.absent is Absent.KEPT and one.name not in self.reader.key and texts.null_count:
            keeps = self._not_named(texts, one.name, action)
        if keeps is None or not keeps.any():
            return texts, None
        return pc.if_else(pa.array(keeps), pa.nulls(1, texts.type)[0], texts), keeps

    def _not_named(self, texts: pa.Array, name: str, action: np.ndarray) -> np.ndarray:
        """Flags the updates that say nothing of a field. They may be images of the changed fields only."""
        images = self.texts[IMAGE]
        keeps = np.asarray(texts.is_null()) & (action == _UPDATE) & np.asarray(images.is_valid()) & ~self.fields.have(name)
        if REMOVED in self.texts.column_names:
            removed, own = self.texts[REMOVED], json.dumps(name, ensure_ascii=False)
            shortened, part = self.texts[SHORTENED], f"{own[:-1]}."
            for text, column in ((part, images), (part, removed), (part, shortened), (own, shortened)):
                within = np.asarray(pc.fill_null(contains(column, text), False)) & (action == _UPDATE)
                self._refuse(within, f"the update changes a part of {name!r}: let the source send full documents")
            keeps &= ~np.asarray(pc.fill_null(contains(removed, own), False))
        return keeps

    def _lacking(self, texts: pa.Array, one: pa.Field, written: np.ndarray) -> np.ndarray:
        """Flags the rows that are written and whose events have no field for the column."""
        if self.fields is not None:
            return written & np.asarray(texts.is_null()) & ~self.fields.have(one.name)
        none = texts.null_count == len(texts) and one.name not in self.encodings
        return written if none else np.zeros(len(written), bool)

    def _completed(self, values: pa.Array, one: pa.Field, lacking: np.ndarray) -> pa.Array:
        """The values with the default of the column where events lack it; refuses these events if there is none."""
        reader = self.reader
        if may_be_omitted(one) and not reader.combines:
            default = with_default(one, len(values)).cast(values.type)
            return pc.if_else(pa.array(lacking), default, values)
        may_be_null = reader.combines or reader.may_lack or reader.format.events.omits_nulls
        if not (one.nullable and may_be_null):
            self._refuse(lacking, f"the event has no field for the column {one.name!r}, which has no default")
        return values

    def _values(self, texts: pa.Array, one: pa.Field, written: np.ndarray | None = None) -> pa.Array:
        """The values of a column; null for texts that cannot be read, whose events are rejected. `written`: flags the events in
        which a field inside of the value that the column lacks is refused; None: in none."""
        wanted = nested.nullable(plain(one.type))
        if texts.null_count == len(texts):
            return nested.nulls(len(texts), wanted)
        encoding = self.encodings.get(one.name) or encoding_in(one, self.reader.format, is_key=one.name in self.reader.key)

        def make(texts: pa.Array, *, strict: bool = False) -> pa.Array:
            return fitted(decoded(texts, encoding, wanted, self.reader.zone, strict=strict), one)

        strict = written is not None and self.reader.inside is not None and pa.types.is_nested(wanted)
        if strict:
            with suppress(Unfit, pa.ArrowException):  # what is wrong is found below
                return make(texts, strict=True)
        try:
            values = make(texts)
        except Unfit:
            wrong = dict.fromkeys(np.flatnonzero(np.asarray(texts.is_valid())).tolist(), _misfit(texts.type, wanted, one.name))
        except pa.ArrowException:
            wrong = {row: why for row, why in unreadable(texts, make).items() if texts[row].is_valid}
        else:
            return make(self._without_unknown_inside(texts, encoding, one, written)) if strict else values
        expected = f"expected {format_type_of(one)}"
        found = pc.replace_substring(texts, MARK, "") if is_text(texts.type) else texts
        reasons = {row: f"column {one.name!r}: {expected}, found {shown(found, row)}: {why}" for row, why in wrong.items()}
        return self._values(self._without(texts, reasons), one, written)

    def _without_unknown_inside(self, texts: pa.Array, encoding: Encoding, one: pa.Field, written: np.ndarray) -> pa.Array:
        """The values without those of events in which a field inside of the value is refused."""
        found = unknown_inside(plain_json(texts, encoding), plain(one.type), one.name, self.reader.inside, self.reader.met)
        cure = f"add the field to the column, {_LEFT_OUT}"
        reasons = {row: f"the column {one.name!r} has no field {path!r}: {cure}" for row, path in found.items() if written[row]}
        return self._without(texts, reasons)

    def _without(self, texts: pa.Array, reasons: dict[int, str]) -> pa.Array:
        """The values with null for those of some rows, which are refused for these reasons."""
        flags = np.zeros(len(texts), bool)
        flags[list(reasons)] = True
        for row, reason in reasons.items():
            self.bad.setdefault(row, reason)
        return pc.if_else(pa.array(flags), pa.nulls(1, texts.type)[0], texts)

    # -- result -------------------------------------------------------------------------------------------------------

    def _assembled(
        self,
        rows: list[pa.Array],
        unchanged: dict[int, np.ndarray],
        action: np.ndarray,
        numbers: np.ndarray,
        before: list[pa.Array],
        has_before: np.ndarray,
    ) -> tuple[pa.Table, np.ndarray]:
        fields, own = self.reader.fields, len(self.reader.columns)
        count = len(action)
        reasons, kept = pa.nulls(count, pa.string()), _numbers_of(unchanged, count)
        if self.bad:
            texts = pa.array([self.bad[row] for row in np.flatnonzero(action == _BAD).tolist()], pa.string())
            reasons = pc.replace_with_mask(reasons, pa.array(action == _BAD), texts)
        events = self._shown(pc.or_(reasons.is_valid(), kept.is_valid()))
        offset = joined(self.texts[OFFSET]) if OFFSET in self.texts.column_names else pa.nulls(count, pa.int64())
        kinds = pa.array(_KINDS).take(pa.array(action))
        others = [kinds, self._positions(count), kept, events, reasons, offset.cast(pa.int64())]
        made = pa.table([*rows, *others], schema=fields)
        of_event = np.flatnonzero(has_before)
        if not len(of_event):
            return made, numbers
        places = pa.array(of_event)
        old = [column.take(places) for column in (*before, *made.columns[own:])]
        kind = pa.chunked_array([pc.if_else(pa.array(self._moved(rows, action)[of_event]), "-D", "-U")])
        earlier = pa.table(old, schema=fields).set_column(own, fields.field(ROW_KIND), kind)
        earlier = earlier.set_column(fields.names.index(KEPT), fields.field(KEPT), pa.nulls(len(of_event), pa.string()))
        order = np.argsort(np.concatenate([of_event * 2, np.arange(count) * 2 + 1]), kind="stable")
        both = pa.concat_tables([earlier, made]).take(pa.array(order))
        return both, numbers[np.concatenate([of_event, np.arange(count)])[order]]

    def _shown(self, chosen: pa.Array) -> pa.Array:
        """The texts of some events: of those that are rejected, or may be because they lack a value; null for the others."""
        nothing = pa.nulls(len(chosen), pa.string())
        if not pc.any(chosen).as_py():
            return nothing
        return pc.replace_with_mask(nothing, chosen, shown_events(self.texts[EVENT].combine_chunks().filter(chosen)))

    def _before(self, rows: list[pa.Array], action: np.ndarray) -> tuple[list[pa.Array], np.ndarray]:
        """The rows before updates, and flags those that are wanted: of an update that changes the key, or of all. Refuses those
        that cannot be read."""
        reader = self.reader
        wanted = self._moved(rows, action) | ((action == _UPDATE) if reader.with_before else False)
        wanted[list(self.bad)] = False
        if not wanted.any():
            return [], wanted
        made = []
        for number, one in enumerate(reader.columns):
            name, values = event_queries.before(number), rows[number]
            if name in self.texts.column_names:
                texts = self._texts(name)
                values = self._values(pc.if_else(pa.array(wanted), texts, pa.nulls(1, texts.type)[0]), one)
                values = pc.coalesce(values, rows[number]) if one.name in reader.key else values
            made.append(values)
        return made, wanted

    def _moved(self, rows: list[pa.Array], action: np.ndarray) -> np.ndarray:
        """Flags the updates that change the key."""
        moved = np.zeros(len(action), bool)
        for name in self.reader.key:
            number = self.reader.columns.names.index(name)
            old = event_queries.before(number)
            if old in self.texts.column_names and self.texts[old].null_count < len(action):
                texts = self._texts(old)
                same = pc.equal(texts, self._texts(event_queries.after(number)))
                moved |= ~np.asarray(pc.fill_null(same, True)) & (action == _UPDATE)
        return moved

    def _positions(self, count: int) -> pa.Array:
        made = pa.nulls(count, pa.string())
        for number, parts in enumerate(self.reader.format.events.positions):
            columns = [joined(self.texts[event_queries.position(number, place)]) for place in range(len(parts))]
            if columns[0].null_count < count:
                texts = [_counted(one, part) for one, part in zip(columns, parts, strict=True)]
                one = pc.binary_join_element_wise(*texts, "/") if len(texts) > 1 else texts[0]
                made = pc.coalesce(made, pc.if_else(columns[0].is_valid(), one, pa.scalar(None, pa.string())))
        return made


def shown_events(events: pa.Array) -> pa.Array:
    """Events that were rejected, as text: bytes as base64; U+FFFD for bytes in a text that are not UTF-8."""
    if not is_bytes(events.type):
        return in_utf_8(events)[0]
    return encoded_bytes.to_base64(events).cast(pa.string())


def _counted(texts: pa.Array, part: PositionPart) -> pa.Array:
    """A part of a position as text that orders as it counts."""
    if part.counting is Counting.TEXT:
        return pc.fill_null(texts, "")
    if part.counting is Counting.FILE:
        texts = pc.struct_field(pc.extract_regex(texts, _NUMBERED_FILE), "file")
    if part.counting is Counting.FILE_AND_NUMBER:
        both = pc.extract_regex(texts, _FILE_AND_NUMBER)
        file, number = (pc.utf8_lpad(pc.struct_field(both, name), _DIGITS, "0") for name in ("file", "number"))
        return pc.binary_join_element_wise(file, number, "/")
    return pc.utf8_lpad(pc.fill_null(texts, "~" * _DIGITS if part.last else ""), _DIGITS, "0")


def marked(values: pa.Array, mark: str) -> np.ndarray:
    """Flags the values that stand for one that the source did not send: the mark, as text, as bytes, or as the item of a list."""
    if pa.types.is_list(values.type):
        single = np.asarray(pc.fill_null(pc.equal(pc.list_value_length(values), 1), False))
        flags = np.zeros(len(values), bool)
        items = values.filter(pa.array(single)).flatten()
        flags[single] = marked(items, mark) if is_text(items.type) or is_bytes(items.type) else False
        return flags
    if is_bytes(values.type):
        return np.asarray(pc.is_in(values, pa.array([mark.encode()], values.type)))
    if not is_text(values.type):
        return np.zeros(len(values), bool)
    data = base64.b64encode(mark.encode()).decode()
    return np.asarray(pc.is_in(values, pa.array([mark, data, json.dumps([mark]), json.dumps([data])])))


def _numbers_of(unchanged: dict[int, np.ndarray], count: int) -> pa.Array:
    """The numbers of the columns that each row keeps, as text such as ",3,7,"; null if it keeps none."""
    if not unchanged:
        return pa.nulls(count, pa.string())
    parts = [pc.if_else(pa.array(keeps), f"{number},", "") for number, keeps in sorted(unchanged.items())]
    joined = pc.binary_join_element_wise(*parts, "")
    return pc.if_else(pc.equal(joined, ""), pa.scalar(None, pa.string()), pc.binary_join_element_wise(",", joined, ""))


def keeps(rows: pa.Table, column: int) -> np.ndarray:
    """Flags the decoded rows that keep the value of a column."""
    return np.asarray(pc.fill_null(contains(rows[KEPT], f",{column},"), False))


def _misfit(given: pa.DataType, wanted: pa.DataType, column: str) -> str:
    """Why values of the type `given` are none of the type of a column."""
    if pa.types.is_nested(given) and (path := lacking_inside(given, wanted, column)) is not None:
        return f"the value has no field {path!r}: let the source send it, or drop it from the column, by alter(drop_column(...))"
    return f"values of the type {format_type(given)} do not fit: give the column another type, or {_LEFT_OUT[3:]}"


def empty(type_: pa.DataType) -> pa.Scalar:
    """The value of a NOT NULL column in a delete that has none: a delete only needs the key."""
    if is_text(type_) or is_bytes(type_):
        return pa.scalar("" if is_text(type_) else b"", type_)
    if pa.types.is_nested(type_):
        return pa.scalar({} if pa.types.is_struct(type_) else [], type_)
    return pa.scalar(False if pa.types.is_boolean(type_) else 0, type_)


def refusal(rows: pa.Table, where: str = "") -> InvalidData:
    """The error for the first rejected event of decoded rows."""
    row = pc.index(rows[ROW_KIND], REJECTED).as_py()
    text, offset, position = (rows[name][row].as_py() for name in (TEXT, PLACE, POSITION))
    places = [where, "" if offset is None else f"offset {offset}", "" if position is None else f"position {position}"]
    return InvalidData(
        f"an event cannot be read: {rows[REASON][row].as_py()}",
        where=", ".join(filter(None, places)) or "events",
        found=text if text is None or len(text) <= _SHOWN else text[:_SHOWN] + "...",
        cure=Wording(
            "correct the event or the table; or pass on_error='reject', which writes such events to a table of their own",
            command="correct the event or the table; or pass --reject (sync: --on-error reject), which writes such events to "
            "a table of their own",
        ),
    )
