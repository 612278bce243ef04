"""The part that partial-update and aggregation share: they make one row of all rows of a key, column by column.

1. Rows count in the order they arrived, one at a time (`fold`). Rows up to the last one that removes the key do not count.
   Under partial-update, a -U or -D before the first added row does not count either; under aggregation it does. A key without a
   row that counts is gone.
2. While older rows of the key may exist, rows are combined only if that cannot change the result. Rows of kind -U and -D wait for
   the row they take from, and added rows wait if the rule says so (`Waiting`). Rows that wait stay as they are, several rows of
   a key in one run, in the order they arrived. Added ones get the kind +U.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Executor
from enum import Enum
from typing import Protocol

import numpy as np
import pyarrow as pa

from lsmlake.errors import InvalidData
from lsmlake.kernels import segments
from lsmlake.kernels.chunks import joined
from lsmlake.kernels.gather import by_column, gather
from lsmlake.kernels.groups import Groups
from lsmlake.lsm.aggregate import Function
from lsmlake.lsm.merge.sequence import SequenceFields
from lsmlake.lsm.row_kinds import kinds_of, takes_back, with_kind
from lsmlake.schema.rowkind import DELETE, INSERT, NAMES, UPDATE_AFTER
from lsmlake.schema.schema import ROW_KIND


class Waiting(Enum):
    """Which added rows wait uncombined until the older row of their key is known."""

    NONE = "added rows can always be combined"
    REPEATS = "keys with several rows: which of them are late depends on the older row"
    ALL = "every row: a function cannot be applied to parts"

    @staticmethod
    def of(functions: Collection[Function], *, late_rows: bool) -> Waiting:
        """What these functions ask for. `late_rows`: a sequence orders the values, so that rows may come late."""
        if not all(function.associative_adds for function in functions):
            return Waiting.ALL
        ordered = late_rows and not all(function.commutative_adds for function in functions)
        return Waiting.REPEATS if ordered else Waiting.NONE


def validate(functions: Mapping[str, Function], rows: pa.Table, added: np.ndarray | None) -> None:
    """Raises InvalidData for an added value that the function of its column could never take. `added`: one flag a row, None = all
    rows are added."""
    mask = None if added is None or added.all() else pa.array(added)
    for name, function in functions.items():
        if name in rows.column_names:
            values = joined(rows[name])
            function.validate(values if mask is None else values.filter(mask))


def check_retracts(
    functions: Mapping[str, Function], rows: pa.Table, kinds: np.ndarray, taken: np.ndarray, key: Sequence[str], cause: str
) -> None:
    """Raises InvalidData if a row is `taken` back (one flag a row) from columns of which one has a function that cannot.

    A write must refuse such a row: every later merge of its key would fail. `cause` says why the columns are concerned.
    """
    cannot = [name for name, function in functions.items() if not function.retracts]
    if not cannot or not taken.any():
        return
    first = int(taken.argmax())
    of_key = rows.select(key).slice(first, 1).to_pylist()[0]
    raise InvalidData(
        f"a row of kind {NAMES[kinds[first]]} cannot be taken back from every column{cause}",
        where=f"columns {cannot}",
        expected="aggregate functions that can take rows back, or fields.<column>.ignore-retract = true",
        found=f"{int(taken.sum())} rows of kind -U or -D, the first with the key {of_key}",
        cure=f"set fields.{cannot[0]}.ignore-retract = true, or another function, or ignore-delete = true, which drops such rows",
    )


MakeColumn = Callable[[str], pa.Array]


class Combining(Protocol):
    """The rule as `combine` sees it."""

    sequence: SequenceFields

    def waiting(self) -> Waiting: ...

    def columns(self, rows: pa.Table, groups: Groups, retract: np.ndarray | None) -> MakeColumn:
        """A function from a column's name to its values, one a key. `groups` holds rows that count; `retract`: which of them, in
        the order of `groups.rows`, are taken back (None: none)."""
        ...

    def counting(self, rows: pa.Table, groups: Groups, kinds: np.ndarray) -> np.ndarray:
        """Which of `groups.rows` count, if their `kinds` are these and nothing older exists."""
        ...

    def late(self, rows: pa.Table, groups: Groups, retract: np.ndarray | None) -> np.ndarray | None:
        """Which of `groups.rows`, all of which count, are late by `sequence` (None: none)."""
        ...


def combine(rows: pa.Table, groups: Groups, pool: Executor | None, rule: Combining, *, complete: bool) -> pa.Table:
    """The rows of every key as one, or as they are where they wait. `complete`: no older row of these keys exists."""
    kinds = kinds_of(rows)
    kinds = None if kinds is None else kinds[groups.rows]
    retract = None if kinds is None else takes_back(kinds)
    retract = retract if retract is not None and retract.any() else None
    plain = rows if kinds is None else rows.drop_columns([ROW_KIND])
    waits = None if complete else _waiting(groups, retract, rule.waiting())
    if waits is not None:
        return _partly_combined(plain, groups, kinds, waits, pool, rule)
    if retract is None:
        return _combined(plain, groups, None, pool, rule)
    return _what_counts(plain, groups, kinds, pool, rule)


def _waiting(groups: Groups, retract: np.ndarray | None, waiting: Waiting) -> np.ndarray | None:
    """The keys whose rows wait; None if there are none."""
    count = len(groups.rows)
    keys = np.full(len(groups.starts), waiting is Waiting.ALL)
    if waiting is Waiting.REPEATS:
        keys |= segments.lengths(groups.starts, count) > 1
    if retract is not None:
        keys |= segments.anywhere(retract, groups.starts)
    return keys if keys.any() else None


def _combined(rows: pa.Table, groups: Groups, retract: np.ndarray | None, pool: Executor | None, rule: Combining) -> pa.Table:
    """One row a key, even of a key with a single row: that, too, becomes what the rule makes of it."""
    make = rule.columns(rows, groups, retract)
    return pa.table(by_column(make, rows.column_names, len(groups.rows), pool), schema=rows.schema)


def _partly_combined(
    rows: pa.Table, groups: Groups, kinds: np.ndarray | None, waits: np.ndarray, pool: Executor | None, rule: Combining
) -> pa.Table:
    places = np.repeat(waits, segments.lengths(groups.starts, len(groups.rows)))
    kinds = np.full(len(places), INSERT, np.int8) if kinds is None else kinds
    left = kinds[places]
    parts = [with_kind(gather(rows, groups.rows[places], pool), np.where(left == INSERT, UPDATE_AFTER, left))]
    owners = [segments.numbers(groups.starts, len(places))[places]]
    starts, combined = segments.kept(~places, groups.starts)
    if len(combined):
        made = _combined(rows, Groups(groups.rows[~places], starts), None, pool, rule)
        parts.append(with_kind(made, INSERT))
        owners.append(combined)
    return _in_key_order(parts, owners, pool)


def _what_counts(rows: pa.Table, groups: Groups, kinds: np.ndarray, pool: Executor | None, rule: Combining) -> pa.Table:
    """Only the rows that count combined; a -D row for a key without any."""
    keep = rule.counting(rows, groups, kinds)
    starts, alive = segments.kept(keep, groups.starts)
    retract = takes_back(kinds[keep])
    made = (
        _combined(rows, Groups(groups.rows[keep], starts), retract if retract.any() else None, pool, rule)
        if len(alive)
        else rows.slice(0, 0)
    )
    gone = np.setdiff1d(np.arange(len(groups.starts)), alive)
    if not len(gone):
        return made
    return _in_key_order([with_kind(made, INSERT), with_kind(gather(rows, groups.last[gone], pool), DELETE)], [alive, gone], pool)


def _in_key_order(parts: list[pa.Table], owners: list[np.ndarray], pool: Executor | None) -> pa.Table:
    order = np.argsort(np.concatenate(owners), kind="stable")
    return gather(pa.concat_tables(parts), order, pool)


def replayed(rule: Combining, rows: pa.Table, groups: Groups) -> np.ndarray:
    """`MergeRule.replay_order`: first the rows that do not count, then the late ones from last to first, then the others."""
    if not rule.sequence or groups.unique:
        return groups.rows
    count = len(groups.rows)
    kinds, keep = kinds_of(rows), np.ones(count, bool)
    retract = None if kinds is None else takes_back(kinds[groups.rows])
    if retract is not None and retract.any():
        keep = rule.counting(rows, groups, kinds[groups.rows])
        retract = retract[keep]
    late = np.zeros(count, bool)
    starts, _ = segments.kept(keep, groups.starts)
    if len(starts) and (found := rule.late(rows, Groups(groups.rows[keep], starts), retract)) is not None:
        late[keep] = found if retract is None else found & ~retract
    places = np.arange(count)
    order = np.lexsort(
        (np.where(late, -places, places), np.add(keep, keep & ~late, dtype=np.int8), segments.numbers(groups.starts, count))
    )
    return groups.rows[order]
