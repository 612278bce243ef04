"""Whether the rows of a query that this process executes have an order."""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

from lsmlake.dialect.text import peek
from lsmlake.sql.catalog import Catalog
from lsmlake.write.arrival import Ordered

_IN_ANY_ORDER = exp.Join, exp.Group, exp.Distinct, exp.SetOperation, exp.Window, exp.Pivot, exp.Exists, exp.In, exp.Subquery
_IN_FROM = exp.From, exp.Subquery, exp.SetOperation, exp.CTE


def order_of_rows(query: exp.Expression, catalog: Catalog) -> Ordered:
    """ALL if the rows come in the order of VALUES, of one table or file, of UNION ALL, or of an ORDER BY at the end.

    Args:
        query: A query that has been translated.
        catalog: The tables that it names.
    """
    if peek(query.unnest(), "order") is not None:
        return Ordered.ALL
    mixes = any(_mixes(node, tree) for tree in _trees(query, catalog) for node in tree.find_all(*_IN_ANY_ORDER))
    return Ordered.QUERY if mixes else Ordered.ALL


def _trees(query: exp.Expression, catalog: Catalog) -> Iterator[exp.Expression]:
    """The query, and those of the views that it reads."""
    yield query
    yield from (view.tree() for view in catalog.views())


def _mixes(node: exp.Expression, tree: exp.Expression) -> bool:
    """Whether a node of one of these classes joins or groups rows, or makes a join of a query in an expression."""
    match node:
        case exp.Union():
            return peek(node, "distinct") is not False
        case exp.In():
            return peek(node, "query") is not None
        case exp.Subquery():
            return node is not tree and not isinstance(node.parent, _IN_FROM)
    return True
