"""The output of the demo: text, pictures and progress.

On a terminal, a bar stays at the bottom while a stream runs. Elsewhere, all output is plain lines, with one line of progress per
tenth of the stream.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn
from rich.rule import Rule
from rich.table import Table as Grid
from rich.text import Text

_WIDTH, _WIDEST = 100, 110
_TENTHS = 10
_LABEL = 13
_MARGIN = (0, 0, 0, 2)


class Screen:
    """Standard output, at most 110 columns wide, or 100 if its width is unknown."""

    def __init__(self, console: Console | None = None) -> None:
        self.console = console or _standard_output()

    def title(self, text: str) -> None:
        self._put(Text())
        self._put(Rule(Text(text, "bold"), align="left", style="dim"))

    def say(self, text: str) -> None:
        """Print a paragraph."""
        self._put(Text(text))

    def command(self, text: str) -> None:
        """Print a command on one line, however long, so that it can be copied."""
        self._put(Text(text), soft_wrap=True)

    def show(self, picture: RenderableType) -> None:
        """Print a picture after a blank line."""
        self._put(Text())
        self._put(Padding(picture, _MARGIN))

    def labelled(self, label: str, text: str, style: str = "dim") -> None:
        """Print `text` in a column beside `label`."""
        line = Grid.grid(padding=(0, 2, 0, 0))
        line.add_column(width=_LABEL, style=style)
        line.add_column()
        line.add_row(Text(label), Text(text))
        self._put(Padding(line, _MARGIN))

    @contextmanager
    def progress(self, ends: Sequence[int]) -> Iterator[Callable[[int, str], None]]:
        """Show the progress of a stream. Yields a function to call with the number of finished micro-batches and the current day.
        `ends`: the number of rows up to the end of each micro-batch."""
        began, batches = time.monotonic(), len(ends)

        def pace(done: int, day: str) -> str:
            rows, all_rows = ends[done - 1], f"{ends[-1]:,}"
            rate = rows / (time.monotonic() - began)
            counts = f"{done:>{len(str(batches))}} of {batches} micro-batches  {rows:>{len(all_rows)},} of {all_rows} events"
            return f"{counts}  {rate:>6,.0f} rows/s  {day}"

        if self.console.is_interactive:
            with _bar(self.console) as bar:
                task = bar.add_task("starting the stream", total=batches)
                yield lambda done, day: bar.update(task, completed=done, description=pace(done, day))
            return
        reported = {0}

        def line(done: int, day: str) -> None:
            tenth = done * _TENTHS // batches
            if tenth not in reported:
                reported.add(tenth)
                self.say(pace(done, day))

        yield line

    def _put(self, picture: RenderableType, *, soft_wrap: bool = False) -> None:
        if self.console.is_interactive:
            self.console.print(picture, soft_wrap=soft_wrap)
            return
        with self.console.capture() as drawn:
            self.console.print(picture, soft_wrap=soft_wrap)
        for line in drawn.get().splitlines():  # tables are padded to the right
            self.console.file.write(line.rstrip() + "\n")
        self.console.file.flush()


def _bar(console: Console) -> Progress:
    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), BarColumn(bar_width=None))
    return Progress(*columns, console=console, expand=True)


def _standard_output() -> Console:
    console = Console(highlight=False, markup=False, emoji=False)
    unknown = not console.is_terminal and "COLUMNS" not in os.environ
    console.width = _WIDTH if unknown else min(console.width, _WIDEST)
    return console
