"""Manifest lists: the manifests of a snapshot in commit order, with bounds of their entries.

A reader opens only manifests whose bounds allow a match. That is sound although the live set is a fold: all entries of one file
name have the same partition, bucket and key range, so either all manifests that name a file are opened, or none that matters is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from lsmlake.errors import Corrupt
from lsmlake.format.manifest import ADD
from lsmlake.format.stats import bounds
from lsmlake.schema.envelope import check_lengths, loaded, pack, stored, unpack
from lsmlake.schema.partitioning import PartitionColumn
from lsmlake.schema.schema import Schema
from lsmlake.types.json_shape import BYTES_MAX, NAME, RESTORE, JsonKind, check, integer, listing, optional, shown
from lsmlake.types.types import type_name

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
    `key_min`, `key_max`: of the first key column; None without a key. `total_buckets`: None if the entries differ.
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
    """Whether bounds of this type may be truncated. A decimal is stored as text, but is no text."""
    return pa.types.is_string(type_) or pa.types.is_binary(type_)


def partition_bounds(
    metas: Sequence[ManifestMeta], schema: Schema, column: PartitionColumn, where: str
) -> tuple[pa.Array, pa.Array]:
    """The bounds of a partition field of `schema` in each manifest. Those of an older schema may lack it. Raises Corrupt naming
    `where`."""
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
        found = shown(str(broken))
        raise Corrupt("manifest list has a bound of another type", where=where, found=found, cure=RESTORE) from broken


def in_groups(manifests: Iterable[ManifestMeta], entries: int) -> Iterator[list[ManifestMeta]]:
    """Yields consecutive manifests that have at least so many entries together; the last group may have fewer."""
    group: list[ManifestMeta] = []
    found = 0
    for meta in manifests:
        group.append(meta)
        found += meta.added + meta.deleted
        if found >= entries:
            yield group
            group, found = [], 0
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
