"""Functions of one array and of several, and `sequence`, which makes an array of integers, dates or timestamps from a first to a
last value, by a step.
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
from sqlglot import exp

from lsmlake.dialect.calling import (
    Arguments,
    Function,
    array_argument,
    counted,
    map_key,
    tightest,
)
from lsmlake.dialect.context import Context
from lsmlake.dialect.failures import refused
from lsmlake.dialect.interval_forms import DAY
from lsmlake.dialect.scope import Typed
from lsmlake.dialect.sql_types import (
    BIGINT,
    BOOLEAN,
    DATE,
    INT,
    NULL,
    STRING,
    array_of,
    common,
    duck_name,
    is_dated,
    one_zero,
    quoted,
)
from lsmlake.types.intervals import DAYS, is_calendar, is_interval
from lsmlake.types.type_text import format_type

_FIRST = "{{0}}[list_position({{0}}, {}({{0}}))]"
"""The first of the elements that equal the greatest or the least one: 0.0 and -0.0 are equal."""


def _of_array(template: str, gives: Callable[[pa.DataType], pa.DataType]) -> Function:
    """A function of one array. `gives`: the type of the result, by the type of the array."""

    def made(context: Context, node: exp.Expression, arguments: Arguments) -> Typed:
        array = array_argument(context, node, counted(context, node, arguments, 1)[0])
        return Typed(f"({template.format(array.sql)})", gives(array.type))

    return made


def _distinct(context: Context, node: exp.Expression, arguments: Arguments) -> Typed:
    array = array_argument(context, node, counted(context, node, arguments, 1)[0])
    return Typed(f"({UNIQUE.format(one_zero(array.sql, array.type))})", array.type)


def _of_element(template: str, gives: Callable[[pa.DataType], pa.DataType]) -> Function:
    """A function of an array and a value of its elements' type; null if one of them is null."""

    def made(context: Context, node: exp.Expression, arguments: Arguments) -> Typed:
        array, value = counted(context, node, arguments, 2)
        array, value_sql = _with_element(context, node, arguments, array, value)
        return Typed(template.format(array.sql, value_sql), gives(array.type))

    return made


def _with_element(context: Context, node: exp.Expression, arguments: Arguments, array: Typed, value: Typed) -> tuple[Typed, str]:
    """An array and a value, in one type. Refuses a value that no element can be."""
    array = array_argument(context, node, array)
    both = array.type.value_type, value.type
    kind = tightest(*both)
    if kind is None and node.name.lower() == "array_contains" and not any(one == STRING or is_interval(one) for one in both):
        kind = common(*both)
    if kind is None:
        types = f"{format_type(array.type)} and {format_type(value.type)}"
        context.text.refuse(node, "the value cannot be an element of the array", found=types, cure="cast the value")
    wider = Typed(context.converted(arguments[0], array, array_of(kind)), array_of(kind))
    return wider, context.converted(arguments[1], value, kind)


def _element_type(kind: pa.DataType) -> pa.DataType:
    return kind.value_type


def _same(kind: pa.DataType) -> pa.DataType:
    return kind


def _of(kind: pa.DataType) -> Callable[[pa.DataType], pa.DataType]:
    return lambda _: kind


def _size(context: Context, node: exp.Expression, arguments: Arguments) -> Typed:
    made = counted(context, node, arguments, 1)[0]
    t = pa.types
    if t.is_map(made.type) and node.name.lower() == "array_size":
        context.text.refuse(node, "expected an ARRAY", found=format_type(made.type), cure="use size")
    if made.type == NULL:
        return Typed("CAST(NULL AS INTEGER)", INT)
    if not (t.is_list(made.type) or t.is_map(made.type)):
        context.text.refuse(node, "expected an ARRAY or a MAP", found=format_type(made.type), cure="pass an ARRAY or a MAP")
    call = "len" if t.is_list(made.type) else "cardinality"
    return Typed(f"CAST({call}({made.sql}) AS INTEGER)", INT)


def _made_array(context: Context, node: exp.Expression, arguments: Arguments) -> Typed:
    sqls, kind = context.unified(arguments, [context.typed(one) for one in arguments])
    return Typed(f"[{', '.join(sqls)}]" if sqls else "CAST([] AS INTEGER[])", array_of(kind))


def _element_at(context: Context, node: exp.Expression, arguments: Arguments) -> Typed:
    made, index = counted(context, node, arguments, 2)
    if pa.types.is_map(made.type):
        return Typed(f"{made.sql}[{map_key(context, arguments[1], index, made.type)}]", made.type.item_type)
    made = array_argument(context, node, made)
    if not index.constant:
        context.text.refuse(node, "element_at takes a literal index other than 0", cure="write array[index], which counts from 0")
    if index.constant < 0:
        return Typed(f"spark_element({made.sql}, len({made.sql}) + {index.constant})", made.type.value_type)
    return Typed(f"spark_element({made.sql}, {index.constant - 1})", made.type.value_type)


def _get(context: Context, node: exp.Expression, arguments: Arguments) -> Typed:
    made, index = counted(context, node, arguments, 2)
    made, index_sql = array_argument(context, node, made), context.converted(node, index, INT)
    return Typed(f"CASE WHEN {index_sql} >= 0 THEN {made.sql}[{index_sql} + 1] END", made.type.value_type)


def _array_contains(context: Context, node: exp.Expression, arguments: Arguments) -> Typed:
    array, value = counted(context, node, arguments, 2)
    array, value_sql = _with_element(context, node, arguments, array, value)
    has_null = f"len({array.sql}) > list_aggregate({array.sql}, 'count')"
    cases = (
        f"CASE WHEN {array.sql} IS NULL OR {value_sql} IS NULL THEN NULL WHEN list_contains({array.sql}, {value_sql}) THEN true"
    )
    return Typed(f"{cases} WHEN {has_null} THEN NULL ELSE false END", BOOLEAN)


def _sort_array(context: Context, node: exp.Expression, arguments: Arguments) -> Typed:
    typed = counted(context, node, arguments, 1, 2)
    array = array_argument(context, node, typed[0])
    ascending = True
    if len(arguments) == 2:
        if not isinstance(arguments[1], exp.Boolean):
            context.text.refuse(arguments[1], "sort_array takes TRUE or FALSE", cure="write TRUE or FALSE")
        ascending = bool(arguments[1].this)
    order = "'ASC', 'NULLS FIRST'" if ascending else "'DESC', 'NULLS LAST'"
    return Typed(f"list_sort({array.sql}, {order})", array.type)


def _array_join(context: Context, node: exp.Expression, arguments: Arguments) -> Typed:
    array, *texts = counted(context, node, arguments, 2, 3)
    array = array_argument(context, node, array)
    item = context.converted(arguments[0], Typed("e", array.type.value_type), STRING)
    separator, *instead = (context.converted(node, one, STRING) for one in texts)
    item = f"coalesce({item}, {instead[0]})" if instead else item
    items = f"list_transform({array.sql}, lambda e: {item})" if item != "e" else array.sql
    return Typed(f"CASE WHEN ({array.sql}) IS NOT NULL THEN coalesce(array_to_string({items}, {separator}), '') END", STRING)


def _array_insert(context: Context, node: exp.Expression, arguments: Arguments) -> Typed:
    array, place, value = counted(context, node, arguments, 3)
    array, value_sql = _with_element(context, node, [arguments[0], arguments[2]], array, value)
    at = context.converted(arguments[1], place, INT)
    return Typed(f"spark_array_insert({array.sql}, {at}, {value_sql})", array.type)


def _array_repeat(context: Context, node: exp.Expression, arguments: Arguments) -> Typed:
    value, number = counted(context, node, arguments, 2)
    times = context.converted(arguments[1], number, INT)
    return Typed(f"list_transform(generate_series(1, greatest({times}, 0)), lambda e: {value.sql})", array_of(value.type))


def _slice(context: Context, node: exp.Expression, arguments: Arguments) -> Typed:
    array, start, length = counted(context, node, arguments, 3)
    array = array_argument(context, node, array)
    if not start.constant or length.constant is None or length.constant < 0:
        context.text.refuse(
            node, "slice takes a literal start other than 0 and a literal length", cure="write slice(array, 1, 3)"
        )
    first = str(start.constant) if start.constant > 0 else f"len({array.sql}) + {start.constant + 1}"
    cut = f"list_slice({array.sql}, {first}, {first} + {length.constant - 1})"
    inside = "true" if start.constant > 0 else f"len({array.sql}) >= {-start.constant}"
    return Typed(f"CASE WHEN ({array.sql}) IS NULL THEN NULL WHEN {inside} THEN {cut} ELSE [] END", array.type)


def _flatten(context: Context, node: exp.Expression, arguments: Arguments) -> Typed:
    array = array_argument(context, node, counted(context, node, arguments, 1)[0])
    if not pa.types.is_list(array.type.value_type):
        context.text.refuse(node, "flatten needs an ARRAY of ARRAY", found=format_type(array.type), cure="pass an ARRAY of ARRAY")
    whole = f"len(list_filter({array.sql}, lambda e: e IS NULL)) = 0"
    return Typed(f"CASE WHEN {whole} THEN flatten({array.sql}) END", array.type.value_type)


# -- several arrays ---------------------------------------------------------------------------------------------------

UNIQUE = "list_filter({0}, lambda e, i: list_position({0}, e) = i)"
"""The distinct elements of an array, in the order of their first occurrence."""
_HAS = "list_position({1}, e) IS NOT NULL"
_SHARED = f"len(list_filter({{0}}, lambda e: e IS NOT NULL AND {_HAS})) > 0"
_NULL_INSIDE = "len({0}) > 0 AND len({1}) > 0 AND (list_position({0}, NULL) IS NOT NULL OR list_position({1}, NULL) IS NOT NULL)"


def _both(template: str, gives: pa.DataType | None = None) -> Function:
    """A function of two arrays of one type; null if one of them is null. `gives`: the type of the result, if not that array."""

    def made(context: Context, node: exp.Expression, arguments: Arguments) -> Typed:
        typed = [array_argument(context, node, one) for one in counted(context, node, arguments, 2)]
        element = tightest(*(one.type.value_type for one in typed))
        if element is None:
            types = " and ".join(format_type(one.type) for one in typed)
            context.text.refuse(node, "the types do not fit together", found=types, cure="cast one of them")
        kind = array_of(element)
        left, right = (one_zero(context.converted(*pair, kind), kind) for pair in zip(arguments, typed, strict=True))
        sql = f"CASE WHEN ({left}) IS NOT NULL AND ({right}) IS NOT NULL THEN {template.format(left, right)} END"
        return Typed(sql, gives or kind)

    return made


def _zip(context: Context, node: exp.Expression, arguments: Arguments) -> Typed:
    """An array of STRUCTs. A field has the name of the column that its values are from, or its number."""
    typed = [array_argument(context, node, made) for made in counted(context, node, arguments, *range(1, 100))]
    names = [one.alias_or_name if isinstance(one, (exp.Column, exp.Alias)) else str(i) for i, one in enumerate(arguments)]
    fields = ", ".join(f"{quoted(name)} := e[{place}]" for place, name in enumerate(names, 1))
    given = " AND ".join(f"({made.sql}) IS NOT NULL" for made in typed)
    rows = f"list_transform(list_zip({', '.join(made.sql for made in typed)}), lambda e: struct_pack({fields}))"
    kind = pa.struct([pa.field(name, made.type.value_type) for name, made in zip(names, typed, strict=True)])
    return Typed(f"CASE WHEN {given} THEN {rows} END", array_of(kind))


# -- sequence ---------------------------------------------------------------------------------------------------------

_AWAY = refused("'the step of sequence leads away from its end'")
_TOO_SHORT = refused("'a sequence of dates needs a step of days or months; make it one of timestamps'")


def _sequence(context: Context, node: exp.Expression, arguments: Arguments) -> Typed:
    typed = counted(context, node, arguments, 2, 3)
    if any(is_dated(one.type) for one in typed):
        return _times(context, node, arguments, typed)
    sqls, kind = context.unified(arguments, typed)
    if not pa.types.is_integer(kind):
        context.text.refuse(
            node, "sequence takes integers, or times and an INTERVAL", found=format_type(kind), cure="cast the bounds"
        )
    low, high, *given = (f"CAST({sql} AS BIGINT)" for sql in sqls)
    step = given[0] if given else f"CASE WHEN {low} <= {high} THEN 1 ELSE -1 END"
    made = f"CAST(generate_series({low}, {high}, {step}) AS {duck_name(array_of(kind))})"
    sql = f"CASE WHEN {low} = {high} THEN [CAST({low} AS {duck_name(kind)})] WHEN ({low} < {high}) <> ({step} > 0) THEN {_AWAY}"
    return Typed(f"{sql} ELSE {made} END", array_of(kind))


def _times(context: Context, node: exp.Expression, arguments: Arguments, typed: list[Typed]) -> Typed:
    (low, high), kind = context.unified(arguments[:2], typed[:2])
    step = typed[2] if len(typed) > 2 else Typed(f"CASE WHEN {low} <= {high} THEN {DAY} ELSE -{DAY} END", DAYS)
    if not is_dated(kind) or not is_interval(step.type) or is_calendar(step.type):
        types = " and ".join(format_type(one.type) for one in (typed[0], step))
        expected = "times, and an INTERVAL of months or of days and times"
        context.text.refuse(
            node,
            "sequence does not take these values",
            expected=expected,
            found=types,
            cure="write two times and an INTERVAL",
        )
    first, last, by = (f"struct_extract(q, '{name}')" for name in "abs")
    if step.type.is_months:  # counted from the first value, not from the one before
        count = f"datediff('month', {first}, {last}) // {by}"
        moment = f"{first} + to_months(CAST(e * {by} AS INTEGER))"
    else:
        count = f"(epoch_us({last}) - epoch_us({first})) // {by} + 1"  # a day may have 25 hours
        moment = f"{first} + to_days(CAST(e * ({by} // {DAY}) AS INTEGER)) + to_microseconds(e * ({by} % {DAY}))"
    every = f"list_transform(generate_series(0, {count}), lambda e: {moment})"
    inside = f"list_filter({every}, lambda x: CASE WHEN {by} > 0 THEN x <= {last} ELSE x >= {last} END)"
    short = f"WHEN abs({by}) < {1 if step.type.is_months else DAY} THEN {_TOO_SHORT} " if kind == DATE else ""
    sql = (
        f"CASE WHEN {first} IS NULL OR {last} IS NULL OR {by} IS NULL THEN NULL {short}WHEN {first} = {last} THEN [{first}] "
        f"WHEN {by} = 0 OR ({first} < {last}) <> ({by} > 0) THEN {_AWAY} ELSE {inside} END"
    )
    bound = f"{{'a': {low}, 'b': {high}, 's': {step.sql}}}"
    return Typed(f"CAST(list_transform([{bound}], lambda q: {sql})[1] AS {duck_name(array_of(kind))})", array_of(kind))


FUNCTIONS: dict[str, Function] = {
    "size": _size,
    "cardinality": _size,
    "array": _made_array,
    "array_size": _size,
    "element_at": _element_at,
    "get": _get,
    "array_contains": _array_contains,
    "array_append": _of_element("CASE WHEN ({0}) IS NOT NULL THEN list_append({0}, {1}) END", _same),
    "array_compact": _of_array("list_filter({0}, lambda e: e IS NOT NULL)", _same),
    "array_distinct": _distinct,
    "array_insert": _array_insert,
    "array_join": _array_join,
    "array_max": _of_array(_FIRST.format("list_max"), _element_type),
    "array_min": _of_array(_FIRST.format("list_min"), _element_type),
    "array_position": _of_element(
        "CASE WHEN ({0}) IS NOT NULL AND ({1}) IS NOT NULL THEN CAST(coalesce(list_position({0}, {1}), 0) AS BIGINT) END",
        _of(BIGINT),
    ),
    "array_prepend": _of_element("CASE WHEN ({0}) IS NOT NULL THEN list_prepend({1}, {0}) END", _same),
    "array_remove": _of_element("CASE WHEN ({1}) IS NOT NULL THEN list_filter({0}, lambda e: e IS DISTINCT FROM {1}) END", _same),
    "array_repeat": _array_repeat,
    "flatten": _flatten,
    "slice": _slice,
    "sort_array": _sort_array,
    "array_except": _both(f"list_filter({UNIQUE}, lambda e: NOT ({_HAS}))"),
    "array_intersect": _both(f"list_filter({UNIQUE}, lambda e: {_HAS})"),
    "array_union": _both(UNIQUE.format("list_concat({0}, {1})")),
    "arrays_overlap": _both(f"CASE WHEN {_SHARED} THEN true WHEN {_NULL_INSIDE} THEN NULL ELSE false END", BOOLEAN),
    "arrays_zip": _zip,
    "sequence": _sequence,
}
