"""The tables and views that a query reads: the conditions and the limit by which less of a table is read, and the columns of a
view in the result of its query.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol

import pyarrow as pa
from sqlglot import exp

from lsmlake.dialect.casts import cast
from lsmlake.dialect.scope import Scope, ScopeColumn, Taker
from lsmlake.dialect.sql_text import Text, nodes, operands, passed_on
from lsmlake.dialect.sql_types import NULL, duck_name, quoted
from lsmlake.errors import InvalidQuery
from lsmlake.types.intervals import has_interval
from lsmlake.types.type_text import format_type

_KEYS = ("this", "table", "db", "catalog")


@dataclass(eq=False)
class TableUse(Taker):
    """A table in FROM. `view`: its name in DuckDB. `conditions`: parts of WHERE and ON about this table alone, which the rows of
    the result satisfy. `limit`: more rows are not needed. `within`: the query of a view that reads it. `renamed`: the text gives
    its columns other names."""

    node: exp.Table
    schema: pa.Schema
    view: str
    limit: int | None = None
    within: exp.Expression | None = None
    renamed: bool = False


class StoredRows(NamedTuple):
    """A table in FROM of which one version is read. `schema`: its columns. `digits`: how many digits the numbers of a column have
    at most; None: that is not known."""

    schema: pa.Schema
    digits: Callable[[str], int | None]


def push(condition: exp.Expression, scope: Scope) -> None:
    """Gives each table the parts of a condition that name columns of it alone. Columns without origins choose no rows."""
    inner = replace(scope, outer=None)
    for part in _parts(condition):
        for taker in _takers(part, inner):
            if (pushed := _about(part, inner, lambda column, taker=taker: column.known.name_in(taker))) is not None:
                taker.own.append(pushed)


def _takers(part: exp.Expression, scope: Scope) -> list[Taker]:
    """The takers that have the first column that a condition names."""
    first = next((node for node in nodes(part) if isinstance(node, exp.Column)), None)
    matches = [] if first is None else scope.found([one.name for one in first.parts])
    return [origin.taker for column, _ in matches[:1] for origin in column.known.origins]


def _about(part: exp.Expression, scope: Scope, name_of: Callable[[ScopeColumn], str | None]) -> exp.Expression | None:
    """A condition with the names that its columns have in a table; None if a column is not from the table."""
    parts = nodes(part)
    columns = [node for node in parts if isinstance(node, exp.Column)]
    if not columns or any(isinstance(node, (exp.Query, exp.Dot)) for node in parts):
        return None
    plain = [_plain(node, scope, name_of) for node in columns]
    if None in plain:
        return None
    made = part.copy()
    for node, instead in zip([node for node in nodes(made) if isinstance(node, exp.Column)], plain, strict=True):
        if node is made:
            made = instead
        else:
            node.replace(instead)
    return made


def _plain(node: exp.Column, scope: Scope, name_of: Callable[[ScopeColumn], str | None]) -> exp.Column | None:
    """A column, or a field of one, with the name that it has in the table; None if it is not from the table."""
    path = [one.name for one in node.parts]
    matches = scope.found(path)
    if len(matches) != 1 or (name := name_of(matches[0][0])) is None:
        return None
    parts = [exp.to_identifier(one, quoted=True) for one in (name, *path[matches[0][1] :])]
    return exp.Column(**dict(zip(_KEYS, reversed(parts), strict=False))) if len(parts) <= len(_KEYS) else None


def _parts(condition: exp.Expression) -> Iterable[exp.Expression]:
    """The parts of a condition that must all be true."""
    return operands(condition.unnest(), exp.And)


# -- views ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ViewUseColumn:
    """A column of a view: its name and type, and its place in the result of the query: the `place`th (from 0) named `source`.
    `declared`: the column, if it is declared with the length of a text."""

    name: str
    type: pa.DataType
    source: str
    place: int
    declared: pa.Field | None = None


class NamedTables(Protocol):
    """The tables and views by their names in a text."""

    def schema(self, node: exp.Table) -> Any:
        """The columns of a table, or a view."""


@dataclass(frozen=True)
class ViewUse:
    """`name`: of the view. `text`: its query. `catalog`: the tables that the query names. `columns`: those of the view."""

    name: str
    text: Text
    catalog: NamedTables
    columns: tuple[ViewUseColumn, ...]

    def tree(self) -> exp.Expression:
        """The parsed query; all of its arguments count as read."""
        with self.text.read() as tree:
            passed_on(tree)
        return tree

    @property
    def schema(self) -> pa.Schema:
        return pa.schema([column.declared or pa.field(column.name, column.type) for column in self.columns])

    def numbers(self, names: Sequence[str]) -> list[int]:
        """The numbers of the view's columns in `names`, the columns of its query. Raises InvalidQuery if a column is gone."""
        places: dict[str, list[int]] = {}
        for number, name in enumerate(names):
            places.setdefault(name.lower(), []).append(number)
        made = []
        for column in self.columns:
            known = places.get(column.source.lower(), [])
            if column.place >= len(known):
                raise InvalidQuery(
                    f"the query of the view gives no column {column.source} any more",
                    where=f"view {self.name}",
                    expected=[one.source for one in self.columns],
                    found=list(names),
                    cure="restore the column, or write CREATE OR REPLACE VIEW",
                )
            made.append(known[column.place])
        return made

    def selected(self, sql: str, columns: Sequence[tuple[str, pa.DataType]], relation: str) -> str:
        """The columns of the view, in its types. `sql`, `columns`: its query. `relation`: a name for it. Raises InvalidQuery."""
        parts = []
        for place, (number, column) in enumerate(zip(self.numbers([name for name, _ in columns]), self.columns, strict=True)):
            made, kind = quoted(f"#{number}"), columns[number][1]
            if kind != column.type:
                made = f"CAST({made} AS {duck_name(column.type)})" if kind == NULL else _as_then(made, kind, column.type)
            if made is None:
                raise InvalidQuery(
                    f"the type of column {column.name} of the view has changed",
                    where=f"view {self.name}",
                    expected=format_type(column.type),
                    found=format_type(kind),
                    cure="write CREATE OR REPLACE VIEW",
                )
            parts.append(f"{made} AS {quoted(f'#{place}')}")
        return f"SELECT {', '.join(parts)} FROM ({sql}) AS {relation}"


def _as_then(sql: str, kind: pa.DataType, wanted: pa.DataType) -> str | None:
    """A column in the type that it had when the view was made; None if Spark does not convert it."""
    return None if has_interval(kind) or has_interval(wanted) else cast(sql, kind, wanted)
