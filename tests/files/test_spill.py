"""Spilled runs come back in order, and a merge of all of them holds a small part of their rows, whatever their sizes."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from lsmlake.files.spill import Spill


@pytest.mark.parametrize("rows", [0, 1, 300, 30_000, 200_000])
def test_the_first_batches_of_all_runs_are_a_small_part_of_their_rows(rows: int):
    spill, keys = Spill(), range(4)
    for number in range(3):
        spill.write((part, pa.table({"k": np.arange(rows) * len(keys) + part, "file": np.full(rows, number)})) for part in keys)
    runs = [run for part in keys for run in spill.runs(part)]
    assert [count for _, count in runs] == [rows] * 3 * len(keys)
    firsts = [next(tables, None) for tables, _ in runs]
    held = sum(table.num_rows for table in firsts if table is not None)
    assert held <= max(3 * len(keys) * rows / 16, 3 * len(keys) * min(rows, 256))
    for part in keys:
        for number, (tables, _) in enumerate(spill.runs(part)):
            found = list(tables)
            if rows:
                whole = pa.concat_tables(found)
                assert whole["k"].to_numpy().tolist() == list(range(part, rows * len(keys), len(keys)))
                assert set(whole["file"].to_pylist()) == {number}
    spill.close()
