"""The reference of all options: a page by group on a terminal, a line per option in plain text."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import NamedTuple

import pyarrow as pa

from lsmlake.report.listing import GAP, QUIET, CellKind, Listing, ListingColumn
from lsmlake.report.text import counted

_INDENT = 4
_SELF_EVIDENT = {"boolean", "size", "duration", "columns"}
"""Types that are explained once, below the options."""
_NOTES = (
    "a size is 128 mb, or a number of bytes; a duration is 10 min; columns are names separated by commas",
    "rewrites: a change compacts all buckets in full; while empty: no change once there are rows",
)
_LINES = (
    ("option", "name"),
    ("type", "type"),
    ("default", "default"),
    ("takes", "takes"),
    ("only with", "only_with"),
    ("origin", "origin"),
    ("can change", "change"),
    ("meaning", "description"),
)


class Reference(NamedTuple):
    """`options`: the result of `option_reference`."""

    options: pa.Table

    def __rich_console__(self, console: object, options: object) -> Iterator[object]:
        from rich.padding import Padding
        from rich.rule import Rule
        from rich.text import Text

        for group, members in groupby(self.options.to_pylist(), key=lambda option: option["group"]):
            yield Rule(Text(group, "bold"), align="left", style=QUIET)
            for option in members:
                yield _head(option)
                yield Padding(Text(option["description"]), (0, 0, 0, _INDENT))
                takes = [] if option["type"] in _SELF_EVIDENT else [option["takes"]]
                only = [f"only with {option['only_with']}"] if option["only_with"] else []
                if takes or only:
                    yield Padding(Text("; ".join(takes + only), QUIET), (0, 0, 0, _INDENT))
        total = counted(self.options.num_rows, "option")
        for note in (f"{total}, each with its default, type, origin, and when it can change", *_NOTES):
            yield Text(note, QUIET)

    def lines(self) -> Iterator[str]:
        return Listing(
            tuple(ListingColumn(title, CellKind.TEXT, self.options[name].to_pylist()) for title, name in _LINES)
        ).lines()


def _head(option: dict[str, str]) -> object:
    from rich.table import Table
    from rich.text import Text

    default = f" = {option['default']}" if option["default"] is not None else ""
    line = Table.grid(expand=True, padding=(0, GAP, 0, 0))
    line.add_column(overflow="fold")
    line.add_column(justify="right", style=QUIET)
    line.add_row(Text.assemble((option["name"], "bold"), default), f"{option['type']}, {option['origin']}, {option['change']}")
    return line
