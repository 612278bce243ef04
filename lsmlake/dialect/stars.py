"""`*`, `t.*` and `struct.*`, with EXCEPT: the columns that they stand for.

`|> SET` of pipes comes as `* REPLACE (expression AS column)`, which the text itself cannot have.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pyarrow as pa
from sqlglot import exp

from lsmlake.dialect.context import Context
from lsmlake.dialect.scope import Relation, Scope, ScopeColumn
from lsmlake.dialect.types import quoted, text

Path = tuple[str, ...]


def is_star(item: exp.Expression) -> bool:
    return isinstance(item, exp.Star) or (isinstance(item, exp.Column) and isinstance(item.this, exp.Star))


def starred(context: Context, item: exp.Expression, scope: Scope) -> list[ScopeColumn]:
    """The columns that an item of SELECT stands for.

    Args:
        context: translates the expressions of REPLACE, and refuses.
        item: for which `is_star` holds.
        scope: the rows of FROM.
    """
    star = item if isinstance(item, exp.Star) else item.this
    inside = scope if item is star else _inside(context, item, scope)
    columns = inside.columns()
    if not columns:
        context.text.refuse(item, "there are no such columns", cure="name columns that are there")
    dropped = _dropped(context, star, columns, replace(inside, outer=None))
    made = [_without(context, star, one, dropped[one.sql]) if one.sql in dropped else one for one in columns]
    for new in star.args.get("replace") or ():
        made = _replaced(context, new, [one for one in made if one is not None])
    if not (found := [one for one in made if one is not None]):
        context.text.refuse(item, "no column is left", cure="name a column")
    return found


def _inside(context: Context, item: exp.Column, scope: Scope) -> Scope:
    """The columns of a table, or the fields of a STRUCT."""
    path = [part.name for part in item.parts[:-1]]
    qualifier = ".".join(path).lower()
    found = [one for one in scope.relations if qualifier in (name.lower() for name in one.qualifiers)]
    if len(found) == 1:
        return Scope((found[0],))
    if found or not scope.own(path):
        context.text.refuse(item, f"there is no table {qualifier} in FROM", cure="name a table of FROM")
    made = context.typed(exp.column(*reversed(path)))
    if not pa.types.is_struct(made.type):
        context.text.refuse(item, f"{qualifier} has no fields", expected="a table or a STRUCT", cure="name a STRUCT")
    fields = (ScopeColumn(field.name, field.type, f"struct_extract({made.sql}, {text(field.name)})") for field in made.type)
    return Scope((Relation((), tuple(fields)),))


def _dropped(context: Context, star: exp.Star, columns: Iterable[ScopeColumn], scope: Scope) -> dict[str, list[Path]]:
    """The SQL of a column that EXCEPT names -> the paths of its fields, () for all of it."""
    known, dropped = {column.sql for column in columns}, {}
    for item in star.args.get("except_") or ():
        path = [part.name for part in item.parts] if isinstance(item, exp.Column) else []
        found = {column.sql: tuple(map(str.lower, path[length:])) for column, length in (scope.found(path) if path else ())}
        found = {sql: fields for sql, fields in found.items() if sql in known}
        if len(found) != 1:
            context.text.refuse(item, "EXCEPT takes columns", expected=", ".join(scope.names()), cure="name columns")
        ((sql, fields),) = found.items()
        before = dropped.setdefault(sql, [])
        if any(fields[: len(one)] == one or one[: len(fields)] == fields for one in before):
            context.text.refuse(item, "EXCEPT names a column twice", cure="name it once")
        before.append(fields)
    return dropped


def _without(context: Context, star: exp.Star, column: ScopeColumn, paths: list[Path]) -> ScopeColumn | None:
    """A column without some of its fields; None without all of it."""
    if () in paths:
        return None
    kind = column.type
    names = {field.name.lower() for field in kind} if pa.types.is_struct(kind) else set()
    if unknown := sorted({path[0] for path in paths} - names):
        context.text.refuse(star, f"{column.name} has no such fields", found=unknown, cure="name fields that are there")
    fields = [ScopeColumn(field.name, field.type, f"struct_extract({column.sql}, {text(field.name)})") for field in kind]
    inner = ((one, [path[1:] for path in paths if path[0] == one.name.lower()]) for one in fields)
    left = [found for one, below in inner if (found := _without(context, star, one, below) if below else one) is not None]
    if not left:
        context.text.refuse(star, f"no field of {column.name} is left", cure="leave out the column")
    packed = ", ".join(f"{quoted(one.name)} := {one.sql}" for one in left)
    sql = f"CASE WHEN {column.sql} IS NOT NULL THEN struct_pack({packed}) END"
    return ScopeColumn(column.name, pa.struct([pa.field(one.name, one.type) for one in left]), sql)


def _replaced(context: Context, new: exp.Alias, columns: list[ScopeColumn]) -> list[ScopeColumn]:
    """The columns, one of them with another value."""
    name = new.alias.lower()
    places = [place for place, one in enumerate(columns) if one.name.lower() == name]
    if len(places) != 1:
        found = f"{len(places)} columns of this name" if places else None
        context.text.refuse(
            new,
            f"SET takes a column: {name}",
            expected=", ".join(one.name for one in columns),
            found=found,
            cure="name a column that is there",
        )
    made = context.typed(new.this)
    column = ScopeColumn(columns[places[0]].name, made.type, made.sql)
    return [*columns[: places[0]], column, *columns[places[0] + 1 :]]
