"""The form of a query: decides how a view table can be kept, and splits the query into the parts that this needs. Pure.

There are three ways to refresh a view table:

- `changes`: the query groups the rows of one table, or of an inner join, by `sum`, `count`, `avg`, `min` and `max` of exact
  numbers. The view table holds, in hidden columns, a state for each group, to which the changes of the tables are added.
- `keys`: rows with other keys do not matter to a row of the result. The keys of the changes are collected, and the query is
  evaluated for these keys. A key is a group or, without GROUP BY, the primary keys of the tables.
- `whole`: the query is evaluated for all rows.

`ViewShape.reason` says why a narrower way is not possible.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa
from sqlglot import exp

from lsmlake.dialect.aggregates import AGGREGATES
from lsmlake.dialect.generators import is_generator
from lsmlake.dialect.grouping import aggregates
from lsmlake.dialect.query import QueryTranslator
from lsmlake.dialect.sql_text import nodes, operands
from lsmlake.errors import InvalidQuery
from lsmlake.tables.version import Version
from lsmlake.types.column_types import char_length, has_sized_text, inner_fields
from lsmlake.types.spelling import spelled
from lsmlake.views.view_sources import OpenedQuery

CHANGES, KEYS, WHOLE = WAYS = "changes", "keys", "whole"
KEY, ROWS = "_lsmlake_key", "_lsmlake_rows"
"""Hidden columns: the key of a row as text, if the columns of the query cannot be the primary key; the rows of a group."""
_MEASURES = {"sum": "sum", "count": "count", "avg": "avg", "mean": "avg", "min": "min", "max": "max"}
_PLAIN = {"expressions", "from_", "joins", "where", "group", "having", "kind", "hint"}
_JOIN = {"this", "on", "using", "kind"}


@dataclass(frozen=True)
class QueryTable:
    """A table in FROM. `alias`: its name in the query; `version`: the table."""

    alias: str
    version: Version


@dataclass(frozen=True)
class Measure:
    """An aggregate of a group. `argument`: None for count(*). `type`: of the argument."""

    function: str
    argument: exp.Expression | None
    type: pa.DataType | None = None

    @property
    def is_extreme(self) -> bool:
        return self.function in ("min", "max")


@dataclass(frozen=True)
class ViewShape:
    """A query and how its view table is kept.

    Attributes:
        way: one of `WAYS`.
        reason: why it is not a narrower way; "" for `changes`.
        select: the query, with columns named by their tables; None for `whole`.
        tables: those in FROM, in order.
        keys: the expressions that are the key of a row; for `whole` none.
        key_outputs: the columns of the result that are expressions of the key -> the number of the expression.
        key_columns: the columns of the result that are the primary key; empty: the hidden column `KEY` is it.
        grouped: whether the query groups rows.
        grand: whether it gives one row, also without any row to aggregate.
        items: of `changes`: the expressions of the result, over `key(i)` and `value(i)`.
        measures: of `changes`: the aggregates.
    """

    way: str
    reason: str = ""
    select: exp.Select | None = None
    tables: tuple[QueryTable, ...] = ()
    keys: tuple[exp.Expression, ...] = ()
    key_outputs: Mapping[str, int] = field(default_factory=dict)
    key_columns: tuple[str, ...] = ()
    grouped: bool = False
    items: tuple[exp.Expression, ...] = ()
    measures: tuple[Measure, ...] = ()

    @property
    def keyed(self) -> bool:
        """Whether the view table has a primary key."""
        return self.way != WHOLE

    @property
    def grand(self) -> bool:
        return self.grouped and not self.keys


def key(number: int) -> str:
    """The column of an expression of the key while a refresh works."""
    return f"_lsmlake_g{number}"


def value(number: int) -> str:
    """The column of an aggregate while a refresh works."""
    return f"_lsmlake_a{number}"


class _NotKeyed(Exception):
    """The query must be evaluated as a whole; the argument says why. Never leaves the module."""


def shape_of(opened: OpenedQuery) -> ViewShape:
    """The form of a query."""
    try:
        return _keyed(opened)
    except _NotKeyed as reason:
        return ViewShape(WHOLE, str(reason))


def _keyed(opened: OpenedQuery) -> ViewShape:
    if opened.varies is not None:
        raise _NotKeyed(f"the query gives other rows each time: {opened.varies}")
    select = opened.tree.unnest()
    _check_plain(select)
    tables = tuple(_tables(select, opened))
    select = _qualified(select, tables)
    if select.args.get("group") is not None or any(map(aggregates, select.expressions)):
        return _grouped(opened, select, tables)
    return _of_rows(opened, select, tables)


# -- tables and columns -------------------------------------------------------------------------------------------------


def _check_plain(select: exp.Expression) -> None:
    """Raises _NotKeyed unless the query is one SELECT over an inner join of tables."""
    if not isinstance(select, exp.Select):
        raise _NotKeyed("it is no plain SELECT")
    for name, given in select.args.items():
        if given and name not in _PLAIN:
            raise _NotKeyed(f"it has {name.strip('_').upper()}")
    if select.args.get("from_") is None:
        raise _NotKeyed("it has no FROM")
    for part in nodes(select):
        if part is not select and isinstance(part, exp.Query):
            raise _NotKeyed("it has a query inside")
        if isinstance(part, exp.Window):
            raise _NotKeyed("it has a window function")
        if is_generator(part):
            raise _NotKeyed("it has a function that gives rows")
    for join in select.args.get("joins") or ():
        given = {name for name, one in join.args.items() if one}
        if given - _JOIN or str(join.args.get("kind") or "INNER").upper() not in ("INNER", "CROSS"):
            raise _NotKeyed("it has a join that is not an inner join")


def table_nodes(select: exp.Select) -> list[exp.Expression]:
    """The tables in FROM, in order."""
    return [select.args["from_"].this, *(join.this for join in select.args.get("joins") or ())]


def _tables(select: exp.Select, opened: OpenedQuery) -> list[QueryTable]:
    found = []
    for node in table_nodes(select):
        given = {name for name, one in node.args.items() if one}
        if not isinstance(node, exp.Table) or given - {"this", "db", "alias"} or not isinstance(node.this, exp.Identifier):
            raise _NotKeyed("FROM names something that is no plain table")
        if node.args.get("alias") is not None and node.args["alias"].args.get("columns"):
            raise _NotKeyed("a table has an alias with columns")
        version = opened.sources.get(opened.catalog.name(node))
        if version is None or not isinstance(opened.catalog.rows(node), Version):
            raise _NotKeyed("FROM names a view")
        if version.options.retention.rows_ms is not None:
            raise _NotKeyed("the rows of a table expire with time, by record-level.expire-time")
        if any(map(_is_padded, version.schema.columns)):
            raise _NotKeyed("a table has a CHAR(n), which only a query over the table itself compares with its blanks")
        found.append(QueryTable(node.alias or node.name, version))
    if len({one.alias.lower() for one in found}) < len(found):
        raise _NotKeyed("two tables have one name")
    return found


def _is_padded(field: pa.Field) -> bool:
    return char_length(field) is not None or any(map(has_sized_text, inner_fields(field.type)))


def _qualified(select: exp.Select, tables: Sequence[QueryTable]) -> exp.Select:
    """The query with each column named by its table, as far as it is known: equal columns are then equal nodes."""
    copy = select.copy()
    inside = {id(part) for one in copy.find_all(exp.Lambda) for part in nodes(one)}
    for node in [one for one in nodes(copy) if isinstance(one, exp.Column) and id(one) not in inside]:
        if all(isinstance(part, exp.Identifier) for part in node.parts) and (found := resolved(node, tables)) is not None:
            table, column, rest = found
            node.replace(_column(tables[table].alias, column, *rest))
    return copy


def _column(*path: str) -> exp.Expression:
    """A name of several parts."""
    return exp.column(*[exp.to_identifier(one, quoted=True) for one in reversed(path)])


def resolved(node: exp.Column, tables: Sequence[QueryTable]) -> tuple[int, str, list[str]] | None:
    """The table and the column that a name means, and the fields of a struct behind it; None if several are possible, or none.
    A name of more than four parts is left alone."""
    path, found = [part.name for part in node.parts], set()
    for number, table in enumerate(tables):
        by_lower = {name.lower(): name for name in table.version.schema.shown}
        root = table.version.meta.paths.root.rpartition("/")[2]
        for skipped in range(min(3, len(path))):
            before = [one.lower() for one in path[:skipped]]
            named = not before or before[-1] == (table.alias if skipped == 1 else root).lower()
            if named and path[skipped].lower() in by_lower:
                found.add((number, by_lower[path[skipped].lower()], skipped + 1))
    if len(found) != 1:
        return None
    ((number, column, used),) = found
    rest = path[used:]
    return (number, column, rest) if len(rest) <= 2 else None


# -- groups -------------------------------------------------------------------------------------------------------------


def _grouped(opened: OpenedQuery, select: exp.Select, tables: tuple[QueryTable, ...]) -> ViewShape:
    keys = tuple(_group_keys(select, tables))
    types = _types(opened, select, keys)
    if any(map(pa.types.is_nested, types)):
        raise _NotKeyed("it groups by a nested value")
    made = _with_key(ViewShape(KEYS, "", select, tables, keys, grouped=True), types)
    why = None
    if select.args.get("having") is not None:
        why = "it has HAVING"
    else:
        measures: list[Measure] = []
        items = tuple(_over_groups(one, keys, measures) for one in select.expressions)
        why = _not_over_groups(items) or _inexact(typed := _typed(opened, select, measures))
        if why is None:
            return replace(made, way=CHANGES, items=items, measures=tuple(typed))
    if not keys:
        raise _NotKeyed(f"{why}, and it has one group")
    return replace(made, reason=why)


def _group_keys(select: exp.Select, tables: Sequence[QueryTable]) -> list[exp.Expression]:
    group = select.args.get("group")
    if group is None:
        return []
    if any(given for name, given in group.args.items() if name != "expressions"):
        raise _NotKeyed("it has grouping sets, or GROUP BY ALL")
    items, keys = select.expressions, []
    for node in group.expressions:
        if isinstance(node, exp.Literal) and not node.is_string:
            node = items[int(node.this) - 1].unalias()
        elif isinstance(node, exp.Column) and len(node.parts) == 1 and resolved(node, tables) is None:
            node = next((one.unalias() for one in items if one.alias.lower() == node.name.lower()), node)
        keys.append(node)
    if any(isinstance(one, (exp.Cube, exp.Rollup, exp.GroupingSets)) for one in keys):
        raise _NotKeyed("it has grouping sets")
    return list({spelled(one): one for one in keys}.values())


def _over_groups(item: exp.Expression, keys: Sequence[exp.Expression], measures: list[Measure]) -> exp.Expression:
    """An expression of the result over the columns `key(i)` and `value(i)`; adds the aggregates in it to `measures`."""
    texts = [spelled(one) for one in keys]

    def over(node: exp.Expression) -> exp.Expression:
        if not isinstance(node, (exp.Condition, exp.Filter)) or isinstance(node, exp.Literal):
            return node
        if (text := spelled(node)) in texts:
            return _column(key(texts.index(text)))
        if (measure := _measure(node)) is None:
            return node
        listed = [(one.function, one.argument and spelled(one.argument)) for one in measures]
        wanted = measure.function, measure.argument and spelled(measure.argument)
        if wanted not in listed:
            measures.append(measure)
            listed.append(wanted)
        return _column(value(listed.index(wanted)))

    return item.copy().transform(over).unalias()


def _measure(node: exp.Expression) -> Measure | None:
    """The aggregate that a call is; None if it is another expression, or one that is not kept by changes."""
    only = node.expression.this if isinstance(node, exp.Filter) else None
    call = node.this if isinstance(node, exp.Filter) else node
    if not isinstance(call, exp.Anonymous) or call.name.lower() not in _MEASURES or len(call.expressions) != 1:
        return None
    function, argument = _MEASURES[call.name.lower()], call.expressions[0]
    if isinstance(argument, exp.Distinct) or argument.find(exp.Distinct) is not None:
        return None
    if isinstance(argument, (exp.Star, exp.Literal)):
        if function != "count":
            return None
        argument = None if only is None else exp.Literal.number(1)
    if only is not None:
        argument = exp.Case(ifs=[exp.If(this=only.copy(), true=argument.copy())])
    return Measure(function, None if argument is None else argument.copy())


def _not_over_groups(items: Sequence[exp.Expression]) -> str | None:
    """Why expressions cannot be evaluated over groups; None if they can."""
    for item in items:
        for node in nodes(item):
            if isinstance(node, exp.Anonymous) and node.name.lower() in AGGREGATES:
                return f"{spelled(node)} is not kept by adding changes"
            if isinstance(node, (exp.Column, exp.Star)) and not node.name.startswith("_lsmlake_"):
                return f"{spelled(node)} is no aggregate and no expression of GROUP BY"
    return None


def _typed(opened: OpenedQuery, select: exp.Select, measures: Sequence[Measure]) -> list[Measure]:
    wanted = [one.argument for one in measures if one.argument is not None]
    types = iter(_types(opened, select, wanted))
    return [one if one.argument is None else replace(one, type=next(types)) for one in measures]


def _inexact(typed: Sequence[Measure]) -> str | None:
    """Why the aggregates cannot be kept exactly by adding changes; None if they can."""
    for measure in typed:
        kind, function = measure.type, measure.function
        exact = kind is not None and (pa.types.is_integer(kind) or pa.types.is_decimal(kind))
        if function in ("sum", "avg") and not exact:
            return f"{function} of {kind} depends on the order of the rows"
        if function == "avg" and pa.types.is_decimal(kind) and kind.precision > 24:
            return f"{function} of {kind} has too many digits"
        if function in ("min", "max") and (pa.types.is_nested(kind) or pa.types.is_null(kind)):
            return f"{function} of {kind} is not kept by adding changes"
    return None


def _types(opened: OpenedQuery, select: exp.Select, expressions: Sequence[exp.Expression]) -> list[pa.DataType]:
    """The types of expressions over the rows of FROM."""
    if not expressions:
        return []
    probe = rows_of(select, expressions)
    try:
        return QueryTranslator(opened.text, opened.catalog.schema, opened.now).query(probe).schema.types
    except InvalidQuery as refused:
        raise _NotKeyed(f"an expression of it stands for another one: {refused.what}") from refused


def rows_of(select: exp.Select, expressions: Sequence[exp.Expression]) -> exp.Select:
    """A query for expressions over the rows of FROM and WHERE."""
    copy = select.copy()
    for name in ("group", "having"):
        copy.set(name, None)
    copy.set("expressions", [one.copy() for one in expressions])
    return copy


# -- rows ---------------------------------------------------------------------------------------------------------------


def _of_rows(opened: OpenedQuery, select: exp.Select, tables: tuple[QueryTable, ...]) -> ViewShape:
    """A query without groups. Its key are the primary keys of the tables, without those of tables that a join finds by key."""
    if any(table.version.schema.append_only for table in tables):
        raise _NotKeyed("a table has no primary key")
    needed = list(range(len(tables)))
    equal = list(_equal_columns(select, tables))
    for number in reversed(range(1, len(tables))):
        schema = tables[number].version.schema
        found = {mine for (own, mine), (other, _) in equal if own == number and other in needed and other != number}
        if {*schema.primary_key} <= found:
            needed.remove(number)
    keys = tuple(_column(tables[n].alias, name) for n in needed for name in tables[n].version.schema.primary_key)
    types = _types(opened, select, keys)
    if any(map(pa.types.is_nested, types)):
        raise _NotKeyed("a primary key has a nested value")
    return _with_key(ViewShape(KEYS, "it has no GROUP BY", select, tables, keys), types)


def _equal_columns(select: exp.Select, tables: Sequence[QueryTable]) -> Iterator[tuple[tuple[int, str], tuple[int, str]]]:
    """Pairs of (table, column) that a join or WHERE equates, both ways round, if their types are the same."""
    conditions = [join.args.get("on") for join in select.args.get("joins") or ()]
    conditions.append(select.args["where"].this if select.args.get("where") else None)
    for condition in filter(None, conditions):
        for part in operands(condition.unnest(), exp.And):
            if isinstance(part, exp.EQ) and isinstance(part.this, exp.Column) and isinstance(part.expression, exp.Column):
                sides = [resolved(one, tables) for one in (part.this, part.expression)]
                if all(side is not None and not side[2] for side in sides):
                    a, b = ((side[0], side[1]) for side in sides)
                    types = {tables[number].version.schema.plain_columns.field(name).type for number, name in (a, b)}
                    if len(types) == 1:
                        yield from ((a, b), (b, a))


def _with_key(shape: ViewShape, types: Sequence[pa.DataType]) -> ViewShape:
    """The shape with `key_outputs` and `key_columns`: a NOT NULL column of a table can be in the primary key."""
    texts, outputs = [spelled(one) for one in shape.keys], {}
    for name, node in _outputs(shape):
        if (text := spelled(node)) in texts:
            outputs.setdefault(name, texts.index(text))
    by_key = {number: name for name, number in reversed(outputs.items())}
    solid = all(
        number in by_key and not pa.types.is_floating(kind) and _is_required(node, shape.tables)
        for number, (node, kind) in enumerate(zip(shape.keys, types, strict=True))
    )
    return replace(shape, key_outputs=outputs, key_columns=tuple(by_key[n] for n in range(len(texts))) if solid else ())


def _outputs(shape: ViewShape) -> Iterator[tuple[str, exp.Expression]]:
    """The columns of the result, and the expressions that they are; stars are written out."""
    for item in shape.select.expressions:
        if isinstance(item, exp.Star) or (isinstance(item, exp.Column) and isinstance(item.this, exp.Star)):
            for table in shape.tables:
                if isinstance(item, exp.Star) or item.table.lower() == table.alias.lower():
                    yield from ((name, _column(table.alias, name)) for name in table.version.schema.shown)
        else:
            yield item.alias_or_name, item.unalias()


def _is_required(node: exp.Expression, tables: Sequence[QueryTable]) -> bool:
    found = resolved(node, tables) if isinstance(node, exp.Column) else None
    return found is not None and not found[2] and not tables[found[0]].version.schema.columns.field(found[1]).nullable
