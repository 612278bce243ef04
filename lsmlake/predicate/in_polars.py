"""A predicate as an expression of Polars, which compares as Spark does: NaN equals NaN and is greater than all other numbers.

Polars takes a name in `pl.col` or `select` for a pattern if it is `*`, or begins with `^` and ends with `$`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import reduce
from operator import and_, eq, ge, gt, le, lt, ne, or_

import pyarrow as pa

from lsmlake.extras import need
from lsmlake.predicate.evaluate import like_pattern
from lsmlake.predicate.order import is_ordered
from lsmlake.predicate.tree import (
    And,
    Column,
    Compare,
    Computed,
    Constant,
    In,
    Is,
    IsNull,
    Like,
    Literal,
    Not,
    Or,
    Predicate,
    columns_of,
)

_PATTERN = re.compile(r"\*|\^.*\$", re.DOTALL)
_OPERATORS = {"=": eq, "!=": ne, "<": lt, "<=": le, ">": gt, ">=": ge}


def by_name(*names: str):  # the type belongs to an optional package
    """The columns of these names, in this order."""
    return need("polars.selectors", "to_polars()").by_name(*names)


def expression(predicate: Predicate):  # the type belongs to an optional package
    """The expression, or None if it compares columns of different types, or has a field whose name Polars takes for a pattern."""
    names = (name for column in columns_of(predicate) for name in column.path[1:])
    return None if any(map(_PATTERN.fullmatch, names)) else _expression(predicate)


def _expression(predicate: Predicate):
    pl = need("polars", "to_polars()")
    match predicate:
        case Constant(constant):
            return pl.lit(constant, pl.Boolean)
        case Compare(op, left, Literal(literal)):
            return _OPERATORS[op](_column(left), _literal(literal, left.type))
        case Compare(op, left, Column() as right):
            return _OPERATORS[op](_column(left), _column(right)) if left.type == right.type and is_ordered(left.type) else None
        case In(column, values):
            return _column(column).is_in(_series(values, column.type).implode())
        case Like(column, prefix, rest) if rest == "%":
            return _column(column).str.starts_with(prefix)
        case Like(column, prefix, rest):
            return _column(column).str.contains(like_pattern(prefix, rest))
        case Computed():
            return None
        case IsNull(column):
            return _column(column).is_null()
        case Is(child, outcome):
            inner = _expression(child)
            return None if inner is None else inner.is_null() if outcome is None else inner.eq_missing(outcome)
        case Not(child):
            inner = _expression(child)
            return None if inner is None else ~inner
        case And(children) | Or(children):
            inner = [_expression(child) for child in children]
            joined = and_ if isinstance(predicate, And) else or_
            return None if any(one is None for one in inner) else reduce(joined, inner)
    raise AssertionError(predicate)


def _column(column: Column):
    pl = need("polars", "to_polars()")
    made = reduce(lambda outer, name: outer.struct.field(name), column.path[1:], by_name(column.path[0]).as_expr())
    return made.cast(pl.Float64) if column.type == pa.float32() else made


def _literal(value: object, kind: pa.DataType):
    pl = need("polars", "to_polars()")
    series = _series([value], kind)
    return pl.lit(series.item(), series.dtype)


def _series(values: Sequence[object], kind: pa.DataType):
    """Literals for a column, floats as doubles."""
    pl = need("polars", "to_polars()")
    return pl.from_arrow(pa.array(values, pa.float64() if pa.types.is_floating(kind) else kind))
