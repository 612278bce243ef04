"""A table in a query, and what need not be read of it: rows that a condition of the query leaves out anyway."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

import pyarrow as pa
from sqlglot import exp

from lsmlake.dialect.reading import operands
from lsmlake.dialect.scope import Scope


@dataclass
class TableUse:
    """A table in FROM. `view`: its name in DuckDB. `conditions`: parts of WHERE and ON about this table alone, which the rows of
    the result satisfy. `limit`: more rows are not needed. `within`: the query of a view that reads it. `renamed`: the text gives
    its columns other names."""

    node: exp.Table
    schema: pa.Schema
    view: str
    conditions: list[exp.Expression] = field(default_factory=list)
    limit: int | None = None
    within: exp.Expression | None = None
    renamed: bool = False


def conditions(node: exp.Expression, scope: Scope) -> list[exp.Expression]:
    """The parts of a condition on rows of the only relation of `scope` that hold no query, with plain names of columns."""
    return [found for part in _parts(node) if (found := _about(part, scope, 0)) is not None]


def push(condition: exp.Expression, scope: Scope, uses: Mapping[int, TableUse]) -> None:
    """Gives each table the parts of a condition that name columns of it alone."""
    inner = replace(scope, outer=None)
    for part in _parts(condition):
        for number, use in uses.items():
            if (found := _about(part, inner, number)) is not None:
                use.conditions.append(found)


def _about(part: exp.Expression, scope: Scope, number: int) -> exp.Expression | None:
    """A condition with plain names of columns, if it is about one relation alone."""
    own = {column.sql for column in scope.relations[number].columns}
    made = part.copy()
    names = [node for node in made.walk() if isinstance(node, exp.Column)]
    if not names or made.find(exp.Query, exp.Dot):
        return None
    for node in names:
        path = [one.name for one in node.parts]
        found = scope.found(path)
        if len(found) != 1 or found[0][0].sql not in own:
            return None
        column, used = found[0]
        parts = [exp.to_identifier(name, quoted=True) for name in (column.field or column.name, *path[used:])]
        keys = ("this", "table", "db", "catalog")
        if len(parts) > len(keys):
            return None
        plain = exp.Column(**dict(zip(keys, reversed(parts), strict=False)))
        if node is made:
            made = plain
        else:
            node.replace(plain)
    return made


def _parts(condition: exp.Expression) -> Iterable[exp.Expression]:
    """The parts that must all be true."""
    return operands(condition.unnest(), exp.And)
