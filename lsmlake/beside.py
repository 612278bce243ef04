"""Runs work in other threads for a caller thread that can be interrupted at any time.

An interruption, such as KeyboardInterrupt, can leave `Event`, `Future` and `ThreadPoolExecutor` of the standard library locked,
or make them lose track of running work. The classes here use only locks and queues whose calls are each one atomic step.
"""

from __future__ import annotations

from _thread import allocate_lock, start_new_thread
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from contextvars import copy_context
from functools import partial
from queue import Empty, SimpleQueue
from typing import Generic, TypeVar

Item, Result = TypeVar("Item"), TypeVar("Result")


_LOOK_EVERY_S = 0.1
"""The interval at which a waiting thread checks for an interruption that came just before it began to wait."""


class Signal:
    """An event that any thread gives once and any thread can wait for."""

    def __init__(self) -> None:
        self.given, self._lock = False, allocate_lock()
        self._lock.acquire()

    def give(self) -> None:
        self.given = True
        self._open()

    def wait(self, seconds: float = -1) -> bool:
        """Returns whether the signal was given within `seconds`; -1: waits without limit."""
        while not self.given:
            if self._lock.acquire(timeout=_LOOK_EVERY_S if seconds < 0 else seconds):
                self._open()
            elif seconds >= 0:
                break
        return self.given

    def _open(self) -> None:
        with suppress(RuntimeError):  # the lock is already open
            self._lock.release()


def taken(queue: SimpleQueue[Item]) -> Item:
    """The next item of a queue."""
    while True:
        with suppress(Empty):
            return queue.get(timeout=_LOOK_EVERY_S)


class GivenUp(Exception):
    """The work did not end within its time limit."""


class Work(Generic[Result]):
    """A call that another thread executes, in the context of the submitting thread. `ended`: given when the call has a result
    or an error, or will never begin."""

    def __init__(self, call: Callable[[], Result], end: Callable[[Work[Result]], object] = lambda work: None) -> None:
        self._call, self._end, self._lock = partial(copy_context().run, call), end, allocate_lock()
        self.begun, self.ended = False, Signal()
        self._found: list[Result] = []
        self.error: BaseException | None = GivenUp()

    def run(self) -> None:
        with self._lock:
            if self.ended.given:
                return
            self.begun = True
        try:
            self._found.append(self._call())
            self.error = None
        except BaseException as error:
            self.error = error
        end, self._call, self._end = self._end, None, None  # drops references to this object, which would keep the result alive
        end(self)
        self.ended.give()

    def give_up(self) -> None:
        """Prevents the call from beginning."""
        with self._lock:
            if not self.begun:
                self.ended.give()

    def result(self) -> Result:
        """Waits for the end; returns the result or raises the error, or GivenUp if the call never began."""
        self.ended.wait()
        if self.error is not None:
            raise self.error
        return self._found[0]


def begin(call: Callable[[], Result], end: Callable[[Work[Result]], object] = lambda work: None) -> Work[Result]:
    """Starts a call in another thread. It runs to its end even if nobody waits for it. `end`: called in that thread after the
    call has ended."""
    work = Work(call, end)
    start_new_thread(work.run, ())
    return work


class Threads:
    """A thread pool for part of a call. The end of the context waits for its work; after an interruption no more work begins."""

    def __init__(self, workers: int) -> None:
        self._workers, self._threads = workers, 0
        self._queue: SimpleQueue[Work | None] = SimpleQueue()
        self._open: set[Work] = set()

    def submit(
        self, call: Callable[..., Result], *args: object, end: Callable[[Work[Result]], object] = lambda work: None
    ) -> Work[Result]:
        """Submits a call. `end`: called in the same thread after the call has ended."""

        def ended(work: Work[Result]) -> None:
            self._open.discard(work)
            end(work)

        work = Work(partial(call, *args), ended)
        self._open.add(work)
        self._queue.put(work)
        if self._threads < self._workers:
            self._threads += 1
            start_new_thread(_run, (self._queue,))
        return work

    def map(self, call: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
        """The results for all items, in their order."""
        return (work.result() for work in [self.submit(call, item) for item in items])

    def __enter__(self) -> Threads:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None and not issubclass(kind, Exception):
            self._give_up()
        try:
            self._end()
        except BaseException:  # an interruption
            self._give_up()
            self._end()
            raise

    def _give_up(self) -> None:
        for work in list(self._open):
            work.give_up()

    def _end(self) -> None:
        for work in list(self._open):
            work.ended.wait()
        for _ in range(self._threads):
            self._queue.put(None)


def _run(queue: SimpleQueue[Work | None]) -> None:
    while (work := queue.get()) is not None:
        work.run()
        del work  # otherwise the variable keeps it until the next work comes
