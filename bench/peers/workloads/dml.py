"""UPDATE, DELETE and MERGE of a hundredth and of a tenth of the rows, scattered over the keys or of the newest ones.

A round is an update of one column and a delete, by conditions on the key that a user would write, and a merge of a batch: a fifth
of its keys is new. After each round every value of the table is read. Rounds follow each other in one table, so what a statement
leaves behind is there for the next one; maintenance is what the peer does by itself. After every statement the number of rows and
sums must be those that NumPy computes from the same files.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bench.peers.base import Peer
from bench.peers.data import KEY, Data, Stream
from bench.peers.read import normal, totals
from bench.peers.workloads.case import Case, Sizes
from bench.peers.workloads.steps import Measures, Written, Wrong, clock, filled, note, steady
from bench.timing import Spent

ROUNDS = 4
_SHARES = (100, 10)
"""One row of so many is changed."""


def cases(sizes: Sizes) -> list[Case]:
    found = []
    for rows in sizes.rows:
        for share in _SHARES:
            for keys, of in (("scattered", "uniform"), ("recent", "recent")):
                stream = Stream(rows, rows // share, ROUNDS, of, sizes.of("lineitem"))
                found.append(Case(f"{100 // share} % of {rows:,} rows, {keys} keys", stream, {"share": share, "keys": keys}))
    return found


def run(peer: Peer, data: Data, params: Mapping[str, object]) -> Measures:
    share, scattered = int(params["share"]), params["keys"] == "scattered"
    rows = Expected(data)
    column = rows.columns[1]
    filled(peer, data, deletes=True)
    written = Written(peer.folder)
    loaded, spent = written.total, {"update": [], "delete": [], "merge": [], "read": []}
    for number, batch in enumerate(data.batches):
        known = data.facts["new_from"][number]
        for verb, condition in zip(("update", "delete"), conditions(number, known, share, scattered), strict=True):
            note(f"{verb} {number}")
            work = (
                partial(peer.update_where, column, condition.sql)
                if verb == "update"
                else partial(peer.delete_where, condition.sql)
            )
            spent[verb].append(clock(work))
            written.look()
            getattr(rows, verb)(condition)
            rows.check(peer, verb)
        note(f"merge {batch.name}")
        spent["merge"].append(clock(partial(peer.merge, batch)))
        written.look()
        rows.merge(batch)
        rows.check(peer, "merge")
        note(f"read {number}")
        spent["read"].append(clock(peer.export))
    measures: Measures = {f"{verb} s": _median(of) for verb, of in spent.items()}
    measures["CPU s"] = sum(one.cpu for verb, of in spent.items() if verb != "read" for one in steady(of))
    return measures | {"MB written": (written.total - loaded) / 1e6}


def _median(spent: list[Spent]) -> float:
    return statistics.median(one.seconds for one in steady(spent))


# -- what is changed --------------------------------------------------------------------------------------------------


class Condition:
    """Every `modulus`-th key with this remainder, or the keys from `low` to before `end`."""

    def __init__(self, sql: str, modulus: int = 0, remainder: int = 0, low: int = 0, end: int = 0) -> None:
        self.sql, self.modulus, self.remainder, self.low, self.end = sql, modulus, remainder, low, end

    def of(self, keys: np.ndarray) -> np.ndarray:
        return keys % self.modulus == self.remainder if self.modulus else (keys >= self.low) & (keys < self.end)


def conditions(number: int, known: int, share: int, scattered: bool) -> tuple[Condition, Condition]:
    """Of the update and of the delete of a round, when there are `known` keys."""
    if scattered:
        both = (number, number + ROUNDS)
        return tuple(Condition(f"{KEY} % {share} = {remainder}", share, remainder) for remainder in both)
    count = known // share
    lows = (known - count, known - 2 * count)
    return tuple(Condition(f"{KEY} >= {low} AND {KEY} < {low + count}", low=low, end=low + count) for low in lows)


class Expected:
    """The key and the summed columns of all rows."""

    def __init__(self, data: Data) -> None:
        self.schema, self.columns = data.schema, (KEY, *data.source.totals)
        self.rows = self._read(data.load)

    def _read(self, path: Path) -> np.ndarray:
        """One row of numbers for each row; decimals times their unit."""
        rows = pq.read_table(path, columns=list(self.columns))
        return np.stack([_numbers(rows[name]) for name in self.columns], axis=1)

    def update(self, condition: Condition) -> None:
        self.rows[condition.of(self.rows[:, 0]), 1] += 1

    def delete(self, condition: Condition) -> None:
        self.rows = self.rows[~condition.of(self.rows[:, 0])]

    def merge(self, path: Path) -> None:
        newer = self._read(path)
        self.rows = np.concatenate([self.rows[~np.isin(self.rows[:, 0], newer[:, 0])], newer])

    def check(self, peer: Peer, after: str) -> None:
        """Raises Wrong."""
        found = normal(peer.query(totals(self.schema, self.columns)))
        right = [[len(self.rows), *map(int, self.rows.sum(axis=0))]]
        if found != right:
            raise Wrong(f"after {after} count and sums are {found[0]}, must be {right[0]}")


def _numbers(column: pa.ChunkedArray) -> np.ndarray:
    kind = column.type
    if pa.types.is_decimal(kind):
        column = column.cast(pa.float64())  # exact in tens of digits fewer than these columns have
        return np.rint(column.fill_null(0).to_numpy() * 10**kind.scale).astype(np.int64)
    return column.fill_null(0).to_numpy().astype(np.int64)
