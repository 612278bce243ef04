"""The versions of rows over time, from changes: one row per version, with the time from which and up to which it was valid. Pure.

Each change of a key is an event at a place of an axis: a time, or a value of the column that orders the changes. A row is valid
from its event up to the next event of its key; a delete begins no version.

- `versions_in_order`: changes come in their order. Events of a key follow each other: each has a greater place than the one
  before it. A change of no tracked column alters the version that is valid, and is no event.
- `versions_by_place`: a change may be late, so the known versions of its key become events again: one where a version begins, and
  one where it ends. Of several events at one place the last that came counts. If that is a delete, the row before it is kept as a
  version without duration. A delete where no row is valid, or where a late delete has ended the row before it, is kept so, too:
  a row that comes later may lie between the two.

The result does not depend on how changes are divided into calls.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lsmlake.beside import Threads
from lsmlake.kernels import segments
from lsmlake.kernels.groups import gather
from lsmlake.kernels.keys import comparable, joined
from lsmlake.lsm.difference import equal_rows
from lsmlake.options.history_options import VALID_FROM, VALID_TO
from lsmlake.storage.concurrency import side_by_side

_LEAST = np.iinfo(np.int64).min // 2
_THREADS = 2
_OPEN = np.iinfo(np.int64).max
"""The end of a version that is valid still."""


class RowChanges(NamedTuple):
    """Changes of rows, those of one key in the order of `rows`.

    Attributes:
        rows: the rows, those of deletes included.
        places: their places on the axis, not null.
        deletes: flags the deletes.
    """

    rows: pa.Table
    places: pa.Array
    deletes: np.ndarray

    def take(self, rows: np.ndarray) -> RowChanges:
        """Some of the changes, in the order of their numbers."""
        return RowChanges(gather(self.rows, rows), self.places.take(pa.array(rows)), self.deletes[rows])


def versions_in_order(known: pa.Table, changes: RowChanges, key: Sequence[str], tracked: Sequence[str]) -> pa.Table:
    """The versions that changes in their order make or alter. A version replaces the known one of its key and `VALID_FROM`.

    Args:
        known: all known versions of the keys of the changes, with `VALID_FROM` and `VALID_TO`.
        changes: the changes; the columns of `known` without these two. Their places are microseconds.
        key: the key columns.
        tracked: the columns of which a change begins a version.
    """
    rows, keys = _together(known, changes, key)
    bounds = [np.asarray(pc.fill_null(joined(known[name]).cast(pa.int64()), _OPEN)) for name in (VALID_FROM, VALID_TO)]
    is_open = np.flatnonzero(bounds[1] == _OPEN)
    last = np.full(keys.max(initial=-1) + 1, _LEAST)  # the last place of each key that is taken
    np.maximum.at(last, keys[: known.num_rows], np.where(bounds[1] == _OPEN, bounds[0], bounds[1]))
    places = np.concatenate([bounds[0], np.asarray(changes.places.cast(pa.int64()))])
    deletes = np.concatenate([np.zeros(known.num_rows, bool), changes.deletes])

    event = np.concatenate([is_open, np.arange(known.num_rows, rows.num_rows)])  # the row of each event
    event = event[np.argsort(keys[event], kind="stable")]
    after = np.append(False, keys[event][1:] == keys[event][:-1])[: len(event)]
    after &= np.append(False, ~deletes[event][:-1])[: len(event)]  # the row before it is valid up to it
    same = np.append(False, equal_rows(rows.select(list(tracked)), event[:-1], event[1:]))[: len(event)]
    gone = deletes[event]
    counts = np.where(gone, after, ~(after & same))
    run = np.cumsum(counts) - 1
    boundary = np.flatnonzero(counts)
    last_of_run = np.full(len(boundary), -1)
    within = ~gone | counts
    last_of_run[run[within]] = event[within]  # the last one is assigned last

    first = event[boundary]
    at = _following(keys[first], places[first], first < known.num_rows, last)
    follows = np.append(keys[first][1:] == keys[first][:-1], False)[: len(first)]
    ends = np.where(follows, np.append(at[1:], 0)[: len(at)], _OPEN)
    made = _Versions(keys[first], last_of_run, at, ends).take(~deletes[first])
    known_end = np.concatenate([bounds[1], np.full(changes.rows.num_rows, -1)])
    made = made.take((made.row >= known.num_rows) | (made.end != known_end[made.row]))
    return _as_rows(rows, made, lambda numbers: pa.array(np.where(numbers == _OPEN, 0, numbers)).cast(changes.places.type))


def _following(keys: np.ndarray, places: np.ndarray, fixed: np.ndarray, last: np.ndarray) -> np.ndarray:
    """The places of events that follow each other: those given or, where these are not greater than all before of the key, the
    next free ones. `fixed`: flags events that keep their places; they are the first of their keys. `last`: of each key."""
    begins = segments.of_sorted(keys)
    sizes = segments.lengths(begins, len(keys))
    number = np.arange(len(keys)) - np.repeat(begins, sizes)
    least = last[keys] + 1 - np.repeat(fixed[begins], sizes)
    shifted = np.where(fixed, places, np.maximum(places - number, least))
    return _running_maximum(shifted, begins) + number


def _running_maximum(values: np.ndarray, begins: np.ndarray) -> np.ndarray:
    """The maximum of each segment up to each value."""
    distinct, ranks = np.unique(values, return_inverse=True)
    group = np.repeat(np.arange(len(begins)), segments.lengths(begins, len(values))) * (len(distinct) + 1)
    return distinct[np.maximum.accumulate(ranks + group) - group]


# -- late changes -----------------------------------------------------------------------------------------------------


def versions_by_place(known: pa.Table, changes: RowChanges, key: Sequence[str]) -> pa.Table:
    """The versions that changes at any places make or alter. Arguments and result as for `versions_in_order`."""
    old, new = known.num_rows, changes.rows.num_rows
    axis = joined(pa.chunked_array([*known[VALID_FROM].chunks, *known[VALID_TO].drop_null().chunks, changes.places]))
    ranks = partial(np.unique, return_index=True, return_inverse=True)
    (rows, keys), (_, first, places) = side_by_side(
        [lambda: _together(known, changes, key), lambda: ranks(comparable([pa.table([axis], ["place"])])[0])], _THREADS
    )
    ends = np.flatnonzero(np.asarray(known[VALID_TO].is_valid()))
    starts_at, ends_at, new_at = np.split(places, [old, old + len(ends)])
    empty = ends_at == starts_at[ends]
    # at one place: the end of a version, the start of one, the end of one without duration, then new changes as they came
    kinds = [(ends[~empty], ends_at[~empty], True), (np.arange(old), starts_at, False), (ends[empty], ends_at[empty], True)]
    events = _Events(
        np.concatenate([*(keys[row] for row, _, _ in kinds), keys[old:]]),
        np.concatenate([*(at for _, at, _ in kinds), new_at]),
        np.concatenate([*(row for row, _, _ in kinds), old + np.arange(new)]),
        np.concatenate([*(np.full(len(row), is_end) for row, _, is_end in kinds), changes.deletes]),
    )
    made = events.versions()
    known_start, known_end = np.append(starts_at, np.full(new, -1)), np.full(rows.num_rows, _OPEN)
    known_end[ends] = ends_at
    made = made.take((made.start != known_start[made.row]) | (made.end != known_end[made.row]))
    return _as_rows(rows, made, lambda numbers: axis.take(pa.array(first[np.where(numbers == _OPEN, 0, numbers)])))


class _Events(NamedTuple):
    """Events, those at one place in their order: the number of the key, the place, the row, and whether it is an end."""

    key: np.ndarray
    place: np.ndarray
    row: np.ndarray
    ends: np.ndarray

    def versions(self) -> _Versions:
        """The versions that the events give."""
        by = np.argsort(self.key * (self.place.max(initial=0) + 1) + self.place, kind="stable")
        key, place, row, ends = (each[by] for each in (self.key, self.place, self.row, self.ends))
        starts = np.flatnonzero(np.append(True, (key[1:] != key[:-1]) | (place[1:] != place[:-1]))[: len(key)])
        last, last_row = segments.last_where(None, starts, len(key)), segments.last_where(~ends, starts, len(key))
        is_end, keys, places = ends[last], key[starts], place[starts]
        in_key = keys[1:] == keys[:-1]
        end = np.where(np.append(in_key, False)[: len(keys)], np.append(places[1:], 0)[: len(keys)], _OPEN)
        valid_before = np.append(False, ~is_end[:-1] & in_key)[: len(keys)]
        marks = is_end & (last_row < 0) & ~valid_before  # a delete where no row is valid, or is valid any more
        made = _Versions(keys, row[np.where(last_row >= 0, last_row, last)], places, np.where(is_end, places, end))
        return made.take((last_row >= 0) | marks)


# -- both -------------------------------------------------------------------------------------------------------------


class _Versions(NamedTuple):
    """Versions by key and start: the row of each, where it begins and where it ends."""

    key: np.ndarray
    row: np.ndarray
    start: np.ndarray
    end: np.ndarray

    def take(self, flags: np.ndarray) -> _Versions:
        """The flagged versions."""
        return _Versions(*(each[flags] for each in self))


def _together(known: pa.Table, changes: RowChanges, key: Sequence[str]) -> tuple[pa.Table, np.ndarray]:
    """The known rows and those of the changes, and the number of the key of each."""
    rows = pa.concat_tables([known.select(changes.rows.column_names), changes.rows])
    return rows, np.unique(comparable([rows.select(list(key))])[0], return_inverse=True)[1]


def _as_rows(rows: pa.Table, made: _Versions, places: Callable[[np.ndarray], pa.Array]) -> pa.Table:
    """Versions as rows. `places`: turns numbers into places."""
    with Threads(_THREADS) as pool:
        table = gather(rows, made.row, pool)
    starts, ends = places(made.start), places(made.end)
    ends = pc.if_else(pa.array(made.end == _OPEN), pa.scalar(None, ends.type), ends)
    return table.append_column(VALID_FROM, starts).append_column(VALID_TO, ends)
