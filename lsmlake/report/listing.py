"""A listing: named columns of values, shown as a table on a terminal and as aligned plain text elsewhere.

On a terminal each row is one line: numbers are rounded, times are short, long texts are shortened in the middle. Columns that do
not fit are omitted and named in the line after the table; numbers are never cut. Plain text is for `grep`, `sort` and `awk`: one
line of titles and one line per row, with all columns, exact numbers and full texts.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator, Sequence
from enum import Enum
from typing import Any, NamedTuple

from rich.cells import cell_len, set_cell_size

from lsmlake.report.text import human_bytes, human_count, printable, utc_stamp, utc_time

QUIET = "dim"
"""The style of Rich for what matters less. Only a terminal needs more of Rich than the widths of characters, so the rest is
imported where a view is drawn."""


class CellKind(Enum):
    """The kind of values in a column, which determines their format."""

    TEXT = "text"  # a name; shortened after words and paths
    PATH = "path"  # on a terminal the name of the file, without .parquet
    WORD = "word"  # an identifier, or keys
    NUMBER = "number"  # an ordinal, never rounded
    COUNT = "count"
    BYTES = "bytes"
    TIME = "time"
    PROSE = "prose"  # a sentence, wrapped; at most one column of a listing
    VALUE = "value"  # a value of a user's column, at most _VALUE_MOST wide on a terminal
    VALUE_NUMBER = "number value"  # a number in a user's column, never rounded


_RIGHT = (CellKind.NUMBER, CellKind.COUNT, CellKind.BYTES, CellKind.VALUE_NUMBER)
_SHRINKING = ((CellKind.PROSE, 24), (CellKind.PATH, 13), (CellKind.WORD, 13), (CellKind.TEXT, 12), (CellKind.VALUE, 8))
"""The kinds of columns that shrink in a narrow window, in this order, and their minimum widths."""
_VALUE_MOST = 32
GAP = 2
_SHORT: dict[CellKind, Callable[..., str]] = {
    CellKind.PATH: lambda path: printable(path.rpartition("/")[2].removesuffix(".parquet")),
    CellKind.COUNT: human_count,
    CellKind.BYTES: human_bytes,
    CellKind.TIME: utc_time,
}


class ListingColumn(NamedTuple):
    """`values`: str, int, datetime with a zone, or None. Omitted in a window narrower than `from_width`."""

    title: str
    kind: CellKind
    values: Sequence[str | int | datetime.datetime | None]
    from_width: int = 0
    none: str = "-"


class Listing(NamedTuple):
    """Columns of equal length. `caption` follows the table on a terminal; without rows it is shown alone."""

    columns: tuple[ListingColumn, ...]
    caption: str = ""

    def __rich_console__(self, console: object, options: Any) -> Iterator[object]:
        from rich.text import Text

        if self.columns[0].values:
            shown = _fitting([column for column in self.columns if column.from_width <= options.max_width], options.max_width)
            yield _table(shown)
            left_out = ", ".join(column.title for column in self.columns if all(column is not other for other, _ in shown))
            if notes := [*filter(None, [self.caption]), *([f"no room for {left_out}: use --json"] if left_out else [])]:
                yield Text("; ".join(notes), QUIET)
        elif self.caption:
            yield Text(self.caption)

    def lines(self) -> Iterator[str]:
        """Yields plain text, titles first."""
        return aligned(
            [column.title.replace(" ", "_") for column in self.columns],
            list(zip(*([_exact(column, value) for value in column.values] for column in self.columns), strict=True)),
            [column.kind in _RIGHT for column in self.columns],
        )


def aligned(titles: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[bool]) -> Iterator[str]:
    """Yields aligned lines, titles first, two blanks between columns and no trailing blanks."""
    widths = [max(map(cell_len, cells)) for cells in zip(titles, *rows, strict=True)]
    for row in (titles, *rows):
        yield "  ".join(_padded(cell, width, at_end) for cell, width, at_end in zip(row, widths, right, strict=True)).rstrip()


def _padded(text: str, width: int, right: bool) -> str:
    blanks = " " * (width - cell_len(text))
    return blanks + text if right else text + blanks


def drawn_width(column: ListingColumn) -> int:
    """Returns the width of the column on a terminal without shortening, in cells."""
    return max(cell_len(_title(column)), *(cell_len(_short(column, value)) for value in column.values), 1)


def _fitting(columns: Sequence[ListingColumn], width: int) -> list[tuple[ListingColumn, int]]:
    """Returns the columns that fit in `width` after texts were shortened, with their widths; always includes the first column.
    Identifiers are omitted first, then columns for wide windows, then the last column."""
    shown, needs = list(columns), [drawn_width(column) for column in columns]
    while len(shown) > 1 and _excess(_widths(shown, needs, width), width) > 0:
        places = range(1, len(shown))
        place = max(places, key=lambda place: (shown[place].kind is CellKind.WORD, shown[place].from_width, place))
        del shown[place], needs[place]
    return [(column, min(room, width)) for column, room in zip(shown, _widths(shown, needs, width), strict=True)]


def _table(columns: Sequence[tuple[ListingColumn, int]]) -> object:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, padding=(0, GAP, 0, 0), header_style="bold")
    for column, room in columns:
        table.add_column(
            Text(middle_elided(_title(column), room)),
            justify="right" if column.kind in _RIGHT else "left",
            width=room,
            overflow="fold",
            no_wrap=column.kind is not CellKind.PROSE,
        )
    cells = [
        [Text(_fitted(column, value, room), QUIET if value is None else "") for value in column.values]
        for column, room in columns
    ]
    for row in zip(*cells, strict=True):
        table.add_row(*row)
    return table


def _fitted(column: ListingColumn, value: object, room: int) -> str:
    text = _short(column, value)
    return text if column.kind is CellKind.PROSE else middle_elided(text, room)


def _widths(columns: Sequence[ListingColumn], needs: Sequence[int], width: int) -> list[int]:
    """Returns the widths of the columns: their `needs`, reduced in the order of `_SHRINKING` if they exceed `width`. Numbers are
    never shortened."""
    widths = list(needs)
    excess = _excess(widths, width)
    for kind, least in _SHRINKING:
        for place in reversed([place for place, column in enumerate(columns) if column.kind is kind]):
            given = max(min(excess, widths[place] - least), 0)
            widths[place] -= given
            excess -= given
    return widths


def _title(column: ListingColumn) -> str:
    """Returns the title on a terminal; it names the zone of times."""
    return f"{column.title} (UTC)" if column.kind is CellKind.TIME else column.title


def _excess(widths: Sequence[int], width: int) -> int:
    return sum(widths) + GAP * (len(widths) - 1) - width


def _short(column: ListingColumn, value: object) -> str:
    if value is None:
        return column.none
    text = _SHORT.get(column.kind, lambda other: printable(str(other)))(value)
    return end_elided(text, _VALUE_MOST) if column.kind is CellKind.VALUE else text


def _exact(column: ListingColumn, value: object) -> str:
    if value is None:
        return column.none
    return utc_stamp(value) if isinstance(value, datetime.datetime) else printable(str(value))


def end_elided(text: str, width: int, mark: str = "…") -> str:
    """Returns `text` in at most `width` cells; if it is longer, `mark` replaces its end."""
    if cell_len(text) <= width:
        return text
    return set_cell_size(text, max(width - cell_len(mark), 0)).rstrip() + mark


def middle_elided(text: str, width: int, mark: str = "…") -> str:
    """Returns `text` in at most `width` cells; if it is longer, `mark` replaces its middle, since names differ at both ends."""
    if cell_len(text) <= width:
        return text
    room = max(width - cell_len(mark), 0)
    end = text[len(text) - room // 2 :] if room >= 2 else ""
    while cell_len(end) > room // 2:  # characters of two cells
        end = end[1:]
    return set_cell_size(text, room - cell_len(end)).rstrip() + mark + end
