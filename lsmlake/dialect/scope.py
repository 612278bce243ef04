"""What names in SQL text mean: the columns that a place of a query can see."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import pyarrow as pa

from lsmlake.dialect.types import of_column, quoted


class Typed(NamedTuple):
    """An expression of DuckDB and the type that it has to Spark. `constant`: the value of an integer literal."""

    sql: str
    type: pa.DataType
    constant: int | None = None


@dataclass(frozen=True)
class Column:
    """A column: how the text names it, its type and what it is to DuckDB."""

    name: str
    type: pa.DataType
    sql: str


@dataclass(frozen=True)
class Relation:
    """A table, view or subquery in FROM. `qualifiers`: the names before a dot, such as ("orders", "sales.orders")."""

    qualifiers: tuple[str, ...]
    columns: tuple[Column, ...]


@dataclass(frozen=True)
class Scope:
    """The relations that an expression can name. `hidden`: columns that a USING made one, by qualifier only. `outer`: the scope
    around a subquery."""

    relations: tuple[Relation, ...]
    merged: tuple[Column, ...] = ()
    outer: Scope | None = None

    @staticmethod
    def of(schema: pa.Schema, *qualifiers: str, prefix: str = "") -> Scope:
        """The columns of one table, also as `qualifier.column`; in the rows their names begin with `prefix`."""
        return Scope((Relation(qualifiers, _columns(schema, prefix)),))

    @staticmethod
    def joined(target: pa.Schema, source: pa.Schema) -> Scope:
        """The columns of a joined row: `t.column` and `s.column`; in the rows these are also the names."""
        return Scope(tuple(Relation((name,), _columns(of, f"{name}.")) for name, of in (("t", target), ("s", source))))

    def inside(self, outer: Scope | None) -> Scope:
        return replace(self, outer=outer)

    def columns(self) -> tuple[Column, ...]:
        """The columns that `*` stands for, in order."""
        merged = {column.name.lower() for column in self.merged}
        rest = [column for relation in self.relations for column in relation.columns if column.name.lower() not in merged]
        return (*self.merged, *rest)

    def found(self, path: Sequence[str]) -> list[tuple[Column, int]]:
        """The columns that a dotted name can mean, each with the number of parts that name it; the rest are struct fields. The
        outer scope counts only where this one has none."""
        lower = [part.lower() for part in path]
        found = []
        for length in range(min(len(path) - 1, 3), 0, -1):
            qualifier = ".".join(lower[:length])
            for relation in self.relations:
                if qualifier in (name.lower() for name in relation.qualifiers):
                    found += [(column, length + 1) for column in relation.columns if column.name.lower() == lower[length]]
            if found:
                return found
        found = [(column, 1) for column in self.columns() if column.name.lower() == lower[0]]
        return found or (self.outer.found(path) if self.outer else [])

    def names(self) -> list[str]:
        """The names of the columns; of several relations, with the relation."""
        if len(self.relations) < 2:
            return [column.name for column in self.columns()]
        return [
            f"{relation.qualifiers[0]}.{column.name}" if relation.qualifiers else column.name
            for relation in self.relations
            for column in relation.columns
        ]


def _columns(schema: pa.Schema, prefix: str) -> tuple[Column, ...]:
    return tuple(Column(field.name, of_column(field), quoted(prefix + field.name)) for field in schema)
