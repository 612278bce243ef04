"""Makes DuckDB raise an error for a value that an expression refuses, and puts DuckDB's errors into the words of Spark SQL.

DuckDB's own `error()` counts as volatile: windows refuse it, and a correlated subquery with it is joined row by row. `refused`
is an ordinary expression that fails with the message when it is evaluated.
"""

from __future__ import annotations

import re
from typing import NamedTuple

_MARK = "refused: "
_SHOWN_MAX = 200
REFUSE = ("spark_refuse(m)", f"([NULL])[CAST('{_MARK}' || m AS INTEGER)]")
"""The macro that fails with a message: what is wrong, and after `; ` what to do."""


def refused(message: str) -> str:
    """An expression that fails. `message`: a text as an expression of DuckDB."""
    return f"spark_refuse({message})"


def or_refused(tried: str, value: str, reason: str) -> str:
    """The value of `tried`; fails with the text and `reason` where `tried` is null for a text `value` that is not null.

    In a `coalesce` DuckDB would drop the failure, because its only value is null.
    """
    made, given = "struct_extract(b, 't')", "struct_extract(b, 'v')"
    refusal = refused(f"concat('''', {given}, ''' ', '{reason}')")
    outcome = f"CASE WHEN {made} IS NULL AND {given} IS NOT NULL THEN {refusal} ELSE {made} END"
    return f"list_transform([{{'t': {tried}, 'v': {value}}}], lambda b: {outcome})[1]"


class Failure(NamedTuple):
    """The reason why a statement failed, the value, and the cure."""

    what: str
    found: str = ""
    cure: str = "correct the statement or the values"


_TYPES = {
    "BOOL": "BOOLEAN", "INT8": "TINYINT", "INT16": "SMALLINT", "INT32": "INT", "INT64": "BIGINT", "INT128": "DECIMAL(38,0)",
    "HUGEINT": "DECIMAL(38,0)", "VARCHAR": "STRING", "BLOB": "BINARY", "INTEGER": "INT", "DECIMAL(38)": "DECIMAL(38,0)",
    "TIMESTAMP WITH TIME ZONE": "TIMESTAMP",
}  # fmt: skip
_OPERATIONS = {"addition": "+", "subtraction": "-", "multiplication": "*", "division": "/", "modulo": "%"}
TRY = "use try_cast to get NULL instead"
_WIDER = "cast the operands to a wider type, or use try_add, try_subtract or try_multiply to get NULL instead"
_TYPE = r"([A-Z][A-Z0-9]*(?:\([\d,]+\))?(?: WITH TIME ZONE)?)"
_RULES: tuple[tuple[str, str, str, str], ...] = (
    (rf"Could not convert string ['\"](.*)['\"] to {_TYPE}", "the text cannot become {1}", "'{0}'", TRY),
    (rf"Type \w+ with value (.*) can't be cast .* destination type {_TYPE}", "the value is out of the range of {1}", "{0}", TRY),
    (rf"Casting value \"(.*)\" to type {_TYPE} failed", "the value is out of the range of {1}", "{0}", TRY),
    (rf"Could not cast value (\S+) (?:from .* )?to {_TYPE}", "the value is out of the range of {1}", "{0}", TRY),
    (rf"Overflow in (\w+) of {_TYPE} \((.*)\)", "arithmetic overflow: the result is out of the range of {1}", "{2}", _WIDER),
    (r"Overflow in HUGEINT (\w+): (.*)", "arithmetic overflow: the sum has more than 38 digits", "{1}", "cast them to DOUBLE"),
    (r"Overflow in (\w+)(?: of)? \(?([^()]*)\)?", "arithmetic overflow", "{1}", _WIDER),
    (r"Overflow on (.*)", "arithmetic overflow", "{0}", _WIDER),
    (r'(date|time|timestamp) field value out of range: "(.*)"', "there is no such {0}", "'{1}'", TRY),
    (r"Date out of range: (.*)", "there is no such date", "{0}", "correct the values"),
    (r"More than one row returned by a subquery", "a query used as a value gave more than one row", "", "add LIMIT 1, or max()"),
    (
        r"must appear in the GROUP BY clause",
        "a column of SELECT, HAVING or ORDER BY is neither in GROUP BY nor inside an aggregate function",
        "",
        "add it to GROUP BY, or write any_value() around it",
    ),
    (r"GROUP BY clause cannot contain aggregates", "GROUP BY has an aggregate function", "", "group by columns of a subquery"),
    (r"aggregate function calls cannot be nested", "an aggregate function has another one inside", "", "use a subquery"),
    (r"Map keys must be unique", "a MAP has a key twice", "", "leave out one of them"),
    (r"Map keys can not be NULL", "the key of a MAP is NULL", "", "leave it out"),
    (r"Cannot create a string of size: '(\d+)'", "a text would be too long", "{0} bytes", "make it shorter"),
    (r"Lists larger than", "an ARRAY would be too long", "", "make it shorter"),
    (r'Could not decode string "(.*)" as base64', "the text is not base64", "'{0}'", "correct it"),
)
"""Pattern of DuckDB's message, its meaning, the value, the cure. The first pattern that fits counts."""
_CLASSES = {
    "ConversionException": "a value cannot be converted",
    "OutOfRangeException": "a value is out of range",
    "InvalidInputException": "a value is not valid for this function",
}


def failure(error: Exception) -> Failure:
    """The failure of a statement, given an error of DuckDB; its words name neither DuckDB nor names of the translation."""
    message = str(error).partition(": ")[2].partition("\n\nLINE ")[0]
    if mark := re.search(rf"'{_MARK}(.*)' to INT", message, re.DOTALL):
        what, _, cure = mark[1].rpartition("; ")
        return Failure(_short(what), cure=cure) if what else Failure(_short(cure))
    for pattern, what, found, cure in _RULES:
        if match := re.search(pattern, message, re.DOTALL):
            parts = [_OPERATIONS.get(part or "", _TYPES.get(part or "", part or "")) for part in match.groups()]
            return Failure(what.format(*parts), _short(found.format(*parts)), cure)
    known = _CLASSES.get(type(error).__name__)
    if known is not None:
        return Failure(known)
    return Failure("this statement cannot be evaluated in process", cure="write it in another way, or attach Spark")


def _short(shown: str) -> str:
    return shown if len(shown) <= _SHOWN_MAX else f"{shown[:_SHOWN_MAX]}..."
