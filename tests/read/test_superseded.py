"""Fresh reads that scan level-0 files as they are."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import lsmlake
from lsmlake.api.lake import Lake
from lsmlake.api.table import Table
from lsmlake.files.bucket_files import BucketFiles
from lsmlake.read import superseded
from lsmlake.read.native import source_of
from lsmlake.read.plan import RAW, plan

COLUMNS = "id BIGINT NOT NULL, v INT, s STRING"


def table_with_level0(folder: Path, options: dict[str, object], seed: int) -> tuple[Lake, Table, dict[int, tuple[int, str]]]:
    """A table with a compacted run and several commits at level 0, with deletes; and its rows by key."""
    lake = lsmlake.connect(folder)
    lake.create_database("s")
    table = lake.create_table("s.t", COLUMNS, primary_key=["id"], options={"bucket": 2, **options})
    chance, model = np.random.default_rng(seed), {}
    for number in range(6):
        ids = chance.choice(3000, 2000 if number == 0 else 300, replace=False)
        kinds = np.where(chance.random(len(ids)) < (0.3 if number % 2 else 0), "-D", "+I")
        rows = {"id": ids, "v": pa.array(ids % 7 + number, pa.int32()), "s": [f"{number}"] * len(ids), "kind": kinds}
        table.upsert(pa.table(rows), row_kind="kind", compact=number == 0)
        for key, kind in zip(ids.tolist(), kinds.tolist(), strict=True):
            model[key] = (key % 7 + number, f"{number}")
            if kind == "-D":
                del model[key]
    return lake, table, model


def rows_of(found: pa.Table) -> dict[int, tuple[int, str]]:
    assert found.num_rows == len(set(found["id"].to_pylist()))
    return {row["id"]: (row["v"], row["s"]) for row in found.select(["id", "v", "s"]).to_pylist()}


@pytest.mark.parametrize("options", [{}, {"merge-engine": "first-row"}, {"sequence.field": "v"}])
def test_all_ways_to_read_give_the_same_rows(tmp_path: Path, options: dict[str, object]):
    lake, table, model = _other(tmp_path, options) if options else table_with_level0(tmp_path, options, seed=1)
    where = {key: row for key, row in model.items() if row[0] > 6}
    for _ in range(2):
        assert rows_of(table.to_arrow()) == model
        assert rows_of(table.scan(where="v > 6").to_arrow()) == where
        assert rows_of(table.scan().to_duckdb().filter("v > 6").to_arrow_table()) == where
        assert rows_of(table.scan(where="v > 6").to_polars().collect().to_arrow()) == where
        assert rows_of(lake.sql("SELECT * FROM s.t").to_arrow()) == model
        assert table.count() == len(model) and table.scan(where="v > 6").count() == len(where)
    table.compact(full=True)
    assert rows_of(table.to_arrow()) == model


def _other(folder: Path, options: dict[str, object]) -> tuple[Lake, Table, dict[int, tuple[int, str]]]:
    """A table whose level 0 must be merged, and its rows."""
    lake = lsmlake.connect(folder)
    lake.create_database("s")
    table = lake.create_table("s.t", COLUMNS, primary_key=["id"], options={"bucket": 2, **options})
    chance = np.random.default_rng(5)
    for number in range(4):
        ids = chance.choice(500, 200, replace=False)
        values = pa.array(chance.integers(0, 12, 200), pa.int32())
        table.upsert(pa.table({"id": ids, "v": values, "s": [f"{number}"] * 200}), compact=number == 0)
    return lake, table, rows_of(table.to_arrow())


def test_level0_is_scanned_where_a_row_replaces_the_other(tmp_path: Path):
    _, table, _ = table_with_level0(tmp_path / "one", {}, seed=3)
    source = source_of(table.scan().plan())
    assert not source.level0 and not source.streamed.splits
    assert {file.of.level for file in source.direct} >= {0}
    _, other, _ = _other(tmp_path / "other", {"merge-engine": "first-row"})
    assert source_of(other.scan().plan()).level0


def test_the_next_read_of_a_version_looks_no_key_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    _, table, model = table_with_level0(tmp_path, {}, seed=4)
    assert rows_of(table.to_arrow()) == model
    monkeypatch.setattr(BucketFiles, "find", None)
    assert rows_of(table.scan(columns=["id", "s", "v"]).to_arrow()) == model
    monkeypatch.undo()
    table.upsert(pa.table({"id": [1, 2], "v": pa.array([1, 2], pa.int32()), "s": ["a", "b"]}), compact=False)
    assert rows_of(table.to_arrow()) == model | {1: (1, "a"), 2: (2, "b")}


def test_tables_opened_by_one_lake_look_the_keys_of_a_version_up_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    lake, _, model = table_with_level0(tmp_path, {}, seed=6)
    assert rows_of(lake.table("s.t").to_arrow()) == model
    monkeypatch.setattr(BucketFiles, "find", None)
    assert rows_of(lake.table("s.t").to_arrow()) == model
    assert rows_of(lake.table("s.t").scan().to_duckdb().to_arrow_table()) == model
    assert rows_of(lake.sql("SELECT * FROM s.t").to_arrow()) == model
    monkeypatch.undo()
    new = pa.table({"id": [1, 2], "v": pa.array([1, 2], pa.int32()), "s": ["a", "b"]})
    lsmlake.connect(tmp_path).table("s.t").upsert(new, compact=False)
    assert rows_of(lake.table("s.t").to_arrow()) == model | {1: (1, "a"), 2: (2, "b")}


def _read_files(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the level-0 files whose keys are read from now on."""
    read, real = [], superseded._keys
    monkeypatch.setattr(superseded, "_keys", lambda files, file: (read.append(file.name), real(files, file))[1])
    return read


@pytest.mark.parametrize("seed", range(4))
def test_keys_are_read_only_where_files_can_share_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int):
    lake = lsmlake.connect(tmp_path)
    lake.create_database("s")
    table = lake.create_table("s.t", COLUMNS, primary_key=["id"], options={"bucket": 1})
    chance, model, shared = np.random.default_rng(seed), {}, set()
    spans: list[tuple[int, int]] = []
    for number in range(8):
        first = int(chance.integers(0, 40)) * 10
        ids = np.arange(first, first + int(chance.integers(1, 25)))
        kinds = np.where(np.arange(len(ids)) == (0 if chance.random() < 0.3 else -1), "-D", "+I")
        table.upsert(
            pa.table({"id": ids, "v": pa.array(ids, pa.int32()), "s": [f"{number}"] * len(ids), "kind": kinds}),
            row_kind="kind",
            compact=number == 0,
        )
        model |= {key: (key, f"{number}") for key in ids.tolist()}
        for key in ids[kinds == "-D"].tolist():
            del model[key]
        for other, (low, high) in enumerate(spans):
            if low <= ids[-1] and ids[0] <= high:
                shared |= {other, number}
        spans.append((int(ids[0]), int(ids[-1])))
        if (kinds == "-D").any():
            shared.add(number)
    read = _read_files(monkeypatch)
    assert rows_of(lsmlake.connect(tmp_path).table("s.t").to_arrow()) == model
    assert rows_of(lsmlake.connect(tmp_path).sql("SELECT * FROM s.t").to_arrow()) == model
    assert len(set(read)) == len(shared - {0}), "the first file is compacted"


def test_a_query_of_all_files_plans_them_once(tmp_path: Path):
    lake, table, model = table_with_level0(tmp_path, {}, seed=3)
    first, second = plan(table.version), plan(table.version)
    assert first.splits is second.splits
    assert plan(table.version, mode=RAW).splits is not first.splits
    table.upsert([{"id": 9_999, "v": 1, "s": "new"}], cast=True, compact=False)
    assert plan(table.version).splits is not first.splits
    assert rows_of(lake.sql("SELECT * FROM s.t").to_arrow()) == {**model, 9_999: (1, "new")}
    table.rollback(table.version.number - 1)
    assert rows_of(lake.sql("SELECT * FROM s.t").to_arrow()) == model
