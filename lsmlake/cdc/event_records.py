"""The values of rows as Avro for change events, in the types that Debezium's schemas name: the inverse of `cdc.avro_events`."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from lsmlake.cdc.avro_schemas import type_of_field
from lsmlake.cdc.event_texts import WrittenColumn, times
from lsmlake.cdc.event_values import Encoding
from lsmlake.kernels import avro_rows, encoded_bytes, nested, text_format
from lsmlake.types.type_table import is_bytes, is_text


def of_column(column: WrittenColumn, values: pa.Array) -> pa.Array:
    """The bytes of the values of a column. Raises InvalidData for a value that the events cannot say."""
    with column.refusing():
        made = _inside(values) if pa.types.is_nested(values.type) else _single(values, column.encoding)
    column.refuse_mark(made)
    return avro_rows.encoded(made, type_of_field(column.described()))


def _single(values: pa.Array, encoding: Encoding) -> pa.Array:
    if encoding.name == "decimal bytes":
        made = encoded_bytes.of_decimals(values)
        return pc.if_else(values.is_valid(), made, pa.scalar(None, made.type)) if values.null_count else made
    if encoding.name == "days":
        return values.cast(pa.int32())
    return times(values, encoding) if encoding.name in ("clock", "epoch") else _inside(values)


def _inside(values: pa.Array) -> pa.Array:
    """Values inside of nested ones, of which those without a type of Avro are texts. A map is a list of entries."""
    kind, t = values.type, pa.types
    if t.is_struct(kind):
        parts = [_inside(one) for one in values.flatten()]
        return pa.StructArray.from_arrays(parts, names=[field.name for field in kind], mask=values.is_null())
    if t.is_map(kind):
        lengths, keys, items = nested.map_parts(values)
        inner = pa.StructArray.from_arrays([_inside(keys), _inside(items)], names=["key", "value"])
        return pa.ListArray.from_arrays(nested.offsets(lengths), inner, mask=values.is_null())
    if t.is_list(kind):
        lengths, items = nested.list_parts(values)
        return pa.ListArray.from_arrays(nested.offsets(lengths), _inside(items), mask=values.is_null())
    as_it_is = is_text(kind) or is_bytes(kind) or t.is_integer(kind) or t.is_floating(kind) or t.is_boolean(kind)
    return values if as_it_is else text_format.unquoted(values).cast(pa.string())
