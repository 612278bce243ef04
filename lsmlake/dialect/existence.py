"""EXISTS of a query that compares one of its columns with a column of the row around it, as IN of that column.

Both choose the same rows where null is as good as false. DuckDB plans IN as a semi join of all that the query reads. EXISTS it
plans so only if the query reads no join, and a table with dead rows is read by one: it then takes more than twice as long.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa
from sqlglot import exp

from lsmlake.dialect.context import Context
from lsmlake.dialect.scope import Scope, ScopeColumn, Typed
from lsmlake.dialect.sql_text import operands, peek
from lsmlake.dialect.sql_types import BOOLEAN, DATE, STRING, is_number

_MORE = "with_", "group", "having", "qualify", "limit", "offset", "distinct", "windows", "laterals", "order"
"""Clauses with which a query may give a row without one of FROM and WHERE, or none with it."""


def member(node: exp.Select, rows: str, before: Context) -> str | None:
    """The condition `column IN (SELECT ...)` that is true where EXISTS of a query is; None if there is none.

    Args:
        node: the query. It has no aggregates.
        rows: its FROM, translated.
        before: the place of its WHERE.
    """
    where, around = peek(node, "where"), before.scope.outer
    if where is None or around is None or any(peek(node, key) for key in _MORE):
        return None
    parts = operands(where.this.unnest(), exp.And)
    if any(part.find(exp.Query) is not None for part in parts):
        return None
    equal = [part for part in parts if _sides(part, before.scope) is not None]
    if len(equal) != 1:
        return None
    used: list[ScopeColumn] = []
    alone = replace(before, scope=replace(before.scope, outer=replace(around, used=used)))
    rest = " AND ".join(alone.operand(part, BOOLEAN) for part in parts if part is not equal[0])
    own, other = map(before.typed, _sides(equal[0], before.scope))
    if used or not _compares_alike(own, other):
        return None
    return f"({other.sql} IN (SELECT {own.sql} FROM {rows}{f' WHERE {rest}' if rest else ''}))"


def _sides(part: exp.Expression, scope: Scope) -> Sequence[exp.Expression] | None:
    """The two columns of `a = b`, that of the query first; None for another condition."""
    part = part.unnest()
    if not isinstance(part, exp.EQ):
        return None
    sides = [part.this.unnest(), part.expression.unnest()]
    if not all(isinstance(side, exp.Column) for side in sides):
        return None
    owned = [scope.own([one.name for one in side.parts]) for side in sides]
    return None if owned[0] == owned[1] else sides if owned[0] else sides[::-1]


def _compares_alike(a: Typed, b: Typed) -> bool:
    """Whether IN compares two columns exactly as = does: of one type, and without the padding of a CHAR(n)."""
    kind = a.type
    simple = (is_number(kind) and not pa.types.is_floating(kind)) or kind in (STRING, DATE) or pa.types.is_timestamp(kind)
    return simple and kind == b.type and a.known.declared is None and b.known.declared is None


def null_is_false(node: exp.Expression) -> bool:
    """Whether AND and OR lead from a node to a condition on rows."""
    outer = node.parent
    while isinstance(outer, (exp.Paren, exp.And, exp.Or)):
        outer = outer.parent
    return not isinstance(outer, exp.Condition)
