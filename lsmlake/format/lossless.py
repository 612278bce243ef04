"""Values of one type as values of another, without losing anything: what `cast=True` does. Vectorised, pure.

`convert` takes an array of any type and a canonical type. It raises `pa.ArrowInvalid` if one value cannot be converted, and
`Unfit` if no value of the type can. `first_bad` then finds that value. The rules, wherever a value has no exact counterpart:

- A float stands for its shortest decimal text. So the double 0.1 is the DECIMAL(10,2) 0.10 and the FLOAT 0.1; 0.1 + 0.2, which
  prints as 0.30000000000000004, is no DECIMAL(10,2). In the same sense a decimal must come back from a double.
- Text is trimmed. Numbers may have an exponent, and zeros after the point ("7.0" is an INT). Booleans are Spark's words.
- A timestamp that names no zone, as text or as TIMESTAMP_NTZ, is local time in `zone`; one that names a zone is no TIMESTAMP_NTZ.
  Dates and timestamps are each other's only at midnight.
- Integers, booleans, decimals and dates become STRING as they print; floats and timestamps, which print in many ways, do not.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lsmlake.format import nested, types

_TRUE, _FALSE = ("t", "true", "y", "yes", "1"), ("f", "false", "n", "no", "0")
_ZONED = r"\d:\d{2}.*(Z|[+-]\d{2}(:?\d{2})?)$"
_INFINITE = r"(?i)^[+-]?inf(inity)?$"
_NTZ, _UTC = pa.timestamp("us"), pa.timestamp("us", "UTC")
_WIDEST = pa.decimal128(38, 0)


class Unfit(Exception):
    """No value of the one type can be a value of the other."""


def convert(array: pa.Array, wanted: pa.DataType, zone: str) -> pa.Array:
    """`array` as canonical type `wanted`, its inner fields nullable. Raises Unfit, pa.ArrowInvalid."""
    wanted = nested.nullable(wanted)
    found = array.type
    if found == wanted:
        return array
    if pa.types.is_null(found):
        return pa.nulls(len(array), wanted)
    if pa.types.is_dictionary(found):
        return convert(decoded(array), wanted, zone)
    if pa.types.is_nested(wanted):
        return _nested(array, wanted, zone)
    return _rule(found, wanted)(array, wanted, zone)


def decoded(array: pa.DictionaryArray) -> pa.Array:
    """The values of a dictionary array; views as plain text and bytes, for Arrow cannot take them out of a dictionary."""
    values = array.dictionary
    if types.is_text(values.type) or types.is_bytes(values.type):
        values = values.cast(pa.large_string() if types.is_text(values.type) else pa.large_binary())
    return values.take(array.indices)


def first_bad(array: pa.Array, make: Callable[[pa.Array], object]) -> int:
    """The number of the first row for which `make` raises; it raises for the whole array. O(rows) in all."""
    low, high = 0, len(array)
    while high - low > 1:
        middle = (low + high) // 2
        try:
            make(array.slice(low, middle - low))
            low = middle
        except pa.ArrowException:
            high = middle
    return low


_FLOAT_ERROR = 1e-9  # relative; far above the rounding of a double, far below a digit shifted

_ZERO = r"^[+-]?[0.]+[eE]"

Is = Callable[[pa.DataType], bool]
Rule = Callable[[pa.Array, pa.DataType, str], pa.Array]


def _rule(found: pa.DataType, wanted: pa.DataType) -> Rule:
    for matches, by_source in _RULES:
        if matches(wanted):
            for source, rule in by_source:
                if source(found):
                    return rule
    raise Unfit


def _plain(array: pa.Array, wanted: pa.DataType, zone: str) -> pa.Array:
    return array.cast(wanted, safe=True)


def _check(good: pa.Array, what: str) -> None:
    """`good`: true, or null where there is no value."""
    if pc.all(good).as_py() is False:
        raise pa.ArrowInvalid(what)


def _trimmed(array: pa.Array) -> pa.Array:
    return pc.utf8_trim_whitespace(array.cast(pa.string()))


# -- numbers and booleans ---------------------------------------------------------------------------------------------------


def _text_to_int(array: pa.Array, wanted: pa.DataType, zone: str) -> pa.Array:
    return _trimmed(array).cast(_WIDEST).cast(wanted)


def _text_to_decimal(array: pa.Array, wanted: pa.DataType, zone: str) -> pa.Array:
    """Arrow shifts digits by a large exponent without a look at its table of powers of ten: '5e36' has come out as 0.93, '1e-215'
    as 0. So numbers with an exponent are compared with what Arrow's parser of floats makes of them."""
    text = _trimmed(array)
    made = text.cast(wanted)
    with_exponent = pc.match_substring(text, "e", ignore_case=True)
    if pc.any(with_exponent).as_py():
        text = text.filter(with_exponent)
        said = pc.utf8_ltrim(text, "+").cast(pa.float64())
        off = pc.abs(pc.subtract(made.filter(with_exponent).cast(pa.float64()), said))
        near = pc.less_equal(off, pc.multiply(pc.abs(said), _FLOAT_ERROR))
        too_small = pc.and_(pc.equal(said, 0), pc.invert(pc.match_substring_regex(text, _ZERO)))  # for a double, too
        _check(pc.and_not(near, too_small), "the number does not fit")
    return made


def _text_to_float(array: pa.Array, wanted: pa.DataType, zone: str) -> pa.Array:
    text = _trimmed(array)
    made = text.cast(wanted)
    infinite = pc.is_inf(made)
    if pc.any(infinite).as_py():
        said = pc.match_substring_regex(text, _INFINITE)
        _check(pc.or_(pc.invert(infinite), said), "the number is too large")
    return made


def _text_to_bool(array: pa.Array, wanted: pa.DataType, zone: str) -> pa.Array:
    word = pc.ascii_lower(_trimmed(array))
    true, false = (pc.is_in(word, value_set=pa.array(words)) for words in (_TRUE, _FALSE))
    _check(pc.or_(pc.or_(true, false), word.is_null()), "not a boolean")
    return pc.if_else(word.is_valid(), true, pa.scalar(None, pa.bool_()))


def _int_to_bool(array: pa.Array, wanted: pa.DataType, zone: str) -> pa.Array:
    _check(pc.and_(pc.greater_equal(array, 0), pc.less_equal(array, 1)), "only 0 and 1 are booleans")
    return array.cast(wanted)


def _int_to_decimal(array: pa.Array, wanted: pa.DataType, zone: str) -> pa.Array:
    return array.cast(pa.decimal128(38, wanted.scale)).cast(wanted)  # Arrow wants room for any integer before it looks


def _float_to_decimal(array: pa.Array, wanted: pa.DataType, zone: str) -> pa.Array:
    return _text_to_decimal(array, wanted, zone)


def _float_to_float(array: pa.Array, wanted: pa.DataType, zone: str) -> pa.Array:
    made = array.cast(wanted)
    if wanted.bit_width < array.type.bit_width:
        back = made.cast(pa.string()).cast(array.type)
        same = pc.or_(pc.equal(back, array), pc.and_(pc.is_nan(back), pc.is_nan(array)))
        _check(same, "the value would be rounded")
    return made


def _decimal_to_float(array: pa.Array, wanted: pa.DataType, zone: str) -> pa.Array:
    made = array.cast(wanted)
    _check(pc.equal(made.cast(pa.string()).cast(array.type), array), "the value would be rounded")
    return made


# -- dates and times ----------------------------------------------------------------------------------------------------------


def _text_to_date(array: pa.Array, wanted: pa.DataType, zone: str) -> pa.Array:
    text = _trimmed(array)
    try:
        return text.cast(wanted)
    except pa.ArrowInvalid:
        return _time_to_date(text.cast(_NTZ), wanted, zone)


def _text_to_time(array: pa.Array, wanted: pa.DataType, zone: str) -> pa.Array:
    text = pc.replace_substring_regex(_trimmed(array), r"(\.\d{6})0+", r"\1")
    zoned = pc.match_substring_regex(text, _ZONED)
    nothing = pa.scalar(None, pa.string())
    if not wanted.tz:
        _check(pc.invert(zoned), "the text names a time zone, which TIMESTAMP_NTZ cannot hold")
        return text.cast(_NTZ)
    local = _in_zone(pc.if_else(zoned, nothing, text).cast(_NTZ), zone)
    return pc.coalesce(pc.if_else(zoned, text, nothing).cast(_UTC), local)


def _time_to_time(array: pa.Array, wanted: pa.DataType, zone: str) -> pa.Array:
    if bool(array.type.tz) == bool(wanted.tz):
        return array.cast(wanted)
    if array.type.tz:
        raise Unfit
    return _in_zone(array.cast(_NTZ), zone)


def _in_zone(local: pa.Array, zone: str) -> pa.Array:
    """Of two instants with one local time the earlier, as in Spark; raises for a local time that the zone leaves out."""
    return pc.assume_timezone(local, zone, ambiguous="earliest").cast(_UTC)


def _date_to_time(array: pa.Array, wanted: pa.DataType, zone: str) -> pa.Array:
    local = array.cast(_NTZ)
    return _in_zone(local, zone) if wanted.tz else local


def _time_to_date(array: pa.Array, wanted: pa.DataType, zone: str) -> pa.Array:
    local = pc.local_timestamp(array.cast(pa.timestamp(array.type.unit, zone))) if array.type.tz else array
    day = local.cast(pa.date32())
    _check(pc.equal(day.cast(local.type), local), "the time of day would be lost")
    return day


# -- nested ---------------------------------------------------------------------------------------------------------------------


def _nested(array: pa.Array, wanted: pa.DataType, zone: str) -> pa.Array:
    found, t = array.type, pa.types
    if t.is_struct(wanted) and t.is_struct(found):
        names = [field.name for field in wanted]
        if set(names) != {field.name for field in found} or len(names) != found.num_fields:
            raise Unfit
        fields = dict(zip([field.name for field in found], array.flatten(), strict=True))
        made = [convert(fields[field.name], field.type, zone) for field in wanted]
        return pa.StructArray.from_arrays(made, fields=list(wanted), mask=array.is_null())
    if t.is_map(wanted) and t.is_map(found):
        rows = array.filter(array.is_valid())
        start, stop = (rows.offsets[0].as_py(), rows.offsets[-1].as_py()) if len(rows) else (0, 0)
        keys = convert(rows.keys[start:stop], wanted.key_type, zone)
        items = convert(rows.items[start:stop], wanted.item_type, zone)
        offsets = _offsets(np.where(np.asarray(array.is_valid()), np.diff(np.asarray(array.offsets)), 0))
        return pa.MapArray.from_arrays(offsets, keys, items, type=wanted, mask=array.is_null())
    if t.is_list(wanted) and (t.is_list(found) or t.is_large_list(found) or t.is_fixed_size_list(found)):
        values = convert(array.flatten(), wanted.value_type, zone)
        lengths = np.asarray(pc.fill_null(pc.list_value_length(array), 0))
        return pa.ListArray.from_arrays(_offsets(lengths), values, type=wanted, mask=array.is_null())
    raise Unfit


def _offsets(lengths: np.ndarray) -> pa.Array:
    return pa.array(np.concatenate([[0], np.cumsum(lengths)]), pa.int32())


_INT, _FLOAT, _DECIMAL, _BOOL = pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal, pa.types.is_boolean
_DATE, _TIME, _TEXT, _BYTES = pa.types.is_date, pa.types.is_timestamp, types.is_text, types.is_bytes
_RULES: tuple[tuple[Is, tuple[tuple[Is, Rule], ...]], ...] = (
    (_INT, ((_INT, _plain), (_TEXT, _text_to_int), (_FLOAT, _plain), (_DECIMAL, _plain), (_BOOL, _plain))),
    (_FLOAT, ((_FLOAT, _float_to_float), (_INT, _plain), (_TEXT, _text_to_float), (_DECIMAL, _decimal_to_float))),
    (_DECIMAL, ((_DECIMAL, _plain), (_TEXT, _text_to_decimal), (_INT, _int_to_decimal), (_FLOAT, _float_to_decimal))),
    (_BOOL, ((_TEXT, _text_to_bool), (_INT, _int_to_bool))),
    (_DATE, ((_DATE, _plain), (_TEXT, _text_to_date), (_TIME, _time_to_date))),
    (_TIME, ((_TIME, _time_to_time), (_TEXT, _text_to_time), (_DATE, _date_to_time))),
    (pa.types.is_string, ((_TEXT, _plain), (_INT, _plain), (_BOOL, _plain), (_DECIMAL, _plain), (_DATE, _plain))),
    (pa.types.is_binary, ((_BYTES, _plain), (_TEXT, _plain))),
)
"""Wanted type -> (found type, rule)."""
