"""Upsert of a batch with each changelog producer, compared with the same upsert without a changelog; and reading the changes.

Every round updates rows of one bucket, embedded, with compaction and changelog in the commit. The changelog of all rounds is
checked: the newest +I or +U of each key is the row that was written.

The best round of each side is one without a larger compaction. So a run of upserts is measured as well, as a whole, with the
compactions that fall due.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import lsmlake
from bench.checksum import of_table, same
from bench.result import Measure, Report
from bench.rows import KEY, SCHEMA, orders
from bench.timing import Spent, clock, compared, take_turns
from lsmlake.api.table import Table

PRODUCERS = ("none", "input", "lookup")
READS = ("changelog", "diff")
_MOST = 3.0  # times the CPU of upserts without a changelog


def run(
    folder: Path, rows: int = 2_000_000, batch: int = 100_000, rounds: int = 5, run_of: int = 16, keys: str = "uniform"
) -> Report:
    """`rows`: rows in the bucket. `batch`: rows updated per round. `run_of`: upserts that are measured as a whole. `keys`:
    "uniform", or "recent" for those inserted last."""
    lake = lsmlake.connect(folder)
    lake.create_database("bench")
    tables = {name: _filled(lake, name, rows) for name in PRODUCERS}
    draw = {"uniform": _drawn, "recent": _inserted_last}[keys]
    updates = [orders(draw(number, rows, batch), number + 1) for number in range(rounds + 1)]

    def writing(table: Table, number: int) -> Callable[[], object]:
        return lambda: table.upsert(updates[number])

    spent = take_turns({name: partial(writing, table) for name, table in tables.items()}, rounds)
    last = tables["lookup"].snapshots().num_rows
    found: dict[str, pa.Table] = {}

    def reading(mode: str, _: int) -> Callable[[], object]:
        return lambda: found.__setitem__(mode, tables["lookup"].changes(last - 1, last, mode=mode).to_arrow())

    read = take_turns({mode: partial(reading, mode) for mode in READS}, rounds)
    further = {number: orders(draw(number, rows, batch), number + 1) for number in range(rounds + 1, rounds + 1 + run_of)}
    whole = {name: _whole(table, further.values()) for name, table in tables.items()}
    assert of_table(found["changelog"]) == of_table(found["diff"]), "the changelog of one compaction equals the difference"
    answers = {name: of_table(_newest(tables[name])) for name in ("input", "lookup")}
    answers["rows"] = of_table(tables["none"].scan(where=f"{KEY} >= 0").to_arrow())
    measures = [
        one
        for what, of in (("upsert", spent), (f"{run_of} upserts with their compactions", whole))
        for name in ("input", "lookup")
        for one in _beside(f"{what}, {name} / none", of[name], of["none"])
    ]
    return Report(
        "changelog",
        f"{rounds} rounds in turns after one that does not count, best of them",
        {"rows": f"{rows:,} x 12 columns in one bucket", "batch": f"{batch:,} updates, {keys}"},
        same(**answers),
        (*measures, *compared("changes of a commit, changelog / diff", read["changelog"], read["diff"], 1.0)),
    )


def _filled(lake: lsmlake.Lake, name: str, rows: int) -> Table:
    table = lake.create_table(f"bench.{name}", SCHEMA, primary_key=[KEY], options={"changelog-producer": name})
    for start in range(0, rows, 1_000_000):
        table.upsert(orders(np.arange(start, min(rows, start + 1_000_000))))
    return table


def _beside(what: str, ours: Spent, none: Spent) -> tuple[Measure, Measure]:
    return Measure(what, ours.seconds, none.seconds), Measure(f"{what}: CPU", ours.cpu, none.cpu, target=_MOST)


def _whole(table: Table, updates: Iterable[pa.Table]) -> Spent:
    """What these upserts take, one after another."""
    parts = [clock(partial(table.upsert, update)) for update in updates]
    return Spent(*map(sum, zip(*parts, strict=True)))


def _drawn(number: int, rows: int, batch: int) -> np.ndarray:
    return np.random.default_rng(number).choice(rows, batch, replace=False)


def _inserted_last(number: int, rows: int, batch: int) -> np.ndarray:
    return np.arange(rows - batch, rows)


def _newest(table: Table) -> pa.Table:
    """The rows that result from the changelog: the last of each key."""
    emitted = table.changes(0, mode="changelog").to_arrow()
    added = emitted.filter(pc.is_in(emitted["_row_kind"], value_set=pa.array(["+I", "+U"]))).drop_columns(["_row_kind"])
    keys = added[KEY].to_numpy()
    order = np.argsort(keys, kind="stable")  # the changes of a key are in order
    last = np.append(keys[order][1:] != keys[order][:-1], True)
    return added.take(pa.array(order[last]))
