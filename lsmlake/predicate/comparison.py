"""Rewrites comparisons of a column with literals of any type into comparisons with literals of the column's type.

Spark converts both sides to a common type, row by row. The conversion preserves the order of the column's values, so the literal
can be converted instead. With n(u) the column's u-th value in the common type:

1. Find `low`, the first u with n(u) >= literal, and `high`, the first u with n(u) > literal.
2. Then `<` is u < low, `<=` is u < high, `=` is low <= u < high, and so on, exactly: `int >= 10.5` becomes `int >= 11`,
   `bigint = 1e18` becomes the range of numbers that round to that double, `tinyint = 300` matches nothing.

A text literal is cast to the column's type first (Spark in ANSI mode). A column is never cast: if Spark would cast it (a STRING
column and a number), the comparison is refused. Two differences to Spark: decimals of more than 38 digits are compared exactly,
and `bigint < 9223372036854775808` is NULL for a null row, where Spark returns TRUE.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from datetime import date, datetime, tzinfo
from decimal import Decimal
from fractions import Fraction
from math import ceil, floor, isnan

import pyarrow as pa

from lsmlake.predicate.tree import (
    Column,
    Compare,
    Constant,
    In,
    Like,
    Literal,
    Predicate,
    always,
    and_,
    is_exact,
    is_ordered,
    never,
    not_,
    or_,
)
from lsmlake.types.literal import cast, show
from lsmlake.types.type_table import column_type
from lsmlake.types.type_text import format_type

_OPERATORS = {"=": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}
_DAYS = date.min.toordinal() - 1, date.max.toordinal() + 1


def compare(op: str, column: Column, value: object, zone: tzinfo) -> Predicate:
    """Returns `column op value` with Spark's semantics. Raises ValueError if Spark would fail or cast the column."""
    if not is_ordered(column.type):
        raise ValueError(f"{format_type(column.type)} is not sortable: only IS NULL is supported")
    if value is None:
        return Constant(None)
    if isinstance(value, str):
        value = cast(value, _promoted(column.type), zone)
    if type(value) not in column_type(column.type).python:
        raise ValueError(f"{format_type(column.type)} cannot be compared with {show(value)}{_advice(column.type)}")
    if op == "!=":
        return not_(compare("=", column, value, zone))
    if is_exact(column.type):
        return _within(op, column, *_numbers(column.type, value))
    if pa.types.is_date(column.type) and isinstance(value, datetime):
        return _within(op, column, *_days(value, zone))
    kind = pa.float64() if pa.types.is_floating(column.type) else column.type  # a FLOAT is compared as the DOUBLE it is
    return Compare(op, column, Literal(cast(value, kind, zone)))


def compare_padded(op: str, column: Column, length: int, value: str) -> Predicate:
    """Returns `column op value` for a column of CHAR(length): Spark pads the shorter text with blanks."""
    fits, rest = value[:length].ljust(length), value[length:]
    if rest.strip(" ") and op in ("=", "!="):
        return never(column) if op == "=" else always(column)
    if rest.strip(" "):  # a text that begins as `value` does is padded with blanks, which are less than `rest`, or greater
        less = " " * len(rest) < rest
        op = {"<": "<=" if less else "<", "<=": "<=" if less else "<", ">": ">" if less else ">=", ">=": ">" if less else ">="}[
            op
        ]
    return not_(Compare("=", column, Literal(fits))) if op == "!=" else Compare(op, column, Literal(fits))


def is_in(column: Column, values: Sequence[object], zone: tzinfo) -> Predicate:
    """Returns `column IN (values)`; Spark compares all values in one common type. Raises ValueError."""
    values = _unified(column.type, values, zone)
    equal = [compare("=", column, value, zone) for value in values]
    plain = {equality.right.value: None for equality in equal if isinstance(equality, Compare)}  # a dict keeps the order
    others = [equality for equality in dict.fromkeys(equal) if not isinstance(equality, Compare)]
    if len(plain) == 1:
        return or_(Compare("=", column, Literal(*plain)), *others)
    return or_(*([In(column, tuple(plain))] if plain else []), *others)


def like(column: Column, pattern: str | None, escape: str) -> Predicate:
    """Returns `column LIKE pattern ESCAPE escape`. Raises ValueError."""
    if not pa.types.is_string(column.type):
        raise ValueError(f"LIKE needs a STRING column, {'.'.join(column.path)} is {format_type(column.type)}")
    if pattern is None:
        return Constant(None)
    prefix, rest, position = "", "", 0
    while position < len(pattern):
        char = pattern[position]
        wild = char in "%_" and char != escape
        if char == escape:
            position += 1
            char = pattern[position : position + 1]
            if not char or char not in ("%", "_", escape):
                raise ValueError(f"in LIKE {pattern!r} the escape {escape!r} must be followed by %, _ or itself")
        if wild:
            rest += char
        elif rest:
            rest += "\\" + char if char in "%_\\" else char
        else:
            prefix += char
        position += 1
    return Like(column, prefix, rest) if rest else Compare("=", column, Literal(prefix))


def fold(op: str, left: object, right: object) -> Predicate:
    """Compares two literals. Raises ValueError if their types are not comparable."""
    if left is None or right is None:
        return Constant(None)
    if _family(left) != _family(right):
        raise ValueError(f"{show(left)} cannot be compared with {show(right)}")
    if float in (type(left), type(right)):
        left, right = _rank(float(left)), _rank(float(right))
    return Constant(_OPERATORS[op](left, right))


def _promoted(kind: pa.DataType) -> pa.DataType:
    """Returns the type to which Spark casts text that is compared with a column of this type."""
    if pa.types.is_integer(kind):
        return pa.int64()
    return pa.float64() if pa.types.is_decimal(kind) or pa.types.is_floating(kind) else kind


def _family(value: object) -> object:
    is_number = type(value) in (int, float, Decimal)
    return "number" if is_number else (type(value), getattr(value, "tzinfo", None) is None)


def _advice(kind: pa.DataType) -> str:
    return ", write the value in quotes" if pa.types.is_string(kind) else ""


def _unified(kind: pa.DataType, values: Sequence[object], zone: tzinfo) -> Sequence[object]:
    """Converts the literals of an IN list to Spark's common type, if single comparisons would give another result. Raises
    ValueError if that type depends on the order of the literals."""
    types = {type(value) for value in values}
    decimals = Decimal in types or any(type(value) is int and not -(1 << 63) <= value < 1 << 63 for value in values)
    if pa.types.is_integer(kind) and str in types and decimals and float not in types:
        raise ValueError("a list of text and decimals is compared as DECIMAL or as DOUBLE")
    if is_exact(kind) and (float in types or (str in types and pa.types.is_decimal(kind))):
        return [cast(value, pa.float64(), zone) for value in values]
    if pa.types.is_date(kind) and datetime in types:
        zones = {"UTC" if value.tzinfo else None for value in values if isinstance(value, datetime)}
        common = pa.timestamp("us", "UTC" if "UTC" in zones else None)
        return [cast(value, common, zone) for value in values]
    return values


def _within(op: str, column: Column, low: int, high: int, least: int, most: int, at: Callable[[int], object] = int) -> Predicate:
    """Returns `column op literal`, given `low` and `high`; the column's u-th value is `at(u)`, least <= u <= most."""
    if op == "=":
        if high - low == 1 and least <= low <= most:
            return Compare("=", column, Literal(at(low)))
        if high <= low or low > most or high <= least:
            return never(column)
        return and_(_within(">=", column, low, high, least, most, at), _within("<=", column, low, high, least, most, at))
    border = low if op in ("<", ">=") else high  # the remaining operators split the values into u < border and u >= border
    passes_all, passes_none = (border > most, border <= least) if op in ("<", "<=") else (border <= least, border > most)
    if passes_all or passes_none:
        return always(column) if passes_all else never(column)
    return Compare(op, column, Literal(at(border if op in ("<", ">=") else border - 1)))


def _numbers(kind: pa.DataType, value: int | float | Decimal) -> tuple[int, int, int, int, Callable[[int], object]]:
    """Returns the arguments of `_within` for an integer or decimal column."""
    scale = kind.scale if pa.types.is_decimal(kind) else 0
    digits = kind.precision if pa.types.is_decimal(kind) else None
    at = int if digits is None else lambda u: Decimal((u < 0, tuple(map(int, str(abs(u)))), -scale))
    half = 1 << kind.bit_width - 1
    least, most = (-half, half - 1) if digits is None else (1 - 10**digits, 10**digits - 1)
    if isinstance(value, float):
        rank = _rank(value)
        low = _first(lambda u: _rank(float(at(u))) >= rank, least, most + 1)
        high = _first(lambda u: _rank(float(at(u))) > rank, least, most + 1)
    else:
        exact = Fraction(value) * 10**scale
        low, high = ceil(exact), floor(exact) + 1
    return low, high, least, most, at


def _days(value: datetime, zone: tzinfo) -> tuple[int, int, int, int, Callable[[int], object]]:
    """Returns the arguments of `_within` for a date column; compared with a timestamp, a date is its midnight."""
    day = cast(value, pa.date32(), zone)
    midnight = cast(day, pa.timestamp("us", "UTC" if value.tzinfo else None), zone)
    high = day.toordinal() + 1
    return high - 1 if midnight >= value else high, high, *_DAYS, date.fromordinal


def _rank(value: float) -> tuple[bool, float]:
    """Returns a sort key with Spark's order of doubles: NaN equals itself and is last."""
    return (True, 0.0) if isnan(value) else (False, value)


def _first(holds: Callable[[int], bool], low: int, high: int) -> int:
    """Returns the first of low..high - 1 for which `holds` is true, else `high`. `holds` is monotone."""
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle + 1, high)
    return low
