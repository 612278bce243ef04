"""Statements of `Lake.sql` with Spark attached: Spark executes the queries, in which the tables of the lake are temporary views.

Only table names, with their VERSION AS OF, are replaced in the text; Spark reads the rest, and binds the parameters of a query.
Names without a database, and tables that are not in the lake, are Spark's own. A view shows one snapshot.

Of other statements Spark gets parts of the text, with the values of parameters filled in: a query, and the expressions of a
DELETE, UPDATE or MERGE. It evaluates these over rows with the table names of the statement (see `spark.statements`).

Views are dropped at the end of the statement. Connect analyses a DataFrame again whenever it is used, so there the views of a
query stay in the session.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from types import MappingProxyType

import pyarrow as pa
import sqlglot
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as F
from sqlglot import exp

from lsmlake.api.runtime import Runtime
from lsmlake.dialect.grammar import PlainSpark
from lsmlake.dialect.literals import values_in
from lsmlake.dialect.sql_text import Text, peek
from lsmlake.dialect.table_use import ViewUse
from lsmlake.errors import EngineFailed, TableNotFound
from lsmlake.read.plan import plan
from lsmlake.schema.defaults import WRITE, default_of
from lsmlake.schema.schema import Schema
from lsmlake.spark.frame_types import is_connect, lengths
from lsmlake.spark.learned import Learned
from lsmlake.spark.statements.clauses import converted
from lsmlake.spark.statements.spark_errors import translated
from lsmlake.sql.file_relations import is_file
from lsmlake.sql.named_tables import Catalog, Rows
from lsmlake.statements.statement import ExpressionPart, ExpressionReader, Replacement, StatementQueries, spliced
from lsmlake.tables.version import Version
from lsmlake.types.type_text import backticked, format_type

_AT_VERSION = re.compile(r"@[vV]\d+", re.ASCII)


@dataclass
class SparkEngine:
    """A session as the engine of one statement (see `sql.engine`). A context manager: execute the statement inside it.
    `args`: the parameters of a query. `learned`: as in `spark.frame_writer.upsert`."""

    spark: object
    runtime: Runtime
    args: Mapping[str, object] | Sequence[object] | None
    learned: Learned = field(default_factory=Learned)
    _views: ExitStack = field(default_factory=ExitStack)
    _made: dict[tuple[str, int], tuple[object, str]] = field(default_factory=dict)

    def __enter__(self) -> SparkEngine:
        return self

    def __exit__(self, *_: object) -> None:
        self._views.close()

    def query(self, node: exp.Expression, text: Text, catalog: Catalog, *, explain: str | None) -> DataFrame:
        made = f"{f'{explain} ' if explain else ''}{self._replaced(node, text, catalog)}"
        frame = self.spark.sql(made, self.args) if self.args else self.spark.sql(made)
        if is_connect(self.spark):
            self._views.pop_all()
        return frame

    def rows(self, node: exp.Expression, text: Text, catalog: Catalog) -> DataFrame:
        return self.spark.sql(self._words(node, text, catalog))

    def explained(self, node: exp.Expression, text: Text, catalog: Catalog, mode: str) -> list[str]:
        plan = self.spark.sql(f"EXPLAIN {mode} {self._words(node, text, catalog)}").collect()[0][0]
        return [line for line in plan.splitlines() if line]

    def _words(self, node: exp.Expression, text: Text, catalog: Catalog) -> str:
        """Renders a query inside a statement as SQL, with the names of views."""
        replaced = self.replacements(node, text, catalog)
        with_ = node.args.get("with_")
        whole = text.span(node) is not None  # otherwise the query is SELECT * of one table
        start, stop = _span(node if whole else node.args["from_"].this, text)
        words = f"{'' if whole else 'SELECT * FROM '}{spliced(text.text, start, stop, replaced)}"
        if with_ is not None and not start <= (first := _span(with_, text))[0] < stop:  # the WITH stands before INSERT or MERGE
            words = f"{spliced(text.text, *first, replaced)}\n{words}"
        return words

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

    def queries(self, node: exp.Expression, target: exp.Table, text: Text, catalog: Catalog) -> StatementQueries:
        return _SparkQueries(self, node, target, text, catalog)

    def _replaced(self, node: exp.Expression, text: Text, catalog: Catalog) -> str:
        """The text of a statement that is a query, with views."""
        return spliced(text.text, 0, len(text.text), self.replacements(node, text, catalog))

    def replacements(
        self, node: exp.Expression, text: Text, catalog: Catalog, named: Mapping[str, str] = MappingProxyType({})
    ) -> list[Replacement]:
        """Replacements for the tables and parameters in a part of the text. `named`: WITH query -> its view."""
        inner = {cte.alias.lower() for cte in node.find_all(exp.CTE)}
        replaced = values_in(node)
        for table in node.find_all(exp.Table):
            if len(table.parts) == 1 and (name := table.name.lower()) not in inner and name in named:
                replaced += _replacements(table, node, text, named[name])
            elif (rows := self._rows(table, inner, catalog)) is not None:
                replaced += _replacements(table, node, text, self._view(catalog.name(table), rows, catalog))
        return replaced

    def named(self, node: exp.With | None, text: Text, catalog: Catalog) -> dict[str, str]:
        """Creates a view for each query of a WITH. Returns query name -> view name."""
        views: dict[str, str] = {}
        for cte in () if node is None else node.expressions:
            if cte.alias.lower() in views:
                text.refuse(cte, f"WITH names {cte.alias} twice", cure="give each query a name of its own")
            frame = self.spark.sql(spliced(text.text, *_span(cte.this, text), self.replacements(cte.this, text, catalog, views)))
            names = [column.name for column in cte.args["alias"].args.get("columns") or ()]
            views[cte.alias.lower()] = self._kept(frame.toDF(*names) if names else frame, catalog)
        return views

    def _rows(self, table: exp.Table, ctes: set[str], catalog: Catalog) -> Rows | None:
        """The rows that a table name stands for; None if the name is Spark's own."""
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

    def _view(self, name: str, rows: Rows, catalog: Catalog) -> str:
        """The name of the view of these rows. A statement that names them several times uses one view."""
        key = (name.lower(), id(rows))
        if key not in self._made:
            if isinstance(rows, Version):
                frame = self.runtime.frame(plan(rows), None, "auto")
            elif isinstance(rows, ViewUse):
                frame = self._of_view(rows)
            else:
                frame = self.spark.createDataFrame(rows) if isinstance(rows, pa.Table) else rows.to_spark()
            self._made[key] = rows, self._kept(frame, catalog)  # holding the rows keeps their id unique
        return self._made[key][1]

    def _kept(self, frame: DataFrame, catalog: Catalog) -> str:
        name = f"lsmlake_{catalog.lake.env.ids()}"
        frame.createOrReplaceTempView(name)
        self._views.callback(self.spark.catalog.dropTempView, name)
        return name

    def _of_view(self, view: ViewUse) -> DataFrame:
        """The rows of a view of the lake, with the columns and types that it was created with."""
        frame = self.spark.sql(self._replaced(view.tree(), view.text, view.catalog))
        columns = zip(view.numbers(frame.columns), view.columns, strict=True)
        plain = frame.toDF(*(f"c{number}" for number in range(len(frame.columns))))
        casts = ((F.expr(f"CAST(c{at} AS {format_type(one.type)})"), one) for at, one in columns)
        return plain.select(
            *(made.alias(one.name, metadata=lengths(one.declared) if one.declared else {}) for made, one in casts)
        )


@dataclass(frozen=True)
class _SparkQueries:
    """The expressions of a DELETE, UPDATE or MERGE as text for Spark. Tables in their queries become views."""

    engine: SparkEngine
    node: exp.Expression
    target: exp.Table
    text: Text
    catalog: Catalog

    @property
    def own(self) -> bool:
        return self.catalog.reads(self.node, self.target)

    def at(self, version: Version) -> ExpressionReader:
        raise AssertionError("Spark reads text")

    def replacements(self, part: ExpressionPart, version: Version) -> list[Replacement]:
        self.catalog.pin(self.target, version)
        named = self.engine.named(peek(self.node, "with_"), self.text, self.catalog) if part.node.find(exp.Query) else {}
        replaced = self.engine.replacements(part.node, self.text, self.catalog, named)
        using = peek(self.node, "using")
        for table in (self.target, using if isinstance(using, exp.Table) else None):
            if table is not None and not table.alias:
                replaced += _without_database(table, part.node)
        return replaced


@contextmanager
def errors_of_text() -> Iterator[None]:
    """Translates Spark's errors about the text of a statement, or about computed values, into errors of lsmlake, also if a
    method of a table raises them."""
    with translated():
        try:
            yield
        except EngineFailed as error:
            if isinstance(error.__cause__, PySparkException):
                raise error.__cause__ from None
            raise


def _replacements(table: exp.Table, node: exp.Expression, text: Text, view: str) -> list[tuple[int, int, str]]:
    """Replaces a table by its view, and the database before columns of the table by nothing."""
    first, last = table.parts[0], table.parts[-1]
    stop = last.meta["end"] + 1
    at_version = _AT_VERSION.match(text.text, stop)
    end = at_version.end() if at_version else _after_version(text.text, stop) if table.args.get("version") else stop
    alias = "" if table.alias else f" AS {backticked(table.name)}"
    replacements = [(first.meta["start"], end, f"{view}{alias}")]
    return replacements if table.alias else [*replacements, *_without_database(table, node)]


def _without_database(table: exp.Table, node: exp.Expression) -> list[Replacement]:
    """Removes the database before the columns of a table."""
    own = [part.name.lower() for part in table.parts]
    columns = [column.parts for column in node.find_all(exp.Column)]
    return [
        (parts[0].meta["start"], parts[1].meta["start"], "")
        for parts in columns
        if len(own) == 2 and len(parts) > 2 and [part.name.lower() for part in parts[:2]] == own
    ]


def _span(node: exp.Expression, text: Text) -> tuple[int, int]:
    """The start and end of a query in the text."""
    span = text.span(node)
    assert span is not None, "the parser notes where queries stand"
    return span


def _after_version(text: str, start: int) -> int:
    """The position after `[FOR] VERSION AS OF 12`, which begins at `start`."""
    tokens = sqlglot.tokenize(" " * start + text[start:], dialect=PlainSpark)
    place = next(number for number, token in enumerate(tokens) if token.text.upper() == "OF") + 1
    if tokens[place].text.upper() == "TIMESTAMP":  # TIMESTAMP AS OF TIMESTAMP '...'
        place += 1
    return tokens[place].end + 1
