"""Formats Arrow arrays as text and as JSON, vectorised.

    plain(column)     # 1.5 and 2026-01-31 12:00:00.500000 and [1, 2]; null for null
    json(column)      # 1.5 and "2026-01-31T12:00:00.500000" and [1, 2]; never null
    json_lines(names, columns)  # {"id": 1, "at": null} per row
    csv_lines(columns)  # 1,"a,b" per row

`schema.values` defines the text of each type. In JSON a struct and a map are objects and a list is an array; a single value other
than a number or a boolean is a string.
"""

from __future__ import annotations

import json as standard
from collections.abc import Sequence
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

TEXT = pa.large_string()  # the text of one batch may have more than 2 GiB
_HEX = np.frombuffer("".join(f"{byte:02x}" for byte in range(256)).encode(), np.uint16)
_CONTROL = [chr(code) for code in range(32)]
_ESCAPED_IN_JSON = np.array([byte < 32 or byte in b'"\\' for byte in range(256)])
_SPECIAL_IN_CSV = '[",\r\n]|^$'
_NOT_A_TIME = "<"  # Arrow prints <value out of range: ...> for times outside the calendar


def joined(*parts: pa.Array | str, null: str | None = None) -> pa.Array:
    """Concatenates arrays and constants by element. `null`: the text for a null; None: the result is null."""
    values = [pa.scalar(part, TEXT) if isinstance(part, str) else part for part in parts]
    handling = {"null_handling": "emit_null"} if null is None else {"null_handling": "replace", "null_replacement": null}
    return pc.binary_join_element_wise(*values, pa.scalar("", TEXT), **handling)


def plain(column: pa.Array) -> pa.Array:
    """The values as text without quotes. A value inside another one looks as in JSON."""
    return _moments(column) if pa.types.is_timestamp(column.type) else unquoted(column)


def json(column: pa.Array) -> pa.Array:
    """The values as JSON."""
    return _marked(*_in_json(column))


def _in_json(column: pa.Array) -> tuple[str, pa.Array]:
    """The quote around each value in JSON ("" for none), and the text inside. Null stays null."""
    kind = column.type
    text = unquoted(column)
    if pa.types.is_floating(kind):
        finite = pc.is_finite(column)
        return "", pc.if_else(finite, text, quoted(text)) if pc.all(finite).as_py() is False else text
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return '"', _escaped(text)
    plain = pa.types.is_boolean(kind) or pa.types.is_integer(kind) or pa.types.is_nested(kind)
    return "" if plain else '"', text  # dates, decimals and the like have nothing to escape


def _marked(mark: str, values: pa.Array) -> pa.Array:
    marked = joined(mark, values, mark) if mark else values
    return marked.fill_null("null") if marked.null_count else marked


def csv_lines(columns: Sequence[pa.Array]) -> pa.Array:
    """One line of CSV per row, with its line break. A null is empty, an empty text is "". Quotes stand where they are needed."""
    parts: list[pa.Array | str] = []
    for column in columns:
        parts += [",", _cells(column)]
    return joined(*parts[1:], "\n", null="")


def _cells(column: pa.Array) -> pa.Array:
    text = plain(column)
    if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type) or pa.types.is_nested(column.type)):
        return text
    special = pc.match_substring_regex(text, _SPECIAL_IN_CSV)
    if not pc.any(special).as_py():
        return text
    return pc.if_else(special, joined('"', pc.replace_substring(text, '"', '""'), '"'), text)


def quoted(text: pa.Array) -> pa.Array:
    """Text as strings of JSON. Null stays null."""
    return joined('"', _escaped(text), '"')


def _escaped(text: pa.Array) -> pa.Array:
    if _ESCAPED_IN_JSON[_bytes_of(text)].any():
        text = pc.replace_substring(pc.replace_substring(text, "\\", "\\\\"), '"', '\\"')
        if pc.any(pc.match_substring_regex(text, "[\\x00-\\x1f]")).as_py():
            for character in _CONTROL:
                text = pc.replace_substring(text, character, standard.dumps(character)[1:-1])
    return text


def objects(names: Sequence[str], texts: Sequence[pa.Array]) -> pa.Array:
    """Objects of JSON with these fields. `texts`: the JSON of each field, one per row, without nulls."""
    parts: list[pa.Array | str] = []
    for name, values in zip(names, texts, strict=True):
        parts += [f"{',' if parts else '{'}{standard.dumps(name, ensure_ascii=False)}:", values]
    return joined(*parts, "}")


def _bytes_of(text: pa.Array) -> np.ndarray:
    """All bytes of the texts, one after the other."""
    text = text.cast(TEXT)
    _, places, held = text.buffers()
    if held is None or not len(text):
        return np.empty(0, np.uint8)
    ends = np.frombuffer(places, np.int64)[[text.offset, text.offset + len(text)]]
    return np.frombuffer(held, np.uint8)[slice(*ends)]


def unquoted(column: pa.Array) -> pa.Array:
    """The values as in JSON, but without quotes around them."""
    kind = column.type
    if pa.types.is_nested(kind):
        return _nested(column)
    if pa.types.is_timestamp(kind):
        return _with_letter(_moments(column))
    if pa.types.is_floating(kind):
        return _floats(column)
    if pa.types.is_decimal(kind):
        return _decimals(column)
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return hexadecimal(column)
    return column.cast(TEXT)


def _floats(column: pa.Array) -> pa.Array:
    """The shortest digits that parse to the same float, with a point or an exponent; NaN, Infinity and -Infinity."""
    text = column.cast(TEXT)
    finite = pc.is_finite(column)
    whole = pc.and_(finite, pc.equal(pc.trunc(column), column))
    if pc.any(whole).as_py():
        pointless = pc.and_(whole, pc.invert(pc.match_substring_regex(text, "[.e]")))
        text = pc.if_else(pointless, joined(text, ".0"), text)
    if pc.all(finite).as_py() is False:
        names = pc.if_else(pc.is_nan(column), "NaN", pc.if_else(pc.greater(column, 0), "Infinity", "-Infinity"))
        text = pc.if_else(finite, text, names.cast(TEXT))
    return text


def _decimals(column: pa.Array) -> pa.Array:
    """Formats decimals with all digits of the scale. Arrow prints some small values as 1E-7; their digits come from 1.0000001."""
    text = column.cast(TEXT)
    if column.type.scale < 7:
        return text
    short = pc.match_substring_regex(text, "E")
    if not pc.any(short).as_py():
        return text
    small = pc.if_else(short, column, pa.scalar(None, column.type)).cast(pa.decimal256(74, column.type.scale))
    one = pa.scalar(Decimal(1), pa.decimal256(1, 0))
    digits = pc.binary_replace_slice(pc.add(pc.abs(small), one).cast(TEXT), 0, 1, "0")
    return pc.if_else(short, pc.if_else(pc.starts_with(text, "-"), joined("-", digits), digits), text)


def _moments(column: pa.Array) -> pa.Array:
    """Formats times as 2026-01-31 12:00:00.500000, with a Z if the zone is UTC."""
    if column.type.tz != "UTC":
        return column.cast(TEXT)
    text = column.cast(pa.timestamp(column.type.unit)).cast(TEXT)  # Arrow prints times with a zone slowly
    strange = pc.starts_with(text, _NOT_A_TIME)
    stamped = joined(text, "Z")
    return pc.if_else(strange, text, stamped) if pc.any(strange).as_py() else stamped


def _with_letter(moments: pa.Array) -> pa.Array:
    """Replaces the blank between date and time by a T."""
    made = pc.replace_substring(moments, " ", "T", max_replacements=1)
    strange = pc.starts_with(moments, _NOT_A_TIME)
    return pc.if_else(strange, moments, made) if pc.any(strange).as_py() else made


def hexadecimal(column: pa.Array) -> pa.Array:
    """Bytes as text, two digits each. Null stays null."""
    column = column.cast(pa.large_binary())
    offsets = np.frombuffer(column.buffers()[1], np.int64)[column.offset :][: len(column) + 1]
    held = column.buffers()[2]
    data = np.frombuffer(held, np.uint8)[offsets[0] : offsets[-1]] if held is not None else np.empty(0, np.uint8)
    digits, places = pa.py_buffer(_HEX[data]), pa.py_buffer((offsets - offsets[0]) * 2)
    text = pa.Array.from_buffers(TEXT, len(column), [None, places, digits])
    return pc.if_else(column.is_valid(), text, pa.scalar(None, TEXT)) if column.null_count else text


def _nested(column: pa.Array) -> pa.Array:
    """Lists, structs and maps as JSON; null for null."""
    kind = column.type
    if pa.types.is_struct(kind):
        text = json_lines([field.name for field in kind], column.flatten(), end="")
    elif pa.types.is_map(kind):
        keys, items = _within(column, column.keys), _within(column, column.items)
        text = joined("{", _gathered(column, joined(quoted(unquoted(keys)), ": ", json(items))), "}")
    else:
        text = joined("[", _gathered(column, json(_within(column, column.values))), "]")
    return pc.if_else(column.is_valid(), text, pa.scalar(None, TEXT)) if column.null_count else text


def json_lines(names: Sequence[str], columns: Sequence[pa.Array], end: str = "\n") -> pa.Array:
    """One JSON object per row. `end`: the text after each object."""
    parts: list[pa.Array | str] = []
    before, behind = "{", ""
    for name, column in zip(names, columns, strict=True):
        mark, values = _in_json(column)
        if values.null_count:  # a null has no quotes
            mark, values = "", _marked(mark, values)
        parts += [f"{before}{standard.dumps(name, ensure_ascii=False)}: {mark}", values]
        before, behind = f"{mark}, ", mark
    return joined(*parts, behind + "}" + end)


def _places(column: pa.Array) -> np.ndarray:
    """The start of the items of each list, and the end of the last item. The items of null lists are left out."""
    return column.offsets.to_numpy()


def _within(column: pa.Array, items: pa.Array) -> pa.Array:
    places = _places(column)
    return items.slice(places[0], places[-1] - places[0])


def _gathered(column: pa.Array, texts: pa.Array) -> pa.Array:
    """The texts of the items of each list, with commas."""
    places = _places(column)
    return pc.binary_join(pa.LargeListArray.from_arrays(pa.array(places - places[0], pa.int64()), texts), pa.scalar(", ", TEXT))
