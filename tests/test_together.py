"""Several buckets at once: as many as wanted and no more, and after an error nothing is left of any."""

from __future__ import annotations

from dataclasses import replace
from threading import Barrier, Event, Lock

import pyarrow as pa
import pytest
from strategies import contents, fake_env

from lsmlake.engine import Engine
from lsmlake.errors import StorageFailed
from lsmlake.lake import Lake
from lsmlake.ops.together import together
from lsmlake.store.memory import MemoryStorage

BUCKETS = 8


@pytest.mark.parametrize("workers", [1, 2, 4])
def test_all_results_but_none_come_back(workers: int):
    found = together(lambda n: n * n if n % 3 else None, range(20), workers, undo=pytest.fail)
    assert sorted(found) == [n * n for n in range(20) if n % 3]
    if workers == 1:
        assert found == sorted(found)


@pytest.mark.parametrize("workers", [2, 3])
def test_so_many_run_at_once_and_items_are_taken_when_there_is_room(workers: int):
    meet, lock, running, most, taken = Barrier(workers, timeout=10), Lock(), 0, 0, 0

    def items():
        nonlocal taken
        for number in range(workers * 4):
            taken += 1
            yield number

    def work(number: int) -> int:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
            assert taken <= number + workers + 1
        meet.wait()  # breaks unless `workers` run at once
        with lock:
            running -= 1
        return number

    assert len(together(work, items(), workers, undo=pytest.fail)) == workers * 4
    assert most == workers


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_what_runs_beside_an_error_ends_and_is_undone_too(error: type[BaseException]):
    failed, undone, begun = Event(), [], []

    def work(number: int) -> int:
        begun.append(number)
        if number == 0:
            failed.set()
            raise error("the first")
        failed.wait(10)
        return number

    with pytest.raises(error, match="the first"):
        together(work, range(100), 2, undone.extend)
    assert sorted(undone) == sorted(set(begun) - {0})
    assert len(begun) < 10, "nothing new begins"


def _table(storage: MemoryStorage, workers: int):
    lake = Lake(replace(fake_env(storage), workers=workers), Engine())
    lake.create_database("d", if_not_exists=True)
    schema = pa.schema([pa.field("k", pa.int64(), nullable=False), ("v", pa.int64())])
    return lake.create_table("d.t", schema, primary_key=["k"], options={"bucket": BUCKETS}, if_not_exists=True)


def _rows(number: int) -> pa.Table:
    keys = pa.array(range(number, 2_000, number + 1), pa.int64())
    return pa.table({"k": keys, "v": pa.array([number] * len(keys), pa.int64())})


def test_a_table_holds_the_same_whatever_the_number_of_workers():
    tables = [_table(MemoryStorage(), workers) for workers in (1, 3)]
    for table in tables:
        for number in range(12):
            table.upsert(_rows(number))
        table.compact(full=True)
        assert table.verify() == []
    one, three = (table.scan().to_arrow().sort_by("k") for table in tables)
    assert one == three
    assert one.num_rows == 2_000


class FailingAtData(MemoryStorage):
    """Fails at the n-th data file."""

    left = 1 << 30

    def write(self, path: str):
        if "/data-" in path:
            self.left -= 1
            if not self.left:
                raise StorageFailed("the disk is full", where=path)
        return super().write(path)


@pytest.mark.parametrize("at", range(1, BUCKETS + 1, 3))
def test_a_bucket_that_fails_takes_all_others_with_it(at: int):
    storage = FailingAtData()
    table = _table(storage, 4)
    table.upsert(_rows(0))
    before = contents(storage)
    for change in (lambda: table.upsert(_rows(1)), lambda: table.compact(full=True)):
        storage.left = at
        with pytest.raises(StorageFailed, match="full"):
            change()
        assert contents(storage) == before
        storage.left = 1 << 30
        table.upsert(_rows(1), compact=False)
        before = contents(storage)
