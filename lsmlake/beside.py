"""Work in other threads, for a thread that can be interrupted at any time.

An interruption, such as KeyboardInterrupt, can leave `Event`, `Future` and `ThreadPoolExecutor` of the standard library locked,
or make them forget work that goes on. These classes use only locks and queues of which each call is one step.
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
"""A thread that waits for longer would miss an interruption that came just before it began to wait."""


class Signal:
    """Given once, by any thread; any thread can wait for it."""

    def __init__(self) -> None:
        self.given, self._lock = False, allocate_lock()
        self._lock.acquire()

    def give(self) -> None:
        self.given = True
        self._open()

    def wait(self, seconds: float = -1) -> bool:
        """Returns whether it was given; -1: waits until it is."""
        while not self.given:
            if self._lock.acquire(timeout=_LOOK_EVERY_S if seconds < 0 else seconds):
                self._open()
            elif seconds >= 0:
                break
        return self.given

    def _open(self) -> None:
        with suppress(RuntimeError):  # it is open
            self._lock.release()


def taken(queue: SimpleQueue[Item]) -> Item:
    """The next item of a queue."""
    while True:
        with suppress(Empty):
            return queue.get(timeout=_LOOK_EVERY_S)


class GivenUp(Exception):
    """The work did not end within its time limit."""


class Work(Generic[Result]):
    """A call that another thread makes, in the context of the thread that orders it. `ended`: with a result, an error, or never
    begun."""

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
        end, self._call, self._end = self._end, None, None  # both can lead back here, and the result would live on
        end(self)
        self.ended.give()

    def give_up(self) -> None:
        """Keeps the call from beginning."""
        with self._lock:
            if not self.begun:
                self.ended.give()

    def result(self) -> Result:
        """Waits for the end; returns the result or raises the error, GivenUp if there is neither."""
        self.ended.wait()
        if self.error is not None:
            raise self.error
        return self._found[0]


def begin(call: Callable[[], Result]) -> Work[Result]:
    """A call that another thread makes now, and that goes on if nobody waits for it."""
    work = Work(call)
    start_new_thread(work.run, ())
    return work


class Threads:
    """Threads for a part of a call. The end of the context waits for their work; after an interruption, no more of it begins."""

    def __init__(self, workers: int) -> None:
        self._workers, self._threads = workers, 0
        self._queue: SimpleQueue[Work | None] = SimpleQueue()
        self._open: set[Work] = set()

    def submit(
        self, call: Callable[..., Result], *args: object, end: Callable[[Work[Result]], object] = lambda work: None
    ) -> Work[Result]:
        """Orders a call. `end`: is called in its thread when it has ended."""

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
        del work  # lest it is kept until the next one comes
