"""Values of change events, and what becomes of them in columns of a type: in this process and where Spark parses the JSON."""

from __future__ import annotations

import datetime as dt
import json
import math
from collections.abc import Callable
from decimal import Decimal

import pyarrow as pa

from lsmlake.cdc import ChangeFormat
from lsmlake.cdc.event_queries import EVENT, KEY
from lsmlake.cdc.event_rows import REASON, REJECTED, ROW_KIND, EventReader
from lsmlake.types.ddl import parse_columns

KEPT: dict[str, list[tuple[str, object]]] = {
    "STRING": [
        *((text, text) for text in ("1.0e2", "1.50", "12345678901234567890.10", "-0", "-0.0", "0.00001", "1E-400", "true", "7")),
        ('"1.0e2"', "1.0e2"),
        ('"1.50"', "1.50"),
        ('{"a": 1.50, "b": [1.0e2,\n"x\\u00e9 1.50, :2.0e1", "\\\\\\"", -0], "c": true}', None),
        ('"\\ud83d\\ude00\\u00e9"', "😀é"),
        ("NaN", "NaN"),
    ],
    "DECIMAL(38,10)": [
        ("12345678901234567890.1000000001", Decimal("12345678901234567890.1000000001")),
        ("1234", Decimal("1234.0000000000")),
        ("12345678", Decimal("12345678.0000000000")),
        ("1.5e1", Decimal("15.0000000000")),
        ("0.0", Decimal("0E-10")),
    ],
    "BIGINT": [("9007199254740993.0", 2**53 + 1), ("9223372036854775807", 2**63 - 1), ("12e2", 1200), ("0.0", 0)],
    "DOUBLE": [
        ("9007199254740992.0", 2.0**53),
        ("-0.0", -0.0),
        ("-0", -0.0),
        ("5e-324", 5e-324),
        ("NaN", math.nan),
        ("0.1", 0.1),
    ],
    "FLOAT": [("16777216.0", 2.0**24), ("0.5", 0.5)],
    "BINARY": [('"AAE="', b"\0\1"), ('"1234"', b"\xd7m\xf8"), ('"true"', b"\xb6\xbb\x9e")],
    "DATE": [('"1500-01-01"', dt.date(1500, 1, 1)), ("-719162", dt.date(1, 1, 1))],
    "STRUCT<d: DECIMAL(38,10), n: BIGINT, f: FLOAT, x: DOUBLE, s: STRING, b: BINARY, t: BOOLEAN>": [
        (
            '{"d":12345678901234567890.1000000001,"n":9007199254740993,"f":0.5,"x":-0.0,"s":"1.50","b":"1234","t":true}',
            {
                "d": Decimal("12345678901234567890.1000000001"),
                "n": 2**53 + 1,
                "f": 0.5,
                "x": -0.0,
                "s": "1.50",
                "b": b"\xd7m\xf8",
                "t": True,
            },
        ),
        (
            '{"d":1.50,"n":9007199254740993.0,"f":16777216,"x":12345678901234567890.5,"s":1.50,"b":null,"t":"false"}',
            {
                "d": Decimal("1.5000000000"),
                "n": 2**53 + 1,
                "f": 2.0**24,
                "x": 12345678901234567890.5,
                "s": "1.50",
                "b": None,
                "t": False,
            },
        ),
        ("{}", dict.fromkeys("dnfxsbt")),
    ],
    "ARRAY<STRUCT<a: MAP<STRING,DECIMAL(30,5)>>>": [
        (
            '[null,{"a":[{"key":"1.50","value":12345678901234567890.10001}]},{"a":null}]',
            [None, {"a": [("1.50", Decimal("12345678901234567890.10001"))]}, {"a": None}],
        )
    ],
}
"""Type -> values as events write them, and as the table has them. None: as they are, without white space between tokens."""
OF_TEXT = '{"a":1.50,"b":[1.0e2,"xé 1.50, :2.0e1","\\\\\\"",-0],"c":true}'
NO_BYTES, ROUNDED = "a number or truth value of JSON is no bytes", "would be rounded"
REFUSED: dict[str, list[tuple[str, str]]] = {
    "BINARY": [("1234", NO_BYTES), ("12.5", NO_BYTES), ("true", NO_BYTES)],
    "DOUBLE": [("9007199254740993.0", ROUNDED), ("1e400", "too large"), ("1e-400", "too small")],
    "FLOAT": [("16777217.0", ROUNDED)],
    "BIGINT": [("9223372036854775808", "out of bounds"), ("1.5", "data loss"), ('""', "no number")],
    "DECIMAL(38,10)": [("1e-400", "more digits"), ('"1234"', "say decimals=")],
    "DATE": [("3000000", "outside of the years"), ("-719163", "outside of the years")],
    "STRING": [('"\\ud83d"', "no object with the field"), ('"\\ude00\\ud83d"', "no object with the field")],
    "STRUCT<d: DECIMAL(38,10), n: BIGINT, f: FLOAT, x: DOUBLE, s: STRING, b: BINARY, t: BOOLEAN>": [
        ('{"f":16777217}', ROUNDED),
        ('{"x":9007199254740993}', ROUNDED),
        ('{"x":1e-400}', "too small"),
        ('{"b":1234}', NO_BYTES),
        ('{"s":{"x":1}}', "column 'c"),
        ('{"s":"x","s":"y"}', "twice"),
    ],
}
"""Type -> values that no column of the type has, and words of the reason."""
TYPES = list(dict.fromkeys([*KEPT, *REFUSED]))
_INSIDE = "STRUCT<n: BIGINT, f: FLOAT, x: DOUBLE, d: DECIMAL(38,10)>"
_NUMBERS = {"n": 2**53 + 1, "f": 0.5, "x": 5e-324, "d": Decimal("1.5000000000")}
_LONG = '{"$numberLong": "9007199254740993"}'
IN_DOCUMENTS: dict[str, list[tuple[str, object]]] = {
    "STRING": [
        *((text, text) for text in ("1.0e2", "1.50", "12345678901234567890.10", "-0", "0.00001", "1E-400", "true", "7")),
        ('"1.0e2"', "1.0e2"),
        ('{"a": 1.50, "b": [1.0e2, "x 1.50, :2.0e1", -0], "c": true}', '{"a":1.50,"b":[1.0e2,"x 1.50, :2.0e1",-0],"c":true}'),
        (_LONG, "9007199254740993"),
    ],
    "DOUBLE": [("9007199254740992.0", 2.0**53), ("-0.0", -0.0), ("5e-324", 5e-324), ("0.1", 0.1), ("0e-400", 0.0)],
    "BIGINT": [("9007199254740993", 2**53 + 1), (_LONG, 2**53 + 1), ("9007199254740993.0", 2**53 + 1)],
    "DECIMAL(38,10)": [("12345678901234567890.1000000001", Decimal("12345678901234567890.1000000001"))],
    _INSIDE: [
        ('{"n":9007199254740993,"f":0.5,"x":5e-324,"d":1.5}', _NUMBERS),
        (f'{{"n":{_LONG},"f":0.5,"x":5e-324,"d":{{"$numberDecimal":"1.5"}}}}', _NUMBERS),
        ('{"x":9007199254740992}', {**dict.fromkeys("nfxd"), "x": 2.0**53}),
    ],
    "ARRAY<DOUBLE>": [("[9007199254740992, 0.1]", [2.0**53, 0.1])],
}
NOT_IN_DOCUMENTS: dict[str, list[tuple[str, str]]] = {
    "DOUBLE": [("9007199254740993", ROUNDED), ("9007199254740993.0", ROUNDED), ("1e400", "too large"), ("1e-400", "too small")],
    "FLOAT": [("16777217", ROUNDED), ("1e-60", "too small")],
    _INSIDE: [
        ('{"x":9007199254740993}', ROUNDED),
        (f'{{"x":{_LONG}}}', ROUNDED),
        ('{"x":{"$numberDouble":"9007199254740993"}}', ROUNDED),
        ('{"f":16777217}', ROUNDED),
        ('{"x":1e400}', "too big"),
        ('{"x":1e-400}', "too small"),
        ('{"x":{"$numberDecimal":"1E-400"}}', "too small"),
    ],
    "ARRAY<DOUBLE>": [("[0.5, 9007199254740993]", ROUNDED), ("[1e-400]", "too small")],
}
"""The same for documents of MongoDB."""
TYPES_IN_DOCUMENTS = list(dict.fromkeys([*IN_DOCUMENTS, *NOT_IN_DOCUMENTS]))


Cases = list[tuple[str, object, str | None]]
"""Events, with the row of each, or None and words of the reason for which it is refused."""


def cases() -> Cases:
    return _cases(TYPES, KEPT, REFUSED, _event)


def cases_in_documents() -> Cases:
    """Documents in the text of a field, as Debezium sends them, and as objects, as change streams have them."""
    forms = _document_in_text, _document
    return [case for form in forms for case in _cases(TYPES_IN_DOCUMENTS, IN_DOCUMENTS, NOT_IN_DOCUMENTS, form)]


def _cases(types: list[str], kept: dict, refused: dict, event: Callable[[int, str], str]) -> Cases:
    made: Cases = []
    for number, kind in enumerate(types):
        for text, value in kept.get(kind, ()):
            row = dict.fromkeys(f"c{i}" for i in range(len(types)))
            made.append((event(number, text), {**row, f"c{number}": OF_TEXT if value is None else value}, None))
        made += [(event(number, text), None, words) for text, words in refused.get(kind, ())]
    return made


def _event(number: int, text: str) -> str:
    return f'{{"op":"c","after":{{"c{number}":{text}}}}}'


def _document_in_text(number: int, text: str) -> str:
    return json.dumps({"op": "c", "after": f'{{"c{number}":{text}}}'})


def _document(number: int, text: str) -> str:
    return f'{{"operationType":"insert","fullDocument":{{"c{number}":{text}}}}}'


def reader() -> EventReader:
    return _reader(ChangeFormat("debezium-json", binary="base64"), TYPES)


def reader_of_documents() -> EventReader:
    return _reader(ChangeFormat("mongodb"), TYPES_IN_DOCUMENTS)


def _reader(format: ChangeFormat, types: list[str]) -> EventReader:
    columns = parse_columns(", ".join(f"c{number} {kind}" for number, kind in enumerate(types)))
    return EventReader(format, columns, may_lack=True)


def events(given: Cases | None = None) -> pa.Table:
    texts = [event for event, *_ in (cases() if given is None else given)]
    return pa.table({EVENT: texts, KEY: pa.nulls(len(texts), pa.string())})


def check(decoded: pa.Table, given: Cases | None = None) -> None:
    """Asserts that decoded events are what they must be."""
    names = [name for name in decoded.column_names if name.startswith("c")]
    for (event, row, words), found in zip(cases() if given is None else given, decoded.to_pylist(), strict=True):
        if words is None:
            assert repr({name: found[name] for name in names}) == repr(row), event
        else:
            assert found[ROW_KIND] == REJECTED and words in found[REASON], (event, found[REASON])
