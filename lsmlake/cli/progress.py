"""Progress on standard error, if it is a terminal; erased when the work is done."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, SpinnerColumn, TextColumn, TimeElapsedColumn

from lsmlake.api.runtime import Runtime
from lsmlake.compact.job import CompactBuckets, compact_here
from lsmlake.schema.schema import Schema
from lsmlake.tables.metadata import Metadata

Result = TypeVar("Result")


def progress_bar() -> Progress:
    """A bar for tasks with a known number of steps."""
    return _progress(BarColumn(), MofNCompleteColumn())


def spinner() -> Progress:
    """A spinner for a task with an unknown number of steps."""
    return _progress()


def waiting(work: Callable[[], Result]) -> Result:
    """What `work` returns, after a spinner."""
    with spinner() as progress:
        progress.add_task("running", total=None)
        return work()


def _progress(*columns: ProgressColumn) -> Progress:
    what = TextColumn("{task.description}", markup=False)
    shown = (SpinnerColumn(), what, *columns, TimeElapsedColumn())
    return Progress(*shown, console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty())


class WatchedRuntime(Runtime):
    """The embedded runtime, with progress for each compacted bucket."""

    def __init__(self, progress: Progress) -> None:
        self.progress = progress

    def compactions(self, meta: Metadata, schema: Schema) -> CompactBuckets:
        return compact_here(meta, schema, partial(self.progress.track, description="compacting buckets"))
