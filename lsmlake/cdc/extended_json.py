"""Writes values as extended JSON, the text of the types of MongoDB: {"$numberLong": "7"}. Vectorised, pure.

The relaxed form, but for 64-bit integers, whose type it would lose: these have the canonical form, as in Debezium's events.
Values that no type of MongoDB holds are texts: times of day, times with microseconds, decimals of more than 34 digits.
`cdc.document_values` reads all of them back.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from lsmlake.cdc import document_values
from lsmlake.cdc.document_values import DECIMAL_DIGITS_MAX
from lsmlake.kernels import encoded_bytes, nested, text_format
from lsmlake.kernels.decimals import check
from lsmlake.kernels.text_format import TEXT, joined, quoted
from lsmlake.types.type_table import is_bytes, is_text

_FIRST, _LAST = 0, 253_402_300_799_999  # of 1970 to 9999, the years that have the form of text


def extended(values: pa.Array) -> pa.Array:
    """The values as extended JSON, null for null. Raises pa.ArrowInvalid for NaN and infinity inside of a nested value."""
    kind, t = values.type, pa.types
    if is_text(kind):
        return quoted(values.cast(TEXT))
    if is_bytes(kind):
        return joined('{"$binary":{"base64":"', encoded_bytes.to_base64(values), '","subType":"00"}}')
    if t.is_int64(kind):
        return joined('{"$numberLong":"', values.cast(TEXT), '"}')
    if t.is_decimal(kind) and kind.precision <= DECIMAL_DIGITS_MAX:
        return joined('{"$numberDecimal":"', text_format.unquoted(values), '"}')
    if t.is_floating(kind):
        return _floats(values)
    if t.is_date(kind):
        return _dates(values.cast(pa.timestamp("ms")))
    if t.is_timestamp(kind):
        return _moments(values)
    if t.is_nested(kind):
        return _nested(values)
    text = text_format.unquoted(values)
    return text if t.is_integer(kind) or t.is_boolean(kind) else joined('"', text, '"')


def of_ids(values: pa.Array) -> pa.Array:
    """The texts of a key as the ids that they stand for: 24 hexadecimal digits are an ObjectId."""
    texts, are_ids = document_values.of_ids(values.cast(TEXT))
    strings = quoted(texts)
    return strings if pc.any(are_ids).as_py() is not True else pc.if_else(are_ids, joined('{"$oid":', strings, "}"), strings)


def _floats(values: pa.Array) -> pa.Array:
    text, finite = text_format.unquoted(values), pc.is_finite(values)
    return text if pc.all(finite).as_py() is not False else pc.if_else(finite, text, joined('{"$numberDouble":"', text, '"}'))


def _moments(values: pa.Array) -> pa.Array:
    """Times as dates of MongoDB, which have milliseconds and are in UTC; those with microseconds as text."""
    micros = values.cast(pa.int64())
    millis = pc.divide(pc.subtract(micros, remainder := _modulo(micros, 1000)), 1000)
    whole = pc.equal(remainder, 0)
    dates = _dates(millis.cast(pa.timestamp("ms")))
    if pc.all(whole).as_py() is not False:
        return dates
    return pc.if_else(whole, dates, joined('"', text_format.unquoted(values), '"'))


def _modulo(numbers: pa.Array, by: int) -> pa.Array:
    """What is left of a division; the sign is that of the number."""
    return pc.subtract(numbers, pc.multiply(pc.divide(numbers, by), by))


def _dates(millis: pa.Array) -> pa.Array:
    numbers = millis.cast(pa.int64())
    text = pc.replace_substring(millis.cast(TEXT), " ", "T", max_replacements=1)
    text = joined('{"$date":"', pc.replace_substring(text, ".000", ""), 'Z"}')
    as_text = pc.and_(pc.greater_equal(numbers, _FIRST), pc.less_equal(numbers, _LAST))
    if pc.all(as_text).as_py() is not False:
        return text
    return pc.if_else(as_text, text, joined('{"$date":{"$numberLong":"', numbers.cast(TEXT), '"}}'))


def _nested(values: pa.Array) -> pa.Array:
    """Documents and arrays; a map is an array of entries."""
    kind = values.type
    if pa.types.is_struct(kind):
        made = text_format.objects([field.name for field in kind], [_inside(one) for one in values.flatten()])
    elif pa.types.is_map(kind):
        lengths, keys, items = nested.map_parts(values)
        made = _lists(lengths, text_format.objects(["key", "value"], [_inside(keys), _inside(items)]))
    else:
        lengths, items = nested.list_parts(values)
        made = _lists(lengths, _inside(items))
    return pc.if_else(values.is_valid(), made, pa.scalar(None, TEXT)) if values.null_count else made


def _inside(values: pa.Array) -> pa.Array:
    if pa.types.is_floating(values.type):
        check(pc.is_finite(values), "NaN and infinity inside of a nested value cannot be read back")
    return extended(values).fill_null("null")


def _lists(lengths: pa.Array, items: pa.Array) -> pa.Array:
    offsets = nested.offsets(lengths).cast(pa.int64())
    return joined("[", pc.binary_join(pa.LargeListArray.from_arrays(offsets, items), pa.scalar(",", TEXT)), "]")
