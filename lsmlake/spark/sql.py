"""Statements of `Lake.sql` with Spark attached: Spark executes the queries, in which the tables of the lake are temporary views.

Only the names of tables are replaced in the text, with their VERSION AS OF, so it keeps its meaning to Spark, which also binds
the parameters of a query. Names without a database, and tables that the lake does not have, are Spark's own. A view holds one
snapshot.

A query inside a statement is a text of its own, with its parameters in it. The condition and values of a DELETE or UPDATE are
evaluated over the rows of the table under the name that it has in the statement. (`spark.statements` has the plans.)

Views are dropped at the end of the statement. Connect analyses a DataFrame again whenever it is used, so there the views of a
query stay in the session.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial

import pyarrow as pa
import sqlglot
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as F
from sqlglot import exp

from lsmlake.api.runtime import Runtime
from lsmlake.dialect.literals import text_of
from lsmlake.dialect.reading import passed_on, peek
from lsmlake.dialect.text import PlainSpark, Text
from lsmlake.dialect.view_use import ViewUse
from lsmlake.errors import EngineFailed, TableNotFound
from lsmlake.read.plan import plan
from lsmlake.schema.defaults import WRITE, default_of
from lsmlake.schema.schema import Schema
from lsmlake.schema.type_text import backticked, format_type
from lsmlake.spark.statements import execute
from lsmlake.spark.statements.clauses import converted
from lsmlake.spark.statements.errors import translated
from lsmlake.spark.statements.target import Target
from lsmlake.spark.types import is_connect
from lsmlake.sql.catalog import Catalog, Rows
from lsmlake.sql.change import without_database
from lsmlake.sql.engine import RowChange
from lsmlake.sql.files import is_file
from lsmlake.store.version import Version
from lsmlake.write.statement import DmlReport, evaluated

_VALUE = "_lsmlake_value_"
_AT_VERSION = re.compile(r"@[vV]\d+", re.ASCII)


@dataclass
class SparkEngine:
    """What a session does for one statement, see `sql.engine`; a context manager, at whose end the statement is executed.
    `args`: the parameters of a query. `uneven`: as in `write.upsert`."""

    spark: object
    runtime: Runtime
    args: Mapping[str, object] | Sequence[object] | None
    uneven: set[str] = field(default_factory=set)
    _views: ExitStack = field(default_factory=ExitStack)

    def __enter__(self) -> SparkEngine:
        return self

    def __exit__(self, *_: object) -> None:
        self._views.close()

    def query(self, node: exp.Expression, text: Text, catalog: Catalog, *, explain: bool) -> DataFrame:
        made = f"{'EXPLAIN ' if explain else ''}{self._replaced(node, text, catalog)}"
        found = self.spark.sql(made, self.args) if self.args else self.spark.sql(made)
        if is_connect(self.spark):
            self._views.pop_all()
        return found

    def rows(self, node: exp.Expression, text: Text, catalog: Catalog) -> DataFrame:
        return self.spark.sql(self._own(node, text, catalog))

    def assigned(
        self, rows: DataFrame, sources: Mapping[str, int | exp.Expression], schema: Schema
    ) -> tuple[DataFrame, Callable[[], int]]:
        count = Observation()
        rows = rows.toDF(*(f"c{number}" for number in range(len(rows.columns)))).observe(count, F.expr("count(*) as n"))
        constants = {name: value.sql(PlainSpark) for name, value in sources.items() if isinstance(value, exp.Expression)}
        places = {name: f"c{source}" for name, source in sources.items() if isinstance(source, int)}
        places |= {name: f"s{number}" for number, name in enumerate(constants)}
        rows = rows.selectExpr("*", *(f"{text} as s{number}" for number, text in enumerate(constants.values())))
        made, columns = {one.name: one for one in rows.schema.fields}, []
        for column in schema.plain_columns:
            place = places.get(column.name)
            if place is not None:
                columns.append(f"{converted(made[place], column, column.name)} as {backticked(column.name)}")
            elif default_of(schema.columns.field(column.name), WRITE) is None and column.nullable:
                columns.append(f"null as {backticked(column.name)}")
        return rows.selectExpr(*columns), lambda: int(count.get["n"] or 0)

    def change(self, change: RowChange, text: Text, catalog: Catalog) -> DmlReport:
        name = change.target.alias or change.target.name

        def evaluate(version: Version) -> DmlReport:
            def own(part: exp.Expression) -> str:
                return self._own(without_database(part, change.target), text, catalog)

            catalog.pin(change.target, version)
            condition = None if change.where is None else own(change.where)
            refine = partial(_refined, name=name, condition=condition, values=[own(value) for value in change.values.values()])
            reads_itself = catalog.reads(change.node, change.target)
            target = Target(
                self.spark, version, isolation=change.isolation(version), refine=refine, own=reads_itself, uneven=self.uneven
            )
            if change.deletes:
                return execute.delete(target)
            return execute.update(target, {column: f"{_VALUE}{number}" for number, column in enumerate(change.values)})

        return evaluated(change.table.version, evaluate)

    def _own(self, node: exp.Expression, text: Text, catalog: Catalog) -> str:
        """A part of a statement as text of its own, with views."""
        part = Text(text_of(node, text))
        with part.read() as own:
            passed_on(own)  # Spark reads it
            return self._replaced(own, part, catalog)

    def _replaced(self, node: exp.Expression, text: Text, catalog: Catalog) -> str:
        """The text of a query or expression, with views."""
        names = {cte.alias.lower() for cte in node.find_all(exp.CTE)}
        replaced: list[tuple[int, int, str]] = []
        views: dict[tuple, str] = {}
        for table in node.find_all(exp.Table):
            rows = self._rows(table, names, catalog)
            if rows is None:
                continue
            key = (catalog.name(table).lower(), id(rows))
            if key not in views:
                views[key] = self._view(rows, f"lsmlake_{catalog.lake.env.ids()}")
            replaced += _replacements(table, node, text, views[key])
        made = text.text
        for start, stop, by in sorted(replaced, reverse=True):
            made = made[:start] + by + made[stop:]
        return made

    def _rows(self, table: exp.Table, ctes: set[str], catalog: Catalog) -> Rows | None:
        """What a name stands for; None if it is Spark's own."""
        parts = [part.name for part in table.parts]
        if not isinstance(peek(table, "this"), exp.Identifier):  # a function
            return None
        if len(parts) > 2 or is_file(table) or (len(parts) == 1 and (parts[0].lower() in ctes or not catalog.is_named(table))):
            return None
        try:
            return catalog.rows(table)
        except TableNotFound:
            if not self.spark.catalog.tableExists(".".join(map(backticked, parts))):
                raise
            return None

    def _view(self, rows: Rows, name: str) -> str:
        if isinstance(rows, Version):
            frame = self.runtime.frame(plan(rows), None, "auto")
        elif isinstance(rows, ViewUse):
            frame = self._of_view(rows)
        else:
            frame = self.spark.createDataFrame(rows) if isinstance(rows, pa.Table) else rows.to_spark()
        frame.createOrReplaceTempView(name)
        self._views.callback(self.spark.catalog.dropTempView, name)
        return name

    def _of_view(self, view: ViewUse) -> DataFrame:
        """The rows of a view, with the columns and types of then."""
        found = self.spark.sql(self._replaced(view.tree(), view.text, view.catalog))
        columns = zip(view.numbers(found.columns), view.columns, strict=True)
        plain = found.toDF(*(f"c{number}" for number in range(len(found.columns))))
        return plain.selectExpr(*(f"CAST(c{at} AS {format_type(one.type)}) AS {backticked(one.name)}" for at, one in columns))


@contextmanager
def errors_of_text() -> Iterator[None]:
    """Raises Spark's errors about the text of a statement, or about values that it computes, as errors of lsmlake, also if they
    come from a method of a table."""
    with translated():
        try:
            yield
        except EngineFailed as error:
            if isinstance(error.__cause__, PySparkException):
                raise error.__cause__ from None
            raise


def _refined(rows: DataFrame, name: str, condition: str | None, values: Sequence[str]) -> DataFrame:
    """The rows for which the condition is true, with the values as further columns."""
    rows = rows.alias(name)
    if condition is not None:
        rows = rows.where(condition)
    return rows.selectExpr("*", *(f"({text}) as {_VALUE}{number}" for number, text in enumerate(values))) if values else rows


def _replacements(table: exp.Table, node: exp.Expression, text: Text, view: str) -> list[tuple[int, int, str]]:
    """Places in the text and what to write there: the name of the view, and columns without the database of the table."""
    first, last = table.parts[0], table.parts[-1]
    stop = last.meta["end"] + 1
    at_version = _AT_VERSION.match(text.text, stop)
    end = at_version.end() if at_version else _after_version(text.text, stop) if table.args.get("version") else stop
    alias = "" if table.alias else f" AS {backticked(table.name)}"
    found = [(first.meta["start"], end, f"{view}{alias}")]
    if not table.alias:
        for column in node.find_all(exp.Column):
            names = [part.name.lower() for part in column.parts]
            if names[:2] == [part.name.lower() for part in table.parts] and len(names) > 2:
                found.append((column.parts[0].meta["start"], column.parts[1].meta["start"], ""))
    return found


def _after_version(text: str, start: int) -> int:
    """The place behind `[FOR] VERSION AS OF 12`, which begins at `start`."""
    tokens = sqlglot.tokenize(" " * start + text[start:], dialect=PlainSpark)
    place = next(number for number, token in enumerate(tokens) if token.text.upper() == "OF") + 1
    if tokens[place].text.upper() == "TIMESTAMP":  # TIMESTAMP AS OF TIMESTAMP '...'
        place += 1
    return tokens[place].end + 1
