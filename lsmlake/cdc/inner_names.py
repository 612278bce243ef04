"""The fields inside of nested values of change events that the column lacks, by their paths, such as `address.zip`,
`items.element.price` and `by_name.value.price`. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lsmlake.errors import InvalidQuery
from lsmlake.types.column_types import inner_fields

_ENTRY = "key", "value"
_NAME_OR_SCALAR = r'("(?:[^"\\]|\\.)*")\s*:|"(?:[^"\\]|\\.)*"|[^"\[\]{}]+'
"""A name in an object of JSON, which is the group, or something that is neither a name nor a bracket."""
_MARK = re.compile(r'"(?:[^"\\]|\\.)*"|[\[\]{}]')

Shape = Mapping[str, object] | list | None
"""What is inside of a value: of an object, its fields; of a list, its items; None: nothing that has a name."""


def unknown_inside(values: pa.Array, wanted: pa.DataType, column: str, known: Collection[str], met: set[str]) -> dict[int, str]:
    """The first path of a field in each value that the type `wanted` of a column lacks, by rows.

    Args:
        values: Arrow values, which all have the fields of their type; or texts of JSON. Those with the same names and brackets
            are looked at once.
        wanted: the type of the column.
        column: its name.
        known: paths that count as known.
        met: gets those of them that values have.
    """
    if pa.types.is_nested(values.type):
        path = _first(_of_type(values.type), wanted, column, known, met)
        return {} if path is None else dict.fromkeys(np.flatnonzero(np.asarray(values.is_valid())).tolist(), path)
    shapes = pc.replace_substring_regex(values, _NAME_OR_SCALAR, r"\1").dictionary_encode()
    numbers = np.asarray(pc.fill_null(shapes.indices, -1))
    paths = [_first(_of_marks(text), wanted, column, known, met) for text in shapes.dictionary.to_pylist()]
    refused = np.flatnonzero(np.array([*(path is not None for path in paths), False])[numbers])
    return {row: paths[numbers[row]] for row in refused.tolist()}


def _of_marks(text: str) -> Shape:
    """The shape of a value in JSON of which only names and brackets are left."""
    value: list[object] = []
    open_ones: list[list | dict] = [value]
    name = ""
    for mark in (found[0] for found in _MARK.finditer(text)):
        last = open_ones[-1]
        if mark in "]}":
            open_ones.pop()
            continue
        inner = {} if mark == "{" else [] if mark == "[" else None
        if inner is None:
            name = json.loads(mark)
        if isinstance(last, dict):
            last[name] = inner
        else:
            last.append(inner)
        if inner is not None:
            open_ones.append(inner)
    return value[0] if value else None


def _first(shape: Shape, wanted: pa.DataType, column: str, known: Collection[str], met: set[str]) -> str | None:
    paths = list(fields_beside(shape, wanted, column))
    met.update(path for path in paths if path in known)
    return next((path for path in paths if path not in known), None)


def lacking_inside(given: pa.DataType, wanted: pa.DataType, column: str) -> str | None:
    """The first path of a field of the type `wanted` of a column that values of the type `given` lack; None: they have all."""
    return next(fields_beside(_of_type(wanted), given, column), None)


def _of_type(type_: pa.DataType) -> Shape:
    if pa.types.is_struct(type_):
        return {field.name: _of_type(field.type) for field in type_}
    if pa.types.is_map(type_):
        return [dict(zip(_ENTRY, map(_of_type, (type_.key_type, type_.item_type)), strict=True))]
    return [_of_type(type_.value_type)] if pa.types.is_list(type_) else None


def fields_beside(shape: Shape, wanted: pa.DataType, path: str) -> Iterator[str]:
    """The paths of the fields in a shape that a type lacks. A map may be a list of entries."""
    if isinstance(shape, list) and (pa.types.is_list(wanted) or pa.types.is_map(wanted)):
        whole = pa.types.is_list(wanted)
        for inner in shape:
            yield from fields_beside(inner, wanted.value_type if whole else _entry(wanted), f"{path}.element" if whole else path)
    elif isinstance(shape, dict) and pa.types.is_struct(wanted):
        types = {field.name: field.type for field in wanted}
        for name, inner in shape.items():
            if name in types:
                yield from fields_beside(inner, types[name], f"{path}.{name}")
            else:
                yield f"{path}.{name}"


def _entry(map_type: pa.MapType) -> pa.StructType:
    return pa.struct(list(zip(_ENTRY, (map_type.key_type, map_type.item_type), strict=True)))


def split_paths(names: Sequence[str], columns: pa.Schema, chosen: Collection[str] | None) -> tuple[list[str], frozenset[str]]:
    """Tells names of columns from paths of fields inside of nested ones, which the columns lack. `chosen`: the columns to write;
    None: all but those that are named.

    Raises:
        InvalidQuery: a column has the field, and a value is written whole; or its column is not written.
    """
    nested = {f"{field.name}.": field for field in columns if pa.types.is_nested(field.type)}
    inside = {name: next((nested[start] for start in nested if name.startswith(start)), None) for name in names}
    paths = {name: field for name, field in inside.items() if field is not None and name not in columns.names}
    if known := [name for name, field in paths.items() if name in set(_inside(field.type, field.name))]:
        raise InvalidQuery(
            "except_columns names a field inside of a column that has it, and a value is written whole",
            expected="columns, or paths of fields that the table lacks",
            found=known,
            cure="leave the whole column out, or write the whole value",
        )
    own = [name for name in names if name not in paths]
    written = {*columns.names} - {*own} if chosen is None else {*chosen, *own}  # with both, the caller refuses them
    if unwritten := [name for name, field in paths.items() if field.name not in written]:
        cure = "leave the path out, or write the column"
        raise InvalidQuery("except_columns names a field inside of a column that is not written", found=unwritten, cure=cure)
    return own, frozenset(paths)


def _inside(type_: pa.DataType, path: str) -> Iterator[str]:
    names = ["element"] if pa.types.is_list(type_) else _ENTRY if pa.types.is_map(type_) else None
    fields = inner_fields(type_) if pa.types.is_nested(type_) else ()
    for number, field in enumerate(fields):
        inner = f"{path}.{field.name if names is None else names[number]}"
        yield inner
        yield from _inside(field.type, inner)
