"""Functions of maps."""

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
    map_argument,
    map_key,
)
from lsmlake.dialect.context import Context
from lsmlake.dialect.scope import Typed
from lsmlake.dialect.types import BOOLEAN, array_of


def _of_map(template: str, gives: Callable[[pa.DataType], pa.DataType]) -> Function:
    """A function of one map."""

    def made(context: Context, node: exp.Expression, arguments: Arguments) -> Typed:
        found = map_argument(context, node, counted(context, node, arguments, 1)[0])
        return Typed(template.format(found.sql), gives(found.type))

    return made


def _make_map(context: Context, node: exp.Expression, arguments: Arguments) -> Typed:
    if len(arguments) % 2 or not arguments:
        context.text.refuse(node, "map takes pairs of a key and a value")
    keys, values = arguments[::2], arguments[1::2]
    (key_sqls, key), (value_sqls, value) = (
        context.unified(some, [context.typed(one) for one in some]) for some in (keys, values)
    )
    return Typed(f"map([{', '.join(key_sqls)}], [{', '.join(value_sqls)}])", pa.map_(key, value))


def _map_from_arrays(context: Context, node: exp.Expression, arguments: Arguments) -> Typed:
    keys, values = (array_argument(context, node, one) for one in counted(context, node, arguments, 2))
    made = f"CASE WHEN ({keys.sql}) IS NOT NULL AND ({values.sql}) IS NOT NULL THEN map({keys.sql}, {values.sql}) END"
    return Typed(made, pa.map_(keys.type.value_type, values.type.value_type))


def _map_contains_key(context: Context, node: exp.Expression, arguments: Arguments) -> Typed:
    found, key = counted(context, node, arguments, 2)
    found = map_argument(context, node, found)
    return Typed(f"list_contains(map_keys({found.sql}), {map_key(context, arguments[1], key, found.type)})", BOOLEAN)


FUNCTIONS: dict[str, Function] = {
    "map": _make_map,
    "map_contains_key": _map_contains_key,
    "map_entries": _of_map("map_entries({0})", entries),
    "map_from_arrays": _map_from_arrays,
    "map_keys": _of_map("map_keys({0})", lambda kind: array_of(kind.key_type)),
    "map_values": _of_map("map_values({0})", lambda kind: array_of(kind.item_type)),
}
