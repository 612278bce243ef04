"""The verbs of SQL: a statement, and the names of the tables in the SQL of a Spark session."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from lsmlake.api.lake_verbs.administration import CatalogVerbs
from lsmlake.api.public_types import Data, SparkDataFrame, SparkSession
from lsmlake.api.readable import Result
from lsmlake.border import verbs_of
from lsmlake.errors import LakeError


@verbs_of("Lake")
class Sql(CatalogVerbs):
    """The verbs of SQL: a statement, and the names of the tables in the SQL of a Spark session."""

    def sql(
        self,
        text: str,
        args: Mapping[str, object] | Sequence[object] | None = None,
        *,
        tables: Mapping[str, Data] | None = None,
    ) -> Result | SparkDataFrame:
        """Execute a statement of Spark SQL. Each table is read at one snapshot, and each changed table gets one commit.

        Args:
            text: a query with tables as database.table, a change of rows or of tables, or CALL of a procedure. Unsupported
                SQL is refused before anything happens, with its place in the text.
            args: values of the parameters: {"id": 7} for `:id`, or a list for `?`. They are values, never parts of the text.
            tables: further data by name, such as a pyarrow.Table, for names without a database; with Spark attached also
                DataFrames, whose rows stay in Spark.

        Returns:
            Without Spark a Result; with Spark attached a DataFrame for a query.

        Raises:
            InvalidQuery: the statement is not valid, or fails on a value.
            TableNotFound: a table does not exist.
            MissingDependency: DuckDB is not installed, which executes queries without Spark.

        Example:
            >>> lake.sql("SELECT * FROM sales.orders WHERE order_id = :id", args={"id": 7}).fetchall()
        """
        try:
            result = self.runtime.executes(self, text, args, dict(tables or {}))
        except LakeError as error:
            if (worded := error.for_sql()) is error:
                raise
            raise worded from error.__cause__
        return Result(result) if isinstance(result, pa.Table) else result

    def register_tables(self, spark: SparkSession, database: str | None = None) -> list[str]:
        """Put tables into Spark's catalog: spark.table("sales.orders"), INSERT INTO and INSERT OVERWRITE of Spark SQL.

        A query reads the latest snapshot. The columns are the current ones: call it again after an alteration. `sql` and
        `Table.df` read faster, and Spark refuses DELETE, UPDATE, MERGE and VERSION AS OF on these names. Dropping one of them
        in Spark leaves the table.

        Args:
            spark: a SparkSession, classic or Connect.
            database: the tables of this database. None: all tables.

        Returns:
            The names, as "database.table".

        Raises:
            TableNotFound: the database does not exist.
            InvalidQuery: Spark has another table of this name, or cannot take it.
            MissingDependency: PySpark is not installed.

        Example:
            >>> lake.register_tables(spark, "sales")
            >>> spark.sql("INSERT INTO sales.orders SELECT * FROM new_orders")
        """
        runtime = self.runtime.attached(spark)
        return runtime.on_spark("register_tables()").register_tables(self, database)

    def register_views(self, spark: SparkSession, database: str | None = None) -> list[str]:
        """Make a temporary view of each table in a Spark session, named as the table. A query of it reads the latest snapshot.

        Also puts the tables into Spark's catalog, as `register_tables`, because the views name them.

        Args:
            spark: a SparkSession, classic or Connect.
            database: the tables of this database. None: all tables, whose names must differ.

        Returns:
            The names of the views.

        Raises:
            TableNotFound: the database does not exist.
            InvalidQuery: two tables have one name; or as `register_tables`.
            MissingDependency: PySpark is not installed.

        Example:
            >>> lake.register_views(spark, database="sales")
            >>> spark.sql("SELECT count(*) FROM orders")
        """
        runtime = self.runtime.attached(spark)
        return runtime.on_spark("register_views()").register_views(self, database)
