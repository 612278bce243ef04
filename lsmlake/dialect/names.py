"""What a name in an expression means: a column, a field of a STRUCT, or an alias of SELECT."""

from __future__ import annotations

import difflib

import pyarrow as pa
from sqlglot import exp

from lsmlake.dialect.context import Context
from lsmlake.dialect.drawn import is_drawn
from lsmlake.dialect.scope import Typed
from lsmlake.dialect.types import text
from lsmlake.types.type_text import format_type

_CURRENT = ("current_date", "current_time", "current_timestamp", "localtime", "localtimestamp")
"""Functions that the text may call without parentheses, where no column has the name."""


def named(context: Context, node: exp.Expression) -> Typed:
    """What a dotted name means in this place. Refuses one that means nothing here, or several things."""
    if isinstance(node, exp.Dot) and not _is_name(node.this) and isinstance(node.expression, exp.Identifier):
        return _field(context, node, context.typed(node.this), node.expression.name)
    parts = _parts(node)
    if not all(isinstance(part, exp.Identifier) for part in parts):
        context.text.refuse(node, "this is not supported here", cure="leave it out, or attach Spark")
    path = [part.name for part in parts]
    if path[0].lower() in context.first and isinstance(node, (exp.Column, exp.Dot, exp.Identifier)):
        return _fields(context, node, context.first[path[0].lower()], path[1:])
    found = context.scope.found(path)
    if len(path) == 1 and path[0].lower() in _CURRENT and not parts[0].quoted and not context.scope.own(path):
        found = []  # the function comes before a column of the query around
    if len(found) > 1:
        cure = "write the name of the table before the column"
        context.text.refuse(node, f"the name {'.'.join(path)} can mean several columns", cure=cure)
    if not found:
        return _fields(context, node, _alias(context, node, path), path[1:])
    column, used = found[0]
    return _fields(context, node, column.typed, path[used:])


def numbered(context: Context, node: exp.Anonymous) -> Typed:
    """The column of the rows with this number, from 1."""
    columns, (number,) = context.scope.columns(), node.expressions
    if not (number.this.isdecimal() and 1 <= int(number.this) <= len(columns)):
        context.text.refuse(number, "there is no such column", expected=f"1 to {len(columns)}", cure="correct the number")
    return columns[int(number.this) - 1].typed


def _alias(context: Context, node: exp.Expression, path: list[str]) -> Typed:
    """What a name means that no column has. Refuses one that means nothing."""
    known = path[0].lower() in context.aliases
    if context.groups is not None and not (known and context.late) and context.groups.before.scope.found(path):
        what = f"the column {'.'.join(path)} is neither in GROUP BY nor in an aggregate function"
        cure = f"add it to GROUP BY, or write any_value({'.'.join(path)})"
        context.text.refuse(node, what, cure=cure)
    if known and context.aliases[path[0].lower()] is None:
        context.text.refuse(node, f"the name {path[0]} can mean several columns", cure="give each expression another name")
    if not known and path[0].lower() in _CURRENT and len(path) == 1:
        return context.typed(exp.Anonymous(this=path[0]))
    if known and is_drawn(context.aliases[path[0].lower()].sql):
        context.text.refuse(node, f"{path[0]} is drawn each time it is used", cure="compute it in a subquery")
    if not known:
        names = context.scope.names()
        whole = {name.lower(): name for name in names}
        last = {name.rpartition(".")[2].lower(): name for name in reversed(names)}
        wanted = ".".join(path).lower()
        matches = difflib.get_close_matches
        near = [*map(whole.get, matches(wanted, whole, 1)), *map(last.get, matches(path[-1].lower(), last, 1))]
        shown = ", ".join(names[:20]) + (", ..." if len(names) > 20 else "")
        cure = f"did you mean {near[0]}?" if near else "text is written in 'quotes'"
        context.text.wrong(node, f"unknown column {'.'.join(path)}", expected=f"one of {shown}" if shown else "", cure=cure)
    return context.aliases[path[0].lower()]


def _fields(context: Context, node: exp.Expression, made: Typed, names: list[str]) -> Typed:
    for name in names:
        made = _field(context, node, made, name)
    return made


def _field(context: Context, node: exp.Expression, made: Typed, name: str) -> Typed:
    fields = {field.name.lower(): field for field in made.type} if pa.types.is_struct(made.type) else {}
    if name.lower() not in fields:
        expected = f"one of {', '.join(field.name for field in fields.values())}" if fields else "a STRUCT"
        near = difflib.get_close_matches(name.lower(), fields, 1)
        cure = f"did you mean {fields[near[0]].name}?" if near else "correct the name" if fields else "name a STRUCT"
        context.text.wrong(node, f"there is no field {name}", expected=expected, found=format_type(made.type), cure=cure)
    field = fields[name.lower()]
    return Typed(f"struct_extract({made.sql}, {text(field.name)})", field.type)


def _parts(node: exp.Expression) -> list[exp.Expression]:
    """The parts of a dotted name."""
    if isinstance(node, exp.Dot):
        return [*_parts(node.this), node.expression]
    return [node] if isinstance(node, exp.Identifier) else node.parts


def _is_name(node: exp.Expression) -> bool:
    """Whether a node is a dotted name, and not a value of which a field is read."""
    return isinstance(node, (exp.Column, exp.Identifier)) or (isinstance(node, exp.Dot) and _is_name(node.this))
