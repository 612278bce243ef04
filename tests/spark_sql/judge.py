"""Compares the rows of a query with those of a golden file."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable

import pyarrow as pa
import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from lsmlake.dialect.grammar import PlainSpark
from spark_sql.golden import Statement
from spark_sql.hive import lines, type_name

_NEAR, _NEAR_FLOAT, _NEAREST = 1e-8, 1e-6, 1e-12
"""Sums and functions of floating-point numbers depend on the order of rows and on the library in their last digits."""
_DAY_TIME, _ANY_DAY_TIME = re.compile(r"interval (day|hour|minute|second)( to \w+)?"), "interval day to second"
"""PySpark's rows do not tell which fields an interval has."""
_FLOATS = re.compile(r"-?\d+\.\d+(?:E-?\d+)?|NaN|-?Infinity")


def difference(statement: Statement, rows: pa.Table, zone: str) -> str:
    """In which way the rows differ from those of the file; "" if they are equal."""
    kinds = [type_name(field) for field in rows.schema]
    if not _same_types(statement.schema, kinds):
        return f"the types {', '.join(kinds)}"
    found = ["\t".join(row) for row in lines(rows, zone)]
    found = "\n".join(found).rstrip(" \t\n\v\f\r").split("\n")
    found = [re.sub(r"#\d+", "#x", line) for line in found]
    expected = statement.output.split("\n")
    near = _NEAR_FLOAT if any("float" in kind for kind in kinds) else _NEAR
    if not _same(in_order(expected), in_order(found), near):
        return _shown(found)
    keys = _keys(statement.text, rows.column_names)
    in_turn = _same(_cells(expected, keys), _cells(found, keys), near)
    return "" if in_turn else _shown(["in another order:", *found])


def _keys(text: str, names: list[str]) -> list[int]:
    """The columns of the result that ORDER BY names before all others: rows that are equal in them can have any order."""
    try:
        order = sqlglot.parse_one(text, dialect=PlainSpark).args.get("order")
    except (SqlglotError, RecursionError):
        order = None
    keys: list[int] = []
    for item in order.expressions if order is not None else ():
        what = item.this
        number = int(what.name) - 1 if isinstance(what, exp.Literal) and what.name.isdecimal() else None
        if isinstance(what, exp.Column) and not what.table:
            same = [place for place, name in enumerate(names) if name.lower() == what.name.lower()]
            number = same[0] if len(same) == 1 else None
        if number is None:
            return keys
        keys.append(number)
    return keys


def _cells(rows: list[str], keys: list[int]) -> list[str]:
    cells = [row.split("\t") for row in rows]
    return ["\t".join(row[key] for key in keys) for row in cells if len(row) > max(keys)] if keys else []


def rows_differ(expected: pa.Table, found: pa.Table, zone: str) -> str:
    """In which way the rows of this process differ from those of Spark, in any order; "" if they are equal."""
    wanted, kinds = ([_DAY_TIME.sub(_ANY_DAY_TIME, type_name(field)) for field in rows.schema] for rows in (expected, found))
    wanted, kinds = ([kind.replace("void", "int") for kind in some] for some in (wanted, kinds))
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


def _same(expected: list[str], found: list[str], near: float = _NEAR) -> bool:
    pairs = ((a.rstrip(" "), b.rstrip(" ")) for a, b in zip(expected, found, strict=False))  # the file's last line has no blanks
    return len(expected) == len(found) and all(a == b or _near(a, b, near) for a, b in pairs)


def in_order(rows: Iterable[str]) -> list[str]:
    """Sorted, such that the last digits of floating-point numbers do not matter."""
    return sorted(rows, key=lambda row: _FLOATS.sub(lambda one: f"{float(one[0]):.5e}", row))


def _near(a: str, b: str, near: float) -> bool:
    """Whether two lines differ in the last digits of floating-point numbers at most."""
    x, y = _FLOATS.findall(a), _FLOATS.findall(b)
    if len(x) != len(y) or _FLOATS.sub("", a) != _FLOATS.sub("", b):
        return False
    pairs = ((float(one), float(two)) for one, two in zip(x, y, strict=True) if one != two)
    return all(math.isclose(one, two, rel_tol=near, abs_tol=_NEAREST) for one, two in pairs)


_ORDERED = re.compile(
    r"\b(first|last|first_value|last_value|any_value|collect_list|collect_set|array_agg|listagg|string_agg|limit|offset|row_number"
    r"|ntile|lag|lead|rows\s+between|monotonically_increasing_id|mode|max_by|min_by|zip_with|sum|avg)\b",
    re.IGNORECASE,
)
"""Words of statements whose result can depend on the order in which rows are read: Spark does not define it."""
_MODE = re.compile(r"\bmode\s*\((?![^()]*\btrue\b)(?!\))", re.IGNORECASE)
"""`mode` that is not told to take the least of equally frequent values."""


def depends_on_order(text: str) -> bool:
    return bool(_ORDERED.search(text))


def is_undetermined(text: str) -> bool:
    """Whether Spark may choose the rows of the result: some of several, or one of equally frequent values."""
    try:
        parts = [part for node in sqlglot.parse(text, dialect=PlainSpark) if node is not None for part in node.walk()]
    except (SqlglotError, RecursionError):
        return False
    limited = (part for part in parts if part.args.get("limit") or part.args.get("offset"))
    return any(part.args.get("order") is None for part in limited) or bool(_MODE.search(text))


_BY_TIES = (
    *("first", "first_value", "last", "last_value", "any_value", "nth_value", "row_number", "ntile", "lag", "lead"),
    *("collect_list", "array_agg"),
)
"""Window functions whose value depends on the order of rows that ORDER BY does not tell apart."""


def peers(text: str) -> str | None:
    """The query with other columns: for each window function that depends on ties, the number of rows that its ORDER BY does not
    tell apart. None if SELECT has no such function."""
    tree = sqlglot.parse_one(text, dialect=PlainSpark)
    if not isinstance(tree, exp.Select):
        return None
    windows = [one for item in tree.expressions for one in item.find_all(exp.Window)]
    counts = [one for one in windows if isinstance(one.this, exp.Anonymous) and one.this.name.lower() in _BY_TIES]
    for window in (*windows, *(tree.args.get("windows") or ())):
        if window.args.get("order") is not None:
            window.set("spec", exp.WindowSpec(kind="RANGE", start="CURRENT ROW", end="CURRENT ROW"))
    for window in counts:
        window.set("this", exp.Anonymous(this="count", expressions=[exp.Star()]))
    tree.set("expressions", counts)
    tree.set("order", None)
    return tree.sql("spark") if counts else None
