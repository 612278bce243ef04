"""DELETE and UPDATE by any expression: what predicates cannot say is evaluated by DuckDB, as a MERGE with a source of one row.

The predicates among the parts of the condition limit the files to read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import pyarrow as pa
from sqlglot import exp

from lsmlake.dialect.evaluate import Columns, Condition, columns_of, condition_from
from lsmlake.dialect.expression import Translator
from lsmlake.dialect.reading import operands
from lsmlake.dialect.scope import Scope
from lsmlake.dialect.text import Text
from lsmlake.errors import InvalidQuery
from lsmlake.predicate import Predicate, and_
from lsmlake.predicate.spark_sql.translate import from_sqlglot
from lsmlake.store.version import Version
from lsmlake.write.clause import DELETE, MATCHED, UPDATE
from lsmlake.write.merge import merge
from lsmlake.write.merge_clauses import TARGET, Checked, Statement
from lsmlake.write.merge_join import Join
from lsmlake.write.statement import DmlReport

Load = Callable[[object], None]
"""Makes what the expressions read, such as the tables of subqueries, on a connection of DuckDB."""
_ONE_ROW = pa.table({"one": pa.array([0], pa.int8())})


def delete_by_text(version: Version, where: str, isolation: str, zone: str, now: str) -> DmlReport:
    """Deletes the rows that satisfy a condition. Raises Overtaken, InvalidQuery."""
    condition, known = _condition(version, where, zone, now)
    return change_rows(version, condition, None, known, isolation, zone)


def update_by_text(version: Version, values: Mapping[str, str], where: str, isolation: str, zone: str, now: str) -> DmlReport:
    """Gives the rows that satisfy a condition new values. Raises Overtaken, InvalidQuery, InvalidData."""
    scope, columns = target_scope(version, ()), version.schema.plain_columns
    condition, known = _condition(version, where, zone, now)
    assigned = columns_of(values, scope, columns, zone=zone, now=now)
    return change_rows(version, condition, assigned, known, isolation, zone)


def _condition(version: Version, where: str, zone: str, now: str) -> tuple[Condition, Predicate | None]:
    text = Text(where)
    with text.read() as node:
        parts = operands(node.unnest(), exp.And)
        condition = condition_from(Translator.at(text, target_scope(version, ()), now), node, zone)
    return condition, known_of(parts, version, text, zone)


def target_scope(version: Version, qualifiers: tuple[str, ...]) -> Scope:
    """The columns of the table that a statement changes, as the join names them. `qualifiers`: what stands before a dot."""
    return Scope.of(version.schema.plain_columns, *qualifiers, prefix=TARGET)


def known_of(parts: Iterable[exp.Expression], version: Version, text: Text, zone: str) -> Predicate | None:
    """The predicates among the parts of a condition that all must be true; None if there are none."""
    found = []
    for part in parts:
        try:
            found.append(from_sqlglot(part, version.schema.plain_columns, text.text, zone=zone))
        except InvalidQuery:
            continue
    return and_(*found) if found else None


def change_rows(
    version: Version,
    condition: Condition,
    values: Columns | None,
    known: Predicate | None,
    isolation: str,
    zone: str,
    load: Load | None = None,
    own: bool = False,
) -> DmlReport:
    """Deletes the rows that satisfy a condition, or gives them new values, in one commit.

    Args:
        version: The version to read.
        condition: Over `target_scope`.
        values: Over `target_scope`. None: the rows are deleted.
        known: What all rows satisfy that satisfy the condition; None: nothing is known.
        isolation: See `options.isolation`.
        zone: The session's time zone.
        load: Called before the condition is evaluated.
        own: Whether this reads the table that is changed.

    Raises:
        InvalidQuery: An expression fails for a row, or the merge engine cannot update rows.
        InvalidData: A new value does not fit its column.
        Overtaken: Another commit changed one of the rows.
    """
    clause = Checked(MATCHED, DELETE if values is None else UPDATE, values, None)
    statement = Statement(condition, (), (clause,), known)
    with Join(statement, [_ONE_ROW], _ONE_ROW.schema, zone, version.options.write.buffer_bytes, load) as join:
        return merge(version, join, isolation, own)
