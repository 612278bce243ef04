"""Manifests: the entries of commits, which add files to the live set or delete them.

In memory a manifest is an Arrow table, one row per entry, so 100,000 files are folded and pruned by array operations:

    kind (0 ADD, 1 DELETE), p:<i> value of partition field 1000 + i (null where the spec has no such field), bucket,
    total_buckets, name, directory, bytes, rows, delete_rows,
    kmin:<i> and kmax:<i> key bounds, level, sequence and min_sequence (null = inherited), schema_id, source, created_ms,
    checksum, footer_bytes and footer_checksum (null = unknown), index and index_bytes (null = none; of an added file only index),
    spec (partition spec), n:<id>, lo:<id>, hi:<id> statistics by field id

On disk it is {"rows", "columns": [{name, type, values}]}, packed by `format.packed`.

The live set is the fold of all entries in commit order: the last entry of a file name decides.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate, chain
from typing import NamedTuple, NoReturn

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lsmlake.errors import Corrupt
from lsmlake.format.files import SOURCES, Bucket, BucketState, ColumnStats, DataFile, VectorRef
from lsmlake.format.packed import loaded, pack, stored, type_name, unpack
from lsmlake.schema import types
from lsmlake.schema.schema import Schema
from lsmlake.schema.shape import (
    BYTES_MAX,
    NAME,
    NAME_CHARACTERS,
    NAME_LENGTH_MAX,
    RESTORE,
    ROWS_MAX,
    TEXT,
    Kind,
    check,
    integer,
    listing,
    shown,
)
from lsmlake.schema.widening import widens

ADD, DELETE = 0, 1
_FIXED = (
    ("kind", pa.int8()),
    ("bucket", pa.int32()),
    ("total_buckets", pa.int32()),
    ("name", pa.string()),
    ("directory", pa.string()),
    ("bytes", pa.int64()),
    ("rows", pa.int64()),
    ("delete_rows", pa.int64()),
    ("level", pa.int16()),
    ("sequence", pa.int64()),
    ("min_sequence", pa.int64()),
    ("schema_id", pa.int32()),
    ("source", pa.string()),
    ("created_ms", pa.int64()),
    ("checksum", pa.int64()),
    ("footer_bytes", pa.int64()),
    ("footer_checksum", pa.int64()),
)
_INDEX = (("index", pa.binary()), ("index_bytes", pa.int64()))
"""Columns that older manifests lack."""
_SPEC = "spec", pa.int32()
"""As these, but 0 there."""
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
}
"""The valid ranges of the numbers in an entry, inclusive."""
_MAY_BE_NULL = ("sequence", "min_sequence", "checksum", "footer_bytes", "footer_checksum")
_OUTSIDE = r"(^|/)(\.{0,2}|\.tmp-[^/]*)(/|$)|[\x00-\x1f\x7f\\]"
_BUCKET = r"(^|/)bucket-[0-9]+$"
_COLUMN = {
    "name": TEXT,
    "type": Kind("the name of a type", types.is_name_of_type),
    "values": Kind("a list", lambda v: isinstance(v, list)),
}


class ManifestEntry(NamedTuple):
    kind: int
    bucket: Bucket
    total_buckets: int
    file: DataFile


def has_order(type_: pa.DataType) -> bool:
    """True if manifests store bounds for columns of this type."""
    return not pa.types.is_nested(type_)


def entries_schema(schema: Schema) -> pa.Schema:
    """Returns the Arrow schema of the manifest entries of a table with `schema`."""
    columns = schema.plain_columns
    fields = [pa.field(name, type_) for name, type_ in (*_FIXED, *_INDEX, _SPEC)]
    fields += [pa.field(f"p:{field.number}", field.type) for field in schema.all_partition_columns]
    for i, name in enumerate(schema.key):
        fields += [pa.field(f"kmin:{i}", columns.field(name).type), pa.field(f"kmax:{i}", columns.field(name).type)]
    for name, number in schema.field_ids().items():
        fields.append(pa.field(f"n:{number}", pa.int64()))
        if has_order(columns.field(name).type):
            fields += [pa.field(f"lo:{number}", columns.field(name).type), pa.field(f"hi:{number}", columns.field(name).type)]
    return pa.schema(fields)


def to_table(entries: Sequence[ManifestEntry], schema: Schema) -> pa.Table:
    """Converts entries to an Arrow table. O(entries x columns)."""
    arrow, files = entries_schema(schema), [entry.file for entry in entries]
    values: dict[str, list] = {name: [getattr(file, name) for file in files] for name, _ in _FIXED[3:]}
    values |= {
        "kind": [e.kind for e in entries],
        "bucket": [e.bucket.number for e in entries],
        "total_buckets": [e.total_buckets for e in entries],
        "index": [e.file.index if e.kind == ADD else None for e in entries],
        "index_bytes": [file.index_bytes for file in files],
        "spec": [e.bucket.spec for e in entries],
    }
    for field in schema.all_partition_columns:
        place = schema.partition_places(field)
        values[f"p:{field.number}"] = [
            e.bucket.partition[place[e.bucket.spec]] if e.bucket.spec in place else None for e in entries
        ]
    for i in range(len(schema.key)):
        values[f"kmin:{i}"] = [file.min_key[i] for file in files]
        values[f"kmax:{i}"] = [file.max_key[i] for file in files]
    unknown = ColumnStats(None, None, None)
    for number in schema.field_ids().values():
        stats = [file.stats.get(number, unknown) for file in files]
        values[f"n:{number}"] = [s.nulls for s in stats]
        if f"lo:{number}" in arrow.names:
            values[f"lo:{number}"], values[f"hi:{number}"] = [s.min for s in stats], [s.max for s in stats]
    return pa.table([pa.array(values[field.name], field.type) for field in arrow], schema=arrow)


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
    check("manifest", found, {"rows": integer(), "columns": listing(Kind("a column", lambda v: isinstance(v, dict)))}, where)
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
    _check_entries(table, stored.where)
    return table


def _check_entries(table: pa.Table, where: str) -> None:
    """Checks the columns that all tables have. Raises Corrupt naming `where`."""
    found = set(table.column_names)  # the property makes a list each time
    for name, type_ in _FIXED:
        if name not in found or table[name].type != type_:
            _refuse(where, name, type_name(type_), "no such column" if name not in found else table[name].type)
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
        found = pc.min_max(table[name]).as_py()
        if found["min"] is not None and (found["min"] < least or found["max"] > most):
            _refuse(where, name, f"{least} to {most}", f"{found['min']} to {found['max']}")


def _check_all(table: pa.Table, name: str, good: pa.ChunkedArray, expected: str, where: str) -> None:
    """Raises Corrupt unless `good` is true for every entry. Null: there is nothing to compare."""
    if pc.all(good).as_py() is False:
        _refuse(where, name, expected, table[name].filter(pc.invert(good))[0].as_py())


def under(table: pa.Table, schema: Schema, where: str) -> pa.Table:
    """Returns the entries of a manifest with exactly the columns of `entries_schema(schema)`, checked.

    A manifest that was written under another schema may lack statistics of a column, which are then null (unknown), have those of
    a dropped column, which are left out, or have bounds of a narrower type, which are widened. Raises Corrupt naming `where`.
    """
    wanted, specs, found = entries_schema(schema), _specs_of(table), set(table.column_names)
    lacking = {f"p:{field.number}" for field in schema.all_partition_columns if specs.isdisjoint(schema.partition_places(field))}
    columns = [_entry_column(table, field, field.name in found, field.name in lacking, where) for field in wanted]
    table, found = pa.table(columns, schema=wanted), set(wanted.names)
    if schema.key:
        _check_all(table, "kmin:0", _keys_ascend(table, len(schema.key)), "a first key up to the last key", where)
    _check_range(table, "index_bytes", where)
    known = pa.array([spec.id for spec in schema.partitioning.specs], pa.int32())
    _check_all(table, "spec", pc.is_in(table["spec"], value_set=known), f"one of {known.to_pylist()}", where)
    for name, number in schema.field_ids().items():
        nulls, low, high = f"n:{number}", f"lo:{number}", f"hi:{number}"
        good = pc.and_(pc.greater_equal(table[nulls], 0), pc.less_equal(table[nulls], table["rows"]))
        _check_all(table, nulls, good, "0 to the rows of the file", where)
        if low in found:
            _check_all(table, low, pc.less_equal(table[low], table[high]), f"at most {high}", where)
            if schema.key[:1] == (name,):
                inside = pc.and_(pc.less_equal(table[low], table["kmin:0"]), pc.less_equal(table["kmax:0"], table[high]))
                _check_all(table, low, inside, "bounds that include the first and the last key", where)
    return table


def _specs_of(table: pa.Table) -> set[int]:
    """The partition specs of the entries. Older manifests have no such column: spec 0."""
    return set(table["spec"].unique().to_pylist()) if "spec" in table.column_names else {0}


def _entry_column(table: pa.Table, field: pa.Field, there: bool, lacks: bool, where: str) -> pa.ChunkedArray | pa.Array:
    """The column of an entry that depends on the schema. `there`: the table has it. `lacks`: no entry has a value. Raises Corrupt
    naming `where`."""
    place = field.name.startswith(("p:", "kmin:", "kmax:")) and not lacks
    if not there:
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


# -- folding ----------------------------------------------------------------------------------------------------------


def inherit(table: pa.Table, sequence: int) -> pa.Table:
    """Fills empty sequences with that of the snapshot that added the manifest."""
    for name in ("sequence", "min_sequence"):
        column = table[name]
        if column.null_count:
            table = table.set_column(table.schema.get_field_index(name), name, pc.fill_null(column, sequence))
    return table


def _first_and_last(table: pa.Table) -> tuple[np.ndarray, np.ndarray]:
    """Returns for each file name the row of its first and of its last entry."""
    names = table["name"].combine_chunks().dictionary_encode()
    names = names.combine_chunks() if isinstance(names, pa.ChunkedArray) else names
    codes = names.indices.to_numpy()
    first, last = np.empty(len(names.dictionary), np.int64), np.empty(len(names.dictionary), np.int64)
    rows = np.arange(len(codes))
    first[codes[::-1]] = rows[::-1]
    last[codes] = rows
    return first, last


def concat(tables: Iterable[pa.Table], schema: Schema) -> pa.Table:
    found = list(tables)
    return pa.concat_tables(found) if found else entries_schema(schema).empty_table()


def fold(tables: Iterable[pa.Table], schema: Schema) -> pa.Table:
    """Returns the live set: the ADD entries of live files, in the order they were added. `tables` are in commit order."""
    table = concat(tables, schema)
    if not table.num_rows:
        return table
    last = np.sort(_first_and_last(table)[1])
    live = last[table["kind"].to_numpy()[last] == ADD]
    return table if len(live) == table.num_rows else table.take(live)


def merge(tables: Iterable[pa.Table], schema: Schema, *, whole: bool = False) -> pa.Table:
    """Merges consecutive manifests so that they fold as before, each with the same change of the number of live files.

    Keeps the last entry of each file, and its first one if that is the DELETE of a file that was added again. Drops files that
    were added and deleted within the manifests. `whole`: there is no manifest before these, so only ADDs of live files are kept.
    """
    if whole:
        return fold(tables, schema)
    table = concat(tables, schema)
    if not table.num_rows:
        return table
    first, last = _first_and_last(table)
    kinds = table["kind"].to_numpy()
    replaced = first[(kinds[first] == DELETE) & (kinds[last] == ADD)]
    kept = last[~((kinds[first] == ADD) & (kinds[last] == DELETE))]
    return table.take(np.sort(np.concatenate([replaced, kept])))


def clustered(table: pa.Table, schema: Schema) -> pa.Table:
    """Sorts entries by partition, bucket and first key, so that parts of them have narrow bounds. Entries of one file keep their
    order."""
    partition = (f"p:{field.number}" for field in schema.all_partition_columns)
    names = ["spec", *partition, "bucket", *(["kmin:0"] if schema.key else [])]
    return table.take(pc.sort_indices(table, sort_keys=[(name, "ascending") for name in names]))


def files_of(table: pa.Table, schema: Schema, *, statistics: bool = True) -> list[tuple[Bucket, int, DataFile]]:
    """Converts entries to values: (bucket, total buckets, file). Statistics take most of the time; readers omit them,
    and the indexes in the entries."""
    if not table.num_rows:
        return []
    column = {name: table[name].to_pylist() for name, _ in _FIXED}
    specs = table["spec"].to_pylist()
    minima, maxima = _tuples(table, "kmin", len(schema.key)), _tuples(table, "kmax", len(schema.key))
    stats = _statistics(table, schema) if statistics else [{}] * table.num_rows
    plain = [column[name] for name in ("name", "directory", "bytes", "rows", "delete_rows")]
    rest = [column[name] for name in ("level", "schema_id", "source", "created_ms", "sequence", "min_sequence")]
    sums = [column[name] for name in ("checksum", "footer_bytes", "footer_checksum")]
    index = table["index"].to_pylist() if statistics else [None] * table.num_rows
    files = map(DataFile, *plain, minima, maxima, *rest, stats, *sums, index, table["index_bytes"].to_pylist())
    buckets = map(Bucket, _partitions(table, specs, schema), column["bucket"], specs)
    return list(zip(buckets, column["total_buckets"], files, strict=True))


def _partitions(table: pa.Table, specs: Sequence[int], schema: Schema) -> list[tuple]:
    """The partition of each entry: the values of the fields of its spec."""
    by_spec = {spec: [f"p:{field.number}" for field in schema.partition_columns_of(spec)] for spec in set(specs)}
    column = {name: table[name].to_pylist() for name in {name for names in by_spec.values() for name in names}}
    if len(by_spec) > 1:
        return [tuple(column[name][row] for name in by_spec[spec]) for row, spec in enumerate(specs)]
    (names,) = by_spec.values()
    return list(zip(*(column[name] for name in names), strict=True)) if names else [()] * table.num_rows


def _tuples(table: pa.Table, prefix: str, count: int) -> list[tuple]:
    if not count:
        return [()] * table.num_rows
    return list(zip(*(table[f"{prefix}:{i}"].to_pylist() for i in range(count)), strict=True))


def _statistics(table: pa.Table, schema: Schema) -> list[dict[int, ColumnStats]]:
    per_column, present = [], set(table.column_names)
    for number in schema.field_ids().values():
        nulls = table[f"n:{number}"].to_pylist()
        bounds = [
            table[f"{side}:{number}"].to_pylist() if f"{side}:{number}" in present else [None] * len(nulls)
            for side in ("lo", "hi")
        ]
        per_column.append((number, list(map(ColumnStats, nulls, *bounds))))
    return [{number: stats[row] for number, stats in per_column if stats[row].nulls is not None} for row in range(table.num_rows)]


def states(
    table: pa.Table, vectors: Mapping[str, VectorRef], schema: Schema, *, statistics: bool = True
) -> dict[Bucket, BucketState]:
    """Groups the live set by bucket."""
    grouped: dict[Bucket, tuple[int, list[DataFile]]] = {}
    for bucket, total, file in files_of(table, schema, statistics=statistics):
        grouped.setdefault(bucket, (total, []))[1].append(file)
    return {
        bucket: BucketState(bucket, total, tuple(files), {f.name: vectors[f.name] for f in files if f.name in vectors})
        for bucket, (total, files) in grouped.items()
    }
