"""The queries that a refresh evaluates: over all rows, over the rows of some keys, and over changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from lsmlake.dialect.sql_text import nodes
from lsmlake.sql.named_tables import Catalog
from lsmlake.sql.run_query import prepare, run
from lsmlake.tables.version import Version
from lsmlake.views.view_changes import WEIGHT
from lsmlake.views.view_shape import QueryTable, ViewShape, key, rows_of, table_nodes
from lsmlake.views.view_sources import OpenedQuery

_KEYS = "_lsmlake_keys"
_LISTED_MAX = 200
"""So many values of a key are also listed in the query, so that files without them are not read."""
Side = Version | pa.Table
"""The rows that a table in FROM stands for."""


@dataclass(frozen=True)
class ViewQueries:
    """The queries of one refresh."""

    opened: OpenedQuery
    shape: ViewShape

    @property
    def newest(self) -> list[Side]:
        """The tables in FROM as they are now."""
        return [table.version for table in self.shape.tables]

    def whole(self) -> pa.Table:
        """The rows of the query."""
        return run(prepare(self.opened.text.parsed(), self.opened.text, self.opened.catalog, self.opened.now))

    def result(self, sides: Sequence[Side], keys: pa.Table | None = None) -> pa.Table:
        """The rows of the query, and the columns `key(i)`. `keys`: only the rows with one of these keys."""
        select = self.shape.select.copy()
        select.set("expressions", [*select.expressions, *self._named_keys()])
        return self._run(select, sides, keys)

    def groups(self, aggregates: Mapping[str, exp.Expression], sides: Sequence[Side], keys: pa.Table | None = None) -> pa.Table:
        """One row for each group: the columns `key(i)`, and aggregates by their names."""
        select = self.shape.select.copy()
        if self.shape.keys:
            select.set("group", exp.Group(expressions=[one.copy() for one in self.shape.keys]))
        select.set("expressions", [*self._named_keys(), *(exp.alias_(one.copy(), name) for name, one in aggregates.items())])
        return self._run(select, sides, keys)

    def changes(self, values: Mapping[str, exp.Expression], before: Sequence[Side], changed: Sequence[pa.Table]) -> pa.Table:
        """The changes of the joined rows: the columns `key(i)`, expressions by their names, and `WEIGHT`. The changes of a table
        meet the tables before it as they were, and those behind it as they are. `before`, `changed`: of each table, the rows
        as they were, and the changes since then."""
        found = []
        for number, rows in enumerate(changed):
            if rows.num_rows:
                weight = exp.column(exp.to_identifier(WEIGHT), exp.to_identifier(self.shape.tables[number].alias, quoted=True))
                named = [exp.alias_(one.copy(), name) for name, one in values.items()]
                select = rows_of(self.shape.select, [*self._named_keys(), *named, weight])
                found.append(self._run(select, [*before[:number], rows, *self.newest[number + 1 :]]))
        return pa.concat_tables(found) if found else pa.table({})

    def over(self, items: Mapping[str, exp.Expression], rows: pa.Table, columns: Sequence[str]) -> pa.Table:
        """Expressions over rows in memory, by their names, and columns of the rows."""
        table = exp.Table(this=exp.to_identifier(_KEYS))
        made = [exp.alias_(one.copy(), name) for name, one in items.items()]
        select = exp.Select(expressions=[*made, *(exp.column(one) for one in columns)], from_=exp.From(this=table))
        return self._evaluated(select, {_KEYS: rows}, {})

    def _named_keys(self) -> list[exp.Expression]:
        return [exp.alias_(one.copy(), key(number)) for number, one in enumerate(self.shape.keys)]

    def _run(self, select: exp.Select, sides: Sequence[Side], keys: pa.Table | None = None) -> pa.Table:
        given: dict[str, pa.Table] = {}
        pinned: dict[str, Version] = {}
        if keys is not None and self.shape.keys:
            given[_KEYS] = keys
            conditions = [_of_keys(self.shape.keys), *_listed(self.shape.keys, keys)]
            where = select.args.get("where")
            conditions += [exp.Paren(this=where.this.copy())] if where is not None else []
            select.set("where", exp.Where(this=exp.and_(*conditions, copy=False)))
        tables = table_nodes(select)
        for number, (node, table, side) in enumerate(zip(tables, self.shape.tables, sides, strict=True)):
            name = f"_lsmlake_t{number}"
            alias = exp.TableAlias(this=exp.to_identifier(table.alias, quoted=True))
            node.replace(exp.Table(this=exp.to_identifier(name), alias=alias))
            if isinstance(side, Version):
                pinned[name] = side
            else:
                given[name] = side
        return self._evaluated(select, given, pinned)

    def _evaluated(self, select: exp.Select, given: Mapping[str, pa.Table], pinned: Mapping[str, Version]) -> pa.Table:
        opened = self.opened
        catalog = Catalog(opened.catalog.lake, opened.text, given, temporary=False)
        for name, version in pinned.items():
            catalog.pin(exp.Table(this=exp.to_identifier(name)), version)
        return run(prepare(select, opened.text, catalog, opened.now))


def _of_keys(keys: Sequence[exp.Expression]) -> exp.Expression:
    """The condition that a row has one of the keys."""
    equal = [
        exp.NullSafeEQ(this=exp.column(exp.to_identifier(key(number)), exp.to_identifier(_KEYS)), expression=_in_parens(one))
        for number, one in enumerate(keys)
    ]
    rows = exp.From(this=exp.Table(this=exp.to_identifier(_KEYS)))
    select = exp.Select(expressions=[exp.Literal.number(1)], from_=rows, where=exp.Where(this=exp.and_(*equal, copy=False)))
    return exp.Exists(this=select)


def _in_parens(node: exp.Expression) -> exp.Expression:
    return node.copy() if isinstance(node, exp.Column) else exp.Paren(this=node.copy())


def _listed(keys: Sequence[exp.Expression], rows: pa.Table) -> list[exp.Expression]:
    """Conditions by which files are left out: a column is one of few values."""
    found = []
    for number, node in enumerate(keys):
        values = pc.unique(rows[key(number)])
        plain = any(test(values.type) for test in (pa.types.is_integer, pa.types.is_string, pa.types.is_date32))
        if isinstance(node, exp.Column) and plain and 0 < len(values) <= _LISTED_MAX and not values.null_count:
            found.append(exp.In(this=node.copy(), expressions=[_literal(one) for one in values]))
    return found


def _literal(scalar: pa.Scalar) -> exp.Expression:
    value = scalar.as_py()
    if pa.types.is_integer(scalar.type):
        number = exp.Literal.number(abs(value))
        return exp.Neg(this=number) if value < 0 else number
    text = exp.Literal.string(str(value))
    return exp.Cast(this=text, to=exp.DataType.build("DATE")) if pa.types.is_date32(scalar.type) else text


def columns_read(shape: ViewShape, table: QueryTable) -> list[str]:
    """The columns of a table that the query may read."""
    schema, select = table.version.schema, shape.select
    items = select.expressions
    if any(isinstance(one, exp.Star) or (isinstance(one, exp.Column) and isinstance(one.this, exp.Star)) for one in items):
        return list(schema.shown)
    used = {one.name.lower() for one in nodes(select) if isinstance(one, exp.Identifier)}
    return [name for name in schema.shown if name.lower() in used] or list(schema.shown[:1])


def columns_needed(shape: ViewShape, table: QueryTable) -> list[str]:
    """The columns of a table that the query may read, and its primary key."""
    schema = table.version.schema
    wanted = {*columns_read(shape, table), *schema.primary_key}
    return [name for name in schema.columns.names if name in wanted]
