"""Executes or explains DELETE, UPDATE and MERGE as Spark plans. Spark evaluates the expressions in the statement's own text.

The driver executes small statements that lsmlake understands as without Spark (`in_driver`).
EXPLAIN gives the lines of `statements.explained`, then Spark's plan of the changes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

import pyarrow as pa
from sqlglot import exp

from lsmlake.api.runtime import Runtime
from lsmlake.dialect.context import drawn_twice
from lsmlake.dialect.scope import Scope
from lsmlake.dialect.sql_text import passed_on
from lsmlake.errors import InvalidData
from lsmlake.predicate import Predicate
from lsmlake.predicate.binding import bound, implied
from lsmlake.read.plan import plan
from lsmlake.schema.schema import Schema
from lsmlake.spark import read
from lsmlake.spark.learned import Learned
from lsmlake.spark.statements import as_upsert, by_key, by_position
from lsmlake.spark.statements.clauses import Clauses
from lsmlake.spark.statements.in_driver import DriverStatement, executed
from lsmlake.spark.statements.sides import MergeSource, SparkTarget, as_text, decided_by_partitions, few_rows, is_small
from lsmlake.spark.statements.spark_errors import translated
from lsmlake.spark.statements.spark_statement import SparkStatement as Executed
from lsmlake.statements.attempts import DmlReport
from lsmlake.statements.bound import assigned, check_clauses, equal_columns, is_upsert, schema_of_source
from lsmlake.statements.bound import bound as bound_merge
from lsmlake.statements.change import CheckedChange, delete
from lsmlake.statements.clause import BY_SOURCE, DELETE, MATCHED, NOT_MATCHED, UPDATE, Clause
from lsmlake.statements.explained import change_lines, merge_lines
from lsmlake.statements.statement import SOURCE_SIDE, TARGET_SIDE, ExpressionPart, Replacement, Statement
from lsmlake.tables.version import Version
from lsmlake.types.column_types import has_sized_text
from lsmlake.types.type_text import backticked
from lsmlake.write.changeable import candidates, check_deletable, check_updatable
from lsmlake.write.replaced import can_count


def changing(runtime: Runtime, statement: Statement, version: Version) -> Callable[[Version], DmlReport]:
    """Reads a DELETE or UPDATE for a version. Returns a function that executes it on any version."""
    here = _in_driver(runtime, statement, version)
    pass_on(statement)
    return lambda version: _change(runtime, statement, here, version)


def _in_driver(runtime: Runtime, statement: Statement, version: Version) -> DriverStatement | None:
    zone = runtime.zone
    return DriverStatement.of(runtime.spark, statement, zone, lambda one: CheckedChange.of(one, version, zone))


class ReadStatement(NamedTuple):
    """A DELETE or UPDATE read for a version. `values`: column -> new value. `deletes`: whether it is a DELETE that the driver
    executes by its predicate."""

    executed: Executed
    values: Mapping[str, ExpressionPart]
    deletes: bool


def _change(runtime: Runtime, statement: Statement, here: DriverStatement | None, version: Version) -> DmlReport:
    if here is not None and (made := here.change(version)) is not None and (report := executed(made)) is not None:
        return report
    made = reading_of(runtime, statement, version)
    target = made.executed.target
    return delete(version, target.predicate, target.isolation) if made.deletes else _run(made.executed)


def reading_of(runtime: Runtime, statement: Statement, version: Version) -> ReadStatement:
    """Reads a DELETE or UPDATE for a version."""
    (clause,), where, columns = statement.clauses, statement.on, version.schema.typed_columns
    sides = {TARGET_SIDE: statement.target[0] if statement.target else "t"}

    def words(part: ExpressionPart) -> str:
        return statement.words(part, sides, version)

    text = None if where is None else words(where)
    predicate, decides = (None, False) if where is None else _known(runtime, where, text, statement, columns)
    level, deletes = statement.level(version), False
    if clause.action == DELETE and (decides or where is None):
        planned = plan(version, predicate)
        reads = version.options.write.driver_statement_bytes > 0
        deletes = decided_by_partitions(planned) or (reads and is_small(planned))
    own = statement.queries is not None and statement.queries.own
    target = SparkTarget(
        runtime.spark, version, sides[TARGET_SIDE], level, text, predicate, decides, own=own, learned=runtime.learned
    )
    values = assigned(statement, clause, version.schema, None)
    texts = {name: words(value) for name, value in values.items()}
    made = Clauses.of(version.schema, target.name, [Clause(BY_SOURCE, clause.action, texts)], [texts])
    return ReadStatement(Executed(target, made), values, deletes)


def _known(
    runtime: Runtime, where: ExpressionPart, text: str, statement: Statement, columns: pa.Schema
) -> tuple[Predicate | None, bool]:
    """A predicate that lsmlake derives from a condition, and whether it is equal to the condition."""
    scope = statement.alone(columns)
    predicate = bound(where.node, scope, runtime.zone)
    decides = predicate is not None
    if predicate is None:
        predicate = implied(where.node, scope, runtime.zone)
    if predicate is None:
        return None, False
    types = tuple(columns.field(name).type for name in predicate.columns)
    return (None, False) if runtime.reads_otherwise(text, types) else (predicate, decides)


_OTHER = {SOURCE_SIDE: "target", TARGET_SIDE: "source"}


def merging(runtime: Runtime, source: MergeSource, statement: Statement, version: Version) -> Callable[..., DmlReport]:
    """Reads a MERGE with a DataFrame for a version. Returns a function that executes it on any version; `own`: the source reads
    this version."""
    here = _merges_in_driver(source, statement, version)
    check_merge(source, statement)
    return lambda version, own: _merge(source, statement, here, runtime.learned, version, own)


def _merges_in_driver(source: MergeSource, statement: Statement, version: Version) -> DriverStatement | None:
    zone = source.session.conf.get("spark.sql.session.timeZone")

    def read(one: Statement) -> object:
        return bound_merge(one, version, schema_of_source(source.columns, version.schema.plain_columns), zone)

    return DriverStatement.of(source.session, statement, zone, read)


def check_merge(source: MergeSource, statement: Statement) -> None:
    """Refuses a MERGE that no version of the target allows."""
    pass_on(statement)
    check_clauses(statement.clauses)
    if source.frame.isStreaming:
        raise InvalidData("a streaming DataFrame is no batch", cure="use foreachBatch and merge each batch")


def merge_of(source: MergeSource, statement: Statement, version: Version, learned: Learned, own: bool) -> Executed:
    """Reads a MERGE for a version. Reads no rows of the source."""
    sides = {TARGET_SIDE: statement.target[0], SOURCE_SIDE: statement.source[0] if statement.source else "s"}
    own = own or (statement.queries is not None and statement.queries.own)
    target = SparkTarget(source.session, version, sides[TARGET_SIDE], statement.level(version), own=own, learned=learned)
    on, clauses = _clauses(statement, version.schema, source, sides, version)
    made = Executed(target, clauses, source.frame, sides[SOURCE_SIDE], on)
    return replace(made, upserts=not own and _upserts(statement, version, source))


def _upserts(statement: Statement, version: Version, source: MergeSource) -> bool:
    """Whether a MERGE is an upsert of its source, of which the table can count the rows that it replaces."""
    schema, scope = version.schema, statement.joined(version.schema.typed_columns, source.columns)[MATCHED]
    if not can_count(version) or any(split.level0 or split.merged for split in plan(version).splits):
        return False
    common = equal_columns(statement.on.node, scope, nulls=True)
    values = [assigned(statement, one, schema, source.columns, common) for one in statement.clauses]
    return is_upsert(statement, values, schema, scope) and all(
        _compared_as_keys(schema.typed_columns.field(own), source.columns.field(other))
        for own, other in equal_columns(statement.on.node, scope)
    )


def _compared_as_keys(own: pa.Field, other: pa.Field) -> bool:
    """Whether values of a key column and of a source column are equal in SQL if they are equal as keys: not so floats and texts
    of a length."""
    sized = has_sized_text(own) or has_sized_text(other)
    return own.type == other.type and not sized and not pa.types.is_floating(own.type) and not pa.types.is_nested(own.type)


def _merge(
    source: MergeSource, statement: Statement, here: DriverStatement | None, learned: Learned, version: Version, own: bool
) -> DmlReport:
    """Executes a MERGE. If there are many files, reads only files that can match."""
    schema, made = version.schema, merge_of(source, statement, version, learned, own)
    if made.upserts and (report := as_upsert.run(_checked(made))) is not None:
        return report
    scope = statement.joined(schema.typed_columns, source.columns)[MATCHED]
    equal = equal_columns(statement.on.node, scope)
    target, few = made.target, None
    if equal and all(clause.when != BY_SOURCE for clause in statement.clauses):
        few = few_rows(target, source, made.on, equal)
        if few and here is not None and (report := here.merge(version, source.rows, own)) is not None:
            return report
        if not is_small(target.plan()):
            with translated():
                known = candidates(schema, equal, source)
            target = replace(target, predicate=known, ranges=as_text(known, schema))
    return _run(replace(made, target=target, source=source.frame, few=few))


def _clauses(
    statement: Statement, schema: Schema, source: MergeSource, sides: Mapping[str, str], version: Version
) -> tuple[str, Clauses]:
    """The condition of the join and the clauses, as text for Spark."""

    scopes = statement.joined(schema.typed_columns, source.columns)

    def words(part: ExpressionPart, when: str = MATCHED) -> str:
        return statement.words(part, sides, version, _qualified(part, when, scopes, sides))

    def value(part: ExpressionPart, when: str) -> str:
        """A value as SQL. Refuses random operands that Spark would draw twice, since each clause becomes a branch of a CASE."""
        if (drawn := drawn_twice(part.node)) is not None:
            what = f"Spark would draw the operand of {drawn[1].upper()} twice in a MERGE"
            part.text.refuse(drawn[0], what, cure="draw it as a column of the source")
        return words(part, when)

    common = equal_columns(statement.on.node, scopes[MATCHED], nulls=True)
    texts = [
        {name: value(part, one.when) for name, part in assigned(statement, one, schema, source.columns, common).items()}
        for one in statement.clauses
    ]
    clauses = [
        Clause(one.when, one.action, values, None if one.condition is None else words(one.condition, one.when))
        for one, values in zip(statement.clauses, texts, strict=True)
    ]
    made = Clauses.of(schema, sides[TARGET_SIDE], clauses, texts)
    alone = source.frame.alias(sides[SOURCE_SIDE])
    with translated():  # Spark refuses a column of the target in a clause for rows of the source alone
        made.check_inserts(alone)
    return words(statement.on), made


def _qualified(part: ExpressionPart, when: str, scopes: Mapping[str, Scope], sides: Mapping[str, str]) -> list[Replacement]:
    """Inserts the name of the target or source before unqualified columns in a clause for rows of one side. Refuses columns of
    the other side."""
    replacements: list[Replacement] = []
    side = {NOT_MATCHED: SOURCE_SIDE, BY_SOURCE: TARGET_SIDE}.get(when)
    for column in part.node.find_all(exp.Column) if side else ():
        path = [one.name for one in column.parts]
        if column.find_ancestor(exp.Query, exp.Lambda) is not None:
            continue
        matches = scopes[when].found(path)
        if not matches and scopes[MATCHED].found(path):
            part.text.refuse(column, f"a clause WHEN {when.upper()} can name no column of the {_OTHER[side]}")
        if len(matches) == 1 and matches[0][1] == 1 and "start" in column.parts[0].meta:
            start = column.parts[0].meta["start"]
            replacements.append((start, start, f"{backticked(sides[side])}."))
    return replacements


def pass_on(statement: Statement) -> None:
    """Marks the expressions of a statement as read by Spark."""
    statement.check_conditions()
    for part in statement.parts:
        passed_on(part.node)


def _run(statement: Executed) -> DmlReport:
    with translated():
        run = by_position.run if statement.target.version.schema.append_only else by_key.run
        return run(_checked(statement))


def _checked(statement: Executed) -> Executed:
    """The statement. Raises InvalidQuery if the table cannot be changed so."""
    schema, path = statement.target.version.schema, statement.target.version.meta.paths.root
    for clause, values in zip(statement.clauses.clauses, statement.clauses.values, strict=True):
        if clause.action == UPDATE:
            check_updatable(schema, list(values), path)
        if clause.action == DELETE:
            check_deletable(schema, path)
    return statement


# -- EXPLAIN ----------------------------------------------------------------------------------------------------------


def explained_change(runtime: Runtime, statement: Statement, version: Version, name: str, mode: str) -> Iterator[str]:
    """The lines of EXPLAIN for a DELETE or UPDATE."""
    here = _in_driver(runtime, statement, version)
    pass_on(statement)
    checked = None if here is None else here.change(version)
    made, (clause,) = reading_of(runtime, statement, version), statement.clauses
    by = "Arrow, in the driver" if made.deletes else "Spark"
    if checked is not None:
        by = "Arrow, in the driver" if checked.condition is None else "DuckDB, in the driver"
    yield from change_lines(name, made.executed.target.plan(), clause, statement.on, made.values, by, mode)
    if checked is None and not made.deletes:
        yield from _plan(made.executed, mode)


def explained_merge(source: MergeSource, statement: Statement, version: Version, name: str, mode: str) -> Iterator[str]:
    """The lines of EXPLAIN for a MERGE."""
    check_merge(source, statement)
    executed = merge_of(source, statement, version, set(), own=False)
    scope = statement.joined(version.schema.typed_columns, source.columns)[MATCHED]
    common = equal_columns(statement.on.node, scope, nulls=True)
    clauses = ((one, assigned(statement, one, version.schema, source.columns, common)) for one in statement.clauses)
    by = "the writer, as in an upsert of the source" if executed.upserts else "Spark"
    equal = () if executed.upserts else equal_columns(statement.on.node, scope)
    yield from merge_lines(name, version, statement.on, equal, clauses, by, mode)
    yield from _plan(executed, mode)


def _plan(executed: Executed, mode: str) -> Iterator[str]:
    """Spark's plan of the changes. It runs no job."""
    target = executed.target
    with translated():
        if executed.upserts:
            yield from lines_of(target.spark, as_upsert.rows_of(executed), mode, f"lsmlake_{target.version.meta.env.ids()}")
            return
        rows = executed.acting(read.frame(target.spark, target.plan(), target.ranges, read.AUTO), ())
        if any(executed.clauses.values):
            rows = executed.clauses.new_rows(rows, [], deleted=False)
        yield from lines_of(target.spark, rows, mode, f"lsmlake_{target.version.meta.env.ids()}")


def lines_of(spark, rows, mode: str, view: str) -> Iterator[str]:
    """Spark's plan of a DataFrame, as lines. `view`: an unused name for a temporary view."""
    rows.createOrReplaceTempView(view)
    try:
        plan = spark.sql(f"EXPLAIN {mode} SELECT * FROM {view}").collect()[0][0]
    finally:
        spark.catalog.dropTempView(view)
    yield from (line for line in plan.splitlines() if line)
