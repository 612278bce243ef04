"""Looks a few keys up in compacted buckets: finds their positions by key, then reads one page of each column.

It works with deletion vectors, where a key is live in at most one file, and only where no rows wait at level 0. Everything
between the snapshot and the pages of a row is cached: the files of the bucket, their footers, key columns and vectors.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from lsmlake.format.deletion_vector import EMPTY, DeletionVector
from lsmlake.format.files import Bucket, BucketState, DataFile
from lsmlake.kernels.bucket_hash import bucket_of
from lsmlake.store.bucket_files import BucketFiles
from lsmlake.store.version import Version


def rows_of_few_keys(version: Version, keys: pa.Table) -> list[pa.Table] | None:
    """Returns the rows of `keys`, in any order; None if they must be read in another way."""
    if not version.options.layout.deletion_vectors:
        return None
    found: list[pa.Table] = []
    for bucket, rows in _by_bucket(version, keys).items():
        state = _state(version, bucket)
        files = version.files(bucket)
        if state is None:
            continue
        if any(file.level == 0 or not files.has_pages(file) for file in state.files):
            return None
        for key in {*zip(*(keys[name].take(rows).to_pylist() for name in version.schema.key), strict=True)}:
            found += _row(files, state, key)
    return found


def _by_bucket(version: Version, keys: pa.Table) -> dict[Bucket, list[int]]:
    """Returns the rows of the keys of each bucket."""
    schema = version.schema
    numbers = bucket_of([keys[name].combine_chunks() for name in schema.bucket_key], version.options.layout.buckets)
    partitions = zip(*(keys[name].to_pylist() for name in schema.partition_by), strict=True) if schema.partition_by else None
    found: dict[Bucket, list[int]] = {}
    for row, number in enumerate(numbers.tolist()):
        found.setdefault(Bucket(() if partitions is None else next(partitions), number), []).append(row)
    return found


def _state(version: Version, bucket: Bucket) -> BucketState | None:
    """Returns the files of a bucket; None if it has none."""
    key = version.snapshot.delta_manifest_list.name, version.meta.paths.table_uuid, str(bucket), version.schema.id
    states = version.meta.files.cache.get(key, lambda: version.states([bucket], statistics=False))
    return states.get(bucket)


def _row(files: BucketFiles, state: BucketState, key: tuple) -> list[pa.Table]:
    """Returns the live row of a key; empty if there is none."""
    for file in state.files:
        position = files.position(key, file) if file.min_key <= key <= file.max_key else None
        if position is not None and _vector(files, state, file).live_mask(np.array([position], np.int64)).all():
            return [files.row_at(file, position, files.schema.columns.names)]
    return []


def _vector(files: BucketFiles, state: BucketState, file: DataFile) -> DeletionVector:
    ref = state.vectors.get(file.name)
    if ref is None:
        return EMPTY
    key = files.meta.paths.puffin(ref.puffin), ref.offset
    return files.meta.files.cache.get(key, lambda: files.meta.vectors.get(ref, file), lambda vector: 512 + 4 * len(vector))
