"""What everything that can be read has in common: rows as Arrow, for pandas, Polars and DuckDB."""

from __future__ import annotations

import pyarrow as pa

from lsmlake.border import public
from lsmlake.errors import InvalidQuery
from lsmlake.extras import need


@public
class Readable:
    """Rows that `to_batches` reads anew at every call. Anything that takes the Arrow stream interface takes this object too:
    `polars.DataFrame(scan)`, `duckdb.sql("SELECT * FROM scan")`, `pyarrow.table(scan)`."""

    def to_batches(self) -> pa.RecordBatchReader:
        """The rows as they are read."""
        raise NotImplementedError

    def to_arrow(self) -> pa.Table:
        """All rows as a pyarrow.Table."""
        return self.to_batches().read_all()

    def to_pandas(self):
        """All rows as a pandas.DataFrame. Raises MissingDependency."""
        need("pandas", "to_pandas()")
        return self.to_arrow().to_pandas()

    def to_polars(self):
        """All rows as a polars.DataFrame. Raises MissingDependency."""
        return need("polars", "to_polars()").from_arrow(self.to_arrow())

    def to_duckdb(self, connection: object | None = None):
        """A DuckDB relation over the rows, which are read when the relation is executed, at every execution anew.

        `connection`: default is the one of the module `duckdb`. Raises MissingDependency.
        """
        duckdb = need("duckdb", "to_duckdb()")
        if connection is not None and not isinstance(connection, duckdb.DuckDBPyConnection):
            expected, found = "the result of duckdb.connect(), or None", type(connection).__name__
            raise InvalidQuery("no DuckDB connection", where="to_duckdb()", expected=expected, found=found, cure="pass one")
        return (duckdb if connection is None else connection).from_arrow(self)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self.to_batches().__arrow_c_stream__(requested_schema)
