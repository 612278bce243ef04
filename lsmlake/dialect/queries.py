"""The shared state of the translation of a query: the text, the tables that it reads, and unused names."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count

import pyarrow as pa
from sqlglot import exp

from lsmlake.dialect.context import Inner
from lsmlake.dialect.expression import Translator
from lsmlake.dialect.scope import UNKNOWN, Known, Relation, Scope, ScopeColumn, Shared, Typed
from lsmlake.dialect.sql_text import Text
from lsmlake.dialect.sql_types import BOOLEAN, NULL, holds, one_zero, quoted, without_null
from lsmlake.dialect.table_use import StoredRows, TableUse, ViewUse
from lsmlake.types.intervals import result_field
from lsmlake.types.type_text import format_type

Catalog = Callable[[exp.Table], pa.Schema | StoredRows | ViewUse]


@dataclass(frozen=True)
class Query:
    """A translated query.

    Attributes:
        sql: the query; it names its output `#0`, `#1`, ...
        columns: the names and types of the output.
        keys: the number of expressions in the GROUP BY of a SELECT; None: it has no groups.
        known: the facts known of each output; (): none.
        shared: set for a query of WITH, which its references share.
        member: returns the condition `column IN (SELECT ...)` that chooses the rows around it for which the query gives a row, or
            None. Only EXISTS asks for it.
    """

    sql: str
    columns: tuple[tuple[str, pa.DataType], ...]
    keys: int | None = None
    known: tuple[Known, ...] = ()
    shared: Shared | None = None
    member: Callable[[], str | None] | None = None

    @property
    def schema(self) -> pa.Schema:
        """The columns of the result; a column of NULLs is INT."""
        declared = (one.declared for one in self.all_known)
        return pa.schema(
            [
                result_field(name, without_null(kind)) if one is None else one.with_name(name).with_nullable(True)
                for (name, kind), one in zip(self.columns, declared, strict=True)
            ]
        )

    @property
    def all_known(self) -> tuple[Known, ...]:
        """The facts known of each output."""
        return self.known or (UNKNOWN,) * len(self.columns)

    @property
    def placeless(self) -> Query:
        """The query, as one whose conditions choose no rows of tables."""
        return replace(self, known=tuple(one.placeless for one in self.known))

    def referred(self) -> Query:
        """One more reference to the query."""
        return self if self.shared is None else replace(self, known=self.shared.reference(self.all_known))


@dataclass
class Queries(ABC):
    """The queries of one text.

    Attributes:
        uses: the tables of the catalog that they read, in the order of the text.
        within: the tree of the text, if it is the query of a view.
        draws: whether they may use functions such as rand().
    """

    text: Text
    catalog: Catalog
    now: str | None = None
    uses: list[TableUse] = field(default_factory=list)
    within: exp.Expression | None = None
    draws: bool = False
    _numbers: count = field(default_factory=lambda: count(1))

    @abstractmethod
    def query(self, node: exp.Expression, ctes: Mapping[str, Query] | None = None, outer: Scope | None = None) -> Query:
        """The translation of a SELECT, a set operation or VALUES. `outer`: the scope of the query around it."""

    def fresh(self, what: str = "r") -> str:
        """A name that is not in use yet."""
        return f"{what}{next(self._numbers)}"

    def translator(self, scope: Scope, ctes: Mapping[str, Query], **allowed: object) -> Translator:
        """A translator for expressions in a place of a query. `allowed`: the further names and calls that they can use."""

        def subquery(node: exp.Expression, around: Scope) -> Inner:
            used: list[ScopeColumn] = []
            made = self.query(node, ctes, replace(around, used=used))
            return Inner(made.sql, [kind for _, kind in made.columns], made.keys, tuple(used), made.member)

        return replace(Translator.at(self.text, scope, self.now, subquery), draws=self.draws, **allowed)

    def condition(self, translator: Translator, node: exp.Expression) -> str:
        """A condition as SQL. Refuses an expression of another type."""
        made = translator.typed(node)
        if made.type not in (BOOLEAN, NULL):
            self.text.refuse(
                node, "this is not a condition", expected="BOOLEAN", found=format_type(made.type), cure="write a comparison"
            )
        return f"CAST({made.sql} AS BOOLEAN)" if made.type == NULL else made.sql

    def compared(self, node: exp.Expression, columns: Sequence[Typed]) -> list[str]:
        """The columns of rows that are compared, so that equal rows become one. Refuses a MAP, which Spark does not compare."""
        if any(holds(column.type, pa.types.is_map) for column in columns):
            cure = "compare its entries: map_entries makes an ARRAY of them"
            self.text.refuse(node, "DISTINCT and set operations take no MAP", cure=cure)
        return [one_zero(column.sql, column.type) for column in columns]

    def view(self, view: ViewUse) -> Query:
        """The query of a view, with the columns of the view."""
        with view.text.read() as tree:
            inner = replace(self, text=view.text, catalog=view.catalog.schema, within=tree)
            made = inner.query(tree)
        sql = view.selected(made.sql, made.columns, self.fresh())
        columns = tuple((column.name, column.type) for column in view.columns)
        return Query(sql, columns, known=tuple(self._known(view, made)))

    @staticmethod
    def _known(view: ViewUse, made: Query) -> Iterator[Known]:
        """The facts known of the columns of a view. `made`: its query."""
        for number, column in zip(view.numbers([name for name, _ in made.columns]), view.columns, strict=True):
            same = made.columns[number][1] == column.type
            yield Known(column.declared, made.all_known[number].origins if same else ())

    def renamed(self, node: exp.Expression, query: Query) -> Query:
        """The query with the names of the columns in the alias of a node, such as `t(a, b)`."""
        names = aliased_columns(node)
        if not names:
            return query
        self.check_alias(node, names, len(query.columns))
        return replace(query, columns=tuple((name, kind) for name, (_, kind) in zip(names, query.columns, strict=True)))

    def check_alias(self, node: exp.Expression, names: Sequence[str], columns: int) -> None:
        """Refuses an alias that names another number of columns than there are."""
        if names and len(names) != columns:
            what, cure = "the alias names another number of columns", "name as many columns"
            self.text.refuse(node, what, expected=columns, found=len(names), cure=cure)


def aliased_columns(node: exp.Expression) -> list[str]:
    """The names of columns in the alias of a node."""
    alias = node.args.get("alias")
    return [column.name for column in alias.args.get("columns") or ()] if isinstance(alias, exp.TableAlias) else []


def relation_of(name: str, qualifiers: tuple[str, ...], query: Query) -> Relation:
    """The columns of a query that is the relation `name` of DuckDB."""
    columns = (
        ScopeColumn(one, kind, f"{name}.{quoted(f'#{i}')}", known=known)
        for i, ((one, kind), known) in enumerate(zip(query.columns, query.all_known, strict=True))
    )
    return Relation(qualifiers, tuple(columns))
