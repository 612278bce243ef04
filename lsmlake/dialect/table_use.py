"""The tables and views that a query reads: what need not be read of a table, since a condition of the query leaves it out
anyway, and which columns of the result of its query are those of a view.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

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


def push(condition: exp.Expression, scope: Scope) -> None:
    """Gives each table the parts of a condition that name columns of it alone. Columns without origins choose no rows."""
    inner = replace(scope, outer=None)
    for part in _parts(condition):
        for taker in _takers(part, inner):
            if (found := _about(part, inner, lambda column, taker=taker: column.known.name_in(taker))) is not None:
                taker.own.append(found)


def _takers(part: exp.Expression, scope: Scope) -> list[Taker]:
    """The takers that have the first column that a condition names."""
    first = next((node for node in nodes(part) if isinstance(node, exp.Column)), None)
    found = [] if first is None else scope.found([one.name for one in first.parts])
    return [origin.taker for column, _ in found[:1] for origin in column.known.origins]


def _about(part: exp.Expression, scope: Scope, name_of: Callable[[ScopeColumn], str | None]) -> exp.Expression | None:
    """A condition with the names that its columns have in a table, if it has all of them."""
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
    """A column, or a field of one, with the name that it has in the table; None if it has none."""
    path = [one.name for one in node.parts]
    found = scope.found(path)
    if len(found) != 1 or (name := name_of(found[0][0])) is None:
        return None
    parts = [exp.to_identifier(one, quoted=True) for one in (name, *path[found[0][1] :])]
    return exp.Column(**dict(zip(_KEYS, reversed(parts), strict=False))) if len(parts) <= len(_KEYS) else None


def _parts(condition: exp.Expression) -> Iterable[exp.Expression]:
    """The parts that must all be true."""
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
        """The query, for looking at it."""
        with self.text.read() as tree:
            passed_on(tree)
        return tree

    @property
    def schema(self) -> pa.Schema:
        return pa.schema([column.declared or pa.field(column.name, column.type) for column in self.columns])

    def numbers(self, found: Sequence[str]) -> list[int]:
        """The numbers of the columns among those that the query gives. Raises InvalidQuery if one is gone."""
        places: dict[str, list[int]] = {}
        for number, name in enumerate(found):
            places.setdefault(name.lower(), []).append(number)
        made = []
        for column in self.columns:
            known = places.get(column.source.lower(), [])
            if column.place >= len(known):
                raise InvalidQuery(
                    f"the query of the view gives no column {column.source} any more",
                    where=f"view {self.name}",
                    expected=[one.source for one in self.columns],
                    found=list(found),
                    cure="restore the column, or write CREATE OR REPLACE VIEW",
                )
            made.append(known[column.place])
        return made

    def selected(self, sql: str, found: Sequence[tuple[str, pa.DataType]], relation: str) -> str:
        """The columns of the view from its query, in the types of then. `relation`: a name for the query. Raises InvalidQuery."""
        parts = []
        for place, (number, column) in enumerate(zip(self.numbers([name for name, _ in found]), self.columns, strict=True)):
            made, kind = quoted(f"#{number}"), found[number][1]
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


def _as_then(sql: str, found: pa.DataType, wanted: pa.DataType) -> str | None:
    """A column in the type that it had; None if Spark does not convert it."""
    return None if has_interval(found) or has_interval(wanted) else cast(sql, found, wanted)
