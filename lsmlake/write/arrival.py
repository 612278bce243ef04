"""The order in which the rows of a batch arrived: by the values of `order_by`, then by their places in the input."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum

import numpy as np
import pyarrow as pa

from lsmlake.errors import InvalidData, Wording
from lsmlake.kernels.groups import Groups
from lsmlake.lsm.merge.contested import contested
from lsmlake.lsm.merge.rule import MergeRule
from lsmlake.lsm.merge.sequence import SequenceFields
from lsmlake.schema.rowkind import NAMES, kinds_of
from lsmlake.schema.schema import RESERVED, ROW_KIND
from lsmlake.schema.values import row_text

PART_BITS = 33
"""The lower bits of a place number the rows of a part of the input, the others its parts: as `monotonically_increasing_id`."""


class Ordered(Enum):
    """Which rows of a batch are in the order of their places."""

    ALL = "all rows"
    PARTS = "the rows of a part of the input"
    NONE = "none"
    QUERY = "none: a query gives them"


_PLACE, _BY = f"{RESERVED}place", f"{RESERVED}by"
_WHY = {
    Ordered.PARTS: "come from different input partitions",
    Ordered.NONE: "have passed a shuffle",
    Ordered.QUERY: "come from a query that gives its rows in any order",
}
_CURE = Wording(
    "pass order_by=<a column or expression that grows from change to change>, such as order_by='updated_at'; or set the table "
    "option sequence.field; or pass order_by=lsmlake.ANY if any of the rows will do",
    command="order the rows: set the table option sequence.field",
    sql="let the query leave one row of each key, such as by max_by and GROUP BY; or set the table option sequence.field; or, "
    "without Spark, end the query with ORDER BY",
)


@dataclass(frozen=True)
class Arrival:
    """The order of the rows of one table.

    Attributes:
        places: of each row in the input, int64.
        by: the values of `order_by`, one column for each expression, a greater value is newer; None: there are none.
        ordered: the rows that are in the order of their places; the others have no order but that of `by`.
    """

    places: np.ndarray
    by: pa.Table | None = None
    ordered: Ordered = Ordered.ALL

    @staticmethod
    def joined(parts: Sequence[Arrival]) -> Arrival:
        """The arrival of all rows of some tables."""
        by = None if parts[0].by is None else pa.concat_tables([part.by for part in parts])
        return Arrival(np.concatenate([part.places for part in parts]), by, parts[0].ordered)

    def take(self, rows: np.ndarray) -> Arrival:
        """The arrival of some of the rows."""
        return replace(self, places=self.places[rows], by=None if self.by is None else self.by.take(pa.array(rows)))

    def ranks(self) -> np.ndarray | None:
        """A number for each row; of two rows the greater one arrived later. None: they arrived in the order of the rows."""
        if self.by is None:
            return None if (self.places[1:] > self.places[:-1]).all() else self.places
        found = np.empty(len(self.places), np.int64)
        found[np.lexsort((self.places, self._by_ranks()))] = np.arange(len(self.places))
        return found

    def _by_ranks(self) -> np.ndarray | None:
        return None if self.by is None else SequenceFields(tuple(self.by.column_names)).ranks(self.by, every=True)

    def check(self, rows: pa.Table, groups: Groups, rule: MergeRule, key: Sequence[str]) -> None:
        """Raises InvalidData if the merged row of a key depends on the order of rows that have none. `rows`: those of this
        arrival; `groups`: the rows of each key."""
        if self.ordered is Ordered.ALL or groups.unique:
            return
        parts = self.places >> PART_BITS if self.ordered is Ordered.PARTS else self.places
        if parts.min() == parts.max():
            return
        columns = [name for name in rows.column_names if name not in key and name != ROW_KIND]
        pair = contested(rows, groups, rule.contests(columns), self._by_ranks(), parts)
        if pair is None:
            return
        kinds, plain = kinds_of(rows), rows.select([*key, *columns])
        shown = [f"{'' if kinds is None else NAMES[kinds[row]] + ' '}{row_text(plain.slice(row, 1))}" for row in pair]
        raise InvalidData(
            "rows of one key differ, and nothing tells which of them is newer: they " + _WHY[self.ordered],
            where=f"key {row_text(rows.select(list(key)).slice(pair[0], 1))}",
            expected="an order of the rows of a key",
            found=" and ".join(shown),
            cure=_CURE,
        )

    def columns(self) -> dict[str, pa.Array | pa.ChunkedArray]:
        """The arrival as columns of a spill."""
        by = {} if self.by is None else {f"{_BY}{i}": column for i, column in enumerate(self.by.columns)}
        return {_PLACE: pa.array(self.places), **by}

    @staticmethod
    def taken_from(rows: pa.Table, ordered: Ordered) -> tuple[pa.Table, Arrival]:
        """The rows of a spill without the columns of their arrival, and this."""
        names = [name for name in rows.column_names if name.startswith(_BY)]
        arrival = Arrival(np.asarray(rows[_PLACE]), rows.select(names) if names else None, ordered)
        return rows.drop_columns([_PLACE, *names]), arrival
