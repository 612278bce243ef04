"""Plans a read: finds the files of a snapshot that may hold matching rows. Reads metadata only and uses array operations.

Files are pruned by partition, bucket (equality on the bucket key), key range, column statistics and indexes, in this order.
Level-0 files are pruned only by their keys, because their rows supersede older rows whether or not they match the predicate. If
the merge rule needs the old row, older files that statistics or indexes exclude are still used for lookups, unless it is because
of their keys.

Without deletion vectors, files with overlapping key ranges are merged at read. Then statistics, and indexes of columns outside
the key, prune only files that are alone in their section and hold no -U or -D rows.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lsmlake.errors import InvalidQuery, Wording
from lsmlake.format import manifest
from lsmlake.format.data_files import DELETES, Bucket, DataFile, VectorRef
from lsmlake.format.snapshot import Snapshot
from lsmlake.lsm.levels import Levels, sections
from lsmlake.lsm.merge.rule import OldRow
from lsmlake.lsm.merge.rules import rule_of
from lsmlake.lsm.pick.picked import last_level_of
from lsmlake.predicate import Predicate, key_values
from lsmlake.read.indexed import by_index
from lsmlake.read.prune import by_statistics, prune_by_key, selection
from lsmlake.schema.schema import Schema
from lsmlake.storage.concurrency import side_by_side
from lsmlake.tables.live import Selection
from lsmlake.tables.version import OF_FALLBACK, Version

FRESH, RAW, COMPACTED = "fresh", "raw", "compacted"
_SPLIT_BYTES, _FILE_BYTES = 600, 900  # of memory, about
_TOGETHER_BYTES = 1 << 18  # of small files that one worker reads: handing over each file takes longer than reading it
_TOGETHER_ROWS = 1 << 20  # of these files: Parquet may store a million equal rows in a thousand bytes
LiveFiles = Callable[[Version, Selection | None, Collection[str]], pa.Table]
"""(version, selection, columns) -> the live files that the selection needs, as manifest entries with the statistics of at least
`columns`."""


@dataclass(frozen=True)
class Split:
    """Files of one bucket that are read together: `files` at level >= 1, their vectors, and the level-0 files with newer rows.
    `lookup_files`: files at level >= 1 without matching rows, whose rows may be merged with level-0 rows.

    `retained`: files of retained deletes, because of which level-0 rows may be ignored. `total`: the total of the bucket.

    Without deletion vectors: either `files` of any level that can be read without merging, or `merged`, a section of files that
    must be merged.
    """

    bucket: Bucket
    files: tuple[DataFile, ...]
    vectors: Mapping[str, VectorRef]
    level0: tuple[DataFile, ...]
    lookup_files: tuple[DataFile, ...] = ()
    merged: tuple[DataFile, ...] = ()
    retained: tuple[DataFile, ...] = ()
    total: int = 1

    @property
    def of_fallback(self) -> bool:
        """Whether the files are those of the fallback of the version."""
        return any(file.schema_id >= OF_FALLBACK for file in (*self.files, *self.level0, *self.merged))


class AllSplits(tuple[Split, ...]):
    """The splits of all files of a snapshot. `identity`: only the same splits have it; some of them, or others, have none."""

    identity: Hashable = None

    @staticmethod
    def of(splits: Iterable[Split], identity: Hashable) -> AllSplits:
        made = AllSplits(splits)
        made.identity = identity
        return made


def in_groups(splits: Iterable[Split], at_once: int) -> Iterator[list[Split]]:
    """Consecutive splits in groups of small files, the first groups of few, as the caller may stop early; where each file takes a
    request, the splits one by one. `at_once`: see `Storage`."""
    if at_once > 1:
        yield from ([split] for split in splits)
        return
    group: list[Split] = []
    size = rows = 0
    most = 1
    for split in splits:
        files = (*split.files, *split.level0, *split.merged, *split.lookup_files)
        own_size, own_rows = sum(file.bytes for file in files), sum(file.rows for file in files)
        if len(group) == most or (group and (size + own_size > _TOGETHER_BYTES or rows + own_rows > _TOGETHER_ROWS)):
            yield group
            group, most = [], 2 * most
            size = rows = 0
        group.append(split)
        size, rows = size + own_size, rows + own_rows
    if group:
        yield group


def by_file(splits: Sequence[Split]) -> list[Split]:
    """Cuts splits without level 0 into one split per file."""
    pieces = [_of_file(split, file) for split in splits if not split.level0 for file in split.files]
    return [*pieces, *(split for split in splits if split.level0 or split.merged)]


def _of_file(split: Split, file: DataFile) -> Split:
    return replace(split, files=(file,), vectors={file.name: split.vectors[file.name]} if file.name in split.vectors else {})


@dataclass(frozen=True)
class Projection:
    """The columns and rows that a read asks for, independent of the snapshot: `columns` in output order, of the rows for which
    `predicate` is true, with the types of `schema`."""

    schema: Schema
    predicate: Predicate | None
    columns: tuple[str, ...]

    @staticmethod
    def of(schema: Schema, predicate: Predicate | None, columns: Sequence[str] | None) -> Projection:
        """Creates a projection. Raises InvalidQuery for names that are not columns."""
        return Projection(schema, predicate, _check_columns(columns, schema))

    @cached_property
    def needed(self) -> tuple[str, ...]:
        """The columns to read: the projected ones and those of the predicate."""
        wanted = {*self.columns, *(self.predicate.columns if self.predicate else ())}
        return tuple(name for name in self.schema.columns.names if name in wanted)

    @property
    def names_keys(self) -> bool:
        """Whether the predicate limits the rows to a finite set of keys."""
        return self.predicate is not None and key_values(self.predicate, self.schema.key) is not None


@dataclass(frozen=True, repr=False)
class Plan(Projection):
    """A projection of one version, and the files to read for it.

    Attributes:
        version: the table at the snapshot to read.
        mode: 'fresh', 'raw' or a mode that the library uses itself.
        splits: the parts that can be read independently, bucket by bucket.
        pruned: how many files each step left, as (step, files).
    """

    version: Version
    mode: str
    splits: tuple[Split, ...]
    pruned: tuple[tuple[str, int], ...]

    def __repr__(self) -> str:
        snapshot = f"snapshot {self.snapshot.id}" if self.snapshot else "no snapshot"
        return f"<lsmlake plan of {self.version.meta.paths.root}, {snapshot}, {self.files:,} files, {self.dead_rows:,} dead rows>"

    @property
    def snapshot(self) -> Snapshot | None:
        return self.version.snapshot

    @property
    def files(self) -> int:
        return len(self.data_files)

    @property
    def data_files(self) -> list[DataFile]:
        return [file for split in self.splits for files in (split.files, split.level0, split.merged) for file in files]

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
    live: LiveFiles | None = None,
) -> Plan:
    """Plans a read. O(files) array operations for pruning, O(remaining files) Python objects.

    Args:
        version: The table at the snapshot to read.
        predicate: Filters rows.
        columns: The columns to return. None: all but hidden ones.
        mode: FRESH reads all levels, COMPACTED the levels >= 1, RAW the levels >= 1 that need no merging (without deletion
            vectors only the last level).
        live: Reads the live files; None: `Manifests.live`.
        near: Manifest entries; only files with the partition values and a bucket number of these entries are planned.

    Raises:
        InvalidQuery: The mode or a column is unknown.
    """
    schema, names = version.schema, _check_columns(columns, version.schema)
    if mode not in (FRESH, RAW, COMPACTED):
        raise InvalidQuery(
            "unknown mode", expected="'fresh' or 'raw'", found=repr(mode), cure="fresh reads all rows, raw skips level 0"
        )
    if version.snapshot is None and version.fallback is None:
        return Plan(schema, predicate, names, version, mode, (), (("snapshot", 0),))
    vectors = not schema.merges_at_read
    deeper = mode == COMPACTED or (mode == RAW and vectors)
    by_last_level = mode == RAW and not vectors
    selected = selection(schema, predicate, by_key=not by_last_level, level0=not deeper)
    columns_used = predicate.columns if predicate else frozenset()
    if live is not None:
        entries = partial(live, version, selected, columns_used)
    elif version.fallback is None:
        entries = partial(version.meta.manifests.live, version.snapshot, schema, selected)
    else:
        entries = partial(version.entries, selected)
    table, vector_refs = side_by_side([entries, version.vector_refs], version.meta.env.storage.at_once)
    steps = [("snapshot", version.live_files())]
    with_rows = manifest.with_rows(table)
    retained = {} if deeper or by_last_level or with_rows is table else _retained(table, schema)
    table = with_rows
    if deeper:
        table = table.filter(pc.greater(table["level"], 0))
    if predicate is not None or deeper or version.fallback is not None:
        checked = ["branches"] * (version.fallback is not None) + [f"{mode}: without level 0"] * deeper
        checked += ["buckets" if by_last_level else "keys"] * (predicate is not None)
        steps.append((", ".join(checked), table.num_rows))
    if near is not None:
        for name in ("spec", *(f"p:{field.number}" for field in schema.all_partition_columns), "bucket"):
            table = table.filter(pc.is_in(table[name], value_set=near[name].combine_chunks()))
    if by_last_level:
        table = table.filter(pa.array(_at_last_level(table, schema)))
        steps.append((f"{mode}: last level", table.num_rows))
    matches = np.ones(table.num_rows, bool)
    if predicate is not None and table.num_rows:
        if by_last_level:
            table = prune_by_key(table, schema, predicate)
            steps.append(("keys", table.num_rows))
        matches = by_statistics(table, schema, predicate)
        steps.append(("statistics", int(matches.sum())))
        indexed = version.options.index.columns & predicate.columns
        narrowed = by_index(version, table, matches, predicate) if indexed else None
        if narrowed is not None:
            table, matches = table.filter(pa.array(narrowed.keys)), narrowed.matches[narrowed.keys]
            steps.append((narrowed.step, int(matches.sum())))
        if vectors and not matches.all() and rule_of(schema).old_row is OldRow.REPLACED:
            table, matches = table.filter(pa.array(matches)), matches[matches]
    split = partial(_splits if vectors else _merging_splits, table, matches, vector_refs, schema, retained)
    if predicate is None and near is None and live is None and version.fallback is None:
        splits = _known_splits(version, mode, split)
    else:
        splits = split()
    if not vectors and table.num_rows:
        steps.append(("read", sum(len(split.files) + len(split.merged) for split in splits)))
    return Plan(schema, predicate, names, version, mode, splits, tuple(steps))


def _known_splits(version: Version, mode: str, made: Callable[[], tuple[Split, ...]]) -> AllSplits:
    """All splits of a snapshot, which the handle of the table keeps."""
    snapshot = version.snapshot
    names = tuple(file and file.name for file in (snapshot.delta_manifest_list, snapshot.index_manifest))
    identity = "splits", version.meta.paths.root, names, version.schema.id, mode
    return version.meta.files.cache.get(identity, lambda: AllSplits.of(made(), identity), _bytes_of_splits)


def _bytes_of_splits(splits: AllSplits) -> int:
    return sum(_SPLIT_BYTES + _FILE_BYTES * len((*one.files, *one.level0, *one.lookup_files, *one.merged)) for one in splits)


def _at_last_level(table: pa.Table, schema: Schema) -> np.ndarray:
    """Flags the files at the last level of their bucket, which need no merging. `table`: all files of each bucket, because the
    deepest one decides which level is the last."""
    levels, numbers = table["level"].to_numpy(), table["bucket"].to_numpy().astype(np.int64)
    width = np.int64(numbers.max(initial=0) + 1)
    _, bucket = np.unique(manifest.partition_codes(table, schema) * width + numbers, return_inverse=True)
    deepest = np.full(bucket.max(initial=-1) + 1, last_level_of(schema.parsed_options.compaction, Levels()))
    np.maximum.at(deepest, bucket, levels)
    return levels == deepest[bucket]


_COUNT = Wording("count() counts rows", command="name a column")


def _check_columns(columns: Sequence[str] | None, schema: Schema) -> tuple[str, ...]:
    if columns is None:
        return tuple(schema.columns.names) if schema.view is None else schema.shown
    if isinstance(columns, str):
        raise InvalidQuery("columns is a list of names", found=repr(columns), cure=f"write [{columns!r}]")
    if not columns:
        raise InvalidQuery(
            "the list of columns is empty",
            expected=f"some of {list(schema.shown)}",
            cure=Wording("count() counts rows", command="name a column"),
        )
    by_lower = {name.lower(): name for name in schema.columns.names}
    unknown = [name for name in columns if name.lower() not in by_lower]
    if unknown:
        raise InvalidQuery("unknown columns", expected=f"some of {list(schema.shown)}", found=unknown, cure="correct the names")
    if len({name.lower() for name in columns}) != len(columns):
        raise InvalidQuery("a column is listed twice", found=list(columns), cure="name it once")
    return tuple(by_lower[name.lower()] for name in columns)


def _names(table: pa.Table, matches: np.ndarray) -> set[str]:
    names = table["name"]
    return set((names if matches.all() else names.filter(pa.array(matches))).to_pylist())


Retained = Mapping[Bucket, tuple[DataFile, ...]]


def _retained(table: pa.Table, schema: Schema) -> Retained:
    """The files of retained deletes that a plan needs."""
    if not rule_of(schema).retains:
        return {}
    files = table.filter(pc.equal(table["source"], DELETES))
    return {bucket: state.retained for bucket, state in manifest.states(files, {}, schema, statistics=False).items()}


def _splits(
    table: pa.Table, matches: np.ndarray, vectors: Mapping[str, VectorRef], schema: Schema, retained: Retained
) -> tuple[Split, ...]:
    splits = []
    read = _names(table, matches)
    for bucket, state in manifest.states(table, vectors, schema, statistics=False).items():
        level0 = tuple(file for file in state.files if file.level == 0)
        older = sorted((file for file in state.files if file.level > 0), key=lambda file: (file.level, file.min_key))
        files = tuple(file for file in older if file.name in read)
        lookup_files = tuple(file for file in older if file.name not in read) if level0 else ()
        if files or level0:
            kept = {file.name for file in (*files, *lookup_files)}
            refs = {name: ref for name, ref in state.vectors.items() if name in kept}
            deletes = retained.get(bucket, ()) if level0 else ()
            splits.append(Split(bucket, files, refs, level0, lookup_files, retained=deletes, total=state.total_buckets))
    return tuple(splits)


def _merging_splits(
    table: pa.Table, matches: np.ndarray, vectors: Mapping[str, VectorRef], schema: Schema, retained: Retained
) -> tuple[Split, ...]:
    """Returns the splits of a table without vectors."""
    splits = []
    read = _names(table, matches)
    for bucket, state in manifest.states(table, vectors, schema, statistics=False).items():
        deletes, file_groups = retained.get(bucket, ()), [section.files for section in sections(state.files)]
        alone = [s for s in file_groups if len(s) == 1 and not s[0].delete_rows and not (deletes and s[0].level == 0)]
        if raw := tuple(file for (file,) in alone if file.name in read):
            splits.append(Split(bucket, raw, {}, (), total=state.total_buckets))
        for section in file_groups:
            if section not in alone:
                fresh = any(file.level == 0 for file in section)
                held, total = deletes if fresh else (), state.total_buckets
                splits.append(Split(bucket, (), {}, (), merged=section, retained=held, total=total))
    return tuple(splits)
