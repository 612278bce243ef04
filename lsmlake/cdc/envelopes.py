"""The envelope of each format of events out: what is around the rows, with the operation, the table and the position. Pure.

A function per format, in `ENVELOPES`. All changes of a call belong to one commit, so only rows, kinds and ordinals vary. The
position stands where `cdc.event_formats` reads it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lsmlake.cdc.commits import Commit
from lsmlake.cdc.event_formats import ID, ChangeFormat
from lsmlake.cdc.event_records import of_column
from lsmlake.cdc.event_texts import WrittenColumn
from lsmlake.kernels import avro_rows
from lsmlake.kernels.keys import joined as in_one_chunk
from lsmlake.kernels.text_format import TEXT, joined, objects, quoted
from lsmlake.schema.rowkind import DELETE, INSERT, UPDATE_AFTER

_NOT_IN_TOPICS = re.compile("[^A-Za-z0-9._-]")
_PIECE = (1 << 40) - 1
_CHANGE_BITS = 36
"""The number of a change in its bucket and commit is less than 2^36, so a number of 63 bits also holds 2^27 snapshots."""


@dataclass(frozen=True)
class EventOrigin:
    """The table that events come from.

    Attributes:
        database, table: its names.
        key: the key columns; empty: none.
        format: the format of the events.
        columns: the columns, as the events have them.
        heads: of Avro, the bytes before the record of a key and before that of a value, which name their schemas.
    """

    database: str
    table: str
    key: tuple[str, ...]
    format: ChangeFormat
    columns: tuple[WrittenColumn, ...]
    heads: tuple[bytes, bytes] = (b"", b"")

    @property
    def of_bytes(self) -> bool:
        """Whether the messages are bytes, not texts."""
        return self.format.events.avro

    def written(self, rows: pa.Table) -> dict[str, pa.Array]:
        """The values of rows by column, as the format writes them."""
        columns = {one: in_one_chunk(rows[one.field.name]) for one in self.columns}
        return {one.field.name: of_column(one, its) if self.of_bytes else one.texts(its) for one, its in columns.items()}

    def rows(self, written: Mapping[str, pa.Array]) -> pa.Array:
        """The rows. `written`: their values as the format writes them."""
        if self.of_bytes:
            return avro_rows.joined(*written.values())
        return self.documents(written) if self.format.events.document else objects(list(written), list(written.values()))

    def keys(self, written: Mapping[str, pa.Array], places: np.ndarray) -> pa.Array:
        """The key of each message. `written`: the values as the format writes them; `places`: the rows of the messages."""
        if not self.key:
            return pa.nulls(len(places), avro_rows.BYTES if self.of_bytes else TEXT)
        values = [written[name].take(pa.array(places)) for name in self.key]
        if self.of_bytes:
            return avro_rows.joined(self.heads[0], *values)
        if self.format.events.document:
            return joined('{"id":', quoted(self._id(values)), "}")
        names = [f"pk.{name}" for name in self.key] if self.format.name == "maxwell-json" else self.key
        made = objects(names, values)
        if self.format.name == "maxwell-json":
            begin = _text({"database": self.database, "table": self.table})[:-1]
            return joined(begin, ",", pc.binary_replace_slice(made, 0, 1, ""))
        if self.format.schema:
            return joined(f'{{"schema":{_text(self.key_schema)},"payload":', made, "}")
        return made

    def documents(self, written: Mapping[str, pa.Array]) -> pa.Array:
        """The rows as documents of MongoDB, whose field `_id` is the key."""
        others = [name for name in written if name not in self.key]
        names, values = ([ID], [self._id([written[name] for name in self.key])]) if self.key else ([], [])
        return objects([*names, *others], [*values, *(written[name] for name in others)])

    def _id(self, values: Sequence[pa.Array]) -> pa.Array:
        """The value of the key column, or a document with those of several."""
        return values[0] if len(values) == 1 else objects(self.key, values)

    @property
    def topic(self) -> str:
        """The topic of the messages. Its default has `_` for what names of Kafka cannot have, such as the `$` of a branch, as
        Debezium names it."""
        return self.format.topic or _NOT_IN_TOPICS.sub("_", f"{self.database}.{self.table}")

    @property
    def key_schema(self) -> dict[str, object]:
        """The schema of a key of Debezium."""
        described = {one.field.name: one.described() for one in self.columns}
        fields = [described[name] for name in self.key]
        return {"type": "struct", "fields": fields, "optional": False, "name": f"{self._named}.Key"}

    @property
    def schema(self) -> dict[str, object]:
        """The schema of an event of Debezium."""
        row = {"type": "struct", "fields": [one.described() for one in self.columns], "optional": True}
        source = [("connector", "string"), ("name", "string"), ("ts_ms", "int64"), ("snapshot", "string"), ("db", "string")]
        source += [("table", "string"), ("file", "string"), ("pos", "int64"), ("row", "int32")]
        described = {"type": "struct", "fields": [{"type": type_, "optional": False, "field": name} for name, type_ in source]}
        fields = [{**row, "name": f"{self._named}.Value", "field": name} for name in ("before", "after")]
        fields.append({**described, "optional": False, "name": "lsmlake.Source", "field": "source"})
        fields += [
            {"type": type_, "optional": name == "ts_ms", "field": name} for name, type_ in (("op", "string"), ("ts_ms", "int64"))
        ]
        return {"type": "struct", "fields": fields, "optional": False, "name": f"{self._named}.Envelope", "version": 1}

    @cached_property
    def overhead(self) -> int:
        """About how many bytes an event has without the values of its rows."""
        names = 2 * sum(len(one.field.name) + len('"":,') for one in self.columns)
        return names + (len(_text(self.schema)) if self.format.schema else 0)

    @property
    def _named(self) -> str:
        return self.topic if self.of_bytes else f"lsmlake.{self.database}.{self.table}"


@dataclass(frozen=True)
class Events:
    """Events of one commit.

    Attributes:
        written: the values of the rows by column: as JSON or, in a format of bytes, as these.
        rows: the rows, in the same form.
        kinds: +I, +U or -D of each event.
        new, old: the places of the rows after and before; -1: there is none.
        commit: the commit.
        ordinals: the number of the change of each event.
        initial: the changes are the rows of a snapshot, as inserts.
    """

    written: Mapping[str, pa.Array]
    rows: pa.Array
    kinds: np.ndarray
    new: np.ndarray
    old: np.ndarray
    commit: Commit
    ordinals: pa.Array
    initial: bool

    @cached_property
    def after(self) -> pa.Array:
        """The rows after the changes; null for deletes."""
        return self.rows.take(_places(self.new))

    @cached_property
    def before(self) -> pa.Array:
        """The rows before the changes, if they are known."""
        return self.rows.take(_places(self.old))

    @property
    def row(self) -> pa.Array:
        """The row after each change; for a delete, the row that it deletes."""
        return self.rows.take(pa.array(np.where(self.new >= 0, self.new, self.old)))

    @property
    def changed(self) -> pa.Array:
        """The old values of the columns that an update changes; null if the row before is not known, and for other events."""
        updates = (self.new >= 0) & (self.old >= 0)
        new, old = (_places(np.where(updates, places, -1)) for places in (self.new, self.old))
        parts = []
        for name, texts in self.written.items():
            before = texts.take(old)
            same = pc.fill_null(pc.equal(before, texts.take(new)), False)
            parts.append(pc.if_else(same, "", joined(f",{_text(name)}:", before)))
        inner = joined(*parts)
        return joined("{", pc.binary_replace_slice(inner, 0, 1, ""), "}")

    def operations(self, insert: str, update: str, delete: str) -> pa.Array:
        """The code of each event."""
        codes = {INSERT: insert, UPDATE_AFTER: update, DELETE: delete}
        return pa.array([codes.get(kind) for kind in range(4)], TEXT).take(pa.array(self.kinds))

    @property
    def snapshot(self) -> str:
        """The id of the snapshot."""
        return str(self.commit.id)

    @property
    def moment(self) -> str:
        """The time of the commit: 2026-01-31 12:00:00.500000, in UTC."""
        return str(pa.scalar(self.commit.time_ms * 1000, pa.timestamp("us")).cast(pa.string()))


class Envelope(NamedTuple):
    """The values of messages. `tombstones`: after each delete comes a message without a value."""

    value: pa.Array
    tombstones: bool = False


def _source(events: Events, origin: EventOrigin) -> dict[str, object]:
    """The field `source` of an event of Debezium, without the parts that vary in a commit."""
    return {
        "connector": "lsmlake",
        "name": "lsmlake",
        "ts_ms": events.commit.time_ms,
        "snapshot": str(events.initial).lower(),
        "db": origin.database,
    }


def _debezium(events: Events, origin: EventOrigin) -> Envelope:
    time = events.commit.time_ms
    source = {**_source(events, origin), "table": origin.table, "file": f"snapshot-{events.snapshot}"}
    operations = _operations(events)
    head, tail = (
        ('{"before":', "}") if not origin.format.schema else (f'{{"schema":{_text(origin.schema)},"payload":{{"before":', "}}")
    )
    value = joined(
        *(head, _or_null(events.before), ',"after":', _or_null(events.after), ',"source":', _text(source)[:-1], ',"pos":'),
        *(events.ordinals.cast(TEXT), ',"row":0},"op":"', operations, f'","ts_ms":{time}{tail}'),
    )
    return Envelope(value, origin.format.tombstones)


def _debezium_avro(events: Events, origin: EventOrigin) -> Envelope:
    """The fields of `EventOrigin.schema`, one after the other."""
    source = {**_source(events, origin), "table": origin.table, "file": f"snapshot-{events.snapshot}"}
    constants = (_avro(value, "string" if isinstance(value, str) else "long") for value in source.values())
    value = avro_rows.joined(
        *(origin.heads[1], avro_rows.optional(events.before), avro_rows.optional(events.after), b"".join(constants)),
        *(avro_rows.encoded(events.ordinals, "long"), _avro(0, "int"), avro_rows.encoded(_operations(events), "string")),
        avro_rows.optional(pa.array([_avro(events.commit.time_ms, "long")]))[0].as_py(),
    )
    return Envelope(value, origin.format.tombstones)


def _canal(events: Events, origin: EventOrigin) -> Envelope:
    time = events.commit.time_ms
    names = {"database": origin.database, "table": origin.table, "pkNames": list(origin.key) or None}
    return Envelope(
        joined(
            *('{"data":[', events.row, '],"old":', _in_list(events.changed), ',"type":"'),
            *(events.operations("INSERT", "UPDATE", "DELETE"), '",', _text(names)[1:-1], f',"es":{time},"ts":{time},"id":'),
            *(_in_snapshot(events).cast(TEXT), ',"isDdl":false,"sql":""}'),
        )
    )


def _maxwell(events: Events, origin: EventOrigin) -> Envelope:
    number, ordinals = events.snapshot, events.ordinals.cast(TEXT)
    names = _text({"database": origin.database, "table": origin.table})[:-1]
    changed = events.changed
    return Envelope(
        joined(
            *(names, ',"type":"', events.operations("insert", "update", "delete"), f'","ts":{events.commit.time_ms // 1000}'),
            *(f',"xid":{number},"xoffset":', ordinals, f',"position":"snapshot-{number}:', ordinals, '","data":', events.row),
            *(_unless_null(',"old":', changed), "}"),
        )
    )


def _goldengate(events: Events, origin: EventOrigin) -> Envelope:
    moment = events.moment
    names = _text({"table": f"{origin.database}.{origin.table}"})[:-1]
    places = pc.utf8_lpad(events.ordinals.cast(pa.string()), 20, "0").cast(TEXT)
    keys = f',"primary_keys":{_text(list(origin.key))}' if origin.key else ""
    return Envelope(
        joined(
            *(names, ',"op_type":"', events.operations("I", "U", "D"), f'","op_ts":"{moment}","current_ts":"'),
            *(f'{moment.replace(" ", "T")}","pos":"{events.snapshot:0>20}', places, f'"{keys}'),
            *(_unless_null(',"before":', events.before), _unless_null(',"after":', events.after), "}"),
        )
    )


def _dms(events: Events, origin: EventOrigin) -> Envelope:
    moment = events.moment.replace(" ", "T") + "Z"
    metadata = {
        "timestamp": moment,
        "record-type": "data",
        "partition-key-type": "primary-key",
        "schema-name": origin.database,
        "table-name": origin.table,
        "commit-timestamp": moment,
        "transaction-id": events.commit.id,
    }
    images = pc.if_else(pa.array(events.kinds == UPDATE_AFTER), _unless_null(',"before-image":', events.before), "")
    return Envelope(
        joined(
            *('{"data":', events.row, images, ',"metadata":', _text(metadata)[:-1], ',"operation":"'),
            *(events.operations("load" if events.initial else "insert", "update", "delete"), '","transaction-record-id":'),
            *(events.ordinals.cast(TEXT), "}}"),
        )
    )


def _mongodb(events: Events, origin: EventOrigin) -> Envelope:
    source = {**_source(events, origin), "collection": origin.table}
    before, after = (_or_null(quoted(rows)) for rows in (events.before, events.after))
    value = joined(
        *('{"before":', before, ',"after":', after, ',"updateDescription":null,"source":', _text(source)[:-1], ',"ord":'),
        *(_in_snapshot(events).cast(TEXT), '},"op":"', _operations(events), f'","ts_ms":{events.commit.time_ms}}}'),
    )
    return Envelope(value, origin.format.tombstones)


def _plain(events: Events, origin: EventOrigin) -> Envelope:
    return Envelope(events.after)


ENVELOPES: Mapping[str, Callable[[Events, EventOrigin], Envelope]] = {
    "debezium-json": _debezium,
    "debezium-avro": _debezium_avro,
    "canal-json": _canal,
    "maxwell-json": _maxwell,
    "ogg-json": _goldengate,
    "aws-dms": _dms,
    "mongodb": _mongodb,
    "plain": _plain,
}
"""The formats of events out."""


def _in_snapshot(events: Events) -> pa.Array:
    """Numbers of 63 bits that order the changes of a key."""
    return pc.add(pc.bit_wise_and(events.ordinals, _PIECE), events.commit.id << _CHANGE_BITS)


def _operations(events: Events) -> pa.Array:
    """The codes of Debezium."""
    return events.operations("r" if events.initial else "c", "u", "d")


def _places(places: np.ndarray) -> pa.Array:
    return pa.array(places, mask=places < 0)


def _avro(value: object, kind: str) -> bytes:
    return avro_rows.encoded(pa.array([value]), kind)[0].as_py()


def _text(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _or_null(texts: pa.Array) -> pa.Array:
    return texts.fill_null("null")


def _in_list(texts: pa.Array) -> pa.Array:
    return joined("[", texts, "]").fill_null("null")


def _unless_null(begin: str, texts: pa.Array) -> pa.Array:
    """The texts with a beginning; for a null nothing."""
    return joined(begin, texts).fill_null("")
