"""Concurrent work on several buckets or files in threads of this process (Arrow, NumPy and Parquet release the GIL while they
work); and the loop of attempts of writers that compete.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from itertools import islice
from queue import SimpleQueue
from threading import Lock
from typing import Generic, NamedTuple, TypeVar

from lsmlake.beside import Threads, taken
from lsmlake.errors import CommitConflict, LakeError, Wording
from lsmlake.storage.env import Env

Item, Result = TypeVar("Item"), TypeVar("Result")
_STEP = 2  # items: so the first step already shows that a stream with a single item has ended


def together(
    work: Callable[[Item], Result | None], items: Iterable[Item], workers: int, undo: Callable[[list[Result]], object]
) -> list[Result]:
    """Applies `work` to every item, at most `workers` at once; an item is taken only when a worker is free.

    Returns the results other than None in order of completion. With one worker, this is the order of the items, and no thread is
    started. After an error or an interruption, no further item is started; running ones finish, `undo` receives all results, and
    the first error is raised.
    """
    results: list[Result] = []

    def one(item: Item) -> None:
        if (result := work(item)) is not None:
            results.append(result)

    try:
        if workers == 1:
            for item in items:
                one(item)
        else:
            _spread(one, items, workers)
    except BaseException:
        undo(results)
        raise
    return results


def _spread(one: Callable[[Item], None], items: Iterable[Item], workers: int) -> None:
    running, ended = 0, SimpleQueue()
    with Threads(workers) as threads:
        for item in items:
            if running == workers:
                taken(ended).result()
                running -= 1
            threads.submit(one, item, end=ended.put)
            running += 1
        for _ in range(running):
            taken(ended).result()


def side_by_side(calls: Sequence[Callable[[], Result]], workers: int) -> list[Result]:
    """The results of calls: this thread makes the first one, up to `workers` others make the rest. With one worker, the calls
    are made in order, and no thread is started. After an error, the other calls finish, and the first error is raised."""
    if workers == 1 or len(calls) < _STEP:
        results = []
        for call in calls:
            results.append(call())
        return results
    first, *others = calls
    with Threads(min(workers, len(others))) as threads:
        running = [threads.submit(call) for call in others]
        first_result = first()
    return [first_result, *(done.result() for done in running)]


def ahead(streams: Iterable[Generator[Item]], workers: int) -> Iterator[Item]:
    """Yields the items of all streams; up to `workers` of them run concurrently, and one more has begun, so that no worker waits
    for the caller. Each is at most two items ahead of the caller.

    Streams take turns, so the order depends only on the streams and `workers`. With one worker, streams follow one another, and
    no thread is started. A stream's error is raised in the place of its item. After an error, or when the caller stops, running
    steps finish and every started stream is closed.
    """
    if workers == 1:
        for stream in streams:
            yield from stream
        return
    begun, running = iter(streams), deque()
    with Threads(workers) as threads:

        def run(some: Iterable[Generator[Item]]) -> None:
            running.extend((stream, threads.submit(_step, stream)) for stream in some)

        try:
            run(islice(begun, workers + 1))
            while running:
                stream, step = running.popleft()
                items = step.result()
                run([stream] if len(items) == _STEP else islice(begun, 1))
                yield from items
        finally:
            for stream, step in running:
                step.ended.wait()
                stream.close()


def prefetched(items: Iterator[Item], threads: Threads) -> Iterator[Item]:
    """Yields the items; a thread makes the next one while the caller works on the current one."""
    upcoming = threads.submit(next, items, None)
    while (item := upcoming.result()) is not None:
        upcoming = threads.submit(next, items, None)
        yield item


def _step(stream: Iterator[Item]) -> list[Item]:
    return list(islice(stream, _STEP))


class Once(Generic[Result]):
    """A value created by the first call; concurrent calls wait for it."""

    def __init__(self, make: Callable[[], Result]) -> None:
        self._make, self._lock, self._made = make, Lock(), []

    def __call__(self) -> Result:
        with self._lock:
            if not self._made:
                self._made.append(self._make())
            return self._made[0]


# -- attempts ---------------------------------------------------------------------------------------------------------


class Waits(NamedTuple):
    """The wait before the second attempt, and the longest wait. Each wait is twice the one before, times a random factor from 0.5
    to 1.5, so that writers that collided once do not collide again."""

    env: Env
    first_ms: int
    longest_ms: int


def attempts(
    count: int,
    failed: str,
    where: str,
    cure: str | Wording,
    waits: Waits | None = None,
    kind: type[LakeError] = CommitConflict,
) -> Iterator[int]:
    """Yields the numbers of `count` attempts, from 0. The caller leaves the loop when an attempt succeeds.

    Raises:
        `kind`: after the last attempt, with the message of `failed`, `where` and `cure`.
    """
    wait_ms = 0 if waits is None else waits.first_ms
    for number in range(count):
        if number and wait_ms:
            waits.env.sleep(wait_ms * (0.5 + waits.env.random()) / 1000)
            wait_ms = min(2 * wait_ms, waits.longest_ms)
        yield number
    raise kind(failed, where=where, found=f"{count} attempts", cure=cure)
