"""Change events of Debezium in Avro, as Kafka's converters write them: a zero byte, the number of the schema, the record.

The registry is asked for each schema once. `kernels.avro_columns` reads all records of a schema together; `cdc.event_rows`
interprets the columns as it interprets those of JSON.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lsmlake.cdc import event_queries
from lsmlake.cdc.event_lines import unreadable
from lsmlake.cdc.event_queries import EVENT, KIND, OFFSET
from lsmlake.cdc.event_rows import EventReader
from lsmlake.cdc.event_values import Encoding, encoding_of
from lsmlake.kernels.avro_columns import AvroReader, Shape, fields_of
from lsmlake.storage.schema_registry import number_bytes, schema_of

_CONTROL = "Heartbeat", "TransactionMetadataValue", "SchemaChangeValue"
_LOGICAL: Mapping[str, Encoding] = {
    "date": Encoding("days"),
    **{f"time-{unit}": Encoding("clock", unit) for unit in ("millis", "micros", "nanos")},
    **{f"timestamp-{unit}": Encoding("epoch", unit) for unit in ("millis", "micros", "nanos")},
    **{f"local-timestamp-{unit}": Encoding("epoch", unit) for unit in ("millis", "micros", "nanos")},
}


_PARTS = {"element": "items", "value": "values"}
"""The parts of lists and maps, and the words of Avro for them."""


def decoded_avro(events: pa.Table, reader: EventReader) -> pa.Table:
    """The rows of events. `events`: bytes in `EVENT`, and perhaps `OFFSET`. Raises StorageFailed, and InvalidData for an unknown
    schema."""
    messages = events[EVENT].combine_chunks().cast(pa.binary())
    head = 1 + number_bytes(reader.format.registry)
    numbers = schema_numbers(messages, head)
    made, places = [reader.fields.empty_table()], [np.empty(0, np.int64)]
    for number in np.unique(numbers).tolist():
        rows = np.flatnonzero(numbers == number)
        avro = None if number < 0 else AvroReader(schema_of(reader.format.registry, number))
        if number == NO_MESSAGE or (avro is not None and is_control(avro)):
            continue
        chosen = events.take(pa.array(rows))
        texts, encodings, bad = _columns(messages.take(pa.array(rows)), avro, number, head, reader)
        for name in (EVENT, OFFSET):
            if name in events.column_names:
                texts = texts.append_column(name, chosen[name])
        decoded, of_event = reader.described(texts, encodings, bad)
        made.append(decoded)
        places.append(rows[of_event])
    return pa.concat_tables(made).take(pa.array(np.argsort(np.concatenate(places), kind="stable")))


NO_MESSAGE, NO_HEAD = -1, -2
"""The numbers of a tombstone, and of a message that does not begin with the number of a schema."""


def schema_numbers(messages: pa.BinaryArray, head: int) -> np.ndarray:
    """The number of the schema of each message, or `NO_MESSAGE`, or `NO_HEAD`. `head`: the bytes before the record."""
    long_enough = np.asarray(pc.fill_null(pc.greater_equal(pc.binary_length(messages), head), False))
    numbers = np.where(np.asarray(messages.is_null()), NO_MESSAGE, NO_HEAD)
    heads = pc.binary_slice(messages.filter(pa.array(long_enough)), 0, head)
    data = np.frombuffer(heads.cast(pa.binary(head)).buffers()[1] or b"", np.uint8)[: len(heads) * head].reshape(-1, head)
    found = np.zeros(len(heads), np.int64)
    for place in range(1, head):
        found = found << 8 | data[:, place]
    numbers[long_enough] = np.where(data[:, 0] == 0, found, NO_HEAD)
    return numbers


def _columns(
    messages: pa.BinaryArray, avro: AvroReader | None, number: int, head: int, reader: EventReader
) -> tuple[pa.Table, dict[str, Encoding], dict[int, str]]:
    """The columns of `cdc.event_queries` of messages with one schema, the encodings of their fields, and the reasons for those
    that cannot be read."""
    names = reader.columns.names
    if avro is None:
        bad = dict.fromkeys(range(len(messages)), "the message does not begin with a schema number")
        return _flat(pa.nulls(len(messages), pa.struct([("op", pa.string())])), reader), {}, bad
    shape = {"op": None, "source": None, **{side: dict.fromkeys(names) for side in ("before", "after")}}
    records, wrong = records_of(messages, avro, head, shape)
    readable = len(wrong) < len(messages)  # a schema that contains itself is not
    encodings = {one["name"]: _encoding(one["type"], avro) for one in fields_of(avro, "after") if readable}
    return _flat(records, reader), encodings, {row: f"{why}: schema {number}" for row, why in wrong.items()}


def records_of(messages: pa.BinaryArray, avro: AvroReader, head: int, shape: Shape) -> tuple[pa.Array, dict[int, str]]:
    """The records of messages with one schema; null for those that cannot be read, which are returned with the reasons."""
    try:
        return avro.read(messages, head, shape), {}
    except pa.ArrowException:
        bad = unreadable(messages, lambda some: avro.read(some, head, shape))
    good = np.setdiff1d(np.arange(len(messages)), list(bad))
    places = np.zeros(len(messages), np.int64)
    places[good] = np.arange(len(good))
    read = avro.read(messages.take(pa.array(good)), head, shape)
    return read.take(pa.array(places, mask=~np.isin(np.arange(len(messages)), good))), bad


def is_control(avro: AvroReader) -> bool:
    """Whether messages with the schema are no changes: heartbeats, the borders of transactions, changes of schemas."""
    return isinstance(avro.schema, dict) and str(avro.schema.get("name")).endswith(_CONTROL)


def _encoding(node: object, avro: AvroReader) -> Encoding:
    found = avro.resolved(node)
    if isinstance(found, list):
        return next((_encoding(one, avro) for one in found if avro.resolved(one) != "null"), Encoding("text"))
    if not isinstance(found, dict):
        return Encoding("base64" if found == "bytes" else "text")
    if found.get("logicalType") == "decimal":
        return Encoding("decimal bytes", scale=int(found.get("scale", 0)))
    described = {"name": found.get("connect.name") or found.get("name"), "type": found["type"]}
    parameters = {"parameters": found.get("connect.parameters")}
    plain = _LOGICAL.get(found.get("logicalType")) or encoding_of({**described, **parameters})
    inside = {part: found[word] for part, word in _PARTS.items() if word in found}
    inside |= {one["name"]: one["type"] for one in found.get("fields", ())}
    return plain._replace(inside=tuple((part, _encoding(one, avro)) for part, one in inside.items()))


def _flat(records: pa.Array, reader: EventReader) -> pa.Table:
    """The columns of the query of `cdc.event_queries`."""
    given, count = reader.format.events, len(records)
    nothing = pa.nulls(count, pa.string())
    made: dict[str, pa.Array] = {KIND: value_at(records, "op") or nothing}
    for number, parts in enumerate(given.positions):
        for place, part in enumerate(parts):
            value = value_at(records, part.path)
            made[event_queries.position(number, place)] = nothing if value is None else value.cast(pa.string())
    deletes = pc.is_in(made[KIND], pa.array(["d"]))
    for number, name in enumerate(reader.columns.names):
        new, old = value_at(records, f"after.{name}"), value_at(records, f"before.{name}")
        if new is None or old is None:
            made[event_queries.after(number)] = new or old or nothing
            continue
        made[event_queries.after(number)] = pc.if_else(deletes, pc.coalesce(old, new), new)
        if number in reader.query.old:
            made[event_queries.before(number)] = old
    return pa.table(made)


def value_at(records: pa.Array, path: str) -> pa.Array | None:
    """The values at a path; None if there is no such field."""
    for name in path.split("."):
        if not pa.types.is_struct(records.type) or records.type.get_field_index(name) < 0:
            return None
        records = pc.struct_field(records, name)
    return records
