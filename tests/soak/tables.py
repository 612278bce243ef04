"""The tables of the soak and their naive model: rows in dictionaries, changed by one commit after the other.

The model shares no code with the library. All tables have the same columns: `k` the key, or in an append-only table a value that
several rows may have, `p` = k % 3, `v`, `w`, and `s`, which names the operation that wrote the row.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from hashlib import blake2b
from operator import itemgetter
from typing import NamedTuple

Row = tuple
"""The values of `COLUMNS`."""
COLUMNS = ("k", "p", "v", "w", "s")
DDL = "k BIGINT NOT NULL, p INT, v BIGINT, w BIGINT, s STRING"
DATABASE = "d"
KEEP = 25
"""Snapshots that every table retains, so that the observer sees all of them."""
_PARTITIONS = 3


class Kind(NamedTuple):
    """What a table is like. `fold`: the row of a key after one more row of kind '+I' or '-D'; None for an append-only table.
    `changes`: whether UPDATE, DELETE and MERGE are allowed. `share`: how often it is chosen."""

    fold: Callable[[Row | None, Row, str], Row | None] | None
    options: Mapping[str, object]
    partitioned: bool = False
    changes: bool = False
    share: int = 1

    @property
    def keyed(self) -> bool:
        return self.fold is not None


def _newest(old: Row | None, new: Row, kind: str) -> Row | None:
    return None if kind == "-D" else new


def _latest(old: Row | None, new: Row, kind: str) -> Row | None:
    """The sequence is `w`; of equal ones the later row counts."""
    return old if old is not None and new[3] < old[3] else new


def _filled(old: Row | None, new: Row, kind: str) -> Row | None:
    return new if old is None else tuple(b if a is None else a for a, b in zip(new, old, strict=True))


def _summed(old: Row | None, new: Row, kind: str) -> Row | None:
    """`v` is a sum, which '-D' subtracts from; `w` a maximum, `p` and `s` the last values, which '-D' does not change."""
    k, p, v, w, s = old or (new[0], None, 0, None, None)
    if kind == "-D":
        return k, p, v - new[2], w, s
    return k, new[1], v + new[2], new[3] if w is None else max(w, new[3]), new[4]


def _first(old: Row | None, new: Row, kind: str) -> Row | None:
    return old or new


_RETENTION = {
    "snapshot.num-retained.min": KEEP,
    "snapshot.time-retained": "1 s",
    "commit.max-retries": 30,
    "target-file-size": "16 kb",
    "file.block-size": "4 kb",
}
_SUMS = {
    "merge-engine": "aggregation",
    "fields.v.aggregate-function": "sum",
    "fields.w.aggregate-function": "max",
    "fields.w.ignore-retract": True,
    "fields.p.aggregate-function": "last_value",
    "fields.p.ignore-retract": True,
    "fields.s.aggregate-function": "last_value",
    "fields.s.ignore-retract": True,
    "write-only": True,
    "changelog-producer": "lookup",
}
_LATE = {"bucket": 2, "sequence.field": "w", "deletion-vectors.enabled": False, "num-sorted-run.compaction-trigger": 3}
TABLES: dict[str, Kind] = {
    "rows": Kind(_newest, {"bucket": 3, "changelog-producer": "lookup", "compaction.tier-runs": 3}, changes=True, share=4),
    "late": Kind(_latest, _LATE),
    "parts": Kind(
        _filled,
        {"bucket": 1, "merge-engine": "partial-update", "partial-update.remove-record-on-delete": True},
        partitioned=True,
        changes=True,
        share=2,
    ),
    "sums": Kind(_summed, {"bucket": 2, **_SUMS}),
    "firsts": Kind(_first, {"bucket": 2, "merge-engine": "first-row"}),
    "events": Kind(None, {"compaction.min.file-num": 4}, changes=True, share=2),
    "copies": Kind(None, {"deletion-vectors.enabled": False, "compaction.min.file-num": 4}, changes=True),
}


def created(lake: object, name: str) -> object:
    kind = TABLES[name]
    key = {"primary_key": ["p", "k"] if kind.partitioned else ["k"]} if kind.keyed else {}
    partition_by = ["p"] if kind.partitioned else []
    options = {option: str(value).lower() for option, value in {**_RETENTION, **kind.options}.items()}
    return lake.create_table(f"{DATABASE}.{name}", DDL, **key, partition_by=partition_by, options=options)


def partition(k: int) -> int:
    return k % _PARTITIONS


# --- the model ---


def seen(rows: Iterable[Mapping[str, object]]) -> list[Row]:
    """Rows that a reader returned."""
    return [tuple(row[name] for name in COLUMNS) for row in rows]


def digest(rows: Iterable[Row]) -> int:
    """Of rows in any order; each counts as often as it is there."""
    return sum(map(_hash, rows)) % (1 << 64)


def _hash(row: Row) -> int:
    return int.from_bytes(blake2b(repr(tuple(row)).encode(), digest_size=8).digest(), "big")


def condition(where: Sequence) -> str:
    """`where`: a column, a modulus and a remainder."""
    column, modulus, remainder = where
    return f"{column} % {modulus} = {remainder}"


class Model:
    """The rows of a table after each of its snapshots, by `k`."""

    def __init__(self, kind: Kind) -> None:
        self.kind = kind
        self.rows: dict[int, tuple[Row, ...]] = {}
        self.history: dict[int, list[tuple[int, tuple[Row, ...]]]] = {}
        self.digests: dict[int, tuple[int, int]] = {0: (0, 0)}
        self._number = 0

    def commit(self, number: int, operation: Mapping[str, object] | None) -> tuple[int, int, int]:
        """Snapshot `number` holds an operation, or one that changes no row. Returns the rows inserted, updated, deleted."""
        assert number == self._number + 1
        count, sum_ = self.digests[self._number]
        self._number = number
        after, report = self.outcome(operation) if operation else ({}, (0, 0, 0))
        for k, rows in after.items():
            old = self.rows.get(k, ())
            if rows == old:
                continue
            count, sum_ = count + len(rows) - len(old), sum_ + digest(rows) - digest(old)
            self.history.setdefault(k, []).append((number, rows))
            if rows:
                self.rows[k] = rows
            else:
                del self.rows[k]
        self.digests[number] = count, sum_ % (1 << 64)
        return report

    def at(self, number: int, k: int) -> tuple[Row, ...]:
        """The rows of `k` at a snapshot."""
        changes = self.history.get(k, [])
        place = bisect_right(changes, number, key=itemgetter(0))
        return changes[place - 1][1] if place else ()

    def all_at(self, number: int) -> list[Row]:
        return [row for k in self.history for row in self.at(number, k)]

    def outcome(self, operation: Mapping[str, object]) -> tuple[dict[int, tuple[Row, ...]], tuple[int, int, int]]:
        """The rows of each `k` that an operation touches, and how many rows it inserts, updates and deletes."""
        return getattr(self, f"_{operation['verb']}")(**{name: operation[name] for name in _ARGUMENTS[operation["verb"]]})

    def _upsert(self, rows: list[list], kinds: list[str]) -> tuple:
        after: dict[int, tuple[Row, ...]] = {}
        for row, kind in zip(map(tuple, rows), kinds, strict=True):
            old = after.get(row[0], self.rows.get(row[0], ()))
            new = self.kind.fold(old[0] if old else None, row, kind)
            after[row[0]] = () if new is None else (new,)
        return after, (0, 0, 0)

    def _append(self, rows: list[list]) -> tuple:
        after: dict[int, tuple[Row, ...]] = {}
        for row in map(tuple, rows):
            after[row[0]] = (*after.get(row[0], self.rows.get(row[0], ())), row)
        return after, (0, 0, 0)

    def _keys(self, keys: list[int]) -> tuple:
        return dict.fromkeys(keys, ()), (0, 0, 0)

    def _overwrite(self, rows: list[list]) -> tuple:
        """Replaces the partition of the rows."""
        p = rows[0][1]
        after = {k: () for k in self.rows if partition(k) == p}
        for row in map(tuple, rows):
            old = after.get(row[0], ())
            after[row[0]] = (self.kind.fold(old[0] if old else None, row, "+I"),)
        return after, (0, 0, 0)

    def _delete(self, where: list) -> tuple:
        hit = self._where(where)
        after = {k: tuple(row for row in rows if not hit(row)) for k, rows in self.rows.items()}
        return after, (0, 0, sum(len(self.rows[k]) - len(rows) for k, rows in after.items()))

    def _update(self, where: list, add: int) -> tuple:
        hit, updated = self._where(where), 0
        after = {}
        for k, rows in self.rows.items():
            if hits := sum(map(hit, rows)):
                after[k] = tuple(_added(row, add) if hit(row) else row for row in rows)
                updated += hits
        return after, (0, updated, 0)

    def _merge(self, rows: list[list]) -> tuple:
        """Adds `v` of each row to the rows of its `k`, or inserts it."""
        after = {}
        for row in map(tuple, rows):
            old = self.rows.get(row[0], ())
            after[row[0]] = tuple(_added(one, row[2]) for one in old) or (row,)
        inserted = sum(row[0] not in self.rows for row in rows)
        return after, (inserted, sum(len(self.rows.get(row[0], ())) for row in rows), 0)

    def _where(self, where: Sequence) -> Callable[[Row], bool]:
        column, modulus, remainder = where
        place = COLUMNS.index(column)
        return lambda row: row[place] is not None and row[place] % modulus == remainder


_ARGUMENTS = {
    "upsert": ("rows", "kinds"),
    "append": ("rows",),
    "keys": ("keys",),
    "overwrite": ("rows",),
    "delete": ("where",),
    "update": ("where", "add"),
    "merge": ("rows",),
}
CHANGING = tuple(_ARGUMENTS)
"""The verbs that change rows."""
NUMBERED = ("upsert", "append", "keys", "overwrite")
"""Those of them that take a `commit_id`, so that they can be repeated."""


def _added(row: Row, number: int) -> Row:
    return (*row[:2], (row[2] or 0) + number, *row[3:])
