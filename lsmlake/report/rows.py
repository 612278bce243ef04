"""Shows rows of a table: the columns that fit on a terminal, or all columns in plain text."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any

import pyarrow as pa

from lsmlake.report.listing import GAP, QUIET, CellKind, Listing, ListingColumn, drawn_width
from lsmlake.report.text import counted
from lsmlake.schema.values import is_number, texts


class Rows:
    """Rows of a table with a line below that counts them.

    Args:
        noun: the word for a row in this line.
        first: the text of this line if the table holds only the first rows: "first 100 rows". Default: the number of rows.
        cure: how to see the columns that are left out.
    """

    def __init__(
        self, table: pa.Table, noun: str = "row", first: str = "", cure: str = "name some with --columns, or use --json"
    ) -> None:
        self.table, self.noun, self.first, self.cure = table, noun, first, cure

    @cached_property
    def _columns(self) -> tuple[ListingColumn, ...]:
        fields = zip(self.table.schema, self.table.columns, strict=True)
        return tuple(
            ListingColumn(
                field.name, CellKind.VALUE_NUMBER if is_number(field.type) else CellKind.VALUE, texts(column), none="NULL"
            )
            for field, column in fields
        )

    def __rich_console__(self, console: object, options: Any) -> Iterator[object]:
        from rich.text import Text

        shown = self._fitting(options.max_width)
        left = len(self._columns) - len(shown)
        hidden = f"; {counted(left, 'column')} left out" if left else ""
        cure = f": {self.cure}" if left or self.first else ""
        caption = (self.first or counted(self.table.num_rows, self.noun)) + hidden + cure
        if self.table.num_rows:
            yield Listing(shown, caption)
        else:
            yield Text(f"no {self.noun}s", QUIET)

    def _fitting(self, width: int) -> tuple[ListingColumn, ...]:
        """Returns the first columns that fit in `width`, at least one."""
        used = -GAP
        for number, column in enumerate(self._columns):
            used += GAP + drawn_width(column)
            if number and used > width:
                return self._columns[:number]
        return self._columns

    def lines(self) -> Iterator[str]:
        return Listing(self._columns).lines()
