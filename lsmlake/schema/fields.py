"""Fields inside columns: finds one by its path and replaces it.

A path is a sequence of names from a column inwards. The element of an ARRAY is called `element`; the key and the value of a MAP
are called `key` and `value`. As text the names are joined by points; a column whose own name has a point is found first.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence

import pyarrow as pa

from lsmlake.errors import InvalidSchema
from lsmlake.types.column_types import inner_fields, with_inner_fields

Path = str | Sequence[str]
Siblings = tuple[pa.Field, ...]


def names_of(path: Path) -> tuple[str, ...]:
    """The names of a path. Raises InvalidSchema if the path has no names."""
    names = (path,) if isinstance(path, str) else tuple(path)
    if not names:
        raise InvalidSchema("a path has no names", expected="the names from the column inwards", found=path, cure="name a column")
    return names


def shown(path: Path) -> str:
    """Formats a path for messages."""
    return ".".join(names_of(path))


def resolve(columns: Sequence[pa.Field], path: Path, where: str) -> tuple[int, ...]:
    """Returns the position of a field at each level, the column first.

    Raises:
        InvalidSchema: There is no such field.
    """
    positions = _positions(columns, names_of(path))
    if positions is None and isinstance(path, str):
        positions = _positions(columns, path.split("."))
    if positions is None:
        known = known_paths(columns)
        near = difflib.get_close_matches(shown(path).lower(), {one.lower(): one for one in known}, n=1)
        raise InvalidSchema(
            f"there is no column {shown(path)!r}",
            where=where,
            expected=f"one of {known}",
            cure=f"did you mean {near[0]!r}?" if near else "correct the name",
        )
    return positions


def _positions(columns: Sequence[pa.Field], names: Sequence[str]) -> tuple[int, ...] | None:
    positions, siblings = [], tuple(columns)
    for name in names:
        matching = [i for i, field in enumerate(siblings) if field.name.lower() == name.lower()]
        if not matching:
            return None
        positions.append(matching[0])
        siblings = inner_fields(siblings[matching[0]].type)
    return tuple(positions)


def known_paths(columns: Sequence[pa.Field], prefix: str = "") -> list[str]:
    """Returns the paths of all fields, as text."""
    paths = []
    for field in columns:
        paths.append(prefix + field.name)
        paths += known_paths(inner_fields(field.type), f"{prefix}{field.name}.")
    return paths


def field_at(columns: Sequence[pa.Field], positions: Sequence[int]) -> pa.Field:
    field = columns[positions[0]]
    for position in positions[1:]:
        field = inner_fields(field.type)[position]
    return field


def edited(columns: Sequence[pa.Field], parent: Sequence[int], edit: Callable[[Siblings], Sequence[pa.Field]]) -> Siblings:
    """Returns `columns` with the fields inside the field at `parent` edited; without positions, the columns themselves."""
    if not parent:
        return tuple(edit(tuple(columns)))
    first, *rest = parent
    field = columns[first]
    inside = edited(inner_fields(field.type), rest, edit)
    return tuple(
        each.with_type(with_inner_fields(field.type, inside)) if number == first else each for number, each in enumerate(columns)
    )
