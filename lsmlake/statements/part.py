"""An expression of a statement: a tree, which this process evaluates, and the place in the text that an engine beside it gets.

No text is parsed again: an engine gets the words of the statement, with other names where the statement names tables.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import chain

from sqlglot import exp

from lsmlake.dialect.grammar import PlainSpark
from lsmlake.dialect.text import Text
from lsmlake.types.type_text import backticked

TARGET_SIDE, SOURCE_SIDE = "#target", "#source"
"""The qualifiers of columns that no text names, such as those that `*` stands for."""
Replacement = tuple[int, int, str]
"""A place in a text, from start to stop, and what stands there instead."""


@dataclass(frozen=True, eq=False)
class ExpressionPart:
    """An expression. `node`: its tree; `text`: the text that it is a part of; `inner`: the parts of a struct of which some fields
    are assigned."""

    node: exp.Expression
    text: Text
    inner: tuple[ExpressionPart, ...] = ()

    def words(self, sides: Mapping[str, str], replaced: Iterable[Replacement] = ()) -> str:
        """The expression as text. `sides`: the names of `TARGET_SIDE` and `SOURCE_SIDE`. `replaced`: other words for places of
        the text."""
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
    """A part of a text with other words in some places."""
    made, done = [], start
    for first, last, words in sorted({*replaced}):
        if start <= first and last <= stop:
            made += [text[done:first], words]
            done = last
    return "".join([*made, text[done:stop]])


def side_column(side: str, path: Iterable[str]) -> exp.Expression:
    """A column, or a field of one, of a side of the statement."""
    first, *rest = (exp.to_identifier(name, quoted=True) for name in path)
    column = exp.Column(this=first, table=exp.to_identifier(side, quoted=True))
    return exp.Dot.build([column, *rest]) if rest else column


def struct_of(fields: Iterable[tuple[str, exp.Expression]]) -> exp.Expression:
    """A struct of named values."""
    pairs = [one for name, value in fields for one in (exp.Literal.string(name), value)]
    return exp.Anonymous(this="named_struct", expressions=pairs)
