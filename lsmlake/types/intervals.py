"""The types of INTERVAL that values of SQL have: year-month, day-time and calendar intervals, and what they are in Arrow.

    Interval.of("DAY", "SECOND")                # INTERVAL DAY TO SECOND: a number of microseconds
    Interval.of("YEAR", "MONTH")                # INTERVAL YEAR TO MONTH: a number of months
    CALENDAR                                    # INTERVAL, as make_interval gives: months, days and microseconds
    result_field("x", kind)                     # the column of a result: a duration, or an interval of months, days, nanoseconds
    interval_of(field)                          # the type of such a column; None for others

Arrow has no fields of intervals, so the metadata of a column names the type. Tables have no such columns:
`types.column_types.canonical` refuses them.
"""

from __future__ import annotations

from functools import cache

import pyarrow as pa

from lsmlake.types.column_types import inner_fields, with_inner_fields

SQL_TYPE = b"sql_type"
"""Metadata of a field of a result: the type of INTERVAL."""
MONTHS, MICROSECONDS = ("YEAR", "MONTH"), ("DAY", "HOUR", "MINUTE", "SECOND")
"""The fields of intervals that are a number of months, and of those that are a number of microseconds."""
SIZES = {"YEAR": 12, "MONTH": 1, "DAY": 86_400_000_000, "HOUR": 3_600_000_000, "MINUTE": 60_000_000, "SECOND": 1_000_000}
"""Field -> its number of months or microseconds."""
DURATION, MONTHS_DAYS_NANOSECONDS = pa.duration("us"), pa.month_day_nano_interval()
_STORED = pa.struct([("months", pa.int32()), ("days", pa.int32()), ("microseconds", pa.int64())])


class Interval(pa.ExtensionType):
    """A type of INTERVAL. It stands in types of expressions; no array has it.

    Attributes:
        first, last: The fields, such as DAY and SECOND; "" for a calendar interval.
    """

    def __init__(self, first: str, last: str) -> None:
        self.first, self.last = first, last
        stored = _STORED if not first else pa.int32() if first in MONTHS else pa.int64()
        super().__init__(stored, f"lsmlake.interval {first} {last}")

    @staticmethod
    @cache
    def of(first: str, last: str) -> Interval:
        """The type with these fields."""
        return Interval(first, last)

    @property
    def fields(self) -> tuple[str, ...]:
        """The fields from the first to the last."""
        known = MONTHS if self.is_months else MICROSECONDS
        return known[known.index(self.first) : known.index(self.last) + 1] if self.first else ()

    @property
    def is_months(self) -> bool:
        """Whether a value is a number of months."""
        return self.first in MONTHS

    @property
    def is_calendar(self) -> bool:
        """Whether a value has months, days and microseconds. Such values cannot be compared."""
        return not self.first

    @property
    def whole(self) -> Interval:
        """The type with all fields of its kind, which products and averages have."""
        return YEAR_MONTH if self.is_months else DAY_TIME

    @property
    def arrow(self) -> pa.DataType:
        """The type of a column of a result."""
        return MONTHS_DAYS_NANOSECONDS if self.is_months or self.is_calendar else DURATION

    def with_(self, other: Interval) -> Interval | None:
        """The type that holds the values of both; None if there is none."""
        if self.storage_type != other.storage_type or self.is_calendar:
            return self if self == other else None
        known = MONTHS if self.is_months else MICROSECONDS
        first, last = min(self.first, other.first, key=known.index), max(self.last, other.last, key=known.index)
        return Interval.of(first, last)

    def __arrow_ext_serialize__(self) -> bytes:
        return f"{self.first} {self.last}".encode()

    @classmethod
    def __arrow_ext_deserialize__(cls, storage_type: pa.DataType, serialized: bytes) -> Interval:
        return cls.of(*serialized.decode().split(" "))

    def __reduce__(self) -> tuple[object, ...]:
        return Interval.of, (self.first, self.last)

    def __hash__(self) -> int:
        return hash(str(self))

    def __str__(self) -> str:
        """The name in SQL."""
        return " ".join(("INTERVAL", *((self.first,) if self.first == self.last else (self.first, "TO", self.last)))).rstrip()

    __repr__ = __str__


CALENDAR = Interval.of("", "")
YEAR_MONTH, DAY_TIME = Interval.of(*MONTHS), Interval.of("DAY", "SECOND")
DAYS, MONTH = Interval.of("DAY", "DAY"), Interval.of("MONTH", "MONTH")
KINDS = {
    str(kind): kind
    for kind in (
        CALENDAR,
        *(Interval.of(first, last) for known in (MONTHS, MICROSECONDS) for at, first in enumerate(known) for last in known[at:]),
    )
}
"""Name in SQL -> type."""


def is_interval(kind: pa.DataType) -> bool:
    """Whether a type of an expression is an INTERVAL."""
    return isinstance(kind, Interval)


def is_calendar(kind: pa.DataType) -> bool:
    """Whether a type is INTERVAL without fields, whose values have no order and no sum."""
    return is_interval(kind) and kind.is_calendar


def interval_in(kind: pa.DataType) -> Interval | None:
    """The INTERVAL that a type of an expression is, or the first one inside of it; None if there is none."""
    inside = (interval_in(field.type) for field in inner_fields(kind))
    return kind if is_interval(kind) else next((one for one in inside if one is not None), None)


def has_interval(kind: pa.DataType) -> bool:
    """Whether a type of an expression is an INTERVAL or has one inside."""
    return interval_in(kind) is not None


def result_field(name: str, kind: pa.DataType, nullable: bool = True) -> pa.Field:
    """The column of a result for values of a type."""
    if isinstance(kind, Interval):
        return pa.field(name, kind.arrow, nullable, {SQL_TYPE: str(kind).encode()})
    if not has_interval(kind):
        return pa.field(name, kind, nullable)
    inner = [result_field(field.name, field.type, field.nullable) for field in inner_fields(kind)]
    return pa.field(name, with_inner_fields(kind, inner), nullable)


def interval_of(field: pa.Field) -> Interval | None:
    """The type of the intervals in a column; None for other columns."""
    if not (pa.types.is_duration(field.type) or field.type == MONTHS_DAYS_NANOSECONDS):
        return None
    named = KINDS.get((field.metadata or {}).get(SQL_TYPE, b"").decode())
    fits = named is not None and (named.arrow == field.type or (named.arrow == DURATION and pa.types.is_duration(field.type)))
    return named if fits else DAY_TIME if pa.types.is_duration(field.type) else CALENDAR


def sql_type(field: pa.Field) -> pa.DataType:
    """The type of the values in a column of a result, with intervals as they are in SQL."""
    if not has_result_interval(field):
        return field.type
    inner = [pa.field(one.name, sql_type(one), one.nullable) for one in inner_fields(field.type)]
    return interval_of(field) or with_inner_fields(field.type, inner)


def column_of_months(schema: pa.Schema) -> str | None:
    """The first column of a result with intervals that are no durations, also inside its values; None if there is none."""
    return next((field.name for field in schema if _has_months(field)), None)


def _has_months(field: pa.Field) -> bool:
    return field.type == MONTHS_DAYS_NANOSECONDS or any(map(_has_months, inner_fields(field.type)))


def has_result_interval(field: pa.Field) -> bool:
    """Whether a column of a result has intervals, also inside its values."""
    return interval_of(field) is not None or any(map(has_result_interval, inner_fields(field.type)))
