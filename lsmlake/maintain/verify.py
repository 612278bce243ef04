"""Verify: reads every file that a table references and checks it. `commit.requirements` holds the checks of a bucket's metadata.

Snapshots: contiguous (I4), decodable, manifests readable (I6), buckets consistent (I1, I3), row counts correct. Data files: exist
(I8), with the recorded size and checksum, valid pages, ascending unique keys within the recorded bounds, and all keys in the
bucket of their hash. Indexes of data files: checksums, and all values of the file. Vectors: checksums, positions less than the
row count. Changelog files: as data files, but keys may repeat. Tags: as snapshots, without changelogs. Statistics: readable.
Latest snapshot of a table with deletion vectors: at deeper levels, a key is live in one file only (I2); of a table whose keys can
move between partitions: in one partition. Iceberg metadata, where it is published: the same files, vectors and schemas as the
snapshots of the table (`iceberg.check`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lsmlake.commit.requirements import violations
from lsmlake.errors import LakeError, SnapshotNotFound, TableNotFound
from lsmlake.files.bucket_files import BucketFiles
from lsmlake.files.checksum import checksum_of
from lsmlake.files.data_reader import Chunk, DataReader, live_rows, reading
from lsmlake.files.retained import Retained
from lsmlake.files.spill import in_key_order
from lsmlake.format import manifest, puffin
from lsmlake.format.data_files import DELETES, Bucket, BucketState, DataFile, VectorRef
from lsmlake.format.file_index import NOTHING
from lsmlake.format.manifest import ManifestMeta
from lsmlake.format.paths import bucket_directory
from lsmlake.format.snapshot import NamedFile, Snapshot
from lsmlake.format.tag import Tag
from lsmlake.iceberg.check import iceberg_findings
from lsmlake.kernels.bucket_hash import bucket_of
from lsmlake.kernels.keys import comparable, ends
from lsmlake.lsm.cover import Cover, Share
from lsmlake.lsm.merge.rules import rule_of
from lsmlake.maintain.analyze import statistics_of
from lsmlake.maintain.index_check import IndexCheck
from lsmlake.read.arrow_scan import read_plan
from lsmlake.read.indexed import index_of_file
from lsmlake.read.plan import Split, plan
from lsmlake.schema.rowkind import INSERT
from lsmlake.schema.schema import POSITION_BITS, ROW_ADDRESS, ROW_KIND, Schema
from lsmlake.storage.storage import read_bytes
from lsmlake.tables.finding import Finding, finding, merged
from lsmlake.tables.version import Metadata, Version


def verify(meta: Metadata, progress: Callable[[str], None] = lambda what: None) -> list[Finding]:
    """All findings; empty if the table is sound. Reads every file once. Calls `progress` with each file or bucket it checks."""
    meta = meta.with_empty_cache()
    checker = _Checker(meta, progress)
    findings = list(checker.run())
    if meta.paths.branch is None:
        for name in meta.branches.names():
            findings += [Finding(one.where, one.what, branches=(name,)) for one in _of_branch(meta, name, checker)]
        findings += iceberg_findings(meta, progress)
    return merged(findings)


def _of_branch(meta: Metadata, name: str, main: _Checker) -> Iterator[Finding]:
    """The findings of a branch. Files that the table has, too, are not read again."""
    try:
        info = meta.branches.read(name)
        if info is not None:
            checker = _Checker(meta.on(info.named(name)), main.progress)
            checker.findings, checker.placed = main.findings, main.placed
            yield from checker.run()
    except TableNotFound:  # it was deleted meanwhile
        meta.files.first_schema()
    except LakeError as broken:
        yield finding(meta.paths.branch_file(name), broken)


def verify_snapshot(meta: Metadata, number: int, progress: Callable[[str], None] = lambda what: None) -> list[Finding]:
    """As `verify`, for one snapshot and its changelog, without its statistics."""
    return merged(_Checker(meta.past_disk_cache(), progress, rows_only=True)._at(number, latest=True))


class _Checker:
    def __init__(self, meta: Metadata, progress: Callable[[str], None], *, rows_only: bool = False) -> None:
        self.meta, self.progress, self.rows_only = meta, progress, rows_only
        self.findings: dict[str, tuple[Finding, ...]] = {}  # what was checked once -> its findings
        self.placed: dict[str, Mapping[str, puffin.Blob]] = {}  # Puffin file -> the content of its footer

    def run(self) -> Iterator[Finding]:
        try:
            self.meta.files.first_schema()
            numbers = self.meta.snapshots.ids()
        except TableNotFound:
            raise
        except LakeError as broken:
            yield finding(self.meta.paths.root, broken)
            return
        gaps = {*range(numbers[0], numbers[-1] + 1)}.difference(numbers) if numbers else set()
        if gaps and gaps.difference(self.meta.snapshots.cut_ids()):
            yield Finding(self.meta.paths.snapshots, f"I4: snapshots are not contiguous: {numbers}")
        for number in reversed(numbers):  # newest first: shared files are checked before an older snapshot expires
            findings = [one._replace(snapshots=(number,)) for one in self._at(number, latest=number == numbers[-1])]
            yield from self._unless_expired(findings, partial(self.meta.snapshots.get, number))
        yield from self._tags()
        for number in self.meta.snapshots.recorded_ids():
            recorded, where = partial(self.meta.snapshots.recorded, number), self.meta.paths.changelog(number)
            findings = self._guard(where, lambda recorded=recorded: self._changelog(recorded()))
            yield from self._unless_expired([one._replace(snapshots=(number,)) for one in findings], recorded)

    def _unless_expired(self, findings: list[Finding], read: Callable[[], object]) -> list[Finding]:
        """The findings; none if `read` shows that another process has expired the snapshot. Raises TableNotFound."""
        try:
            if findings:
                read()
        except SnapshotNotFound:
            return []
        except TableNotFound:
            raise
        except LakeError:
            return findings
        return findings

    def _tags(self) -> Iterator[Finding]:
        for name in self.meta.tags.names():
            where = self.meta.paths.tag(name)
            try:
                tag = self.meta.tags.read(name)
            except LakeError as broken:
                yield finding(where, broken)._replace(tags=(name,))
                continue
            if tag is None:  # deleted meanwhile
                continue
            findings = [one._replace(tags=(name,)) for one in self._state(where, tag.snapshot, latest=False)]
            if findings and self._is_still(tag):
                yield from findings

    def _is_still(self, tag: Tag) -> bool:
        """Whether the tag still exists; if not, missing files are no damage."""
        try:
            return self.meta.tags.read(tag.name) == tag
        except LakeError:
            return True

    def _at(self, number: int, *, latest: bool) -> Iterator[Finding]:
        where = self.meta.paths.snapshot(number)
        try:
            snapshot = self.meta.snapshots.get(number)
        except LakeError as broken:
            yield finding(where, broken)
            return
        yield from self._state(where, snapshot, latest=latest)
        if not self.meta.branches.is_of_table(snapshot):
            yield from self._guard(where, lambda: self._changelog(snapshot))

    def _state(self, where: str, snapshot: Snapshot, *, latest: bool) -> Iterator[Finding]:
        """Checks a snapshot, except its changelog. `where`: the file that holds the snapshot."""
        try:
            schema = self.meta.schemas.of(snapshot)
            states = self.meta.manifests.states(snapshot, schema)
        except LakeError as broken:
            yield finding(where, broken)
            yield from self._broken(snapshot)
            return
        yield from self._snapshot(where, snapshot, states)
        yield from self._covers(where, states)
        yield from self._statistics(snapshot)
        findings = [one for state in states.values() for one in self._bucket(schema, state, latest=latest)]
        yield from findings
        if latest and schema.moves_keys and not findings:
            yield from self._guard(where, lambda: self._keys_in_one_partition(Version(self.meta, snapshot, schema)))

    def _broken(self, snapshot: Snapshot) -> Iterator[Finding]:
        """Every damaged file of a snapshot with an unreadable manifest. A missing data file is not reported: the unreadable
        manifest may have removed it."""
        paths, index = self.meta.paths, snapshot.index_manifest
        for named in (snapshot.base_manifest_list, snapshot.delta_manifest_list):
            yield from self._guard(paths.manifest(named.name), partial(self._listed, snapshot, named))
        if index is not None:
            yield from self._guard(paths.manifest(index.name), partial(self._index, index))

    def _listed(self, snapshot: Snapshot, named: NamedFile) -> Iterator[Finding]:
        schema = self.meta.schemas.of(snapshot)
        for one in self.meta.manifests.listed(named):
            yield from self._guard(self.meta.paths.manifest(one.name), partial(self._added, schema, one))

    def _added(self, schema: Schema, one: ManifestMeta) -> Iterator[Finding]:
        entries = self.meta.manifests.entries(one, schema)
        for bucket, total, file in manifest.files_of(entries.filter(pc.equal(entries["kind"], manifest.ADD)), schema):
            if self.meta.env.storage.size(self.meta.paths.data(file)) is not None:
                state = BucketState(bucket, total)
                if file.source == DELETES:
                    yield from self._once(file.name, partial(self._retained, schema, state, file))
                else:
                    yield from self._once(file.name, partial(self._file, schema, state, file, repeats=True))

    def _index(self, named: NamedFile) -> Iterator[Finding]:
        for part in self.meta.manifests.index(named).parts:
            yield from self._guard(self.meta.paths.manifest(part.name), partial(self._index, NamedFile(part.name, part.bytes)))

    def _covers(self, where: str, states: dict[Bucket, BucketState]) -> Iterator[Finding]:
        """Checks that no key of a partition lies in two buckets."""
        shares: dict[tuple, set[Share]] = {}
        for bucket, state in states.items():
            shares.setdefault(bucket.partition_key, set()).add(Share(bucket.number, state.total_buckets))
        for some in shares.values():
            yield from self._guard(where, lambda some=some: Cover.of(some, where) and ())

    def _snapshot(self, where: str, snapshot: Snapshot, states: dict[Bucket, BucketState]) -> Iterator[Finding]:
        live = sum(f.rows for s in states.values() for f in s.files) - sum(
            r.cardinality for s in states.values() for r in s.vectors.values()
        )
        if live != snapshot.total_rows:
            yield Finding(where, f"total_rows is {snapshot.total_rows}, the files hold {live}")
        named = set(self.meta.manifests.vector_refs(snapshot))
        for name in named - {f.name for s in states.values() for f in s.files}:
            yield Finding(where, f"I3: a vector names {name}, which is not live")

    def _statistics(self, snapshot: Snapshot) -> Iterator[Finding]:
        if snapshot.statistics is not None and not self.rows_only:
            yield from self._once(snapshot.statistics.name, lambda: self._readable_statistics(snapshot))

    def _readable_statistics(self, snapshot: Snapshot) -> Iterator[Finding]:
        statistics_of(self.meta, snapshot)
        yield from ()

    def _changelog(self, snapshot: Snapshot) -> Iterator[Finding]:
        schema = self.meta.schemas.of(snapshot)
        entries = manifest.files_of(self.meta.manifests.changelog(snapshot, schema), schema)
        if (rows := sum(file.rows for _, _, file in entries)) != snapshot.changelog_rows:
            what = f"changelog_rows is {snapshot.changelog_rows}, the files hold {rows}"
            yield Finding(self.meta.paths.snapshot(snapshot.id), what)
        for bucket, total, file in entries:
            state = BucketState(bucket, total)
            yield from self._once(file.name, lambda state=state, file=file: self._file(schema, state, file, repeats=True))

    def _bucket(self, schema: Schema, state: BucketState, latest: bool) -> Iterator[Finding]:
        options = schema.parsed_options
        directory = bucket_directory(
            state.bucket, schema.partition_columns_of(state.bucket.spec), options.layout.default_partition
        )
        where = f"{self.meta.paths.root}/{directory}"
        for text in violations(state):
            yield Finding(where, text)
        for file in state.files:
            repeats = file.delete_rows > 0 and rule_of(schema).repeats_keys
            check = partial(self._file, schema, state, file, repeats=repeats)
            yield from self._once(file.name, check)
        for file in state.retained:
            yield from self._once(file.name, partial(self._retained, schema, state, file))
        for name, ref in state.vectors.items():
            yield from self._once(ref.puffin, lambda ref=ref: self._puffin(ref.puffin))
            if not self.findings[ref.puffin]:
                yield from self._once(f"{ref.puffin}@{ref.offset}", lambda name=name, ref=ref: self._vector(state, name, ref))
        keys = [*(file.name for file in state.all_files), *(ref.puffin for ref in state.vectors.values())]
        sound = not any(map(self.findings.get, keys))
        if latest and sound and schema.key and options.layout.deletion_vectors:
            yield from self._guard(where, lambda: self._keys_live_once(schema, state, where))

    def _once(self, key: str, check: Callable[[], Iterator[Finding]]) -> Iterator[Finding]:
        if key not in self.findings:
            self.findings[key] = tuple(self._guard(key, check))
        yield from self.findings[key]

    def _guard(self, where: str, check: Callable[[], Iterator[Finding]]) -> Iterator[Finding]:
        self.progress(where)
        try:
            yield from check()
        except LakeError as broken:
            yield finding(where, broken)

    def _damage(self, file: DataFile) -> str | None:
        """A description of the damage to the bytes of a data file."""
        path = self.meta.paths.data(file)
        size = self.meta.env.storage.size(path)
        if size != file.bytes:
            return "data file is missing" if size is None else f"data file has {size} bytes, {file.bytes} were written"
        if file.checksum is not None and (checksum := self._checksum(path)) != file.checksum:
            return f"data file has checksum {checksum:#010x}, {file.checksum:#010x} was written"
        return None

    def _retained(self, schema: Schema, state: BucketState, file: DataFile) -> Iterator[Finding]:
        path = self.meta.paths.data(file)
        if (what := self._damage(file)) is not None:
            yield Finding(path, what)
            return
        keys = Retained.of(BucketFiles(self.meta, schema, state.bucket), (file,), rule_of(schema)).keys(file)
        yield from self._keys(schema, state, file, keys, None, path, False)

    def _file(self, schema: Schema, state: BucketState, file: DataFile, *, repeats: bool) -> Iterator[Finding]:
        path = self.meta.paths.data(file)
        if (what := self._damage(file)) is not None:
            yield Finding(path, what)
            return
        indexed = IndexCheck(NOTHING, schema)
        try:
            indexed = IndexCheck(index_of_file(self.meta.files, file), schema)
        except LakeError as broken:
            yield finding(self.meta.paths.index(file) if file.index_bytes is not None else path, broken)
        last, ends_of_chunks = None, []
        with BucketFiles(self.meta, schema, state.bucket).open(file) as reader:
            names = [name for name in schema.columns.names if name not in schema.key]
            if (deletes := _not_inserted(reader)) != file.delete_rows:
                yield Finding(path, f"{deletes} rows are no inserts, the manifest says {file.delete_rows}")
            if file.number is not None and not all(_is_addressed(chunk, file.number) for chunk in reader.chunks([ROW_ADDRESS])):
                yield Finding(path, f"row addresses are not those of file number {file.number}")
            for chunk in reader.chunks(schema.key) if schema.key else ():
                yield from self._keys(schema, state, file, chunk.table, last, path, repeats)
                ends_of_chunks += ends(chunk.table)
                yield from _differing(indexed, chunk, path)
                yield from _misplaced(schema, state.bucket, chunk.table, path)
                last = chunk.table.slice(chunk.table.num_rows - 1)
            for chunk in reader.chunks(names) if names else ():  # decoding checks every page
                yield from _differing(indexed, chunk, path)
                yield from _misplaced(schema, state.bucket, chunk.table, path)
        if ends_of_chunks and min(ends_of_chunks) != file.min_key:
            yield Finding(path, f"the first key differs from the manifest's {file.min_key}")
        if ends_of_chunks and max(ends_of_chunks) != file.max_key:
            yield Finding(path, f"the last key differs from the manifest's {file.max_key}")

    def _checksum(self, path: str) -> int:
        with reading(path), self.meta.env.storage.read(path) as source:
            return checksum_of(source)

    def _keys(
        self, schema: Schema, state: BucketState, file: DataFile, keys: pa.Table, last: pa.Table | None, path: str, repeats: bool
    ) -> Iterator[Finding]:
        joined = comparable([keys if last is None else pa.concat_tables([last, keys])])[0]
        if file.sorted and not (joined[1:] >= joined[:-1] if repeats else joined[1:] > joined[:-1]).all():
            yield Finding(path, f"I1: the keys are not ascending{'' if repeats else ' and unique'}")
        if (bucket_of([keys[name] for name in schema.bucket_key], state.total_buckets) != state.bucket.number).any():
            yield Finding(path, "data file holds keys of another bucket")

    def _vector(self, state: BucketState, name: str, ref: VectorRef) -> Iterator[Finding]:
        placed = self.placed.get(ref.puffin, {}).get(name)
        if ref.puffin in self.placed and placed != ref[1:]:
            yield Finding(
                self.meta.paths.puffin(ref.puffin), f"the footer places the vector of {name} at {placed}, not at {ref[1:]}"
            )
        self.meta.vectors.read(
            state.vectors, [file for file in state.files if file.name == name]
        )  # I3, checked where vectors are read

    def _puffin(self, name: str) -> Iterator[Finding]:
        path = self.meta.paths.puffin(name)
        try:
            data = read_bytes(self.meta.env.storage, path)
            puffin.decode(data, path)
            self.placed[name] = puffin.decode_footer(data, path)
        except FileNotFoundError:
            yield Finding(path, "deletion vector file is missing")
        except LakeError as broken:  # which names the vector, too
            yield Finding(path, str(broken))

    def _keys_in_one_partition(self, version: Version) -> Iterator[Finding]:
        """If keys can move between partitions, whether each is live in one of them (I2)."""
        schema, reads = version.schema, plan(version, None, version.schema.key)
        homes: dict[tuple, list[Split]] = {}
        for split in reads.splits:
            homes.setdefault(schema.home(split.bucket.spec, split.bucket.partition), []).append(split)
        buffer, window, twice = schema.parsed_options.write.buffer_bytes, self.meta.env.limits.window_bytes, 0
        for splits in homes.values():
            last = schema.row_columns.empty_table().select(schema.key)
            for keys in in_key_order(read_plan(replace(reads, splits=tuple(splits))), schema.key, buffer, window):
                if not keys.num_rows:
                    continue
                ordered = comparable([pa.concat_tables([last, keys.cast(last.schema)])])[0]
                twice += int((ordered[1:] == ordered[:-1]).sum())
                last = keys.slice(keys.num_rows - 1).cast(last.schema)
        if twice:
            yield Finding(self.meta.paths.root, f"I2: {twice} keys are live in more than one partition")

    def _keys_live_once(self, schema: Schema, state: BucketState, where: str) -> Iterator[Finding]:
        keys = []
        for file in state.files:
            if file.level == 0:
                continue
            vector = self.meta.vectors.read(state.vectors, [file]).get(file.name)
            with BucketFiles(self.meta, schema, state.bucket).open(file) as reader:
                table = reader.read(range(reader.groups), schema.key)
            keys.append(table if vector is None else live_rows(Chunk(0, table), vector))
        if not keys:
            return
        joined = np.sort(np.concatenate(comparable(keys)))
        if twice := int((joined[1:] == joined[:-1]).sum()):
            yield Finding(where, f"I2: {twice} keys are live in more than one file at deeper levels")


def _not_inserted(reader: DataReader) -> int:
    """The number of rows of other kinds than +I."""
    if not reader.has_row_kind:
        return 0
    return sum(pc.sum(pc.not_equal(chunk.table[ROW_KIND], INSERT)).as_py() or 0 for chunk in reader.chunks([ROW_KIND]))


def _is_addressed(chunk: Chunk, number: int) -> bool:
    first = (number << POSITION_BITS) + chunk.start
    return bool((chunk.table[ROW_ADDRESS].to_numpy() == np.arange(first, first + chunk.table.num_rows)).all())


def _differing(indexed: IndexCheck, chunk: Chunk, path: str) -> Iterator[Finding]:
    for name in indexed.differing(chunk):
        yield Finding(path, f"the index of the file has not the values of {name!r}")


def _misplaced(schema: Schema, bucket: Bucket, rows: pa.Table, path: str) -> Iterator[Finding]:
    """Checks that rows belong to the partition of their bucket. `rows`: some of the columns."""
    for field, value in zip(schema.partition_columns_of(bucket.spec), bucket.partition, strict=True):
        if field.column not in rows.column_names:
            continue
        values = field.values(rows)
        same = values.is_null() if value is None else pc.equal(values, pa.scalar(value, field.type)).fill_null(False)
        if not pc.all(same).as_py():
            yield Finding(path, f"data file holds rows of another partition by {field.term}")
