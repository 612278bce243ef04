"""Comparisons of CHAR(n): Spark pads the shorter text with blanks, of a column and a constant or of two columns.

Only names of columns count, also of a query inside: no fields of a struct and no values of a function. A VARCHAR(n) is compared
as it is.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from lsmlake.dialect.drawn import is_drawn
from lsmlake.dialect.scope import Typed
from lsmlake.dialect.types import STRING, text
from lsmlake.types.types import char_length

_VARIABLE = exp.Column, exp.Identifier, exp.Query, exp.Lambda, exp.Placeholder, exp.Window


def padded(nodes: Sequence[exp.Expression], typed: Sequence[Typed]) -> list[Typed]:
    """The two sides of a comparison."""
    lengths = [char_length(one.known.declared) for one in typed]
    if None not in lengths:
        return [_padded(one, length, max(lengths)) for one, length in zip(typed, lengths, strict=True)]
    for place, length in enumerate(lengths):
        if length is not None and _is_constant(nodes[1 - place], typed[1 - place]):
            made = padded_list([nodes[place], nodes[1 - place]], [typed[place], typed[1 - place]])
            return made if place == 0 else made[::-1]
    return list(typed)


def padded_list(nodes: Sequence[exp.Expression], typed: Sequence[Typed]) -> list[Typed]:
    """A value and those of IN (...) that it is compared with. Spark pads none if one of them is no constant, or is null."""
    length = char_length(typed[0].known.declared)
    if length is None or not all(map(_is_constant, nodes[1:], typed[1:])):
        return list(typed)
    texts = [_literal(node) for node in nodes[1:]]
    if None not in texts:
        longest = max(length, *map(len, texts))
        return [_padded(typed[0], length, longest), *(Typed(text(one.ljust(longest)), STRING) for one in texts)]
    longest = f"greatest({', '.join([str(length), *(f'length({one.sql})' for one in typed[1:])])})"
    return [Typed(f"rpad({one.sql}, CAST({longest} AS INTEGER), ' ')", STRING) for one in typed]


def _padded(one: Typed, length: int, longest: int) -> Typed:
    return one if length == longest else Typed(f"rpad({one.sql}, {longest}, ' ')", STRING)


def _literal(node: exp.Expression) -> str | None:
    node = node.unnest()
    return node.this if isinstance(node, exp.Literal) and node.is_string else None


def _is_constant(node: exp.Expression, made: Typed) -> bool:
    """Whether a text is the same for all rows, and known before any is read."""
    return made.type == STRING and node.find(*_VARIABLE) is None and not is_drawn(made.sql)
