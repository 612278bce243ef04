"""All options there are: a page to read on a terminal, a line per option in plain text."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import pyarrow as pa
from rich.console import Console, ConsoleOptions, RenderResult
from rich.padding import Padding
from rich.text import Text

from lsmlake.report.listing import QUIET, Column, Kind, Listing
from lsmlake.report.text import counted

_INDENT = 4


class Reference(NamedTuple):
    """`options`: name, default, takes and description of each."""

    options: pa.Table

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for option in self.options.to_pylist():
            default = f" = {option['default']}" if option["default"] is not None else ""
            yield Text.assemble((option["name"], "bold"), default)
            yield Padding(Text(f"{option['description']}; takes {option['takes']}"), (0, 0, 0, _INDENT))
        total = counted(self.options.num_rows, "option")
        yield Text(f"{total}, with their defaults; fields.<column>.<what> are for single columns", QUIET)

    def lines(self) -> Iterator[str]:
        return Listing(
            tuple(
                Column(title, Kind.TEXT, self.options[name].to_pylist())
                for title, name in (("option", "name"), ("default", "default"), ("takes", "takes"), ("meaning", "description"))
            )
        ).lines()
