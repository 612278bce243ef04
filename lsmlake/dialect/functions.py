"""The functions of Spark SQL that have an equal in DuckDB, by name. A function that is not here is refused.

`{0}`, `{1}`, ... in a template are the arguments, converted to the types of the parameters. `...` repeats the last parameter.
Functions whose result depends on the types of the arguments are in `polymorphic`.
"""

from __future__ import annotations

from typing import NamedTuple

import pyarrow as pa

from lsmlake.dialect.types import BIGINT, BINARY, BOOLEAN, DATE, DOUBLE, INT, STRING, TIMESTAMP


class Function(NamedTuple):
    """`takes`: the types of the parameters. `gives`: the type of the result. `template`: the call in DuckDB."""

    takes: tuple[pa.DataType, ...]
    gives: pa.DataType
    template: str


_S, _I, _L, _D, _T, _DAY = STRING, INT, BIGINT, DOUBLE, TIMESTAMP, DATE


def _double(call: str) -> list[Function]:
    return [Function((_D,), _D, call)]


def _int(what: str) -> str:
    return f"CAST({what} AS INTEGER)"


_TRIMS = {
    name: [Function((_S,), _S, f"{call}({{0}}, ' ')")]
    for name, call in (("trim", "trim"), ("ltrim", "ltrim"), ("rtrim", "rtrim"))
}
_DATE_PARTS = {
    "year": "year({0})",
    "quarter": "quarter({0})",
    "month": "month({0})",
    "day": "day({0})",
    "dayofmonth": "day({0})",
    "dayofyear": "dayofyear({0})",
    "weekofyear": "weekofyear({0})",
    "dayofweek": "dayofweek({0}) + 1",
    "weekday": "isodow({0}) - 1",
}
_TIME_PARTS = {"hour": "hour({0})", "minute": "minute({0})", "second": "second({0})"}
_LOGARITHM = "CASE WHEN {{0}} <= 0 THEN NULL ELSE {}({{0}}) END"

FUNCTIONS: dict[str, list[Function]] = {
    # text
    "upper": [Function((_S,), _S, "upper({0})")],
    "ucase": [Function((_S,), _S, "upper({0})")],
    "lower": [Function((_S,), _S, "lower({0})")],
    "lcase": [Function((_S,), _S, "lower({0})")],
    "length": [Function((_S,), _I, _int("length({0})")), Function((BINARY,), _I, _int("octet_length({0})"))],
    "len": [Function((_S,), _I, _int("length({0})"))],
    "char_length": [Function((_S,), _I, _int("length({0})"))],
    "character_length": [Function((_S,), _I, _int("length({0})"))],
    "octet_length": [Function((BINARY,), _I, _int("octet_length({0})"))],
    **_TRIMS,
    "replace": [Function((_S, _S, _S), _S, "replace({0}, {1}, {2})"), Function((_S, _S), _S, "replace({0}, {1}, '')")],
    "substring": [
        Function((_S, _I), _S, "spark_substring({0}, CAST({1} AS BIGINT), 2147483647)"),
        Function((_S, _I, _I), _S, "spark_substring({0}, CAST({1} AS BIGINT), CAST({2} AS BIGINT))"),
    ],
    "left": [Function((_S, _I), _S, "spark_substring({0}, 1, {1})")],
    "right": [Function((_S, _I), _S, "CASE WHEN {1} <= 0 THEN '' || left({0}, 0) ELSE right({0}, {1}) END")],
    "lpad": [
        Function((_S, _I, _S), _S, "lpad({0}, greatest({1}, 0), {2})"),
        Function((_S, _I), _S, "lpad({0}, greatest({1}, 0), ' ')"),
    ],
    "rpad": [
        Function((_S, _I, _S), _S, "rpad({0}, greatest({1}, 0), {2})"),
        Function((_S, _I), _S, "rpad({0}, greatest({1}, 0), ' ')"),
    ],
    "repeat": [Function((_S, _I), _S, "repeat({0}, greatest({1}, 0))")],
    "instr": [Function((_S, _S), _I, _int("instr({0}, {1})"))],
    "locate": [Function((_S, _S), _I, _int("instr({1}, {0})"))],
    "startswith": [Function((_S, _S), BOOLEAN, "starts_with({0}, {1})")],
    "endswith": [Function((_S, _S), BOOLEAN, "ends_with({0}, {1})")],
    "contains": [Function((_S, _S), BOOLEAN, "contains({0}, {1})")],
    "md5": [Function((BINARY,), _S, "md5({0})")],
    "hex": [Function((_L,), _S, "printf('%X', {0})")],
    "ascii": [Function((_S,), _I, "CASE WHEN {0} = '' THEN 0 ELSE ascii({0}) END")],
    # numbers
    "sqrt": [Function((_D,), _D, "CASE WHEN {0} < 0 THEN CAST('NaN' AS DOUBLE) ELSE sqrt({0}) END")],
    "exp": _double("exp({0})"),
    "ln": _double(_LOGARITHM.format("ln")),
    "log10": _double(_LOGARITHM.format("log10")),
    "log2": _double(_LOGARITHM.format("log2")),
    "power": [Function((_D, _D), _D, "pow({0}, {1})")],
    "pow": [Function((_D, _D), _D, "pow({0}, {1})")],
    "sign": _double("CAST(sign({0}) AS DOUBLE)"),
    "signum": _double("CAST(sign({0}) AS DOUBLE)"),
    "pi": [Function((), _D, "pi()")],
    "isnan": [Function((_D,), BOOLEAN, "coalesce(isnan({0}), false)")],
    "nanvl": [Function((_D, _D), _D, "CASE WHEN isnan({0}) THEN {1} ELSE {0} END")],
    # dates and times
    **{name: [Function((_DAY,), _I, _int(call)), Function((_T,), _I, _int(call))] for name, call in _DATE_PARTS.items()},
    **{name: [Function((_T,), _I, _int(call))] for name, call in _TIME_PARTS.items()},
    "date_add": [Function((_DAY, _I), _DAY, "({0} + {1})")],
    "dateadd": [Function((_DAY, _I), _DAY, "({0} + {1})")],
    "date_sub": [Function((_DAY, _I), _DAY, "({0} - {1})")],
    "datediff": [Function((_DAY, _DAY), _I, _int("{0} - {1}"))],
    "date_diff": [Function((_DAY, _DAY), _I, _int("{0} - {1}"))],
    "add_months": [Function((_DAY, _I), _DAY, "CAST({0} + to_months({1}) AS DATE)")],
    "last_day": [Function((_DAY,), _DAY, "last_day({0})")],
    "make_date": [Function((_I, _I, _I), _DAY, "make_date({0}, {1}, {2})")],
    "to_date": [
        Function((_DAY,), _DAY, "{0}"),
        Function((_T,), _DAY, "CAST({0} AS DATE)"),
        Function((_S,), _DAY, "CAST(spark_whole_date(spark_date_text({0})) AS DATE)"),
    ],
    "to_timestamp": [
        Function((_T,), _T, "{0}"),
        Function((_S,), _T, "CAST(spark_zoned_text({0}) AS TIMESTAMP WITH TIME ZONE)"),
    ],
    "unix_seconds": [Function((_T,), _L, "CAST(floor(epoch_us({0}) / 1000000) AS BIGINT)")],
    "unix_millis": [Function((_T,), _L, "CAST(floor(epoch_us({0}) / 1000) AS BIGINT)")],
    "unix_micros": [Function((_T,), _L, "epoch_us({0})")],
    "unix_date": [Function((_DAY,), _I, _int("{0} - DATE '1970-01-01'"))],
    "timestamp_seconds": [Function((_L,), _T, "make_timestamptz({0} * 1000000)")],
    "timestamp_millis": [Function((_L,), _T, "make_timestamptz({0} * 1000)")],
    "timestamp_micros": [Function((_L,), _T, "make_timestamptz({0})")],
}
FUNCTIONS["substr"] = FUNCTIONS["substring"]

UNITS = {
    "YEAR": "year", "YYYY": "year", "YY": "year", "QUARTER": "quarter", "MONTH": "month", "MON": "month", "MM": "month",
    "WEEK": "week", "DAY": "day", "DD": "day", "HOUR": "hour", "MINUTE": "minute", "SECOND": "second",
    "MILLISECOND": "milliseconds", "MICROSECOND": "microseconds",
}  # fmt: skip
"""The units of date_trunc and trunc -> DuckDB's."""
DATE_UNITS = ("year", "quarter", "month", "week")
INTERVALS = {
    "YEAR": "months", "MONTH": "months", "WEEK": "days", "DAY": "days", "HOUR": "time", "MINUTE": "time", "SECOND": "time",
}  # fmt: skip
"""The units of an INTERVAL -> what they add."""
EXTRACTS = {
    "YEAR": "year", "QUARTER": "quarter", "MONTH": "month", "WEEK": "weekofyear", "DAY": "day", "DAYOFWEEK": "dayofweek",
    "DOW": "dayofweek", "DOY": "dayofyear", "HOUR": "hour", "MINUTE": "minute",
}  # fmt: skip
"""The fields of EXTRACT -> the function that gives them."""
