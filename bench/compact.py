"""Compaction of five overlapping runs in one bucket, compared with reading the same files and writing as many rows with PyArrow.

Both sides write the same codec, encodings, page index and checksums. lsmlake also merges, drops superseded rows, collects
statistics, makes files durable and commits; PyArrow gets the number of rows to keep and compares no keys.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bench import checksum, tables
from bench.result import Report
from bench.rows import KEY, SCHEMA, orders
from bench.timing import compared, take_turns

RUNS = 5


def run(folder: Path, rows: int = 5_000_000, rounds: int = 4) -> Report:
    """`rows`: total rows of all runs; a third of them is superseded."""
    ids = [np.sort(np.random.default_rng(n).choice(rows, rows // RUNS, replace=False)) for n in range(RUNS)]
    table = tables.create(folder / "source", {"bucket": 1})
    for version, own in enumerate(ids):
        table.upsert(orders(own, version), compact=False)
    inputs, expected = tables.paths(folder / "source", table), _newest(ids)

    def ours(_: int) -> Callable[[], object]:
        return partial(tables.clone(folder / "source", tables.fresh(folder / "ours")).compact, full=True)

    def theirs(_: int) -> Callable[[], object]:
        return partial(rewrite, inputs, expected.num_rows, folder / "theirs.parquet")

    best = take_turns({"ours": ours, "theirs": theirs}, rounds)
    compacted = tables.reopen(folder / "ours")
    answer = checksum.same(ours=checksum.of_table(compacted.scan().to_arrow()), expected=checksum.of_table(expected))
    assert pq.read_metadata(folder / "theirs.parquet").num_rows == expected.num_rows
    return Report(
        "compact",
        f"{rounds} rounds in turns after one that does not count, best of them",
        {
            "rows": f"{rows:,} x 12 columns in {RUNS} runs of one bucket, {expected.num_rows:,} of them stay",
            "bytes": f"{sum(Path(path).stat().st_size for path in inputs):,} in Parquet",
            "rate": f"{rows / best['ours'].seconds:,.0f} rows/s in against {rows / best['theirs'].seconds:,.0f}",
        },
        answer,
        compared("full compaction / read and write by PyArrow", best["ours"], best["theirs"], 2.0),
    )


def _newest(ids: list[np.ndarray]) -> pa.Table:
    """The expected result: the last version of every id."""
    last = np.full(max(int(own[-1]) for own in ids) + 1, -1)
    for version, own in enumerate(ids):
        last[own] = version
    return pa.concat_tables([orders(np.flatnonzero(last == version), version) for version in range(len(ids))])


def rewrite(inputs: list[str], rows: int, target: Path) -> None:
    """The first `rows` rows of the files as one file, encoded as they are."""
    group = pq.read_metadata(inputs[0]).row_group(0)
    table = pa.concat_tables([pq.read_table(path) for path in inputs]).slice(0, rows)
    pq.write_table(
        table,
        target,
        row_group_size=group.num_rows,
        compression="zstd",
        compression_level=1,
        use_dictionary=[name for n, name in enumerate(SCHEMA.names) if group.column(n).has_dictionary_page],
        column_encoding={KEY: "DELTA_BINARY_PACKED"},
        write_page_index=True,
        write_page_checksum=True,
        store_schema=False,
    )
