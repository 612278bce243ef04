"""The newest snapshot: a handle sees every commit of others at once, although it reads no file that has not changed."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

import lsmlake
from lsmlake.api.lake import Lake
from lsmlake.api.runtime import Runtime
from lsmlake.api.table import Table
from lsmlake.errors import Corrupt, TableNotFound
from lsmlake.storage.env import Env
from lsmlake.storage.local import LocalStorage


class Counting(LocalStorage):
    """Counts the files whose content is read."""

    count = 0

    def contents(self, paths: Sequence[str]) -> list[bytes | None]:
        self.count += len(paths)
        return super().contents(paths)


@pytest.fixture
def other(tmp_path: Path) -> Table:
    lake = lsmlake.connect(tmp_path)
    lake.create_database("d")
    table = lake.create_table("d.t", "k INT NOT NULL, v INT", primary_key=["k"])
    for number in range(3):
        table.upsert([{"k": 0, "v": number}])
    return table


def looking(folder: Path) -> Table:
    """A handle that has looked for the newest snapshot often enough to read no file when there is none."""
    table = Lake(Env(Counting(folder)), Runtime()).table("d.t")
    for _ in range(3):
        assert table.get({"k": 0})["v"] == 2
    return table


def test_a_look_that_finds_nothing_new_reads_no_file(tmp_path, other):
    table = looking(tmp_path)
    table.meta.env.storage.count = 0
    assert [table.get({"k": 0})["v"] for _ in range(5)] == [2] * 5
    assert table.meta.env.storage.count == 0


def test_every_commit_of_others_is_seen_at_once(tmp_path, other):
    table = looking(tmp_path)
    for number in range(5):
        other.upsert([{"k": 0, "v": 10 + number}])
        assert [table.get({"k": 0})["v"] for _ in range(1 + number)] == [10 + number] * (1 + number)


def test_a_rollback_that_removes_snapshots_is_seen_at_once(tmp_path, other):
    table = looking(tmp_path)
    other.rollback(1, cut=True)
    assert table.get({"k": 0})["v"] == 0


def test_snapshots_that_are_gone_are_missed_at_once(tmp_path, other):
    table = looking(tmp_path)
    shutil.rmtree(next(tmp_path.glob("**/snapshot")))
    assert table.get({"k": 0}) is None


def test_a_dropped_table_is_missed_at_once(tmp_path, other):
    table = looking(tmp_path)
    lsmlake.connect(tmp_path).drop_table("d.t")
    with pytest.raises(TableNotFound):
        table.get({"k": 0})


def test_another_file_under_the_name_of_a_snapshot_is_noticed(tmp_path, other):
    """Such as after a restore of an older copy of the folder: equal in length, and read again nevertheless."""
    table = looking(tmp_path)
    newest = max(tmp_path.glob("**/snapshot-3"))
    data = newest.read_bytes()
    newest.with_name("copy").write_bytes(data[:-20] + data[-20:].swapcase())
    newest.with_name("copy").replace(newest)
    with pytest.raises(Corrupt):
        table.get({"k": 0})
