"""A condition given as text, as a predicate. What predicates cannot say is evaluated by DuckDB, as in a statement."""

from __future__ import annotations

import pyarrow as pa

from lsmlake.dialect.evaluate import condition_from
from lsmlake.dialect.expression import Translator
from lsmlake.dialect.scope import Scope
from lsmlake.dialect.table_use import conditions
from lsmlake.dialect.text import Text
from lsmlake.predicate.tree import Column, Computed, Predicate, and_
from lsmlake.schema import types
from lsmlake.statements.change import predicate_of
from lsmlake.statements.part import Part


def computed(where: str, columns: pa.Schema, zone: str, now: str | None) -> Predicate:
    """A condition that `predicate.spark_sql.parse` does not support. The predicates among its parts choose the files to read.

    Args:
        where: The text.
        columns: Those of the table.
        zone: The session's time zone.
        now: The time of the call; None: current_timestamp is refused.

    Raises:
        InvalidQuery: The text is no condition that DuckDB can evaluate. The error names the place.
    """
    text, scope = Text(where), Scope.of(columns)
    with text.read() as node:
        condition = condition_from(Translator.at(text, scope, now), node, zone)
        parts = [predicate_of(Part(part, text), columns, (), zone) for part in conditions(node, scope)]
    reads = tuple(Column((name,), types.canonical(columns.field(name).type, name)) for name in condition.needs)
    return and_(*(part for part in parts if part is not None), Computed(condition, reads))
