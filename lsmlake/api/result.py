"""`Result`: the rows that a SQL statement returned."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from lsmlake.api.readable import Readable, cells, html_table, in_python
from lsmlake.api.types import PolarsDataFrame
from lsmlake.border import public
from lsmlake.errors import InvalidQuery
from lsmlake.kernels.interval_text import with_texts
from lsmlake.types.intervals import column_of_months

_ROWS_SHOWN = 20
_WIDTH_MAX = 40


@public
@dataclass(frozen=True, repr=False)
class Result(Readable):
    """The rows of a SQL statement, in memory: `Lake.sql`. It has the Arrow stream interface.

    Example:
        >>> lake.sql("SELECT status, count(*) AS orders FROM sales.orders GROUP BY status").to_pandas()
    """

    rows: pa.Table

    def to_batches(self) -> pa.RecordBatchReader:
        """The rows as a stream of record batches."""
        return self.rows.to_reader()

    def to_arrow(self) -> pa.Table:
        """The rows as a pyarrow.Table."""
        return self.rows

    def fetchall(self) -> list[tuple[object, ...]]:
        """The rows as tuples of Python values.

        Raises:
            InvalidQuery: a date or time is outside the years 1 to 9999, which Python lacks.
        """
        with in_python(self.rows, "fetchall()"):
            return list(zip(*(column.to_pylist() for column in self.rows.columns), strict=True))

    def to_polars(self) -> PolarsDataFrame:
        """All rows as a polars.DataFrame.

        Raises:
            MissingDependency: Polars is not installed.
            InvalidQuery: a column is an INTERVAL of months, for which Polars has no type.
        """
        if (name := column_of_months(self.rows.schema)) is not None:
            cure = "cast it to STRING in the query"
            raise InvalidQuery("Polars has no INTERVAL of months", where="to_polars()", found=f"column {name!r}", cure=cure)
        return super().to_polars()

    def __len__(self) -> int:
        """The number of rows."""
        return self.rows.num_rows

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return self.rows.column_names

    def __repr__(self) -> str:
        """The first rows as a table of text."""
        shown = with_texts(self.rows.slice(0, _ROWS_SHOWN))
        cut = _short if len(shown.column_names) > 1 else str
        columns = [[name, *map(cut, values)] for name, values in zip(shown.column_names, cells(shown), strict=True)]
        widths = [max(map(len, column)) for column in columns]
        lines = [
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
            for row in zip(*columns, strict=True)
        ]
        lines[1:1] = ["  ".join("-" * width for width in widths)] if widths else []
        more = f", {_ROWS_SHOWN} shown" if self.rows.num_rows > _ROWS_SHOWN else ""
        return "\n".join([*lines, f"({self.rows.num_rows:,} {'row' if self.rows.num_rows == 1 else 'rows'}{more})"])

    def _repr_html_(self) -> str:
        """The first rows as a table."""
        return html_table(f"{self.rows.num_rows:,} rows", self.rows.slice(0, _ROWS_SHOWN))


def _short(value: str) -> str:
    return value if len(value) <= _WIDTH_MAX else value[: _WIDTH_MAX - 3] + "..."
