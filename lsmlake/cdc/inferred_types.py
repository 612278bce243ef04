"""The types of fields whose events do not declare them, from the kinds of their values in JSON:

- whole numbers are BIGINT; numbers with a fraction or an exponent, and those beyond 64 bits, are DOUBLE;
- true and false are BOOLEAN; texts, lists, objects and values of several kinds are STRING;
- a field that is always null has no type yet: None.

In documents of MongoDB, {"$numberDouble": ..} is DOUBLE, {"$date": ..} TIMESTAMP, and {"$binary": ..} and {"$uuid": ..} BINARY;
whole numbers are plain already. DuckDB and Spark each describe the kinds in words of their own. Pure.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping

import pyarrow as pa

_WHOLE, _FRACTION, _TEXT = pa.int64(), pa.float64(), pa.string()
_OF_DUCKDB: Mapping[str, pa.DataType | None] = {
    **dict.fromkeys(("UBIGINT", "BIGINT"), _WHOLE),
    "DOUBLE": _FRACTION,
    "BOOLEAN": pa.bool_(),
    "NULL": None,
}
_OF_SPARK: Mapping[str, pa.DataType | None] = {
    **dict.fromkeys(("TINYINT", "SMALLINT", "INT", "BIGINT"), _WHOLE),
    **dict.fromkeys(("FLOAT", "DOUBLE"), _FRACTION),
    "BOOLEAN": pa.bool_(),
    "VOID": None,
}
_EXTENDED = {("$numberDouble",): _FRACTION, ("$date",): pa.timestamp("us", "UTC")} | {
    **dict.fromkeys((("$binary",), ("$binary", "$type"), ("$uuid",)), pa.binary())
}
_DECIMAL = re.compile(r"DECIMAL\((\d+),\s*(\d+)\)")
_MARKS = re.compile(r'"(?:[^"\\]|\\.)*"|[\[\]{}]|[^"\[\]{}]+')
_DEPTH = 4
"""A text of JSON in parts: texts, brackets, and what is between them. Values inside of so many brackets tell no type."""
_DIGITS = 18
"""The digits that every BIGINT may have."""

Kinds = Mapping[str, pa.DataType | None]


def of_duckdb(text: str | None) -> Kinds:
    """Field -> type, of the result of `json_group_structure` over rows, or over lists of rows."""
    found = _parsed(text) if text is not None else None
    found = found[0] if isinstance(found, list) and found else found
    return {name: _of_structure(inner) for name, inner in found.items()} if isinstance(found, dict) else {}


def _parsed(text: str) -> object:
    try:
        return json.loads(text)
    except RecursionError:  # a value may be nested to any depth
        return json.loads("".join(_outer(text)))


def _outer(text: str) -> Iterator[str]:
    """A text of JSON without what is nested deeper than any value that tells a type."""
    depth = 0
    for mark in _MARKS.finditer(text):
        depth -= mark[0] in "]}"
        if depth < _DEPTH:
            yield mark[0]
        depth += mark[0] in "[{"


def _of_structure(inner: object) -> pa.DataType | None:
    if isinstance(inner, dict):
        return _extended(list(inner))
    return _OF_DUCKDB.get(inner, _TEXT) if isinstance(inner, str) else _TEXT


def of_spark(text: str | None) -> Kinds:
    """Field -> type, of the result of `schema_of_variant_agg` over rows, or over lists of rows."""
    text = (text or "").strip()
    if text.startswith("ARRAY<"):
        text = text[len("ARRAY<") : -1]
    return {name: _of_words(type_) for name, type_ in _fields(text)}


def _of_words(type_: str) -> pa.DataType | None:
    if type_.startswith("OBJECT<"):
        return _extended([name for name, _ in _fields(type_)])
    if digits := _DECIMAL.fullmatch(type_):
        return _WHOLE if int(digits[2]) == 0 and int(digits[1]) <= _DIGITS else _FRACTION
    return _OF_SPARK.get(type_, _TEXT)


def _extended(names: list[str]) -> pa.DataType:
    return _EXTENDED.get(tuple(sorted(names)), _TEXT)


def _fields(text: str) -> Iterator[tuple[str, str]]:
    """The fields of OBJECT<a: BIGINT, `b c`: ARRAY<..>>, each with the words of its type."""
    if not text.startswith("OBJECT<"):
        return
    inner, place = text[len("OBJECT<") : -1], 0
    while place < len(inner):
        name, place = _name(inner, place)
        start, depth, quoted = place, 0, False
        while place < len(inner) and (quoted or depth or inner[place] != ","):
            quoted ^= inner[place] == "`"
            depth += 0 if quoted else (inner[place] in "<(") - (inner[place] in ">)")
            place += 1
        yield name, inner[start:place].strip()
        place += 1


def _name(text: str, place: int) -> tuple[str, int]:
    """The name of a field at a place, and the place after the colon."""
    match = re.compile(r"\s*(?:`((?:[^`]|``)*)`|([^:`]+))\s*:\s*").match(text, place)
    if match is None:
        return "", len(text)
    return match[2] if match[1] is None else match[1].replace("``", "`"), match.end()
