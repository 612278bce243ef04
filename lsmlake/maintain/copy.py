"""Copy: one snapshot of a table, as an independent table in another warehouse or under another name.

The copy has the rows, columns, options, vectors, file indexes and statistics of the snapshot, and the schemas up to its own. It
has no older snapshots, and no changelogs, tags, branches and consumers. All other files are copied byte for byte, because no file
of a table names a place outside its folder.

1. Pin the snapshot, so that its files stay while they are copied (`refs.pinned`).
2. Examine the target. Without schema 0 there is no table, and the copy gets a new uuid. With schema 0 it must be a copy of the
   same snapshot, which is then checked and repaired.
3. Copy each file that the target lacks (`copy_files`).
4. Store the later schemas, the snapshot and, last, schema 0: its creation makes the table.

A copy that is killed before the end of step 4 is not a table. The next copy uses its files, because their names are unique. The
schemas and the snapshot of a killed copy stay in folders of a uuid that no table has.

Files are copied whole, checked against their recorded checksums, and only if the target lacks them.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import pyarrow as pa

from lsmlake.errors import Corrupt, LakeError, SnapshotNotFound, StorageFailed, TableExists, Wording
from lsmlake.files.checksum import RESTORE
from lsmlake.files.data_reader import reading
from lsmlake.format import file_index, puffin
from lsmlake.format.paths import TablePaths, split_branch, split_name, table_dir
from lsmlake.format.snapshot import Snapshot
from lsmlake.maintain.analyze import statistics_of
from lsmlake.read.travel import Moment, resolve
from lsmlake.refs.file_references import data_of, indexes_of, manifests_of
from lsmlake.refs.pinned import pinned
from lsmlake.schema.envelope import unwrap
from lsmlake.schema.schema import Schema
from lsmlake.storage.concurrency import together
from lsmlake.storage.storage import Storage, read_bytes
from lsmlake.tables.databases import Databases
from lsmlake.tables.version import Metadata

_WORKERS_MAX = 8  # each has 40 MB of a large file on its way to an object store
_OTHER = Wording(
    "pass another name, or drop that table first", command="add --name DATABASE.TABLE, or drop that table there first"
)


@dataclass(frozen=True)
class CopyReport:
    """The result of a copy.

    Attributes:
        table: the name of the copy.
        snapshot: the number of the snapshot, which it has in the copy, too; None: the table has no snapshot.
        files: how many data files, index files, vector files and manifests the copy has.
        bytes: the size of these files.
        reused: how many of these files the target already had, complete.
    """

    table: str
    snapshot: int | None
    files: int
    bytes: int
    reused: int


def copy(
    meta: Metadata,
    name: str,
    moment: Moment,
    zone: str,
    storage: Storage,
    new_name: str | None = None,
    progress: Callable[[int, str], None] = lambda files, path: None,
) -> CopyReport:
    """Copies a table at one snapshot into the warehouse in `storage`; see `Table.copy`.

    Args:
        meta: the table, or a branch of it.
        name: its name.
        moment: which snapshot; by default the latest.
        zone: the time zone of a time without a zone.
        storage: the warehouse of the copy.
        new_name: the name of the copy; None: as the table.
        progress: called with the number of all files and the path of one that was copied, in any order.
    """
    new_name = new_name or split_branch(name)[0]
    database, _ = split_name(new_name)
    meta = meta.with_empty_cache()  # so that all metadata is read and checked
    snapshot = resolve(meta, moment, zone)
    with ExitStack() as held:
        if snapshot is not None:
            with suppress(StorageFailed):  # of a source that cannot be written to, the snapshot may expire meanwhile
                held.enter_context(pinned(meta, snapshot))
            held.enter_context(meta.snapshots.unless_expired(snapshot))
        target = _target(meta, snapshot, storage, table_dir(new_name), new_name)
        copied = _copy_files(meta, target, snapshot, progress)
        Databases(storage).create(database)
        _publish(meta, target, snapshot, new_name)
    number = None if snapshot is None else snapshot.id
    return CopyReport(new_name, number, len(copied), sum(one.bytes for one in copied), sum(one.reused for one in copied))


def _target(meta: Metadata, snapshot: Snapshot | None, storage: Storage, root: str, name: str) -> Metadata:
    """The metadata of the copy. Raises TableExists if the target holds something else."""
    env, _ = replace(meta.env, storage=storage), meta.schemas.get(0)
    try:
        existing = Metadata.opened(env, root)
        if existing is None:
            return Metadata.of(env, TablePaths(root, meta.env.ids()))
        if existing.paths.table_uuid != meta.paths.table_uuid and _is_copy(meta, snapshot, existing):
            return existing
    except StorageFailed:
        raise
    except LakeError as damaged:
        raise TableExists(f"the target holds a table {name} that cannot be read: {damaged}", cure=_OTHER) from damaged
    number = "without rows" if snapshot is None else f"at snapshot {snapshot.id}"
    raise TableExists(f"the target holds a table {name} that is no copy of this one {number}", where=root, cure=_OTHER)


def _is_copy(meta: Metadata, snapshot: Snapshot | None, target: Metadata) -> bool:
    if target.schemas.get(0) != _schema(meta, target, 0):
        return False
    if snapshot is None:
        return target.snapshots.latest_id() is None
    try:
        return target.snapshots.get(snapshot.id) == _alone(snapshot, target)
    except SnapshotNotFound:
        return False


def _schema(meta: Metadata, target: Metadata, number: int) -> Schema:
    return replace(meta.schemas.get(number), table_uuid=target.paths.table_uuid)


def _alone(snapshot: Snapshot, target: Metadata) -> Snapshot:
    """The snapshot of the copy: `snapshot` without a changelog and without references to rollbacks."""
    return replace(
        snapshot,
        table_uuid=target.paths.table_uuid,
        changelog_manifest_list=None,
        changelog_rows=0,
        restores=None,
        last_rollback=None,
    )


def _copy_files(
    meta: Metadata, target: Metadata, snapshot: Snapshot | None, progress: Callable[[int, str], None]
) -> list[Outcome]:
    if snapshot is None:
        return []
    source, storage = meta.env.storage, target.env.storage
    files = list(_files(meta, target, snapshot))
    sizes = {entry.path: entry.size for entry in storage.list(target.paths.root)}

    def one(file: CopiedFile) -> Outcome:
        outcome = copy_file(source, storage, file, sizes.get(file.target))
        progress(len(files), file.source)
        return outcome

    workers = min(_WORKERS_MAX, max(meta.env.workers, source.at_once, storage.at_once))
    return together(one, files, workers, lambda done: None)


def _files(meta: Metadata, target: Metadata, snapshot: Snapshot) -> Iterator[CopiedFile]:
    """All files that the snapshot names; the largest kind first. Raises Corrupt."""

    def copied(path: str, *known: object) -> CopiedFile:
        return CopiedFile(path, target.paths.root + path.removeprefix(meta.paths.root), *known)

    live = meta.manifests.live(snapshot, meta.schemas.of(snapshot))
    sums = zip(live["bytes"].to_pylist(), live["checksum"].to_pylist(), strict=True)
    for path, (size, checksum) in zip(data_of(meta, live).values(), sums, strict=True):
        yield copied(path, None if checksum is None else FileSum(size, checksum))
    for path in indexes_of(meta, live).values():
        yield copied(path, None, partial(unwrap, file_index.KIND))
    for name in {ref.puffin for ref in meta.manifests.vector_refs(snapshot).values()}:
        yield copied(meta.paths.puffin(name), None, puffin.decode)
    statistics_of(meta, snapshot)  # the only other metadata that has not been read yet
    for path in manifests_of(meta, snapshot):
        yield copied(path)


def _publish(meta: Metadata, target: Metadata, snapshot: Snapshot | None, name: str) -> None:
    last = 0 if snapshot is None else snapshot.schema_id
    for number in [number for number in meta.schemas.ids() if 0 < number <= last]:
        target.schemas.put(_schema(meta, target, number))
    if snapshot is not None and target.snapshots.put(_alone(snapshot, target)):
        if snapshot.id > 1:
            target.snapshots.retire([snapshot.id - 1], None)  # as if the snapshots before had expired
        target.snapshots.hint(snapshot.id)
    if not target.schemas.put(_schema(meta, target, 0)):  # it is there already: the same copy, or that of another process
        _target(meta, snapshot, target.env.storage, target.paths.root, name)


_CHUNK_BYTES = 1 << 23


class FileSum(NamedTuple):
    """The size of a file and the CRC-32 of its content."""

    bytes: int
    checksum: int

    def __str__(self) -> str:
        return f"{self.bytes} bytes with checksum {self.checksum:#010x}"


class CopiedFile(NamedTuple):
    """A file of the source. `source`, `target`: its paths in the two storages. `sum`: the recorded size and checksum; None: not
    known. `check`: raises Corrupt if the content is damaged, for a file without a known sum; it is read as a whole."""

    source: str
    target: str
    sum: FileSum | None = None
    check: Callable[[bytes, str], object] | None = None


class Outcome(NamedTuple):
    """The result for one file. `reused`: the target had the file."""

    bytes: int
    reused: bool


def copy_file(source: Storage, target: Storage, file: CopiedFile, size: int | None) -> Outcome:
    """Copies a file unless the target has it with the same size and checksum, and reads the written file back. `size`: the size
    of the file in the target; None: it has none. Raises Corrupt, which names the file of the source, and StorageFailed."""
    expected = file.sum or _sum_of_source(source, file)
    if size == expected.bytes and _sum_at(target, file.target) == expected:
        return Outcome(expected.bytes, True)
    with reading(file.source), source.read(file.source) as content, target.write(file.target) as sink:
        actual = FileSum(0, 0)
        for chunk in _chunks(content):
            sink.write(chunk)
            actual = _added(actual, chunk)
        if actual != expected:  # leaves nothing in the target
            raise Corrupt("file differs from what was written", where=file.source, expected=expected, found=actual, cure=RESTORE)
    if (actual := _sum_at(target, file.target)) != expected:
        raise StorageFailed(
            "the target does not return what was written",
            where=file.target,
            expected=expected,
            found=actual,
            cure="copy again; if it happens again, the store is not reliable",
        )
    return Outcome(expected.bytes, False)


def _sum_of_source(source: Storage, file: CopiedFile) -> FileSum:
    if file.check is None:
        with reading(file.source):
            return _sum_at(source, file.source)
    with reading(file.source):
        data = read_bytes(source, file.source)
    file.check(data, file.source)
    return _added(FileSum(0, 0), data)


def _sum_at(storage: Storage, path: str) -> FileSum:
    sum_so_far = FileSum(0, 0)
    with storage.read(path) as content:
        for chunk in _chunks(content):
            sum_so_far = _added(sum_so_far, chunk)
    return sum_so_far


def _chunks(content: pa.NativeFile) -> Iterator[bytes]:
    while chunk := content.read(_CHUNK_BYTES):
        yield chunk


def _added(sum_: FileSum, chunk: bytes) -> FileSum:
    return FileSum(sum_.bytes + len(chunk), zlib.crc32(chunk, sum_.checksum))
