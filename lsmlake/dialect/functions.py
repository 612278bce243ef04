"""The functions of Spark SQL that have an equal in DuckDB, by name. A function that is not here is refused.

`{0}`, `{1}`, ... in a template are the arguments, converted to the types of the parameters. `...` repeats the last parameter.
Functions whose result depends on the types of the arguments are in modules by subject: `numbers`, `strings`, `arrays` and the
others that `registry` lists.
"""

from __future__ import annotations

from typing import NamedTuple

import pyarrow as pa

from lsmlake.dialect.failures import refused
from lsmlake.dialect.sql_types import BIGINT, BINARY, BOOLEAN, DATE, DOUBLE, INT, STRING, TIME, TIMESTAMP


class SqlFunction(NamedTuple):
    """`takes`: the types of the parameters. `gives`: the type of the result. `template`: the call in DuckDB. `strict`: Spark
    converts no arguments of other kinds."""

    takes: tuple[pa.DataType, ...]
    gives: pa.DataType
    template: str
    strict: bool = False


_S, _I, _L, _D, _T, _DAY, _B = STRING, INT, BIGINT, DOUBLE, TIMESTAMP, DATE, BINARY


def _double(call: str) -> list[SqlFunction]:
    return [SqlFunction((_D,), _D, call)]


def _int(what: str) -> str:
    return f"CAST({what} AS INTEGER)"


def _padded(side: str) -> list[SqlFunction]:
    """`lpad` and `rpad`, of text with spaces and of bytes with zeros."""
    call = f"CASE WHEN {{2}} = '' THEN left({{0}}, {{1}}) ELSE {side}({{0}}, {{1}}, {{2}}) END"
    of_text = [call.format("{0}", "greatest({1}, 0)", what) for what in ("' '", "{2}")]
    of_bytes = [f"unhex({call.format('hex({0})', '2 * greatest({1}, 0)', what)})" for what in ("'00'", "hex({2})")]
    return [
        SqlFunction((_S, _I), _S, of_text[0]),
        SqlFunction((_S, _I, _S), _S, of_text[1]),
        SqlFunction((_B, _I), _B, of_bytes[0]),
        SqlFunction((_B, _I, _B), _B, of_bytes[1]),
    ]


_LENGTH = [SqlFunction((_S,), _I, _int("length({0})")), SqlFunction((_B,), _I, _int("octet_length({0})"))]
_TRIMS = {
    name: [SqlFunction((_S,), _S, f"{call}({{0}}, ' ')")]
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
_NOT_ENCODED = refused("concat({0}, ' cannot be decoded: two hexadecimal digits follow %; correct the text')")
_URL_DECODE = (
    "CASE WHEN regexp_matches({0}, '%([^0-9A-Fa-f]|.[^0-9A-Fa-f]|.?$)') "
    f"THEN {_NOT_ENCODED} ELSE url_decode(replace({{0}}, '+', ' ')) END"
)
_LOGARITHM = "CASE WHEN {{0}} <= 0 THEN NULL ELSE {}({{0}}) END"
_POWER = "CASE WHEN isnan({1}) OR (abs({0}) = 1 AND isinf({1})) THEN CAST('NaN' AS DOUBLE) ELSE pow({0}, {1}) END"  # as in Java

FUNCTIONS: dict[str, list[SqlFunction]] = {
    # text
    "upper": [SqlFunction((_S,), _S, "upper({0})")],
    "ucase": [SqlFunction((_S,), _S, "upper({0})")],
    "lower": [SqlFunction((_S,), _S, "lower({0})")],
    "lcase": [SqlFunction((_S,), _S, "lower({0})")],
    **dict.fromkeys(("length", "len", "char_length", "character_length"), _LENGTH),
    "octet_length": [
        SqlFunction((_B,), _I, _int("octet_length({0})")),
        SqlFunction((_S,), _I, _int("octet_length(encode({0}))")),
    ],
    **_TRIMS,
    "replace": [SqlFunction((_S, _S, _S), _S, "replace({0}, {1}, {2})"), SqlFunction((_S, _S), _S, "replace({0}, {1}, '')")],
    "substring": [
        SqlFunction((_S, _I), _S, "spark_substring({0}, CAST({1} AS BIGINT), 2147483647)"),
        SqlFunction((_S, _I, _I), _S, "spark_substring({0}, CAST({1} AS BIGINT), CAST({2} AS BIGINT))"),
        SqlFunction((_B, _I), _B, "spark_bytes_part({0}, CAST({1} AS BIGINT), 2147483647)"),
        SqlFunction((_B, _I, _I), _B, "spark_bytes_part({0}, CAST({1} AS BIGINT), CAST({2} AS BIGINT))"),
    ],
    "left": [
        SqlFunction((_S, _I), _S, "spark_substring({0}, 1, {1})"),
        SqlFunction((_B, _I), _B, "spark_bytes_part({0}, 1, CAST({1} AS BIGINT))"),
    ],
    "right": [SqlFunction((_S, _I), _S, "CASE WHEN {1} <= 0 THEN '' || left({0}, 0) ELSE right({0}, {1}) END")],
    "lpad": _padded("lpad"),
    "rpad": _padded("rpad"),
    "repeat": [SqlFunction((_S, _I), _S, "repeat({0}, greatest({1}, 0))")],
    "instr": [SqlFunction((_S, _S), _I, _int("instr({0}, {1})"))],
    "locate": [SqlFunction((_S, _S), _I, _int("instr({1}, {0})"))],
    "startswith": [
        SqlFunction((_S, _S), BOOLEAN, "starts_with({0}, {1})"),
        SqlFunction((_B, _B), BOOLEAN, "starts_with(hex({0}), hex({1}))"),
    ],
    "endswith": [
        SqlFunction((_S, _S), BOOLEAN, "ends_with({0}, {1})"),
        SqlFunction((_B, _B), BOOLEAN, "ends_with(hex({0}), hex({1}))"),
    ],
    "contains": [
        SqlFunction((_S, _S), BOOLEAN, "contains({0}, {1})"),
        SqlFunction((_B, _B), BOOLEAN, "spark_bytes_contain({0}, {1})"),
    ],
    "initcap": [SqlFunction((_S,), _S, "spark_initcap({0})")],
    "translate": [SqlFunction((_S, _S, _S), _S, "translate({0}, {1}, {2})")],
    "substring_index": [SqlFunction((_S, _S, _I), _S, "spark_substring_index({0}, {1}, {2})")],
    "split_part": [SqlFunction((_S, _S, _I), _S, "spark_split_part({0}, {1}, {2})")],
    "levenshtein": [SqlFunction((_S, _S), _I, _int("levenshtein({0}, {1})"))],
    "btrim": [SqlFunction((_S,), _S, "trim({0}, ' ')"), SqlFunction((_S, _S), _S, "trim({0}, {1})")],
    "space": [SqlFunction((_I,), _S, "repeat(' ', greatest({0}, 0))")],
    "chr": [SqlFunction((_L,), _S, "spark_chr({0})")],
    "char": [SqlFunction((_L,), _S, "spark_chr({0})")],
    "base64": [SqlFunction((_B,), _S, "base64({0})")],
    "unbase64": [SqlFunction((_S,), _B, "from_base64({0})")],
    "sha1": [SqlFunction((_B,), _S, "sha1({0})")],
    "sha": [SqlFunction((_B,), _S, "sha1({0})")],
    "url_encode": [SqlFunction((_S,), _S, "replace(replace(replace(url_encode({0}), '%20', '+'), '~', '%7E'), '%2A', '*')")],
    "url_decode": [SqlFunction((_S,), _S, _URL_DECODE)],
    "find_in_set": [
        SqlFunction(
            (_S, _S), _I, _int("CASE WHEN contains({0}, ',') THEN 0 ELSE coalesce(list_position(split({1}, ','), {0}), 0) END")
        )
    ],
    "bit_length": [
        SqlFunction((_B,), _I, _int("octet_length({0}) * 8")),
        SqlFunction((_S,), _I, _int("octet_length(encode({0})) * 8")),
    ],
    "md5": [SqlFunction((_B,), _S, "md5({0})")],
    "hex": [
        SqlFunction((_L,), _S, "printf('%X', {0})"),
        SqlFunction((_B,), _S, "hex({0})"),
        SqlFunction((_S,), _S, "hex(encode({0}))"),
    ],
    "unhex": [SqlFunction((_S,), _B, "spark_unhex({0})")],
    "quote": [SqlFunction((_S,), _S, r"chr(39) || replace({0}, chr(39), '\' || chr(39)) || chr(39)")],
    "luhn_check": [SqlFunction((_S,), BOOLEAN, "spark_luhn_check({0})")],
    "bin": [SqlFunction((_L,), _S, "CASE WHEN {0} = 0 THEN '0' ELSE bin({0}) END")],
    "ascii": [SqlFunction((_S,), _I, "CASE WHEN {0} = '' THEN 0 ELSE ascii({0}) END")],
    # numbers
    "sqrt": [SqlFunction((_D,), _D, "CASE WHEN {0} < 0 THEN CAST('NaN' AS DOUBLE) ELSE sqrt({0}) END")],
    "exp": _double("exp({0})"),
    "ln": _double(_LOGARITHM.format("ln")),
    "log10": _double(_LOGARITHM.format("log10")),
    "log2": _double(_LOGARITHM.format("log2")),
    "power": [SqlFunction((_D, _D), _D, _POWER)],
    "pow": [SqlFunction((_D, _D), _D, _POWER)],
    "e": [SqlFunction((), _D, "exp(1.0::DOUBLE)")],
    "degrees": _double("degrees({0})"),
    "radians": _double("radians({0})"),
    "log": [
        SqlFunction((_D,), _D, _LOGARITHM.format("ln").format("{0}")),
        SqlFunction((_D, _D), _D, "CASE WHEN {0} <= 0 OR {1} <= 0 THEN NULL ELSE ln({1}) / ln({0}) END"),
    ],
    **{name: _double(f"{name}({{0}})") for name in ("sin", "cos", "tan", "atan", "sinh", "cosh", "tanh")},
    **{name: _double(f"CASE WHEN abs({{0}}) > 1 THEN CAST('NaN' AS DOUBLE) ELSE {name}({{0}}) END") for name in ("asin", "acos")},
    "sec": _double("1 / cos({0})"),
    "csc": _double("1 / sin({0})"),
    "cot": _double("1 / tan({0})"),
    "asinh": _double("CASE WHEN {0} = CAST('-Infinity' AS DOUBLE) THEN {0} ELSE ln({0} + sqrt({0} * {0} + 1)) END"),
    "acosh": _double("CASE WHEN {0} < 1 THEN CAST('NaN' AS DOUBLE) ELSE ln({0} + sqrt({0} * {0} - 1)) END"),
    "atanh": _double("CASE WHEN abs({0}) > 1 THEN CAST('NaN' AS DOUBLE) ELSE 0.5 * (spark_log1p({0}) - spark_log1p(-{0})) END"),
    "log1p": _double("CASE WHEN {0} <= -1 THEN NULL ELSE spark_log1p({0}) END"),
    "expm1": _double("spark_expm1({0})"),
    "cbrt": _double("spark_cbrt({0})"),
    "rint": _double("round_even({0}, 0)"),
    "atan2": [SqlFunction((_D, _D), _D, "atan2({0} + 0, {1} + 0)")],
    "hypot": [SqlFunction((_D, _D), _D, "sqrt({0} * {0} + {1} * {1})")],
    "factorial": [SqlFunction((_I,), _L, "CASE WHEN {0} BETWEEN 0 AND 20 THEN CAST(factorial({0}) AS BIGINT) END")],
    "shiftleft": [
        SqlFunction((_I, _I), _I, "spark_shift_left({0}, {1})"),
        SqlFunction((_L, _I), _L, "spark_shift_left_long({0}, {1})"),
    ],
    "shiftright": [SqlFunction((_I, _I), _I, "({0} >> ({1} & 31))"), SqlFunction((_L, _I), _L, "({0} >> ({1} & 63))")],
    "pi": [SqlFunction((), _D, "pi()")],
    "isnan": [SqlFunction((_D,), BOOLEAN, "coalesce(isnan({0}), false)")],
    "nanvl": [SqlFunction((_D, _D), _D, "CASE WHEN isnan({0}) THEN {1} ELSE {0} END")],
    # dates and times
    **{name: [SqlFunction((_DAY,), _I, _int(call)), SqlFunction((_T,), _I, _int(call))] for name, call in _DATE_PARTS.items()},
    **{name: [SqlFunction((one,), _I, _int(call)) for one in (_T, TIME)] for name, call in _TIME_PARTS.items()},
    "add_months": [SqlFunction((_DAY, _I), _DAY, "CAST({0} + to_months({1}) AS DATE)")],
    "last_day": [SqlFunction((_DAY,), _DAY, "last_day({0})")],
    "dayname": [SqlFunction((_DAY,), _S, "left(dayname({0}), 3)"), SqlFunction((_T,), _S, "left(dayname({0}), 3)")],
    "monthname": [SqlFunction((_DAY,), _S, "left(monthname({0}), 3)"), SqlFunction((_T,), _S, "left(monthname({0}), 3)")],
    "date_from_unix_date": [SqlFunction((_I,), _DAY, "(DATE '1970-01-01' + {0})")],
    "make_timestamp": [
        SqlFunction(
            (_I, _I, _I, _I, _I, _D),
            _T,
            "spark_make_timestamp({0}, {1}, {2}, {3}, {4}, {5})",
        ),
    ],
    "make_date": [SqlFunction((_I, _I, _I), _DAY, "make_date({0}, {1}, {2})")],
    "unix_seconds": [SqlFunction((_T,), _L, "spark_floor_div(epoch_us({0}), 1000000)", strict=True)],
    "unix_millis": [SqlFunction((_T,), _L, "spark_floor_div(epoch_us({0}), 1000)", strict=True)],
    "unix_micros": [SqlFunction((_T,), _L, "epoch_us({0})", strict=True)],
    "unix_date": [SqlFunction((_DAY,), _I, _int("{0} - DATE '1970-01-01'"), strict=True)],
    "timestamp_millis": [SqlFunction((_L,), _T, "make_timestamptz({0} * 1000)", strict=True)],
    "timestamp_micros": [SqlFunction((_L,), _T, "make_timestamptz({0})", strict=True)],
}
FUNCTIONS["substr"] = FUNCTIONS["substring"]

UNITS = {
    "YEAR": "year", "YYYY": "year", "YY": "year", "QUARTER": "quarter", "MONTH": "month", "MON": "month", "MM": "month",
    "WEEK": "week", "DAY": "day", "DD": "day", "HOUR": "hour", "MINUTE": "minute", "SECOND": "second",
    "MILLISECOND": "milliseconds", "MICROSECOND": "microseconds",
}  # fmt: skip
"""The units of date_trunc and trunc -> DuckDB's."""
DATE_UNITS = ("year", "quarter", "month", "week")
