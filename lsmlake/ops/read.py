"""Reading without an engine: the rows of a plan as Arrow tables.

For every split: the newest rows waiting at level 0 are merged, their keys looked up in the older files, and what is found counts
as dead there - a compaction in memory. Then every file is read raw: row groups by statistics, dead rows masked by position,
filter, projection. Nothing is merged with level >= 1.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

import pyarrow as pa

from lsmlake.format.deletion_vector import EMPTY, DeletionVector
from lsmlake.format.files import DataFile
from lsmlake.format.schema import ROW_KIND
from lsmlake.lsm.levels import recency
from lsmlake.lsm.merge.deduplicate import merge_runs, with_kinds, without_deletes
from lsmlake.lsm.predicate import ColumnBounds, evaluate, may_match
from lsmlake.ops.lookup import find_positions
from lsmlake.ops.plan import Plan, Split
from lsmlake.store.data_file import DataReader, living
from lsmlake.store.metadata import Metadata


def read_plan(meta: Metadata, plan: Plan) -> Iterator[pa.Table]:
    """All rows of the plan, columns in the plan's order, types and nullability of the schema. Memory: one chunk of one file, and
    the level-0 rows of one bucket."""
    for split in plan.splits:
        yield from read_split(meta, plan, split)


def read_split(meta: Metadata, plan: Plan, split: Split) -> Iterator[pa.Table]:
    newest = _level0(meta, plan, split, plan.needed)
    dead = superseded(meta, plan, split, newest)
    for file in split.files:
        for table in _raw(meta, plan, split, file, dead[file.name]):
            yield _finish(table, plan)
    if newest is not None:
        yield _finish(_filtered(without_deletes(newest), plan), plan)


def count(meta: Metadata, plan: Plan) -> int:
    """The number of rows. Without a predicate from metadata and, where rows wait at level 0, key columns alone."""
    if plan.predicate is not None:
        return sum(table.num_rows for table in read_plan(meta, plan))
    total = 0
    for split in plan.splits:
        newest = _level0(meta, plan, split, plan.schema.key)
        dead = superseded(meta, plan, split, newest) if newest is not None else None
        total += sum(file.rows for file in split.files)
        total -= sum(map(len, dead.values())) if dead is not None else sum(ref.cardinality for ref in split.vectors.values())
        total += without_deletes(newest).num_rows if newest is not None else 0
    return total


def newest_level0(meta: Metadata, plan: Plan, split: Split) -> pa.Table | None:
    """The newest row of every key at level 0, deletes included (`_row_kind`), with key and needed columns; `None` without level
    0."""
    return _level0(meta, plan, split, plan.needed)


def _level0(meta: Metadata, plan: Plan, split: Split, columns: tuple[str, ...]) -> pa.Table | None:
    if not split.level0:
        return None
    names = [f.name for f in plan.schema.columns if f.name in columns or f.name in plan.schema.key]
    ordered = sorted(split.level0, key=lambda file: (recency(file), file.min_key), reverse=True)
    runs = []
    for _, group in groupby(ordered, key=recency):
        parts = with_kinds([_whole(meta, plan, split, file, names) for file in sorted(group, key=lambda f: f.min_key)])
        runs.append(pa.concat_tables(parts))
    return merge_runs(with_kinds(runs), plan.schema.key)


def _whole(meta: Metadata, plan: Plan, split: Split, file: DataFile, names: list[str]) -> pa.Table:
    with DataReader(meta.env, meta.paths.data(split.bucket, file.name), file, plan.schema) as reader:
        return reader.read(range(reader.groups), [*names, ROW_KIND] if reader.has_row_kind else names)


def superseded(meta: Metadata, plan: Plan, split: Split, newest: pa.Table | None) -> dict[str, DeletionVector]:
    """For every file of the split: its vector, and what the level-0 rows `newest` supersede in it."""
    stored = meta.vectors(split.vectors, [file.name for file in split.files])
    dead = {file.name: stored.get(file.name, EMPTY) for file in split.files}
    if newest is not None and split.files:
        keys = newest.select(plan.schema.key)
        for name, positions in find_positions(meta, plan.schema, split.bucket, keys, split.files).items():
            dead[name] = dead[name] | DeletionVector.of(positions)
    return dead


def _raw(meta: Metadata, plan: Plan, split: Split, file: DataFile, dead: DeletionVector) -> Iterator[pa.Table]:
    columns = plan.needed or plan.schema.key[:1]
    with DataReader(meta.env, meta.paths.data(split.bucket, file.name), file, plan.schema) as reader:
        for chunk in reader.chunks(columns, _groups(reader, plan)):
            yield _filtered(living(chunk, dead), plan)


def _groups(reader: DataReader, plan: Plan) -> list[int]:
    """The row groups whose statistics allow a match."""
    if plan.predicate is None:
        return list(range(reader.groups))
    rows = reader.starts[1:] - reader.starts[:-1]
    bounds = {name: ColumnBounds(*reader.group_bounds(name)) for name in plan.predicate.columns}
    return may_match(plan.predicate, bounds, rows).nonzero()[0].tolist()


def _filtered(table: pa.Table, plan: Plan) -> pa.Table:
    return table if plan.predicate is None else table.filter(evaluate(plan.predicate, table))


def _finish(table: pa.Table, plan: Plan) -> pa.Table:
    return table.select(list(plan.columns)).cast(output_schema(plan))


def output_schema(plan: Plan) -> pa.Schema:
    return pa.schema([plan.schema.plain_columns.field(name) for name in plan.columns])
