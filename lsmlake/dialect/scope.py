"""The meaning of names in SQL text: the columns that a place of a query can see, and the facts known of a column that has the
values of a table's column, perhaps through queries, views and aliases.

A condition on such columns alone can be applied to the table: a table's row for which it is not true gives no row of the query
for which it is true, and need not be read. A column loses its origins where this does not hold: behind LIMIT, windows and
grouping sets, on the side of an outer join that can be missing, and in the anchor of a recursive query. A query of WITH is read
once for all its references, so its tables leave out only rows that no reference needs.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import NamedTuple

import pyarrow as pa
from sqlglot import exp

from lsmlake.dialect.sql_types import of_column, quoted
from lsmlake.types.column_types import has_sized_text

# -- what is known of a column ----------------------------------------------------------------------------------------


@dataclass(eq=False, kw_only=True)
class Taker:
    """Takes conditions: a table in FROM, or a reference to a query of WITH that reads it. `own`: conditions
    given to it; `readers`: the queries of WITH in which it stands."""

    own: list[exp.Expression] = field(default_factory=list)
    readers: list[Shared] = field(default_factory=list)

    @property
    def conditions(self) -> list[exp.Expression]:
        """The conditions that all needed rows satisfy; complete once the whole text is translated."""
        return [*self.own, *(one for reader in self.readers for one in reader.conditions(self))]


class ColumnOrigin(NamedTuple):
    """The origin of a column: the table or reference that takes conditions, and the name of the column there."""

    taker: Taker
    name: str


@dataclass(frozen=True)
class Known:
    """The facts known of a column. `declared`: the column of the table, if it is a CHAR(n) or VARCHAR(n). `origins`: the columns
    of tables whose values it has; a set operation has several. `digits`: how many digits its numbers have at most."""

    declared: pa.Field | None = None
    origins: tuple[ColumnOrigin, ...] = ()
    digits: Callable[[], int | None] | None = None

    def name_in(self, taker: Taker) -> str | None:
        """The name of the column in a table; None if it is not from that table."""
        return next((origin.name for origin in self.origins if origin.taker is taker), None)

    @property
    def placeless(self) -> Known:
        """The facts without origins, and without digits: the column may have another type."""
        return self if not self.origins and self.digits is None else replace(self, origins=(), digits=None)


UNKNOWN = Known()


@dataclass(eq=False)
class Shared:
    """A query of WITH, which is read once. `references`: for each, table -> what takes its conditions."""

    references: list[Mapping[Taker, Taker]] = field(default_factory=list)

    def reference(self, known: Sequence[Known]) -> tuple[Known, ...]:
        """Adds a reference. Returns the facts known of its columns, given those of the query's columns."""
        takers = {origin.taker: Taker() for one in known for origin in one.origins}
        self.references.append(takers)
        for taker in takers:
            if self not in taker.readers:
                taker.readers.append(self)
        return tuple(
            replace(one, origins=tuple(origin._replace(taker=takers[origin.taker]) for origin in one.origins)) for one in known
        )

    def conditions(self, taker: Taker) -> list[exp.Expression]:
        """The conditions that all rows needed by any reference satisfy."""
        by_reference = [one[taker].conditions for one in self.references]
        if len(by_reference) < 2 or not all(by_reference):
            return by_reference[0] if len(by_reference) == 1 else []
        return [exp.or_(*(exp.and_(*one) for one in by_reference))]


# -- what a place can name --------------------------------------------------------------------------------------------


INT64_DIGITS = 18
"""DuckDB computes a DECIMAL of so many digits in 64 bits, and one of more in 128, which takes several times as long."""
_BIGINT_DIGITS = 19  # of the greatest values


class Narrow(NamedTuple):
    """A number whose values are known to have few digits, computed in 64 bits.

    Attributes:
        of: the expression that has these values, in the type that Spark computes.
        sql: an expression of DuckDB with the same values, of the type DECIMAL(`width`, `scale`).
        width: at most `INT64_DIGITS`.
        digits: how many digits the values have at most.
        scale: how many of them are after the point.
    """

    of: str
    sql: str
    width: int
    digits: int
    scale: int


class Typed(NamedTuple):
    """An expression of DuckDB and the type that it has to Spark. `constant`: the value of an integer literal. `known`: the
    facts known of a plain column. `narrow`: gives a faster expression for the same numbers, where there is one."""

    sql: str
    type: pa.DataType
    constant: int | None = None
    known: Known = UNKNOWN
    narrow: Callable[[], Narrow | None] | None = None

    @property
    def in_64_bits(self) -> Narrow | None:
        """The number as a DECIMAL of few digits; None for other types, and if it may have more digits."""
        if self.narrow is not None and (found := self.narrow()) is not None and found.of == self.sql:
            return found
        return narrowed(self.sql, self.type, None if self.constant is None else len(str(abs(self.constant))))

    def written(self, sql: str) -> Typed:
        """The same value as another text, such as in parentheses."""

        def narrow() -> Narrow | None:
            found = self.in_64_bits
            return found and found._replace(of=sql)

        return self._replace(sql=sql, narrow=narrow)


def narrowed(sql: str, kind: pa.DataType, digits: int | None) -> Narrow | None:
    """A number of few digits in 64 bits; None for others. `digits`: how many its values have at most; None: its type says it."""
    scale = kind.scale if pa.types.is_decimal(kind) else 0
    own = kind.precision if pa.types.is_decimal(kind) else _BIGINT_DIGITS
    most = own if digits is None else min(own, digits)
    if max(most, scale) > INT64_DIGITS or not (pa.types.is_decimal(kind) or (pa.types.is_integer(kind) and digits is not None)):
        return None
    width = min(own, INT64_DIGITS)
    return Narrow(sql, f"CAST({sql} AS DECIMAL({width},{scale}))", width, most, scale)


@dataclass(frozen=True)
class ScopeColumn:
    """A column: its name in the text, its type and its SQL in DuckDB. `field`: its name in the table, if the text gives it
    another name."""

    name: str
    type: pa.DataType
    sql: str
    field: str | None = None
    known: Known = UNKNOWN

    @property
    def typed(self) -> Typed:
        digits = self.known.digits
        narrow = None if digits is None else lambda: narrowed(self.sql, self.type, digits())
        return Typed(self.sql, self.type, known=self.known, narrow=narrow)


@dataclass(frozen=True)
class Relation:
    """A table, view or subquery in FROM. `qualifiers`: the names before a dot, such as ("orders", "sales.orders")."""

    qualifiers: tuple[str, ...]
    columns: tuple[ScopeColumn, ...]


@dataclass(frozen=True)
class Scope:
    """The columns that an expression can name.

    Attributes:
        relations: the columns that a name with a qualifier can mean.
        plain: the columns that `*` stands for, in order, and that a name without a qualifier can mean: USING makes one column of
            two. None: all columns of the relations.
        outer: the scope around a subquery or a lambda.
        used: the columns of this scope that subqueries name. None: they are not noted, as around a lambda.
    """

    relations: tuple[Relation, ...]
    plain: tuple[ScopeColumn, ...] | None = None
    outer: Scope | None = None
    used: list[ScopeColumn] | None = None

    @staticmethod
    def of(schema: pa.Schema, *qualifiers: str, prefix: str = "") -> Scope:
        """The columns of one table, also as `qualifier.column`; in the rows their names begin with `prefix`."""
        return Scope((Relation(qualifiers, _columns(_Same(schema), prefix)),))

    @staticmethod
    def joined(target: pa.Schema, source: pa.Schema) -> Scope:
        """The columns of a joined row: `t.column` and `s.column`; in the rows these are also the names."""
        sides = ("t", target), ("s", source)
        return Scope(tuple(Relation((name,), _columns(_Same(schema), f"{name}.")) for name, schema in sides))

    def inside(self, outer: Scope | None) -> Scope:
        return replace(self, outer=outer)

    def columns(self) -> tuple[ScopeColumn, ...]:
        """The columns that `*` stands for, in order."""
        if self.plain is not None:
            return self.plain
        return tuple(column for relation in self.relations for column in relation.columns)

    def and_(self, right: Scope) -> Scope:
        """The scope with the relations and columns of another scope at the end."""
        plain = None if self.plain is None and right.plain is None else (*self.columns(), *right.columns())
        return replace(self, relations=(*self.relations, *right.relations), plain=plain)

    def only_kept(self, kept: Collection[int]) -> Scope:
        """The scope without the origins of columns of other relations: a row of such a relation may be missing."""
        lost = {one.sql for number, relation in enumerate(self.relations) if number not in kept for one in relation.columns}
        return self.mapped(lambda one: replace(one, known=one.known.placeless) if one.sql in lost else one) if lost else self

    def mapped(self, made: Callable[[ScopeColumn], ScopeColumn | None]) -> Scope:
        """The scope with each column replaced by the result of `made`; without columns for which this is None."""

        def of(columns: tuple[ScopeColumn, ...]) -> tuple[ScopeColumn, ...]:
            return tuple(new for column in columns if (new := made(column)) is not None)

        relations = tuple(Relation(one.qualifiers, of(one.columns)) for one in self.relations)
        return replace(self, relations=relations, plain=None if self.plain is None else of(self.plain))

    def found(self, path: Sequence[str]) -> list[tuple[ScopeColumn, int]]:
        """The columns that a dotted name can mean, each with the number of parts that name it; the rest are struct fields. The
        outer scope counts only where this one has none."""
        lower = [part.lower() for part in path]
        matches = []
        for length in range(min(len(path) - 1, 3), 0, -1):
            qualifier = ".".join(lower[:length])
            for relation in self.relations:
                if qualifier in (name.lower() for name in relation.qualifiers):
                    matches += [(column, length + 1) for column in relation.columns if column.name.lower() == lower[length]]
            if matches:
                return matches
        matches = [(column, 1) for column in self.columns() if column.name.lower() == lower[0]]
        if matches or self.outer is None:
            return matches
        matches = self.outer.found(path)
        if self.outer.used is not None:
            self.outer.used.extend(column for column, _ in matches)
        return matches

    def own(self, path: Sequence[str]) -> bool:
        """Whether a dotted name means a column of this scope, rather than of one around it."""
        return bool(replace(self, outer=None).found(path))

    def names(self) -> list[str]:
        """The names of the columns; of several relations, with the relation."""
        if len(self.relations) < 2:
            return [column.name for column in self.columns()]
        return [
            f"{relation.qualifiers[0]}.{column.name}" if relation.qualifiers else column.name
            for relation in self.relations
            for column in relation.columns
        ]


class _Same:
    """A schema that equals itself only: others with the same names and types may declare other lengths."""

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema

    def __hash__(self) -> int:
        return id(self.schema)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and other.schema is self.schema


@lru_cache(maxsize=64)
def _columns(of: _Same, prefix: str) -> tuple[ScopeColumn, ...]:
    return tuple(
        ScopeColumn(one.name, of_column(one), quoted(prefix + one.name), known=Known(declared(one))) for one in of.schema
    )


def declared(field: pa.Field) -> pa.Field | None:
    """A column of a table, if it is declared with the length of its text, as CHAR(n) or VARCHAR(n); else None."""
    return field if has_sized_text(field) else None
