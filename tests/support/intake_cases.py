"""The values of the check tables of intake: their types, their forms in Python, CSV and JSON, and what a table holds.

The expected values are Python's own: `zoneinfo` gives the instant of a local time, `struct` the FLOAT nearest to a number.
"""

from __future__ import annotations

import datetime as dt
import struct
from collections.abc import Callable
from decimal import Decimal
from typing import NamedTuple
from zoneinfo import ZoneInfo

UTC = dt.timezone.utc
LOCAL, DAY = dt.datetime(2026, 7, 1, 22, 30), dt.date(2026, 7, 1)
EARLY = dt.datetime(1850, 1, 1, 12, 0, 0, 123456)  # before standard time


def in_zone(local: dt.datetime) -> Callable[[str], dt.datetime]:
    return lambda zone: local.replace(tzinfo=ZoneInfo(zone)).astimezone(UTC)


def float32(value: float) -> float:
    return struct.unpack("f", struct.pack("f", value))[0]


class Case(NamedTuple):
    """A value in Python, its text in CSV, its JSON (default: that of the value), and what the table holds."""

    type: str
    value: object
    text: str | None
    json: str | None = None
    stored: object = "value"

    def expected(self, zone: str) -> object:
        return self.value if self.stored == "value" else self.stored(zone) if callable(self.stored) else self.stored


CASES = {
    "true": Case("BOOLEAN", True, "true"),
    "false": Case("BOOLEAN", False, "FALSE", "false"),
    "tinyint": Case("TINYINT", -128, "-128"),
    "smallint": Case("SMALLINT", 32767, "+32767", "32767"),
    "int": Case("INT", -(2**31), str(-(2**31))),
    "zeros": Case("INT", 7, "007", "7.0"),
    "bigint": Case("BIGINT", 2**63 - 1, str(2**63 - 1)),
    "whole number": Case("BIGINT", 2**53 + 1, f"{2**53 + 1}.0", str(2**53 + 1)),
    "float": Case("FLOAT", 0.1, "0.1", stored=float32(0.1)),
    "double": Case("DOUBLE", 0.1, "0.1"),
    "great double": Case("DOUBLE", 1e300, "1e300"),
    "infinity": Case("DOUBLE", float("inf"), "inf", "Infinity"),
    "decimal": Case("DECIMAL(20,4)", Decimal("1234567890123456.5678"), "1234567890123456.5678", "1234567890123456.5678"),
    "decimal of a float": Case("DECIMAL(10,2)", 0.1, "1e-1", "0.1", Decimal("0.10")),
    "text": Case("STRING", 'é ; , "x"', '"é ; , ""x"""'),
    "text of digits": Case("STRING", "007", "007"),
    "text of blanks": Case("STRING", " a ", " a "),
    "empty text": Case("STRING", "", '""'),
    "text of a null word": Case("STRING", "NA", "NA"),
    "two lines": Case("STRING", "a\nb", '"a\nb"'),
    "date as text": Case("STRING", "2026-07-01", "2026-07-01"),
    "time as text": Case("STRING", "2026-07-01T22:30:00+02:00", "2026-07-01T22:30:00+02:00"),
    "varchar": Case("VARCHAR(3)", "abc", "abc"),
    "char": Case("CHAR(3)", "a", "a", stored="a  "),
    "bytes": Case("BINARY", b"ab", "ab", '"ab"'),
    "date": Case("DATE", DAY, "2026-07-01", '"2026-07-01"'),
    "date before 1970": Case("DATE", dt.date(1, 1, 1), "0001-01-01", '"0001-01-01"'),
    "time of day": Case("TIME", dt.time(22, 30, 0, 500_000), "22:30:00.500000", '"22:30:00.5"'),
    "end of the day": Case("TIME", dt.time.max, "23:59:59.999999", '"23:59:59.999999000"'),
    "instant": Case("TIMESTAMP", LOCAL.replace(tzinfo=UTC), "2026-07-01T22:30:00Z", '"2026-07-01T22:30:00Z"'),
    "instant of another zone": Case(
        "TIMESTAMP",
        LOCAL.replace(tzinfo=dt.timezone(dt.timedelta(hours=2))),
        "2026-07-01 22:30:00+02:00",
        '"2026-07-01T22:30:00+02:00"',
    ),
    "local time": Case("TIMESTAMP", LOCAL, "2026-07-01 22:30:00", '"2026-07-01T22:30:00"', in_zone(LOCAL)),
    "local time in winter": Case(
        "TIMESTAMP", LOCAL.replace(month=1), "2026-01-01 22:30:00", '"2026-01-01 22:30"', in_zone(LOCAL.replace(month=1))
    ),
    "local time long ago": Case("TIMESTAMP", EARLY, "1850-01-01 12:00:00.123456", '"1850-01-01T12:00:00.123456"', in_zone(EARLY)),
    "local midnight": Case("TIMESTAMP", DAY, "2026-07-01", '"2026-07-01"', in_zone(dt.datetime(2026, 7, 1))),
    "no zone": Case("TIMESTAMP_NTZ", LOCAL, "2026-07-01T22:30:00", '"2026-07-01T22:30:00"'),
    "no zone, microseconds": Case("TIMESTAMP_NTZ", EARLY, "1850-01-01 12:00:00.123456", '"1850-01-01T12:00:00.123456"'),
    "no zone, midnight": Case("TIMESTAMP_NTZ", DAY, "2026-07-01", '"2026-07-01"', dt.datetime(2026, 7, 1)),
    "list": Case("ARRAY<BIGINT>", [1, None, 2**53 + 1], None),
    "struct": Case("STRUCT<a: INT, b: STRING>", {"a": 1, "b": "007"}, None),
    "local time in a list": Case(
        "ARRAY<TIMESTAMP>", [LOCAL], None, '["2026-07-01T22:30:00"]', lambda zone: [in_zone(LOCAL)(zone)]
    ),
    "decimal in a struct": Case("STRUCT<d: DECIMAL(20,4)>", {"d": Decimal("0.1000")}, None, '{"d": 0.1}'),
}


Cases = dict[str, Case]
