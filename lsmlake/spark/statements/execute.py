"""Executes DELETE, UPDATE and MERGE as Spark plans.

A statement whose files are small runs in the driver (`in_driver`), as it does without Spark, unless its source is a DataFrame or
only Spark can evaluate its text.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from lsmlake.errors import InvalidData
from lsmlake.spark.statements import by_key, by_position
from lsmlake.spark.statements.clauses import Clauses
from lsmlake.spark.statements.errors import translated
from lsmlake.spark.statements.in_driver import is_small
from lsmlake.spark.statements.merge_source import MergeSource, as_text, few_rows
from lsmlake.spark.statements.statement import Statement
from lsmlake.spark.statements.target import Target
from lsmlake.write.candidates import candidates
from lsmlake.write.changeable import check_deletable, check_updatable
from lsmlake.write.clause import BY_SOURCE, DELETE, UPDATE, Clause
from lsmlake.write.merge_clauses import assignments, check_clauses, equal_columns
from lsmlake.write.statement import DmlReport


def delete(target: Target) -> DmlReport:
    """Deletes the rows."""
    return _alone(target, Clause(BY_SOURCE, DELETE))


def update(target: Target, values: Mapping[str, str]) -> DmlReport:
    """Gives the rows new values."""
    return _alone(target, Clause(BY_SOURCE, UPDATE, values))


def _alone(target: Target, clause: Clause) -> DmlReport:
    return _run(Statement(target, Clauses.of(target.version.schema, [clause], [clause.values or {}])))


def merge(target: Target, source: MergeSource, on: str, clauses: tuple[Clause, ...]) -> DmlReport:
    """Changes the rows by a MERGE with a DataFrame. If the files are not few, only those are read that can match."""
    check_clauses(clauses)
    schema = target.version.schema
    equal = equal_columns(on, schema.plain_columns, source.columns)
    common = equal_columns(on, schema.plain_columns, source.columns, nulls=True)
    texts = [assignments(clause, schema, source.columns, common) for clause in clauses]
    made, few = Clauses.of(schema, clauses, texts), None
    if source.frame.isStreaming:
        raise InvalidData("a streaming DataFrame is no batch", cure="use foreachBatch and merge each batch")
    if equal and all(clause.when != BY_SOURCE for clause in clauses):
        few = few_rows(target, source, on, equal)
        if not is_small(target.plan()):
            with translated():
                known = candidates(schema, equal, source)
            target = replace(target, predicate=known, where=as_text(known))
    return _run(Statement(target, made, source.frame, on, few))


def _run(statement: Statement) -> DmlReport:
    schema, path = statement.target.version.schema, statement.target.version.meta.paths.root
    for clause, values in zip(statement.clauses.clauses, statement.clauses.values, strict=True):
        if clause.action == UPDATE:
            check_updatable(schema, list(values), path)
        if clause.action == DELETE:
            check_deletable(schema, path)
    with translated():
        return by_position.run(statement) if schema.append_only else by_key.run(statement)
