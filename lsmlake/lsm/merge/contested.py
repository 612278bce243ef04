"""Finds keys whose merged row depends on the order of rows that have no order, because they come from different parts of a batch.

The parts of a batch are the input partitions of Spark. Rows of one part are in order; between rows of different parts there is an
order only if a sequence or the expressions of `order_by` tell it.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from lsmlake.kernels import segments
from lsmlake.kernels.groups import Groups, gather
from lsmlake.kernels.keys import joined
from lsmlake.lsm.difference import equal_rows
from lsmlake.lsm.merge.sequence import SequenceFields
from lsmlake.schema.rowkind import kinds_of, retractions


class Decisive(Enum):
    """Which rows of a key decide its merged row."""

    ALL = "all of them"
    NEWEST = "those that no order tells to be older than another one"
    OLDEST = "those that no order tells to be newer than another one"


class Contest(NamedTuple):
    """A part of the merged row that depends on the order of rows.

    Attributes:
        columns: the columns that are taken from the rows.
        sequence: orders the rows before all other criteria. Empty: no sequence does.
        decisive: see `Decisive`.
        only_sequenced: rows without any value in the sequence do not count.
        skips_nulls: a null is never taken; for one column only.
        deletes_are_equal: two deletes are equal whatever their columns hold.
    """

    columns: tuple[str, ...]
    sequence: SequenceFields = SequenceFields()
    decisive: Decisive = Decisive.ALL
    only_sequenced: bool = False
    skips_nulls: bool = False
    deletes_are_equal: bool = False


def contested(
    rows: pa.Table, groups: Groups, contests: Sequence[Contest], ranks: np.ndarray | None, parts: np.ndarray
) -> tuple[int, int] | None:
    """Returns the numbers of two rows of a key that differ and have no order, None if there is no such pair.

    Args:
        rows: The rows, with or without `_row_kind`.
        groups: The rows of each key, oldest first by `ranks`.
        contests: The parts of the merged row that depend on the order; see `MergeRule.contests`.
        ranks: The ranks of the rows by `order_by`: a greater rank is newer, equal ranks are unordered. None: there is no
            `order_by`.
        parts: The part of the batch that each row comes from.
    """
    if groups.unique or not contests:
        return None
    pairs = Neighbours.of(groups)
    unordered = parts[pairs.before] != parts[pairs.after]
    if ranks is not None:
        unordered &= ranks[pairs.before] == ranks[pairs.after]
    pairs = pairs.of_keys(unordered)
    if not any(contest.sequence for contest in contests):  # rows with a sequence usually differ
        pairs = pairs.of_keys(~_alike(rows, pairs, contests))
    if not len(pairs.before):
        return None
    numbers, keys = pairs.rows()
    given = np.zeros(len(numbers), np.int64) if ranks is None else ranks[numbers]
    few = RankedRows(rows, numbers, keys, given, parts[numbers])
    return next((pair for contest in contests if (pair := _pair(few, contest)) is not None), None)


class Neighbours(NamedTuple):
    """The pairs of neighbouring rows of each key, by their numbers; pairs of a key follow each other in the order of its rows.

    Attributes:
        before: the first row of each pair.
        after: the second one, which is the first one of the next pair of the key.
        begins: flags the first pair of each key.
    """

    before: np.ndarray
    after: np.ndarray
    begins: np.ndarray

    @staticmethod
    def of(groups: Groups) -> Neighbours:
        first = np.zeros(len(groups.rows), bool)
        first[groups.starts] = True
        places = np.flatnonzero(~first)
        return Neighbours(groups.rows[places - 1], groups.rows[places], first[places - 1])

    def of_keys(self, chosen: np.ndarray) -> Neighbours:
        """All pairs of the keys that have a chosen pair. `chosen`: a flag for each pair."""
        if chosen.all():
            return self
        keys = self._keys()
        wanted = np.zeros(keys[-1] + 1, bool)
        wanted[keys[chosen]] = True
        kept = wanted[keys]
        return Neighbours(*(array[kept] for array in self))

    def rows(self) -> tuple[np.ndarray, np.ndarray]:
        """The rows of all pairs, key by key in their order, and the number of the key of each."""
        keys, places = self._keys(), np.flatnonzero(self.begins)
        return np.insert(self.after, places, self.before[places]), np.insert(keys, places, keys[places])

    def _keys(self) -> np.ndarray:
        return np.cumsum(self.begins) - 1


def _alike(rows: pa.Table, pairs: Neighbours, contests: Sequence[Contest]) -> np.ndarray:
    """Flags the pairs whose rows are equal in all values that the contests take. The order of equal rows changes nothing."""
    taken = dict.fromkeys(name for contest in contests for name in contest.columns)
    same, kinds = equal_rows(rows.select(list(taken)), pairs.before, pairs.after), kinds_of(rows)
    return same if kinds is None else same & (kinds[pairs.before] == kinds[pairs.after])


class RankedRows(NamedTuple):
    """The numbers of some rows of a table, ascending by the number of their key, with the ranks and parts of these rows."""

    table: pa.Table
    numbers: np.ndarray
    keys: np.ndarray
    ranks: np.ndarray
    parts: np.ndarray

    def columns(self, names: Sequence[str]) -> pa.Table:
        return gather(self.table.select(list(names)), self.numbers)


def _several(parts: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """Flags the segments with rows of several parts."""
    if not len(starts):
        return np.zeros(0, bool)
    return np.minimum.reduceat(parts, starts) != np.maximum.reduceat(parts, starts)


def _pair(rows: RankedRows, contest: Contest) -> tuple[int, int] | None:
    """The numbers of two of the rows that this contest cannot order."""
    sequenced = rows.columns(contest.sequence.columns) if contest.sequence else None
    counted = contest.sequence.any_valid(sequenced) if contest.only_sequenced else np.ones(len(rows.keys), bool)
    valid = segments.valid(joined(rows.columns(contest.columns)[0])) if contest.skips_nulls else None
    taken = counted if valid is None else counted & valid
    if contest.decisive is Decisive.ALL:
        # a row that is late by its sequence changes the order of those before it
        tiers = [] if contest.sequence else [rows.ranks]
        return _differing(rows, np.flatnonzero(taken), tiers, contest, of_key=bool(contest.sequence))
    tiers = [contest.sequence.ranks(sequenced, every=True), rows.ranks] if contest.sequence else [rows.ranks]
    of_tier = _decisive(rows.keys, np.flatnonzero(counted if contest.sequence else taken), tiers, contest.decisive)
    if contest.sequence and not taken[of_tier].all():  # a null in the newest rows: an older row decides, by arrival
        undecided = np.isin(rows.keys, rows.keys[of_tier[~taken[of_tier]]])
        if pair := _differing(rows, np.flatnonzero(taken & undecided), [], contest, of_key=True):
            return pair
        of_tier = of_tier[~undecided[of_tier]]
    return _differing(rows, of_tier, tiers, contest, of_key=False)


def _decisive(keys: np.ndarray, places: np.ndarray, tiers: Sequence[np.ndarray], decisive: Decisive) -> np.ndarray:
    """Returns the places whose tier is the greatest, or the least, of their key."""
    order = places[np.lexsort((*(tier[places] for tier in reversed(tiers)), keys[places]))]
    if not len(order):
        return order
    of_key = np.flatnonzero(_changes([keys[order]]))
    numbers = np.cumsum(_changes([keys[order], *(tier[order] for tier in tiers)]))
    wanted = numbers[of_key if decisive is Decisive.OLDEST else np.append(of_key[1:], len(order)) - 1]
    return order[numbers == np.repeat(wanted, segments.lengths(of_key, len(order)))]


def _differing(
    rows: RankedRows, places: np.ndarray, tiers: Sequence[np.ndarray], contest: Contest, *, of_key: bool
) -> tuple[int, int] | None:
    """Two places of one key and tier whose rows differ, if the rows of the tier come from several parts; with `of_key`, if the
    rows of the key do."""
    order = places[np.lexsort((*(tier[places] for tier in reversed(tiers)), rows.keys[places]))]
    starts = np.flatnonzero(_changes([rows.keys[order], *(tier[order] for tier in tiers)]))
    followers = segments.lengths(starts, len(order)) - 1
    leaders, others = np.repeat(order[starts], followers), np.delete(order, starts)
    if not of_key:
        counted = np.repeat(_several(rows.parts[order], starts), followers)
        leaders, others = leaders[counted], others[counted]
    bad = ~_equal(rows, leaders, others, contest)
    if not bad.any():
        return None
    place = int(np.argmax(bad))
    return int(rows.numbers[leaders[place]]), int(rows.numbers[others[place]])


def _changes(arrays: Sequence[np.ndarray]) -> np.ndarray:
    """Flags the first place and those at which one of the arrays differs from the place before."""
    changes = np.ones(len(arrays[0]), bool)
    if len(changes):
        changes[1:] = np.logical_or.reduce([array[1:] != array[:-1] for array in arrays])
    return changes


def _equal(rows: RankedRows, one: np.ndarray, other: np.ndarray, contest: Contest) -> np.ndarray:
    one, other = rows.numbers[one], rows.numbers[other]
    same = equal_rows(rows.table.select(list(contest.columns)), one, other)
    kinds = kinds_of(rows.table)
    if kinds is None:
        return same
    alike = kinds[one] == kinds[other]
    return alike & (same | retractions(kinds[one])) if contest.deletes_are_equal else alike & same
