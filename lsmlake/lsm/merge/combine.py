"""The common part of `partial-update` and `aggregation`, which combine all rows of a key into one, column by column.

1. Rows are applied one at a time, in order of arrival (`fold`). Rows up to and including the last one that removes the key
   do not contribute. Under partial-update, a -U or -D before the first added row does not contribute either; under aggregation it
   does. A key without a contributing row is removed.
2. While older rows of a key may exist, rows are combined only if that cannot change the final result. Otherwise the run stores
   them uncombined, several rows of a key in order of arrival: always -U and -D rows, and added rows as the rule requires
   (`Uncombined`). Uncombined added rows get the kind +U.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from enum import Enum
from typing import Protocol

import numpy as np
import pyarrow as pa

from lsmlake.beside import Threads
from lsmlake.errors import InvalidData
from lsmlake.kernels import segments
from lsmlake.kernels.groups import Groups, by_column, gather
from lsmlake.kernels.keys import joined
from lsmlake.lsm.aggregate import Function
from lsmlake.lsm.merge.sequence import SequenceFields
from lsmlake.schema.rowkind import DELETE, INSERT, NAMES, UPDATE_AFTER, kinds_of, retractions, with_kind
from lsmlake.schema.schema import ROW_KIND


class Uncombined(Enum):
    """Which added rows are stored uncombined until the older row of their key is known."""

    NONE = "none: added rows can always be combined"
    REPEATS = "keys with several rows: the older row decides which of them are late"
    ALL = "all rows: a function is not associative"

    @staticmethod
    def of(functions: Collection[Function], *, sequenced: bool) -> Uncombined:
        """Derives the value from the functions. `sequenced`: a sequence orders the values, so rows may be late."""
        if not all(function.associative_adds for function in functions):
            return Uncombined.ALL
        ordered = sequenced and not all(function.commutative_adds for function in functions)
        return Uncombined.REPEATS if ordered else Uncombined.NONE


def validate(functions: Mapping[str, Function], rows: pa.Table, added: np.ndarray | None) -> None:
    """Raises InvalidData for an added value that the function of its column does not accept. `added`: one flag per row, None =
    all rows are added."""
    mask = None if added is None or added.all() else pa.array(added)
    for name, function in functions.items():
        if name in rows.column_names:
            values = joined(rows[name])
            function.validate(values if mask is None else values.filter(mask))


def check_retracts(
    functions: Mapping[str, Function], rows: pa.Table, kinds: np.ndarray, retract: np.ndarray, key: Sequence[str], scope: str
) -> None:
    """Raises InvalidData if a row is to be retracted (one flag per row) and a column has a function that cannot retract.

    A write must refuse such a row, because each later merge of its key would fail. `scope` completes "column" in the message.
    """
    cannot = [name for name, function in functions.items() if not function.retracts]
    if not cannot or not retract.any():
        return
    first = int(retract.argmax())
    first_key = rows.select(key).slice(first, 1).to_pylist()[0]
    raise InvalidData(
        f"a row of kind {NAMES[kinds[first]]} cannot be retracted from every column{scope}",
        where=f"columns {cannot}",
        expected="aggregate functions that support retraction, or fields.<column>.ignore-retract = true",
        found=f"{int(retract.sum())} rows of kind -U or -D, the first with the key {first_key}",
        cure=f"set fields.{cannot[0]}.ignore-retract = true, or another function, or ignore-delete = true, which drops such rows",
    )


MakeColumn = Callable[[str], pa.Array]


class Combining(Protocol):
    """What `combine` needs of a rule. Flags are per row, in the order of `groups.rows`."""

    sequence: SequenceFields

    def uncombined_adds(self) -> Uncombined: ...

    def columns(self, rows: pa.Table, groups: Groups, retract: np.ndarray | None) -> MakeColumn:
        """Returns a function from a column name to its values, one per key. All of `groups.rows` contribute; `retract` flags
        those that are retracted (None: none)."""
        ...

    def contributing(self, rows: pa.Table, groups: Groups, kinds: np.ndarray) -> np.ndarray:
        """Flags the rows that contribute to the result, given their `kinds`, if no older rows exist."""
        ...

    def late(self, rows: pa.Table, groups: Groups, retract: np.ndarray | None) -> np.ndarray | None:
        """Flags the rows that are late by `sequence` (None: none). All of `groups.rows` contribute."""
        ...


def combine(rows: pa.Table, groups: Groups, pool: Threads | None, rule: Combining, *, complete: bool) -> pa.Table:
    """Combines the rows of each key into one, or stores them uncombined. `complete`: no older row of these keys exists."""
    kinds = kinds_of(rows)
    kinds = None if kinds is None else kinds[groups.rows]
    retract = None if kinds is None else retractions(kinds)
    retract = retract if retract is not None and retract.any() else None
    plain = rows if kinds is None else rows.drop_columns([ROW_KIND])
    uncombined = None if complete else _uncombined_keys(groups, retract, rule.uncombined_adds())
    if uncombined is not None:
        return _partly_combined(plain, groups, kinds, uncombined, pool, rule)
    if retract is None:
        return _combined(plain, groups, None, pool, rule)
    return _combined_contributing(plain, groups, kinds, pool, rule)


def _uncombined_keys(groups: Groups, retract: np.ndarray | None, adds: Uncombined) -> np.ndarray | None:
    """Flags the keys whose rows are stored uncombined; None if there are none."""
    count = len(groups.rows)
    keys = np.full(len(groups.starts), adds is Uncombined.ALL)
    if adds is Uncombined.REPEATS:
        keys |= segments.lengths(groups.starts, count) > 1
    if retract is not None:
        keys |= segments.anywhere(retract, groups.starts)
    return keys if keys.any() else None


def _combined(rows: pa.Table, groups: Groups, retract: np.ndarray | None, pool: Threads | None, rule: Combining) -> pa.Table:
    """Returns one row per key. The rule is applied to keys with a single row as well."""
    make = rule.columns(rows, groups, retract)
    return pa.table(by_column(make, rows.column_names, len(groups.rows), pool), schema=rows.schema)


def _partly_combined(
    rows: pa.Table, groups: Groups, kinds: np.ndarray | None, uncombined: np.ndarray, pool: Threads | None, rule: Combining
) -> pa.Table:
    places = np.repeat(uncombined, segments.lengths(groups.starts, len(groups.rows)))
    kinds = np.full(len(places), INSERT, np.int8) if kinds is None else kinds
    kept = kinds[places]
    parts = [with_kind(gather(rows, groups.rows[places], pool), np.where(kept == INSERT, UPDATE_AFTER, kept))]
    owners = [segments.numbers(groups.starts, len(places))[places]]
    starts, combined = segments.kept(~places, groups.starts)
    if len(combined):
        made = _combined(rows, Groups(groups.rows[~places], starts), None, pool, rule)
        parts.append(with_kind(made, INSERT))
        owners.append(combined)
    return _in_key_order(parts, owners, pool)


def _combined_contributing(rows: pa.Table, groups: Groups, kinds: np.ndarray, pool: Threads | None, rule: Combining) -> pa.Table:
    """Combines the contributing rows; a key without any gets a -D row."""
    keep = rule.contributing(rows, groups, kinds)
    starts, live = segments.kept(keep, groups.starts)
    retract = retractions(kinds[keep])
    combined = (
        _combined(rows, Groups(groups.rows[keep], starts), retract if retract.any() else None, pool, rule)
        if len(live)
        else rows.slice(0, 0)
    )
    removed = np.setdiff1d(np.arange(len(groups.starts)), live)
    if not len(removed):
        return combined
    deletes = with_kind(gather(rows, groups.last[removed], pool), DELETE)
    return _in_key_order([with_kind(combined, INSERT), deletes], [live, removed], pool)


def _in_key_order(parts: list[pa.Table], owners: list[np.ndarray], pool: Threads | None) -> pa.Table:
    order = np.argsort(np.concatenate(owners), kind="stable")
    return gather(pa.concat_tables(parts), order, pool)


def replayed(rule: Combining, rows: pa.Table, groups: Groups) -> np.ndarray:
    """`MergeRule.replay_order`: rows that do not contribute, then late rows from last to first, then the others."""
    if not rule.sequence or groups.unique:
        return groups.rows
    count = len(groups.rows)
    kinds, keep = kinds_of(rows), np.ones(count, bool)
    retract = None if kinds is None else retractions(kinds[groups.rows])
    if retract is not None and retract.any():
        keep = rule.contributing(rows, groups, kinds[groups.rows])
        retract = retract[keep]
    late = np.zeros(count, bool)
    starts, _ = segments.kept(keep, groups.starts)
    if len(starts) and (late_rows := rule.late(rows, Groups(groups.rows[keep], starts), retract)) is not None:
        late[keep] = late_rows if retract is None else late_rows & ~retract
    places = np.arange(count)
    order = np.lexsort(
        (np.where(late, -places, places), np.add(keep, keep & ~late, dtype=np.int8), segments.numbers(groups.starts, count))
    )
    return groups.rows[order]
