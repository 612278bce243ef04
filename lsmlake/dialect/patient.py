"""A connection of DuckDB whose statements can be interrupted.

DuckDB runs a statement in the thread that calls it. An interruption there, such as Ctrl-C, becomes an error of DuckDB, or is lost
and the statement goes on; one of a Python iterator that it reads becomes text. So in the main thread, the only one that signals
reach, statements run in a thread of their own:

1. The main thread waits, and meanwhile reads the iterators that the statement asks for. So an interruption is raised in plain
   Python, inside the iterator or outside.
2. Then it stops the statement, waits for its end, and raises the interruption. A further one ends the waiting.
"""

from __future__ import annotations

from _thread import start_new_thread
from collections.abc import Callable, Iterable, Iterator
from queue import SimpleQueue
from threading import Lock, get_ident, main_thread
from typing import Generic, TypeVar

import pyarrow as pa

from lsmlake import undo
from lsmlake.beside import Work, taken

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
            found = item() if waiting is None else waiting.ask(item)
            if found is _END:
                return
            yield found

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
            self.inner.close()  # executes nothing


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
        found = connection.wait_for(lambda: member(*bare, **named))
        return PatientRelation(connection, found) if hasattr(found, "union") else found

    return call


class _Waiting(Generic[Result]):
    """A call in a thread of its own, and the thread that waits for it."""

    def __init__(self, call: Callable[[], Result]) -> None:
        self._work = Work(call, self._end)
        self._lock, self._over = Lock(), False  # nobody answers questions any more
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
        """The answer of the thread that waits, for one of the statement. Nobody waits for the threads that read ahead."""
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
