"""`Readable`: the methods that return rows as Arrow, pandas, Polars and DuckDB objects, shared by scans and changes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from types import ModuleType

import pyarrow as pa

from lsmlake.api.types import DuckDBConnection, DuckDBRelation, PandasDataFrame, PolarsDataFrame
from lsmlake.border import public
from lsmlake.errors import InvalidQuery
from lsmlake.extras import need
from lsmlake.interruption import as_stream
from lsmlake.kernels.interval_text import with_texts
from lsmlake.notebook import html_rows, offered
from lsmlake.read.limit import first_rows
from lsmlake.schema.values import texts
from lsmlake.schema.years import has_outside


def duckdb_connection(connection: DuckDBConnection | None) -> DuckDBConnection | ModuleType:
    """A connection of DuckDB, or the module, whose functions are those of its default connection. Raises InvalidQuery,
    MissingDependency."""
    duckdb = need("duckdb", "to_duckdb()")
    if connection is not None and not isinstance(connection, duckdb.DuckDBPyConnection):
        expected, found = "the result of duckdb.connect(), or None", type(connection).__name__
        raise InvalidQuery("not a DuckDB connection", where="to_duckdb()", expected=expected, found=found, cure="pass one")
    return duckdb if connection is None else connection


@contextmanager
def in_python(rows: pa.Table, where: str) -> Iterator[None]:
    """Around a conversion of `rows` to values of Python. Raises InvalidQuery for dates and times that Python lacks: no table has
    such values, but a query can compute them."""
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
    """Rows for a notebook."""
    shown = with_texts(rows)
    return html_rows(title, shown.column_names, zip(*cells(shown), strict=True))


def check_rows(rows: int) -> None:
    """Raises InvalidQuery unless `head` can return so many rows."""
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
        """All rows as a pandas.DataFrame.

        Raises:
            MissingDependency: pandas is not installed.
            InvalidQuery: a date or time is outside the years 1 to 9999, which Python lacks.
        """
        need("pandas", "to_pandas()")
        rows = self.to_arrow()
        with in_python(rows, "to_pandas()"):
            return rows.to_pandas()

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
