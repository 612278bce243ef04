"""Writers that share a bucket: level 0 stays small and rows are right although another commit comes before each of theirs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

from strategies import lake_on, new_lake

from lsmlake.api.table import Table
from lsmlake.lsm.levels import Levels
from lsmlake.storage.memory import MemoryStorage
from lsmlake.write import write


@contextmanager
def overtaken_by(other: Table, rows: dict[str, list[int]]) -> Iterator[None]:
    """`other` commits rows, without compaction, just before the next commit."""
    publish, waiting = write.publish, [rows]

    def late(*given: object) -> object:
        if waiting:
            other.upsert(waiting.pop(), compact=False)
        return publish(*given)

    with patch.object(write, "publish", late):
        yield


def runs_at_level_0(table: Table) -> int:
    return max(len(Levels.of(state.files).level0_runs) for state in table.states().values())


def two_writers() -> tuple[Table, Table]:
    storage = MemoryStorage()
    new_lake(storage).create_table("d.t", "k INT NOT NULL, v INT", primary_key=["k"], options={"bucket": 1})
    return lake_on(storage, "a-").table("d.t"), lake_on(storage, "b-").table("d.t")


def test_a_writer_that_loses_compactions_compacts_apart():
    one, other = two_writers()
    model: dict[int, int] = {}
    most = 0
    for number in range(30):
        early = {"k": [number % 7, 20 + number], "v": [number, -1]}
        late = {"k": [number % 7, number % 3, 50 + number], "v": [100 + number] * 3}
        with overtaken_by(other, early):
            one.upsert(late)
        for rows in (early, late):
            model |= zip(rows["k"], rows["v"], strict=True)
        assert {row["k"]: row["v"] for row in one.scan().to_arrow().to_pylist()} == model
        most = max(most, runs_at_level_0(one))
    assert most <= 8
    kinds = one.snapshots()["commit_kind"].to_pylist()
    assert kinds.count("APPEND") == 60
    assert 1 < kinds.count("COMPACT") < 30
    assert one.verify() == []


def test_a_writer_that_is_alone_again_compacts_inline():
    one, other = two_writers()
    one.upsert({"k": [1], "v": [1]})
    with overtaken_by(other, {"k": [2], "v": [2]}):
        one.upsert({"k": [3], "v": [3]})
    waiting = []
    for number in range(8):
        one.upsert({"k": [number], "v": [number]})
        waiting.append(runs_at_level_0(one))
    assert waiting[0] > 0
    assert waiting[-3:] == [0, 0, 0]


def test_a_call_that_asks_for_compaction_compacts_inline():
    one, other = two_writers()
    with overtaken_by(other, {"k": [2], "v": [2]}):
        one.upsert({"k": [3], "v": [3]})
    one.upsert({"k": [4], "v": [4]}, compact=True)
    assert runs_at_level_0(one) == 0
