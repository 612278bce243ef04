"""The check that no merged row depends on the order of tasks: an upsert by Spark with it, and with `order_by=ANY`, without it.

1. A load into an empty table by tasks, each fourth row of the data once more, from another input partition.
2. The same load without a repeated key.
3. A batch with each fourth row once more that the driver writes itself.

A third side is again without the check: its ratio to the second one is what the machine makes of equal work.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from bench import checksum, tables
from bench.result import Measure, Report
from bench.rows import KEY, orders
from bench.session import session
from bench.timing import Spent, compared, take_turns
from lsmlake.write.order import ANY, AnyOrder

_FILES = 4
_SIDES = {"checked": None, "any": ANY, "again": ANY}
_TARGET = 1.03


def run(folder: Path, rows: int = 1_000_000, batch: int = 80_000, rounds: int = 9) -> Report:
    """`rows`: keys of a load. `batch`: keys of the batch of the driver."""
    with session(folder) as spark:
        loaded, small = (_Source(folder / name, count, spark) for name, count in (("load", rows), ("batch", batch)))
        cases = {
            "load, a quarter repeated": (loaded.repeated, 0),
            "load, no key repeated": (loaded.once, 0),
            "batch of the driver": (small.repeated, batch),
        }
        found = {name: _case(folder / "table", *case, rounds, spark) for name, case in cases.items()}
    return Report(
        "row_order",
        f"{rounds} rounds in turns after two that do not count, best of them",
        {"load": f"{rows:,} keys x 12 columns in 4 buckets, by tasks", "batch": f"{batch:,} keys"},
        "; ".join(f"{name}: {answer}" for name, (_, answer) in found.items()),
        tuple(measure for name, (measures, _) in found.items() for measure in _named(name, measures)),
    )


class _Source:
    """New orders in Parquet files. Each call makes a DataFrame that Spark has not planned yet, as a user's is."""

    def __init__(self, folder: Path, rows: int, spark: SparkSession) -> None:
        folder.mkdir(parents=True)
        made = orders(np.random.default_rng(1).permutation(rows))
        step = -(-rows // _FILES)
        for number in range(_FILES):
            pq.write_table(made.slice(number * step, step), folder / f"{number}.parquet")
        self.folder, self.spark = folder, spark

    def once(self) -> DataFrame:
        return self.spark.read.parquet(str(self.folder))

    def repeated(self) -> DataFrame:
        """A quarter of the rows once more."""
        return self.once().union(self.spark.read.parquet(str(self.folder / "0.parquet")))


def _case(
    folder: Path, data: Callable[[], DataFrame], before: int, rounds: int, spark: SparkSession
) -> tuple[dict[str, Spent], str]:
    """`before`: so many other orders are in the table already. The driver writes only what follows a small commit, and estimates
    the bytes of a row by it."""

    def side(name: str, order_by: AnyOrder | None, _: int) -> Callable[[], object]:
        table = tables.create(tables.fresh(folder / name), {"bucket": 4}, spark)
        if before:
            table.upsert(orders(before + np.arange(before)), compact=False)
        return partial(table.upsert, data(), compact=False, order_by=order_by)

    spent = take_turns({name: partial(side, name, order_by) for name, order_by in _SIDES.items()}, rounds, warm=2)
    answers = {name: checksum.of_table(tables.reopen(folder / name).scan(columns=[KEY, "price"]).to_arrow()) for name in _SIDES}
    return spent, checksum.same(**answers)


def _named(name: str, spent: Mapping[str, Spent]) -> tuple[Measure, ...]:
    return (
        *compared(f"{name}: checked / any order", spent["checked"], spent["any"], _TARGET),
        *compared(f"{name}: any order / itself", spent["again"], spent["any"], None),
    )
