"""Compares the rows of a query with those of a golden file."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable

import pyarrow as pa
import sqlglot
from sqlglot.errors import SqlglotError

from lsmlake.dialect.text import PlainSpark
from spark_sql.golden import Statement
from spark_sql.hive import lines, type_name

_NEAR, _NEAREST = 1e-8, 1e-12
"""Sums and functions of floating-point numbers depend on the order of rows and on the library in their last digits."""
_FLOATS = re.compile(r"-?\d+\.\d+(?:E-?\d+)?|NaN|-?Infinity")


def difference(statement: Statement, rows: pa.Table, zone: str) -> str:
    """In which way the rows differ from those of the file; "" if they are equal."""
    kinds = [type_name(kind) for kind in rows.schema.types]
    if not _same_types(statement.schema, kinds):
        return f"the types {', '.join(kinds)}"
    found = ["\t".join(row) for row in lines(rows, zone)]
    found = "\n".join(found).rstrip().split("\n")
    found = [re.sub(r"#\d+", "#x", line) for line in found]
    expected = statement.output.split("\n")
    if _in_order(statement.text):
        return "" if _same(expected, found) or _same(in_order(expected), in_order(found)) else _shown(found)
    return "" if _same(in_order(expected), in_order(found)) else _shown(found)


def rows_differ(expected: pa.Table, found: pa.Table, zone: str) -> str:
    """In which way the rows of this process differ from those of Spark, in any order; "" if they are equal."""
    wanted, kinds = ([type_name(kind).replace("void", "int") for kind in rows.schema.types] for rows in (expected, found))
    if wanted != kinds:
        return f"the types {', '.join(kinds)}, not {', '.join(wanted)}"
    a, b = (in_order("\t".join(row) for row in lines(rows, zone)) for rows in (expected, found))
    if _same(a, b):
        return ""
    more, fewer = Counter(b) - Counter(a), Counter(a) - Counter(b)
    return _shown([f"{len(b)} rows, not {len(a)}", *(f"+ {line}" for line in more), *(f"- {line}" for line in fewer)][:20])


def _shown(found: list[str]) -> str:
    return "\n".join(found[:50])


def _same_types(schema: str, kinds: list[str]) -> bool:
    """Whether `struct<name:type,...>` has these types. Names can hold any character. A column of NULLs is INT here."""
    body = re.sub(r"\bvoid\b", "int", schema.removeprefix("struct<").removesuffix(">"))
    ends = {len(body)}  # where the rest of the columns may end
    for kind in reversed(kinds):
        named = [end - len(kind) - 1 for end in ends if body[:end].endswith(f":{kind}")]
        ends = {place - 1 for end in named for place in range(end + 1) if place == 0 or body[place - 1] == ","}
    return -1 in ends if kinds else not body


def _same(expected: list[str], found: list[str]) -> bool:
    return len(expected) == len(found) and all(a == b or _near(a, b) for a, b in zip(expected, found, strict=True))


def in_order(rows: Iterable[str]) -> list[str]:
    """Sorted, such that the last digits of floating-point numbers do not matter."""
    return sorted(rows, key=lambda row: _FLOATS.sub(lambda one: f"{float(one[0]):.5e}", row))


def _near(a: str, b: str) -> bool:
    """Whether two lines differ in the last digits of floating-point numbers at most."""
    x, y = _FLOATS.findall(a), _FLOATS.findall(b)
    if len(x) != len(y) or _FLOATS.sub("", a) != _FLOATS.sub("", b):
        return False
    pairs = ((float(one), float(two)) for one, two in zip(x, y, strict=True) if one != two)
    return all(math.isclose(one, two, rel_tol=_NEAR, abs_tol=_NEAREST) for one, two in pairs)


def _in_order(text: str) -> bool:
    try:
        node = sqlglot.parse_one(text, dialect=PlainSpark)
    except (SqlglotError, RecursionError):
        return False
    return node.args.get("order") is not None


_ORDERED = re.compile(
    r"\b(first|last|first_value|last_value|any_value|collect_list|collect_set|array_agg|listagg|string_agg|limit|offset|row_number"
    r"|ntile|lag|lead|rows\s+between|monotonically_increasing_id|mode|max_by|min_by|zip_with|sum|avg)\b",
    re.IGNORECASE,
)
"""Words of statements whose result can depend on the order in which rows are read: Spark does not define it."""


def depends_on_order(text: str) -> bool:
    return bool(_ORDERED.search(text))
