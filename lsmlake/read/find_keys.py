"""Finds the live rows of many keys at a version, in whichever partition they are, by the key columns of the files that can hold
them.

1. Plan a read of the keys: bounds leave files out and, if there are not too many keys, so do the indexes of files.
2. Read the key columns of the row groups that can hold one of the keys, several files in parallel. Those of small files are
   cached.
3. Compare as many of them at once as there are keys, or a million: a filter by hash, then a binary search of those that pass.
4. Of the places of a key in a bucket the newest one counts, unless its row is a delete.

A merge rule that merges rows may need all rows of a key to know whether one is live; keys whose rows at level 0 may be deletes
are therefore looked up by `read.point`.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from lsmlake.files.bucket_files import BucketFiles
from lsmlake.format.data_files import Bucket, DataFile
from lsmlake.kernels.keys import comparable, joined
from lsmlake.lsm.cover import partition_codes
from lsmlake.lsm.levels import recency
from lsmlake.lsm.lookup import in_batches, search_among
from lsmlake.lsm.merge.rule import OldRow
from lsmlake.lsm.merge.rules import rule_of
from lsmlake.read.plan import Split, plan
from lsmlake.read.point import JOINED_ROWS, LISTED, matches, pruning, rows_of_keys, vector_of
from lsmlake.schema.rowkind import retractions
from lsmlake.schema.schema import ROW_KIND
from lsmlake.storage.concurrency import ahead
from lsmlake.tables.version import Version


class FoundFile(NamedTuple):
    """A file that can hold some of the keys."""

    split: Split
    file: DataFile

    @property
    def bucket(self) -> Bucket:
        return self.split.bucket


class FoundKeys(NamedTuple):
    """The live rows of keys: key `keys[i]` is at `positions[i]` of `files[file[i]]`; one of several rows that are merged.
    Ascending by key."""

    keys: np.ndarray
    file: np.ndarray
    positions: np.ndarray
    files: Sequence[FoundFile]


NO_KEYS = FoundKeys(*[np.zeros(0, np.int64)] * 3, ())


def find_keys(version: Version, keys: pa.Table) -> FoundKeys:
    """Finds keys. `keys`: the primary key columns, ascending and unique by `Schema.key`, of one partition by `Schema.of_keys`."""
    schema, none = version.schema, np.zeros(0, np.int64)
    if version.snapshot is None or not keys.num_rows:
        return NO_KEYS
    own = keys.select(schema.key)
    files = _files(version, keys)
    hits: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = [(none, none, none)]
    streams = (_key_chunks(version, number, one, own) for number, one in enumerate(files))
    with version.unless_expired():
        chunks = ahead(streams, version.meta.env.workers)
        parts = in_batches(chunks, lambda part: part[2].num_rows, max(own.num_rows, JOINED_ROWS))
        hits += [_hits(own, part) for part in parts]
        return _live(version, keys, FoundKeys(*map(np.concatenate, zip(*hits, strict=True)), files))


def rows_at(version: Version, found: FoundKeys, columns: Sequence[str]) -> pa.Table:
    """The rows that were found, in their order."""
    fields = pa.schema([version.schema.row_columns.field(name) for name in columns])
    tables, order = [fields.empty_table()], []
    with version.unless_expired():
        for number in np.unique(found.file).tolist():
            one, here = found.files[number], np.flatnonzero(found.file == number)
            here = here[np.argsort(found.positions[here], kind="stable")]
            tables += BucketFiles.of(version, one.bucket).fetch(one.file, found.positions[here], columns)
            order.append(here)
    rows = pa.concat_tables([table.cast(fields) for table in tables])
    return rows.take(pa.array(np.argsort(np.concatenate(order)))) if order else rows


def _files(version: Version, keys: pa.Table) -> list[FoundFile]:
    """The files that can hold some of the keys; of two files of a bucket the newer one comes first."""
    schema = version.schema
    # To ask a Bloom filter for ten thousand keys takes half a millisecond, to read 27,000 keys one or two.
    splits = plan(version, pruning(keys, schema, LISTED), schema.key).splits
    _, (home,) = partition_codes(keys.slice(0, 1), schema.of_keys)
    files = []
    for split in splits:
        if schema.home(split.bucket.spec, split.bucket.partition) != home:
            continue
        own = (*split.files, *split.lookup_files, *split.level0, *split.merged)
        files += [FoundFile(split, file) for file in sorted(own, key=lambda file: (recency(file), file.min_key))]
    return files


def _key_chunks(version: Version, number: int, one: FoundFile, keys: pa.Table) -> Generator[tuple[int, int, pa.Table]]:
    for start, table in BucketFiles.of(version, one.bucket).keys_among(one.file, keys):
        yield number, start, table


def _hits(keys: pa.Table, parts: Sequence[tuple[int, int, pa.Table]]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    wanted, stored = comparable([keys, pa.concat_tables([table for _, _, table in parts])])
    places, rows = search_among(wanted)(stored)
    begins = np.cumsum([0, *(table.num_rows for _, _, table in parts)])
    part = np.searchsorted(begins, rows, side="right") - 1
    numbers, starts = (np.array(column, np.int64) for column in list(zip(*parts, strict=True))[:2])
    return places, numbers[part], rows - begins[part] + starts[part]


# -- which of the places are live -------------------------------------------------------------------------------------


def _live(version: Version, keys: pa.Table, found: FoundKeys) -> FoundKeys:
    """Leaves one place of each key that has a live row."""
    schema, alive = version.schema, np.ones(len(found.keys), bool)
    merges = rule_of(schema).old_row is OldRow.MERGED
    retracts, unsure = np.zeros(len(found.keys), bool), np.zeros(keys.num_rows, bool)
    for number, here in _by_file(found):
        one, files = found.files[number], BucketFiles.of(version, found.files[number].bucket)
        if one.file.name in one.split.vectors:
            alive[here] = vector_of(files, one.split.vectors, one.file).live_mask(found.positions[here])
        if one.file.delete_rows and (one.file in one.split.level0 or one.file in one.split.merged):
            order = here[np.argsort(found.positions[here], kind="stable")]
            kinds = [joined(table[ROW_KIND]) for table in files.fetch(one.file, found.positions[order], [ROW_KIND])]
            retracts[order] = retractions(np.asarray(pa.concat_arrays(kinds)) & 3)
            unsure[found.keys[here]] |= merges
    bucket_of = {bucket: number for number, bucket in enumerate(dict.fromkeys(one.bucket for one in found.files))}
    bucket = np.array([bucket_of[one.bucket] for one in found.files], np.int64)[found.file]
    alive &= ~unsure[found.keys]
    order = np.lexsort((found.positions, found.file, bucket, found.keys))
    order = order[alive[order]]
    first = np.ones(len(order), bool)
    first[1:] = (found.keys[order][1:] != found.keys[order][:-1]) | (bucket[order][1:] != bucket[order][:-1])
    chosen = order[first & ~retracts[order]]
    sure = FoundKeys(found.keys[chosen], found.file[chosen], found.positions[chosen], found.files)
    return sure if not unsure.any() else _with_merged(version, keys, found, sure, np.flatnonzero(unsure))


def _with_merged(version: Version, keys: pa.Table, found: FoundKeys, sure: FoundKeys, unsure: np.ndarray) -> FoundKeys:
    """Adds the keys that only a merge of their rows can tell to be live: a place of each in the partition of its row."""
    schema, asked = version.schema, keys.take(pa.array(unsure))
    partitioning = {field.column for field in schema.partition_columns}
    rows = rows_of_keys(version, asked, [n for n in schema.columns.names if n in {*schema.primary_key, *partitioning}])
    codes, partitions = partition_codes(rows, schema)
    known = {partition: number for number, partition in enumerate(partitions)}
    at = matches(asked, rows.select(asked.column_names))
    partition_of = np.full(keys.num_rows, -1)
    partition_of[unsure[at >= 0]] = codes[at[at >= 0]]
    of_file = np.array([known.get(one.bucket.partition, -2) for one in found.files])
    in_partition = np.flatnonzero(partition_of[found.keys] == of_file[found.file])
    _, first = np.unique(found.keys[in_partition], return_index=True)
    columns = [np.concatenate([one, other[in_partition[first]]]) for one, other in zip(sure[:3], found[:3], strict=True)]
    order = np.argsort(columns[0], kind="stable")
    return FoundKeys(*(column[order] for column in columns), found.files)


def _by_file(found: FoundKeys) -> Iterator[tuple[int, np.ndarray]]:
    order = np.argsort(found.file, kind="stable")
    numbers, starts = np.unique(found.file[order], return_index=True)
    if len(numbers):
        yield from zip(numbers.tolist(), np.split(order, starts[1:]), strict=True)
