"""Manifests as bytes: {"rows", "columns": [{name, type, values}]}, packed by `schema.envelope`.

Decoding checks the entries: `check_entries` checks the columns that all tables share, `under` the columns that depend on a
schema.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, chain
from typing import NamedTuple, NoReturn

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lsmlake.errors import Corrupt
from lsmlake.format.data_files import SOURCES
from lsmlake.format.manifest import FIXED, entries_schema
from lsmlake.schema.envelope import loaded, pack, stored, unpack
from lsmlake.schema.schema import Schema
from lsmlake.types import column_types
from lsmlake.types.column_types import type_name
from lsmlake.types.json_shape import (
    BYTES_MAX,
    NAME,
    NAME_CHARACTERS,
    NAME_LENGTH_MAX,
    RESTORE,
    ROWS_MAX,
    TEXT,
    JsonKind,
    check,
    integer,
    listing,
    shown,
)
from lsmlake.types.widening import widens

_COLUMN = {
    "name": TEXT,
    "type": JsonKind("the name of a type", column_types.is_name_of_type),
    "values": JsonKind("a list", lambda v: isinstance(v, list)),
}


def encode(table: pa.Table) -> bytes:
    """The bytes of a manifest, without the statistics of columns that have none."""
    names = table.column_names
    unknown = {name[2:] for name in names if name.startswith("n:") and table[name].null_count == table.num_rows > 0}
    columns = [
        {"name": f.name, "type": type_name(f.type), "values": stored(c)}
        for f, c in zip(table.schema, table.columns, strict=True)
        if not (f.name.startswith(("n:", "lo:", "hi:")) and f.name.partition(":")[2] in unknown)
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
    content = unpack("MANF", data, where)
    check(
        "manifest", content, {"rows": integer(), "columns": listing(JsonKind("a column", lambda v: isinstance(v, dict)))}, where
    )
    for column in content["columns"]:
        check("manifest column", column, _COLUMN, where)
        if (rows := len(column["values"])) != content["rows"]:
            expected = f"{content['rows']} entries"
            raise Corrupt("manifest is incomplete", where=where, expected=expected, found=rows, cure=RESTORE)
    columns = {column["name"]: column for column in content["columns"]}
    types_ = tuple((name, column["type"]) for name, column in columns.items())
    return Content(where, content["rows"], types_, tuple(column["values"] for column in columns.values()))


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
    tables: list[pa.Table | None] = [None] * len(contents)
    for numbers in alike.values():
        parts = [contents[number] for number in numbers]
        for number, table in zip(numbers, _decoded_alike(parts, schema), strict=True):
            tables[number] = table
    return tables


def _decoded_alike(parts: Sequence[Content], schema: Schema) -> list[pa.Table]:
    if len(parts) > 1:
        values = tuple(list(chain.from_iterable(columns)) for columns in zip(*(part.values for part in parts), strict=True))
        joined = Content(parts[0].where, sum(part.rows for part in parts), parts[0].columns, values)
        try:
            table = under(_checked(joined), schema, joined.where)
        except Corrupt:  # decode the manifests one by one, so that the error names the damaged one
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


# -- checks -----------------------------------------------------------------------------------------------------------


_FEW = 32  # up to so many entries, Python reads a column faster than Arrow starts a call
_NUMBER = (1 << 63) - 1
_RANGES = {
    "kind": (0, 1),
    "bucket": (0, (1 << 31) - 2),
    "total_buckets": (1, (1 << 31) - 1),
    "bytes": (1, BYTES_MAX),
    "rows": (1, ROWS_MAX),
    "delete_rows": (0, ROWS_MAX),
    "level": (0, (1 << 15) - 1),
    "sequence": (0, _NUMBER),
    "min_sequence": (0, _NUMBER),
    "schema_id": (0, (1 << 31) - 1),
    "created_ms": (0, 1 << 53),
    "checksum": (0, (1 << 32) - 1),
    "footer_bytes": (8, BYTES_MAX),
    "footer_checksum": (0, (1 << 32) - 1),
    "index_bytes": (1, BYTES_MAX),
    "number": (0, (1 << 31) - 1),
}
"""The valid ranges of the numbers in an entry, inclusive."""
_MAY_BE_NULL = ("sequence", "min_sequence", "checksum", "footer_bytes", "footer_checksum")
_OUTSIDE = r"(^|/)(\.{0,2}|\.tmp-[^/]*)(/|$)|[\x00-\x1f\x7f\\]"
_BUCKET = r"(^|/)bucket-[0-9]+$"


def check_entries(table: pa.Table, where: str) -> None:
    """Checks the columns that all tables have. Raises Corrupt naming `where`."""
    column_names = set(table.column_names)  # the property makes a list each time
    for name, type_ in FIXED:
        if name not in column_names or table[name].type != type_:
            _refuse(where, name, type_name(type_), "no such column" if name not in column_names else table[name].type)
        if table[name].null_count and name not in _MAY_BE_NULL:
            _refuse(where, name, "no null", "null")
        _check_range(table, name, where)
    short = pc.less_equal(pc.binary_length(table["name"]), NAME_LENGTH_MAX)
    names = pc.and_(short, pc.match_substring_regex(table["name"], f"^{NAME_CHARACTERS}$"))
    outside = pc.match_substring_regex(table["directory"], _OUTSIDE)
    sources = pc.is_in(table["source"], value_set=pa.array(SOURCES))
    for name, good, expected in (
        ("name", names, NAME.words),
        ("directory", pc.invert(outside), "a path inside the table directory"),
        ("directory", pc.match_substring_regex(table["directory"], _BUCKET), "the directory of a bucket"),
        ("source", sources, f"one of {', '.join(SOURCES)}"),
        ("delete_rows", pc.less_equal(table["delete_rows"], table["rows"]), "at most the rows of the file"),
        ("bucket", pc.less(table["bucket"], table["total_buckets"]), "less than total_buckets"),
        ("min_sequence", pc.less_equal(table["min_sequence"], table["sequence"]), "at most sequence"),
        ("footer_bytes", pc.less_equal(table["footer_bytes"], table["bytes"]), "at most the bytes of the file"),
    ):
        _check_all(table, name, good, expected, where)


def _check_range(table: pa.Table, name: str, where: str) -> None:
    """Raises Corrupt if a value is outside the range of its column."""
    if name in _RANGES and table.num_rows:
        least, most = _RANGES[name]
        low, high = _bounds(table[name])
        if low is not None and (low < least or high > most):
            _refuse(where, name, f"{least} to {most}", f"{low} to {high}")


def _bounds(column: pa.ChunkedArray) -> tuple[int | None, int | None]:
    """The least and the greatest value; None if all are null."""
    if len(column) > _FEW:
        bounds = pc.min_max(column).as_py()
        return bounds["min"], bounds["max"]
    values = [value for value in column.to_pylist() if value is not None]
    return (min(values), max(values)) if values else (None, None)


def _check_all(table: pa.Table, name: str, good: pa.ChunkedArray, expected: str, where: str) -> None:
    """Raises Corrupt unless `good` is true or null for every entry. Null means that there is nothing to compare."""
    if (False in good.to_pylist()) if len(good) <= _FEW else pc.all(good).as_py() is False:
        _refuse(where, name, expected, table[name].filter(pc.invert(good))[0].as_py())


def under(table: pa.Table, schema: Schema, where: str) -> pa.Table:
    """Returns the entries of a manifest with exactly the columns of `entries_schema(schema)`, checked.

    A manifest that was written under another schema may lack statistics of a column, which are then null (unknown), have those of
    a dropped column, which are left out, or have bounds of a narrower type, which are widened. Raises Corrupt naming `where`.
    """
    wanted, specs, names = entries_schema(schema), _specs_of(table), set(table.column_names)
    lacking = {f"p:{field.number}" for field in schema.all_partition_columns if specs.isdisjoint(schema.partition_places(field))}
    columns = [_entry_column(table, field, field.name in names, field.name in lacking, where) for field in wanted]
    table, names = pa.table(columns, schema=wanted), set(wanted.names)
    if schema.key:
        _check_all(table, "kmin:0", _keys_ascend(table, len(schema.key)), "a first key up to the last key", where)
    _check_range(table, "index_bytes", where)
    _check_range(table, "number", where)
    known = pa.array([spec.id for spec in schema.partitioning.specs], pa.int32())
    _check_all(table, "spec", pc.is_in(table["spec"], value_set=known), f"one of {known.to_pylist()}", where)
    for name, number in schema.field_ids().items():
        nulls, low, high = f"n:{number}", f"lo:{number}", f"hi:{number}"
        good = pc.and_(pc.greater_equal(table[nulls], 0), pc.less_equal(table[nulls], table["rows"]))
        _check_all(table, nulls, good, "0 to the rows of the file", where)
        if low in names:
            _check_all(table, low, pc.less_equal(table[low], table[high]), f"at most {high}", where)
            if schema.key[:1] == (name,):
                inside = pc.and_(pc.less_equal(table[low], table["kmin:0"]), pc.less_equal(table["kmax:0"], table[high]))
                _check_all(table, low, inside, "bounds that include the first and the last key", where)
    return table


def _specs_of(table: pa.Table) -> set[int]:
    """The partition specs of the entries. Older manifests have no column `spec`: their entries have spec 0."""
    return set(table["spec"].unique().to_pylist()) if "spec" in table.column_names else {0}


def _entry_column(table: pa.Table, field: pa.Field, present: bool, lacks: bool, where: str) -> pa.ChunkedArray | pa.Array:
    """The column of an entry that depends on the schema. `present`: the table has it. `lacks`: no entry has a value. Raises
    Corrupt naming `where`."""
    place = field.name.startswith(("p:", "kmin:", "kmax:")) and not lacks
    if not present:
        if field.name == "spec":
            return pa.array(np.zeros(table.num_rows, np.int32))
        if place:
            _refuse(where, field.name, type_name(field.type), "no such column")
        return pa.nulls(table.num_rows, field.type)
    column = table[field.name]
    if column.type != field.type:
        if place or not (widens(column.type, field.type) or widens(field.type, column.type)):
            _refuse(where, field.name, type_name(field.type), type_name(column.type))
        return column.cast(field.type) if widens(column.type, field.type) else pa.nulls(table.num_rows, field.type)
    if column.null_count and field.name.startswith(("kmin:", "kmax:")):
        _refuse(where, field.name, "no null", "null")
    return column


def _keys_ascend(table: pa.Table, count: int) -> pa.ChunkedArray:
    """Flags the entries whose first key, of `count` columns, is less than or equal to the last key."""
    ascend: pa.ChunkedArray | bool = True
    for i in reversed(range(count)):
        low, high = table[f"kmin:{i}"], table[f"kmax:{i}"]
        ascend = pc.or_(pc.less(low, high), pc.and_(pc.equal(low, high), ascend))
    return ascend


def _refuse(where: str, column: str, expected: str, found: object) -> NoReturn:
    raise Corrupt(f"manifest has an invalid {column!r}", where=where, expected=expected, found=shown(found), cure=RESTORE)
