"""Progress on standard error, if it is a terminal; erased when the work is done."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, SpinnerColumn, TextColumn, TimeElapsedColumn

Result = TypeVar("Result")


def progress_bar() -> Progress:
    """A bar for tasks with a known number of steps."""
    return _progress(BarColumn(), MofNCompleteColumn())


def spinner() -> Progress:
    """A spinner for a task with an unknown number of steps."""
    return _progress()


@contextmanager
def busy(what: str) -> Iterator[Callable[[str], None]]:
    """A context with a spinner beside `what`. Yields a function that replaces this text."""
    with spinner() as progress:
        task = progress.add_task(what, total=None)
        yield lambda text: progress.update(task, description=text)


def waiting(work: Callable[[], Result]) -> Result:
    """The result of `work`; shows a spinner meanwhile."""
    with busy("running"):
        return work()


def _progress(*columns: ProgressColumn) -> Progress:
    what = TextColumn("{task.description}", markup=False)
    shown = (SpinnerColumn(), what, *columns, TimeElapsedColumn())
    return Progress(*shown, console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty())
