"""The changes between two snapshots, by comparing what differs of their files. Reads no row that both have in the same place.

1. A bucket whose files and vectors are the same in both is skipped.
2. A file in both holds the same rows; what counts is which of them one side takes for dead and the other does not - by its
   vector, or by rows waiting at level 0.
3. Of a file in one of them all living rows count, and so do rows made at read: of level 0, or of files that are merged.
4. Rows before and after are compared by key (`lsm.difference`): a row that has only moved is no change.

With a predicate these are the changes of the rows it is true of: a row that an update takes out of it counts as deleted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import pyarrow as pa

from lsmlake.format.deletion_vector import EMPTY, DeletionVector
from lsmlake.format.files import Bucket, DataFile
from lsmlake.lsm.difference import difference
from lsmlake.predicate import evaluate
from lsmlake.read.plan import Plan, Split
from lsmlake.read.scan import freshen, merge_at_read
from lsmlake.store.data_reader import DataReader, living
from lsmlake.store.lookup import fetch
from lsmlake.store.metadata import Metadata


class Pair(NamedTuple):
    """A bucket on both sides: what is read of it before and after."""

    bucket: Bucket
    before: tuple[Split, ...]
    after: tuple[Split, ...]
    schemas: tuple[int, int]
    """Those in effect, by number."""


def pairs(before: Plan, after: Plan) -> list[Pair]:
    """The buckets that differ. `before`, `after`: plans of two snapshots with the same predicate."""
    old, new = _by_bucket(before.splits), _by_bucket(after.splits)
    schemas = before.schema.id, after.schema.id
    found = (Pair(bucket, tuple(old.get(bucket, ())), tuple(new.get(bucket, ())), schemas) for bucket in {**old, **new})
    return [pair for pair in found if pair.before != pair.after]


def _by_bucket(splits: Iterable[Split]) -> dict[Bucket, list[Split]]:
    found: dict[Bucket, list[Split]] = {}
    for split in splits:
        found.setdefault(split.bucket, []).append(split)
    return found


def read_pair(meta: Metadata, plan: Plan, pair: Pair) -> pa.Table:
    """The changes of one bucket, all columns and `_row_kind`. Memory: the rows that differ."""
    plans = [replace(plan, schema=meta.schema(number)) for number in pair.schemas]
    old, new = (_side(meta, *side) for side in zip(plans, (pair.before, pair.after), strict=True))
    before = _filtered(_differing(meta, plans[0], old, new), plan)
    after = _filtered(_differing(meta, plans[1], new, old), plan)
    return difference(before, after, plan.schema.key, plan.schema.columns.names)


@dataclass
class _Side:
    """`files`: name -> file; `dead`: what counts as dead in each; `made`: rows made at read, by the names of the files if those
    alone decide them."""

    files: dict[str, DataFile] = field(default_factory=dict)
    dead: dict[str, DeletionVector] = field(default_factory=dict)
    made: dict[object, Sequence[pa.Table] | Split] = field(default_factory=dict)


def _side(meta: Metadata, plan: Plan, splits: Sequence[Split]) -> _Side:
    side = _Side()
    for split in splits:
        if split.merged:
            side.made[frozenset(file.name for file in split.merged)] = split
            continue
        fresh = freshen(meta, plan, split, plan.schema.columns.names)
        side.files.update({file.name: file for file in split.files})
        side.dead.update(fresh.dead)
        if fresh.rows is not None:
            side.made[object()] = [fresh.rows]
    return side


def _differing(meta: Metadata, plan: Plan, side: _Side, other: _Side) -> pa.Table:
    """The rows of `side` that are not known to stand on the other side in the same place."""
    columns = plan.schema.columns.names
    tables = [plan.schema.row_columns.empty_table()]
    for name, file in side.files.items():
        if name in other.files:
            gone = other.dead.get(name, EMPTY) - side.dead.get(name, EMPTY)
            tables += fetch(meta, plan.schema, file, gone.positions(), columns)
        else:
            tables += _living(meta, plan, file, side.dead.get(name, EMPTY))
    for made, rows in side.made.items():
        if made not in other.made:
            tables += merge_at_read(meta, plan, rows, columns) if isinstance(rows, Split) else rows
    return pa.concat_tables(tables)


def _living(meta: Metadata, plan: Plan, file: DataFile, dead: DeletionVector) -> Iterator[pa.Table]:
    with DataReader(meta.env, meta.paths.data(file), file, plan.schema) as reader:
        for chunk in reader.chunks(plan.schema.columns.names):
            yield living(chunk, dead)


def _filtered(rows: pa.Table, plan: Plan) -> pa.Table:
    return rows if plan.predicate is None else rows.filter(evaluate(plan.predicate, rows))
