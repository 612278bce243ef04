"""A view in FROM: its query, and which columns of the result are those of the view."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa
from sqlglot import exp

from lsmlake.dialect.cast import cast
from lsmlake.dialect.reading import passed_on
from lsmlake.dialect.text import Text
from lsmlake.dialect.types import NULL, duck_name, quoted
from lsmlake.errors import InvalidQuery
from lsmlake.types.intervals import has_interval
from lsmlake.types.type_text import format_type


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
    """What the names in a text stand for."""

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
