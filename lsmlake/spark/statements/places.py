"""Returns the rows of an append-only table as a DataFrame with their places: the number of the file and the position in it.

As in `spark.read`, Catalyst reads the files and masks deleted rows; Python tasks read the files whose bitmaps are too large to
broadcast, and all files if the settings of the session do not allow Catalyst to read them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce

import numpy as np
import pyarrow as pa

from lsmlake.errors import Corrupt
from lsmlake.files.bucket_files import BucketFiles
from lsmlake.format.deletion_vector import EMPTY, DeletionVector
from lsmlake.read.plan import Plan, Split
from lsmlake.read.positions import Matched
from lsmlake.spark import arrow, mask, settings, tasks
from lsmlake.spark.read import refuses_native, shared
from lsmlake.spark.scans import Group, Scans
from lsmlake.spark.types import of_tasks, to_spark
from lsmlake.types.type_text import backticked

FILE, POSITION = "_lsmlake_file", "_lsmlake_position"


@dataclass(frozen=True)
class Places:
    """The files of a plan that has no level 0. `numbers`: how `FILE` names each file."""

    plan: Plan
    files: Mapping[str, Matched]
    number: mask.FileNumbers

    @staticmethod
    def of(plan: Plan) -> Places:
        read, found = plan.version.meta.vectors, {}
        for split in plan.splits:
            for file in split.files:
                ref = split.vectors.get(file.name)
                vector = EMPTY if ref is None else read.get(ref, file)
                found[file.name] = Matched(split.bucket, file, ref, vector, np.empty(0, np.int64))
        return Places(plan, found, mask.numbered([one.file for one in found.values()]))

    @property
    def numbers(self) -> dict[str, int]:
        return dict(zip(self.files, self.number.of.tolist(), strict=True))

    def at(self, positions: Mapping[int, DeletionVector]) -> list[Matched]:
        """The files whose rows at `positions`, by number of the file, are removed."""
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
        native, rest = ((), plan.splits) if refuses_native(spark, plan) else shared(plan)
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
        rows = scans.scan(group, lambda scan: [scan.metadataColumn("_metadata").alias(mask.PLACE)])
        rows = rows if where is None else rows.filter(where)
        files, numbers = [file for _, file in group.places], self.numbers
        vectors = {file.name: self.files[file.name].vector for file in files if self.files[file.name].ref is not None}
        if vectors:
            masked = mask.Masked(files, vectors, np.array([numbers[file.name] for file in files], np.int64))
            marks = mask.marks(self.number, mask.PLACE, self._unknown)
            rows, _ = mask.live_rows(spark, rows, masked, marks, self.plan.version.meta.env.limits)
        return rows.selectExpr(
            *map(backticked, self.plan.schema.columns.names),
            f"{self.number.sql.format(place=mask.PLACE)} as {FILE}",
            f"{mask.PLACE}.row_index as {POSITION}",
        )

    @property
    def _schema(self) -> pa.Schema:
        fields = arrow.fields(self.plan, self.plan.schema.columns.names)
        return fields.append(pa.field(FILE, pa.int64(), False)).append(pa.field(POSITION, pa.int64(), False))

    def _read_by_tasks(self, spark, splits: Sequence[Split], where: str | None):
        numbers = self.numbers
        pieces = [(split, numbers[file.name]) for split in arrow.by_file(splits) for file in split.files]
        lean = replace(self.plan, splits=(), pruned=())
        task = partial(_read_task, lean, of_tasks(self._schema))
        rows = tasks.payloads(spark, pieces).mapInArrow(task, to_spark(self._schema))
        return rows if where is None else rows.filter(where)


def _read_task(plan: Plan, schema: pa.Schema, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for split, number in tasks.unpacked(batches):
        (file,) = split.files
        ref = split.vectors.get(file.name)
        vector = EMPTY if ref is None else plan.version.meta.vectors.get(ref, file)
        with BucketFiles.of(plan.version, split.bucket).open(file) as reader:
            for chunk in reader.chunks(plan.schema.columns.names):
                live = np.flatnonzero(~vector.dead_mask(chunk.start, chunk.table.num_rows))
                rows = chunk.table.take(pa.array(live))
                rows = rows.append_column(FILE, pa.array(np.full(len(live), number, np.int64)))
                rows = rows.append_column(POSITION, pa.array(chunk.start + live))
                yield from rows.cast(schema).to_batches(max_chunksize=arrow.BATCH_ROWS)
