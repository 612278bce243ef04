"""UPDATE, DELETE and MERGE INTO: the tree of a statement as a `Statement`, which this process or Spark evaluates."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial

import pyarrow as pa
from sqlglot import exp

from lsmlake.api.merging import Merging, OwnRows, SourceRows
from lsmlake.commit.commit import again
from lsmlake.dialect.context import check_condition
from lsmlake.dialect.expression import Translator
from lsmlake.dialect.queries import aliased_columns
from lsmlake.dialect.query import Query, QueryTranslator
from lsmlake.dialect.scope import Scope
from lsmlake.dialect.sql_text import Text, passed_on, peek, said
from lsmlake.dialect.sql_types import of_column, without_null
from lsmlake.sql.engine import Engine
from lsmlake.sql.explain import described
from lsmlake.sql.named_tables import Catalog
from lsmlake.sql.run_query import Prepared, create_views, order_of_rows, planned, prepare, run, sources_of
from lsmlake.statements.attempts import OVERTAKEN, DmlReport
from lsmlake.statements.bound import schema_of_source
from lsmlake.statements.clause import BY_SOURCE, DELETE, INSERT, MATCHED, NOT_MATCHED, UPDATE, Clause
from lsmlake.statements.statement import ExpressionPart, ExpressionReader, Load, Replacement, Statement, StatementQueries
from lsmlake.tables.version import Version
from lsmlake.types.intervals import has_interval

Report = Callable[[], pa.Table]


@dataclass(frozen=True)
class ChangeStatements:
    """Reads UPDATE, DELETE and MERGE statements of one text. `engine`: evaluates them; None: this process does."""

    text: Text
    catalog: Catalog
    now: str
    engine: Engine | None

    def change(self, node: exp.Delete | exp.Update) -> Report:
        """DELETE FROM table [WHERE condition], UPDATE table SET column = value, ... [WHERE condition]"""
        statement, target = self._changing(node)
        table, version = self.catalog.table(target), self.catalog.newest(target)
        evaluate = table.runtime.changing(version, statement)
        return lambda: _report(again(version, evaluate, *OVERTAKEN))

    def explained(self, node: exp.Delete | exp.Update, mode: str) -> Iterator[str]:
        """The lines of EXPLAIN for a DELETE or UPDATE: the files that it would read, and how it would change the rows."""
        statement, target = self._changing(node)
        table, version = self.catalog.table(target), self.catalog.newest(target)
        return table.runtime.explained(version, statement, table.name, mode)

    def _changing(self, node: exp.Delete | exp.Update) -> tuple[Statement, exp.Table]:
        target, where = self._target(node.this), node.args.get("where")
        deletes = isinstance(node, exp.Delete)
        clause = Clause(MATCHED, DELETE) if deletes else Clause(MATCHED, UPDATE, self._assigned(node.expressions))
        on = None if where is None else self._choosing(where.this, node)
        return Statement((clause,), on, self.now, None, self._names(target), None, self._queries(node, target)), target

    def merge(self, node: exp.Merge) -> Report:
        """MERGE [WITH SCHEMA EVOLUTION] INTO table USING source ON condition WHEN ..."""
        merging, version, source = self._merging(node)
        act = merging.read(version, source)
        return lambda: _report(act())

    def explained_merge(self, node: exp.Merge, mode: str) -> Iterator[str]:
        """The lines of EXPLAIN for a MERGE: the files that it would read, and how it would change the rows."""
        prepared: list[Prepared] = []
        merging, version, source = self._merging(node, prepared.append)
        yield from merging.explained(version, source, mode)
        for one in prepared[-1:]:
            yield from described(one, mode)

    def _merging(self, node: exp.Merge, note: Callable[[Prepared], object] | None = None) -> tuple[Merging, Version, object]:
        """The statement, the version that its first attempt reads, and its source. `note`: called with the prepared query of the
        source; without `note`, a source in memory is used as it is, without a query."""
        text, catalog = self.text, self.catalog
        target, using = self._target(node.this), node.args.get("using")
        table, version = catalog.table(target), catalog.newest(target)
        query = exp.Select(expressions=[exp.Star()], from_=exp.From(this=using), with_=node.args.get("with_"))
        queries = self._queries(node, target)

        def source(now: Version) -> object:
            catalog.pin(target, now)
            if self.engine is not None:
                return self.engine.rows(query, text, catalog)
            if note is None and (rows := self._in_memory(using, node)) is not None:
                return SourceRows(schema_of_source(rows.schema, now.schema.plain_columns), lambda: [rows])
            prepared = prepare(query, text, catalog, self.now)
            if note is not None:
                note(prepared)
            columns = schema_of_source(prepared.query.schema, now.schema.plain_columns)
            return SourceRows(columns, lambda: [run(prepared)], order_of_rows(query, catalog))

        if self.engine is not None:
            passed_on(query)
        clauses = tuple(self._clause(when, node) for when in node.args.get("whens").expressions)
        on = self._choosing(node.args.get("on"), node)
        statement = Statement(clauses, on, self.now, None, self._names(target), self._names(using), queries)
        rows = OwnRows(source) if catalog.reads(query, target) else source(version)
        return Merging(statement, table.runtime, table.name, bool(node.args.get("evolves"))), version, rows

    def _in_memory(self, using: exp.Expression, node: exp.Merge) -> pa.Table | None:
        """The rows of a source that names an in-memory table and nothing else; None for other sources."""
        named = isinstance(using, exp.Table) and isinstance(peek(using, "this"), exp.Identifier) and peek(node, "with_") is None
        if not named or aliased_columns(using) or {name for name, _ in said(using)} - {*exp.TABLE_PARTS, "alias"}:
            return None
        rows = self.catalog.rows(using)
        if not isinstance(rows, pa.Table) or any(has_interval(of_column(field)) for field in rows.schema):
            return None
        return rows.cast(pa.schema([pa.field(field.name, without_null(of_column(field))) for field in rows.schema]))

    def _queries(self, node: exp.Expression, target: exp.Table) -> StatementQueries:
        with_ = node.args.get("with_")
        if self.engine is not None:
            if with_ is not None:
                passed_on(with_)
            return self.engine.queries(node, target, self.text, self.catalog)
        return _Here(node, target, self.text, self.catalog, self.now)

    def _target(self, node: exp.Expression) -> exp.Table:
        if not isinstance(node, exp.Table):
            self.text.refuse(node, "only a table can be changed", expected="the name of a table", cure="name a table")
        alias = node.args.get("alias")
        if isinstance(alias, exp.TableAlias) and not isinstance(alias.this, exp.Identifier):  # orders@v12
            self.text.refuse(node, "only the newest version is changed", found=f"@{alias.name}", cure="leave the version out")
        return node

    def _names(self, node: exp.Expression) -> tuple[str, ...]:
        """The qualifiers that can stand before a column of a table or of the source."""
        if node.alias:
            return (node.alias,)
        return (node.name, self.catalog.name(node)) if isinstance(node, exp.Table) else ()

    def _part(self, node: exp.Expression) -> ExpressionPart:
        return ExpressionPart(node, self.text)

    def _choosing(self, node: exp.Expression, within: exp.Expression) -> ExpressionPart:
        """A condition of a statement. Refuses a condition that reads a WITH query or a view with random values."""
        if node.find(exp.Query) is not None:
            with_ = peek(within, "with_")
            named = {cte.alias.lower(): cte for cte in (with_.expressions if with_ is not None else ())}
            for query, text in self.catalog.queries_in(node, named):
                check_condition(query, text)
        return self._part(node)

    def _assigned(self, items: list[exp.Expression]) -> dict[tuple[str, ...], ExpressionPart]:
        """The columns and values after SET. A field of a struct is named by its path."""
        values: dict[tuple[str, ...], ExpressionPart] = {}
        for item in items:
            if not isinstance(item, exp.EQ):
                self.text.refuse(item, "SET takes column = value", cure="write SET column = value")
            path = self._path(item.this)
            if any([*map(str.lower, path)] == [*map(str.lower, other)] for other in values):
                self.text.refuse(item, f"column {'.'.join(path)} is assigned twice", cure="assign it once")
            values[path] = self._part(item.expression)
        return values

    def _path(self, node: exp.Expression) -> tuple[str, ...]:
        parts = node.parts if isinstance(node, (exp.Column, exp.Dot)) else []
        if not parts or not all(isinstance(part, exp.Identifier) for part in parts):
            self.text.refuse(node, "this is not the name of a column", cure="name a column, or a field of one")
        passed_on(node)
        return tuple(part.name for part in parts)

    def _clause(self, when: exp.When, within: exp.Merge) -> Clause[ExpressionPart]:
        then, condition = when.args.get("then"), when.args.get("condition")
        matched, by_source = bool(when.args.get("matched")), bool(when.args.get("source"))
        kind = {(True, False): MATCHED, (False, True): BY_SOURCE, (False, False): NOT_MATCHED}.get((matched, by_source))
        on = None if condition is None else self._choosing(condition, within)
        match then:
            case exp.Var() if then.name.upper() == "DELETE" and kind in (MATCHED, BY_SOURCE):
                return Clause(kind, DELETE, None, on)
            case exp.Update() if kind in (MATCHED, BY_SOURCE):
                if isinstance(then.args.get("expressions"), list) and not _is_star(then.expressions):
                    return Clause(kind, UPDATE, self._assigned(then.expressions), on)
                if kind == MATCHED and _is_star(then.args.get("expressions")):
                    return Clause(kind, UPDATE, None, on)
            case exp.Insert() if kind == NOT_MATCHED:
                if _is_star(then.this):
                    return Clause(kind, INSERT, None, on)
                if isinstance(then.this, exp.Tuple) and isinstance(then.expression, exp.Tuple):
                    return Clause(kind, INSERT, self._inserted(then), on)
        self.text.refuse(
            when,
            "this clause of MERGE is not supported",
            cure="write WHEN MATCHED THEN UPDATE or DELETE, or WHEN NOT MATCHED THEN INSERT",
        )

    def _inserted(self, then: exp.Insert) -> dict[tuple[str, ...], ExpressionPart]:
        names, values = [self._path(name) for name in then.this.expressions], then.expression.expressions
        if len(names) != len(values):
            shown = [".".join(name) for name in names]
            self.text.refuse(
                then.expression, "the number of values does not fit the columns", expected=shown, cure="give each column a value"
            )
        if len({tuple(map(str.lower, name)) for name in names}) != len(names):
            self.text.refuse(then, "a column is named twice", found=[".".join(name) for name in names], cure="name it once")
        return {name: self._part(value) for name, value in zip(names, values, strict=True)}


@dataclass(frozen=True)
class _Here:
    """The queries inside a statement, evaluated in this process. Each attempt reads the newest version of the changed table;
    all attempts read the same version of the other tables."""

    node: exp.Expression
    target: exp.Table
    text: Text
    catalog: Catalog
    now: str

    @property
    def own(self) -> bool:
        return self.catalog.reads(self.node, self.target)

    def at(self, version: Version) -> ExpressionReader:
        self.catalog.pin(self.target, version)
        queries = QueryTranslator(self.text, self.catalog.schema, self.now, draws=True)  # conditions were checked
        return _VersionReader(self, queries, queries.named(peek(self.node, "with_")))

    def replacements(self, part: ExpressionPart, version: Version) -> list[Replacement]:
        raise AssertionError("this process reads trees")


@dataclass(frozen=True)
class _VersionReader:
    """Reads expressions that contain queries, at one version of the changed table. `named`: the queries of WITH."""

    queries: _Here
    translated: QueryTranslator
    named: Mapping[str, Query]

    @property
    def own(self) -> bool:
        return self.queries.own

    def translator(self, text: Text, scope: Scope) -> Translator:
        return self.translated.expressions(scope, self.named)

    def prepared(self, zone: str) -> Prepared:
        """The tables of the queries, planned."""
        uses, of = self.translated.uses, self.queries
        return Prepared(Query("", ()), tuple(uses), planned(uses, of.node, of.text, of.catalog), zone)

    def explained(self, zone: str, mode: str) -> Iterator[str]:
        return described(self.prepared(zone), mode)

    @contextmanager
    def loading(self) -> Iterator[Load | None]:
        if not self.translated.uses:
            yield None
            return
        made = self.prepared("")
        with ExitStack() as stack:
            yield partial(create_views, uses=made.uses, sources=sources_of(made.plans, stack))


def _is_star(node: object) -> bool:
    return isinstance(node[0] if isinstance(node, list) and len(node) == 1 else node, exp.Star)


def _report(report: DmlReport) -> pa.Table:
    changed = report.inserted + report.updated + report.deleted
    columns = {
        "num_affected_rows": changed,
        "num_inserted_rows": report.inserted,
        "num_updated_rows": report.updated,
        "num_deleted_rows": report.deleted,
        "snapshot": report.snapshot and report.snapshot.id,
    }
    return pa.table({name: pa.array([value], pa.int64()) for name, value in columns.items()})
