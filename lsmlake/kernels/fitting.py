"""Gives texts the form of their VARCHAR(n) or CHAR(n) (`types.column_types`), also inside nested values."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lsmlake.kernels import nested
from lsmlake.types.column_types import CHAR, SizedText, has_sized_text, sized_text


class TooLong(pa.ArrowInvalid):
    """A text has more characters than its column."""


def fitted(array: pa.Array, field: pa.Field) -> pa.Array:
    """Gives values of the type of `field` the form in which they are stored. Raises TooLong."""
    t, type_ = pa.types, field.type
    if not has_sized_text(field):
        return array
    if (text := sized_text(field)) is not None:
        return _text(array, text)
    if t.is_struct(type_):
        parts = [fitted(values, inner) for values, inner in zip(array.flatten(), type_, strict=True)]
        return pa.StructArray.from_arrays(parts, fields=list(array.type), mask=array.is_null())
    if t.is_list(type_):
        lengths, values = nested.list_parts(array)
        made = fitted(values, type_.value_field)
        return pa.ListArray.from_arrays(nested.offsets(lengths), made, type=array.type, mask=array.is_null())
    lengths, keys, items = nested.map_parts(array)
    made = fitted(keys, type_.key_field), fitted(items, type_.item_field)
    _check_different(keys, made[0], lengths)
    return pa.MapArray.from_arrays(nested.offsets(lengths), *made, type=array.type, mask=array.is_null())


def _text(array: pa.Array, text: SizedText) -> pa.Array:
    longer = pc.greater(pc.utf8_length(array), text.length)
    if pc.any(longer).as_py():
        blank = pc.equal(pc.utf8_rtrim(pc.utf8_slice_codeunits(array, text.length), " "), "")
        if pc.any(pc.and_not(longer, blank)).as_py():
            number = pc.index(pc.and_not(longer, blank), pa.scalar(True)).as_py()
            raise TooLong(f"it has {len(array[number].as_py().rstrip(' '))} characters")
        array = pc.if_else(longer, pc.utf8_slice_codeunits(array, 0, text.length), array)
    return pc.utf8_rpad(array, width=text.length, padding=" ") if text.name == CHAR else array


def _check_different(given: pa.Array, made: pa.Array, lengths: np.ndarray) -> None:
    """Raises TooLong if two keys of a map have become equal."""
    if made.equals(given):
        return
    maps = pa.array(np.repeat(np.arange(len(lengths)), lengths))

    def different(keys: pa.Array) -> int:
        return pa.table({"map": maps, "key": keys}).group_by(["map", "key"]).aggregate([]).num_rows

    if different(made) < different(given):
        raise TooLong("two keys of the map are equal but for blanks")
