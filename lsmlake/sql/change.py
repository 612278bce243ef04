"""UPDATE, DELETE and MERGE INTO by the methods of `Table`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import partial
from itertools import chain

import pyarrow as pa
from sqlglot import exp

from lsmlake.api.merge import OwnRows
from lsmlake.api.table import Table
from lsmlake.api.types import SparkDataFrame
from lsmlake.dialect.evaluate import Columns, Condition, columns_from, condition_from
from lsmlake.dialect.expression import Translator
from lsmlake.dialect.literals import text_of
from lsmlake.dialect.query import QueryTranslator
from lsmlake.dialect.reading import passed_on
from lsmlake.dialect.scope import Scope
from lsmlake.dialect.table_use import conditions
from lsmlake.dialect.text import Text
from lsmlake.errors import InvalidQuery
from lsmlake.predicate.spark_sql.translate import from_sqlglot
from lsmlake.sql.catalog import Catalog
from lsmlake.sql.defaults import with_defaults
from lsmlake.sql.engine import Engine, RowChange
from lsmlake.sql.select import create_views, planned, sources_of
from lsmlake.store.version import Version
from lsmlake.write.by_expression import change_rows, known_of, target_scope
from lsmlake.write.fields import whole_columns
from lsmlake.write.statement import DmlReport, evaluated

RowsOf = Callable[[exp.Expression], Callable[[], pa.Table | SparkDataFrame]]
Report = Callable[[], pa.Table]


def delete(node: exp.Delete, text: Text, catalog: Catalog, now: str, engine: Engine | None) -> Report:
    """DELETE FROM table [WHERE condition]"""
    table = catalog.table(_target(node.this, text))
    where = node.args.get("where").this if node.args.get("where") else None
    if _by_rows(node, where, table, text):
        return _changed(RowChange(node, table, where, {}), text, catalog, now, engine)
    condition = None if where is None else _own(where, node.this, text)
    return lambda: _report(table.delete(condition))


def update(node: exp.Update, text: Text, catalog: Catalog, now: str, engine: Engine | None) -> Report:
    """UPDATE table SET column = value, ... [WHERE condition]"""
    table = catalog.table(_target(node.this, text))
    values = with_defaults(_assigned(node.expressions, node.this, table, text), table.version.schema.columns)
    where = node.args.get("where").this if node.args.get("where") else None
    if _by_rows(node, where, table, text):
        return _changed(RowChange(node, table, where, values), text, catalog, now, engine)
    if not table.runtime.filters:  # an error names the place in the statement
        scope = Scope.of(table.version.schema.plain_columns, *_names(node.this, catalog))
        parts = {name: (Translator.at(text, scope, now), value) for name, value in values.items()}
        columns_from(parts, table.version.schema.plain_columns, table.runtime.zone)
    texts = {name: _own(value, node.this, text) for name, value in values.items()}
    condition = None if where is None else _own(where, node.this, text)
    return lambda: _report(table.update(texts, condition))


def _target(node: exp.Expression, text: Text) -> exp.Table:
    if not isinstance(node, exp.Table):
        text.refuse(node, "only a table can be changed", expected="the name of a table")
    return node


def _by_rows(node: exp.Delete | exp.Update, where: exp.Expression | None, table: Table, text: Text) -> bool:
    """Whether the statement is a `RowChange`: it holds queries, or its condition is no predicate and this process evaluates
    conditions."""
    if node.find(exp.Query) is not None:
        return True
    if where is None or table.runtime.filters:
        return False
    try:
        from_sqlglot(_plain(where, node.this), table.version.schema.plain_columns, text.text, zone=table.runtime.zone)
    except InvalidQuery:
        return True
    return False


def _changed(change: RowChange, text: Text, catalog: Catalog, now: str, engine: Engine | None) -> Report:
    if engine is None:
        act = _changed_here(change, text, catalog, now)
    else:
        for part in (*([] if change.where is None else [change.where]), *change.values.values()):
            passed_on(part)  # Spark reads them
        act = partial(engine.change, change, text, catalog)
    return lambda: _report(act())


def _changed_here(change: RowChange, text: Text, catalog: Catalog, now: str) -> Callable[[], DmlReport]:
    """Reads a DELETE or UPDATE that this process executes. The tables of its queries are read as they were at the first attempt,
    the changed table anew in each."""
    zone = change.table.runtime.zone
    condition = exp.true() if change.where is None else change.where
    names = _names(change.target, catalog)

    def translated(version: Version) -> tuple[QueryTranslator, Condition, Columns | None, Scope]:
        scope = target_scope(version, names)
        queries = QueryTranslator(text, catalog.schema, now)
        expressions = queries.expressions(scope)
        on = condition_from(expressions, condition, zone)
        parts = {name: (expressions, value) for name, value in change.values.items()}
        return queries, on, None if change.deletes else columns_from(parts, version.schema.plain_columns, zone), scope

    def evaluate(version: Version) -> DmlReport:
        catalog.pin(change.target, version)
        queries, on, assigned, scope = translated(version)
        known = known_of(conditions(condition, scope), version, text, zone)
        plans = planned(queries.uses, change.node, text, catalog)
        reads_itself = catalog.reads(change.node, change.target)
        with ExitStack() as stack:
            load = partial(create_views, uses=queries.uses, sources=sources_of(plans, stack))
            return change_rows(version, on, assigned, known, change.isolation(version), zone, load, reads_itself)

    translated(change.table.version)
    return lambda: evaluated(change.table.version, evaluate)


def _names(target: exp.Table, catalog: Catalog) -> tuple[str, ...]:
    """What can stand before a column of the table."""
    return (target.alias,) if target.alias else (target.name, catalog.name(target))


def merge(node: exp.Merge, text: Text, catalog: Catalog, rows_of: RowsOf) -> Report:
    """MERGE INTO table USING source ON condition WHEN ..."""
    table = catalog.table(_target(node.this, text))
    query = exp.Select(expressions=[exp.Star()], from_=exp.From(this=node.args.get("using")))
    source = rows_of(query)()
    names = {_alias(node.this): "t", _alias(node.args.get("using")): "s"}
    columns = {"t": {name.lower() for name in table.schema.names}, "s": {name.lower() for name in source.schema.names}}

    def spoken(part: exp.Expression) -> str:
        if (query := part.find(exp.Query)) is not None:
            cure = "join it with the source, in USING (SELECT ...)"
            text.refuse(query, "ON and the clauses of MERGE take no queries", cure=cure)
        passed_on(part)  # the text is read again
        for table in (node.this, node.args.get("using")):
            part = without_database(part, table)
        return text_of(_qualified(part, names, columns, text), text)

    def again(version: Version) -> pa.Table:
        catalog.pin(node.this, version)
        return rows_of(query)()

    rows = OwnRows(again) if catalog.reads(node.args.get("using"), node.this) else source
    merging = table.merge(rows, spoken(node.args.get("on")))
    for when in node.args.get("whens").expressions:
        condition = when.args.get("condition")
        merging = _clause(merging, when, None if condition is None else spoken(condition), table, node.this, spoken, text)
    return lambda: _report(merging.execute())


def _clause(
    merging,
    when: exp.When,
    condition: str | None,
    table: Table,
    target: exp.Table,
    spoken: Callable[[exp.Expression], str],
    text: Text,
):
    def assigned(pairs: Mapping[str, exp.Expression]) -> dict[str, str]:
        return {name: spoken(value) for name, value in with_defaults(pairs, table.version.schema.columns).items()}

    then, matched, by_source = when.args.get("then"), bool(when.args.get("matched")), bool(when.args.get("source"))
    if isinstance(then, exp.Var) and then.name.upper() == "DELETE":
        if matched:
            return merging.when_matched_delete(condition)
        if by_source:
            return merging.when_not_matched_by_source_delete(condition)
    if isinstance(then, exp.Update) and (matched or by_source):
        if _is_star(then.args.get("expressions")):
            if matched:
                return merging.when_matched_update_all(condition)
        else:
            values = assigned(_assigned(then.expressions, target, table, text))
            return (
                merging.when_matched_update(values, condition)
                if matched
                else merging.when_not_matched_by_source_update(values, condition)
            )
    if isinstance(then, exp.Insert) and not matched and not by_source:
        if _is_star(then.this):
            return merging.when_not_matched_insert_all(condition)
        if isinstance(then.this, exp.Tuple) and isinstance(then.expression, exp.Tuple):
            names = [name.name for name in then.this.expressions]
            if len(names) != len(then.expression.expressions):
                text.refuse(then.expression, "the number of values does not fit the columns", expected=names)
            pairs = dict(zip(names, then.expression.expressions, strict=True))
            return merging.when_not_matched_insert(assigned(pairs), condition)
    text.refuse(when, "this clause of MERGE is not supported")


def _assigned(items: list[exp.Expression], target: exp.Table, table: Table, text: Text) -> dict[str, exp.Expression]:
    """The columns and values after SET. A field of a struct is named by its path."""
    alias, columns = target.alias or target.name, {name.lower() for name in table.version.schema.columns.names}
    pairs: list[tuple[tuple[str, ...], exp.Expression]] = []
    for item in items:
        if not isinstance(item, exp.EQ) or not isinstance(item.this, (exp.Column, exp.Dot)):
            text.refuse(item, "SET takes column = value")
        passed_on(item.this)
        path = tuple(part.name for part in _parts(without_database(item.this, target)))
        if len(path) > 1 and path[0].lower() == alias.lower() and (path[1].lower() in columns or path[0].lower() not in columns):
            path = path[1:]
        if any([*map(str.lower, path)] == [*map(str.lower, other)] for other, _ in pairs):
            text.refuse(item, f"column {'.'.join(path)} is assigned twice", cure="assign it once")
        pairs.append((path, item.expression))

    def old(path: tuple[str, ...]) -> exp.Expression:
        column = exp.column(path[0], table=alias, quoted=True)
        return exp.Dot.build([column, *(exp.to_identifier(name, quoted=True) for name in path[1:])])

    def struct(fields: list[tuple[str, exp.Expression]]) -> exp.Expression:
        pairs = ((exp.Literal.string(name), value) for name, value in fields)
        return exp.Anonymous(this="named_struct", expressions=list(chain.from_iterable(pairs)))

    return whole_columns(pairs, table.version.schema.plain_columns, old, struct)


def _parts(node: exp.Expression) -> list[exp.Expression]:
    return node.parts if isinstance(node, (exp.Column, exp.Dot)) else [node]


def _is_star(found: object) -> bool:
    return isinstance(found[0] if isinstance(found, list) and len(found) == 1 else found, exp.Star)


def _alias(node: exp.Expression) -> str:
    return (node.alias or node.name).lower()


def _own(part: exp.Expression, target: exp.Table, text: Text) -> str:
    """A condition or value as text with plain names of columns."""
    passed_on(part)  # the text is read again
    return text_of(_plain(part, target), text)


def _plain(part: exp.Expression, target: exp.Table) -> exp.Expression:
    """A condition or value with plain names of columns."""
    made = part.copy()
    for column in list(made.find_all(exp.Column)):
        parts = column.parts
        if len(parts) > 1 and parts[0].name.lower() == _alias(target):
            _rename(column, parts[1:])
    return made


def without_database(part: exp.Expression, table: exp.Expression) -> exp.Expression:
    """A part of a statement in which a table stands before its columns without its database."""
    made = part.copy()
    own = [one.name.lower() for one in table.parts] if isinstance(table, exp.Table) and not table.alias else []
    for column in made.find_all(exp.Column):
        if len(own) > 1 and [one.name.lower() for one in column.parts][: len(own)] == own:
            _rename(column, column.parts[1:])
    return made


def _rename(column: exp.Column, parts: list[exp.Expression]) -> None:
    for place, name in zip(("this", "table", "db", "catalog"), (*reversed(parts), None, None, None), strict=False):
        column.set(place, name)


def _qualified(part: exp.Expression, names: Mapping[str, str], columns: Mapping[str, set[str]], text: Text) -> exp.Expression:
    """A part of a MERGE with `t` and `s` as the names of target and source."""
    made = part.copy()
    for column in list(made.find_all(exp.Column)):
        parts = [one.name for one in column.parts]
        if len(parts) > 1 and parts[0].lower() in names:
            side, rest = names[parts[0].lower()], parts[1:]
        else:
            sides = [side for side, known in columns.items() if parts[0].lower() in known]
            if len(sides) != 1:
                text.refuse(
                    column, f"the name {'.'.join(parts)} can mean several columns, or none", cure="write the table before it"
                )
            side, rest = sides[0], parts
        path = [exp.to_identifier(name, quoted=True) for name in (side, *rest)]
        plain = exp.Column(**dict(zip(("this", "table", "db", "catalog"), reversed(path), strict=False)))
        if column is made:
            made = plain
        else:
            column.replace(plain)
    return made


def _report(report) -> pa.Table:
    changed = report.inserted + report.updated + report.deleted
    columns = {
        "num_affected_rows": changed,
        "num_inserted_rows": report.inserted,
        "num_updated_rows": report.updated,
        "num_deleted_rows": report.deleted,
        "snapshot": report.snapshot and report.snapshot.id,
    }
    return pa.table({name: pa.array([value], pa.int64()) for name, value in columns.items()})
