"""What an engine beside this process does for a statement: it executes queries, and the parts that hold queries."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from sqlglot import exp

from lsmlake.api.table import Table
from lsmlake.api.types import SparkDataFrame
from lsmlake.dialect.text import Text
from lsmlake.schema.schema import Schema
from lsmlake.sql.catalog import Catalog
from lsmlake.store.version import Version
from lsmlake.write.statement import DmlReport


@dataclass(frozen=True)
class RowChange:
    """A DELETE or UPDATE that holds queries, or whose condition is not a predicate.

    Attributes:
        node: the statement.
        table: the table that it changes.
        where: the condition; None: all rows.
        values: column -> new value; empty for a DELETE.
    """

    node: exp.Delete | exp.Update
    table: Table
    where: exp.Expression | None
    values: Mapping[str, exp.Expression]

    @property
    def target(self) -> exp.Table:
        """The table as the statement names it."""
        return self.node.this

    @property
    def deletes(self) -> bool:
        return isinstance(self.node, exp.Delete)

    def isolation(self, version: Version) -> str:
        """The isolation level that the options of the table ask for."""
        levels = version.options.isolation
        return levels.delete if self.deletes else levels.update


class Engine(Protocol):
    """Its rows are not brought into this process, and expressions mean what they mean to it."""

    def query(self, node: exp.Expression, text: Text, catalog: Catalog, *, explain: bool) -> SparkDataFrame:
        """The rows of a statement that is a query, or how they are found. Its parameters are not bound."""

    def rows(self, node: exp.Expression, text: Text, catalog: Catalog) -> SparkDataFrame:
        """The rows of a query inside a statement."""

    def assigned(
        self, rows: SparkDataFrame, sources: Mapping[str, int | exp.Expression], schema: Schema
    ) -> tuple[SparkDataFrame, Callable[[], int]]:
        """Rows as those of a table, and their number once they are written. `sources`: column -> which column of `rows`, or a
        constant. Raises InvalidQuery for a value of another type; one that would lose something fails when it is computed."""

    def change(self, change: RowChange, text: Text, catalog: Catalog) -> DmlReport:
        """Executes a DELETE or UPDATE."""
