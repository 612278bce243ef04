"""Assignments to fields of structs: `SET st.a = 1` assigns the column `st`, whose other fields keep their values.

As in Spark, a struct that is NULL becomes one in which only the assigned fields have values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

import pyarrow as pa

from lsmlake.errors import InvalidQuery

Value = TypeVar("Value")
Path = tuple[str, ...]


def whole_columns(
    assigned: Iterable[tuple[Path, Value]],
    columns: pa.Schema,
    old: Callable[[Path], Value],
    struct: Callable[[list[tuple[str, Value]]], Value],
) -> dict[str, Value]:
    """Column -> value, given the values of columns and of fields of structs. A name that is no column stays as it is.

    Args:
        assigned: the path of a column or field, and its value. Names are compared without case.
        columns: the columns of the table.
        old: the value of a field before the assignment.
        struct: a struct of named values.

    Raises:
        InvalidQuery: A path leads to no field, or a value is assigned twice.
    """
    by_lower = {field.name.lower(): field for field in columns}
    grouped: dict[str, list[tuple[Path, Value]]] = {}
    for path, value in assigned:
        field = by_lower.get(path[0].lower())
        grouped.setdefault(path[0] if field is None else field.name, []).append((path[1:], value))

    def value_of(path: Path, kind: pa.DataType | None, given: list[tuple[Path, Value]]) -> Value:
        if any(not rest for rest, _ in given):
            if len(given) > 1:
                raise InvalidQuery(f"column {'.'.join(path)!r} is assigned twice", cure="assign it once")
            return given[0][1]
        fields = list(kind) if kind is not None and pa.types.is_struct(kind) else []
        known = {field.name.lower() for field in fields}
        for rest, _ in given:
            if rest[0].lower() not in known:
                expected = f"one of {[field.name for field in fields]}" if fields else "a column or a field of a STRUCT"
                name = ".".join((*path, rest[0]))
                raise InvalidQuery(f"there is no field {name!r}", expected=expected, cure="correct the name")
        made = []
        for field in fields:
            own = [(rest[1:], value) for rest, value in given if rest[0].lower() == field.name.lower()]
            inner = (*path, field.name)
            made.append((field.name, value_of(inner, field.type, own) if own else old(inner)))
        return struct(made)

    kinds = {field.name: field.type for field in columns}
    return {name: value_of((name,), kinds.get(name), given) for name, given in grouped.items()}
