"""Manifests as bytes: {"rows", "columns": [{name, type, values}]}, packed by `format.packed`. What is read is checked."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, chain
from typing import NamedTuple

import pyarrow as pa

from lsmlake.errors import Corrupt
from lsmlake.format.manifest_checks import check_entries, under
from lsmlake.format.packed import loaded, pack, stored, unpack
from lsmlake.schema.schema import Schema
from lsmlake.types import types
from lsmlake.types.json_shape import RESTORE, TEXT, JsonKind, check, integer, listing, shown
from lsmlake.types.types import type_name

_COLUMN = {
    "name": TEXT,
    "type": JsonKind("the name of a type", types.is_name_of_type),
    "values": JsonKind("a list", lambda v: isinstance(v, list)),
}


def encode(table: pa.Table) -> bytes:
    columns = [
        {"name": f.name, "type": type_name(f.type), "values": stored(c)} for f, c in zip(table.schema, table.columns, strict=True)
    ]
    return pack("MANF", {"rows": table.num_rows, "columns": columns})


class Content(NamedTuple):
    """A manifest as it is stored: the names and types of its columns, and a list of `rows` stored values for each of them."""

    where: str
    rows: int
    columns: tuple[tuple[str, str], ...]
    values: tuple[list, ...]


def content(data: bytes, where: str) -> Content:
    """Unpacks a manifest. Raises Corrupt or UnsupportedFormat naming `where`."""
    found = unpack("MANF", data, where)
    check("manifest", found, {"rows": integer(), "columns": listing(JsonKind("a column", lambda v: isinstance(v, dict)))}, where)
    for column in found["columns"]:
        check("manifest column", column, _COLUMN, where)
        if (rows := len(column["values"])) != found["rows"]:
            expected = f"{found['rows']} entries"
            raise Corrupt("manifest is incomplete", where=where, expected=expected, found=rows, cure=RESTORE)
    columns = {column["name"]: column for column in found["columns"]}
    types_ = tuple((name, column["type"]) for name, column in columns.items())
    return Content(where, found["rows"], types_, tuple(column["values"] for column in columns.values()))


def decode(data: bytes, where: str) -> pa.Table:
    """Decodes a manifest. Raises Corrupt or UnsupportedFormat naming `where`."""
    return _checked(content(data, where))


def decode_under(contents: Sequence[Content], schema: Schema) -> list[pa.Table]:
    """Returns the entries of manifests as `under` does. Raises Corrupt naming the manifest.

    Manifests with the same columns are converted and checked together, because a call of Arrow takes as long for one entry as for
    a thousand.
    """
    alike: dict[tuple, list[int]] = {}
    for number, one in enumerate(contents):
        alike.setdefault(one.columns, []).append(number)
    found: list[pa.Table | None] = [None] * len(contents)
    for numbers in alike.values():
        parts = [contents[number] for number in numbers]
        for number, table in zip(numbers, _decoded_alike(parts, schema), strict=True):
            found[number] = table
    return found


def _decoded_alike(parts: Sequence[Content], schema: Schema) -> list[pa.Table]:
    if len(parts) > 1:
        values = tuple(list(chain.from_iterable(columns)) for columns in zip(*(part.values for part in parts), strict=True))
        joined = Content(parts[0].where, sum(part.rows for part in parts), parts[0].columns, values)
        try:
            table = under(_checked(joined), schema, joined.where)
        except Corrupt:  # decoded one by one below, which says where
            pass
        else:
            starts = accumulate((part.rows for part in parts), initial=0)
            return [table.slice(start, part.rows) for start, part in zip(starts, parts, strict=False)]
    return [under(_checked(part), schema, part.where) for part in parts]


def _checked(stored: Content) -> pa.Table:
    """Converts a manifest and checks the columns that all tables have. Raises Corrupt."""
    try:
        columns = {name: loaded(values, type_) for (name, type_), values in zip(stored.columns, stored.values, strict=True)}
        table = pa.table(columns)
    except (TypeError, ValueError, OverflowError, pa.ArrowException) as broken:  # ArrowInvalid is a ValueError
        raise Corrupt("manifest columns cannot be read", where=stored.where, found=shown(str(broken)), cure=RESTORE) from broken
    check_entries(table, stored.where)
    return table
