"""Lossless conversion of an array to a canonical type. Vectorised, pure.

`convert` raises `pa.ArrowInvalid` if a value cannot be converted, and `Unfit` if the types are incompatible. `first_bad` finds
the first invalid value. `schema.conform` decides which conversions need `cast=True`. Rules for values without an exact
counterpart:

- The value of a float is its shortest decimal text. So the double 0.1 becomes the DECIMAL(10,2) 0.10 and the FLOAT 0.1, but
  0.1 + 0.2 (0.30000000000000004) fits no DECIMAL(10,2). Likewise a decimal must be equal after conversion to a double and back.
- Text is trimmed. Numbers may have an exponent and zeros after the point ("7.0" is an INT). Booleans are Spark's words.
- Between floats and integers, including integers in text ("16777217", "7.0"), the value must be exactly equal. Other text becomes
  the nearest float; text becomes zero or infinity only if its number is zero or infinite.
- A timestamp without a zone, as text or as TIMESTAMP_NTZ, is local time in `zone`; one with a zone cannot become a TIMESTAMP_NTZ.
  Dates and timestamps convert into each other only at midnight.
- Integers, booleans, decimals and dates convert to STRING; floats and timestamps do not, because they have no unique text.
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc

from lsmlake.kernels import decimals, nested
from lsmlake.kernels.decimals import check
from lsmlake.types.type_table import is_bytes, is_text

_TRUE, _FALSE = ("t", "true", "y", "yes", "1"), ("f", "false", "n", "no", "0")
_ZONED = r"\d:\d{2}.*(Z|[+-]\d{2}(:?\d{2})?)$"
_INFINITE = r"(?i)^[+-]?inf(inity)?$"
_NTZ, _UTC = pa.timestamp("us"), pa.timestamp("us", "UTC")
_CLOCK = r"^\d{2}:\d{2}(:\d{2}(\.\d{1,6})?)?$"
_DIGITS = r"^-?[0-9]{1,18}$"
_INTEGER = r"^[+-]?[0-9]+(\.0*)?$"
_ZERO = r"^[+-]?[0.]+([eE].*)?$"
_EVERY_INTEGER_BELOW = {pa.float32(): 2.0**24, pa.float64(): 2.0**53}
_COMES_BACK = {pa.float32(): r"^-?[0-9.]{1,6}$", pa.float64(): r"^-?[0-9.]{1,15}$"}
"""Decimals with this few digits are equal after conversion to the nearest float and back."""
_ANY_INT = pa.decimal128(20, 0)
_INTEGERS = pa.decimal256(76, 0)


class Unfit(Exception):
    """The types are incompatible."""


def convert(array: pa.Array, wanted: pa.DataType, zone: str) -> pa.Array:
    """Converts `array` to the canonical type `wanted`, inner fields nullable. Raises Unfit, pa.ArrowInvalid."""
    wanted = nested.nullable(wanted)
    given = array.type
    if given == wanted:
        return array
    if pa.types.is_null(given):
        return pa.nulls(len(array), wanted)
    if isinstance(given, pa.UuidType):
        return convert(array.storage, wanted, zone)
    if pa.types.is_dictionary(given):
        return convert(decoded(array), wanted, zone)
    if pa.types.is_nested(wanted):
        return _nested(_without_views(array), wanted, zone)
    return _rule(given, wanted)(array, wanted, zone)


def decoded(array: pa.DictionaryArray) -> pa.Array:
    """Decodes a dictionary array. Views become plain text and bytes, because Arrow cannot take views from a dictionary."""
    values = array.dictionary
    if is_text(values.type) or is_bytes(values.type):
        values = values.cast(pa.large_string() if is_text(values.type) else pa.large_binary())
    return values.take(array.indices)


def first_bad(array: pa.Array, make: Callable[[pa.Array], object]) -> int:
    """Returns the first row for which `make` raises, given that it raises for the whole array. O(rows)."""
    low, high = 0, len(array)
    while high - low > 1:
        middle = (low + high) // 2
        try:
            make(array.slice(low, middle - low))
            low = middle
        except pa.ArrowException:
            high = middle
    return low


Is = Callable[[pa.DataType], bool]
Rule = Callable[[pa.Array, pa.DataType, str], pa.Array]


def is_free(given: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether values of the type `given` are converted without `cast=True`. Neither type is nested."""
    return given == wanted or any(source(given) for matches, free, _ in _RULES if matches(wanted) for source, _ in free)


def _rule(given: pa.DataType, wanted: pa.DataType) -> Rule:
    free, others = next((rules for matches, *rules in _RULES if matches(wanted)), ((), ()))
    for source, rule in (*free, *others):
        if source(given):
            return rule
    raise Unfit


def _plain(array: pa.Array, wanted: pa.DataType, zone: str) -> pa.Array:
    return array.cast(wanted, safe=True)


def _trimmed(array: pa.Array) -> pa.Array:
    return pc.utf8_trim_whitespace(array.cast(pa.string()))


# -- numbers and booleans ---------------------------------------------------------------------------------------------------


def _text_to_int(array: pa.Array, wanted: pa.DataType, zone: str) -> pa.Array:
    if pc.all(pc.match_substring_regex(array, _DIGITS)).as_py() is not False:
        return array.cast(pa.int64()).cast(wanted)
    return decimals.from_text(_trimmed(array), decimals.WHOLE).cast(wanted)


def _decimal_to_int(array: pa.Array, wanted: pa.DataType, zone: str) -> pa.Array:
    return decimals.from_decimal(array, decimals.WHOLE).cast(wanted)


def _int_to_decimal(array: pa.Array, wanted: pa.DataType, zone: str) -> pa.Array:
    return decimals.from_decimal(array.cast(_ANY_INT), wanted)


def _rescaled(array: pa.Array, wanted: pa.DataType, zone: str) -> pa.Array:
    return decimals.from_decimal(array, wanted)


def _text_to_decimal(array: pa.Array, wanted: pa.DataType, zone: str) -> pa.Array:
    return decimals.from_text(_trimmed(array), wanted)


def _float_to_decimal(array: pa.Array, wanted: pa.DataType, zone: str) -> pa.Array:
    return decimals.from_text(array.cast(pa.string()), wanted)


def _int_to_float(array: pa.Array, wanted: pa.DataType, zone: str) -> pa.Array:
    try:
        return array.cast(wanted)  # Arrow accepts the range in which all integers are floats
    except pa.ArrowInvalid:
        made = array.cast(wanted, safe=False)
        check(pc.equal(made.cast(_INTEGERS), array.cast(_INTEGERS)), "the integer would be rounded")
        return made


def _text_to_float(array: pa.Array, wanted: pa.DataType, zone: str) -> pa.Array:
    text = _trimmed(array)
    made = text.cast(wanted)
    infinite = pc.is_inf(made)
    if pc.any(infinite).as_py():
        check(pc.or_(pc.invert(infinite), pc.match_substring_regex(text, _INFINITE)), "the number is too large")
    zero = pc.equal(made, 0)
    if pc.any(zero).as_py():
        check(pc.or_(pc.invert(zero), pc.match_substring_regex(text, _ZERO)), "the number is too small")
    large = pc.greater_equal(pc.abs(made), pa.scalar(_EVERY_INTEGER_BELOW[wanted], wanted))
    if pc.any(large).as_py():
        text, floats = text.filter(large), made.filter(large)
        integer = pc.match_substring_regex(text, _INTEGER)
        exact = pc.equal(floats.filter(integer).cast(_INTEGERS), _integers(text.filter(integer)))
        check(exact, "the integer would be rounded")
    return made


def _integers(text: pa.Array) -> pa.Array:
    """Parses integers in text, with or without zeros after the point."""
    digits = pc.replace_substring_regex(text, r"^[+]?(-?)0*([0-9]+?)(\.0*)?$", r"\1\2")
    check(pc.less_equal(pc.utf8_length(digits), 76), "the integer has more than 75 digits")
    return digits.cast(_INTEGERS)


def _text_to_bool(array: pa.Array, wanted: pa.DataType, zone: str) -> pa.Array:
    word = pc.ascii_lower(_trimmed(array))
    true, false = (pc.is_in(word, value_set=pa.array(words)) for words in (_TRUE, _FALSE))
    check(pc.or_(pc.or_(true, false), word.is_null()), "not a boolean")
    return pc.if_else(word.is_valid(), true, pa.scalar(None, pa.bool_()))


def _int_to_bool(array: pa.Array, wanted: pa.DataType, zone: str) -> pa.Array:
    check(pc.and_(pc.greater_equal(array, 0), pc.less_equal(array, 1)), "only 0 and 1 are booleans")
    return array.cast(wanted)


def _float_to_float(array: pa.Array, wanted: pa.DataType, zone: str) -> pa.Array:
    """Narrows a float if the result is equal or has the same shortest text."""
    made = array.cast(wanted)
    if wanted.bit_width < array.type.bit_width:
        exact = pc.equal(made.cast(array.type), array)
        printed = pc.equal(made.cast(pa.string()).cast(array.type), array)
        check(pc.or_(pc.or_(exact, printed), pc.is_nan(array)), "the value would be rounded")
    return made


def _decimal_to_float(array: pa.Array, wanted: pa.DataType, zone: str) -> pa.Array:
    """Converts through text: Arrow's cast of a decimal does not always return the nearest float."""
    text = decimals.as_text(array)
    made = text.cast(wanted)
    long = pc.invert(pc.match_substring_regex(text, _COMES_BACK[wanted]))
    if pc.any(long).as_py():
        check(decimals.same(made.filter(long).cast(pa.string()), text.filter(long)), "the value would be rounded")
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
        check(pc.invert(zoned), "the text names a time zone, which TIMESTAMP_NTZ cannot hold")
        return text.cast(_NTZ)
    local = _in_zone(pc.if_else(zoned, nothing, text).cast(_NTZ), zone)
    return pc.coalesce(pc.if_else(zoned, text, nothing).cast(_UTC), local)


def _text_to_clock(array: pa.Array, wanted: pa.DataType, zone: str) -> pa.Array:
    text = pc.replace_substring_regex(_trimmed(array), r"(\.\d{6})0+$", r"\1")
    check(pc.match_substring_regex(text, _CLOCK), "not a time of day such as 10:30:00.5")
    return pc.binary_join_element_wise("1970-01-01", text, " ").cast(_NTZ).cast(wanted)


def _local_to_zoned(array: pa.Array, wanted: pa.DataType, zone: str) -> pa.Array:
    return _in_zone(array.cast(_NTZ), zone)


def _in_zone(local: pa.Array, zone: str) -> pa.Array:
    """Converts local times to instants. If two instants have the local time, takes the earlier one, as Spark does. Raises for a
    local time that does not exist."""
    return pc.assume_timezone(local, zone, ambiguous="earliest").cast(_UTC)


def _date_to_time(array: pa.Array, wanted: pa.DataType, zone: str) -> pa.Array:
    local = array.cast(_NTZ)
    return _in_zone(local, zone) if wanted.tz else local


def _time_to_date(array: pa.Array, wanted: pa.DataType, zone: str) -> pa.Array:
    local = pc.local_timestamp(array.cast(pa.timestamp(array.type.unit, zone))) if array.type.tz else array
    day = local.cast(pa.date32())
    check(pc.equal(day.cast(local.type), local), "the time of day would be lost")
    return day


# -- nested ---------------------------------------------------------------------------------------------------------------------


def _without_views(array: pa.Array) -> pa.Array:
    """Replaces views by plain text and bytes: Arrow cannot filter or take nested rows with views."""
    type_ = _type_without_views(array.type)
    return array if type_ == array.type else array.cast(type_)


def _type_without_views(type_: pa.DataType) -> pa.DataType:
    t = pa.types
    if t.is_string_view(type_) or t.is_binary_view(type_):
        return pa.large_string() if t.is_string_view(type_) else pa.large_binary()
    if t.is_struct(type_):
        return pa.struct([field.with_type(_type_without_views(field.type)) for field in type_])
    if t.is_map(type_):
        key, item = (field.with_type(_type_without_views(field.type)) for field in (type_.key_field, type_.item_field))
        return pa.map_(key, item, type_.keys_sorted)
    if t.is_list(type_) or t.is_large_list(type_) or t.is_fixed_size_list(type_):
        inner = type_.value_field.with_type(_type_without_views(type_.value_type))
        if t.is_fixed_size_list(type_):
            return pa.list_(inner, type_.list_size)
        return pa.list_(inner) if t.is_list(type_) else pa.large_list(inner)
    return type_


def _nested(array: pa.Array, wanted: pa.DataType, zone: str) -> pa.Array:
    given, t = array.type, pa.types
    if t.is_struct(wanted) and t.is_struct(given):
        names = [field.name for field in wanted]
        if set(names) != {field.name for field in given} or len(names) != given.num_fields:
            raise Unfit
        fields = dict(zip([field.name for field in given], array.flatten(), strict=True))
        made = [convert(fields[field.name], field.type, zone) for field in wanted]
        return pa.StructArray.from_arrays(made, fields=list(wanted), mask=array.is_null())
    if t.is_map(wanted) and t.is_map(given):
        lengths, keys, items = nested.map_parts(array)
        keys, items = convert(keys, wanted.key_type, zone), convert(items, wanted.item_type, zone)
        return pa.MapArray.from_arrays(nested.offsets(lengths), keys, items, type=wanted, mask=array.is_null())
    if t.is_list(wanted) and (t.is_list(given) or t.is_large_list(given) or t.is_fixed_size_list(given)):
        lengths, values = nested.list_parts(array)
        return pa.ListArray.from_arrays(
            nested.offsets(lengths), convert(values, wanted.value_type, zone), type=wanted, mask=array.is_null()
        )
    raise Unfit


_INT, _FLOAT, _DECIMAL, _BOOL = pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal, pa.types.is_boolean
_DATE, _TIME, _TEXT, _BYTES = pa.types.is_date, pa.types.is_timestamp, is_text, is_bytes


def _zoned(type_: pa.DataType) -> bool:
    return _TIME(type_) and bool(type_.tz)


def _local(type_: pa.DataType) -> bool:
    return _TIME(type_) and not type_.tz


_RULES: tuple[tuple[Is, tuple[tuple[Is, Rule], ...], tuple[tuple[Is, Rule], ...]], ...] = (
    (_INT, ((_INT, _plain),), ((_TEXT, _text_to_int), (_FLOAT, _plain), (_DECIMAL, _decimal_to_int), (_BOOL, _plain))),
    (_FLOAT, ((_FLOAT, _float_to_float), (_INT, _int_to_float)), ((_TEXT, _text_to_float), (_DECIMAL, _decimal_to_float))),
    (_DECIMAL, ((_DECIMAL, _rescaled), (_INT, _int_to_decimal)), ((_TEXT, _text_to_decimal), (_FLOAT, _float_to_decimal))),
    (_BOOL, (), ((_TEXT, _text_to_bool), (_INT, _int_to_bool))),
    (_DATE, ((_DATE, _plain),), ((_TEXT, _text_to_date), (_TIME, _time_to_date))),
    (_zoned, ((_zoned, _plain),), ((_local, _local_to_zoned), (_TEXT, _text_to_time), (_DATE, _date_to_time))),
    (_local, ((_local, _plain), (_DATE, _date_to_time)), ((_TEXT, _text_to_time),)),
    (pa.types.is_time, ((pa.types.is_time, _plain),), ((_TEXT, _text_to_clock),)),
    (pa.types.is_string, ((_TEXT, _plain),), tuple((one, _plain) for one in (_INT, _BOOL, _DECIMAL, _DATE))),
    (pa.types.is_binary, ((_BYTES, _plain),), ((_TEXT, _plain),)),
)
"""For each wanted type, two lists of (given type, rule): conversions that `conform` always allows; those that need
`cast=True`."""
