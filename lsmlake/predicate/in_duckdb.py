"""A predicate as a condition of DuckDB, and single values as its literals. Both order NaN as Spark does."""

from __future__ import annotations

import pyarrow as pa

from lsmlake.dialect.types import duck_name, quoted, text
from lsmlake.predicate.order import is_ordered
from lsmlake.predicate.tree import And, Column, Compare, Computed, Constant, In, Is, IsNull, Like, Literal, Not, Or, Predicate
from lsmlake.types.table import as_integers

_LIKE_SPECIAL = str.maketrans({"\\": "\\\\", "%": "\\%", "_": "\\_"})


def value(scalar: pa.Scalar) -> str:
    """A value, or null, of a type that columns have."""
    name, kind = duck_name(scalar.type), scalar.type
    if not scalar.is_valid:
        return f"CAST(NULL AS {name})"
    if pa.types.is_timestamp(kind):
        return f"{'make_timestamptz' if kind.tz else 'make_timestamp'}({as_integers(scalar).as_py()})"
    made = scalar.as_py()
    return f"unhex('{made.hex()}')" if isinstance(made, bytes) else f"CAST({text(str(made))} AS {name})"


def condition(predicate: Predicate) -> str | None:
    """The condition, or None if it compares columns of different types."""
    match predicate:
        case Constant(constant):
            return {True: "TRUE", False: "FALSE", None: "CAST(NULL AS BOOLEAN)"}[constant]
        case Compare(op, left, Literal(literal)):
            return f"({_column(left)} {op} {_literal(literal, left.type)})"
        case Compare(op, left, Column() as right):
            return f"({_column(left)} {op} {_column(right)})" if left.type == right.type and is_ordered(left.type) else None
        case In(column, values):
            return f"({_column(column)} IN ({', '.join(_literal(one, column.type) for one in values)}))"
        case Like(column, prefix, rest):
            return f"({_column(column)} LIKE {text(prefix.translate(_LIKE_SPECIAL) + rest)} ESCAPE '\\')"
        case Computed():
            return None
        case IsNull(column):
            return f"({_column(column)} IS NULL)"
        case Is(child, outcome):
            inner = condition(child)
            name = {True: "TRUE", False: "FALSE", None: "NULL"}[outcome]
            return None if inner is None else f"({inner} IS {name})"
        case Not(child):
            inner = condition(child)
            return None if inner is None else f"(NOT {inner})"
        case And(children) | Or(children):
            inner = [condition(child) for child in children]
            return None if None in inner else f"({f' {type(predicate).__name__.upper()} '.join(inner)})"
    raise AssertionError(predicate)


def _column(column: Column) -> str:
    name = quoted(column.path[0])
    for field in column.path[1:]:
        name = f"struct_extract({name}, {text(field)})"
    return f"CAST({name} AS DOUBLE)" if pa.types.is_floating(column.type) else name


def _literal(literal: object, kind: pa.DataType) -> str:
    return value(pa.array([literal], pa.float64() if pa.types.is_floating(kind) else kind)[0])
