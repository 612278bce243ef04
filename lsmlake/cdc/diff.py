"""Computes the changes between two snapshots from the files that differ. Skips rows that both have in the same file.

1. Skip each bucket whose files and vectors are equal on both sides.
2. Of a file on both sides, read the rows that only one side treats as deleted, by its vector or by newer rows at level 0.
3. Of a file on one side, read all live rows. Also take all rows that are merged at read: rows of level 0, or of merged sections.
4. Compare the rows before and after (`lsm.difference`), by key if there is one: a row that only moved to another file is not a
   change.

A predicate filters both sides first: a row that no longer matches after an update is reported as deleted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import pyarrow as pa

from lsmlake.files.bucket_files import BucketFiles
from lsmlake.files.data_reader import live_rows
from lsmlake.format.data_files import Bucket, DataFile
from lsmlake.format.deletion_vector import EMPTY, DeletionVector
from lsmlake.lsm.cover import Placed, common_buckets, of_keys
from lsmlake.lsm.difference import bag_difference, difference
from lsmlake.predicate import evaluate
from lsmlake.read.arrow_scan import freshen, merge_at_read
from lsmlake.read.plan import Plan, Projection, Split
from lsmlake.schema.adapt import with_constants
from lsmlake.schema.evolution import defaults_after_merge, through
from lsmlake.tables.version import Metadata


class Pair(NamedTuple):
    """The splits of a bucket before and after, and the ids of the schemas in effect. If buckets were split or merged meanwhile,
    or if keys can move between partitions, a pair has the splits of all buckets with common keys. `total`: that of the bucket."""

    bucket: Bucket
    before: tuple[Split, ...]
    after: tuple[Split, ...]
    schemas: tuple[int, int]
    total: int


def pairs(before: Plan, after: Plan) -> list[Pair]:
    """Returns the buckets that differ. `before`, `after`: plans of two snapshots with the same predicate."""
    schemas = tuple(plan.snapshot.schema_id if plan.snapshot else 0 for plan in (before, after))
    places = ((of_keys(plan.schema, split.bucket), split.total) for plan in (before, after) for split in plan.splits)
    common = common_buckets(places)
    splits: dict[Placed, tuple[list[Split], list[Split]]] = {}
    for side, plan in enumerate((before, after)):
        for split in plan.splits:
            splits.setdefault(common[of_keys(plan.schema, split.bucket), split.total], ([], []))[side].append(split)
    pairs = (Pair(bucket, tuple(old), tuple(new), schemas, total) for (bucket, total), (old, new) in splits.items())
    return [pair for pair in pairs if pair.before != pair.after]


def read_pair(meta: Metadata, plan: Projection, pair: Pair) -> pa.Table:
    """Returns the changes of one bucket, all columns of `plan` and `_row_kind`. Each side is merged by the options it had.
    Memory: the rows that differ."""
    schemas = [meta.schemas.get(number) for number in pair.schemas]
    plans = [replace(plan, schema=through(schema, plan.schema)) for schema in schemas]
    defaults = [defaults_after_merge(schema, plan.schema) for schema in schemas]
    files = [BucketFiles(meta, plan.schema, pair.bucket) for plan in plans]
    old, new = (_side(*side) for side in zip(files, plans, (pair.before, pair.after), strict=True))
    before = _filtered(with_constants(_differing(files[0], plans[0], old, new), defaults[0]), plan)
    after = _filtered(with_constants(_differing(files[1], plans[1], new, old), defaults[1]), plan)
    if plan.schema.append_only:
        return bag_difference(before, after)
    return difference(before, after, plan.schema.key, plan.schema.columns.names)


@dataclass
class _Side:
    """One side of a comparison. `files`: by name; `dead`: the deleted or superseded rows of each file; `merged`: key -> rows
    merged at read; the key is the names of the merged files, so rows with the same key on both sides are equal."""

    files: dict[str, DataFile] = field(default_factory=dict)
    dead: dict[str, DeletionVector] = field(default_factory=dict)
    merged: dict[object, Sequence[pa.Table] | Split] = field(default_factory=dict)


def _side(files: BucketFiles, plan: Projection, splits: Sequence[Split]) -> _Side:
    side = _Side()
    for split in splits:
        if split.merged:
            side.merged[frozenset(file.name for file in split.merged)] = split
            continue
        fresh = freshen(files, plan, split, plan.schema.columns.names)
        side.files.update({file.name: file for file in split.files})
        side.dead.update(fresh.dead)
        if fresh.rows is not None:
            side.merged[object()] = [fresh.rows]
    return side


def _differing(files: BucketFiles, plan: Projection, side: _Side, other: _Side) -> pa.Table:
    """Returns the live rows of `side`, without rows that are live in the same file on the other side."""
    columns = plan.schema.columns.names
    tables = [plan.schema.row_columns.empty_table()]
    for name, file in side.files.items():
        if name in other.files:
            dead_in_other = other.dead.get(name, EMPTY) - side.dead.get(name, EMPTY)
            tables += files.fetch(file, dead_in_other.positions(), columns)
        else:
            tables += _live(files, file, side.dead.get(name, EMPTY))
    for merged, rows in side.merged.items():
        if merged not in other.merged:
            tables += merge_at_read(files, plan, rows, columns) if isinstance(rows, Split) else rows
    return pa.concat_tables(tables)


def _live(files: BucketFiles, file: DataFile, dead: DeletionVector) -> Iterator[pa.Table]:
    with files.open(file) as reader:
        for chunk in reader.chunks(files.schema.columns.names):
            yield live_rows(chunk, dead)


def _filtered(rows: pa.Table, plan: Projection) -> pa.Table:
    rows = rows.select(plan.schema.columns.names)
    return rows if plan.predicate is None else rows.filter(evaluate(plan.predicate, rows))
