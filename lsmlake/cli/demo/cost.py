"""The costs of the table: bytes written per byte of input, and the time of a raw read compared with plain Parquet."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

from lsmlake.api.table import Table

_ROUNDS = 5


class Written(NamedTuple):
    """Bytes of all files ever written for a table, including those of compactions."""

    data: int
    vectors: int
    metadata: int

    @property
    def total(self) -> int:
        return sum(self)


def written(table: Table) -> Written:
    """The bytes on disk; until snapshots expire, only the files of compactions that met a conflict are removed."""
    entries = list(table.meta.env.storage.list(table.path))
    vectors = sum(entry.size for entry in entries if entry.path.startswith(f"{table.path}/index/"))
    data = sum(entry.size for entry in entries if entry.path.endswith(".parquet"))
    return Written(data, vectors, sum(entry.size for entry in entries) - data - vectors)


class Reads(NamedTuple):
    """Seconds that one query takes on the table and on plain Parquet files of the same rows."""

    table: float
    plain: float

    @property
    def ratio(self) -> float:
        return self.table / self.plain


def race(table: Callable[[], object], plain: Callable[[], object]) -> Reads:
    """Time both in turns: the best of five rounds, after a warm-up."""
    rounds = [(_seconds(table), _seconds(plain)) for _ in range(_ROUNDS + 1)]
    return Reads(*map(min, zip(*rounds[1:], strict=True)))


def _seconds(query: Callable[[], object]) -> float:
    began = time.perf_counter()
    query()
    return time.perf_counter() - began
