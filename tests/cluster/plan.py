"""What two drivers write side by side, by the number of each commit, and the rows that follow from their order."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import reduce
from typing import NamedTuple

COLUMNS = "id BIGINT NOT NULL, v BIGINT"
STREAM, UPSERTS = "stream", "upserts"
WRITERS = STREAM, UPSERTS
KEYS, WIDTH, STEP = 3_000, 600, 701
"""Four batches in a row have no id in common: Spark may give some files of a stream to one micro-batch, in any order."""
DELETES = 5
"""Every so many commits of `UPSERTS` delete their keys."""

Rows = Mapping[int, int]


class Batch(NamedTuple):
    """Ids first to first + width - 1, modulo KEYS; v tells the writer, the number and the id."""

    writer: str
    number: int

    @property
    def first(self) -> int:
        return (self.number * STEP + WRITERS.index(self.writer) * KEYS // 2) % KEYS

    @property
    def deletes(self) -> bool:
        return self.writer == UPSERTS and self.number % DELETES == DELETES - 1

    @property
    def base(self) -> int:
        """v = base + id."""
        return (self.number * len(WRITERS) + WRITERS.index(self.writer)) * KEYS

    def ids(self) -> list[int]:
        return [(self.first + i) % KEYS for i in range(WIDTH)]

    def frame(self, spark):
        """The batch as a DataFrame, in four partitions."""
        ids = spark.range(0, WIDTH, 1, 4).selectExpr(f"(id + {self.first}) % {KEYS} AS id")
        return ids if self.deletes else ids.selectExpr("id", f"id + {self.base} AS v")

    def applied(self, rows: Rows) -> dict[int, int]:
        ids = self.ids()
        if self.deletes:
            gone = set(ids)
            return {i: v for i, v in rows.items() if i not in gone}
        return {**rows, **{i: self.base + i for i in ids}}


def replayed(commits: Iterable[Iterable[Batch]]) -> list[Rows]:
    """The rows after each commit, with those before the first."""
    found: list[Rows] = [{}]
    for batches in commits:
        found.append(reduce(lambda rows, batch: batch.applied(rows), batches, found[-1]))
    return found


def digest(rows: Rows) -> str:
    """Short, the same in every process."""
    return f"{len(rows)} rows {hash(tuple(sorted(rows.items()))):x}"  # numbers hash alike everywhere
