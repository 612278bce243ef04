"""Manifests: what commits did to the live set, as columns; and the lists that name them.

In memory a manifest is an Arrow table, one row an entry, so 100,000 files are folded and pruned by array operations:

    kind (0 ADD, 1 DELETE), p:<i> partition values, bucket, total_buckets, name, directory, bytes, rows, delete_rows,
    kmin:<i> and kmax:<i> key bounds, level, sequence and min_sequence (null = inherited), schema_id, source, created_ms,
    checksum, footer_bytes and footer_checksum (null = not known), n:<id>, lo:<id>, hi:<id> statistics by field id

On disk it is zstd(msgpack({"columns": [{name, type, values}]})) in the common envelope: self-describing, any reader of
msgpack can follow. Dates are days, timestamps microseconds, decimals text.

The live set is the fold of all entries in commit order: the last entry of a file name decides.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

import msgpack
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lsmlake.errors import Corrupt
from lsmlake.format import envelope, types
from lsmlake.format.files import Bucket, BucketState, ColumnStats, DataFile, VectorRef
from lsmlake.format.schema import Schema

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
_CODEC = pa.Codec("zstd", 3)


class ManifestEntry(NamedTuple):
    kind: int
    bucket: Bucket
    total_buckets: int
    file: DataFile


class ManifestMeta(NamedTuple):
    """A manifest as its list knows it. `sequence` is the snapshot that added it: what its entries inherit. Bounds are
    inclusive; those of the partition have a value for each partition column, as stored, `None` where there are only nulls."""

    name: str
    bytes: int
    added: int
    deleted: int
    partition_min: Sequence
    partition_max: Sequence
    bucket_min: int
    bucket_max: int
    level_min: int
    level_max: int
    schema_id: int
    sequence: int


def has_order(type_: pa.DataType) -> bool:
    """True if the manifest keeps bounds of such a column."""
    return not pa.types.is_nested(type_)


def entries_schema(schema: Schema) -> pa.Schema:
    """The Arrow schema of the manifest table of a table of `schema`."""
    columns = schema.plain_columns
    fields = [pa.field(name, type_) for name, type_ in _FIXED]
    fields += [pa.field(f"p:{i}", columns.field(name).type) for i, name in enumerate(schema.partition_by)]
    for i, name in enumerate(schema.key):
        fields += [pa.field(f"kmin:{i}", columns.field(name).type), pa.field(f"kmax:{i}", columns.field(name).type)]
    for name, number in schema.field_ids().items():
        fields.append(pa.field(f"n:{number}", pa.int64()))
        if has_order(columns.field(name).type):
            fields += [pa.field(f"lo:{number}", columns.field(name).type), pa.field(f"hi:{number}", columns.field(name).type)]
    return pa.schema(fields)


def to_table(entries: Sequence[ManifestEntry], schema: Schema) -> pa.Table:
    """Entries as columns. O(entries x columns)."""
    arrow, files = entries_schema(schema), [entry.file for entry in entries]
    values: dict[str, list] = {name: [getattr(file, name) for file in files] for name, _ in _FIXED[3:]}
    values |= {
        "kind": [e.kind for e in entries],
        "bucket": [e.bucket.number for e in entries],
        "total_buckets": [e.total_buckets for e in entries],
    }
    for i in range(len(schema.partition_by)):
        values[f"p:{i}"] = [e.bucket.partition[i] for e in entries]
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
        {"name": f.name, "type": _type_name(f.type), "values": _stored(c)}
        for f, c in zip(table.schema, table.columns, strict=True)
    ]
    return _pack("MANF", {"rows": table.num_rows, "columns": columns})


def decode(data: bytes, where: str) -> pa.Table:
    """Raises Corrupt or UnsupportedFormat naming `where`."""
    content = _unpack("MANF", data, where)
    try:
        columns = {c["name"]: _loaded(c["values"], c["type"]) for c in content["columns"]}
        table = pa.table(columns)
    except (KeyError, TypeError, pa.ArrowException) as broken:
        raise Corrupt(
            "manifest columns cannot be read", where=where, found=broken, cure="restore the file from a copy"
        ) from broken
    if table.num_rows != content["rows"]:
        raise Corrupt("manifest is incomplete", where=where, expected=f"{content['rows']} entries", found=table.num_rows)
    return table


def _type_name(type_: pa.DataType) -> str:
    return {pa.int8(): "TINYINT", pa.int16(): "SMALLINT"}.get(type_) or types.type_name(type_)


def _storage(type_: pa.DataType) -> pa.DataType:
    if pa.types.is_timestamp(type_):
        return pa.int64()
    if pa.types.is_date32(type_):
        return pa.int32()
    return pa.string() if pa.types.is_decimal(type_) else type_


def _stored(values: pa.ChunkedArray | pa.Scalar) -> list | object:
    stored = values.cast(_storage(values.type))
    return stored.as_py() if isinstance(stored, pa.Scalar) else stored.to_pylist()


@lru_cache(maxsize=256)
def _types(name: str) -> tuple[pa.DataType, pa.DataType]:
    type_ = types.type_of(name)
    return type_, _storage(type_)


def _loaded(values: list, name: str) -> pa.Array:
    type_, storage = _types(name)
    stored = pa.array(values, storage)
    return stored if storage == type_ else stored.cast(type_)


def _pack(kind: str, content: dict) -> bytes:
    raw = msgpack.packb(content)
    return envelope.wrap(kind, len(raw).to_bytes(8, "big") + _CODEC.compress(raw, asbytes=True))


def _unpack(kind: str, data: bytes, where: str) -> dict:
    payload = envelope.unwrap(kind, data, where)
    try:
        raw = _CODEC.decompress(payload[8:], int.from_bytes(payload[:8], "big"), asbytes=True)
        return msgpack.unpackb(raw)
    except (pa.ArrowException, OSError, ValueError, msgpack.UnpackException) as broken:
        raise Corrupt("content cannot be unpacked", where=where, found=broken, cure="restore the file from a copy") from broken


# -- folding ----------------------------------------------------------------------------------------------------------


def inherit(table: pa.Table, sequence: int) -> pa.Table:
    """Empty sequences filled with that of the snapshot which added the manifest."""
    for name in ("sequence", "min_sequence"):
        column = table[name]
        if column.null_count:
            table = table.set_column(table.schema.get_field_index(name), name, pc.fill_null(column, sequence))
    return table


def _decisive(table: pa.Table) -> tuple[np.ndarray, np.ndarray]:
    """For every file name: the row of its first and of its last entry."""
    names = table["name"].combine_chunks().dictionary_encode()
    names = names.combine_chunks() if isinstance(names, pa.ChunkedArray) else names
    codes = names.indices.to_numpy()
    first, last = np.empty(len(names.dictionary), np.int64), np.empty(len(names.dictionary), np.int64)
    rows = np.arange(len(codes))
    first[codes[::-1]] = rows[::-1]
    last[codes] = rows
    return first, last


def concat(tables: Iterable[pa.Table], schema: Schema) -> pa.Table:
    return pa.concat_tables([entries_schema(schema).empty_table(), *tables], promote_options="default")


def fold(tables: Iterable[pa.Table], schema: Schema) -> pa.Table:
    """The live set: the entries, all ADD, in the order they were added. `tables` in commit order."""
    table = concat(tables, schema)
    if not table.num_rows:
        return table
    last = np.sort(_decisive(table)[1])
    live = last[table["kind"].to_numpy()[last] == ADD]
    return table if len(live) == table.num_rows else table.take(live)


def merge(tables: Iterable[pa.Table], schema: Schema) -> pa.Table:
    """A run of manifests as one: last entry of every file, less the files that came and went inside the run."""
    table = concat(tables, schema)
    if not table.num_rows:
        return table
    first, last = _decisive(table)
    kinds = table["kind"].to_numpy()
    kept = last[~((kinds[first] == ADD) & (kinds[last] == DELETE))]
    return table.take(np.sort(kept))


def files_of(table: pa.Table, schema: Schema, *, statistics: bool = True) -> list[tuple[Bucket, int, DataFile]]:
    """The rows as values: (bucket, total buckets, file). Statistics cost most of the time; leave them out for reading."""
    if not table.num_rows:
        return []
    column = {name: table[name].to_pylist() for name, _ in _FIXED}
    partitions = _tuples(table, "p", len(schema.partition_by))
    minima, maxima = _tuples(table, "kmin", len(schema.key)), _tuples(table, "kmax", len(schema.key))
    stats = _statistics(table, schema) if statistics else [{}] * table.num_rows
    plain = [column[name] for name in ("name", "directory", "bytes", "rows", "delete_rows")]
    rest = [column[name] for name in ("level", "schema_id", "source", "created_ms", "sequence", "min_sequence")]
    sums = [column[name] for name in ("checksum", "footer_bytes", "footer_checksum")]
    files = map(DataFile, *plain, minima, maxima, *rest, stats, *sums)
    buckets = map(Bucket, partitions, column["bucket"])
    return list(zip(buckets, column["total_buckets"], files, strict=True))


def _tuples(table: pa.Table, prefix: str, count: int) -> list[tuple]:
    if not count:
        return [()] * table.num_rows
    return list(zip(*(table[f"{prefix}:{i}"].to_pylist() for i in range(count)), strict=True))


def _statistics(table: pa.Table, schema: Schema) -> list[dict[int, ColumnStats]]:
    per_column, there = [], set(table.column_names)
    for number in schema.field_ids().values():
        nulls = table[f"n:{number}"].to_pylist()
        bounds = [
            table[f"{side}:{number}"].to_pylist() if f"{side}:{number}" in there else [None] * len(nulls) for side in ("lo", "hi")
        ]
        per_column.append((number, list(map(ColumnStats, nulls, *bounds))))
    return [{number: stats[row] for number, stats in per_column if stats[row].nulls is not None} for row in range(table.num_rows)]


def states(
    table: pa.Table, vectors: Mapping[str, VectorRef], schema: Schema, *, statistics: bool = True
) -> dict[Bucket, BucketState]:
    """The live set by bucket."""
    grouped: dict[Bucket, tuple[int, list[DataFile]]] = {}
    for bucket, total, file in files_of(table, schema, statistics=statistics):
        grouped.setdefault(bucket, (total, []))[1].append(file)
    return {
        bucket: BucketState(bucket, total, tuple(files), {f.name: vectors[f.name] for f in files if f.name in vectors})
        for bucket, (total, files) in grouped.items()
    }


# -- lists ------------------------------------------------------------------------------------------------------------


def describe(name: str, data: bytes, table: pa.Table, schema_id: int, sequence: int) -> ManifestMeta:
    """What a list says of the manifest `table`, stored as `data` under `name`."""
    kinds = table["kind"].to_numpy()
    buckets, levels = table["bucket"].to_numpy(), table["level"].to_numpy()
    added = int((kinds == ADD).sum())
    partitions = [pc.min_max(table[column]) for column in table.column_names if column.startswith("p:")]
    return ManifestMeta(
        name,
        len(data),
        added,
        len(kinds) - added,
        [_stored(found["min"]) for found in partitions],
        [_stored(found["max"]) for found in partitions],
        int(buckets.min()),
        int(buckets.max()),
        int(levels.min()),
        int(levels.max()),
        schema_id,
        sequence,
    )


def encode_list(manifests: Sequence[ManifestMeta]) -> bytes:
    columns = dict(zip(ManifestMeta._fields, map(list, zip(*manifests, strict=True)), strict=True)) if manifests else {}
    return _pack("MLST", columns)


def decode_list(data: bytes, where: str) -> tuple[ManifestMeta, ...]:
    """Raises Corrupt or UnsupportedFormat naming `where`."""
    content = _unpack("MLST", data, where)
    try:
        return tuple(map(ManifestMeta, *(content[name] for name in ManifestMeta._fields))) if content else ()
    except (KeyError, TypeError) as broken:
        raise Corrupt("manifest list lacks a column", where=where, found=broken, cure="restore the file from a copy") from broken


def encode_index(vectors: Mapping[str, VectorRef]) -> bytes:
    """The index manifest: for every live file with a vector where the vector lies."""
    refs = list(vectors.values())
    columns = dict(zip(VectorRef._fields, map(list, zip(*refs, strict=True)), strict=True)) if refs else {}
    return _pack("INDX", {"kind": "deletion-vector-v1", "file": list(vectors), **columns})


def decode_index(data: bytes, where: str) -> dict[str, VectorRef]:
    """Raises Corrupt or UnsupportedFormat naming `where`."""
    content = _unpack("INDX", data, where)
    try:
        names = content["file"]
        return dict(zip(names, map(VectorRef, *(content[name] for name in VectorRef._fields)), strict=True)) if names else {}
    except (KeyError, TypeError, ValueError) as broken:
        raise Corrupt("index manifest lacks a column", where=where, found=broken, cure="restore the file from a copy") from broken
