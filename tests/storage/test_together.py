"""Concurrent work on buckets or files: at most the given number at once, and no files left after an error."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from threading import Barrier, Event, Lock, Thread, current_thread, main_thread

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import contents, fake_env

from lsmlake.api.lake import Lake
from lsmlake.api.runtime import Runtime
from lsmlake.errors import StorageFailed
from lsmlake.storage import write_group
from lsmlake.storage.concurrency import Once, ahead, together
from lsmlake.storage.memory import MemoryStorage

BUCKETS = 8


@pytest.mark.parametrize("workers", [1, 2, 4])
def test_all_results_but_none_come_back(workers: int):
    found = together(lambda n: n * n if n % 3 else None, range(20), workers, undo=pytest.fail)
    assert sorted(found) == [n * n for n in range(20) if n % 3]
    if workers == 1:
        assert found == sorted(found)


@pytest.mark.parametrize("workers", [2, 3])
def test_so_many_run_at_once_and_items_are_taken_when_there_is_room(workers: int):
    meet, lock, running, most, taken = Barrier(workers, timeout=120), Lock(), 0, 0, 0

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


@given(st.lists(st.integers(0, 7), max_size=9), st.integers(1, 4))
def test_streams_give_all_their_items_in_an_order_of_their_own(lengths: list[int], workers: int):
    def stream(number: int):
        yield from range(10 * number, 10 * number + lengths[number])

    def streams():
        return map(stream, range(len(lengths)))

    found = list(ahead(streams(), workers))
    assert sorted(found) == [item for stream in streams() for item in stream]
    for number in range(len(lengths)):
        own = [item for item in found if item // 10 == number]
        assert own == sorted(own), "a stream keeps its order"
    assert found == list(ahead(streams(), workers)), "threads do not decide"
    if workers == 1:
        assert found == sorted(found)


def test_streams_run_beside_each_other_and_no_further_ahead_than_a_step():
    meet, begun, made = Barrier(2, timeout=120), [], []

    def stream(number: int):
        begun.append(number)
        for item in range(6):
            if item == 0 and number < 2:
                meet.wait()  # breaks unless two run at once
            made.append((number, item))
            yield number

    def streams():
        for number in range(4):
            yield stream(number)

    items = ahead(streams(), 2)
    next(items)
    items.close()
    assert set(begun) <= {0, 1, 2}, "the last waits for its turn"
    assert len(made) <= 8, "two of each, and two more of the first"


def test_one_worker_needs_no_thread():
    assert list(ahead(((current_thread() for _ in range(2)) for _ in range(2)), 1)) == [main_thread()] * 4


@pytest.mark.parametrize("workers", [1, 3])
def test_an_error_comes_after_what_came_before_it_and_all_streams_are_closed(workers: int):
    opened, closed = [], []

    def stream(number: int):
        opened.append(number)
        try:
            for item in range(5):
                if (number, item) == (1, 3):
                    raise ValueError("damaged")
                yield number, item
        finally:
            closed.append(number)

    found = []
    with pytest.raises(ValueError, match="damaged"):
        found.extend(ahead((stream(number) for number in range(9)), workers))
    assert [item for item in found if item[0] == 1] == [(1, item) for item in range(2 if workers > 1 else 3)]
    assert sorted(closed) == sorted(opened)
    assert len(opened) <= 5


def test_the_first_caller_creates_a_value_once():
    made, asked = [], Barrier(4, timeout=120)
    value = Once(lambda: made.append(1) or len(made))
    found = []

    def ask() -> None:
        asked.wait()
        found.append(value())

    threads = [Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (found, made) == ([1] * 4, [1])


def _table(storage: MemoryStorage, workers: int):
    lake = Lake(replace(fake_env(storage), workers=workers), Runtime())
    lake.create_database("d", if_not_exists=True)
    schema = pa.schema([pa.field("k", pa.int64(), nullable=False), ("v", pa.int64())])
    return lake.create_table("d.t", schema, primary_key=["k"], options={"bucket": BUCKETS}, if_not_exists=True)


def _rows(number: int) -> pa.Table:
    keys = pa.array(range(number, 2_000, number + 1), pa.int64())
    return pa.table({"k": keys, "v": pa.array([number] * len(keys), pa.int64())})


def test_a_table_holds_the_same_with_any_number_of_workers():
    tables = [_table(MemoryStorage(), workers) for workers in (1, 3)]
    for table in tables:
        for number in range(12):
            table.upsert(_rows(number))
        table.compact(full=True)
        assert table.verify() == []
    one, three = (table.scan().to_arrow().sort_by("k") for table in tables)
    assert one == three
    assert one.num_rows == 2_000


class Waiting(MemoryStorage):
    """Writes data files only `writes_at_once` together."""

    writes_at_once = 4

    def __init__(self) -> None:
        super().__init__()
        self.meet, self.threads = Barrier(self.writes_at_once, timeout=120), set()

    @contextmanager
    def write(self, path: str):
        with super().write(path) as sink:
            yield sink
            if "/data-" in path:
                self.threads.add(current_thread())
                self.meet.wait()  # breaks unless as many files are written at once


def test_small_buckets_are_written_side_by_side_where_writes_wait(monkeypatch):
    storage = Waiting()
    table = _table(storage, 1)
    table.upsert(_rows(0))
    assert table.count() == 2_000
    monkeypatch.setattr(write_group, "_SMALL_BYTES", 0)
    storage.meet, storage.threads = Barrier(1), set()
    table.upsert(_rows(1))
    assert storage.threads == {main_thread()}, "large ones one after another"


class FailingAtData(MemoryStorage):
    """Fails at the n-th data file."""

    left = 1 << 30

    def write(self, path: str):
        if "/data-" in path:
            self.left -= 1
            if not self.left:
                raise StorageFailed("the disk is full", where=path)
        return super().write(path)


class FailingInAGroup(FailingAtData):
    """Small files are written together."""

    writes_at_once = 2


@pytest.mark.parametrize("kind", [FailingAtData, FailingInAGroup])
@pytest.mark.parametrize("batch", [1, 2, 32])
@pytest.mark.parametrize("at", range(1, BUCKETS + 1, 3))
def test_a_bucket_that_fails_takes_all_others_with_it(monkeypatch, at: int, batch: int, kind: type[FailingAtData]):
    monkeypatch.setattr(write_group, "_FILES", batch)
    storage = kind()
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


@pytest.mark.parametrize("kind", [FailingAtData, FailingInAGroup])
@pytest.mark.parametrize("at", [1, BUCKETS])
def test_an_append_that_fails_leaves_nothing(kind: type[FailingAtData], at: int):
    storage = kind()
    lake = Lake(fake_env(storage), Runtime())
    lake.create_database("d")
    table = lake.create_table("d.a", "part INT, v BIGINT", partition_by=["part"])
    numbers = range(BUCKETS * 10)
    rows = pa.table({"part": pa.array([number % BUCKETS for number in numbers], pa.int32()), "v": list(numbers)})
    table.append(rows)
    before = contents(storage)
    storage.left = at
    with pytest.raises(StorageFailed, match="full"):
        table.append(rows)
    assert contents(storage) == before
    storage.left = 1 << 30
    table.append(rows)
    assert table.count() == 2 * rows.num_rows and table.verify() == []
