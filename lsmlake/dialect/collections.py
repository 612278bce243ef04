"""Functions of Spark SQL over arrays and maps, with and without lambdas.

A lambda is translated with its parameters as the innermost scope. DuckDB counts elements from 1 and leaves nulls out where Spark
does not; what differs is spelled out here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import pyarrow as pa
from sqlglot import exp

from lsmlake.dialect.cast import cast
from lsmlake.dialect.functions import INTERVALS
from lsmlake.dialect.polymorphic import Arguments, Context, counted
from lsmlake.dialect.scope import Column, Relation, Scope, Typed
from lsmlake.dialect.types import BIGINT, BOOLEAN, DATE, INT, NULL, STRING, array_of, duck_name, is_time
from lsmlake.schema.type_text import format_type

Function = Callable[[Context, exp.Expression, Arguments], Typed]


def _array(context: Context, node: exp.Expression, made: Typed) -> Typed:
    if not pa.types.is_list(made.type):
        context.text.refuse(node, "expected an ARRAY", found=format_type(made.type))
    return made


def _map(context: Context, node: exp.Expression, made: Typed) -> Typed:
    if not pa.types.is_map(made.type):
        context.text.refuse(node, "expected a MAP", found=format_type(made.type))
    return made


def of_array(template: str, gives: Callable[[pa.DataType], pa.DataType]) -> Function:
    """A function of one array. `gives`: the type of the result, by the type of the array."""

    def made(context: Context, node: exp.Expression, arguments: Arguments) -> Typed:
        array = _array(context, node, counted(context, node, arguments, 1)[0])
        return Typed(f"({template.format(array.sql)})", gives(array.type))

    return made


def of_map(template: str, gives: Callable[[pa.DataType], pa.DataType]) -> Function:
    """A function of one map."""

    def made(context: Context, node: exp.Expression, arguments: Arguments) -> Typed:
        found = _map(context, node, counted(context, node, arguments, 1)[0])
        return Typed(template.format(found.sql), gives(found.type))

    return made


def of_element(template: str, gives: Callable[[pa.DataType], pa.DataType]) -> Function:
    """A function of an array and a value of its elements' type; null if one of them is null."""

    def made(context: Context, node: exp.Expression, arguments: Arguments) -> Typed:
        array, value = counted(context, node, arguments, 2)
        array = _array(context, node, array)
        value_sql = context.converted(arguments[1], value, array.type.value_type)
        return Typed(template.format(array.sql, value_sql), gives(array.type))

    return made


def _both(template: str) -> Function:
    """A function of two arrays of one type; null if one of them is null."""

    def made(context: Context, node: exp.Expression, arguments: Arguments) -> Typed:
        typed = [_array(context, node, one) for one in counted(context, node, arguments, 2)]
        (left, right), kind = context.unified(arguments, typed)
        return Typed(f"CASE WHEN ({left}) IS NOT NULL AND ({right}) IS NOT NULL THEN {template.format(left, right)} END", kind)

    return made


def _element_type(kind: pa.DataType) -> pa.DataType:
    return kind.value_type


def _same(kind: pa.DataType) -> pa.DataType:
    return kind


def _of(kind: pa.DataType) -> Callable[[pa.DataType], pa.DataType]:
    return lambda _: kind


def _sort_array(context: Context, node: exp.Expression, arguments: Arguments) -> Typed:
    typed = counted(context, node, arguments, 1, 2)
    array = _array(context, node, typed[0])
    ascending = True
    if len(arguments) == 2:
        if not isinstance(arguments[1], exp.Boolean):
            context.text.refuse(arguments[1], "sort_array takes TRUE or FALSE")
        ascending = bool(arguments[1].this)
    order = "'ASC', 'NULLS FIRST'" if ascending else "'DESC', 'NULLS LAST'"
    return Typed(f"list_sort({array.sql}, {order})", array.type)


def _array_join(context: Context, node: exp.Expression, arguments: Arguments) -> Typed:
    array, *texts = counted(context, node, arguments, 2, 3)
    array = _array(context, node, array)
    if array.type.value_type != STRING:
        context.text.refuse(node, "array_join needs an ARRAY<STRING>", found=format_type(array.type))
    separator, *instead = (context.converted(node, one, STRING) for one in texts)
    items = f"list_transform({array.sql}, lambda e: coalesce(e, {instead[0]}))" if instead else array.sql
    return Typed(f"CASE WHEN ({array.sql}) IS NOT NULL THEN array_to_string({items}, {separator}) END", STRING)


def _array_repeat(context: Context, node: exp.Expression, arguments: Arguments) -> Typed:
    value, number = counted(context, node, arguments, 2)
    times = context.converted(arguments[1], number, INT)
    return Typed(f"list_transform(generate_series(1, greatest({times}, 0)), lambda e: {value.sql})", array_of(value.type))


def _slice(context: Context, node: exp.Expression, arguments: Arguments) -> Typed:
    array, start, length = counted(context, node, arguments, 3)
    array = _array(context, node, array)
    if not start.constant or length.constant is None or length.constant < 0:
        context.text.refuse(node, "slice takes a literal start other than 0 and a literal length")
    first = str(start.constant) if start.constant > 0 else f"len({array.sql}) + {start.constant + 1}"
    cut = f"list_slice({array.sql}, {first}, {first} + {length.constant - 1})"
    inside = "true" if start.constant > 0 else f"len({array.sql}) >= {-start.constant}"
    return Typed(f"CASE WHEN ({array.sql}) IS NULL THEN NULL WHEN {inside} THEN {cut} ELSE [] END", array.type)


def _sequence(context: Context, node: exp.Expression, arguments: Arguments) -> Typed:
    if len(arguments) == 3 and isinstance(arguments[2], exp.Interval):
        return _times(context, node, arguments)
    typed = counted(context, node, arguments, 2, 3)
    if all(one.type == DATE for one in typed) and len(typed) == 2:
        return _times(context, node, arguments)
    sqls, kind = context.unified(arguments, typed)
    if not pa.types.is_integer(kind):
        context.text.refuse(node, "sequence takes integers, or dates and an INTERVAL", found=format_type(kind))
    low, high, *given = (f"CAST({sql} AS BIGINT)" for sql in sqls)
    step = given[0] if given else f"CASE WHEN {low} <= {high} THEN 1 ELSE -1 END"
    made = f"CAST(generate_series({low}, {high}, {step}) AS {_duck_list(kind)})"
    wrong = "error('the step of sequence leads away from its end')"
    sql = f"CASE WHEN {low} = {high} THEN [CAST({low} AS {duck_name(kind)})] WHEN ({low} < {high}) <> ({step} > 0) THEN {wrong}"
    return Typed(f"{sql} ELSE {made} END", array_of(kind))


def _times(context: Context, node: exp.Expression, arguments: Arguments) -> Typed:
    low, high = (context.typed(one) for one in arguments[:2])
    if not (is_time(low.type) and low.type == high.type):
        context.text.refuse(node, "sequence needs two dates or two timestamps", found=format_type(low.type))
    if len(arguments) == 2:
        step = f"CASE WHEN {low.sql} <= {high.sql} THEN INTERVAL 1 DAY ELSE INTERVAL (-1) DAY END"
    else:
        interval = arguments[2]
        unit = interval.args["unit"].name.upper().removesuffix("S") if isinstance(interval.args.get("unit"), exp.Var) else ""
        number = interval.this.name if isinstance(interval.this, exp.Literal) else ""
        if unit not in INTERVALS or not number.isdecimal():
            context.text.refuse(interval, "sequence takes a literal INTERVAL", expected=f"INTERVAL number {'|'.join(INTERVALS)}")
        if INTERVALS[unit] == "months" and int(number):  # each is so many months after the first, not after the one before
            months = int(number) * (12 if unit == "YEAR" else 1)
            count = f"generate_series(0, datediff('month', {low.sql}, {high.sql}) // {months})"
            every = f"list_transform({count}, lambda e: {low.sql} + to_months(CAST(e * {months} AS INTEGER)))"
            sql = f"CAST(list_filter({every}, lambda e: e <= {high.sql}) AS {_duck_list(low.type)})"
            return Typed(f"CASE WHEN {low.sql} <= {high.sql} THEN {sql} END", array_of(low.type))
        step = f"to_{unit.lower()}s({int(number)})"
    moment = "TIMESTAMP" if low.type == DATE else duck_name(low.type)
    series = f"generate_series(CAST({low.sql} AS {moment}), CAST({high.sql} AS {moment}), {step})"
    return Typed(f"CAST({series} AS {_duck_list(low.type)})", array_of(low.type))


def _flatten(context: Context, node: exp.Expression, arguments: Arguments) -> Typed:
    array = _array(context, node, counted(context, node, arguments, 1)[0])
    if not pa.types.is_list(array.type.value_type):
        context.text.refuse(node, "flatten needs an ARRAY of ARRAY", found=format_type(array.type))
    whole = f"len(list_filter({array.sql}, lambda e: e IS NULL)) = 0"
    return Typed(f"CASE WHEN {whole} THEN flatten({array.sql}) END", array.type.value_type)


# -- maps -----------------------------------------------------------------------------------------------------------------


def _make_map(context: Context, node: exp.Expression, arguments: Arguments) -> Typed:
    if len(arguments) % 2 or not arguments:
        context.text.refuse(node, "map takes pairs of a key and a value")
    keys, values = arguments[::2], arguments[1::2]
    (key_sqls, key), (value_sqls, value) = (
        context.unified(some, [context.typed(one) for one in some]) for some in (keys, values)
    )
    return Typed(f"map([{', '.join(key_sqls)}], [{', '.join(value_sqls)}])", pa.map_(key, value))


def _map_from_arrays(context: Context, node: exp.Expression, arguments: Arguments) -> Typed:
    keys, values = (_array(context, node, one) for one in counted(context, node, arguments, 2))
    made = f"CASE WHEN ({keys.sql}) IS NOT NULL AND ({values.sql}) IS NOT NULL THEN map({keys.sql}, {values.sql}) END"
    return Typed(made, pa.map_(keys.type.value_type, values.type.value_type))


def _map_contains_key(context: Context, node: exp.Expression, arguments: Arguments) -> Typed:
    found, key = counted(context, node, arguments, 2)
    found = _map(context, node, found)
    return Typed(f"list_contains(map_keys({found.sql}), {context.converted(node, key, found.type.key_type)})", BOOLEAN)


def _entries(kind: pa.DataType) -> pa.DataType:
    return array_of(pa.struct([("key", kind.key_type), ("value", kind.item_type)]))


# -- lambdas --------------------------------------------------------------------------------------------------------------


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
    return names, of.this, Scope((Relation((), columns),), outer=context.scope)


def _body(context: Context, body: exp.Expression, scope: Scope, replaced: Mapping[str, str] | None = None) -> Typed:
    if replaced:
        columns = tuple(replace(one, sql=replaced.get(one.sql, one.sql)) for one in scope.relations[0].columns)
        scope = replace(scope, relations=(Relation((), columns),))
    return context.inside(scope).typed(body)


def _over(context: Context, node: exp.Expression, arguments: Arguments, *more: pa.DataType) -> tuple[Typed, str, Typed]:
    """An array, the head of a lambda over its elements, and the body."""
    if len(arguments) != 2:
        context.text.refuse(node, "expected an ARRAY and a lambda", found=f"{len(arguments)} arguments")
    array = _array(context, node, context.typed(arguments[0]))
    names, body, scope = _lambda(context, node, arguments[1], array.type.value_type, *more)
    replaced = {names[1]: f"CAST({names[1]} - 1 AS INTEGER)"} if len(names) > 1 else None
    return array, ", ".join(names), _body(context, body, scope, replaced)


def _transform(context: Context, node: exp.Expression, arguments: Arguments) -> Typed:
    array, names, body = _over(context, node, arguments, INT)
    return Typed(f"list_transform({array.sql}, lambda {names}: {body.sql})", array_of(body.type))


def _condition(context: Context, node: exp.Expression, body: Typed) -> str:
    if body.type not in (BOOLEAN, NULL):
        context.text.refuse(node, "the lambda is not a condition", expected="BOOLEAN", found=format_type(body.type))
    return cast(body.sql, body.type, BOOLEAN)


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
    array, start = _array(context, node, context.typed(arguments[0])), context.typed(arguments[1])
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
    left, right = (_array(context, node, context.typed(one)) for one in arguments[:2])
    names, body, scope = _lambda(context, node, arguments[2], left.type.value_type, right.type.value_type)
    made = _body(context, body, scope, {name: f"{names[0]}[{number}]" for number, name in enumerate(names, 1)})
    sql = f"list_transform(list_zip({left.sql}, {right.sql}), lambda {names[0]}: {made.sql})"
    return Typed(f"CASE WHEN ({left.sql}) IS NOT NULL AND ({right.sql}) IS NOT NULL THEN {sql} END", array_of(made.type))


def _over_map(result: str) -> Function:
    """`map_filter`, `transform_keys` and `transform_values`."""

    def made(context: Context, node: exp.Expression, arguments: Arguments) -> Typed:
        if len(arguments) != 2:
            context.text.refuse(node, "expected a MAP and a lambda", found=f"{len(arguments)} arguments")
        found = _map(context, node, context.typed(arguments[0]))
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


def _duck_list(kind: pa.DataType) -> str:
    return f"{duck_name(kind)}[]"


_UNIQUE = "list_filter({0}, lambda e, i: list_position({0}, e) = i)"
_HAS = "list_position({1}, e) IS NOT NULL"

FUNCTIONS: dict[str, Function] = {
    "aggregate": _aggregate,
    "reduce": _aggregate,
    "array_append": of_element("CASE WHEN ({0}) IS NOT NULL THEN list_append({0}, {1}) END", _same),
    "array_compact": of_array("list_filter({0}, lambda e: e IS NOT NULL)", _same),
    "array_distinct": of_array(_UNIQUE, _same),
    "array_except": _both(f"list_filter({_UNIQUE}, lambda e: NOT ({_HAS}))"),
    "array_intersect": _both(f"list_filter({_UNIQUE}, lambda e: {_HAS})"),
    "array_join": _array_join,
    "array_max": of_array("list_max({0})", _element_type),
    "array_min": of_array("list_min({0})", _element_type),
    "array_position": of_element(
        "CASE WHEN ({0}) IS NOT NULL AND ({1}) IS NOT NULL THEN CAST(coalesce(list_position({0}, {1}), 0) AS BIGINT) END",
        _of(BIGINT),
    ),
    "array_prepend": of_element("CASE WHEN ({0}) IS NOT NULL THEN list_prepend({1}, {0}) END", _same),
    "array_remove": of_element("CASE WHEN ({1}) IS NOT NULL THEN list_filter({0}, lambda e: e IS DISTINCT FROM {1}) END", _same),
    "array_repeat": _array_repeat,
    "array_sort": of_array("list_sort({0}, 'ASC', 'NULLS LAST')", _same),
    "array_union": _both(_UNIQUE.format("list_concat({0}, {1})")),
    "exists": _quantified("true", "false"),
    "filter": _filter,
    "flatten": _flatten,
    "forall": _quantified("false", "true"),
    "map": _make_map,
    "map_contains_key": _map_contains_key,
    "map_entries": of_map("map_entries({0})", _entries),
    "map_filter": _over_map("filter"),
    "map_from_arrays": _map_from_arrays,
    "map_keys": of_map("map_keys({0})", lambda kind: array_of(kind.key_type)),
    "map_values": of_map("map_values({0})", lambda kind: array_of(kind.item_type)),
    "sequence": _sequence,
    "slice": _slice,
    "sort_array": _sort_array,
    "transform": _transform,
    "transform_keys": _over_map("keys"),
    "transform_values": _over_map("values"),
    "zip_with": _zip_with,
}
