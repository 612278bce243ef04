"""The interface of another engine, such as Spark, that executes queries and the parts of a statement that contain queries."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

from sqlglot import exp

from lsmlake.api.public_types import SparkDataFrame
from lsmlake.dialect.sql_text import Text
from lsmlake.schema.schema import Schema
from lsmlake.sql.named_tables import Catalog
from lsmlake.statements.statement import StatementQueries


class Engine(Protocol):
    """An engine for one statement. The rows stay in the engine, and expressions follow the engine's rules."""

    def query(self, node: exp.Expression, text: Text, catalog: Catalog, *, explain: str | None) -> SparkDataFrame:
        """The rows of a statement that is a query, or with `explain` its plan. The parameters of the query are not bound."""

    def rows(self, node: exp.Expression, text: Text, catalog: Catalog) -> SparkDataFrame:
        """The rows of a query inside a statement."""

    def explained(self, node: exp.Expression, text: Text, catalog: Catalog, mode: str) -> Iterable[str]:
        """The engine's plan for a query inside a statement, as lines."""

    def assigned(
        self, rows: SparkDataFrame, sources: Mapping[str, int | exp.Expression], schema: Schema
    ) -> tuple[SparkDataFrame, Callable[[], int]]:
        """The rows converted to the columns of a table, and a function that counts them once they are written. `sources`: column
        -> the column of `rows`, or a constant. Raises InvalidQuery for a type that does not fit; a value that does not fit
        fails when it is computed."""

    def queries(self, node: exp.Expression, target: exp.Table, text: Text, catalog: Catalog) -> StatementQueries:
        """The queries in the expressions of a DELETE, UPDATE or MERGE."""
