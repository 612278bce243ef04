"""Manifests: the entries of commits, which add files to the live set or delete them.

In memory a manifest is an Arrow table, one row per entry, so 100,000 files are folded and pruned by array operations:

    kind (0 ADD, 1 DELETE), p:<i> value of partition field 1000 + i (null where the spec has no such field), bucket,
    total_buckets, name, directory, bytes, rows, delete_rows,
    kmin:<i> and kmax:<i> key bounds, level, sequence and min_sequence (null = inherited), schema_id, source, created_ms,
    checksum, footer_bytes and footer_checksum (null = unknown), index and index_bytes (null = none; of an added file only index),
    spec (partition spec), n:<id>, lo:<id>, hi:<id> statistics by field id

`manifest_codec` reads and writes its bytes; `live_set` folds the entries of all manifests.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lsmlake.format.files import DELETES, Bucket, BucketState, ColumnStats, DataFile, VectorRef
from lsmlake.schema.schema import Schema

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
INDEX = (("index", pa.binary()), ("index_bytes", pa.int64()))
"""Columns that older manifests lack."""
SPEC = "spec", pa.int32()
"""As these, but 0 there."""
_FEW = 1 << 9  # entries of which Python looks at one column sooner than Arrow begins


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
    fields = [pa.field(name, type_) for name, type_ in (*FIXED, *INDEX, SPEC)]
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
    found = list(tables)
    return pa.concat_tables(found) if found else entries_schema(schema).empty_table()


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
    files = map(DataFile, *plain, minima, maxima, *rest, stats, *sums, index, table["index_bytes"].to_pylist())
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
    """The entries without those of retained deletes."""
    sources = table["source"]
    few = len(sources) <= _FEW
    if DELETES not in sources.to_pylist() if few else pc.index(sources, DELETES).as_py() < 0:
        return table
    return table.filter(pc.not_equal(sources, DELETES))
