"""Functions of arrays and maps that take a lambda. Its body is translated with the parameters as the innermost scope."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pyarrow as pa
from sqlglot import exp

from lsmlake.dialect.calling import (
    Arguments,
    Function,
    array_argument,
    map_argument,
)
from lsmlake.dialect.cast import cast
from lsmlake.dialect.context import Context
from lsmlake.dialect.scope import Column, Relation, Scope, Typed
from lsmlake.dialect.types import BOOLEAN, INT, NULL, array_of
from lsmlake.schema.type_text import format_type


def _transform(context: Context, node: exp.Expression, arguments: Arguments) -> Typed:
    array, names, body = _over(context, node, arguments, INT)
    return Typed(f"list_transform({array.sql}, lambda {names}: {body.sql})", array_of(body.type))


def _filter(context: Context, node: exp.Expression, arguments: Arguments) -> Typed:
    array, names, body = _over(context, node, arguments, INT)
    return Typed(f"list_filter({array.sql}, lambda {names}: {_condition(context, node, body)})", array.type)


def _quantified(decided: str, otherwise: str) -> Function:
    """`exists` and `forall`: `decided` if the condition has this value for an element, else null if it is null for one, else
    `otherwise`."""

    def made(context: Context, node: exp.Expression, arguments: Arguments) -> Typed:
        array, names, body = _over(context, node, arguments)
        found = f"list_transform({array.sql}, lambda {names}: {_condition(context, node, body)})"
        has = f"list_contains({found}, {decided})"
        unknown = f"len({found}) > list_aggregate({found}, 'count')"
        sql = f"CASE WHEN ({array.sql}) IS NULL THEN NULL WHEN {has} THEN {decided} WHEN {unknown} THEN NULL ELSE {otherwise} END"
        return Typed(sql, BOOLEAN)

    return made


def _aggregate(context: Context, node: exp.Expression, arguments: Arguments) -> Typed:
    if len(arguments) not in (3, 4):
        context.text.refuse(node, "expected an ARRAY, a start and a lambda", found=f"{len(arguments)} arguments")
    array, start = array_argument(context, node, context.typed(arguments[0])), context.typed(arguments[1])
    names, body, scope = _lambda(context, node, arguments[2], start.type, array.type.value_type)
    made = _body(context, body, scope)
    if made.type != start.type or len(names) != 2:
        found = f"{format_type(start.type)} and {format_type(made.type)}"
        context.text.refuse(node, "the start and the result of the lambda must have one type", found=found, cure="cast the start")
    sql = f"list_reduce({array.sql}, lambda {', '.join(names)}: {made.sql}, {start.sql})"
    if len(arguments) == 3:
        return Typed(sql, start.type)
    (name,), body, scope = _lambda(context, node, arguments[3], start.type)
    end = _body(context, body, scope)
    return Typed(f"list_transform([{sql}], lambda {name}: {end.sql})[1]", end.type)


def _zip_with(context: Context, node: exp.Expression, arguments: Arguments) -> Typed:
    if len(arguments) != 3:
        context.text.refuse(node, "expected two ARRAYs and a lambda", found=f"{len(arguments)} arguments")
    left, right = (array_argument(context, node, context.typed(one)) for one in arguments[:2])
    names, body, scope = _lambda(context, node, arguments[2], left.type.value_type, right.type.value_type)
    made = _body(context, body, scope, {name: f"{names[0]}[{number}]" for number, name in enumerate(names, 1)})
    sql = f"list_transform(list_zip({left.sql}, {right.sql}), lambda {names[0]}: {made.sql})"
    return Typed(f"CASE WHEN ({left.sql}) IS NOT NULL AND ({right.sql}) IS NOT NULL THEN {sql} END", array_of(made.type))


def _over_map(result: str) -> Function:
    """`map_filter`, `transform_keys` and `transform_values`."""

    def made(context: Context, node: exp.Expression, arguments: Arguments) -> Typed:
        if len(arguments) != 2:
            context.text.refuse(node, "expected a MAP and a lambda", found=f"{len(arguments)} arguments")
        found = map_argument(context, node, context.typed(arguments[0]))
        names, body, scope = _lambda(context, node, arguments[1], found.type.key_type, found.type.item_type)
        fields = dict(zip(names, (f"{names[0]}.key", f"{names[0]}.value"), strict=False))
        inner, entries = _body(context, body, scope, fields), f"map_entries({found.sql})"
        if result == "filter":
            kept = f"list_filter({entries}, lambda {names[0]}: {_condition(context, node, inner)})"
            return Typed(f"map_from_entries({kept})", found.type)
        values = f"list_transform({entries}, lambda {names[0]}: {inner.sql})"
        if result == "keys":
            return Typed(f"map({values}, map_values({found.sql}))", pa.map_(inner.type, found.type.item_type))
        return Typed(f"map(map_keys({found.sql}), {values})", pa.map_(found.type.key_type, inner.type))

    return made


def _over(context: Context, node: exp.Expression, arguments: Arguments, *more: pa.DataType) -> tuple[Typed, str, Typed]:
    """An array, the head of a lambda over its elements, and the body."""
    if len(arguments) != 2:
        context.text.refuse(node, "expected an ARRAY and a lambda", found=f"{len(arguments)} arguments")
    array = array_argument(context, node, context.typed(arguments[0]))
    names, body, scope = _lambda(context, node, arguments[1], array.type.value_type, *more)
    replaced = {names[1]: f"CAST({names[1]} - 1 AS INTEGER)"} if len(names) > 1 else None
    return array, ", ".join(names), _body(context, body, scope, replaced)


def _lambda(
    context: Context, node: exp.Expression, of: exp.Expression, *kinds: pa.DataType
) -> tuple[list[str], exp.Expression, Scope]:
    """The names of the parameters in DuckDB, the body and its scope."""
    if not isinstance(of, exp.Lambda):
        context.text.refuse(of, "expected a lambda", cure="write x -> expression")
    if len(of.expressions) > len(kinds):
        context.text.refuse(of, "the lambda has too many parameters", expected=f"at most {len(kinds)}")
    depth, outer = 0, context.scope
    while outer is not None:
        depth, outer = depth + 1, outer.outer
    names = [f"p{depth}_{number}" for number in range(len(of.expressions))]
    columns = tuple(Column(one.name, kind, name) for one, kind, name in zip(of.expressions, kinds, names, strict=False))
    return names, of.this, Scope((Relation((), columns),), outer=replace(context.scope, used=None))


def _body(context: Context, body: exp.Expression, scope: Scope, replaced: Mapping[str, str] | None = None) -> Typed:
    if replaced:
        columns = tuple(replace(one, sql=replaced.get(one.sql, one.sql)) for one in scope.relations[0].columns)
        scope = replace(scope, relations=(Relation((), columns),))
    return context.inside(scope).typed(body)


def _condition(context: Context, node: exp.Expression, body: Typed) -> str:
    if body.type not in (BOOLEAN, NULL):
        context.text.refuse(node, "the lambda is not a condition", expected="BOOLEAN", found=format_type(body.type))
    return cast(body.sql, body.type, BOOLEAN)


FUNCTIONS: dict[str, Function] = {
    "aggregate": _aggregate,
    "reduce": _aggregate,
    "exists": _quantified("true", "false"),
    "filter": _filter,
    "forall": _quantified("false", "true"),
    "map_filter": _over_map("filter"),
    "transform": _transform,
    "transform_keys": _over_map("keys"),
    "transform_values": _over_map("values"),
    "zip_with": _zip_with,
}
