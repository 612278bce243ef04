"""KeyboardInterrupt and SystemExit pass unchanged through every public call, and an interrupted call leaves nothing behind.

`python -m tests.interrupts` is the long form of the first test.
"""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections.abc import Callable, Iterator

import pyarrow as pa
import pytest
from effort import scaled
from interrupts import CALLS, Bench, Exit, Pressed, rows, states, temporary_folder_at

from lsmlake import Lake, undo
from lsmlake.beside import GivenUp, Signal, Threads
from lsmlake.dialect.connection import connected

KINDS = [Pressed, Exit]


@pytest.fixture(scope="module")
def bench(tmp_path_factory) -> Bench:
    return Bench(tmp_path_factory.mktemp("interrupts"))


@pytest.fixture
def lake(bench: Bench) -> Lake:
    return bench.lake("one")


def test_an_interrupted_call_leaves_nothing(bench):
    chance = random.Random(int(os.environ.get("LSMLAKE_SEED", "7")))
    names = chance.sample(list(CALLS), min(len(CALLS), scaled(5)))
    for name in names:
        for _ in range(2):
            wrong, interrupter, interrupted = bench.trial(name, "line", chance.choice(KINDS), chance.random())
            assert not wrong or not interrupted, f"{name}: {wrong}\n{interrupter.where}"


# -- sources ----------------------------------------------------------------------------------------------------------


def failing(error: BaseException, table: pa.Table) -> Iterator[pa.RecordBatch]:
    yield from table.to_batches()
    raise error


def reader(error: BaseException, table: pa.Table) -> pa.RecordBatchReader:
    return pa.RecordBatchReader.from_batches(table.schema, failing(error, table))


class Stream:
    """A source that only has the protocol of Arrow."""

    def __init__(self, error: BaseException, table: pa.Table) -> None:
        self.reader = reader(error, table)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self.reader.__arrow_c_stream__(requested_schema)


READS: dict[str, Callable[[Lake, object], object]] = {
    "upsert": lambda lake, data: lake.table("d.t").upsert(data),
    "upsert that spills": lambda lake, data: lake.table("d.s").upsert(data),
    "append": lambda lake, data: lake.table("d.a").append(data),
    "overwrite": lambda lake, data: lake.table("d.t").overwrite(data),
    "create": lambda lake, data: lake.create_table_from("d.new", data, primary_key=["id"]),
    "merge": lambda lake, data: lake.table("d.t").merge(data, "t.id = s.id").when_not_matched_insert_all().execute(),
    "sql": lambda lake, data: lake.sql("SELECT count(*) FROM n", tables={"n": data}),
    "sql merge": lambda lake, data: lake.sql(
        "MERGE INTO d.t USING n ON d.t.id = n.id WHEN NOT MATCHED THEN INSERT *", tables={"n": data}
    ),
}


@pytest.mark.parametrize("read", list(READS))
@pytest.mark.parametrize("source", [failing, reader])
@pytest.mark.parametrize("kind", KINDS)
def test_an_interruption_of_a_source_is_raised_itself(lake, bench, tmp_path, read, source, kind):
    error = kind("in the source")
    with temporary_folder_at(tmp_path / "tmp") as folder:
        with pytest.raises(kind) as raised:
            READS[read](lake, source(error, rows(0, 5, 9)))
        assert raised.value is error
        assert list(folder.iterdir()) == []
    assert states(lake) == bench.before


@pytest.mark.parametrize("read", ["upsert", "merge", "sql"])
@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit])
def test_an_interruption_behind_an_arrow_stream_keeps_its_type(lake, bench, read, kind):
    with pytest.raises(kind) as raised:
        READS[read](lake, Stream(kind("3"), rows(0, 5, 9)))
    assert type(raised.value) is kind
    assert raised.value.args == ("3",)
    assert states(lake) == bench.before


# -- DuckDB -----------------------------------------------------------------------------------------------------------


def after(seconds: float, error: BaseException) -> None:
    def strike(*_: object) -> None:
        raise error

    signal.signal(signal.SIGALRM, strike)
    signal.setitimer(signal.ITIMER_REAL, seconds)


@pytest.mark.parametrize("kind", KINDS)
def test_a_running_query_is_interrupted(lake, kind):
    """It would run for minutes. The next one finds a connection that works."""
    error, began = kind("in the query"), time.monotonic()
    lake.sql("SELECT count(*) FROM d.t")  # imports modules
    after(0.3, error)
    with pytest.raises(kind) as raised:
        lake.sql("SELECT sum(a.v * b.v + c.v * e.v) FROM d.t a, d.t b, d.t c, d.t e, d.t f WHERE a.v + f.v > b.v")
    assert raised.value is error
    assert time.monotonic() - began < 30
    assert lake.sql("SELECT count(*) AS n FROM d.t").to_arrow()["n"].to_pylist() == [390]


def test_a_source_of_a_statement_is_read_by_the_thread_that_waits():
    """A source can belong to one thread, and an interruption is raised in it."""
    seen = []

    def batches() -> Iterator[pa.RecordBatch]:
        for number in range(3):
            seen.append(threading.current_thread())
            yield pa.record_batch({"n": [number]})

    with connected("UTC", sql="") as connection:
        connection.register_batches("given", pa.schema([("n", pa.int64())]), batches())
        assert connection.sql("SELECT sum(n) AS n FROM given").to_arrow_table()["n"].to_pylist() == [3]
    assert set(seen) == {threading.main_thread()}


# -- threads ----------------------------------------------------------------------------------------------------------


def test_work_that_has_not_begun_when_a_call_is_interrupted_never_begins():
    done, begun, go_on = [], Signal(), Signal()

    def first() -> None:
        begun.give()
        go_on.wait()
        done.append("first")

    with pytest.raises(Pressed), Threads(1) as threads:
        threads.submit(first)
        second = threads.submit(done.append, "second")
        begun.wait()
        threads.submit(done.append, "third")
        threading.Timer(0.05, go_on.give).start()
        raise Pressed
    assert done == ["first"]
    with pytest.raises(GivenUp):
        second.result()


def test_a_signal_is_given_once_and_for_all():
    signal_ = Signal()
    assert not signal_.wait(0.01)
    signal_.give()
    signal_.give()
    assert signal_.wait()
    assert signal_.wait()


def test_the_second_interruption_does_not_end_the_removal(tmp_path):
    """What was made is removed although Ctrl-C is pressed again meanwhile; the first one is raised."""
    first, removed, presses = Pressed("first"), [], iter([Pressed("second"), Exit("third")])

    def remove(paths: list[str]) -> None:
        for error in presses:
            raise error
        removed.extend(paths)

    def step() -> None:
        undo.made(remove, ["a", "b"])
        undo.made(remove, ["c"])
        undo.kept(remove, ["b"])
        raise first

    with pytest.raises(Pressed) as raised:
        undo.Call().run(step)
    assert raised.value is first
    assert sorted(removed) == ["a", "c"]


def test_what_is_being_published_stays():
    removed: list[str] = []
    remove = removed.extend

    def step() -> None:
        undo.made(remove, ["published"])
        undo.hold()
        undo.made(remove, ["refused"])
        undo.give_back(undo.hold())
        raise Pressed

    with pytest.raises(Pressed):
        undo.Call().run(step)
    assert removed == ["refused"]
