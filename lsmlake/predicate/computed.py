"""A condition given as text, or parsed, as a predicate. What predicates cannot say is evaluated by DuckDB, as in a statement."""

from __future__ import annotations

import pyarrow as pa
from sqlglot import exp

from lsmlake.dialect.evaluate import condition_from
from lsmlake.dialect.expression import Translator
from lsmlake.dialect.scope import Scope
from lsmlake.dialect.table_use import conditions
from lsmlake.dialect.text import Text
from lsmlake.errors import InvalidQuery
from lsmlake.predicate.binding import from_sqlglot
from lsmlake.predicate.tree import Column, Computed, Predicate, Unsupported, and_
from lsmlake.types import types


def computed(where: str, columns: pa.Schema, zone: str, now: str | None) -> Predicate:
    """A condition that `predicate.parse` does not support. The predicates among its parts choose the files to read.

    Args:
        where: The text.
        columns: Those of the table.
        zone: The session's time zone.
        now: The time of the call; None: current_timestamp is refused.

    Raises:
        InvalidQuery: The text is no condition that DuckDB can evaluate. The error names the place.
    """
    text = Text(where)
    with text.read() as node:
        return _computed(node, text, columns, zone, now)


def predicate_from(node: exp.Expression, text: Text, columns: pa.Schema, zone: str, now: str | None) -> Predicate:
    """A parsed condition as a predicate, as `where.predicate_of` does with text."""
    try:
        return from_sqlglot(node, columns, text.text, zone=zone)
    except Unsupported:
        return _computed(node, text, columns, zone, now)


def _computed(node: exp.Expression, text: Text, columns: pa.Schema, zone: str, now: str | None) -> Predicate:
    scope = Scope.of(columns)
    condition = condition_from(Translator.at(text, scope, now), node, zone)
    parts = [_known(part, text, columns, zone) for part in conditions(node, scope)]
    reads = tuple(Column((name,), types.canonical(columns.field(name).type, name)) for name in condition.needs)
    return and_(*(part for part in parts if part is not None), Computed(condition, reads))


def _known(part: exp.Expression, text: Text, columns: pa.Schema, zone: str) -> Predicate | None:
    try:
        return from_sqlglot(part, columns, text.text, zone=zone)
    except InvalidQuery:
        return None
