"""Counts rows and finds extremes of a plan: from metadata where possible, otherwise by reading as little as possible.

A file is decided if its statistics prove that the predicate is TRUE of every row; then its count is the number of its rows less
the number that its vector marks. Its bounds are its least and greatest value if, in addition, no row is dead and bounds of the
type are never cut. Buckets with rows at level 0, and files that must be merged, are read.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Literal, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from lsmlake.errors import InvalidQuery
from lsmlake.files.bucket_files import BucketFiles
from lsmlake.format.manifest import has_order
from lsmlake.predicate import must_match, ordered
from lsmlake.read.arrow_scan import freshen, merge_at_read, read_plan
from lsmlake.read.plan import Plan, Split
from lsmlake.read.prune import exact_bounds, selection

Side = Literal["min", "max"]


def count(plan: Plan) -> int:
    """Returns the number of rows. Reads the columns of the predicate in files that are not decided and, in buckets with level-0
    files, those that the merge needs."""
    if plan.predicate is None:
        return _count_all(plan)
    decided = decided_files(plan)
    total, left = 0, []
    for split in plan.splits:
        rest = split
        if not split.level0 and not split.merged:
            sure = [file for file in split.files if file.name in decided]
            total += sum(file.rows - _dead(split, file.name) for file in sure)
            rest = replace(split, files=tuple(file for file in split.files if file.name not in decided))
        left.append(rest)
    splits = tuple(split for split in left if split.files or split.level0 or split.merged)
    undecided = replace(plan, columns=plan.schema.narrow, splits=splits)
    return total + sum(table.num_rows for table in read_plan(undecided))


def _count_all(plan: Plan) -> int:
    total = 0
    for split in plan.splits:
        files = BucketFiles.of(plan.version, split.bucket)
        total += sum(file.rows for file in split.files)
        if split.merged:
            total += sum(table.num_rows for table in merge_at_read(files, plan, split, plan.schema.key))
        elif split.level0:
            fresh = freshen(files, plan, split, plan.schema.key)
            total += fresh.rows.num_rows - sum(map(len, fresh.dead.values()))
        else:
            total -= sum(ref.cardinality for ref in split.vectors.values())
    return total


def decided_files(plan: Plan) -> set[str]:
    """The names of the files of which the predicate is TRUE in every row."""
    if plan.snapshot is None or not (files := _entries(plan)).num_rows:
        return set()
    bounds = exact_bounds(files, plan.schema, plan.predicate.columns)
    return set(files["name"].filter(pa.array(must_match(plan.predicate, bounds, files["rows"].to_numpy()))).to_pylist())


def _entries(plan: Plan) -> pa.Table:
    return plan.version.live(selection(plan.schema, plan.predicate))


class _Unit(NamedTuple):
    """Files that are read together. `bound`: no value lies beyond it; None: unknown. `exact`: the bound is the value of a row."""

    split: Split
    bound: object
    exact: bool


def extreme(plan: Plan, column: str, side: Side) -> object:
    """Returns the least or greatest value of a column, as Spark compares values; None without rows, or if all are null.

    Raises InvalidQuery if the column has no order.
    """
    type_ = plan.schema.plain_columns.field(column).type
    if not has_order(type_):
        raise InvalidQuery(f"a column of a nested type has no {side}", found=column, cure="name a column of another type")
    units = list(_units(plan, column, side, type_))
    best = extreme_of(pa.array([unit.bound for unit in units if unit.exact], type_), side)
    unknown = [unit for unit in units if unit.bound is None]
    waiting = [unit for unit in units if unit.bound is not None and not unit.exact]
    bounds = ordered(pa.array([unit.bound for unit in waiting], type_), type_)
    order = pc.array_sort_indices(bounds, order="ascending" if side == "min" else "descending").to_pylist()
    for unit in (*unknown, *(waiting[number] for number in order)):  # of the known bounds the most promising first
        if unit.bound is not None and best is not None and not _beats(unit.bound, best, side, type_):
            break
        for table in read_plan(replace(plan, columns=(column,), splits=(unit.split,))):
            value = extreme_of(table[column].combine_chunks(), side)
            best = value if best is None or (value is not None and _beats(value, best, side, type_)) else best
    return best


def _units(plan: Plan, column: str, side: Side, type_: pa.DataType) -> Iterator[_Unit]:
    """Yields a unit for each file that is read alone, and for each other split."""
    if not plan.splits:
        return
    entries = _entries(plan)
    bounds = exact_bounds(entries, plan.schema, [column]).get(column) if entries.num_rows else None
    values = [None] * entries.num_rows if bounds is None else (bounds.min if side == "min" else bounds.max).to_pylist()
    known = dict(zip(entries["name"].to_pylist(), values, strict=True))
    decided = None if plan.predicate is None else decided_files(plan)
    cut = pa.types.is_string(type_) or pa.types.is_binary(type_)
    for split in plan.splits:
        if split.level0 or split.merged:  # a merge may make values that no file has
            yield _Unit(split, None, exact=False)
            continue
        for file in split.files:
            alone = replace(split, files=(file,))
            sure = decided is None or file.name in decided
            bound = known.get(file.name)
            yield _Unit(alone, bound, exact=bound is not None and sure and not cut and not _dead(split, file.name))


def extreme_of(values: pa.Array, side: Side) -> object:
    """The least or greatest value, where NaN is the greatest; None if there is no value."""
    values = values.drop_null()
    if not len(values):
        return None
    if not pa.types.is_floating(values.type):
        return pc.min_max(values)[side].as_py()
    ranks = ordered(values, values.type).to_numpy()
    return values[int(ranks.argmin() if side == "min" else ranks.argmax())].as_py() + 0.0  # -0.0 equals 0.0


def _beats(value: object, best: object, side: Side, type_: pa.DataType) -> bool:
    """Whether `value` is beyond `best`."""
    one, other = ordered(pa.array([value, best], type_), type_)
    return (pc.less if side == "min" else pc.greater)(one, other).as_py()


def _dead(split: Split, name: str) -> int:
    return split.vectors[name].cardinality if name in split.vectors else 0
