"""UPDATE, DELETE and MERGE INTO by the methods of `Table`."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pyarrow as pa
from sqlglot import exp

from lsmlake.dialect.literals import text_of
from lsmlake.dialect.text import Text
from lsmlake.sql.catalog import Catalog

RowsOf = Callable[[exp.Expression], pa.Table]


def delete(node: exp.Delete, text: Text, catalog: Catalog) -> pa.Table:
    """DELETE FROM table [WHERE condition]"""
    text.only(node, "this", "where")
    table = catalog.table(node.this)
    where = node.args.get("where")
    return _report(table.delete(None if where is None else _own(where.this, node.this, text)))


def update(node: exp.Update, text: Text, catalog: Catalog) -> pa.Table:
    """UPDATE table SET column = value, ... [WHERE condition]"""
    text.only(node, "this", "expressions", "where")
    table = catalog.table(node.this)
    values = {}
    for item in node.expressions:
        if not isinstance(item, exp.EQ) or not isinstance(item.this, exp.Column):
            text.refuse(item, "SET takes column = value")
        values[item.this.name] = _own(item.expression, node.this, text)
    where = node.args.get("where")
    return _report(table.update(values, None if where is None else _own(where.this, node.this, text)))


def merge(node: exp.Merge, text: Text, catalog: Catalog, rows_of: RowsOf) -> pa.Table:
    """MERGE INTO table USING source ON condition WHEN ..."""
    text.only(node, "this", "using", "on", "whens")
    table = catalog.table(node.this)
    source = rows_of(exp.select("*").from_(node.args["using"].copy()))
    names = {_alias(node.this): "t", _alias(node.args["using"]): "s"}
    columns = {"t": {name.lower() for name in table.schema.names}, "s": {name.lower() for name in source.schema.names}}

    def spoken(part: exp.Expression) -> str:
        return text_of(_qualified(part, names, columns, text), text)

    merging = table.merge(source, spoken(node.args["on"]))
    for when in node.args["whens"].expressions:
        condition = when.args.get("condition")
        merging = _clause(merging, when, None if condition is None else spoken(condition), spoken, text)
    return _report(merging.execute())


def _clause(merging, when: exp.When, condition: str | None, spoken: Callable[[exp.Expression], str], text: Text):
    then, matched, by_source = when.args["then"], bool(when.args.get("matched")), bool(when.args.get("source"))
    if isinstance(then, exp.Var) and then.name.upper() == "DELETE":
        if matched:
            return merging.when_matched_delete(condition)
        if by_source:
            return merging.when_not_matched_by_source_delete(condition)
    if isinstance(then, exp.Update) and (matched or by_source):
        if _is_star(then.expressions) or isinstance(then.args.get("expressions"), exp.Star):
            if matched:
                return merging.when_matched_update_all(condition)
        else:
            values = {item.this.name: spoken(item.expression) for item in then.expressions}
            return (
                merging.when_matched_update(values, condition)
                if matched
                else merging.when_not_matched_by_source_update(values, condition)
            )
    if isinstance(then, exp.Insert) and not matched and not by_source:
        if isinstance(then.this, exp.Star):
            return merging.when_not_matched_insert_all(condition)
        if isinstance(then.this, exp.Tuple) and isinstance(then.expression, exp.Tuple):
            pairs = zip(then.this.expressions, then.expression.expressions, strict=True)
            return merging.when_not_matched_insert({name.name: spoken(value) for name, value in pairs}, condition)
    text.refuse(when, "this clause of MERGE is not supported")


def _is_star(expressions: object) -> bool:
    return isinstance(expressions, list) and len(expressions) == 1 and isinstance(expressions[0], exp.Star)


def _alias(node: exp.Expression) -> str:
    return (node.alias or node.name).lower()


def _own(part: exp.Expression, target: exp.Table, text: Text) -> str:
    """A condition or value as text with plain names of columns."""
    made = part.copy()
    for column in list(made.find_all(exp.Column)):
        if column.table and column.table.lower() == _alias(target):
            column.set("table", None)
            column.set("db", None)
    return text_of(made, text)


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
