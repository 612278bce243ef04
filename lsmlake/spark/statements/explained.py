"""What EXPLAIN says of statements that Spark evaluates: the lines of `statements.explained`, then Spark's plan of the changes."""

from __future__ import annotations

from collections.abc import Iterator

from lsmlake.api.runtime import Runtime
from lsmlake.spark import read
from lsmlake.spark.statements.errors import translated
from lsmlake.spark.statements.execute import check_merge, merge_of, pass_on, reading_of
from lsmlake.spark.statements.merge_source import MergeSource
from lsmlake.spark.statements.statement import SparkStatement as Executed
from lsmlake.statements.bound import assigned, equal_columns
from lsmlake.statements.clause import MATCHED
from lsmlake.statements.explained import change_lines, merge_lines
from lsmlake.statements.statement import Statement
from lsmlake.tables.version import Version


def change(runtime: Runtime, statement: Statement, version: Version, name: str, mode: str) -> Iterator[str]:
    """The lines of a DELETE or UPDATE."""
    pass_on(statement)
    made, (clause,) = reading_of(runtime, statement, version), statement.clauses
    by = "Arrow, in the driver" if made.in_driver else "Spark"
    yield from change_lines(name, made.executed.target.plan(), clause, statement.on, made.values, by, mode)
    if not made.in_driver:
        yield from _plan(made.executed, mode)


def merge(source: MergeSource, statement: Statement, version: Version, name: str, mode: str) -> Iterator[str]:
    """The lines of a MERGE."""
    check_merge(source, statement)
    executed = merge_of(source, statement, version, set(), own=False)
    scope = statement.joined(version.schema.typed_columns, source.columns)[MATCHED]
    common = equal_columns(statement.on.node, scope, nulls=True)
    clauses = ((one, assigned(statement, one, version.schema, source.columns, common)) for one in statement.clauses)
    yield from merge_lines(name, version, statement.on, equal_columns(statement.on.node, scope), clauses, "Spark", mode)
    yield from _plan(executed, mode)


def _plan(executed: Executed, mode: str) -> Iterator[str]:
    """Spark's plan of the changes. It runs no job."""
    target = executed.target
    with translated():
        rows = executed.acting(read.frame(target.spark, target.plan(), target.ranges, read.AUTO), ())
        if any(executed.clauses.values):
            rows = executed.clauses.new_rows(rows, [], deleted=False)
        yield from lines_of(target.spark, rows, mode, f"lsmlake_{target.version.meta.env.ids()}")


def lines_of(spark, rows, mode: str, view: str) -> Iterator[str]:
    """Spark's plan of a DataFrame. `view`: a name that is free."""
    rows.createOrReplaceTempView(view)
    try:
        found = spark.sql(f"EXPLAIN {mode} SELECT * FROM {view}").collect()[0][0]
    finally:
        spark.catalog.dropTempView(view)
    yield from (line for line in found.splitlines() if line)
