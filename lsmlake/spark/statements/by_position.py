"""A statement on an append-only table: rows with their places, their changes (`clauses`), and one job that writes new rows and
reports the places to remove (`row_edit`).

The place of a row is the number of its file and the position in it. As in `spark.read`, Catalyst reads the files and masks
deleted rows; Python tasks read the files whose bitmaps are too large to broadcast, and all files if the settings of the
session do not allow Catalyst to read them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce

import numpy as np
import pyarrow as pa
from pyspark.sql import functions as F

from lsmlake.errors import Corrupt
from lsmlake.files.bucket_files import BucketFiles
from lsmlake.format.deletion_vector import DeletionVector
from lsmlake.read.plan import Plan, Split
from lsmlake.read.positions import FILE, PLACE, POSITION, Matched, live_in, planned_files
from lsmlake.spark import mask, settings, task_reads, tasks
from lsmlake.spark.frame_types import of_tasks, to_spark
from lsmlake.spark.partition_columns import partition_values
from lsmlake.spark.read import refuses_native, shared
from lsmlake.spark.scans import Group, Scans
from lsmlake.spark.statements import row_edit_tasks
from lsmlake.spark.statements.clauses import Clauses
from lsmlake.spark.statements.row_edit_tasks import column
from lsmlake.spark.statements.spark_statement import SparkStatement
from lsmlake.statements.attempts import DmlReport
from lsmlake.statements.bound import repeats_allowed
from lsmlake.statements.clause import ACTION, DELETE, INSERT, UPDATE
from lsmlake.statements.merge_join import repeated
from lsmlake.types.type_text import backticked
from lsmlake.write.append import joined
from lsmlake.write.row_edit import replace_rows


def run(statement: SparkStatement) -> DmlReport:
    """Executes a statement on an append-only table."""
    target, clauses, version = statement.target, statement.clauses, statement.target.version
    places = Places.of(target.plan())
    if not places.files and statement.source is None:
        return DmlReport()
    rows = statement.acting(places.rows(target.spark, target.ranges), ())
    columns, writes = [ACTION, FILE, POSITION], clauses.numbers(UPDATE, INSERT)
    if writes:
        rows = clauses.new_rows(rows, columns[1:], deleted=False)
        columns += map(column, range(len(version.schema.columns.names)))
    writing = row_edit_tasks.RowWriting(version, writes, clauses.numbers(INSERT))
    changes, limit = statement.collected(rows, columns)
    if changes is not None:
        edit = row_edit_tasks.here(writing, changes.to_batches())
    else:
        edit = row_edit_tasks.run(writing, _together(rows, clauses) if writes else rows.selectExpr(*columns))
        statement.note(edit.rows + edit.inserted, limit)
    try:
        if not repeats_allowed(clauses.clauses) and edit.repeats:
            raise repeated()
        removed = places.at(edit.removed)
    except BaseException:
        version.meta.files.discard(edit.added)
        raise
    rewrite = partial(row_edit_tasks.rewritten, target.spark)
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


# -- places -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Places:
    """The files of a plan without level 0."""

    plan: Plan
    files: Mapping[str, Matched]
    addresses: mask.Addresses

    @staticmethod
    def of(plan: Plan) -> Places:
        files = planned_files(plan.splits)
        matched = {one.file.name: Matched(*one, one.vector(plan.version.meta), np.empty(0, np.int64)) for one in files}
        return Places(plan, matched, mask.addresses([one.file for one in files]))

    @property
    def numbers(self) -> dict[str, int]:
        """File name -> its number in the column `FILE`."""
        return dict(zip(self.files, self.addresses.numbers.tolist(), strict=True))

    def at(self, positions: Mapping[int, DeletionVector]) -> list[Matched]:
        """The files with rows to remove. `positions`: number of a file -> positions of the rows."""
        names = {number: name for name, number in self.numbers.items()}
        if unknown := sorted(positions.keys() - names.keys()):
            raise Corrupt(self._unknown, found=unknown, cure="verify() names the file")
        return [self.files[names[number]]._replace(positions=vector.positions()) for number, vector in positions.items()]

    @property
    def _unknown(self) -> str:
        return f"{self.plan.version.meta.paths.root}: a data file differs from its manifest entry; verify() names the file"

    def rows(self, spark, where: str | None):
        """The live rows for which `where` is true: all columns, `FILE` and `POSITION`."""
        plan = self.plan
        settings.check_columns(spark.conf.get, plan.schema.columns)
        native, rest = ((), plan.splits) if refuses_native(spark, plan) else shared(plan, plan.splits)
        parts = []
        scans = Scans(spark, plan.version.meta, plan.schema)
        for group in scans.groups([(split.bucket, file) for split in native for file in split.files]):
            parts.append(self._native(spark, scans, group, where))
        if rest:
            parts.append(self._read_by_tasks(spark, rest, where))
        if not parts:
            return spark.createDataFrame([], to_spark(self._schema))
        return reduce(lambda left, right: left.unionByName(right), parts)

    def _native(self, spark, scans: Scans, group: Group, where: str | None):
        rows = scans.scan(group, self.addresses.column)
        rows = rows if where is None else rows.filter(where)
        files, numbers = [file for _, file in group.places], self.numbers
        vectors = {file.name: self.files[file.name].vector for file in files if self.files[file.name].ref is not None}
        if vectors:
            masked = mask.Masked(files, vectors, np.array([numbers[file.name] for file in files], np.int64))
            rows, _ = mask.live_rows(spark, rows, masked, self.addresses.sql, self._unknown, self.plan.version.meta.env.limits)
        return rows.selectExpr(
            *map(backticked, self.plan.schema.columns.names),
            f"{mask.number_sql(self.addresses.sql)} as {FILE}",
            f"{mask.position_sql(self.addresses.sql)} as {POSITION}",
        )

    @property
    def _schema(self) -> pa.Schema:
        places = (pa.field(name, pa.int64(), False) for name in PLACE)
        return pa.schema([*task_reads.fields(self.plan, self.plan.schema.columns.names), *places])

    def _read_by_tasks(self, spark, splits: Sequence[Split], where: str | None):
        numbers = self.numbers
        pieces = [(one, numbers[one.file.name]) for one in planned_files(splits)]
        lean = replace(self.plan, splits=(), pruned=())
        task = partial(_read_task, lean, of_tasks(self._schema))
        rows = tasks.payloads(spark, pieces).mapInArrow(task, to_spark(self._schema))
        return rows if where is None else rows.filter(where)


def _read_task(plan: Plan, schema: pa.Schema, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for one, number in tasks.unpacked(batches):
        files = BucketFiles.of(plan.version, one.bucket)
        for placed in live_in(files, plan, one.file, one.vector(plan.version.meta), number):
            yield from placed.with_places().cast(schema).to_batches(max_chunksize=task_reads.BATCH_ROWS)
