"""Estimates whether a view table is refreshed by the changes of its sources, or by the query over all rows. Pure.

All costs are in values of about 6 ns, the CPU time in which one value of a row group is decoded. They were measured with tables
of one and ten million rows.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

_FEW_VALUES = 1 << 16
"""Changes that cost no more are always read."""
_STEPS = 4_000_000  # the statements of a refresh by changes, beyond those of a whole refresh
_CHANGE = 100  # applies a change
_QUERIED = 1.6  # reads and aggregates a value in a query
_FOUND = 2  # finds the group of a row among more than `_FEW_GROUPS`
_FEW_GROUPS = 1_000
_UPSERTED, _REPLACED = 30, 13  # writes a value of the view table


class ReadingCost(NamedTuple):
    """The work of reading changes. `changes`: about how many there are; `old`: about how many rows of older files are decoded to
    find the rows that changed; `columns`: the number of columns read."""

    changes: int
    old: int
    columns: int

    @property
    def values(self) -> int:
        """The values that are decoded."""
        return self.columns * (self.changes + self.old)


class WholeCost(NamedTuple):
    """The work of a whole refresh. `rows`: of all sources; `values`: those that the query reads; `stored`, `columns`: the rows
    and columns of the view table; `extremes`: whether the query has a minimum or maximum."""

    rows: int
    values: int
    stored: int
    columns: int
    extremes: bool


def changes_cost_more(readings: Collection[ReadingCost], whole: WholeCost) -> bool:
    """Whether reading and applying the changes costs more than a whole refresh."""
    changes = sum(one.changes for one in readings)
    applied = sum(one.values for one in readings) + _CHANGE * changes
    if applied <= _FEW_VALUES:
        return False
    queried = _QUERIED * whole.values + (_FOUND * whole.rows if whole.stored > _FEW_GROUPS else 0)
    written = whole.columns * min(whole.stored, changes)
    went = changes // 2 if any(one.old for one in readings) else 0
    if whole.extremes and went * whole.stored > whole.rows:  # a group probably lost its extreme, and is computed anew
        applied += queried
    return _STEPS + applied + _UPSERTED * written > queried + _REPLACED * whole.columns * whole.stored
