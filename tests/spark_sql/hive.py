"""Values as Spark prints them in its golden files: the strings of Hive's command line."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa

from lsmlake.types.intervals import SIZES, interval_of, is_calendar

_EPOCH = dt.datetime(1970, 1, 1)
_CYCLE_DAYS, _CYCLE = 146_097, 146_097 * 86_400_000_000
"""After 400 years the calendar is the same again."""
_ZONED_LEAST, _ZONED_MOST = -62_000_000_000_000_000, 253_402_200_000_000_000
"""Microseconds of the years 5 and 9999: Python knows the offset of a zone between them."""
_PLAIN_LEAST, _PLAIN_MOST = Decimal("0.001"), Decimal(10_000_000)
"""Java prints a floating-point number between them without an exponent."""


def lines(rows: pa.Table, zone: str) -> list[tuple[str, ...]]:
    """The cells of the rows."""
    fields = zip(rows.columns, rows.schema, strict=True)
    columns = [[_top(value, field, zone) for value in _values(column)] for column, field in fields]
    return list(zip(*columns, strict=True)) if columns else [()] * rows.num_rows


def type_name(field: pa.Field) -> str:
    """The type of a column as the schema of a golden file names it."""
    kind, t = field.type, pa.types
    if t.is_list(kind):
        return f"array<{type_name(kind.value_field)}>"
    if t.is_map(kind):
        return f"map<{type_name(kind.key_field)},{type_name(kind.item_field)}>"
    if t.is_struct(kind):
        return f"struct<{','.join(f'{inner.name}:{type_name(inner)}' for inner in kind)}>"
    if t.is_decimal(kind):
        return f"decimal({kind.precision},{kind.scale})"
    if t.is_timestamp(kind):
        return "timestamp" if kind.tz else "timestamp_ntz"
    if (interval := interval_of(field)) is not None:
        return str(interval).lower()
    names = {
        "bool": "boolean", "int8": "tinyint", "int16": "smallint", "int32": "int", "int64": "bigint", "float": "float",
        "double": "double", "string": "string", "large_string": "string", "binary": "binary", "date32[day]": "date",
        "null": "void", "time64[us]": "time(6)",
    }  # fmt: skip
    return names.get(str(kind), str(kind))


def _values(column: pa.ChunkedArray) -> list:
    """As Python values, times as microseconds: Python has no year 0."""
    return column.cast(_counted(column.type)).to_pylist() if _counted(column.type) != column.type else column.to_pylist()


def _counted(kind: pa.DataType) -> pa.DataType:
    t = pa.types
    if t.is_timestamp(kind) or t.is_duration(kind):
        return pa.int64()
    if t.is_date(kind):
        return pa.int32()
    if t.is_list(kind):
        return pa.list_(kind.value_field.with_type(_counted(kind.value_type)))
    if t.is_map(kind):
        item = kind.item_field.with_type(_counted(kind.item_type))
        return pa.map_(kind.key_field.with_type(_counted(kind.key_type)), item)
    if t.is_struct(kind):
        return pa.struct([field.with_type(_counted(field.type)) for field in kind])
    return kind


def _top(value: object, field: pa.Field, zone: str) -> str:
    if value is None:
        return "NULL"
    return value if isinstance(value, str) else _text(value, field, zone)


def _text(value: object, of: pa.Field, zone: str) -> str:
    """A value that is no NULL."""
    kind, t = of.type, pa.types
    if t.is_list(kind):
        return f"[{','.join(_inner(one, kind.value_field, zone) for one in value)}]"
    if t.is_map(kind):
        pairs = (f"{_inner(key, kind.key_field, zone)}:{_inner(one, kind.item_field, zone)}" for key, one in value)
        return f"{{{','.join(sorted(pairs))}}}"
    if t.is_struct(kind):
        parts = (f'"{field.name}":{_inner(one, field, zone)}' for field, one in zip(kind, value.values(), strict=True))
        return f"{{{','.join(parts)}}}"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    if isinstance(value, Decimal):
        return f"{value:f}"
    if isinstance(value, float):
        return _double(value, kind)
    if t.is_date(kind):
        return _day(value)
    if t.is_time(kind):
        clock, point, fraction = value.isoformat().partition(".")
        return clock + point + fraction.rstrip("0")
    if t.is_timestamp(kind):
        return _moment(value, ZoneInfo(zone) if kind.tz else None)
    if t.is_duration(kind):
        return _day_time(_cut(value, _size(of)))
    if isinstance(value, pa.MonthDayNano):
        return _calendar(value) if is_calendar(interval_of(of)) else _year_month(_cut(value.months, _size(of)))
    return str(value)


def _inner(value: object, field: pa.Field, zone: str) -> str:
    """A value inside another one."""
    if value is None:
        return "null"
    return f'"{value}"' if isinstance(value, str) else _text(value, field, zone)


def _double(value: float, kind: pa.DataType) -> str:
    """As Java prints it."""
    if math.isnan(value) or math.isinf(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    text = _shortest(value, kind)
    sign, size = "-" if math.copysign(1, value) < 0 else "", abs(Decimal(text))
    if size == 0:
        return f"{sign}0.0"
    if _PLAIN_LEAST <= size < _PLAIN_MOST:
        plain = f"{size:f}"
        return f"{sign}{plain if '.' in plain else plain + '.0'}"
    digits = "".join(map(str, size.as_tuple().digits)).rstrip("0")
    return f"{sign}{digits[0]}.{digits[1:] or '0'}E{size.adjusted()}"


def _shortest(value: float, kind: pa.DataType) -> str:
    """The fewest digits that stand for the value."""
    return str(np.float32(value)) if kind == pa.float32() else repr(value)


def _day(days: int) -> str:
    """A date of the proleptic calendar, of any year."""
    cycles, rest = divmod(days, _CYCLE_DAYS)
    year, month, day = (_EPOCH + dt.timedelta(days=rest)).timetuple()[:3]
    return f"{_year(year + 400 * cycles)}-{month:02}-{day:02}"


def _year(year: int) -> str:
    return f"-{-year:04}" if year < 0 else f"{year:04}" if year <= 9999 else f"+{year}"


def _moment(micros: int, zone: ZoneInfo | None) -> str:
    if zone is not None:
        near = micros if micros < _ZONED_MOST else micros % _CYCLE + 18 * _CYCLE  # by the rules of a year from 9170
        known = _EPOCH + dt.timedelta(microseconds=max(near, _ZONED_LEAST))
        micros += known.replace(tzinfo=dt.timezone.utc).astimezone(zone).utcoffset() // dt.timedelta(microseconds=1)
    cycles, rest = divmod(micros, _CYCLE)
    moment = _EPOCH + dt.timedelta(microseconds=rest)
    fraction = f".{moment.microsecond:06}".rstrip("0") if moment.microsecond else ""
    return f"{_year(moment.year + 400 * cycles)}-{moment:%m-%d %H:%M:%S}{fraction}"


def _size(field: pa.Field) -> int:
    """Of the last field of an interval; seconds have a fraction."""
    last = interval_of(field).last
    return 1 if last == "SECOND" else SIZES[last]


def _cut(number: int, size: int) -> int:
    """What the last field of an interval shows of it."""
    return number // size * size if number >= 0 else -(-number // size * size)


def _year_month(months: int) -> str:
    return f"{'-' if months < 0 else ''}{abs(months) // 12}-{abs(months) % 12}"


def _calendar(value: pa.MonthDayNano) -> str:
    """With a sign before each amount, and without the amounts that are 0."""

    def parts(number: int, *sizes: int) -> list[int]:
        sign, rest, found = -1 if number < 0 else 1, abs(number), []
        for size in sizes:
            found.append(sign * (rest // size))
            rest %= size
        return [*found, sign * rest]

    years, months = parts(value.months, 12)
    hours, minutes, micros = parts(value.nanoseconds // 1000, 3_600_000_000, 60_000_000)
    seconds = f"{Decimal(micros).scaleb(-6).normalize():f}"
    named = {"years": years, "months": months, "days": value.days, "hours": hours, "minutes": minutes, "seconds": seconds}
    return " ".join(f"{amount} {name}" for name, amount in named.items() if amount not in (0, "0")) or "0 seconds"


def _day_time(micros: int) -> str:
    sign, size = "-" if micros < 0 else "", abs(micros)
    seconds, micro = divmod(size, 1_000_000)
    days, seconds = divmod(seconds, 86_400)
    return f"{sign}{days} {seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.{micro * 1000:09}"
