"""Plans a read: finds the files of a snapshot that may hold matching rows. Reads metadata only and uses array operations.

Files are pruned by partition, bucket (equality on the bucket key), key range and column statistics, in this order. Level-0 files
are pruned by key only, because their rows supersede older rows whether or not they match the predicate. If the merge rule needs
the old row, older files that statistics exclude are still used for lookups.

Without deletion vectors, files with overlapping key ranges are merged at read. Then statistics prune only files that are alone in
their section and hold no -U or -D rows.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lsmlake.errors import InvalidQuery, Wording
from lsmlake.format import manifest
from lsmlake.format.files import Bucket, DataFile, VectorRef
from lsmlake.format.snapshot import Snapshot
from lsmlake.kernels.bucket_hash import bucket_of
from lsmlake.lsm.levels import Levels
from lsmlake.lsm.merge.rule import OldRow
from lsmlake.lsm.merge.rules import rule_of
from lsmlake.lsm.pick.compaction import last_level_of
from lsmlake.lsm.sections import sections
from lsmlake.predicate import ColumnBounds, Predicate, evaluate, key_values, may_match
from lsmlake.schema.schema import Schema
from lsmlake.store.version import Version

FRESH, RAW, COMPACTED = "fresh", "raw", "compacted"
_BUCKET_LISTS_MAX = 10_000  # combinations of key values worth hashing


@dataclass(frozen=True)
class Split:
    """Files of one bucket that are read together: `files` at level >= 1, their vectors, and the level-0 files with newer rows.
    `lookup_files`: files at level >= 1 without matching rows, whose rows may be merged with level-0 rows.

    Without deletion vectors: either `files` of any level that can be read without merging, or `merged`, a section of files that
    must be merged.
    """

    bucket: Bucket
    files: tuple[DataFile, ...]
    vectors: Mapping[str, VectorRef]
    level0: tuple[DataFile, ...]
    lookup_files: tuple[DataFile, ...] = ()
    merged: tuple[DataFile, ...] = ()


@dataclass(frozen=True)
class Projection:
    """What a read asks for, whatever the snapshot: `columns` in output order, of the rows for which `predicate` is true, with the
    types of `schema`."""

    schema: Schema
    predicate: Predicate | None
    columns: tuple[str, ...]

    @staticmethod
    def of(schema: Schema, predicate: Predicate | None, columns: Sequence[str] | None) -> Projection:
        """Raises InvalidQuery for names that are no columns."""
        return Projection(schema, predicate, _check_columns(columns, schema))

    @property
    def needed(self) -> tuple[str, ...]:
        """The columns to read: the projected ones and those of the predicate."""
        wanted = {*self.columns, *(self.predicate.columns if self.predicate else ())}
        return tuple(name for name in self.schema.columns.names if name in wanted)

    @property
    def names_keys(self) -> bool:
        """Whether the predicate limits the rows to a finite set of keys."""
        return self.predicate is not None and key_values(self.predicate, self.schema.key) is not None


@dataclass(frozen=True)
class Plan(Projection):
    """A projection of one version, and the files to read for it. `pruned`: how many files each step left, as (step, files)."""

    version: Version
    mode: str
    splits: tuple[Split, ...]
    pruned: tuple[tuple[str, int], ...]

    @property
    def snapshot(self) -> Snapshot | None:
        return self.version.snapshot

    @property
    def files(self) -> int:
        return sum(len(split.files) + len(split.level0) + len(split.merged) for split in self.splits)

    @property
    def dead_rows(self) -> int:
        vectors = [split.vectors.get(file.name) for split in self.splits for file in split.files]
        return sum(ref.cardinality for ref in vectors if ref)


def plan(
    version: Version,
    predicate: Predicate | None = None,
    columns: Sequence[str] | None = None,
    mode: str = FRESH,
    near: pa.Table | None = None,
) -> Plan:
    """Plans a read. O(files) array operations for pruning, O(remaining files) Python objects.

    Args:
        version: The table at the snapshot to read.
        predicate: Filters rows.
        columns: The columns to return. None: all.
        mode: FRESH reads all levels, COMPACTED the levels >= 1, RAW those of them that need no merging (without deletion vectors
            only the last level).
        near: Manifest entries; only files with the partition values and a bucket number of these entries are planned.

    Raises:
        InvalidQuery: The mode or a column is unknown.
    """
    schema, names = version.schema, _check_columns(columns, version.schema)
    if mode not in (FRESH, RAW, COMPACTED):
        raise InvalidQuery(
            "unknown mode", expected="'fresh' or 'raw'", found=repr(mode), cure="fresh reads all rows, raw skips level 0"
        )
    if version.snapshot is None:
        return Plan(schema, predicate, names, version, mode, (), (("snapshot", 0),))
    table = version.live()
    steps = [("snapshot", table.num_rows)]
    if near is not None:
        for name in (*(f"p:{i}" for i in range(len(schema.partition_by))), "bucket"):
            table = table.filter(pc.is_in(table[name], value_set=near[name].combine_chunks()))
    vectors = schema.parsed_options.layout.deletion_vectors
    if mode == COMPACTED or (mode == RAW and vectors):
        table = table.filter(pc.greater(table["level"], 0))
        steps.append((f"{mode}: without level 0", table.num_rows))
    elif mode == RAW:
        table = table.filter(pa.array(_at_last_level(table, schema)))
        steps.append((f"{mode}: last level", table.num_rows))
    matches = np.ones(table.num_rows, bool)
    if predicate is not None and table.num_rows:
        table, key_steps = prune_by_key(table, schema, predicate)
        steps += key_steps
        matches = _by_statistics(table, schema, predicate)
        steps.append(("statistics", int(matches.sum())))
        if vectors and rule_of(schema).old_row is OldRow.REPLACED:
            table, matches = table.filter(pa.array(matches)), matches[matches]
    split = _splits if vectors else _merging_splits
    splits = split(table, matches, version.vector_refs(), schema)
    if not vectors and table.num_rows:
        steps.append(("read", sum(len(split.files) + len(split.merged) for split in splits)))
    return Plan(schema, predicate, names, version, mode, splits, tuple(steps))


def _at_last_level(table: pa.Table, schema: Schema) -> np.ndarray:
    """Flags the files at the last level of their bucket, which need no merging. `table`: all files of each bucket, because the
    deepest one decides which level is the last."""
    levels, bucket = table["level"].to_numpy(), table["bucket"].to_numpy()
    for i in range(len(schema.partition_by)):
        encoded = table[f"p:{i}"].combine_chunks().dictionary_encode(null_encoding="encode")
        _, bucket = np.unique(bucket * np.int64(len(encoded.dictionary)) + np.asarray(encoded.indices), return_inverse=True)
    deepest = np.full(bucket.max(initial=-1) + 1, last_level_of(schema.parsed_options.compaction, Levels()))
    np.maximum.at(deepest, bucket, levels)
    return levels == deepest[bucket]


def prune_by_key(table: pa.Table, schema: Schema, predicate: Predicate) -> tuple[pa.Table, list[tuple[str, int]]]:
    """Returns the entries of files that may hold a key of the predicate, and the number of files left after each step."""
    steps = []
    for step, prune in (("partitions", _by_partition), ("buckets", _by_bucket), ("keys", _by_key)):
        table = table.filter(pa.array(prune(table, schema, predicate)))
        steps.append((step, table.num_rows))
    return table, steps


def partition_matches(predicate: Predicate, schema: Schema, partition: tuple) -> bool:
    """Whether `predicate`, which has partition columns only, is true of a partition."""
    values = pa.table(
        [pa.array([value], schema.row_columns.field(n).type) for n, value in zip(schema.partition_by, partition, strict=True)],
        names=list(schema.partition_by),
    )
    return bool(np.asarray(evaluate(predicate, values))[0])


_COUNT = Wording("count() counts rows", command="name a column")


def _check_columns(columns: Sequence[str] | None, schema: Schema) -> tuple[str, ...]:
    if columns is None:
        return tuple(schema.columns.names)
    if isinstance(columns, str):
        raise InvalidQuery("columns is a list of names", found=repr(columns), cure=f"write [{columns!r}]")
    if not columns:
        raise InvalidQuery(
            "the list of columns is empty",
            expected=f"some of {schema.columns.names}",
            cure=Wording("count() counts rows", command="name a column"),
        )
    by_lower = {name.lower(): name for name in schema.columns.names}
    unknown = [name for name in columns if name.lower() not in by_lower]
    if unknown:
        raise InvalidQuery("unknown columns", expected=f"some of {schema.columns.names}", found=unknown, cure="correct the names")
    if len({name.lower() for name in columns}) != len(columns):
        raise InvalidQuery("a column is listed twice", found=list(columns), cure="name it once")
    return tuple(by_lower[name.lower()] for name in columns)


def _by_partition(table: pa.Table, schema: Schema, predicate: Predicate) -> np.ndarray:
    rows = table["rows"].to_numpy()
    bounds = {}
    for i, name in enumerate(schema.partition_by):
        values = table[f"p:{i}"].combine_chunks()
        nulls = np.where(np.asarray(values.is_null()), rows, 0)
        bounds[name] = ColumnBounds(values, values, pa.array(nulls))
    return may_match(predicate, bounds, rows)


def _by_bucket(table: pa.Table, schema: Schema, predicate: Predicate) -> np.ndarray:
    """Flags files in the buckets of the key values. Each file carries the bucket count it was written with."""
    values = key_values(predicate, schema.bucket_key)
    if values is None or math.prod(map(len, values.values())) > _BUCKET_LISTS_MAX:
        return np.ones(table.num_rows, bool)
    columns = _product([pa.array(values[name], schema.row_columns.field(name).type) for name in schema.bucket_key])
    totals, numbers = table["total_buckets"].to_numpy(), table["bucket"].to_numpy()
    kept = np.zeros(table.num_rows, bool)
    for total in np.unique(totals):
        kept |= (totals == total) & np.isin(numbers, bucket_of(columns, int(total)))
    return kept


def _product(columns: Sequence[pa.Array]) -> list[pa.Array]:
    """Returns all combinations of the columns' values."""
    grids = np.meshgrid(*(np.arange(len(column)) for column in columns), indexing="ij")
    return [column.take(pa.array(grid.ravel())) for column, grid in zip(columns, grids, strict=True)]


def _by_key(table: pa.Table, schema: Schema, predicate: Predicate) -> np.ndarray:
    return may_match(predicate, _bounds(table, schema, predicate.columns & set(schema.primary_key)), table["rows"].to_numpy())


def _by_statistics(table: pa.Table, schema: Schema, predicate: Predicate) -> np.ndarray:
    """Flags files that may hold a matching row, by the statistics of all columns, and all level-0 files."""
    bounds = _bounds(table, schema, predicate.columns & set(schema.columns.names))
    return (table["level"].to_numpy() == 0) | may_match(predicate, bounds, table["rows"].to_numpy())


def _bounds(table: pa.Table, schema: Schema, names: Collection[str]) -> dict[str, ColumnBounds]:
    ids, present = schema.field_ids(), set(table.column_names)
    return {
        name: ColumnBounds(*(table[f"{side}:{ids[name]}"].combine_chunks() for side in ("lo", "hi", "n")))
        for name in names
        if f"lo:{ids[name]}" in present
    }


def _splits(table: pa.Table, matches: np.ndarray, vectors: Mapping[str, VectorRef], schema: Schema) -> tuple[Split, ...]:
    splits = []
    read = set(table["name"].filter(pa.array(matches)).to_pylist())
    for bucket, state in manifest.states(table, vectors, schema, statistics=False).items():
        level0 = tuple(file for file in state.files if file.level == 0)
        older = sorted((file for file in state.files if file.level > 0), key=lambda file: (file.level, file.min_key))
        files = tuple(file for file in older if file.name in read)
        lookup_files = tuple(file for file in older if file.name not in read) if level0 else ()
        if files or level0:
            kept = {file.name for file in (*files, *lookup_files)}
            refs = {name: ref for name, ref in state.vectors.items() if name in kept}
            splits.append(Split(bucket, files, refs, level0, lookup_files))
    return tuple(splits)


def _merging_splits(table: pa.Table, matches: np.ndarray, vectors: Mapping[str, VectorRef], schema: Schema) -> tuple[Split, ...]:
    """Returns the splits of a table without vectors."""
    splits = []
    read = set(table["name"].filter(pa.array(matches)).to_pylist())
    for bucket, state in manifest.states(table, vectors, schema, statistics=False).items():
        found = sections(state.files)
        alone = [s.files[0] for s in found if len(s.files) == 1 and not s.files[0].delete_rows]
        if raw := tuple(file for file in alone if file.name in read):
            splits.append(Split(bucket, raw, {}, ()))
        merged = (section.files for section in found if len(section.files) > 1 or section.files[0].delete_rows)
        splits += [Split(bucket, (), {}, (), merged=section) for section in merged]
    return tuple(splits)
