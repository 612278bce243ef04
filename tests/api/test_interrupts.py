"""KeyboardInterrupt and SystemExit pass unchanged through every public call, and an interrupted call leaves nothing behind.

`python -m tests.interrupts` is the long form of the first test.
"""

from __future__ import annotations

import gc
import os
import random
import signal
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from dataclasses import replace
from types import FrameType

import duckdb
import polars
import pyarrow as pa
import pytest
from effort import scaled
from interrupts import CALLS, Bench, Exit, Pressed, rows, states, temporary_folder_at

from lsmlake import Lake, Scan, border, undo
from lsmlake.beside import GivenUp, Signal, Threads
from lsmlake.border import public
from lsmlake.dialect import connection as connections
from lsmlake.dialect.connection import PatientConnection, registered
from lsmlake.dialect.macros import spark_connected
from lsmlake.errors import TableNotFound
from lsmlake.files.data_writer import Origin, write_run

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


def cancelled() -> pa.ArrowCancelled:
    """What a reader of Arrow raises if the program's own handler of the signal has raised nothing."""
    return pa.ArrowCancelled("Operation cancelled. Detail: received signal 2", 2)


@pytest.mark.parametrize("read", ["upsert", "merge", "sql"])
@pytest.mark.parametrize("source", [failing, reader, Stream])
def test_a_source_that_a_signal_has_cancelled_is_interrupted(lake, bench, read, source):
    with pytest.raises(KeyboardInterrupt):
        READS[read](lake, source(cancelled(), rows(0, 5, 9)))
    assert states(lake) == bench.before


@pytest.mark.parametrize("kind", [*KINDS, OSError])
def test_a_file_that_is_given_up_leaves_nothing_to_say(lake, tmp_path, capfd, kind):
    """Arrow would report that it cannot write the rest of a file."""
    table = lake.table("d.t")

    def tables() -> Iterator[pa.Table]:
        for start in range(0, 100, 10):
            yield rows(start, start + 10, 1)
        raise kind

    env = replace(table.meta.env, limits=replace(table.meta.env.limits, row_group_rows=10))
    with pytest.raises(kind):
        write_run(env, table.meta.paths, table.version.schema, "d.db/t/bucket-0", tables(), Origin(0, "test"))
    gc.collect()
    assert capfd.readouterr() == ("", "")


# -- consumers that lose the interruption of a stream of ours ----------------------------------------------------------

CONSUMERS: dict[str, Callable[[object], object]] = {
    "pyarrow": pa.table,
    "reader": lambda scan: pa.RecordBatchReader.from_stream(scan).read_all(),
    "polars": polars.DataFrame,
}


@pytest.mark.parametrize("consumer", list(CONSUMERS))
@pytest.mark.parametrize("kind", KINDS)
def test_an_interruption_that_a_consumer_of_a_stream_has_lost_is_raised(lake, monkeypatch, consumer, kind):
    """The consumer gets an error of Arrow, and right after it the interruption itself."""
    error, handler = kind("in the stream"), signal.getsignal(signal.SIGINT)
    monkeypatch.setattr(Scan, "to_batches", lambda self: reader(error, rows(0, 5, 9)))
    with pytest.raises(kind) as raised:
        try:
            CONSUMERS[consumer](lake.table("d.t").scan())
        except Exception:
            time.sleep(60)
    assert raised.value is error
    assert signal.getsignal(signal.SIGINT) is handler


@pytest.mark.parametrize("kind", KINDS)
def test_an_interruption_while_duckdb_binds_a_scan_is_raised_itself(lake, monkeypatch, kind):
    """DuckDB asks a source in Python, and an interruption there becomes an error of its own."""
    error = kind("while DuckDB binds")

    def raised(*_: object) -> None:
        raise error

    def bound(*_: object) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.05)
        raise duckdb.InvalidInputException("counting the rows of the Arrow source failed")

    monkeypatch.setattr("lsmlake.api.scan.relation", bound)
    handler = signal.signal(signal.SIGINT, raised)
    try:
        with pytest.raises(kind) as found:
            lake.table("d.t").scan().to_duckdb()
    finally:
        signal.signal(signal.SIGINT, handler)
    assert found.value is error


def test_a_consumer_that_passes_an_interruption_on_gets_no_second_one(lake, monkeypatch):
    error = Pressed("in the stream")
    monkeypatch.setattr(Scan, "_batches", lambda self, version: reader(error, rows(0, 5, 9)))
    with pytest.raises(Pressed) as raised:
        lake.table("d.t").scan().to_arrow()
    assert raised.value is error
    with pytest.raises(Pressed) as raised:
        lake.table("d.t").upsert(lake.table("d.t").scan())
    assert raised.value is error
    time.sleep(0.05)


# -- DuckDB -----------------------------------------------------------------------------------------------------------


def after(seconds: float, error: BaseException) -> None:
    def strike(*_: object) -> None:
        raise error

    signal.signal(signal.SIGALRM, strike)
    signal.setitimer(signal.ITIMER_REAL, seconds)


@pytest.mark.parametrize("kind", KINDS)
def test_a_running_query_is_interrupted(lake, kind):
    """It would run for days. The next one finds a connection that works."""
    error = kind("in the query")
    lake.sql("SELECT count(*) FROM d.t")  # imports modules
    after(0.3, error)
    with pytest.raises(kind) as raised:
        lake.sql("SELECT sum(a.v * b.v + c.v * e.v) FROM d.t a, d.t b, d.t c, d.t e, d.t f WHERE a.v + f.v > b.v")
    assert raised.value is error
    assert lake.sql("SELECT count(*) AS n FROM d.t").to_arrow()["n"].to_pylist() == [390]


class Recorded:
    """A connection of DuckDB; `seen` are its methods and the threads that called them."""

    def __init__(self, seen: list[tuple[str, threading.Thread]], inner: object = None) -> None:
        self.seen, self.inner = seen, duckdb.connect(":memory:") if inner is None else inner

    def __getattr__(self, name: str) -> Callable[..., object]:
        def call(*given: object) -> object:
            self.seen.append((name, threading.current_thread()))
            found = getattr(self.inner, name)(*given)
            return Recorded(self.seen, found) if name == "cursor" else found

        return call


def test_nothing_of_duckdb_is_executed_in_the_main_thread(monkeypatch):
    """There DuckDB would replace an interruption by "Query interrupted"."""
    seen: list[tuple[str, threading.Thread]] = []
    connect = Recorded(seen)
    monkeypatch.setattr(duckdb, "connect", lambda _: connect)
    monkeypatch.setattr(connections, "_idle", {})
    with spark_connected("Asia/Tokyo", sql="SELECT 1") as connection:
        with registered(connection, "n", pa.schema([("v", pa.int64())]), [pa.record_batch({"v": [1]})]):
            assert connection.sql("SELECT sum(v) AS v FROM n").to_arrow_table()["v"].to_pylist() == [1]
        connection.execute("SELECT 1").fetchall()
    assert {name for name, _ in seen} >= {"cursor", "execute", "register", "unregister", "sql"}
    assert {name for name, thread in seen if thread is threading.main_thread()} <= {"close"}


def test_a_source_of_a_statement_is_read_by_the_thread_that_waits():
    """A source can belong to one thread, and an interruption is raised in it."""
    seen = []

    def batches() -> Iterator[pa.RecordBatch]:
        for number in range(3):
            seen.append(threading.current_thread())
            yield pa.record_batch({"n": [number]})

    with spark_connected("UTC", sql="") as connection:
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


def test_the_result_of_a_statement_goes_with_the_last_one_that_holds_it():
    """Not with the next garbage collection: before a fork no database may be left."""
    gc.disable()
    try:
        connection = PatientConnection(duckdb.connect(":memory:"))
        connection.execute("SELECT 1")
        inner = weakref.ref(connection.inner)
        del connection
        assert inner() is None
    finally:
        gc.enable()


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
        public(step)()
    assert raised.value is first
    assert sorted(removed) == ["a", "c"]


def replaced_by_another_error(error: BaseException, how: str) -> None:
    if how == "finally":
        try:
            raise error
        finally:
            raise ValueError
    else:  # Python before 3.12 makes a RuntimeError of it

        class Raises:
            def __set_name__(self, owner: type, name: str) -> None:
                raise error

        type("Made", (), {"one": Raises()})


@pytest.mark.parametrize("how", ["finally", "class"])
def test_an_interruption_that_another_error_has_replaced_is_raised(lake, monkeypatch, how):
    error = Pressed("behind")
    monkeypatch.setattr(Scan, "_batches", lambda self, version: replaced_by_another_error(error, how))
    with pytest.raises(Pressed) as raised:
        lake.table("d.t").scan().to_arrow()
    assert raised.value is error


def test_an_interruption_that_the_caller_handles_is_not_raised_again(lake):
    try:
        raise Pressed
    except Pressed:
        with pytest.raises(TableNotFound):
            lake.table("d.none")


def test_a_handler_of_all_errors_passes_an_interruption_on():
    error = Pressed("behind")

    def step() -> None:
        try:
            replaced_by_another_error(error, "finally")
        except Exception as failed:
            undo.pass_interruption(failed)

    with pytest.raises(Pressed) as raised:
        public(step)()
    assert raised.value is error
    try:
        raise error
    except Pressed:
        try:
            raise ValueError
        except ValueError as other:
            failed = other
        public(lambda: undo.pass_interruption(failed))()


def test_an_interrupted_call_does_not_remain_the_current_one():
    """Interrupts it at each line of ours. The next call would take its place in that one, and nobody would end it."""
    interrupted, call = 0, public(lambda: None)
    while True:
        lines = 0

        def at_line(frame: FrameType, event: str, _: object) -> object:
            nonlocal lines
            if frame.f_code.co_filename not in (undo.__file__, border.__file__):
                return None
            lines += 1
            if lines == interrupted + 1:  # noqa: B023
                raise Pressed
            return at_line

        try:
            sys.settrace(at_line)
            call()
        except Pressed:
            interrupted += 1
        else:
            break
        finally:
            sys.settrace(None)
        assert undo.current() is None
    assert interrupted > 10


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
        public(step)()
    assert removed == ["refused"]
