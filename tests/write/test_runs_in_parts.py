"""A large run of one bucket is encoded by several threads, each to a file of its own."""

from __future__ import annotations

from dataclasses import replace
from itertools import count, pairwise

import numpy as np
import pyarrow as pa
import pytest
from faults import FaultStorage
from strategies import contents, fake_env

from lsmlake.api.lake import Lake
from lsmlake.api.runtime import Runtime
from lsmlake.errors import StorageFailed
from lsmlake.storage.memory import MemoryStorage
from lsmlake.write import bucket_writer

COLUMNS = "k STRING NOT NULL, v BIGINT, w DOUBLE"
ENGINES = {
    "deduplicate": {},
    "first-row": {"merge-engine": "first-row"},
    "aggregation": {"merge-engine": "aggregation", "fields.v.aggregate-function": "sum"},
    "partial-update": {"merge-engine": "partial-update"},
    "input": {"changelog-producer": "input"},
    "lookup": {"changelog-producer": "lookup"},
}


_prefixes = count()  # of the names of files, for each lake its own


@pytest.fixture
def _parts(monkeypatch):
    """Every batch has as many parts as there are threads."""
    monkeypatch.setattr(bucket_writer, "_PART_BYTES", 1)


def lake_on(storage, workers: int) -> Lake:
    lake = Lake(replace(fake_env(storage, str(next(_prefixes))), workers=workers), Runtime())
    lake.create_database("d", if_not_exists=True)
    return lake


def batch(number: int) -> pa.Table:
    """Rows whose keys repeat often, in any order, some without values."""
    chance = np.random.default_rng(number)
    keys = [f"é{key:03d}" for key in chance.integers(0, 60, 90)]
    values = [None if value % 7 == 0 else value for value in chance.integers(0, 99, 90).tolist()]
    return pa.table({"k": keys, "v": pa.array(values, pa.int64()), "w": chance.random(90)})


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.usefixtures("_parts")
def test_runs_in_parts_hold_the_rows_of_whole_runs(engine: str):
    tables = {}
    for workers in (1, 3):
        table = lake_on(MemoryStorage(), workers).create_table("d.t", COLUMNS, primary_key=["k"], options=ENGINES[engine])
        for number in range(4):
            table.upsert(batch(number), compact=number == 2)
        tables[workers] = table
    whole, parted = tables[1], tables[3]
    key = "k"
    assert parted.scan().to_arrow().sort_by(key) == whole.scan().to_arrow().sort_by(key)
    assert not parted.verify()
    ranges = sorted(zip(*(parted.files()[name].to_pylist() for name in ("level", "min_key", "max_key")), strict=True))
    newest = [(low, high) for level, low, high in ranges if level == 0]
    assert len(newest) == 3 and all(one[1] < other[0] for one, other in pairwise(newest))
    if "changelog-producer" in ENGINES[engine]:
        feeds = [table.changes(0, 4).to_arrow() for table in (whole, parted)]
        assert sorted(map(str, feeds[0].to_pylist())) == sorted(map(str, feeds[1].to_pylist()))


@pytest.mark.usefixtures("_parts")
def test_a_part_that_cannot_be_written_leaves_no_file():
    inner = MemoryStorage()
    lake_on(inner, 1).create_table("d.t", COLUMNS, primary_key=["k"]).upsert(batch(0))
    before = contents(inner)
    rows = lake_on(inner, 1).table("d.t").scan().to_arrow()
    failed = 0
    for call in range(1, 40):
        storage = FaultStorage(inner)
        table = lake_on(storage, 3).table("d.t")
        storage.calls.clear()
        storage.fail_at(call, mode="error")
        try:
            table.upsert(batch(1), compact=False)
        except StorageFailed:
            failed += 1
            assert contents(inner) == before, storage.calls[call - 1]
        else:
            break
    assert failed > 6
    assert lake_on(inner, 1).table("d.t").scan().to_arrow() != rows


@pytest.mark.usefixtures("_parts")
def test_a_compaction_does_not_encode_the_parts_again():
    """Neither those of the first batch nor those of one that replaces all rows."""
    table = lake_on(MemoryStorage(), 3).create_table("d.t", COLUMNS, primary_key=["k"])
    keys = [f"{number:03d}" for number in range(90)]
    for value in range(3):
        table.upsert(pa.table({"k": keys, "v": [value] * 90, "w": [0.5] * 90}))
        files = table.files()
        assert files.num_rows == 3 and set(files["file_source"].to_pylist()) == {"APPEND"}
        assert len(set(files["level"].to_pylist())) == 1 and files["level"][0].as_py() > 0
        assert table.scan().to_arrow()["v"].to_pylist() == [value] * 90
    assert not table.verify()
