"""The verbs of view tables: tables that hold the rows of a query, and are kept by the changes of its tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lsmlake.api.lake_verbs.administration import CatalogVerbs
from lsmlake.api.public_types import OptionValue
from lsmlake.api.table import Table
from lsmlake.border import verbs_of
from lsmlake.errors import InvalidQuery
from lsmlake.maintain.refresh_report import RefreshReport


@verbs_of("Lake")
class ViewTables(CatalogVerbs):
    """The verbs of view tables: tables that hold the rows of a query, and are kept by the changes of its tables."""

    def create_view_table(
        self,
        name: str,
        query: str,
        *,
        partition_by: Sequence[str] = (),
        options: Mapping[str, OptionValue] | None = None,
        comment: str | None = None,
        if_not_exists: bool = False,
        replace: bool = False,
    ) -> Table:
        """Create a table that holds the rows of a query, and fill it. `refresh` and `maintain` keep it by the changes of the
        tables that the query reads.

        It is read as any table. Only a refresh writes it. The query is evaluated in this process, also with Spark attached.

        Args:
            name: "database.table".
            query: a query in Spark SQL over tables of this lake. `sum`, `count`, `avg`, `min` and `max` over one table or an
                inner join are kept without reading the tables again; the chapter about view tables lists what other queries
                cost.
            partition_by: columns of the key: expressions of GROUP BY or, without it, of the primary keys of the tables.
            options: table options by name.
            comment: a description of the table.
            if_not_exists: open the view table if it exists; its query is not compared. Default: raise TableExists.
            replace: if a view table has this name, give it this query and its rows, by one commit.

        Raises:
            TableExists: the table exists; with `if_not_exists` or `replace`, it is a table without a query.
            TableNotFound: the database does not exist, or a table of the query.
            InvalidQuery: the query is not valid, or reads what is no table of this lake.
            InvalidSchema: no table can have the columns of the query.
            InvalidOption: an option is unknown, or would give the table other rows than those of the query.
            MissingDependency: DuckDB is not installed.

        Example:
            >>> lake.create_view_table("sales.revenue", "SELECT dt, sum(amount) AS total FROM sales.orders GROUP BY dt")
        """
        if if_not_exists and replace:
            what = "if_not_exists and replace exclude each other"
            raise InvalidQuery(what, where=name, found="both", cure="pass one of them")
        keeper, settings = self.runtime.keeps_views, (partition_by, options, comment)
        made = keeper.defined(name, query, self.session.database, self.runtime.zone, *settings)
        keeper.create(self.env, made, if_not_exists=if_not_exists, replaces=replace)
        return self.table(name)

    def refresh(self, name: str, *, full: bool = False) -> RefreshReport:
        """Bring a view table to the newest snapshots of the tables that its query reads, by one commit.

        Each change counts once, also if a refresh is interrupted, or several run at a time. Without a new snapshot of these
        tables nothing happens.

        Args:
            name: "database.table".
            full: evaluate the query for all rows, whatever has changed.

        Returns:
            Which way was taken and why, how much was read and written, and the snapshots whose changes the rows now show.

        Raises:
            TableNotFound: the view table does not exist, or a table of its query.
            InvalidQuery: the table has no query, or its tables were altered so that the query gives other columns.
            CommitConflict: other refreshes came first on every attempt.
            MissingDependency: DuckDB is not installed.

        Example:
            >>> lake.refresh("sales.revenue").way
            'changes'
        """
        return self.runtime.keeps_views.refresh(self.env, name, full=full)
