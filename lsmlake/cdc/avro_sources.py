"""The tables that Avro messages of Debezium are for, and what their schemas say of the columns and keys of these tables."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lsmlake.cdc.avro_events import NO_HEAD, NO_MESSAGE, is_control, records_of, schema_numbers, value_at
from lsmlake.cdc.declared_types import of_avro
from lsmlake.cdc.event_formats import ChangeFormat
from lsmlake.cdc.event_queries import EVENT, KEY
from lsmlake.cdc.route_queries import NO_CHANGE
from lsmlake.cdc.source_tables import SourceTable
from lsmlake.errors import LakeError
from lsmlake.kernels.avro_columns import AvroReader, fields_of
from lsmlake.storage.schema_registry import number_bytes, schema_of
from lsmlake.types.type_table import is_bytes

_SHAPE = {"source": {"db": None, "schema": None, "table": None}}
_BETWEEN = "/"


def routes(events: pa.Table, format: ChangeFormat) -> tuple[pa.Array, pa.Array]:
    """The columns `SOURCE` and `TYPES` of `cdc.route_queries`: the table of each message, and the numbers of its schemas."""
    messages = events[EVENT].combine_chunks().cast(pa.binary())
    head = 1 + number_bytes(format.registry)
    numbers = schema_numbers(messages, head)
    sources = pa.nulls(len(messages), pa.string())
    for number in np.unique(numbers).tolist():
        if number == NO_HEAD:
            continue
        flags = pa.array(numbers == number)
        avro = None if number == NO_MESSAGE else AvroReader(schema_of(format.registry, number))
        if avro is None or is_control(avro):
            sources = pc.if_else(flags, NO_CHANGE, sources)
        else:
            records, _ = records_of(messages.filter(flags), avro, head, _SHAPE)
            sources = pc.replace_with_mask(sources, flags, _names(records))
    types = pc.binary_join_element_wise(_text(numbers), _text(_key_numbers(events, head)), _BETWEEN)
    return sources, types


def _text(numbers: np.ndarray) -> pa.Array:
    return pa.array(numbers).cast(pa.string())


def _key_numbers(events: pa.Table, head: int) -> np.ndarray:
    if KEY not in events.column_names or not is_bytes(events[KEY].type):
        return np.full(events.num_rows, NO_MESSAGE)
    return schema_numbers(events[KEY].combine_chunks().cast(pa.binary()), head)


def _names(records: pa.Array) -> pa.Array:
    """The names of the tables; null for records that do not say them."""
    parts = []
    for name in _SHAPE["source"]:
        found = value_at(records, f"source.{name}")
        texts = pa.nulls(len(records), pa.string()) if found is None else found.cast(pa.string())
        parts.append(pc.if_else(pc.equal(texts, ""), pa.scalar(None, pa.string()), texts))
    *homes, table = parts
    joined = pc.binary_join_element_wise(*homes, pc.fill_null(table, ""), ".", null_handling="skip")  # drops rows of nulls only
    return pc.if_else(table.is_valid(), joined, pa.scalar(None, pa.string()))


def described(format: ChangeFormat, name: str, types: str) -> SourceTable:
    """The table that messages with schemas of these numbers describe."""
    number, key = map(int, types.split(_BETWEEN))
    try:
        columns = of_avro(AvroReader(schema_of(format.registry, number)))
        keys = () if key < 0 else fields_of(AvroReader(schema_of(format.registry, key)), "")
        return SourceTable(name, types, columns, tuple(one["name"] for one in keys), True)
    except (LakeError, KeyError, TypeError) as broken:
        return SourceTable(name, types, {}, (), True, f"the schema of the messages cannot be read: {broken}")
