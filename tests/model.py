"""What the core must come to, said naively: loops over rows and dictionaries."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
from strategies import Condition, Shape, multiset, seen

from lsmlake.format.files import Bucket
from lsmlake.kernels.bucket_hash import bucket_of

Row = tuple


@dataclass
class TableModel:
    """A table as a dictionary, with a copy for every snapshot.

    `rows`: primary key -> row. `raw`: what has left level 0, by bucket. A compaction takes all of level 0, so that is the bucket
    as of the last commit after which nothing waited at its level 0, or as of the snapshot a late compaction began from.
    """

    shape: Shape
    buckets: int
    bucket_key: tuple[str, ...]
    schema: pa.Schema
    by_stamp: bool = False
    rows: dict[tuple, Row] = field(default_factory=dict)
    raw: dict[Bucket, dict[tuple, Row]] = field(default_factory=dict)
    history: dict[int, dict[tuple, Row]] = field(default_factory=dict)

    def apply(self, rows: Iterable[Row], kinds: Iterable[str]) -> None:
        """Row by row: the last of a key counts; `by_stamp`, unless its stamp is smaller than that of the row there."""
        for given, kind in zip(rows, kinds, strict=True):
            row = self.shape.stored(given)
            key = self.shape.key_of(row)
            old = self.rows.get(key)
            if self.by_stamp and kind != "erase" and old is not None and row[-1] < old[-1]:
                continue
            if kind in ("-U", "-D", "erase"):
                self.rows.pop(key, None)
            else:
                self.rows[key] = row

    def committed(self, snapshot: int, waiting: Mapping[Bucket, bool], late: Mapping[Bucket, int]) -> None:
        """A commit made `snapshot`. `waiting`: the buckets there are, and whether level 0 of each holds a file; `late`: the
        buckets that were compacted as of an older snapshot, and which."""
        self.history[snapshot] = dict(self.rows)
        now = self._by_bucket(self.rows)
        for bucket in {*waiting, *now, *self.raw}:
            if not waiting.get(bucket, False):
                self.raw[bucket] = now.get(bucket, {})
        for bucket, base in late.items():
            self.raw[bucket] = self._by_bucket(self.history[base]).get(bucket, {})

    def _by_bucket(self, rows: Mapping[tuple, Row]) -> dict[Bucket, dict[tuple, Row]]:
        found: dict[Bucket, dict[tuple, Row]] = {}
        for (key, row), bucket in zip(rows.items(), self._buckets_of(rows.values()), strict=True):
            found.setdefault(bucket, {})[key] = row
        return found

    def _buckets_of(self, rows: Iterable[Row]) -> list[Bucket]:
        rows, names = list(rows), self.bucket_key
        key = self.shape.table([tuple(row[self.shape.names.index(n)] for n in names) for row in rows], self.schema, names)
        numbers = bucket_of(key.columns, self.buckets) if rows else []
        part = self.shape.names.index("p") if self.shape.partition else None
        return [Bucket(() if part is None else (row[part],), int(number)) for row, number in zip(rows, numbers, strict=True)]

    def raw_rows(self) -> list[Row]:
        return [row for rows in self.raw.values() for row in rows.values()]


def expected(
    rows: Iterable[Row], names: Sequence[str], where: Condition | None = None, columns: Sequence[str] | None = None
) -> list[tuple]:
    """The rows for which `where` is True, projected, as `multiset`."""
    picked = [names.index(name) for name in columns or names]
    kept = (row for row in rows if where is None or where.holds(dict(zip(names, row, strict=True))) is True)
    return multiset([tuple(seen(row[i]) for i in picked) for row in kept])
