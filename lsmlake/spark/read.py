"""Returns a plan as a lazily evaluated Spark DataFrame. Each file is read in one of three ways, with the same result.

Native: Catalyst reads the Parquet files (`spark.scans`), with generated code, column pruning, pushed filters and partition
pruning, and masks deleted rows (`spark.mask`). Files without deleted rows use a plain scan, unless they are few: a second scan
costs more than it saves. In buckets with level-0 rows, the older rows are anti-joined with the level-0 keys, and the merged row
of each of these keys is added.

Small files: Python tasks read many small files together (`spark.small_files`), since Spark takes long to open a file.

Arrow: Python tasks read and mask (`spark.task_reads`) the files whose bitmaps are too large to broadcast and sections that must
be merged at read; and all files if Catalyst cannot read them: settings of the session forbid it, or the session has no way into
the object store of the table (`spark.connector`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial, reduce

import numpy as np
from pyspark.errors import AnalysisException
from pyspark.sql import functions as F

from lsmlake.errors import InvalidQuery
from lsmlake.format.data_files import DataFile, VectorRef
from lsmlake.format.deletion_vector import DeletionVector
from lsmlake.lsm.merge.rule import OldRow
from lsmlake.lsm.merge.rules import rule_of
from lsmlake.read.plan import Plan, Split, by_file
from lsmlake.schema.schema import POSITION_BITS
from lsmlake.spark import connector, mask, settings, small_files, task_reads
from lsmlake.spark.frame_types import to_spark
from lsmlake.spark.scans import Group, Scans
from lsmlake.tables.version import Metadata
from lsmlake.types.type_text import backticked

NATIVE, ARROW, AUTO = "native", "arrow", "auto"
_FEW_CLEAN_ROWS = 1 << 20  # rows in files without a vector that join the masked scan: a second scan costs more
_ADDRESSED_ROWS = 1 << 20  # rows in files with addresses for which these get a scan of their own
_FEW_CLEAN = 0.25  # or this share of the rows in files with a vector
_BROADCAST_ROWS = 4_000_000  # level-0 keys that fit a broadcast
_VECTOR_BYTES, _DEAD_ROW_BYTES = 512, 2  # of a decoded vector in memory, and of each of its rows


def frame(spark, plan: Plan, where: str | None, strategy: str):
    """Returns the rows of `plan`. Raises InvalidQuery for an unknown strategy, or one that the session does not allow."""
    if strategy not in (NATIVE, ARROW, AUTO):
        raise InvalidQuery("unknown strategy", expected="'auto', 'native' or 'arrow'", found=repr(strategy), cure="omit it")
    settings.check_columns(spark.conf.get, plan.schema.columns)
    if not plan.files:
        return spark.createDataFrame([], to_spark(task_reads.fields(plan, plan.columns)))
    refused = refuses_native(spark, plan)
    if refused and strategy == NATIVE:
        raise InvalidQuery("Spark cannot read the data files itself in this session", found=refused, cure="use strategy='auto'")
    small, native, rest = (), plan.splits, ()
    if strategy == ARROW or refused:
        native, rest = (), plan.splits
    elif strategy == AUTO:
        small, others = small_files.chosen(spark, plan.splits)
        native, rest = shared(plan, others)
    reading = _FrameBuilder(spark, plan, where)
    return _united(plan, [*reading.native(native), *reading.small(small), *reading.arrow(by_file(rest))])


@contextmanager
def _refused(where: str | None) -> Iterator[None]:
    """Turns the error of Spark for a condition that it cannot analyse into InvalidQuery. Surrounds only what applies the
    condition: Spark has other such errors, as for a missing file. On Connect the error comes with the first action."""
    try:
        yield
    except AnalysisException as refused:
        if where is None:
            raise
        found = f"{where!r}: {str(refused).splitlines()[0]}"
        raise InvalidQuery("Spark cannot evaluate the condition", where="where", found=found, cure="correct it") from refused


def refuses_native(spark, plan: Plan) -> str | None:
    """Returns the reason why Catalyst cannot read the data files itself; None if it can."""
    files = plan.data_files
    if any(file.rows > 1 << POSITION_BITS for file in files):
        return f"a data file has more than 2^{POSITION_BITS} rows"
    names = plan.schema.columns.names
    return settings.refuses_native(spark.conf.get, names) or connector.refuses(spark, plan.version.meta, files)


def first_by_key(spark, plan: Plan, where: str | None, strategy: str, limit: int, order: str):
    """Returns the first `limit` rows of `plan` in the order of the key."""
    key = plan.schema.primary_key
    wide = replace(plan, columns=(*plan.columns, *(name for name in key if name not in plan.columns)))
    ends = [F.expr(backticked(name)).asc() if order == "asc" else F.expr(backticked(name)).desc() for name in key]
    return frame(spark, wide, where, strategy).orderBy(*ends).limit(limit).selectExpr(*map(backticked, plan.columns))


def explained(spark, plan: Plan) -> tuple[str, ...]:
    """Describes how `frame` reads the plan."""
    if refused := refuses_native(spark, plan):
        return (f"spark arrow: Python tasks read and mask, since {refused}",)
    small, others = small_files.chosen(spark, plan.splits)
    native, rest = shared(plan, others)
    small_count, native_files, rest_files = (sum(len(split.files) for split in splits) for splits in (small, native, rest))
    lines = []
    if native_files or not (rest_files or small_count):
        by = (
            ""
            if (scheme := connector.scheme_of(plan.version.meta)) == connector.FILE
            else f" by the session's connector for {scheme}://"
        )
        lines.append(f"spark native: Catalyst scan{by}, deleted rows masked by bitmaps")
    if rest_files:
        lines.append(f"spark arrow: Python tasks read and mask {rest_files} files, whose bitmaps are too large to broadcast")
    if small_count:
        pruned = small_files.given(plan, small, plan.needed)
        by_partition = ", those of the partitions that a filter of the DataFrame asks for" if pruned else ""
        lines.append(f"spark small files: Python tasks read and mask {small_count} files, several together{by_partition}")
    if merged := sum(len(split.merged) for split in native):
        lines.append(f"spark arrow: Python tasks merge {merged} files that overlap")
    files = [file for split in native for file in (*split.files, *split.level0)]
    if plan.schema.identity_columns and (files or not small_count):
        places = [(split.bucket, file) for split in native for file in (*split.files, *split.level0)]
        readable, _ = Scans(spark, plan.version.meta, plan.schema).by_directory(places)
        lines.append(
            f"partition filters and joins of the DataFrame skip directories: {len(readable)} of {len(files)} files"
            + ("" if len(readable) == len(files) else ", Spark cannot read the values of the others from their directory names")
        )
    return tuple(lines)


def shared(plan: Plan, splits: Sequence[Split]) -> tuple[Sequence[Split], Sequence[Split]]:
    """Returns the splits for Catalyst and those for Python tasks. Tasks read the files with the largest bitmaps if all bitmaps
    together may exceed the broadcast limit. A split with level 0 is not cut."""
    masked = [(split, file) for split in splits for file in split.files if file.name in split.vectors]
    if not masked:
        return splits, ()
    dead = [split.vectors[file.name].cardinality for split, file in masked]
    _, sizes = mask.chunk_bytes([file.rows for _, file in masked], dead, plan.version.meta.env.limits)
    limit = plan.schema.parsed_options.read.vector_broadcast_bytes
    if sizes.sum() <= limit:
        return splits, ()
    order = np.argsort(sizes, kind="stable")
    large = {masked[i][1].name for i in order[np.cumsum(sizes[order]) > limit].tolist()}
    native, rest = [], []
    for split in splits:
        taken = tuple(file for file in split.files if file.name in large)
        if taken and split.level0:
            rest.append(split)
        else:
            if taken:
                rest.append(replace(split, files=taken))
            left = tuple(file for file in split.files if file.name not in large)
            if left or split.level0 or split.merged:
                native.append(replace(split, files=left))
    return native, rest


def _united(plan: Plan, parts: Sequence):
    """Unites the parts, with the columns of the plan. Does not list all columns of a table: each name costs up to 0.1 ms."""
    if plan.columns != tuple(plan.schema.columns.names):
        parts = [part.selectExpr(*map(backticked, plan.columns)) for part in parts]
    return reduce(lambda left, right: left.unionByName(right), parts)


@dataclass(frozen=True)
class _FrameBuilder:
    """Builds the DataFrames whose union is the rows of `plan`."""

    spark: object
    plan: Plan
    where: str | None

    @property
    def meta(self) -> Metadata:
        return self.plan.version.meta

    def native(self, splits: Sequence[Split]) -> list:
        """Returns the parts that Catalyst reads, and the parts of these splits that tasks must merge."""
        compacted = [split for split in splits if not split.level0]
        with_level0 = [split for split in splits if split.level0]
        parts = self._older_rows(compacted)
        parts += self.arrow([split for split in splits if split.merged])
        if with_level0:
            keys = self._level0_keys(with_level0)
            parts += [_without(part, keys, self.plan) for part in self._older_rows(with_level0)]
            parts += self._level0_rows(with_level0)
        return parts

    def arrow(self, splits: Sequence[Split]) -> list:
        """Returns the parts that Python tasks read."""
        if not splits:
            return []
        return [self._filtered(task_reads.rows(self.spark, self.plan, splits, task_reads.needed(self.plan, self.where)))]

    def small(self, splits: Sequence[Split]) -> list:
        """Returns the part of many small files, which Python tasks read together."""
        if not splits:
            return []
        return [self._filtered(small_files.rows(self.spark, self.plan, splits, task_reads.needed(self.plan, self.where)))]

    def _filtered(self, rows):
        with _refused(self.where):
            return rows if self.where is None else rows.filter(self.where)

    @property
    def _scans(self) -> Scans:
        return Scans(self.spark, self.meta, self.plan.schema)

    def _older_rows(self, splits: Sequence[Split]) -> list:
        """Returns the rows at levels >= 1: plain scans of files without deleted rows, masked scans of the others. Scans that
        Spark prunes by partition come first, because dynamic pruning uses the lineage of the first part of a union."""
        files = [(split.bucket, file) for split in splits for file in split.files]
        refs = _refs(splits)
        vectors = _vectors(self.meta, splits, refs)
        parts = []
        groups = (part for group in self._scans.groups(files) for part in _alike(group, vectors))
        for group in groups:
            masked = [place for place in group.places if place[1].name in vectors]
            clean = [place for place in group.places if place[1].name not in vectors]
            few = max(_FEW_CLEAN_ROWS, _FEW_CLEAN * sum(file.rows for _, file in masked))
            if masked and sum(file.rows for _, file in clean) <= few:
                masked, clean = group.places, []
            parts += [self._clean(group.only(clean))] if clean else []
            parts += [self._masked(group.only(masked), refs, vectors)] if masked else []
        return parts

    def _clean(self, group: Group):
        rows = self._filtered(self._scans.scan(group))
        return self._in_order(rows) if _appends_partitions(group) else rows

    def _masked(self, group: Group, refs: dict[str, VectorRef], vectors: dict[str, DeletionVector]):
        """Masks deleted rows with few operations, since Spark takes about 3 ms to analyse each; most are SQL text, since a Column
        object takes many calls into the JVM."""
        files = [file for _, file in group.places]
        addresses = mask.addresses(files)
        rows = self._scans.scan(group, addresses.column)
        fails = self.plan.predicate is None  # only Spark reads the condition: it may fail for the values of a dead row
        rows = rows if fails else self._filtered(rows)
        unknown = f"{self.meta.paths.root}: a data file differs from its manifest entry; verify() names the file"
        masked = mask.Masked(files, vectors, addresses.numbers)
        key = "mask", connector.session_name(self.spark), frozenset((file.name, refs.get(file.name)) for file in files)
        keep = partial(self.meta.files.cache.get, key)
        where = self.where if fails else None
        with _refused(where):
            live, made = mask.live_rows(self.spark, rows, masked, addresses.sql, unknown, self.meta.env.limits, keep, where)
        if self.plan.columns != tuple(self.plan.schema.columns.names):
            return live  # `_united` selects the columns
        made = *made, addresses.column
        if _appends_partitions(group):
            return self._in_order(live, made)
        return live.selectExpr(f"* except ({', '.join(made)})")

    def _in_order(self, rows, made: Iterable[str] = ()):
        """Selects all columns in the table's order, without the added columns `made`."""
        if self.plan.columns != tuple(self.plan.schema.columns.names):
            return rows
        return rows.selectExpr(*self._scans.ordered(made))

    def _level0_keys(self, splits: Sequence[Split]):
        """Returns the keys at level 0, including deletes and duplicates."""
        files = [(split.bucket, f) for split in splits for f in split.level0]
        names = [f"{backticked(name)} as _lsmlake_key_{i}" for i, name in enumerate(self.plan.schema.primary_key)]
        groups = (group._replace(partitioned=False) for group in self._scans.groups(files))
        keys = reduce(lambda left, right: left.union(right), [self._scans.scan(group).selectExpr(*names) for group in groups])
        return F.broadcast(keys) if sum(f.rows for _, f in files) <= _BROADCAST_ROWS else keys

    def _level0_rows(self, splits: Sequence[Split]) -> list:
        """Returns the merged row of each level-0 key. A single run without deletes that replaces older rows is read directly;
        otherwise tasks merge one bucket each."""
        replaces = rule_of(self.plan.schema).old_row is OldRow.REPLACED
        single = [split for split in splits if replaces and _is_newest(split.level0)]
        rest = [split for split in splits if split not in single]
        places = [(split.bucket, file) for split in single for file in split.level0]
        parts = [self._clean(group) for group in self._scans.groups(places)]
        return parts + self.arrow(
            [replace(s, files=(), lookup_files=() if replaces else (*s.files, *s.lookup_files)) for s in rest]
        )


def _alike(group: Group, vectors: Mapping[str, DeletionVector]) -> list[Group]:
    """The group in parts that are each masked in one way: by addresses that files hold, or by those made of `_metadata`, which
    takes more time for a row. One part, if no row is deleted or if a second scan would cost more than it saves."""
    addressed = [place for place in group.places if place[1].number is not None]
    others = [place for place in group.places if place[1].number is None]
    has_dead = any(file.name in vectors for _, file in group.places)
    if has_dead and others and sum(file.rows for _, file in addressed) >= _ADDRESSED_ROWS:
        return [group.only(addressed), group.only(others)]
    return [group]


def _appends_partitions(group: Group) -> bool:
    """Whether the partition columns come last in a scan of the group."""
    return group.partitioned and group.reading.select is None


def _refs(splits: Sequence[Split]) -> dict[str, VectorRef]:
    return {file.name: split.vectors[file.name] for split in splits for file in split.files if file.name in split.vectors}


def _vectors(meta: Metadata, splits: Sequence[Split], refs: dict[str, VectorRef]) -> dict[str, DeletionVector]:
    """Returns the vectors of the files that are read, by file name. The cache of the table handle keeps them."""

    def read() -> dict[str, DeletionVector]:
        return {name: vector for split in splits for name, vector in meta.vectors.read(split.vectors, split.files).items()}

    size = sum(_VECTOR_BYTES + _DEAD_ROW_BYTES * ref.cardinality for ref in refs.values())
    return meta.files.cache.get(("vectors", frozenset(refs.items())), read, lambda _: size)


def _without(rows, keys, plan: Plan):
    same = " and ".join(f"{backticked(name)} <=> _lsmlake_key_{i}" for i, name in enumerate(plan.schema.primary_key))
    return rows.join(keys, F.expr(same), "left_anti")


def _is_newest(level0: Sequence[DataFile]) -> bool:
    return len({file.sequence for file in level0}) == 1 and not any(file.delete_rows for file in level0)
