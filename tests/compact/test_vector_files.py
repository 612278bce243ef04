"""Vector files are merged: a bucket's live vectors lie in few Puffin files, and older snapshots still read theirs."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pytest
from faults import FaultStorage
from naive import unreferenced
from strategies import new_lake

from lsmlake.api.table import Table
from lsmlake.errors import InvalidOption
from lsmlake.storage.memory import MemoryStorage
from lsmlake.storage.storage import Storage, read_bytes

ROWS, BATCH, LIMIT = 40_000, 4, 4


def made(storage: Storage, **options: object) -> Table:
    """A table of many files; a commit touches one or two of them."""
    given = {
        "target-file-size": "2 kb",
        "file.block-size": "1 kb",
        "compaction.tier-runs": 60,
        "compaction.reclaim-dead-percent": 100,
        "deletion-vectors.merge-min-count": LIMIT,
        "snapshot.expire.on-commit": False,
        **options,
    }
    table = new_lake(storage).create_table("d.t", "k BIGINT, v BIGINT", primary_key=["k"], options=given)
    table.upsert(batch(0, ROWS, 0))
    return table


def batch(start: int, count: int, stamp: int) -> pa.Table:
    values = np.random.default_rng(start + 7 * stamp).integers(0, 1 << 60, count)
    return pa.table({"k": np.arange(start, start + count), "v": values})


def updated(table: Table, commits: int) -> list[tuple[int, int]]:
    """The number of vectors and of vector files of the bucket, after each commit."""
    chance, found = np.random.default_rng(5), []
    for stamp in range(1, commits + 1):
        table.upsert(batch(int(chance.integers(0, ROWS - BATCH)), BATCH, stamp))
        (state,) = table.states().values()
        found.append((len(state.vectors), len({ref.puffin for ref in state.vectors.values()})))
    return found


def test_a_bucket_needs_few_vector_files_however_many_commits_it_had():
    storage = MemoryStorage()
    table = made(storage)
    found = updated(table, 40)
    vectors, files = map(max, zip(*found, strict=True))
    assert vectors > 3 * LIMIT
    assert files < LIMIT
    unmerged = updated(made(MemoryStorage(), **{"deletion-vectors.merge-min-count": 1_000}), 40)
    assert max(files for _, files in unmerged) > 3 * LIMIT
    assert table.verify() == []
    assert unreferenced(table) == []


def test_older_snapshots_read_their_own_vectors():
    """And no file holds two vectors of one data file."""
    storage = MemoryStorage()
    table = made(storage)
    rows = {row["k"]: row["v"] for row in batch(0, ROWS, 0).to_pylist()}
    chance, history = np.random.default_rng(5), {}
    for stamp in range(1, 25):
        given = batch(int(chance.integers(0, ROWS - BATCH)), BATCH, stamp)
        table.upsert(given)
        rows |= {row["k"]: row["v"] for row in given.to_pylist()}
        history[1 + stamp] = dict(rows)
    for number, expected in history.items():
        assert {row["k"]: row["v"] for row in table.scan(snapshot=number).to_arrow().to_pylist()} == expected
    for entry in storage.list(f"{table.path}/index"):
        data = read_bytes(storage, entry.path)
        length = int.from_bytes(data[-12:-8], "little")
        names = [blob["properties"]["referenced-data-file"] for blob in json.loads(data[-12 - length : -12])["blobs"]]
        assert len(set(names)) == len(names)
    table.expire_snapshots(retain_max=1)
    assert unreferenced(table) == []
    assert table.verify() == []
    assert len(list(storage.list(f"{table.path}/index"))) < LIMIT


def test_vectors_that_are_merged_are_read_with_one_call_per_file():
    storage = FaultStorage(MemoryStorage())
    table = made(storage)
    updated(table, 30)
    (state,) = table.states().values()
    storage.calls = []
    together = table.meta.vectors.read_together(state.vectors, state.files)
    calls = [call for call in storage.calls if call[0] == "read"]
    assert together == table.meta.vectors.read(state.vectors, state.files)
    assert len(together) == len(state.vectors) > len(calls) == len({ref.puffin for ref in state.vectors.values()})


def test_a_change_of_place_is_no_change_of_rows():
    table = made(MemoryStorage(), **{"changelog-producer": "lookup"})
    updated(table, 20)
    last = table.meta.snapshots.latest_id()
    for number in range(3, last + 1):
        found = table.changes(number - 1, number).to_arrow()
        assert found.num_rows == table.changes(number - 1, number, mode="changelog").count() == 2 * BATCH


def test_the_option_needs_vectors():
    options = {"deletion-vectors.enabled": False, "deletion-vectors.merge-min-count": 5}
    with pytest.raises(InvalidOption, match=r"has no effect unless deletion-vectors\.enabled = true"):
        new_lake().create_table("d.t", "k INT", primary_key=["k"], options=options)
