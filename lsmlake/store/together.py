"""Several buckets or files at once, in threads: Arrow, NumPy and Parquet let go of the interpreter while they work."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from itertools import islice
from threading import Lock
from typing import Generic, TypeVar

Item, Result = TypeVar("Item"), TypeVar("Result")
_STEP = 2  # so that who has but one item is known to be at the end without being asked again


def together(
    work: Callable[[Item], Result | None], items: Iterable[Item], workers: int, undo: Callable[[list[Result]], object]
) -> list[Result]:
    """`work` of every item, at most `workers` at once; an item is taken when there is room for it. The results, but for `None`,
    stand in the order they came; with one worker it is that of the items, and there is no thread.

    After an error, or an interruption, no more is begun; what runs comes to its end, `undo` gets all results there are, and the
    first error is raised."""
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
    running: set[Future[None]] = set()
    with ThreadPoolExecutor(workers) as pool:
        for item in items:
            if len(running) == workers:
                running = _some_done(running)
            running.add(pool.submit(one, item))
        while running:
            running = _some_done(running)


def _some_done(running: set[Future[None]]) -> set[Future[None]]:
    """Wait for at least one; returns those still running. Raises what it raised."""
    done, left = wait(running, return_when=FIRST_COMPLETED)
    for future in done:
        future.result()
    return left


def ahead(streams: Iterable[Generator[Item]], workers: int) -> Iterator[Item]:
    """The items of all streams; up to `workers` streams run at once, each at most two items ahead of who takes them. They take
    turns, so the order depends on nothing but the streams and `workers`: with one it is theirs, and there is no thread.

    An error of a stream comes in its place. After it, or when nobody wants more, what runs comes to the end of its step, and
    every stream that has begun is closed."""
    if workers == 1:
        for stream in streams:
            yield from stream
        return
    begun, running = iter(streams), deque()
    with ThreadPoolExecutor(workers) as pool:

        def run(some: Iterable[Generator[Item]]) -> None:
            running.extend((stream, pool.submit(_step, stream)) for stream in some)

        try:
            run(islice(begun, workers))
            while running:
                stream, step = running.popleft()
                items = step.result()
                run([stream] if len(items) == _STEP else islice(begun, 1))
                yield from items
        finally:
            wait([step for _, step in running])
            for stream, _ in running:
                stream.close()


def _step(stream: Iterator[Item]) -> list[Item]:
    return list(islice(stream, _STEP))


class Once(Generic[Result]):
    """A value that whoever asks first makes; who asks meanwhile waits."""

    def __init__(self, make: Callable[[], Result]) -> None:
        self._make, self._lock, self._made = make, Lock(), []

    def __call__(self) -> Result:
        with self._lock:
            if not self._made:
                self._made.append(self._make())
            return self._made[0]
