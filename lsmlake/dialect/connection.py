"""Connections to DuckDB, whose statements can be interrupted, and its errors as errors of this library.

A connection leads to a database in memory. Statements use a database one after the other, since making one takes 14 ms.

DuckDB runs a statement in the thread that calls it. An interruption of that thread, such as Ctrl-C, becomes an error of DuckDB,
or is lost and the statement goes on; an interruption in a Python iterator that the statement reads becomes the text of an error.
Signals reach the main thread only, so a statement of the main thread runs in a thread of its own:

1. The main thread waits, and meanwhile reads the iterators that the statement asks for. So an interruption is raised in plain
   Python, inside the iterator or outside.
2. Then the main thread stops the statement, waits for its end, and raises the interruption. A second one ends the waiting.
"""

from __future__ import annotations

import os
import secrets
import shutil
import tempfile
from _thread import start_new_thread
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from queue import SimpleQueue
from threading import Lock, get_ident, main_thread
from types import ModuleType
from typing import Generic, TypeVar

import pyarrow as pa

from lsmlake import undo
from lsmlake.beside import Work, taken
from lsmlake.dialect.failures import failure
from lsmlake.errors import Corrupt, EngineFailed, InvalidQuery, LakeError, Wording
from lsmlake.extras import need

Result = TypeVar("Result")

_AGAIN_S = 0.05  # a statement can miss a request to stop that comes before it has begun
_END = object()


class PatientConnection:
    """A connection of DuckDB, with its methods."""

    def __init__(self, inner) -> None:  # the type belongs to an optional package
        self.inner = inner
        self._waiting: _Waiting | None = None
        self._left = False  # a statement runs that nobody waits for any more

    def __getattr__(self, name: str):
        return _wrapped(self, getattr(self.inner, name))

    def register_batches(self, name: str, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> None:
        """Lets a statement read the batches under a name, once. The thread that waits for the statement reads them."""
        self.register(name, pa.RecordBatchReader.from_batches(schema, self._read(undo.heard(batches))))

    def _read(self, items: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        def item() -> object:
            return next(items, _END)

        while True:
            waiting = self._waiting
            batch = item() if waiting is None else waiting.ask(item)
            if batch is _END:
                return
            yield batch

    def wait_for(self, call: Callable[[], Result]) -> Result:
        """The result of a call of DuckDB."""
        if get_ident() != main_thread().ident or self._waiting is not None:
            return call()
        waiting = self._waiting = _Waiting(call)
        try:
            return waiting.result(self.inner.interrupt)
        finally:
            self._left, self._waiting = waiting.is_running, None

    def unregister(self, name: str) -> None:
        if not self._left:
            self.wait_for(lambda: self.inner.unregister(name))

    def close(self) -> None:
        if not self._left:
            self.inner.close()  # runs no statement, so nothing is waited for


class PatientRelation:
    """A relation of DuckDB, `inner`, with its methods. Its rows are fetched when a method asks for them."""

    def __init__(self, connection: PatientConnection, inner) -> None:
        self.connection, self.inner = connection, inner

    def __getattr__(self, name: str):
        return _wrapped(self.connection, getattr(self.inner, name))

    def to_arrow_reader(self, *rows: int) -> pa.RecordBatchReader:
        wait_for = self.connection.wait_for
        reader = wait_for(lambda: self.inner.to_arrow_reader(*rows))

        def batches() -> Iterator[pa.RecordBatch]:
            while (batch := wait_for(lambda: next(reader, None))) is not None:
                yield batch

        return pa.RecordBatchReader.from_batches(reader.schema, undo.heard(batches()))

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self.to_arrow_reader().__arrow_c_stream__(requested_schema)


def _wrapped(connection: PatientConnection, member: object) -> object:
    """A member of DuckDB's connection or relation, which takes and returns relations as above."""
    if not callable(member):
        return member

    def call(*given: object, **named: object) -> object:
        bare = [one.inner if isinstance(one, PatientRelation) else one for one in given]
        result = connection.wait_for(lambda: member(*bare, **named))
        return PatientRelation(connection, result) if hasattr(result, "union") else result

    return call


class _Waiting(Generic[Result]):
    """A call in a thread of its own, and the thread that waits for it."""

    def __init__(self, call: Callable[[], Result]) -> None:
        self._work = Work(call, self._end)
        self._lock, self._over = Lock(), False  # over: nobody answers questions any more
        self._questions: SimpleQueue[Work | None] = SimpleQueue()
        self._open: set[Work] = set()

    def result(self, stop: Callable[[], object]) -> Result:
        """The result of the call, or its error. `stop`: asks it to end."""
        try:
            start_new_thread(self._work.run, ())
            while (question := taken(self._questions)) is not None:
                question.run()
                if question.error is not None and undo.is_interruption(question.error):
                    raise question.error
        except BaseException as error:
            undo.hear(error)
            self._stop(stop)
            raise
        return self._work.result()

    def ask(self, item: Callable[[], object]) -> object:
        """Runs `item` in the waiting thread, for a thread of the statement; if nobody waits any more, in its own thread."""
        question = Work(item)
        with self._lock:
            if asked := not self._over:
                self._open.add(question)
                self._questions.put(question)
        if not asked:
            return item()
        try:
            return question.result()
        finally:
            self._open.discard(question)

    @property
    def is_running(self) -> bool:
        return self._work.begun and not self._work.ended.given

    def _end(self, work: Work[Result]) -> None:
        with self._lock:
            self._over = True
            self._questions.put(None)

    def _stop(self, stop: Callable[[], object]) -> None:
        self._work.give_up()
        with self._lock:
            self._over = True
        for question in list(self._open):
            question.ended.give()
        while self.is_running:
            stop()
            self._work.ended.wait(_AGAIN_S)


# -- connections with the settings of lsmlake -------------------------------------------------------------------------

_DATA_FILE = ".parquet'"
_MEMORY_MIN_BYTES = 64 << 20  # with less DuckDB fails rather than spill
_SETTINGS = (
    "SET enable_progress_bar = false; SET integer_division = false; SET ieee_floating_point_ops = true; "
    "SET enable_external_file_cache = false"  # the cache would keep its memory between statements
)
_CHANGED = ("memory_limit", "disabled_optimizers", "preserve_insertion_order", "threads")
"""The settings of a database that a statement may change."""


@contextmanager
def connected(zone: str, what: str) -> Iterator[PatientConnection]:
    """A connection to a database in memory that nobody else uses meanwhile, without the functions of Spark.

    Tables and views must be made `TEMP`. The next user of the database finds the settings of `_CHANGED` as they were; a statement
    must not change others.

    Args:
        zone: the time zone of the session.
        what: the feature that needs DuckDB, for the error message.

    Raises:
        MissingDependency: DuckDB is not installed.
    """
    with opened(zone, what) as connection:
        yield connection


@contextmanager
def opened(zone: str, what: str, setup: Callable[[Database], Iterable[str]] = lambda database: ()) -> Iterator[PatientConnection]:
    """As `connected`. `setup`: the statements that set up the connection."""
    with borrowed(_SETTINGS, what) as database:
        statements = [*(f"RESET {name}" for name in _CHANGED), f"SET TimeZone = '{_zone_in_duckdb(zone)}'", *setup(database)]
        try:
            connection = database.cursor("; ".join(statements))
        except database.refusal as error:
            raise InvalidQuery("unknown time zone", expected="a name such as Europe/Berlin or +01:00", found=zone) from error
        try:
            yield connection
        finally:
            connection.close()


def _zone_in_duckdb(zone: str) -> str:
    return f"GMT{zone}" if zone.startswith(("+", "-")) else {"Z": "UTC", "UT": "UTC"}.get(zone, zone)


def memory_limit(memory_bytes: int) -> str:
    """The value of DuckDB's setting `memory_limit` for about so many bytes."""
    return f"{max(memory_bytes, _MEMORY_MIN_BYTES)}B"


@contextmanager
def registered(connection: PatientConnection, name: str, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> Iterator[None]:
    """Lets queries read the batches under a name, once. An error of the batches is raised as it is, an error of DuckDB as in
    `translated_errors`."""
    failed: list[Exception] = []

    def guarded() -> Iterator[pa.RecordBatch]:
        try:
            yield from batches
        except Exception as error:
            failed.append(error)
            raise

    connection.register_batches(name, schema, guarded())
    try:
        with translated_errors():
            yield
    except LakeError:
        if failed:
            raise failed[0] from None
        raise
    finally:
        connection.unregister(name)


@contextmanager
def translated_errors(where: str = "") -> Iterator[None]:
    """Raises InvalidQuery for an error of DuckDB, such as a value that a cast refuses, Corrupt for a file that it cannot read,
    and EngineFailed if memory is short."""
    try:
        yield
    except Exception as error:
        duckdb: ModuleType = need("duckdb", "SQL")
        if not isinstance(error, duckdb.Error):
            raise
        if isinstance(error, duckdb.IOException) or _DATA_FILE in str(error):
            cure = Wording("verify() names the file", command="`lsmlake verify` names the file", sql="CALL verify names the file")
            raise Corrupt("a data file cannot be read", where=where, found=str(error).partition("\n")[0], cure=cure) from error
        if isinstance(error, duckdb.OutOfMemoryException):
            raise EngineFailed(
                "DuckDB has not enough memory",
                where=where,
                found=str(error).partition("\n")[0].partition(": ")[2] or str(error),
                cure="raise the table's write-buffer-size, or free space in the folder for temporary files",
            ) from error
        what, found, cure = failure(error)
        raise InvalidQuery(what, where=where, found=found, cure=cure) from error


# -- databases --------------------------------------------------------------------------------------------------------

_IDLE_MAX = 4


class Database:
    """A database in memory. It spills to a folder of its own.

    Attributes:
        made: names of the macros and other objects that were made in it and stay.
        refusal: the class of DuckDB's error for a setting that it does not know.
    """

    def __init__(self, settings: str, what: str) -> None:
        duckdb = need("duckdb", what)
        self.made: set[str] = set()
        self.refusal: type[Exception] = duckdb.NotImplementedException
        self._root = PatientConnection(duckdb.connect(":memory:"))
        self._root.execute(settings)
        self.folder = os.path.join(tempfile.gettempdir(), f"lsmlake-{os.getpid()}-{secrets.token_hex(8)}")
        quoted = self.folder.replace("'", "''")
        self._root.execute(f"SET temp_directory = '{quoted}'")  # DuckDB makes the folder when it spills, and removes it

    def cursor(self, setup: str) -> PatientConnection:
        """A new connection, on which the statements `setup` were executed. Closing it drops its `TEMP` objects."""

        def opened():
            inner = self._root.inner.cursor()
            inner.execute(setup)
            return inner

        return PatientConnection(self._root.wait_for(opened))

    def close(self) -> None:
        self._root.close()
        _remove([self.folder])


def _remove(folders: Iterable[str]) -> None:
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)


_idle: dict[str, list[Database]] = {}
"""The databases that nobody uses, by their settings."""
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_idle.clear)  # a forked process could neither use nor close them: it lacks their threads


@contextmanager
def borrowed(settings: str, what: str) -> Iterator[Database]:
    """A database that nobody else uses meanwhile. After an error, which may have been a lack of memory, it is not used again.

    Args:
        settings: the statements that set up a new database.
        what: the feature that needs DuckDB, for the error message.

    Raises:
        MissingDependency: DuckDB is not installed.
    """
    try:
        database = _idle[settings].pop()
    except (KeyError, IndexError):
        database = Database(settings, what)
    undo.made(_remove, [database.folder])
    try:
        yield database
    except BaseException:
        database.close()
        raise
    undo.kept(_remove, [database.folder])
    idle = _idle.setdefault(settings, [])
    if len(idle) < _IDLE_MAX:
        idle.append(database)
