"""Parsed conditions as predicates. DuckDB evaluates the parts that predicates cannot express, as in a statement."""

from __future__ import annotations

import pyarrow as pa
from sqlglot import exp

from lsmlake.dialect.context import check_condition
from lsmlake.dialect.expression import Translator
from lsmlake.dialect.row_evaluation import Condition, condition_sql
from lsmlake.dialect.scope import Scope
from lsmlake.dialect.sql_text import Text, Unsupported
from lsmlake.predicate.binding import bound, implied
from lsmlake.predicate.tree import Column, Computed, Predicate, and_
from lsmlake.types import column_types


def predicate_from(node: exp.Expression, text: Text, columns: pa.Schema, zone: str, now: str | None) -> Predicate:
    """A condition as a predicate, once the dialect has judged it. Arguments and errors as of `where.predicate_of`."""
    computed = computed_from(node, text, columns, zone, now)
    whole = bound(node, Scope.of(columns), zone)
    return computed if whole is None else whole


def computed_from(node: exp.Expression, text: Text, columns: pa.Schema, zone: str, now: str | None) -> Predicate:
    """A condition that DuckDB evaluates. The predicates among its parts choose the files to read. Arguments and errors as of
    `where.predicate_of`."""
    scope = Scope.of(columns)
    check_condition(node, text)
    sql = condition_sql(Translator.at(text, scope, now), node)
    condition, known = Condition.of(sql, node, scope, zone), implied(node, scope, zone)
    reads = tuple(Column((name,), column_types.canonical(columns.field(name).type, name)) for name in condition.needs)
    return and_(*([] if known is None else [known]), Computed(condition, reads))


def known_from(node: exp.Expression, text: Text, columns: pa.Schema, zone: str, now: str | None) -> tuple[Predicate | None, str]:
    """Implements `where.known_of` for a condition that is no predicate."""
    scope = Scope.of(columns)
    try:
        with text.reading(node):
            condition_sql(Translator.at(text, scope, now), node)
    except Unsupported as refusal:
        reason = str(refusal)
    else:
        reason = f"it is more than the comparisons that lsmlake makes in time zone {zone}"
    return implied(node, scope, zone), reason
