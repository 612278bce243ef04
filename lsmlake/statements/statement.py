"""DELETE, UPDATE and MERGE as values. SQL creates them from its tree, the methods of a table from their text arguments. This
process (`change`, `merge`) and Spark (`spark.statements`) evaluate them.

An expression of a statement is both a tree, which this process evaluates, and a part of the text, which another engine gets. No
text is generated from the tree: an engine gets the statement's own text, with other names in place of table names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, replace
from itertools import chain
from typing import Protocol

import pyarrow as pa
from sqlglot import exp

from lsmlake.dialect.context import check_condition, refuse_query
from lsmlake.dialect.expression import Translator
from lsmlake.dialect.grammar import PlainSpark
from lsmlake.dialect.scope import Relation, Scope
from lsmlake.dialect.sql_text import Text
from lsmlake.errors import InvalidQuery
from lsmlake.statements.clause import BY_SOURCE, DELETE, MATCHED, NOT_MATCHED, UPDATE, Clause
from lsmlake.tables.version import Version
from lsmlake.types.type_text import backticked

TARGET_SIDE, SOURCE_SIDE = "#target", "#source"
"""The qualifiers of columns that the text does not name, such as the columns of `*`."""
Replacement = tuple[int, int, str]
"""The start and stop of a part of a text, and its replacement."""


@dataclass(frozen=True, eq=False)
class ExpressionPart:
    """An expression. `node`: its tree; `text`: the text that contains it; `inner`: the parts of a struct of which some
    fields are assigned."""

    node: exp.Expression
    text: Text
    inner: tuple[ExpressionPart, ...] = ()

    def words(self, sides: Mapping[str, str], replaced: Iterable[Replacement] = ()) -> str:
        """The expression as text. `sides`: the names of `TARGET_SIDE` and `SOURCE_SIDE`. `replaced`: replacements in the text."""
        node = self.node
        if self.inner:
            names = (one.sql(PlainSpark) for one in node.expressions[::2])
            values = (one.words(sides, replaced) for one in self.inner)
            return f"named_struct({', '.join(chain.from_iterable(zip(names, values, strict=True)))})"
        if (span := self.text.span(node)) is not None:
            return spliced(self.text.text, *span, replaced)
        if isinstance(node, (exp.Column, exp.Dot)) and node.parts[0].name in sides:
            first, *rest = (part.name for part in node.parts)
            return ".".join(map(backticked, [sides[first], *rest]))
        return node.sql(PlainSpark)  # a value: a parameter or a default


def spliced(text: str, start: int, stop: int, replaced: Iterable[Replacement]) -> str:
    """A part of a text with replacements applied."""
    made, done = [], start
    for first, last, words in sorted({*replaced}):
        if start <= first and last <= stop:
            made += [text[done:first], words]
            done = last
    return "".join([*made, text[done:stop]])


def side_column(side: str, path: Iterable[str]) -> exp.Expression:
    """A column of one side of the statement, or a field of a column."""
    first, *rest = (exp.to_identifier(name, quoted=True) for name in path)
    column = exp.Column(this=first, table=exp.to_identifier(side, quoted=True))
    return exp.Dot.build([column, *rest]) if rest else column


def struct_of(fields: Iterable[tuple[str, exp.Expression]]) -> exp.Expression:
    """A struct of named values."""
    pairs = [one for name, value in fields for one in (exp.Literal.string(name), value)]
    return exp.Anonymous(this="named_struct", expressions=pairs)


TARGET, SOURCE = "t.", "s."
"""The prefixes of the columns of joined rows."""
Load = Callable[[object], None]
"""Creates on a DuckDB connection the tables that expressions read, such as those of subqueries."""


class ExpressionReader(Protocol):
    """Reads the expressions of a statement on one version of its table, in this process."""

    @property
    def own(self) -> bool:
        """Whether queries in the expressions read the table that the statement changes."""

    def translator(self, text: Text, scope: Scope) -> Translator:
        """A translator for expressions of a text."""

    def loading(self) -> AbstractContextManager[Load | None]:
        """A function that creates the tables of the queries on a connection; None without queries."""

    def explained(self, zone: str, mode: str) -> Iterator[str]:
        """The lines of EXPLAIN about the tables of the translated queries."""


class StatementQueries(Protocol):
    """The queries in the expressions of a statement."""

    def at(self, version: Version) -> ExpressionReader:
        """A reader of expressions that sees this version of the changed table."""

    def replacements(self, part: ExpressionPart, version: Version) -> list[Replacement]:
        """The replacements of table names in the text for another engine, which has other names for the tables."""

    @property
    def own(self) -> bool:
        """Whether the queries read the table that the statement changes."""


@dataclass(frozen=True)
class _Plain:
    """Reads expressions without queries at the time `now`."""

    now: str
    own: bool = False

    def translator(self, text: Text, scope: Scope) -> Translator:
        return replace(Translator.at(text, scope, self.now), draws=True)  # conditions are checked by themselves

    @contextmanager
    def loading(self) -> Iterator[None]:
        yield None

    def explained(self, zone: str, mode: str) -> Iterator[str]:
        yield from ()


@dataclass(frozen=True)
class Statement:
    """A DELETE, UPDATE or MERGE.

    Attributes:
        clauses: the WHEN clauses; a DELETE or UPDATE has one.
        on: the condition of the join or, without a source, the condition for the rows; None: all rows.
        now: the time of the statement.
        isolation: the isolation level; None: that of the table's options.
        target: the qualifiers that can stand before a column of the target.
        source: the qualifiers that can stand before a column of the source; None: the statement is not a MERGE.
        queries: the queries in expressions; None: there are none.
    """

    clauses: tuple[Clause[ExpressionPart], ...]
    on: ExpressionPart | None
    now: str
    isolation: str | None = None
    target: tuple[str, ...] = ()
    source: tuple[str, ...] | None = None
    queries: StatementQueries | None = None

    def reader(self, version: Version) -> ExpressionReader:
        """Reads the expressions in this process."""
        return _Plain(self.now) if self.queries is None else self.queries.at(version)

    def level(self, version: Version) -> str:
        """The isolation level."""
        if self.isolation:
            return self.isolation
        if self.source is not None:
            return version.options.isolation.merge
        deletes = self.clauses[0].action == DELETE
        return version.options.isolation.delete if deletes else version.options.isolation.update

    @property
    def parts(self) -> Iterator[ExpressionPart]:
        """The expressions."""
        if self.on is not None:
            yield self.on
        for clause in self.clauses:
            yield from clause.parts

    def check_conditions(self) -> None:
        """Refuses conditions with random values, because an overtaken statement is evaluated again."""
        conditions = [one for one in (self.on, *(clause.condition for clause in self.clauses)) if one is not None]
        for part in conditions:
            check_condition(part.node, part.text)

    def has_query(self, parts: Iterable[ExpressionPart]) -> bool:
        return self.queries is not None and any(part.node.find(exp.Query) is not None for part in parts)

    def words(self, part: ExpressionPart, sides: Mapping[str, str], version: Version, more: Sequence[Replacement] = ()) -> str:
        """An expression as text for an engine. `sides`: the engine's names of the target and the source."""
        return part.words(sides, [*more, *([] if self.queries is None else self.queries.replacements(part, version))])

    def alone(self, columns: pa.Schema, prefix: str = "") -> Scope:
        """The scope with the columns of the target. Their names in the rows begin with `prefix`."""
        return Scope((self._side(columns, TARGET_SIDE, prefix),))

    def joined(self, columns: pa.Schema, source: pa.Schema) -> dict[str, Scope]:
        """Kind of clause -> the scope with the columns of target and source that it can name."""
        target, given = self._side(columns, TARGET_SIDE, TARGET), self._side(source, SOURCE_SIDE, SOURCE)
        return {MATCHED: Scope((target, given)), NOT_MATCHED: Scope((given,)), BY_SOURCE: Scope((target,))}

    def _side(self, columns: pa.Schema, side: str, prefix: str) -> Relation:
        names = self.target if side == TARGET_SIDE else self.source or ()
        return Scope.of(columns, *names, side, prefix=prefix).relations[0]


@contextmanager
def given(
    clauses: Iterable[Clause[str]],
    on: str | None,
    now: str,
    isolation: str | None,
    target: tuple[str, ...] = (),
    source: tuple[str, ...] | None = None,
) -> Iterator[Statement]:
    """A statement from texts, each parsed once. For the context manager see `Text.read`."""
    with ExitStack() as stack:

        def part(words: str) -> ExpressionPart:
            text = Text(words)
            node = text.expression()
            stack.enter_context(text.reading(node))
            if isinstance(node, exp.Query):
                refuse_query(text, node)
            return ExpressionPart(node, text)

        yield Statement(
            tuple(clause.map(part) for clause in clauses), None if on is None else part(on), now, isolation, target, source
        )


def deletion(where: str | None, now: str, isolation: str | None) -> AbstractContextManager[Statement]:
    """A DELETE of the rows that satisfy a condition."""
    return given([Clause(MATCHED, DELETE)], where, now, isolation)


def assignment(
    values: Mapping[str, str], where: str | None, now: str, isolation: str | None
) -> AbstractContextManager[Statement]:
    """An UPDATE of the rows that satisfy a condition."""
    if not values:
        raise InvalidQuery("there is no expression", cure="name at least one column")
    return given([Clause(MATCHED, UPDATE, values)], where, now, isolation)
