"""Functions that make a STRUCT, and functions of maps."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
from sqlglot import exp

from lsmlake.dialect.calling import (
    Arguments,
    Function,
    array_argument,
    counted,
    entries,
    literal_text,
    map_argument,
    map_key,
)
from lsmlake.dialect.context import Context
from lsmlake.dialect.scope import Typed
from lsmlake.dialect.sql_types import BOOLEAN, INT, NULL, array_of, one_zero, quoted
from lsmlake.types.type_text import format_type

_NAMED = (exp.Alias, exp.Column, exp.Dot, exp.Identifier)


def _struct(context: Context, node: exp.Expression, arguments: Arguments) -> Typed:
    typed = counted(context, node, arguments, *range(1, 1000))
    names = [argument.alias_or_name if isinstance(argument, _NAMED) else f"col{i}" for i, argument in enumerate(arguments, 1)]
    return _packed(names, typed)


def _named_struct(context: Context, node: exp.Expression, arguments: Arguments) -> Typed:
    if len(arguments) % 2 or not arguments:
        context.text.refuse(node, "named_struct takes pairs of a name and a value", cure="write named_struct('name', value, ...)")
    names = [literal_text(context, name, "the name of a field") for name in arguments[::2]]
    return _packed(names, [context.typed(value) for value in arguments[1::2]])


def _packed(names: list[str], typed: list[Typed]) -> Typed:
    packed = ", ".join(f"{quoted(name)} := {made.sql}" for name, made in zip(names, typed, strict=True))
    return Typed(
        f"struct_pack({packed})", pa.struct([pa.field(name, made.type) for name, made in zip(names, typed, strict=True)])
    )


def renamed(made: Typed, wanted: pa.DataType) -> Typed:
    """A STRUCT with the field names of `wanted`, if the fields have the same types; other values as they are."""
    t = pa.types
    if not (t.is_struct(made.type) and t.is_struct(wanted)) or [f.type for f in made.type] != [f.type for f in wanted]:
        return made
    packed = ", ".join(f"{quoted(field.name)} := struct_extract_at(s, {place})" for place, field in enumerate(wanted, 1))
    return Typed(f"list_transform([{made.sql}], lambda s: CASE WHEN s IS NOT NULL THEN struct_pack({packed}) END)[1]", wanted)


def _of_map(template: str, gives: Callable[[pa.DataType], pa.DataType]) -> Function:
    """A function of one map."""

    def made(context: Context, node: exp.Expression, arguments: Arguments) -> Typed:
        map_ = map_argument(context, node, counted(context, node, arguments, 1)[0])
        return Typed(template.format(map_.sql), gives(map_.type))

    return made


def _make_map(context: Context, node: exp.Expression, arguments: Arguments) -> Typed:
    if len(arguments) % 2:
        context.text.refuse(node, "map takes pairs of a key and a value", cure="write map(key, value, ...)")
    if not arguments:
        return Typed("map(CAST([] AS INTEGER[]), CAST([] AS INTEGER[]))", pa.map_(INT, NULL))
    keys, values = arguments[::2], arguments[1::2]
    (key_sqls, key), (value_sqls, value) = (
        context.unified(some, [context.typed(one) for one in some]) for some in (keys, values)
    )
    listed = ", ".join(one_zero(sql, key) for sql in key_sqls)
    return Typed(f"map([{listed}], [{', '.join(value_sqls)}])", pa.map_(key, value))


def _map_from_arrays(context: Context, node: exp.Expression, arguments: Arguments) -> Typed:
    keys, values = (array_argument(context, node, one) for one in counted(context, node, arguments, 2))
    made = f"CASE WHEN ({keys.sql}) IS NOT NULL AND ({values.sql}) IS NOT NULL THEN map({keys.sql}, {values.sql}) END"
    return Typed(made, pa.map_(keys.type.value_type, values.type.value_type))


def _map_contains_key(context: Context, node: exp.Expression, arguments: Arguments) -> Typed:
    map_, key = counted(context, node, arguments, 2)
    map_ = map_argument(context, node, map_)
    return Typed(f"list_contains(map_keys({map_.sql}), {map_key(context, arguments[1], key, map_.type)})", BOOLEAN)


def _map_concat(context: Context, node: exp.Expression, arguments: Arguments) -> Typed:
    typed = [map_argument(context, node, made) for made in counted(context, node, arguments, *range(1, 100))]
    (keys, key), (values, value) = (
        context.unified(arguments, [Typed(f"{call}({made.sql})", array_of(kind(made.type))) for made in typed])
        for call, kind in (("map_keys", lambda of: of.key_type), ("map_values", lambda of: of.item_type))
    )
    given = " AND ".join(f"({made.sql}) IS NOT NULL" for made in typed)
    all_keys, all_values = (f"flatten([{', '.join(parts)}])" for parts in (keys, values))
    return Typed(
        f"CASE WHEN {given} THEN map({one_zero(all_keys, key)}, {all_values}) END", pa.map_(key.value_type, value.value_type)
    )


def _map_from_entries(context: Context, node: exp.Expression, arguments: Arguments) -> Typed:
    array = array_argument(context, node, counted(context, node, arguments, 1)[0])
    kind = array.type.value_type
    if not (pa.types.is_struct(kind) and kind.num_fields == 2):
        context.text.refuse(
            arguments[0],
            "expected an ARRAY of STRUCT with a key and a value",
            found=format_type(array.type),
            cure="write array(struct(key, value), ...)",
        )
    whole = f"list_position({array.sql}, NULL) IS NULL"
    keys, values = (f"list_transform({array.sql}, lambda e: struct_extract_at(e, {place}))" for place in (1, 2))
    sql = f"CASE WHEN ({array.sql}) IS NOT NULL AND {whole} THEN map({one_zero(keys, array_of(kind[0].type))}, {values}) END"
    return Typed(sql, pa.map_(kind[0].type, kind[1].type))


FUNCTIONS: dict[str, Function] = {
    "struct": _struct,
    "named_struct": _named_struct,
    "map": _make_map,
    "map_concat": _map_concat,
    "map_contains_key": _map_contains_key,
    "map_entries": _of_map("map_entries({0})", entries),
    "map_from_arrays": _map_from_arrays,
    "map_from_entries": _map_from_entries,
    "map_keys": _of_map("map_keys({0})", lambda kind: array_of(kind.key_type)),
    "map_values": _of_map("map_values({0})", lambda kind: array_of(kind.item_type)),
}
