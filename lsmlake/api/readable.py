"""Rows as Arrow, pandas, Polars and DuckDB objects: `Readable`, the methods that scans and changes share, and `Result`, the rows
of a SQL statement.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from types import ModuleType

import pyarrow as pa
import pyarrow.compute as pc

from lsmlake.api.public_types import DuckDBConnection, DuckDBRelation, PandasDataFrame, PolarsDataFrame
from lsmlake.border import public
from lsmlake.errors import InvalidQuery
from lsmlake.extras import need
from lsmlake.interruption import as_stream
from lsmlake.kernels.interval_text import with_texts
from lsmlake.notebook import html_rows, offered
from lsmlake.read.limit import first_rows
from lsmlake.schema.values import texts
from lsmlake.schema.years import has_outside
from lsmlake.types.intervals import column_of_months


def duckdb_connection(connection: DuckDBConnection | None) -> DuckDBConnection | ModuleType:
    """The given DuckDB connection, else the module `duckdb`, whose functions use the default connection. Raises InvalidQuery,
    MissingDependency."""
    duckdb = need("duckdb", "to_duckdb()")
    if connection is not None and not isinstance(connection, duckdb.DuckDBPyConnection):
        expected, given = "the result of duckdb.connect(), or None", type(connection).__name__
        raise InvalidQuery("not a DuckDB connection", where="to_duckdb()", expected=expected, found=given, cure="pass one")
    if connection is not None:
        try:
            connection.cursor().close()
        except duckdb.ConnectionException:
            cure = "pass an open connection"
            raise InvalidQuery("the connection is closed", where="to_duckdb()", cure=cure) from None
    return duckdb if connection is None else connection


@contextmanager
def in_python(rows: pa.Table, where: str) -> Iterator[None]:
    """A context for the conversion of `rows` to Python values. Raises InvalidQuery for dates and times outside Python's range: no
    table has such values, but a query can compute them."""
    try:
        yield
    except (OverflowError, ValueError) as error:
        if not (names := [name for name in rows.column_names if has_outside(rows[name])]):
            raise
        raise InvalidQuery(
            "Python has no dates and times outside the years 1 to 9999",
            where=f"{where}, column {names[0]!r}",
            expected="years 0001 to 9999",
            found=error,
            cure="cast the column to STRING in the query, or read the rows as Arrow",
        ) from error


def cells(rows: pa.Table) -> list[list[str]]:
    """The values of each column as text."""
    return [["NULL" if value is None else value for value in texts(column)] for column in rows.columns]


def html_table(title: str, rows: pa.Table) -> str:
    """Rows as HTML for a notebook."""
    shown = with_texts(rows)
    return html_rows(title, shown.column_names, zip(*cells(shown), strict=True))


_EXACT_MAX = 2**53
"""A DOUBLE holds every integer up to this one."""


def _rounded_beside_nulls(column: pa.ChunkedArray) -> bool:
    """Whether floats, which pandas has where integers and nulls meet, would round integers of a column or inside its values."""
    if pa.types.is_list(column.type) or pa.types.is_large_list(column.type):
        return _rounded_beside_nulls(pc.list_flatten(column))
    if pa.types.is_map(column.type):
        return _rounded_beside_nulls(pa.chunked_array([chunk.items for chunk in column.chunks], column.type.item_type))
    if pa.types.is_struct(column.type):
        return any(_rounded_beside_nulls(pc.struct_field(column, [place])) for place in range(column.type.num_fields))
    if not column.null_count or not pa.types.is_integer(column.type):
        return False
    least, most = pc.min_max(column).as_py().values()
    return least is not None and max(-least, most) > _EXACT_MAX


def check_rows(rows: int) -> None:
    """Raises InvalidQuery if the number of rows for `head` is negative."""
    if rows < 0:
        raise InvalidQuery("rows is negative", where="head()", expected="0 or more", found=rows, cure="correct rows")


@public
class Readable:
    """Rows that `to_batches` reads again on every call.

    An object with the Arrow stream interface: `polars.DataFrame(scan)`, `duckdb.sql("SELECT * FROM scan")` and
    `pyarrow.table(scan)` accept it.
    """

    def to_batches(self) -> pa.RecordBatchReader:
        """The rows as a stream of record batches."""
        raise NotImplementedError

    def to_arrow(self) -> pa.Table:
        """All rows as a pyarrow.Table."""
        return self.to_batches().read_all()

    def to_pylist(self) -> list[dict[str, object]]:
        """All rows as dicts of Python values.

        Raises:
            InvalidQuery: a date or time is outside the years 1 to 9999, which Python lacks.
        """
        rows = self.to_arrow()
        with in_python(rows, "to_pylist()"):
            return rows.to_pylist()

    def head(self, rows: int = 10) -> pa.Table:
        """The first rows, in no particular order unless the rows have one. Reads little more than them.

        Raises:
            InvalidQuery: `rows` is negative.
        """
        check_rows(rows)
        with closing(self.to_batches()) as reader:
            tables = (pa.Table.from_batches([batch]) for batch in reader)
            return pa.concat_tables([reader.schema.empty_table(), *first_rows(tables, rows)])

    def to_pandas(self) -> PandasDataFrame:
        """All rows as a pandas.DataFrame. A column of integers with nulls has floats; if a float would round an integer of
        one such column, all such columns have Python's integers and None.

        Raises:
            MissingDependency: pandas is not installed.
            InvalidQuery: a date or time is outside the years 1 to 9999, which Python lacks.
        """
        need("pandas", "to_pandas()")
        rows = self.to_arrow()
        with in_python(rows, "to_pandas()"):
            return rows.to_pandas(integer_object_nulls=any(map(_rounded_beside_nulls, rows.columns)))

    def to_polars(self) -> PolarsDataFrame:
        """All rows as a polars.DataFrame.

        Raises:
            MissingDependency: Polars is not installed.
        """
        return need("polars", "to_polars()").from_arrow(self.to_arrow())

    def to_duckdb(self, connection: DuckDBConnection | None = None) -> DuckDBRelation:
        """A DuckDB relation over the rows. Each execution of the relation reads the rows again.

        Args:
            connection: the connection that the relation belongs to. Default: the default connection of the module `duckdb`.

        Raises:
            MissingDependency: DuckDB is not installed.
        """
        return duckdb_connection(connection).from_arrow(self)

    def __dir__(self) -> list[str]:
        return offered(super().__dir__())

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return as_stream(self.to_batches(), requested_schema)


# -- rows of SQL ------------------------------------------------------------------------------------------------------

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
