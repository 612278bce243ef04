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
from lsmlake.dialect.casts import cast
from lsmlake.dialect.context import Context
from lsmlake.dialect.failures import refused
from lsmlake.dialect.maps import renamed
from lsmlake.dialect.scope import Relation, Scope, ScopeColumn, Typed
from lsmlake.dialect.sql_types import BOOLEAN, INT, NULL, array_of, duck_name
from lsmlake.types.type_text import format_type


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
        results = f"list_transform({array.sql}, lambda {names}: {_condition(context, node, body)})"
        has = f"list_contains({results}, {decided})"
        unknown = f"len({results}) > list_aggregate({results}, 'count')"
        sql = f"CASE WHEN ({array.sql}) IS NULL THEN NULL WHEN {has} THEN {decided} WHEN {unknown} THEN NULL ELSE {otherwise} END"
        return Typed(sql, BOOLEAN)

    return made


def _aggregate(context: Context, node: exp.Expression, arguments: Arguments) -> Typed:
    if len(arguments) not in (3, 4):
        context.text.refuse(
            node,
            "expected an ARRAY, a start and a lambda",
            found=f"{len(arguments)} arguments",
            cure="write aggregate(array, 0, (sum, x) -> sum + x)",
        )
    array, start = array_argument(context, node, context.typed(arguments[0])), context.typed(arguments[1])
    names, body, scope = _lambda(context, node, arguments[2], start.type, array.type.value_type)
    made = renamed(_body(context, body, scope), start.type)
    if made.type != start.type or len(names) != 2:
        types = f"{format_type(start.type)} and {format_type(made.type)}"
        context.text.refuse(node, "the start and the result of the lambda must have one type", found=types, cure="cast the start")
    sql = f"list_reduce({array.sql}, lambda {', '.join(names)}: {made.sql}, {start.sql})"
    if len(arguments) == 3:
        return Typed(sql, start.type)
    (name,), body, scope = _lambda(context, node, arguments[3], start.type)
    end = _body(context, body, scope)
    return Typed(f"list_transform([{sql}], lambda {name}: {end.sql})[1]", end.type)


def _zip_with(context: Context, node: exp.Expression, arguments: Arguments) -> Typed:
    if len(arguments) != 3:
        context.text.refuse(
            node,
            "expected two ARRAYs and a lambda",
            found=f"{len(arguments)} arguments",
            cure="write zip_with(a, b, (x, y) -> x + y)",
        )
    left, right = (array_argument(context, node, context.typed(one)) for one in arguments[:2])
    names, body, scope = _lambda(context, node, arguments[2], left.type.value_type, right.type.value_type)
    made = _body(context, body, scope, {name: f"{names[0]}[{number}]" for number, name in enumerate(names, 1)})
    sql = f"list_transform(list_zip({left.sql}, {right.sql}), lambda {names[0]}: {made.sql})"
    return Typed(f"CASE WHEN ({left.sql}) IS NOT NULL AND ({right.sql}) IS NOT NULL THEN {sql} END", array_of(made.type))


def _array_sort(context: Context, node: exp.Expression, arguments: Arguments) -> Typed:
    """An array sorted with nulls last, or by a lambda that compares two elements: each is put before the first greater one."""
    if len(arguments) not in (1, 2):
        context.text.refuse(
            node, "the number of arguments does not fit", expected="1 or 2", found=len(arguments), cure="pass as many arguments"
        )
    array = array_argument(context, node, context.typed(arguments[0]))
    if len(arguments) == 1:
        return Typed(f"list_sort({array.sql}, 'ASC', 'NULLS LAST')", array.type)
    if not isinstance(arguments[1], exp.Lambda) or len(arguments[1].expressions) != 2:
        context.text.refuse(arguments[1], "expected a lambda with two parameters", cure="write (a, b) -> expression")
    (a, b), body, scope = _lambda(context, node, arguments[1], *[array.type.value_type] * 2)
    made = _body(context, body, scope, {a: f"{a}[1]", b: f"{b}[1]"})
    if made.type != INT:
        context.text.refuse(node, "the lambda must give an INT", found=format_type(made.type), cure="cast it to INT")
    none = refused("'the lambda of array_sort gives NULL; compare nulls, too'")
    compared = f"CASE WHEN ({made.sql}) IS NULL THEN {none} ELSE ({made.sql}) END"
    before, after = (f"list_filter(s, lambda {a}: {compared} {sign} 0)" for sign in ("<=", ">"))
    boxes = f"list_transform({array.sql}, lambda e: [[e]])"  # an element in a list of its own may be null
    put = f"list_transform([n[1]], lambda {b}: list_concat({before}, [{b}], {after}))[1]"
    made = f"list_reduce({boxes}, lambda s, n: {put}, CAST([] AS {duck_name(array.type)}[]))"
    return Typed(f"list_transform({made}, lambda e: e[1])", array.type)


def _map_zip_with(context: Context, node: exp.Expression, arguments: Arguments) -> Typed:
    if len(arguments) != 3:
        context.text.refuse(
            node,
            "expected two MAPs and a lambda",
            found=f"{len(arguments)} arguments",
            cure="write map_zip_with(a, b, (k, x, y) -> x)",
        )
    maps = [map_argument(context, node, context.typed(one)) for one in arguments[:2]]
    left, right = (one.type.key_type for one in maps)
    if left != right and pa.types.is_string(left) != pa.types.is_string(right):
        types = f"{format_type(left)} and {format_type(right)}"
        context.text.refuse(node, "the keys of both maps need one type", found=types, cure="cast the keys of one map")
    keys, kind = context.unified(arguments[:2], [Typed(f"map_keys({one.sql})", array_of(one.type.key_type)) for one in maps])
    names, body, scope = _lambda(context, node, arguments[2], kind.value_type, *(one.type.item_type for one in maps))
    parts = dict(zip(names, (f"{names[0]}.k", f"{names[0]}.a", f"{names[0]}.b"), strict=False))
    made = _body(context, body, scope, parts)
    ours, theirs = keys
    all_keys = f"list_concat({ours}, list_filter({theirs}, lambda k: list_position({ours}, k) IS NULL))"
    a, b = (f"map_values({one.sql})[list_position({of}, k)]" for one, of in zip(maps, keys, strict=True))
    rows = f"list_transform({all_keys}, lambda k: {{'k': k, 'a': {a}, 'b': {b}}})"
    values = f"list_transform({rows}, lambda {names[0]}: {made.sql})"
    given = " AND ".join(f"({one.sql}) IS NOT NULL" for one in maps)
    return Typed(f"CASE WHEN {given} THEN map({all_keys}, {values}) END", pa.map_(kind.value_type, made.type))


def _over_map(result: str) -> Function:
    """`map_filter`, `transform_keys` and `transform_values`."""

    def made(context: Context, node: exp.Expression, arguments: Arguments) -> Typed:
        if len(arguments) != 2:
            context.text.refuse(
                node,
                "expected a MAP and a lambda",
                found=f"{len(arguments)} arguments",
                cure="write map_filter(map, (k, v) -> v > 0)",
            )
        map_ = map_argument(context, node, context.typed(arguments[0]))
        names, body, scope = _lambda(context, node, arguments[1], map_.type.key_type, map_.type.item_type)
        fields = dict(zip(names, (f"{names[0]}.key", f"{names[0]}.value"), strict=False))
        inner, entries = _body(context, body, scope, fields), f"map_entries({map_.sql})"
        if result == "filter":
            kept = f"list_filter({entries}, lambda {names[0]}: {_condition(context, node, inner)})"
            return Typed(f"map_from_entries({kept})", map_.type)
        values = f"list_transform({entries}, lambda {names[0]}: {inner.sql})"
        if result == "keys":
            if inner.type == NULL:
                context.text.refuse(node, "a key of a MAP is not null", found=format_type(inner.type), cure="give keys a value")
            return Typed(f"map({values}, map_values({map_.sql}))", pa.map_(inner.type, map_.type.item_type))
        return Typed(f"map(map_keys({map_.sql}), {values})", pa.map_(map_.type.key_type, inner.type))

    return made


def _over(context: Context, node: exp.Expression, arguments: Arguments, *more: pa.DataType) -> tuple[Typed, str, Typed]:
    """An array, the head of a lambda over its elements, and the body."""
    if len(arguments) != 2:
        name = node.name.lower() if isinstance(node, exp.Anonymous) else node.key
        query = ", or EXISTS (SELECT ...)" if name == "exists" else ""
        found, cure = f"{len(arguments)} arguments", f"write {name}(array, x -> ...){query}"
        context.text.refuse(node, "expected an ARRAY and a lambda", found=found, cure=cure)
    array = array_argument(context, node, context.typed(arguments[0]))
    names, body, scope = _lambda(context, node, arguments[1], array.type.value_type, *more)
    replaced = {names[1]: f"CAST({names[1]} - 1 AS INTEGER)"} if len(names) > 1 else None
    return array, ", ".join(names), _body(context, body, scope, replaced)


def _lambda(
    context: Context, node: exp.Expression, of: exp.Expression, *kinds: pa.DataType
) -> tuple[list[str], exp.Expression, Scope]:
    """The names of the parameters in DuckDB, the body and its scope."""
    depth, outer = 0, context.scope
    while outer is not None:
        depth, outer = depth + 1, outer.outer
    if not isinstance(of, exp.Lambda):  # a value without parameters, for all elements
        return [f"p{depth}_{number}" for number in range(len(kinds))], of, context.scope
    if len(of.expressions) > len(kinds):
        context.text.refuse(
            of, "the lambda has too many parameters", expected=f"at most {len(kinds)}", cure="leave the others out"
        )
    names = [f"p{depth}_{number}" for number in range(len(of.expressions))]
    columns = tuple(ScopeColumn(one.name, kind, name) for one, kind, name in zip(of.expressions, kinds, names, strict=False))
    return names, of.this, Scope((Relation((), columns),), outer=replace(context.scope, used=None))


def _body(context: Context, body: exp.Expression, scope: Scope, replaced: Mapping[str, str] | None = None) -> Typed:
    if replaced and body.parent is not None and isinstance(body.parent, exp.Lambda):
        columns = tuple(replace(one, sql=replaced.get(one.sql, one.sql)) for one in scope.relations[0].columns)
        scope = replace(scope, relations=(Relation((), columns),))
    return context.inside(scope).typed(body)


def _condition(context: Context, node: exp.Expression, body: Typed) -> str:
    if body.type not in (BOOLEAN, NULL):
        context.text.refuse(
            node, "the lambda is not a condition", expected="BOOLEAN", found=format_type(body.type), cure="write a comparison"
        )
    return cast(body.sql, body.type, BOOLEAN)


FUNCTIONS: dict[str, Function] = {
    "aggregate": _aggregate,
    "array_sort": _array_sort,
    "reduce": _aggregate,
    "exists": _quantified("true", "false"),
    "filter": _filter,
    "forall": _quantified("false", "true"),
    "map_filter": _over_map("filter"),
    "map_zip_with": _map_zip_with,
    "transform": _transform,
    "transform_keys": _over_map("keys"),
    "transform_values": _over_map("values"),
    "zip_with": _zip_with,
}
