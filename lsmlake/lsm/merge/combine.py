"""What the engines share that make a new row out of many: partial-update and aggregation.

1. Without rows to take back any neighbouring rows of a key may be combined at once, and the outcome combined again later.
2. Rows of kind -U or -D mean something only beside what they take back. So unless everything older is at hand (`settle`) the
   keys that have one are left as they are: several rows of a key, in order, each of its kind. A few functions cannot even add
   before; then all rows are left, those added as +U, which tells them from rows that are combined.
3. A row that removes the key ends what came before it: only the rows after it are combined; if there is none, the key is gone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Executor

import numpy as np
import pyarrow as pa

from lsmlake.format.chunks import joined
from lsmlake.format.rowkind import DELETE, INSERT, UPDATE_AFTER, UPDATE_BEFORE
from lsmlake.format.schema import ROW_KIND
from lsmlake.lsm.aggregate import Function, segments
from lsmlake.lsm.merge.groups import Groups
from lsmlake.lsm.merge.rows import by_column, gather, kinds_of, with_kind

Column = Callable[[str, pa.Table, Groups, "np.ndarray | None"], pa.Array]
"""(name, rows, groups, kinds of `groups.rows` or None) -> the column's value for every group."""


def is_retract(kinds: np.ndarray) -> np.ndarray:
    return (kinds == UPDATE_BEFORE) | (kinds == DELETE)


def validate(functions: Mapping[str, Function], rows: pa.Table) -> None:
    """`Engine.validate` for columns with these functions."""
    for name, function in functions.items():
        if name in rows.column_names:
            function.validate(joined(rows[name]))


def combine(
    rows: pa.Table,
    groups: Groups,
    pool: Executor | None,
    column: Column,
    removes: Callable[[pa.Table, Groups, np.ndarray], np.ndarray | None],
    *,
    settle: bool,
    folds_adds: bool,
) -> pa.Table:
    """The rows of every key as one. `removes`: the last place of every group that removes its key, -1 if there is none (`None`:
    none in any group). `folds_adds`: rows may be combined before all are there."""
    kinds = kinds_of(rows)
    sorted_kinds = None if kinds is None else kinds[groups.rows]
    if not settle:
        if not folds_adds:
            waiting = np.full(len(groups.rows), INSERT) if sorted_kinds is None else sorted_kinds
            return with_kind(gather(rows, groups.rows, pool), np.where(waiting == INSERT, UPDATE_AFTER, waiting))
        if sorted_kinds is not None and is_retract(sorted_kinds).any():
            return _some(rows, groups, sorted_kinds, pool, column)
    plain = rows.drop_columns([ROW_KIND]) if kinds is not None else rows
    if sorted_kinds is None or not is_retract(sorted_kinds).any():
        return plain_rows(plain, groups, None, pool, column)
    last = removes(rows, groups, sorted_kinds)
    if last is None:
        return plain_rows(plain, groups, sorted_kinds, pool, column)
    return _without_removed(plain, groups, sorted_kinds, last, pool, column)


def plain_rows(rows: pa.Table, groups: Groups, kinds: np.ndarray | None, pool: Executor | None, column: Column) -> pa.Table:
    """Every group combined, no key removed. A single row, too, is only what the engine makes of it."""
    make = lambda name: column(name, rows, groups, kinds)  # noqa: E731
    return pa.table(by_column(make, rows.column_names, len(groups.rows), pool), schema=rows.schema)


def _some(rows: pa.Table, groups: Groups, kinds: np.ndarray, pool: Executor | None, column: Column) -> pa.Table:
    """Only the keys without a retract combined; the rows of the others follow each other as they are."""
    left = np.logical_or.reduceat(is_retract(kinds), groups.starts)
    places = np.repeat(left, segments.lengths(groups.starts, len(groups.rows)))
    starts, folded = segments.kept(~places, groups.starts)
    parts = [with_kind(gather(rows, groups.rows[places], pool), kinds[places])]
    if len(folded):
        plain = rows.drop_columns([ROW_KIND])
        parts.append(with_kind(plain_rows(plain, Groups(groups.rows[~places], starts), None, pool, column), INSERT))
    numbers = [segments.numbers(groups.starts, len(groups.rows))[places], folded]
    order = np.argsort(np.concatenate(numbers[: len(parts)]), kind="stable")
    return gather(pa.concat_tables(parts), order, pool)


def _without_removed(
    rows: pa.Table, groups: Groups, kinds: np.ndarray, last: np.ndarray, pool: Executor | None, column: Column
) -> pa.Table:
    """Only what comes after `last`, the place of every group that removes it, counts; where nothing does, a -D row."""
    count = len(groups.rows)
    keep = np.arange(count) > np.repeat(last, segments.lengths(groups.starts, count))
    starts, alive = segments.kept(keep, groups.starts)
    after = kinds[keep]
    made = (
        plain_rows(rows, Groups(groups.rows[keep], starts), after if is_retract(after).any() else None, pool, column)
        if len(alive)
        else rows.slice(0, 0)
    )
    gone = np.setdiff1d(np.arange(len(groups.starts)), alive)
    parts = [with_kind(made, INSERT), with_kind(gather(rows, groups.last[gone], pool), DELETE)]
    return gather(pa.concat_tables(parts), np.argsort(np.concatenate([alive, gone]), kind="stable"), pool)


def last_delete(rows: pa.Table, groups: Groups, kinds: np.ndarray) -> np.ndarray:
    """`removes` of engines where any -D removes its key."""
    return segments.last_where(kinds == DELETE, groups.starts, len(groups.rows))
