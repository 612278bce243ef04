"""Converts literals of SQL text to Python values, in Spark's formats (ANSI mode, the default since 4.0).

`cast` is Spark's `CAST(literal AS type)`: exact, or rounded as Spark rounds, or a ValueError that names the format. The formats
are those of Spark's "Literals" and "ANSI Compliance" pages; special dates such as 'today' are not supported.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from datetime import date, datetime, time, timedelta, timezone, tzinfo
from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np
import pyarrow as pa

from lsmlake.types.type_table import of_value
from lsmlake.types.type_text import format_type

_INTEGER = re.compile(r"[+-]?[0-9]+")
_DECIMAL = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_PREFIXED = re.compile(r"(?:UTC|GMT|UT)([+-].+)")
_SPECIAL = re.compile(r"[+-]?(inf|infinity)|nan", re.IGNORECASE)
_DATE = "(?P<year>[0-9]{4})(?:-(?P<month>[0-9]{1,2})(?:-(?P<day>[0-9]{1,2})(?:[ T]TAIL)?)?)?"
_TIME = r"(?P<hour>[0-9]{1,2})(?::(?P<minute>[0-9]{1,2})(?::(?P<second>[0-9]{1,2})(?:\.(?P<fraction>[0-9]*))?ZONE)?)?"
_ZONE = r"\s*(?P<zone>Z|UTC|GMT|[+-][0-9]{1,2}(?::[0-9]{2})?|[A-Za-z_]+/[A-Za-z_/+-]+)?"
_DATE_FORMAT = re.compile(_DATE.replace("TAIL", ".*"), re.DOTALL)  # Spark's dates may be followed by anything
_TIMESTAMP_FORMAT = re.compile(_DATE.replace("TAIL", _TIME.replace("ZONE", _ZONE)))
_CLOCK_FORMAT = re.compile(r"[0-9]{1,2}:[0-9]{1,2}(:[0-9]{1,2}(\.[0-9]{0,6}0*)?)?")
_BOOLEANS = {**dict.fromkeys(("true", "t", "yes", "y", "1"), True), **dict.fromkeys(("false", "f", "no", "n", "0"), False)}
_BLANKS = "".join(map(chr, range(33))) + "\x7f"
_WIDE = Context(prec=100)
_OFFSET_HOURS_MAX = 18


def cast(value: object, kind: pa.DataType, zone: tzinfo) -> object:
    """Casts `value` to `kind` as Spark does; null stays null. `zone`: the session's time zone. Raises ValueError."""
    if value is None:
        return None
    for holds, convert in _CASTS:
        if holds(kind):
            trimmed = isinstance(value, str) and convert not in (_text, _bytes)
            return convert(value.strip(_BLANKS) if trimmed else value, kind, zone)
    raise ValueError(f"there are no literals of type {format_type(kind)}")


def is_usual_time(text: str, kind: pa.DataType) -> bool:
    """Whether a text has the form of a DATE or TIMESTAMP that `cast` knows: if `cast` refuses it, there is no such time."""
    return (_DATE_FORMAT if pa.types.is_date(kind) else _TIMESTAMP_FORMAT).fullmatch(text.strip(_BLANKS)) is not None


def number(text: str) -> int | float | Decimal:
    """Parses an unsigned SQL number: an integer, a DECIMAL (`1.5`) or a DOUBLE (`1e3`). Raises ValueError."""
    if not _DECIMAL.fullmatch(text):
        raise ValueError(f"{text} is not a number")
    if "e" in text.lower():
        value = float(text)
        if value == float("inf"):
            raise ValueError(f"{text} is beyond DOUBLE")
        return value
    if sum(map(str.isdigit, text.lstrip("0"))) > 38:
        raise ValueError(f"{text} has more than 38 digits")
    return int(text) if text.isdecimal() else Decimal(text)


def zone_named(name: str) -> tzinfo:
    """Returns the time zone with this name. Raises ValueError."""
    if name in ("UTC", "GMT", "UT", "Z", "Etc/UTC"):
        return timezone.utc
    if offset := _PREFIXED.fullmatch(name):  # Java's ZoneId reads UTC+8 as +8
        name = offset[1]
    if name.startswith(("+", "-")):
        hours, _, minutes = name[1:].partition(":")
        offset = timedelta(hours=int(hours), minutes=int(minutes or 0))
        if offset > timedelta(hours=_OFFSET_HOURS_MAX):
            raise ValueError(f"{name} is beyond 18 hours")
        return timezone(-offset if name[0] == "-" else offset)
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise ValueError(f"{name} is not a time zone") from error


def _text(value: object, kind: pa.DataType, zone: tzinfo) -> str:
    if isinstance(value, str):
        return value
    if type(value) is int:
        return str(value)
    raise _refused(value, kind, "a string")


def _bytes(value: object, kind: pa.DataType, zone: tzinfo) -> bytes:
    if isinstance(value, bytes | str):
        return value.encode() if isinstance(value, str) else value
    raise _refused(value, kind, "X'1F'")


def _bool(value: object, kind: pa.DataType, zone: tzinfo) -> bool:
    if isinstance(value, str) and value.lower() in _BOOLEANS:
        return _BOOLEANS[value.lower()]
    if isinstance(value, bool):
        return value
    raise _refused(value, kind, "TRUE or FALSE")


def _int(value: object, kind: pa.DataType, zone: tzinfo) -> int:
    if _is_text(value, _INTEGER) or (_is_number(value) and math.isfinite(value)):
        whole = int(value)  # towards zero
        half = 1 << kind.bit_width - 1
        if -half <= whole < half:
            return whole
    raise _refused(value, kind, f"digits, within {kind.bit_width} bits")


def _float(value: object, kind: pa.DataType, zone: tzinfo) -> float:
    if isinstance(value, str):
        digits = value[:-1] if value[-1:] in "dDfF" and not _SPECIAL.fullmatch(value) else value
        if not (_DECIMAL.fullmatch(digits) or _SPECIAL.fullmatch(value)):
            raise _refused(value, kind, "a number such as 1.5, 1e3, NaN or Infinity")
        value = digits
    elif not _is_number(value):
        raise _refused(value, kind, "a number")
    if kind == pa.float64():
        return float(value) + 0.0
    if isinstance(value, float):
        with np.errstate(over="ignore"):
            return float(np.float32(value)) + 0.0
    return pa.scalar(str(value)).cast(pa.float32()).as_py() + 0.0  # rounded once, not by way of a double


def _decimal(value: object, kind: pa.DataType, zone: tzinfo) -> Decimal:
    if type(value) in (int, Decimal) or _is_text(value, _DECIMAL):
        try:
            rounded = Decimal(value).quantize(Decimal(1).scaleb(-kind.scale), ROUND_HALF_UP, _WIDE)
        except InvalidOperation as error:
            raise _refused(value, kind, "fewer digits") from error
        if len(rounded.as_tuple().digits) <= kind.precision:
            return rounded
    raise _refused(value, kind, f"a number of at most {kind.precision} digits, {kind.scale} of them after the point")


def _date(value: object, kind: pa.DataType, zone: tzinfo) -> date:
    if isinstance(value, str) and (moment := _moment(value, _DATE_FORMAT)):
        return moment[0].date()
    if isinstance(value, datetime):
        return (value.astimezone(zone) if value.tzinfo else value).date()
    if isinstance(value, date):
        return value
    raise _refused(value, kind, "2026-01-31")


def _timestamp(value: object, kind: pa.DataType, zone: tzinfo) -> datetime:
    stamp, own_zone = value, None
    if isinstance(value, str) and (moment := _moment(value, _TIMESTAMP_FORMAT)):
        stamp, own_zone = moment
    elif isinstance(value, date) and not isinstance(value, datetime):
        stamp = datetime.combine(value, time())
    if not isinstance(stamp, datetime):
        raise _refused(value, kind, "2026-01-31 13:45:00.123456, maybe with a zone such as Z, +01:00 or Europe/Berlin")
    if kind.tz is None:
        if own_zone or (stamp.tzinfo and zone is not timezone.utc):
            raise _refused(value, kind, "a timestamp without zone, TIMESTAMP_NTZ '2026-01-31 13:45:00'")
        return stamp.replace(tzinfo=None)
    if stamp.tzinfo is None:
        stamp = stamp.replace(tzinfo=zone_named(own_zone) if own_zone else zone)
    return stamp.astimezone(timezone.utc)


def _clock(value: object, kind: pa.DataType, zone: tzinfo) -> time:
    if _is_text(value, _CLOCK_FORMAT) and (moment := _moment(f"1970-01-01 {value}", _TIMESTAMP_FORMAT)):
        return moment[0].time()
    if isinstance(value, datetime):
        return (value.astimezone(zone) if value.tzinfo else value).time()
    if isinstance(value, time) and value.tzinfo is None:
        return value
    raise _refused(value, kind, "10:30:00 or 10:30:00.123456")


def _moment(text: str, form: re.Pattern) -> tuple[datetime, str | None] | None:
    """Parses `text` into a local time and its zone name (None: no zone). Returns None if it does not match."""
    match = form.fullmatch(text)
    if match is None:
        return None
    parts = match.groupdict()
    day = [int(parts[name] or 1) for name in ("year", "month", "day")]
    clock = [int(parts.get(name) or 0) for name in ("hour", "minute", "second")]
    micros = int((parts.get("fraction") or "")[:6].ljust(6, "0"))  # more digits are cut off
    try:
        return datetime(*day, *clock, micros), parts.get("zone")
    except ValueError:
        return None


def _is_text(value: object, form: re.Pattern) -> bool:
    return isinstance(value, str) and form.fullmatch(value) is not None


def _is_number(value: object) -> bool:
    return isinstance(value, int | float | Decimal) and not isinstance(value, bool)


def _refused(value: object, kind: pa.DataType, form: str) -> ValueError:
    return ValueError(f"{show(value)} cannot be cast to {format_type(kind)}, which is written as {form}")


def show(value: object) -> str:
    """Formats a literal as SQL."""
    match value:
        case None | bool():
            return {None: "NULL", True: "TRUE", False: "FALSE"}[value]
        case str():
            return f"'{value}'"
        case bytes():
            return f"X'{value.hex().upper()}'"
    row = of_value(value)
    return str(value) if row is None else f"{row.name} '{value}'"


_CASTS: tuple[tuple[Callable, Callable], ...] = (
    (pa.types.is_string, _text),
    (pa.types.is_binary, _bytes),
    (pa.types.is_boolean, _bool),
    (pa.types.is_integer, _int),
    (pa.types.is_floating, _float),
    (pa.types.is_decimal, _decimal),
    (pa.types.is_date, _date),
    (pa.types.is_timestamp, _timestamp),
    (pa.types.is_time, _clock),
)
