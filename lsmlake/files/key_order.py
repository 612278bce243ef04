"""Brings rows of any order into key order. They may not fit into memory: sorted runs are spilled to local disk and merged."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from lsmlake.files.spill import Spill
from lsmlake.kernels.keys import comparable
from lsmlake.lsm.merge.merge_windows import RunReader, merge_windows


def in_key_order(tables: Iterable[pa.Table], key: Sequence[str], buffer_bytes: int, window_bytes: int) -> Iterator[pa.Table]:
    """Yields the rows in ascending order of their keys, those of equal keys in the order given.

    Args:
        tables: The rows, all with the same columns.
        key: The key columns; they have no nulls and no NaN.
        buffer_bytes: The rows that are sorted in memory; more are spilled in runs of this size.
        window_bytes: The rows of all runs that a merge holds.
    """

    def ordered(parts: Sequence[pa.Table]) -> pa.Table:
        rows = pa.concat_tables(parts)
        return rows.take(pa.array(np.argsort(comparable([rows.select(key)])[0], kind="stable")))

    held: list[pa.Table] = []
    spill = None
    try:
        for table in tables:
            held.append(table)
            if sum(each.get_total_buffer_size() for each in held) >= buffer_bytes:
                spill = spill or Spill()
                spill.write([(None, ordered(held))])
                held = []
        if held and spill is None:
            yield ordered(held)
        if spill is None:
            return
        if held:
            spill.write([(None, ordered(held))])
        runs = [RunReader(stretch, rows) for stretch, rows in spill.runs(None)]
        yield from merge_windows(runs, key, ordered, window_bytes)
    finally:
        if spill is not None:
            spill.close()
