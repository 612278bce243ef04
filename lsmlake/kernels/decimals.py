"""Converts decimals and decimal text to DECIMAL(p,s) exactly. Vectorised, pure; used by `schema.lossless`.

Arrow multiplies by a power of ten in 128 or 256 bits without an overflow check and then checks the precision. The wrapped product
can be within the precision, which would change the value. So all values are compared with the range of the target type first.
"""

from __future__ import annotations

from decimal import Decimal
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

WHOLE = pa.decimal128(38, 0)
"""The type of integers with at most 38 digits."""
_NUMBER = r"^(?:\+|(?P<sign>-))?(?P<whole>[0-9]*)(?:\.(?P<part>[0-9]*))?(?:[eE](?P<exponent>[+-]?[0-9]{1,9}))?$"
_HAS_DIGIT = r"^[+-]?\.?[0-9]"
_SHORT = r"^[+-]?\.?[0-9][0-9.]{0,36}$"  # at most 38 digits without an exponent: Arrow parses these exactly into 76 digits
_TOO_LARGE = "the number is too large for the type"


def check(good: pa.Array, what: str) -> None:
    """Raises pa.ArrowInvalid if `good` is false anywhere."""
    if pc.all(good).as_py() is False:
        raise pa.ArrowInvalid(what)


def from_decimal(array: pa.Array, wanted: pa.Decimal128Type) -> pa.Array:
    """Converts a decimal array of any width, precision and scale to `wanted`. Raises pa.ArrowInvalid if a value does not fit."""
    given = array.type
    if not 0 <= given.scale <= given.precision:
        return from_text(as_text(array), wanted)
    if given.bit_width < wanted.bit_width:  # Arrow cannot compare these
        array = array.cast(pa.decimal128(given.precision, given.scale))
    digits = wanted.precision - wanted.scale + given.scale  # a value fits if its unscaled integer has at most this many digits
    if digits < given.precision:
        first_too_large = Decimal((0, (1,) + (0,) * max(digits, 0), -given.scale))
        low, high = (pa.scalar(limit, array.type) for limit in (-first_too_large, first_too_large))
        inside = pc.and_(pc.greater(array, low), pc.less(array, high))
        check(inside if digits > 0 else pc.equal(array, pa.scalar(Decimal(0), array.type)), _TOO_LARGE)
    return array.cast(wanted)


def as_text(array: pa.Array) -> pa.Array:
    """Converts a decimal array to text, by way of a wider type: Arrow cannot print a scale beyond the width of the type."""
    return array.cast(pa.decimal256(76, array.type.scale)).cast(pa.string())


def from_text(text: pa.Array, wanted: pa.Decimal128Type) -> pa.Array:
    """Converts text such as '-12.50' or '1e3' to `wanted`. Raises pa.ArrowInvalid if a text is not a number or does not fit. The
    digits of each value become the unscaled integer of the result, which has at most 38 digits."""
    if pc.all(pc.match_substring_regex(text, _SHORT)).as_py() is not False:
        return from_decimal(text.cast(pa.decimal256(76, wanted.scale)), wanted)
    number = _parsed(text)
    zero = pc.equal(number.digits, "")
    check(pc.or_(zero, pc.greater_equal(number.shift, -wanted.scale)), "the number has more digits after the point than the type")
    whole_digits = pc.add(_length(number.digits), number.shift)
    check(pc.or_(zero, pc.less_equal(whole_digits, wanted.precision - wanted.scale)), _TOO_LARGE)
    zeros = pc.binary_repeat("0", pc.if_else(zero, 1, pc.add(number.shift, wanted.scale)))
    return pc.binary_join_element_wise(number.sign, number.digits, zeros, "").cast(WHOLE).view(wanted)


def same(one: pa.Array, other: pa.Array) -> pa.Array:
    """Compares texts as numbers. Raises pa.ArrowInvalid for text that is not a number."""
    a, b = _parsed(one), _parsed(other)
    return pc.and_(pc.equal(a.digits, b.digits), pc.or_(pc.equal(a.digits, ""), _same_sign_and_shift(a, b)))


class _Number(NamedTuple):
    """The numbers +-`digits` * 10^`shift`. `digits` neither begins nor ends with a zero; it is empty for zero."""

    sign: pa.Array
    digits: pa.Array
    shift: pa.Array


def _parsed(text: pa.Array) -> _Number:
    parts = pc.extract_regex(text, _NUMBER)
    check(pc.or_(text.is_null(), pc.and_(parts.is_valid(), pc.match_substring_regex(text, _HAS_DIGIT))), "the text is no number")
    sign, whole, part, exponent = (pc.struct_field(parts, name) for name in ("sign", "whole", "part", "exponent"))
    exponent = pc.if_else(pc.equal(exponent, ""), "0", pc.utf8_ltrim(exponent, "+")).cast(pa.int64())
    integer = pc.utf8_ltrim(pc.binary_join_element_wise(whole, part, ""), "0")
    digits = pc.utf8_rtrim(integer, "0")
    zeros = pc.subtract(_length(integer), _length(digits))
    return _Number(sign, digits, pc.add(pc.subtract(exponent, _length(part)), zeros))


def _same_sign_and_shift(a: _Number, b: _Number) -> pa.Array:
    return pc.and_(pc.equal(a.sign, b.sign), pc.equal(a.shift, b.shift))


def _length(text: pa.Array) -> pa.Array:
    return pc.utf8_length(text).cast(pa.int64())
