"""A listing: named columns of values, drawn as a table on a terminal and as plain aligned text everywhere else.

On a terminal numbers are rounded, times are short and columns that do not fit a narrow window are left out. Plain text is for
`grep`, `sort` and `awk`: a line a row under one line of titles, every column, exact numbers, nothing shortened.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator, Sequence
from enum import Enum
from typing import NamedTuple

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.style import Style
from rich.table import Table
from rich.text import Text

from lsmlake.report.text import local_stamp, local_time, printable
from lsmlake.report.units import human_bytes, human_count

_QUIET = Style(dim=True)
_NONE = "-"


class Kind(Enum):
    """What a column holds, which decides how it is written."""

    TEXT = "text"
    PATH = "path"  # on a terminal its last part, shortened if need be
    WORD = "word"  # shortened if need be, such as an identifier
    NUMBER = "number"  # an ordinal, never rounded
    COUNT = "count"
    BYTES = "bytes"
    TIME = "time"


_RIGHT = (Kind.NUMBER, Kind.COUNT, Kind.BYTES)
_SHORTENED = (Kind.PATH, Kind.WORD)
_SHORTENED_LEAST, _FOLDED_LEAST = 13, 12
_GAP = 2
_SHORT: dict[Kind, Callable[..., str]] = {
    Kind.PATH: lambda path: printable(path.rpartition("/")[2]),
    Kind.COUNT: human_count,
    Kind.BYTES: human_bytes,
    Kind.TIME: local_time,
}


class Column(NamedTuple):
    """`values`: str, int, datetime with a zone, or None. Left out of a window narrower than `from_width`."""

    title: str
    kind: Kind
    values: Sequence[str | int | datetime.datetime | None]
    from_width: int = 0


class Listing(NamedTuple):
    """Columns of one length. `caption` stands under the table on a terminal, and alone if there are no rows."""

    columns: tuple[Column, ...]
    caption: str = ""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        if self.columns[0].values:
            yield _table([column for column in self.columns if column.from_width <= options.max_width], options.max_width)
        if self.caption:
            yield Text(self.caption, _QUIET if self.columns[0].values else "")

    def lines(self) -> Iterator[str]:
        """Plain text, titles first."""
        return aligned(
            [column.title.replace(" ", "_") for column in self.columns],
            list(zip(*(map(_exact, column.values) for column in self.columns), strict=True)),
            [column.kind in _RIGHT for column in self.columns],
        )


def aligned(titles: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[bool]) -> Iterator[str]:
    """Cells under their titles, each column as wide as its widest, two blanks apart; no blanks at the end of a line."""
    widths = [max(map(cell_len, cells)) for cells in zip(titles, *rows, strict=True)]
    for row in (titles, *rows):
        yield "  ".join(_padded(cell, width, at_end) for cell, width, at_end in zip(row, widths, right, strict=True)).rstrip()


def _padded(text: str, width: int, right: bool) -> str:
    blanks = " " * (width - cell_len(text))
    return blanks + text if right else text + blanks


def _table(columns: Sequence[Column], width: int) -> Table:
    cells = [[_short(column.kind, value) for value in column.values] for column in columns]
    table = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0), header_style="bold")
    for column, fitting in zip(columns, _widths(columns, cells, width), strict=True):
        table.add_column(
            Text(column.title),
            justify="right" if column.kind in _RIGHT else "left",
            width=fitting,
            overflow="ellipsis" if column.kind in _SHORTENED else "fold",
            no_wrap=column.kind in _SHORTENED,
        )
    for row in zip(*cells, strict=True):
        table.add_row(*row)
    return table


def _widths(columns: Sequence[Column], cells: Sequence[Sequence[Text]], width: int) -> list[int]:
    """What each column needs; if that is too much, identifiers are shortened and then texts folded, but never numbers."""
    widths = [max(len(column.title), *(text.cell_len for text in texts)) for column, texts in zip(columns, cells, strict=True)]
    excess = sum(widths) + _GAP * (len(widths) - 1) - width
    for kinds, least in ((_SHORTENED, _SHORTENED_LEAST), ((Kind.TEXT,), _FOLDED_LEAST)):
        for place in reversed([place for place, column in enumerate(columns) if column.kind in kinds]):
            given = max(min(excess, widths[place] - least), 0)
            widths[place] -= given
            excess -= given
    return widths


def _short(kind: Kind, value: object) -> Text:
    if value is None:
        return Text(_NONE, _QUIET)
    return Text(_SHORT.get(kind, lambda other: printable(str(other)))(value))


def _exact(value: object) -> str:
    if value is None:
        return _NONE
    return local_stamp(value) if isinstance(value, datetime.datetime) else printable(str(value))
