"""A plan as a Spark DataFrame, evaluated lazily. Each file is read in one of two ways, with the same rows.

Native: Catalyst reads the Parquet files itself (`spark.scans`) - generated code, column pruning, pushed filters, partition
pruning - and masks dead rows (`spark.mask`). Files without a dead row go through a plain scan, unless they are few: a second scan
costs more than it saves. In buckets with rows waiting at level 0, the older rows are anti-joined with the waiting keys, and the
row that stands for every waiting key is added.

Arrow: Python tasks read and mask (`spark.arrow`). They read the files whose bitmaps are too large to broadcast, sections that
must be merged at read, and everything where the session does not let Catalyst read the files.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import reduce

import numpy as np
from pyspark.sql import functions as F

from lsmlake.errors import InvalidQuery
from lsmlake.format.deletion_vector import DeletionVector
from lsmlake.format.files import DataFile
from lsmlake.lsm.merge.rule import OldRow
from lsmlake.lsm.merge.rules import rule_of
from lsmlake.read.plan import Plan, Split
from lsmlake.spark import arrow, mask, settings
from lsmlake.spark.scans import Scans
from lsmlake.spark.types import quoted, to_spark
from lsmlake.store.metadata import Metadata

NATIVE, ARROW, AUTO = "native", "arrow", "auto"
_FEW_CLEAN_ROWS = 1 << 20  # so many rows without a vector are scanned along with the others: a second scan costs more
_FEW_CLEAN = 0.25  # or so many of the rows in files with one
_BROADCAST_ROWS = 4_000_000  # keys waiting at level 0 that still fit a broadcast


def frame(spark, meta: Metadata, plan: Plan, where: str | None, strategy: str):
    """The rows of `plan`. Raises InvalidQuery for an unknown strategy, or one that the session does not allow."""
    if strategy not in (NATIVE, ARROW, AUTO):
        raise InvalidQuery("unknown strategy", expected="'auto', 'native' or 'arrow'", found=repr(strategy), cure="leave it out")
    if not plan.files:
        return spark.createDataFrame([], to_spark(arrow.fields(plan, plan.columns)))
    settings.check_names(spark.conf.get, plan.schema.columns.names)
    refused = settings.refuses_native(spark.conf.get, plan.schema.columns.names)
    if refused and strategy == NATIVE:
        raise InvalidQuery("Spark cannot read the data files itself in this session", found=refused, cure="use strategy='auto'")
    native, rest = plan.splits, ()
    if strategy == ARROW or refused:
        native, rest = (), plan.splits
    elif strategy == AUTO:
        native, rest = shared(plan)
    reading = _Reading(spark, meta, plan, where)
    parts = [*reading.native(native), *reading.arrow(arrow.by_file(rest))]
    return _united(plan, parts)


def explained(spark, meta: Metadata, plan: Plan) -> tuple[str, ...]:
    """How `frame` reads the plan, in words."""
    if refused := settings.refuses_native(spark.conf.get, plan.schema.columns.names):
        return (f"spark arrow: Python tasks read and mask, since {refused}",)
    native, rest = shared(plan)
    native_files, rest_files = (sum(len(split.files) for split in splits) for splits in (native, rest))
    lines = []
    if native_files or not rest_files:
        lines.append("spark native: Catalyst scan, dead rows masked by bitmaps")
    if rest_files:
        lines.append(f"spark arrow: Python tasks read and mask {rest_files} files, whose bitmaps are too large to broadcast")
    if merged := sum(len(split.merged) for split in native):
        lines.append(f"spark arrow: Python tasks merge {merged} files that overlap")
    if plan.schema.partition_by:
        files = [file for split in native for file in (*split.files, *split.level0)]
        places = [(split.bucket, file) for split in native for file in (*split.files, *split.level0)]
        told, _ = Scans(spark, meta, plan.schema).by_directory(places)
        lines.append(
            f"partition filters and joins of the DataFrame skip directories: {len(told)} of {len(files)} files"
            + ("" if len(told) == len(files) else ", the others are in directories whose names do not tell Spark the values")
        )
    return tuple(lines)


def shared(plan: Plan) -> tuple[tuple[Split, ...], tuple[Split, ...]]:
    """The plan's splits for Catalyst, and those for Python tasks: the files with the largest bitmaps, as soon as all bitmaps
    together may pass the limit of a broadcast. A split with level 0 stays whole."""
    masked = [(split, file) for split in plan.splits for file in split.files if file.name in split.vectors]
    if not masked:
        return plan.splits, ()
    _, sizes = mask.chunk_bytes([f.rows for _, f in masked], [split.vectors[f.name].cardinality for split, f in masked])
    limit = plan.schema.parsed_options.read.vector_broadcast_bytes
    if sizes.sum() <= limit:
        return plan.splits, ()
    order = np.argsort(sizes, kind="stable")
    large = {masked[i][1].name for i in order[np.cumsum(sizes[order]) > limit].tolist()}
    native, rest = [], []
    for split in plan.splits:
        taken = tuple(file for file in split.files if file.name in large)
        if taken and split.level0:
            rest.append(split)
        else:
            if taken:
                rest.append(replace(split, files=taken))
            left = tuple(file for file in split.files if file.name not in large)
            if left or split.level0 or split.merged:
                native.append(replace(split, files=left))
    return tuple(native), tuple(rest)


def _united(plan: Plan, parts: Sequence):
    """The columns of the plan, of all parts. Not named where they are all of the table's: a name costs up to 0.1 ms."""
    if plan.columns != tuple(plan.schema.columns.names):
        parts = [part.selectExpr(*map(quoted, plan.columns)) for part in parts]
    return reduce(lambda left, right: left.unionByName(right), parts)


@dataclass(frozen=True)
class _Reading:
    """Makes the DataFrames that together are the rows of `plan`."""

    spark: object
    meta: Metadata
    plan: Plan
    where: str | None

    def native(self, splits: Sequence[Split]) -> list:
        """What Catalyst reads, and the parts of these splits that tasks must merge."""
        settled = [split for split in splits if not split.level0]
        waiting = [split for split in splits if split.level0]
        parts = self._settled(settled)
        parts += self.arrow([split for split in splits if split.merged])
        if waiting:
            keys = self._waiting_keys(waiting)
            parts += [_without(part, keys, self.plan) for part in self._settled(waiting)]
            parts += self._newest(waiting)
        return parts

    def arrow(self, splits: Sequence[Split]) -> list:
        """What Python tasks read."""
        if not splits:
            return []
        return [self._filtered(arrow.rows(self.spark, self.meta, self.plan, splits, arrow.needed(self.plan, self.where)))]

    def _filtered(self, rows):
        return rows if self.where is None else rows.filter(self.where)

    @property
    def _scans(self) -> Scans:
        return Scans(self.spark, self.meta, self.plan.schema)

    def _settled(self, splits: Sequence[Split]) -> list:
        """The rows above level 0: files without dead rows plainly, the others masked. Scans that Spark prunes by partition come
        first, since a union takes its lineage for dynamic pruning from its first part."""
        files = [(split.bucket, file) for split in splits for file in split.files]
        vectors = _vectors(self.meta, splits)
        parts = []
        for places, partitioned in zip(self._scans.by_directory(files), (True, False), strict=True):
            masked = [place for place in places if place[1].name in vectors]
            clean = [place for place in places if place[1].name not in vectors]
            few = max(_FEW_CLEAN_ROWS, _FEW_CLEAN * sum(file.rows for _, file in masked))
            if masked and sum(file.rows for _, file in clean) <= few:
                masked, clean = places, []
            parts += [self._clean(clean, partitioned)] if clean else []
            parts += [self._masked(masked, vectors, partitioned)] if masked else []
        return parts

    def _clean(self, places: Sequence, partitioned: bool):
        rows = self._filtered(self._scans.scan(places, partitioned=partitioned))
        return self._in_order(rows) if partitioned else rows

    def _masked(self, places: Sequence, vectors: dict[str, DeletionVector], partitioned: bool):
        """Every operation is analysed by Spark on its own, some 3 ms each, so there are few; and most is SQL text, since a Column
        object takes many calls into the JVM."""
        files = [file for _, file in places]
        rows, place = self._scans.scan(places, partitioned=partitioned), "_metadata"
        if any(name.lower() == place for name in self.plan.schema.columns.names):
            rows, place = rows.select("*", rows.metadataColumn("_metadata").alias(mask.PLACE)), mask.PLACE
        rows, number = self._filtered(rows), mask.numbered(files)
        unknown = f"{self.meta.paths.root}: a data file is not as its snapshot says; verify() tells which"
        living, made = mask.living(self.spark, rows, files, vectors, number.of, mask.marks(number, place, unknown))
        if self.plan.columns != tuple(self.plan.schema.columns.names):
            return living  # of which the columns are taken in any case
        made = *made, *([place] if place == mask.PLACE else [])
        if partitioned:
            return self._in_order(living, made)
        return living.selectExpr(f"* except ({', '.join(made)})") if made else living

    def _in_order(self, rows, made: Iterable[str] = ()):
        """All columns in the table's order, without those that were `made`."""
        if self.plan.columns != tuple(self.plan.schema.columns.names):
            return rows
        return rows.selectExpr(*self._scans.ordered(made))

    def _waiting_keys(self, splits: Sequence[Split]):
        """The keys at level 0, deletes included, repeats as they are."""
        files = [(split.bucket, f) for split in splits for f in split.level0]
        keys = self._scans.scan(files, partitioned=False)
        keys = keys.selectExpr(*[f"{quoted(name)} as _lsmlake_key_{i}" for i, name in enumerate(self.plan.schema.primary_key)])
        return F.broadcast(keys) if sum(f.rows for _, f in files) <= _BROADCAST_ROWS else keys

    def _newest(self, splits: Sequence[Split]) -> list:
        """The row of every waiting key. One run without deletes, that meets nothing, is that already; otherwise tasks merge a
        bucket each."""
        dies = rule_of(self.plan.schema).old_row is OldRow.REPLACED
        single = [split for split in splits if dies and _is_newest(split.level0)]
        rest = [split for split in splits if split not in single]
        places = [(split.bucket, file) for split in single for file in split.level0]
        parts = [
            self._clean(found, partitioned)
            for found, partitioned in zip(self._scans.by_directory(places), (True, False), strict=True)
            if found
        ]
        return parts + self.arrow([replace(s, files=(), lookup_files=() if dies else (*s.files, *s.lookup_files)) for s in rest])


def _vectors(meta: Metadata, splits: Sequence[Split]) -> dict[str, DeletionVector]:
    """The vectors of the files that are read, by name."""
    return {name: vector for split in splits for name, vector in meta.vectors(split.vectors, split.files).items()}


def _without(rows, keys, plan: Plan):
    same = " and ".join(f"{quoted(name)} <=> _lsmlake_key_{i}" for i, name in enumerate(plan.schema.primary_key))
    return rows.join(keys, F.expr(same), "left_anti")


def _is_newest(level0: Sequence[DataFile]) -> bool:
    return len({file.sequence for file in level0}) == 1 and not any(file.delete_rows for file in level0)
