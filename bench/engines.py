"""Merging five sorted runs in memory with each merge engine, compared with `deduplicate` over the same runs.

Twelve columns: a key, a sequence, and ten numbers, a third of them null. Every engine merges all columns; DuckDB checks each
answer with the same rows.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa

from bench.checksum import of_table, same
from bench.result import Report
from bench.timing import compared, take_turns
from lsmlake.lsm.merge.rule import merge_runs
from lsmlake.lsm.merge.rules import rule_of
from lsmlake.schema.schema import Schema

RUNS = 5
_VALUES = [f"v{n}" for n in range(10)]
_COLUMNS = pa.schema(
    [pa.field("k", pa.int64(), nullable=False), ("seq", pa.int64())]
    + [(name, pa.int64() if n % 2 else pa.float64()) for n, name in enumerate(_VALUES)]
)
_SUMS = {f"fields.{name}.aggregate-function": ("sum", "max", "min")[n % 3] for n, name in enumerate(_VALUES)}
_SQL = {"sum": "sum({0})", "max": "max({0})", "min": "min({0})"}
_NEWEST = "arg_max({0}, run) filter ({0} is not null)"
ENGINES: dict[str, tuple[dict[str, str], Callable[[int, str], str]]] = {
    "deduplicate": ({}, lambda n, name: f"arg_max_null({name}, run)"),
    "first-row": ({"merge-engine": "first-row"}, lambda n, name: f"arg_min_null({name}, run)"),
    "partial-update": ({"merge-engine": "partial-update"}, lambda n, name: _NEWEST.format(name)),
    "partial-update, a sequence group": (
        {"merge-engine": "partial-update", "fields.seq.sequence-group": ",".join(_VALUES)},
        lambda n, name: f"arg_max_null({name}, seq * 10 + run)",
    ),
    "aggregation": (
        {"merge-engine": "aggregation"} | _SUMS,
        lambda n, name: _SQL[_SUMS[f"fields.{name}.aggregate-function"]].format(name),
    ),
    "deduplicate by sequence": ({"sequence.field": "seq"}, lambda n, name: f"arg_max_null({name}, seq * 10 + run)"),
}
_TARGETS = {"partial-update": 3.0, "partial-update, a sequence group": 3.0, "aggregation": 3.0}


def run(folder: Path, rows: int = 5_000_000, rounds: int = 4) -> Report:
    """`rows`: of all runs together."""
    runs = [_run(np.random.default_rng(n), rows // RUNS, rows // 2) for n in range(RUNS)]
    schemas = {name: Schema.create(_COLUMNS, ["k"], [], options, None, 0, name, name) for name, (options, _) in ENGINES.items()}
    answers: dict[str, pa.Table] = {}

    def side(name: str, pool: ThreadPoolExecutor, _: int) -> Callable[[], object]:
        engine = rule_of(schemas[name])
        return lambda: answers.__setitem__(name, merge_runs(runs, ["k"], engine, pool))

    with ThreadPoolExecutor(2) as pool:
        best = take_turns({name: partial(side, name, pool) for name in ENGINES}, rounds)
    answers_checked = [f"{name} {_checked(answers[name], runs, name)}" for name in ENGINES]
    keys = answers["deduplicate"].num_rows
    return Report(
        "engines",
        f"{rounds} rounds in turns after one that does not count, best of them; two threads make columns",
        {"rows": f"{rows:,} x {len(_COLUMNS)} columns in {RUNS} runs, {keys:,} keys"},
        "; ".join(answers_checked),
        tuple(
            measure
            for name in ENGINES
            if name != "deduplicate"
            for measure in compared(f"{name} / deduplicate", best[name], best["deduplicate"], _TARGETS.get(name))
        ),
    )


def _run(chance: np.random.Generator, rows: int, keys: int) -> pa.Table:
    """A sorted run of `rows` rows. Values are integers, so that sums do not depend on the order."""
    drawn = np.sort(chance.choice(keys, rows, replace=False))
    columns = [pa.array(drawn), pa.array(chance.integers(0, 1_000_000, rows))]
    for name in _VALUES:
        values, nulls = chance.integers(0, 1_000_000, rows), chance.random(rows) < 1 / 3
        columns.append(pa.array(values, _COLUMNS.field(name).type, mask=nulls))
    return pa.table(columns, names=_COLUMNS.names)


def _checked(found: pa.Table, runs: list[pa.Table], name: str) -> str:
    """The checksum of `found`, if DuckDB computes the same."""
    parts = [table.append_column("run", pa.array(np.full(table.num_rows, n))) for n, table in enumerate(runs)]
    rows = pa.concat_tables(parts)
    make, sequence = ENGINES[name][1], {"first-row": "arg_min_null(seq, run)", "partial-update": _NEWEST.format("seq")}
    seq = sequence.get(name, "max(seq)" if "sequence" in name else "arg_max_null(seq, run)")
    values = ", ".join(f"{make(n, value)} as {value}" for n, value in enumerate(_VALUES))
    connection = duckdb.connect()
    connection.register("rows", rows)
    expected = connection.sql(f"select k, {seq} as seq, {values} from rows group by k order by k").to_arrow_table()
    return same(ours=of_table(found), duckdb=of_table(expected.cast(found.schema)))
