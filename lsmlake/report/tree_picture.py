"""A picture of one bucket's LSM tree: one line per sorted run, newest first, with a bar of its rows; deleted rows are hatched.

Bars are linear in rows and have one scale: live rows solid, then deleted ones, at least one cell for each kind that exists. The
two differ in character and in colour; a terminal without Unicode gets ASCII. Bars and key ranges share the width that the numbers
leave, and the common prefix of all keys is omitted.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import NamedTuple

from rich import box
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.panel import Panel
from rich.segment import Segment
from rich.style import Style
from rich.table import Table
from rich.text import Text

from lsmlake.report.listing import end_elided
from lsmlake.report.text import human_bytes, human_count, human_share, printable
from lsmlake.report.tree_rows import TreeRow

_LIVE, _DEAD, _QUIET = Style(color="cyan"), Style(color="red"), Style(dim=True)
_LEAST_WIDTH_WITH_KEYS = 72
_LEAST_PREFIX = 4  # a shorter common beginning of the keys is not worth a mark in its place


def tree_picture(rows: Iterable[TreeRow], *, title: str = "") -> Panel:
    """Returns the picture of one bucket for a rich console of at least 56 columns; with less than 72 it omits the keys.

    Runs of one level stay in the order given, which should be newest first.
    """
    runs = tuple(sorted(rows, key=lambda run: run.level))
    picture = _Tree(runs) if runs else Text("no files yet", _QUIET)
    return Panel(picture, title=Text(title, "bold") if title else None, title_align="left", box=box.ROUNDED, border_style=_QUIET)


class _Tree(NamedTuple):
    """The content of the frame: at least one run, in display order."""

    runs: tuple[TreeRow, ...]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield self._table(with_keys=options.max_width >= _LEAST_WIDTH_WITH_KEYS)
        yield ""
        yield self._legend(options)

    def _table(self, *, with_keys: bool) -> Table:
        most = max(run.rows for run in self.runs)
        prefix = common_prefix([key for run in self.runs for key in (run.min_key, run.max_key)])
        table = Table(box=None, expand=True, pad_edge=False, padding=(0, 2, 0, 0), header_style=_QUIET)
        table.add_column("", style="bold", no_wrap=True)
        table.add_column("newest first", ratio=1, no_wrap=True)
        for name in ("rows", "dead", "files", "size"):
            table.add_column(name, justify="right", no_wrap=True)
        if with_keys:
            table.add_column("keys", ratio=1, no_wrap=True)
        newer_levels = [None, *(run.level for run in self.runs)]
        for run, newer_level in zip(self.runs, newer_levels, strict=False):
            cells = (
                "" if run.level == newer_level else f"L{run.level}",
                _Bar(run.rows - run.dead, run.dead, most),
                human_count(run.rows),
                Text(f"{human_count(run.dead)} {human_share(run.dead, run.rows):>5}", _DEAD) if run.dead else Text("-", _QUIET),
                human_count(run.files),
                human_bytes(run.bytes),
            )
            table.add_row(*cells, *([_KeyRange(run.min_key, run.max_key, len(prefix))] if with_keys else []))
        return table

    def _legend(self, options: ConsoleOptions) -> Text:
        """Returns the legend of the bars, with the totals of the bucket."""
        solid, hatched = _cells(options)
        rows, dead = sum(run.rows for run in self.runs), sum(run.dead for run in self.runs)
        files, size = sum(run.files for run in self.runs), sum(run.bytes for run in self.runs)
        return Text.assemble(
            (solid * 2, _LIVE),
            f" {human_count(rows - dead)} live   ",
            (hatched * 2, _DEAD),
            f" {human_count(dead)} dead ({human_share(dead, rows)})   ",
            (f"{_counted(len(self.runs), 'run')}, {_counted(files, 'file')}, {human_bytes(size)}", _QUIET),
        )


class _Bar(NamedTuple):
    """`live` and `dead` rows on a scale where `most` rows fill the width."""

    live: int
    dead: int
    most: int

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        solid, hatched = _cells(options)
        live, dead = bar_cells(self.live, self.dead, self.most, options.max_width)
        yield Segment(solid * live, _LIVE)
        yield Segment(hatched * dead, _DEAD)


class _KeyRange(NamedTuple):
    """Both ends of a key range, the longer one shortened first; a mark replaces the first `skip` characters."""

    min_key: str
    max_key: str
    skip: int

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        mark, to = ("~", " - ") if options.ascii_only else ("…", " → ")
        head = mark if self.skip else ""
        first, last = (head + _printable(key[self.skip :], options.ascii_only) for key in (self.min_key, self.max_key))
        room = options.max_width - len(to)
        first = end_elided(first, max(room // 2, room - cell_len(last)), mark)
        yield Segment(first + to + end_elided(last, room - cell_len(first), mark), _QUIET)


def bar_cells(live: int, dead: int, most: int, width: int) -> tuple[int, int]:
    """Returns the cells for live and for deleted rows if `most` rows fill `width`: rounded, at least one for a kind that
    exists."""
    if live + dead == 0:
        return 0, 0
    least = (live > 0) + (dead > 0)
    both = min(max(round((live + dead) / most * width), least), width)
    hatched = min(max(round(dead / most * width), int(dead > 0)), both - (live > 0))
    return both - hatched, hatched


def common_prefix(texts: Collection[str]) -> str:
    """Returns the common prefix of `texts`, empty if it is too short to be worth omitting."""
    first, last = min(texts), max(texts)
    length = next((at for at, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), min(len(first), len(last)))
    return first[:length] if length >= _LEAST_PREFIX else ""


def _printable(text: str, ascii_only: bool) -> str:
    """Returns `text` on one line, with escapes for control characters and characters that the terminal cannot show."""
    return ascii(text)[1:-1] if ascii_only else printable(text)


def _counted(count: int, noun: str) -> str:
    return f"{human_count(count)} {noun}{'' if count == 1 else 's'}"


def _cells(options: ConsoleOptions) -> tuple[str, str]:
    return ("#", ".") if options.ascii_only else ("█", "░")
