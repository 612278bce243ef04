"""Upserts of which a tenth are deletes, with retained deletes and without them.

Both tables order rows by a sequence and get the same batches, with compaction in the commit. A round is a run of upserts, so
that merges of the files of retained deletes are in it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa

import lsmlake
from bench.checksum import of_table, same
from bench.result import Report
from bench.rows import KEY, orders
from bench.timing import compared, take_turns
from lsmlake.api.table import Table

_LIMITS = {"retained": "2 d", "forgotten": "0"}
_SEQUENCE, _KIND = "seq", "kind"


def run(folder: Path, rows: int = 1_000_000, batch: int = 100_000, upserts: int = 6, rounds: int = 4) -> Report:
    """`rows`: so many keys. `batch`: rows of an upsert. `upserts`: those of a round."""
    lake = lsmlake.connect(folder)
    lake.create_database("bench")
    tables = {name: _table(lake, name, limit) for name, limit in _LIMITS.items()}
    for start in range(0, rows, 1_000_000):
        filled = orders(np.arange(start, min(rows, start + 1_000_000)))
        for table in tables.values():
            table.upsert(filled.append_column(_SEQUENCE, pa.array(np.zeros(filled.num_rows, np.int64))))
    batches = {number: [_batch(number * upserts + i, rows, batch) for i in range(upserts)] for number in range(rounds + 1)}

    def writing(table: Table, number: int) -> Callable[[], object]:
        return partial(_write, table, batches[number])

    spent = take_turns({name: partial(writing, table) for name, table in tables.items()}, rounds)
    return Report(
        "retained_deletes",
        f"{rounds} rounds of {upserts} upserts in turns after one that does not count, best of them",
        {"rows": f"{rows:,} x 13 columns in 4 buckets", "batch": f"{batch:,} of any keys, a tenth of them deletes"},
        same(**{name: of_table(table.scan().to_arrow()) for name, table in tables.items()}),
        compared("upserts, retained / forgotten deletes", spent["retained"], spent["forgotten"], 1.05),
    )


def _table(lake: lsmlake.Lake, name: str, limit: str) -> Table:
    columns = orders(np.arange(1)).append_column(_SEQUENCE, pa.array([0])).schema
    options = {"bucket": 4, "sequence.field": _SEQUENCE, "sequence.delete-retained": limit}
    return lake.create_table(f"bench.{name}", columns, primary_key=[KEY], options=options)


def _batch(number: int, rows: int, size: int) -> pa.Table:
    random = np.random.default_rng(number)
    made = orders(random.choice(rows, size, replace=False), number + 1)
    made = made.append_column(_SEQUENCE, pa.array(np.arange(size) + (number + 1) * size))
    return made.append_column(_KIND, pa.array(np.where(random.random(size) < 0.1, "-D", "+I")))


def _write(table: Table, batches: Sequence[pa.Table]) -> None:
    for rows in batches:
        table.upsert(rows, row_kind=_KIND)
