"""A table in a query, and what need not be read of it: rows that a condition of the query leaves out anyway."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

import pyarrow as pa
from sqlglot import exp

from lsmlake.dialect.reading import nodes, operands
from lsmlake.dialect.scope import Scope, ScopeColumn, Taker

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
    """What has the values of the first column that a condition names."""
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
