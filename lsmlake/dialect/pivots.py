"""PIVOT and UNPIVOT behind a relation in FROM: values become columns, columns become values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import product

from sqlglot import exp

from lsmlake.dialect.aggregates import AGGREGATES
from lsmlake.dialect.calls import called
from lsmlake.dialect.grouping import SelectGroups
from lsmlake.dialect.queries import Queries, Query, relation_of
from lsmlake.dialect.scope import UNKNOWN, Relation, Scope, Typed
from lsmlake.dialect.sql_text import passed_on
from lsmlake.dialect.sql_types import STRING, quoted, text
from lsmlake.types.spelling import spelled


def pivoted(
    queries: Queries, ctes: Mapping[str, Query], node: exp.Pivot, source: str, relation: Relation
) -> tuple[str, Relation]:
    """A relation behind PIVOT or UNPIVOT, as SQL and with its columns. `source`: the SQL of the relation `relation`."""
    for generated in node.args.get("columns") or ():  # the parser's idea of the names of the result
        passed_on(generated)
    fields = node.args.get("fields") or []
    if len(fields) != 1 or not isinstance(fields[0], exp.In):
        queries.text.refuse(
            node,
            "this PIVOT is not supported",
            expected="PIVOT (aggregate FOR column IN (values))",
            cure="write it in the expected form",
        )
    make = _unpivoted if node.args.get("unpivot") else _pivoted
    made = queries.renamed(node, make(queries, ctes, node, fields[0], source, relation))
    name = queries.fresh()
    alias = node.args.get("alias")
    return f"({made.sql}) AS {name}", relation_of(name, (alias.name,) if alias is not None and alias.name else (), made)


# -- PIVOT ------------------------------------------------------------------------------------------------------------


def _pivoted(
    queries: Queries, ctes: Mapping[str, Query], node: exp.Pivot, field: exp.In, source: str, relation: Relation
) -> Query:
    """A row for each group of the columns that PIVOT does not name, with a column for each value and aggregate."""
    before = queries.translator(Scope((_undeclared(relation),)), ctes)  # Spark pads no CHAR(n) here
    groups = SelectGroups(before, queries.fresh())
    over = replace(before, groups=groups, aggregates=True, scope=Scope(()))
    places = field.this.expressions if isinstance(field.this, exp.Tuple) else [field.this]
    named = {column.name.lower() for part in (*node.expressions, *places) for column in part.find_all(exp.Column)}
    columns: list[tuple[str, Typed]] = []
    for column in relation.columns:
        if column.name.lower() not in named:
            key = column.typed._replace(sql=f"{groups.name}.{quoted(f'g{len(groups.keys)}')}")
            columns.append((column.name, groups.keys.setdefault(column.sql, key)))
    for place in places:
        before.typed(place)
    for value, aggregate in product(field.expressions, node.expressions):
        label, parts = _value(queries, value, len(places))
        for part in parts:
            before.typed(part)
        inner = aggregate.this if isinstance(aggregate, exp.Alias) else aggregate
        over.typed(inner)
        tests = [exp.NullSafeEQ(this=one.copy(), expression=part.copy()) for one, part in zip(places, parts, strict=True)]
        condition = exp.and_(*tests, copy=False)
        made, rows = over.typed(_filtered(inner, condition)), over.typed(_filtered(_count(), condition))
        alias = aggregate.alias or spelled(inner)  # the alias of a single aggregate has no effect, as in Spark
        name = label if len(node.expressions) == 1 else f"{label}_{alias}"
        columns.append((name, Typed(f"CASE WHEN {rows.sql} > 0 THEN {made.sql} END", made.type)))
    listed = ", ".join(f"{made.sql} AS {quoted(f'#{place}')}" for place, (_, made) in enumerate(columns))
    sql = f"SELECT {listed} FROM ({groups.sql(f' FROM {source}')}) AS {groups.name}"
    known = tuple(made.known for _, made in columns)
    return Query(sql, tuple((name, made.type) for name, made in columns), known=known).placeless


def _undeclared(relation: Relation) -> Relation:
    return replace(relation, columns=tuple(replace(one, known=UNKNOWN) for one in relation.columns))


def _value(queries: Queries, value: exp.Expression, width: int) -> tuple[str, list[exp.Expression]]:
    """The name of a column that PIVOT makes, and the values whose rows it holds."""
    inner = value.this if isinstance(value, exp.PivotAlias) else value
    parts = inner.expressions if isinstance(inner, exp.Tuple) else [inner]
    if len(parts) != width:
        queries.text.refuse(
            value, "the number of values does not fit FOR", expected=width, found=len(parts), cure="give as many values"
        )
    if isinstance(value, exp.PivotAlias):
        return _name(queries, value), parts
    if not isinstance(inner, exp.Literal):
        queries.text.refuse(value, "this value needs a name", cure="write value AS name")
    return inner.this, parts


def _name(queries: Queries, item: exp.PivotAlias) -> str:
    """The name behind AS, which the parser reads as an expression."""
    alias = item.args.get("alias")
    if not isinstance(alias, exp.Identifier):
        queries.text.wrong(item, "this is no name", cure="write AS and a word, or anything in `backquotes`")
    return alias.name


def _count() -> exp.Expression:
    return exp.Anonymous(this="count", expressions=[exp.Star()])


def _filtered(node: exp.Expression, condition: exp.Expression) -> exp.Expression:
    """An expression whose aggregates see only the rows for which the condition is true."""
    made = exp.Paren(this=node.copy())
    for call in [one for one in made.find_all(exp.Anonymous) if called(one) in AGGREGATES]:
        outer = call.parent if isinstance(call.parent, exp.Filter) else call
        test = condition.copy()
        if isinstance(outer, exp.Filter):
            outer.set("expression", exp.Where(this=exp.and_(outer.expression.this, test, copy=False)))
        else:
            holder = exp.Filter(expression=exp.Where(this=test))
            call.replace(holder)
            holder.set("this", call)
    return made


# -- UNPIVOT ----------------------------------------------------------------------------------------------------------


def _unpivoted(
    queries: Queries, ctes: Mapping[str, Query], node: exp.Pivot, field: exp.In, source: str, relation: Relation
) -> Query:
    """For each row one row per listed column: the other columns, the name of the column, its value."""
    before, inner = queries.translator(Scope((relation,)), ctes), queries.fresh()
    (values,) = node.expressions
    names = [_column(queries, one) for one in (values.expressions if isinstance(values, exp.Tuple) else [values])]
    label = _column(queries, field.this)
    rows = list(_rows(queries, field, len(names)))
    used = {column.name.lower() for _, parts in rows for column in parts}
    kept = [replace(one, field=None) for one in relation.columns if one.name.lower() not in used]
    by_value = [list(parts) for parts in zip(*(parts for _, parts in rows), strict=True)]
    typed = [[before.typed(part) for part in parts] for parts in by_value]
    for parts, made in zip(by_value, typed, strict=True):
        if len({one.type == STRING for one in made}) > 1:
            queries.text.refuse(
                parts[0], "the columns of UNPIVOT have types that do not fit together", cure="cast them in a query"
            )
    cells = [before.unified(parts, made) for parts, made in zip(by_value, typed, strict=True)]
    lines = ", ".join(
        f"({', '.join([text(name), *(sqls[number] for sqls, _ in cells)])})" for number, (name, _) in enumerate(rows)
    )
    outputs = [quoted(f"u{number}") for number in range(len(names) + 1)]
    listed = [*(one.sql for one in kept), *(f"{inner}.{name}" for name in outputs)]
    columns = ", ".join(f"{one} AS {quoted(f'#{place}')}" for place, one in enumerate(listed))
    sql = f"SELECT {columns} FROM {source} "
    sql += f"CROSS JOIN LATERAL (VALUES {lines}) AS {inner}({', '.join(outputs)})"
    if not node.args.get("include_nulls"):
        sql += f" WHERE {' OR '.join(f'{inner}.{name} IS NOT NULL' for name in outputs[1:])}"
    types = ((name, kind) for name, (_, kind) in zip(names, cells, strict=True))
    known = (*(one.known.placeless for one in kept), *(UNKNOWN for _ in outputs))
    return Query(sql, (*((one.name, one.type) for one in kept), (label, STRING), *types), known=known)


def _rows(queries: Queries, field: exp.In, width: int) -> Iterator[tuple[str, list[exp.Column]]]:
    """The name that each row gives, and its columns."""
    for item in field.expressions:
        inner = item.this if isinstance(item, exp.PivotAlias) else item
        parts = inner.expressions if isinstance(inner, exp.Tuple) else [inner]
        if len(parts) != width or not all(isinstance(part, exp.Column) for part in parts):
            queries.text.refuse(
                item,
                "UNPIVOT lists columns, as many as it gives values",
                expected=width,
                cure="list as many columns as there are names of values",
            )
        yield _name(queries, item) if isinstance(item, exp.PivotAlias) else "_".join(part.name for part in parts), parts


def _column(queries: Queries, item: exp.Expression) -> str:
    """The name of a column that UNPIVOT makes."""
    if not isinstance(item, (exp.Column, exp.Identifier)):
        queries.text.wrong(item, "this is no name", cure="write a word, or anything in `backquotes`")
    return item.name
