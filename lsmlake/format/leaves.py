"""Leaves: the physical columns of a schema in Parquet, in file order.

Leaves are addressed by position and columns by field id, never by a dotted path: `a.b` may be the field b of the struct a, or a
column named `a.b`.
"""

from __future__ import annotations

from typing import NamedTuple

import pyarrow as pa


class Leaf(NamedTuple):
    """A physical column. `column`: the position of its column in the schema; `nested`: it is inside a struct, list or map."""

    column: int
    type: pa.DataType
    nested: bool


def leaves(schema: pa.Schema) -> tuple[Leaf, ...]:
    """Returns the leaves of a schema, in file order."""
    return tuple(
        Leaf(number, type_, pa.types.is_nested(field.type))
        for number, field in enumerate(schema)
        for type_ in _leaf_types(field.type)
    )


def positions(schema: pa.Schema) -> tuple[range, ...]:
    """Returns for each column of a schema the positions of its leaves."""
    found, start = [], 0
    for field in schema:
        stop = start + len(_leaf_types(field.type))
        found.append(range(start, stop))
        start = stop
    return tuple(found)


def _leaf_types(type_: pa.DataType) -> list[pa.DataType]:
    inner = [type_.field(i).type for i in range(type_.num_fields)]
    return [leaf for part in inner for leaf in _leaf_types(part)] if inner else [type_]
