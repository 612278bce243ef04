"""How an engine in this process reads the rows of a plan: which Parquet files it reads itself, and which rows it gets from
PyArrow.

1. The older rows that level 0 supersedes join the vectors of their files. Where a new row replaces the old one as a whole, so do
   the superseded rows of level-0 files, which are files as all others (`read.superseded`). Under other merge rules the level-0
   rows of each bucket are merged in memory (`read.arrow_scan.freshen`): they are an Arrow table.
2. The engine reads the other files and leaves out their dead rows. Columns are found by field id, under the names and with the
   types of the file's schema. `read.in_duckdb` and `read.in_polars` say how.
3. Files with other nested columns, sections that must be merged and storages that are not local are read by `read.arrow_scan` as
   a stream.

The engine checks no checksums. Those of footers are checked here, those of whole files on request.

The cache of a table handle keeps the source of each plan and the names of files whose checksums were checked, so that the next
query of the same files begins at once.

Footers are always checked, since a damaged one gives wrong rows or ends the process: one read of the end of each file, 0.02 ms.
Whole files are checked on request only: a gigabyte takes a second, however few columns a query then reads. A file of another
writer (`imports`) has no checksum of the whole; its columns are decoded instead, which checks those of its pages.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import NamedTuple, TypeVar

import pyarrow as pa

from lsmlake.errors import Corrupt
from lsmlake.files.bucket_files import BucketFiles
from lsmlake.files.checksum import RESTORE, TAIL_BYTES, checksum_of, read_footer, verified_footer
from lsmlake.files.data_reader import reading
from lsmlake.format.data_files import Bucket, DataFile
from lsmlake.format.deletion_vector import EMPTY, DeletionVector
from lsmlake.interruption import as_stream
from lsmlake.lsm.merge.rule import MergeRule
from lsmlake.lsm.merge.rules import rule_of
from lsmlake.read.arrow_scan import Fresh, finished, freshen_for_scan, output_schema, read_plan
from lsmlake.read.plan import AllSplits, Plan, Split, in_groups
from lsmlake.read.superseded import is_settled, reads_level0_as_it_is
from lsmlake.schema.adapt import is_evolved
from lsmlake.schema.schema import Schema
from lsmlake.storage.concurrency import ahead, side_by_side
from lsmlake.storage.local import LocalStorage
from lsmlake.tables.version import Version
from lsmlake.types.column_types import field_id

_PATTERN_CHARACTERS = frozenset("*?[]{}\\")

_FILE_BYTES = 2048  # estimated memory for the facts about a file

Item = TypeVar("Item")
Stored = tuple[pa.Field | None, ...]
"""The field of a file for each column of a plan; None if the file lacks it."""


class Direct(NamedTuple):
    """A file that the engine reads: its path, its dead rows, and its fields."""

    of: DataFile
    path: str
    rows: int
    dead: DeletionVector
    stored: Stored


@dataclass(frozen=True)
class NativeSource:
    """How the rows of a plan are read: `direct` by the engine, `level0` from memory, and `streamed` by PyArrow.

    Plans with the same `key` read the same columns of the same immutable files.
    """

    plan: Plan
    direct: tuple[Direct, ...]
    level0: tuple[pa.Table, ...]
    streamed: Plan
    key: Hashable

    def kept(self, what: Hashable, make: Callable[[], Item], dead_row_bytes: float) -> Item:
        """The result of `make` for this source, cached in the table handle. `dead_row_bytes`: the memory that it takes per dead
        row."""
        if self.streamed.splits:  # streamed rows are filtered while they are read
            return make()
        files, dead = len(self.direct), sum(file.dead.cardinality for file in self.direct)
        size = _FILE_BYTES * (1 + files) + int(dead * dead_row_bytes) + sum(table.nbytes for table in self.level0)
        return self.plan.version.meta.files.cache.get((what, self.key), make, lambda _: size)

    def by_fields(self) -> dict[Stored, list[Direct]]:
        """The files that the engine reads, grouped by their fields."""
        by_fields: dict[Stored, list[Direct]] = {}
        for file in self.direct:
            by_fields.setdefault(file.stored, []).append(file)
        return by_fields

    def check(self) -> None:
        """Checks the checksums of the files that the engine reads. Raises Corrupt."""
        plan = self.plan
        buckets = {file.name: split.bucket for split in plan.splits for file in (*split.files, *split.level0)}
        check_whole(plan.version, buckets, [file.of for file in self.direct], plan.columns)

    def describe(self, engine: str) -> list[str]:
        """The lines of EXPLAIN about this source."""
        masked = [file for file in self.direct if file.dead]
        dead = sum(file.dead.cardinality for file in masked)
        lines = [f"{engine:<9} {len(self.direct)} files, {dead:,} dead rows left out in {len(masked)} of them"]
        if self.direct:
            lines.append(f"checksums of footers; {engine} checks none of pages")
        if self.streamed.files:
            lines.append(f"arrow     {self.streamed.files} files")
        if self.level0:
            lines.append(f"level 0   {sum(table.num_rows for table in self.level0):,} rows, merged in memory")
        return lines


class Stream:
    """Rows that PyArrow reads, once for each consumer. `read`: returns a reader of some columns, in the given order."""

    def __init__(self, schema: pa.Schema, read: Callable[[tuple[str, ...]], pa.RecordBatchReader]) -> None:
        self.schema, self.read = schema, read

    @staticmethod
    def of(plan: Plan) -> Stream:
        """The rows of a plan."""
        return Stream(output_schema(plan), lambda columns: _batches(replace(plan, columns=columns)))

    def to_batches(self, columns: Sequence[str] | None = None) -> pa.RecordBatchReader:
        """The rows as record batches, with these columns or all."""
        return self.read(tuple(self.schema.names if columns is None else columns))

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return as_stream(self.to_batches(), requested_schema)


def _batches(plan: Plan) -> pa.RecordBatchReader:
    batches = (batch for table in read_plan(plan) for batch in table.to_batches())
    return pa.RecordBatchReader.from_batches(output_schema(plan), batches)


def source_of(plan: Plan) -> NativeSource:
    """Finds the dead rows of all files, and merges the rows at level 0."""
    key = _key(plan)
    known: NativeSource | None = plan.version.meta.files.cache.known((NativeSource, key))
    if known is not None:
        return replace(known, plan=plan)
    source = _built(plan, key)
    return source.kept(NativeSource, lambda: source, dead_row_bytes=2)


def _key(plan: Plan) -> Hashable:
    """A cache key of the files, vectors and columns that a plan reads, without the predicate. File names are never reused."""
    if isinstance(plan.splits, AllSplits):
        return plan.schema.id, plan.columns, plan.splits.identity
    splits = (
        (split.files, split.level0, split.lookup_files, split.merged, split.retained, split.vectors) for split in plan.splits
    )
    names = tuple(
        (*(tuple(file.name for file in group) for group in groups), tuple(vectors.items())) for *groups, vectors in splits
    )
    return plan.version.meta.paths.root, plan.schema.id, plan.columns, names


def _built(plan: Plan, key: Hashable) -> NativeSource:
    version = plan.version
    direct: list[Direct] = []
    level0: list[pa.Table] = []
    streamed: list[Split] = []
    with version.unless_expired():
        schemas = {file.schema_id for split in plan.splits for file in (*split.files, *split.level0)}
        fields = {number: _fields(version.meta.schemas.get(number), plan.schema, plan.columns) for number in schemas}
        rule = rule_of(plan.schema)
        chosen = {number: _readable(plan, split, fields, rule) for number, split in enumerate(plan.splits)}
        taken = [number for number, files in chosen.items() if files is not None]
        marked = [n for n in taken if plan.splits[n].vectors or not is_settled(plan.splits[n], rule)]
        fresh_of = {number: Fresh(None, {file.name: EMPTY for file in chosen[number]}) for number in taken}
        numbers, groups = iter(marked), in_groups((plan.splits[number] for number in marked), 1)
        looks = (_freshened(plan, list(islice(numbers, len(group)))) for group in groups)
        fresh_of.update(ahead(looks, version.meta.env.workers))
    for number, split in enumerate(plan.splits):
        files, fresh = chosen[number], fresh_of.get(number)
        if files is None or fresh is None:
            streamed.append(split)
            continue
        root = version.meta.env.storage.root
        direct += [
            Direct(file, f"{root}/{path}", file.rows, fresh.dead[file.name], fields[file.schema_id])
            for path, file in zip(map(version.meta.paths.data, files), files, strict=True)
        ]
        if fresh.rows is not None and fresh.rows.num_rows:
            level0.append(finished(fresh.rows, plan))
        if not split.level0 and len(files) < len(split.files):
            names = {file.name for file in files}
            streamed.append(replace(split, files=tuple(file for file in split.files if file.name not in names)))
    check_footers(version, [file.of for file in direct])
    return NativeSource(plan, tuple(direct), tuple(level0), replace(plan, splits=tuple(streamed)), key)


def _fields(stored: Schema, wanted: Schema, columns: Sequence[str]) -> Stored | None:
    """The fields of a file written under `stored` for `columns` of `wanted`, by field id; None if a nested column has changed."""
    ours = {field_id(field): field for field in stored.columns}
    pairs = [(ours.get(field_id(field)), field) for field in map(wanted.columns.field, columns)]
    if any(old is not None and pa.types.is_nested(field.type) and is_evolved(old.type, field.type) for old, field in pairs):
        return None
    return tuple(old for old, _ in pairs)


def _freshened(plan: Plan, numbers: Sequence[int]) -> Generator[tuple[int, Fresh]]:
    for number in numbers:
        split = plan.splits[number]
        yield number, freshen_for_scan(BucketFiles.of(plan.version, split.bucket), plan, split, plan.needed)


def _readable(plan: Plan, split: Split, fields: Mapping[int, Stored | None], rule: MergeRule) -> tuple[DataFile, ...] | None:
    """The files of a split that the engine reads; None if PyArrow reads the whole split."""
    meta = plan.version.meta
    if split.merged or not isinstance(meta.env.storage, LocalStorage):
        return None
    root = meta.env.storage.root
    wanted = (*split.files, *split.level0) if reads_level0_as_it_is(split, rule) else split.files
    readable = tuple(
        file
        for file in wanted
        if fields[file.schema_id] is not None
        and (not file.delete_rows or plan.version.options.layout.deletion_vectors)
        and _PATTERN_CHARACTERS.isdisjoint(f"{root}/{meta.paths.data(file)}")
    )
    return None if split.level0 and len(readable) < len(wanted) else readable  # the stream would read level 0 once more


_KNOWN_BYTES = 64
_CALLS_A_WORKER = 16


def check_footers(version: Version, files: Sequence[DataFile]) -> None:
    """Checks the checksums of footers. Raises Corrupt, and StorageFailed if a file is a link, which an engine would follow."""
    storage = version.meta.env.storage

    def check(pairs: Sequence[tuple[DataFile, str]]) -> None:
        endings = storage.endings([(path, file.footer_bytes or TAIL_BYTES) for file, path in pairs])
        for (file, path), ending in zip(pairs, endings, strict=True):
            with reading(path):
                if ending is None:
                    raise FileNotFoundError(path)
                if file.footer_bytes is None:  # the end may hold less than the footer
                    with storage.read(path) as source:
                        read_footer(source, file, path)
                else:
                    verified_footer(ending.data, ending.size, file, path)

    known = _check(version, "footer", files, check)
    storage.refuse_links(known)


def check_whole(version: Version, bucket_of: Mapping[str, Bucket], files: Sequence[DataFile], columns: Sequence[str]) -> None:
    """Checks the checksums of whole files. Raises Corrupt. `bucket_of`: the bucket of each file, by its name. `columns`: the
    columns whose pages are checked in a file without a checksum."""

    def check(file: DataFile, path: str) -> None:
        if file.checksum is None:
            with BucketFiles.of(version, bucket_of[file.name]).open(file) as reader:
                for _ in reader.chunks(columns):
                    pass
            return
        with reading(path), version.meta.env.storage.read(path) as source:
            actual = checksum_of(source)
        if actual != file.checksum:
            expected = f"checksum {file.checksum:#010x}"
            raise Corrupt("data file is damaged", where=path, expected=expected, found=f"{actual:#010x}", cure=RESTORE)

    _check(version, "whole", files, lambda pairs: [check(*pair) for pair in pairs])


def _check(
    version: Version, what: str, files: Sequence[DataFile], check: Callable[[Sequence[tuple[DataFile, str]]], object]
) -> list[str]:
    """Calls `check` with some of the files that were not checked before, and their paths, until all are checked. Returns the
    paths of those that were."""
    cache = version.meta.files.cache

    def some(pairs: Sequence[tuple[DataFile, str]]) -> None:
        check(pairs)
        for _, path in pairs:
            cache.put((what, path), True, lambda _: _KNOWN_BYTES)

    paths = list(map(version.meta.paths.data, files))
    new = [(file, path) for file, path in zip(files, paths, strict=True) if cache.known((what, path)) is None]
    workers = version.meta.env.workers
    step = 1 + len(new) // (_CALLS_A_WORKER * workers)  # handing over each small file takes longer than its check
    parts = (new[start : start + step] for start in range(0, len(new), step))
    with version.unless_expired():
        side_by_side([partial(some, pairs) for pairs in parts], workers)
    unknown = {path for _, path in new}
    return [path for path in paths if path not in unknown]
