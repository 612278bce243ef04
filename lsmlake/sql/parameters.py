"""The parameters of a statement, and whether it is a query, before it has values and without executing it."""

from __future__ import annotations

from typing import NamedTuple

from sqlglot import exp

from lsmlake.dialect.sql_text import Text
from lsmlake.sql.execution import SHOWING, is_by_words
from lsmlake.sql.explain import mode_of
from lsmlake.sql.token_reader import first_word


class Shape(NamedTuple):
    """What a statement is.

    Attributes:
        reads: whether it changes nothing.
        is_query: whether it is a query alone, whose columns are known before it runs.
        parameters: the names of its parameters in the order of the text, each once; None stands for each `?`.
    """

    reads: bool
    is_query: bool = False
    parameters: tuple[str | None, ...] = ()


def shape_of(given: str) -> Shape:
    """Looks at a statement. Raises InvalidQuery if the text is not SQL."""
    first, behind = first_word(given)
    if is_by_words(first):
        return Shape(first in SHOWING)
    if first == "EXPLAIN":
        _, stop = mode_of(given, behind, spark=False)
        given = given[: behind - len(first)] + " " * (stop - behind + len(first)) + given[stop:]
    tree = Text(given).parsed()
    found = sorted(tree.find_all(exp.Placeholder), key=lambda node: node.meta["start"])
    names = [node.name if node.this else None for node in found]
    named = tuple(name for place, name in enumerate(names) if name is None or name not in names[:place])
    explained, query = first == "EXPLAIN", isinstance(tree, (exp.Query, exp.Values))
    return Shape(explained or query, query and not explained, named)
