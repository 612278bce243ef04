"""A statement on an append-only table: rows with their places (`places`), what becomes of them (`clauses`), and one job that
writes new rows and reports the places to remove (`row_edit`)."""

from __future__ import annotations

from functools import partial

from pyspark.sql import functions as F

from lsmlake.read.positions import FILE, POSITION
from lsmlake.spark.partitions import partition_values
from lsmlake.spark.statements import row_edit
from lsmlake.spark.statements.clauses import Clauses
from lsmlake.spark.statements.places import Places
from lsmlake.spark.statements.row_edit import column
from lsmlake.spark.statements.statement import SparkStatement
from lsmlake.statements.attempts import DmlReport
from lsmlake.statements.bound import repeats_allowed
from lsmlake.statements.clause import ACTION, DELETE, INSERT, UPDATE
from lsmlake.statements.merge_join import repeated
from lsmlake.write.append import joined
from lsmlake.write.row_edit import replace_rows


def run(statement: SparkStatement) -> DmlReport:
    """Carries out a statement."""
    target, clauses, version = statement.target, statement.clauses, statement.target.version
    places = Places.of(target.plan())
    if not places.files and statement.source is None:
        return DmlReport()
    rows = statement.acting(places.rows(target.spark, target.ranges), ())
    columns, writes = [ACTION, FILE, POSITION], clauses.numbers(UPDATE, INSERT)
    if writes:
        rows = clauses.new_rows(rows, columns[1:], deleted=False)
        columns += map(column, range(len(version.schema.columns.names)))
    writing = row_edit.RowWriting(version, writes, clauses.numbers(INSERT))
    found, limit = statement.collected(rows, columns)
    if found is not None:
        edit = row_edit.here(writing, found.to_batches())
    else:
        edit = row_edit.run(writing, _together(rows, clauses) if writes else rows.selectExpr(*columns))
        statement.note(edit.rows + edit.inserted, limit)
    try:
        if not repeats_allowed(clauses.clauses) and edit.repeats:
            raise repeated()
        removed = places.at(edit.removed)
    except BaseException:
        version.meta.files.discard(edit.added)
        raise
    rewrite = partial(row_edit.rewritten, target.spark)
    snapshot = replace_rows(version, removed, joined(edit.added), statement.wanted, rewrite)
    updated, deleted = (edit.count(clauses.numbers(action)) for action in (UPDATE, DELETE))
    return DmlReport(snapshot, edit.inserted, updated, deleted)


def _together(rows, clauses: Clauses):
    """Shuffles new rows so that each partition is written by few tasks; the rows to remove stay spread."""
    schema = clauses.schema
    if not schema.partition_columns:
        return rows
    writing = ", ".join(map(str, clauses.numbers(UPDATE, INSERT)))
    partition = partition_values(schema, lambda name: column(schema.columns.names.index(name)))
    return rows.repartition(*partition, F.expr(f"if({ACTION} in ({writing}), 0L, {FILE})"))
