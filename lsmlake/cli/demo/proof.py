"""The proof at the end of the demo: the table has the rows of the source; and the costs. Costs are bytes written per byte of
input, and the time of a raw read compared with plain Parquet.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lsmlake.api.table import Table
from lsmlake.cli.demo.events import PRIMARY_KEY
from lsmlake.cli.demo.screen import Screen
from lsmlake.errors import Corrupt

_COUNT = "_count"
_SHOWN = 10  # rows of a difference
_CURE = "please report this"


def prove(what: str, actual: pa.Table, expected: pa.Table, screen: Screen) -> None:
    """Show the difference and raise Corrupt unless both hold the same rows, in any order."""
    if types := _fields(actual) ^ _fields(expected):
        raise Corrupt("names or types of columns differ", where=what, found=", ".join(map(" ".join, sorted(types))), cure=_CURE)
    rows = difference(actual, expected)
    if not rows.num_rows:
        screen.labelled("equal", f"{expected.num_rows:,} rows, {expected.num_columns} columns: {what}", "bold green")
        return
    _show(what, rows, screen)
    missing, surplus = (pc.sum(part).as_py() or 0 for part in _missing_and_surplus(rows[_COUNT]))
    raise Corrupt(
        "the table does not hold the rows that were written", where=what, expected=f"{expected.num_rows:,} rows",
        found=f"{actual.num_rows:,} rows, {missing:,} missing and {surplus:,} surplus", cure=_CURE)  # fmt: skip


def difference(actual: pa.Table, expected: pa.Table) -> pa.Table:
    """The distinct rows whose number differs, by primary key; `_count` is their number in `expected` minus that in `actual`."""
    names = expected.column_names
    sides = [_counted(table.select(names), count) for table, count in ((expected, 1), (actual, -1))]
    sums = pa.concat_tables(sides).group_by(names).aggregate([(_COUNT, "sum")]).rename_columns([*names, _COUNT])
    order = [name for name in (*PRIMARY_KEY, _COUNT) if name in sums.column_names]
    return sums.filter(pc.not_equal(sums[_COUNT], 0)).sort_by([(name, "ascending") for name in order])


def last_events(events: pa.Table) -> pa.Table:
    """The last of the ordered `events` of each flight: the expected table after these events."""
    numbered = events.select(PRIMARY_KEY).append_column("at", pa.array(np.arange(events.num_rows)))
    return events.take(numbered.group_by(list(PRIMARY_KEY)).aggregate([("at", "max")])["at_max"])


def _fields(table: pa.Table) -> set[tuple[str, str]]:
    return {(field.name, str(field.type)) for field in table.schema}


def _counted(table: pa.Table, count: int) -> pa.Table:
    """`table` with a column `_count`; its schema keeps only names and types of columns."""
    return pa.table([*table.columns, pa.repeat(count, table.num_rows)], [*table.column_names, _COUNT])


def _missing_and_surplus(counts: pa.ChunkedArray) -> tuple[pa.ChunkedArray, pa.ChunkedArray]:
    return pc.max_element_wise(counts, 0), pc.negate(pc.min_element_wise(counts, 0))


def _show(what: str, rows: pa.Table, screen: Screen) -> None:
    screen.labelled("DIFFERENT", what, "bold red")
    for row in rows.slice(0, _SHOWN).to_pylist():
        side = "missing" if row.pop(_COUNT) > 0 else "surplus"
        screen.labelled(side, ", ".join(f"{name} {value}" for name, value in row.items()), "red")
    if rows.num_rows > _SHOWN:
        screen.labelled("", f"and {rows.num_rows - _SHOWN:,} more")


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
