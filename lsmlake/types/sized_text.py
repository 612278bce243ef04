"""VARCHAR(n) and CHAR(n): STRING with a length, which the metadata of a field says. Vectorised, pure.

The length counts characters. A written text may have more only if those behind are blanks, which are cut. CHAR(n) is padded with
blanks to its length. So a stored value always has its form, and readers take it for text.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lsmlake.kernels import nested

TEXT_TYPE = b"text_type"
"""Metadata of a STRING field with a length, such as b"VARCHAR(3)"."""
VARCHAR, CHAR = "VARCHAR", "CHAR"
LENGTH_MAX = (1 << 31) - 1
_WORDS = re.compile(rf"({VARCHAR}|{CHAR})\((0|[1-9][0-9]{{0,9}})\)")


class SizedText(NamedTuple):
    """`name`: VARCHAR or CHAR."""

    name: str
    length: int

    def __str__(self) -> str:
        return f"{self.name}({self.length})"

    @staticmethod
    def parse(words: str) -> SizedText | None:
        """The type that is written so; None for other text."""
        found = _WORDS.fullmatch(words)
        return SizedText(found[1], int(found[2])) if found and int(found[2]) <= LENGTH_MAX else None


class TooLong(pa.ArrowInvalid):
    """A text has more characters than its column."""


def sized_text(field: pa.Field) -> SizedText | None:
    """The type of a STRING field with a length; None for other fields."""
    words = (field.metadata or {}).get(TEXT_TYPE)
    return None if words is None else SizedText.parse(words.decode())


def char_length(field: pa.Field | None) -> int | None:
    """The length of a CHAR(n); None for other fields."""
    text = None if field is None else sized_text(field)
    return text.length if text is not None and text.name == CHAR else None


def with_sized_text(field: pa.Field, text: SizedText | None) -> pa.Field:
    """Returns `field` with this length; None: with none."""
    metadata = {key: value for key, value in (field.metadata or {}).items() if key != TEXT_TYPE}
    return field.with_metadata(metadata if text is None else {**metadata, TEXT_TYPE: str(text).encode()})


def has_sized_text(field: pa.Field) -> bool:
    """Whether a field, or one inside of it, has a length."""
    return sized_text(field) is not None or any(map(has_sized_text, _inner(field.type)))


def widens_text(old: pa.Field, new: pa.Field) -> bool:
    """Whether each stored value of the STRING field `old` is one of `new`, as in Spark: a CHAR(n) stays padded to n."""
    before, after = sized_text(old), sized_text(new)
    if after is None or before == after:
        return True
    return before is not None and after.name == VARCHAR and before.length <= after.length


def fitting(field: pa.Field) -> Callable[[pa.Array], pa.Array] | None:
    """The function that gives values of the type of `field` the form in which they are stored; it raises TooLong. None if all
    have it."""
    return (lambda array: _fitted(array, field)) if has_sized_text(field) else None


def _inner(type_: pa.DataType) -> list[pa.Field]:
    if pa.types.is_map(type_):
        return [type_.key_field, type_.item_field]
    return [type_.field(i) for i in range(type_.num_fields)] if pa.types.is_nested(type_) else []


def _fitted(array: pa.Array, field: pa.Field) -> pa.Array:
    t, type_ = pa.types, field.type
    if not has_sized_text(field):
        return array
    if (text := sized_text(field)) is not None:
        return _text(array, text)
    if t.is_struct(type_):
        parts = [_fitted(values, inner) for values, inner in zip(array.flatten(), type_, strict=True)]
        return pa.StructArray.from_arrays(parts, fields=list(array.type), mask=array.is_null())
    if t.is_list(type_):
        lengths, values = nested.list_parts(array)
        made = _fitted(values, type_.value_field)
        return pa.ListArray.from_arrays(nested.offsets(lengths), made, type=array.type, mask=array.is_null())
    lengths, keys, items = nested.map_parts(array)
    made = _fitted(keys, type_.key_field), _fitted(items, type_.item_field)
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
