"""Several buckets at once, in threads: Arrow, NumPy and Parquet let go of the interpreter while they work."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import TypeVar

Item, Result = TypeVar("Item"), TypeVar("Result")


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
