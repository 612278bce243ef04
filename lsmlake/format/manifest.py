"""Manifests: the entries of commits, which add files to the live set or delete them; and the lists of manifests of a snapshot.

In memory a manifest is an Arrow table, one row per entry, so 100,000 files are folded and pruned by array operations:

    kind (0 ADD, 1 DELETE), p:<i> value of partition field 1000 + i (null where the spec has no such field), bucket,
    total_buckets, name, directory, bytes, rows, delete_rows,
    kmin:<i> and kmax:<i> key bounds, level, sequence and min_sequence (null = inherited), schema_id, source, created_ms,
    checksum, footer_bytes and footer_checksum (null = unknown), index and index_bytes (null = none; of an added file only index),
    number (of the file in row addresses; null = it has none), spec (partition spec), n:<id>, lo:<id>, hi:<id> statistics by field
    id

`manifest_codec` reads and writes its bytes; `tables.live` folds the entries of all manifests.

A manifest list has the manifests in commit order, with bounds of their entries. A reader opens only manifests whose bounds allow
a match. This is correct although the live set is a fold: all entries of a file have the same partition, bucket and key range, so
a reader that needs the file opens every manifest that names it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lsmlake.errors import Corrupt
from lsmlake.format.data_files import DELETES, Bucket, BucketState, ColumnStats, DataFile, VectorRef
from lsmlake.kernels.bounds import bounds
from lsmlake.schema.envelope import check_lengths, loaded, pack, stored, unpack
from lsmlake.schema.partitioning import PartitionColumn
from lsmlake.schema.schema import Schema
from lsmlake.types.column_types import type_name
from lsmlake.types.json_shape import BYTES_MAX, NAME, RESTORE, JsonKind, check, integer, listing, optional, shown

ADD, DELETE = 0, 1
FIXED = (
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
LATER = (("index", pa.binary()), ("index_bytes", pa.int64()), ("number", pa.int32()))
"""Columns that older manifests lack; their entries have none of these."""
SPEC = "spec", pa.int32()
"""A column that older manifests lack, too; their entries have spec 0."""
_FEW = 1 << 9  # up to this many entries, Python reads a column faster than Arrow starts a call


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
    fields = [pa.field(name, type_) for name, type_ in (*FIXED, *LATER, SPEC)]
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
    values: dict[str, list] = {name: [getattr(file, name) for file in files] for name, _ in FIXED[3:]}
    values |= {
        "kind": [e.kind for e in entries],
        "bucket": [e.bucket.number for e in entries],
        "total_buckets": [e.total_buckets for e in entries],
        "index": [e.file.index if e.kind == ADD else None for e in entries],
        "index_bytes": [file.index_bytes for file in files],
        "number": [file.number for file in files],
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


def concat(tables: Iterable[pa.Table], schema: Schema) -> pa.Table:
    listed = list(tables)
    return pa.concat_tables(listed) if listed else entries_schema(schema).empty_table()


def files_of(table: pa.Table, schema: Schema, *, statistics: bool = True) -> list[tuple[Bucket, int, DataFile]]:
    """Converts entries to values: (bucket, total buckets, file). Statistics take most of the time; readers omit them,
    and the indexes in the entries."""
    if not table.num_rows:
        return []
    column = {name: table[name].to_pylist() for name, _ in FIXED}
    specs = table["spec"].to_pylist()
    minima, maxima = _tuples(table, "kmin", len(schema.key)), _tuples(table, "kmax", len(schema.key))
    stats = _statistics(table, schema) if statistics else [{}] * table.num_rows
    plain = [column[name] for name in ("name", "directory", "bytes", "rows", "delete_rows")]
    rest = [column[name] for name in ("level", "schema_id", "source", "created_ms", "sequence", "min_sequence")]
    sums = [column[name] for name in ("checksum", "footer_bytes", "footer_checksum")]
    index = table["index"].to_pylist() if statistics else [None] * table.num_rows
    later = table["index_bytes"].to_pylist(), table["number"].to_pylist()
    files = map(DataFile, *plain, minima, maxima, *rest, stats, *sums, index, *later)
    buckets = map(Bucket, _partitions(table, specs, schema), column["bucket"], specs)
    return list(zip(buckets, column["total_buckets"], files, strict=True))


def partitions_of(table: pa.Table, schema: Schema) -> list[tuple[int, tuple]]:
    """`Bucket.partition_key` of each entry."""
    specs = table["spec"].to_pylist()
    return list(zip(specs, _partitions(table, specs, schema), strict=True)) if specs else []


def partition_codes(table: pa.Table, schema: Schema) -> np.ndarray:
    """A number of the partition of each entry, from 0 on without gaps."""
    codes = np.zeros(table.num_rows, np.int64)
    for name in ("spec", *(f"p:{field.number}" for field in schema.all_partition_columns)):
        encoded = table[name].combine_chunks().dictionary_encode(null_encoding="encode")
        _, codes = np.unique(codes * np.int64(len(encoded.dictionary)) + np.asarray(encoded.indices), return_inverse=True)
    return codes


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
    grouped: dict[Bucket, tuple[int, list[DataFile], list[DataFile]]] = {}
    for bucket, total, file in files_of(table, schema, statistics=statistics):
        grouped.setdefault(bucket, (total, [], []))[2 if file.source == DELETES else 1].append(file)
    return {
        bucket: BucketState(
            bucket, total, tuple(files), {f.name: vectors[f.name] for f in files if f.name in vectors}, tuple(retained)
        )
        for bucket, (total, files, retained) in grouped.items()
    }


def with_rows(table: pa.Table) -> pa.Table:
    """The entries without the files of retained deletes."""
    sources = table["source"]
    few = len(sources) <= _FEW
    if DELETES not in sources.to_pylist() if few else pc.index(sources, DELETES).as_py() < 0:
        return table
    return table.filter(pc.not_equal(sources, DELETES))


# -- manifest lists ---------------------------------------------------------------------------------------------------


_BOUND_BYTES = 32  # of a text or binary bound
_SCALAR = JsonKind("a value", lambda value: value is None or isinstance(value, (bool, int, float, str, bytes)))
_LIST_COLUMNS = {
    "name": listing(NAME),
    "bytes": listing(integer(1, BYTES_MAX)),
    "added": listing(integer()),
    "deleted": listing(integer()),
    "partition_min": listing(listing(_SCALAR)),
    "partition_max": listing(listing(_SCALAR)),
    "total_buckets": listing(optional(integer(1, (1 << 31) - 1))),
    "bucket_min": listing(integer()),
    "bucket_max": listing(integer()),
    "key_min": listing(_SCALAR),
    "key_max": listing(_SCALAR),
    "level_min": listing(integer()),
    "level_max": listing(integer()),
    "schema_id": listing(integer(0, 1 << 31)),
    "sequence": listing(integer()),
}


class ManifestMeta(NamedTuple):
    """The entry of a manifest in a manifest list. `sequence`: the snapshot that added it, which its entries inherit.

    Bounds are inclusive stored values of the types of schema `schema_id`; None: unknown. Partition bounds have one value per
    partition field of all specs of that schema and ignore nulls; unknown if an entry has another spec, without the field.
    `key_min`, `key_max`: bounds of the first key column; None without a key. `total_buckets`: None if the entries differ.
    """

    name: str
    bytes: int
    added: int
    deleted: int
    partition_min: Sequence
    partition_max: Sequence
    total_buckets: int | None
    bucket_min: int
    bucket_max: int
    key_min: object
    key_max: object
    level_min: int
    level_max: int
    schema_id: int
    sequence: int


def describe(name: str, data: bytes, table: pa.Table, schema: Schema, sequence: int) -> ManifestMeta:
    """Returns the list entry of the manifest `table`, stored as `data` under `name`."""
    specs = set(table["spec"].unique().to_pylist())
    kinds, totals = table["kind"].to_numpy(), table["total_buckets"].to_numpy()
    buckets, levels = table["bucket"].to_numpy(), table["level"].to_numpy()
    added = int((kinds == ADD).sum())
    partitions = [
        _bounds(table[f"p:{field.number}"], table[f"p:{field.number}"])
        if specs <= schema.partition_places(field).keys()
        else (None, None)
        for field in schema.all_partition_columns
    ]
    return ManifestMeta(
        name,
        len(data),
        added,
        len(kinds) - added,
        [low for low, _ in partitions],
        [high for _, high in partitions],
        int(totals[0]) if (totals == totals[0]).all() else None,
        int(buckets.min()),
        int(buckets.max()),
        *(_bounds(table["kmin:0"], table["kmax:0"]) if "kmin:0" in table.column_names else (None, None)),
        int(levels.min()),
        int(levels.max()),
        schema.id,
        sequence,
    )


def _bounds(low: pa.ChunkedArray, high: pa.ChunkedArray) -> tuple[object, object]:
    if pa.types.is_floating(low.type) and pc.any(pc.or_(pc.is_nan(low), pc.is_nan(high))).as_py():
        return None, None  # NaN is greater than all numbers, but `min_max` ignores it
    return (
        bounds(stored(pc.min_max(low)["min"]), stored(pc.min_max(high)["max"]), _BOUND_BYTES)
        if _cuts(low.type)
        else (
            stored(pc.min_max(low)["min"]),
            stored(pc.min_max(high)["max"]),
        )
    )


def _cuts(type_: pa.DataType) -> bool:
    """Whether bounds of this type may be truncated. A decimal is stored as text but is not truncated."""
    return pa.types.is_string(type_) or pa.types.is_binary(type_)


def partition_bounds(
    metas: Sequence[ManifestMeta], schema: Schema, column: PartitionColumn, where: str
) -> tuple[pa.Array, pa.Array]:
    """The bounds of a partition field of `schema` in each manifest. Manifests of an older schema may lack the field. Raises
    Corrupt naming `where`."""
    place, sides = schema.all_partition_columns.index(column), ([], [])
    for meta in metas:
        for side, values in zip(sides, (meta.partition_min, meta.partition_max), strict=True):
            if place >= len(values) and meta.schema_id == schema.id:
                raise Corrupt("manifest list lacks bounds of a partition column", where=where, cure=RESTORE)
            side.append(values[place] if place < len(values) else None)
    return _typed(*sides, column.type, where)


def key_bounds(metas: Sequence[ManifestMeta], schema: Schema, where: str) -> tuple[pa.Array, pa.Array]:
    """The bounds of the first key column of `schema` in each manifest. Raises Corrupt naming `where`."""
    type_ = schema.plain_columns.field(schema.key[0]).type
    return _typed([meta.key_min for meta in metas], [meta.key_max for meta in metas], type_, where)


def _typed(low: list, high: list, type_: pa.DataType, where: str) -> tuple[pa.Array, pa.Array]:
    try:
        return loaded(low, type_name(type_)), loaded(high, type_name(type_))
    except (TypeError, ValueError, OverflowError, pa.ArrowException) as broken:
        cause = shown(str(broken))
        raise Corrupt("manifest list has a bound of another type", where=where, found=cause, cure=RESTORE) from broken


def in_groups(manifests: Iterable[ManifestMeta], entries: int) -> Iterator[list[ManifestMeta]]:
    """Yields groups of consecutive manifests with at least `entries` entries together; the last group may have fewer."""
    group: list[ManifestMeta] = []
    count = 0
    for meta in manifests:
        group.append(meta)
        count += meta.added + meta.deleted
        if count >= entries:
            yield group
            group, count = [], 0
    if group:
        yield group


def encode_list(manifests: Sequence[ManifestMeta]) -> bytes:
    columns = dict(zip(ManifestMeta._fields, map(list, zip(*manifests, strict=True)), strict=True)) if manifests else {}
    return pack("MLST", columns)


def decode_list(data: bytes, where: str) -> tuple[ManifestMeta, ...]:
    """Decodes a manifest list. Raises Corrupt or UnsupportedFormat naming `where`."""
    content = unpack("MLST", data, where)
    if content == {}:
        return ()
    check("manifest list", content, _LIST_COLUMNS, where)
    check_lengths("manifest list", content.values(), where)
    return tuple(map(ManifestMeta, *(content[name] for name in ManifestMeta._fields)))
