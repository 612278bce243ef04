"""Metadata in and out: schemas, snapshots, manifests, vectors. Loads, stores, caches what never changes; decides nothing."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from threading import Lock
from typing import TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from lsmlake.errors import Corrupt, SnapshotNotFound, StorageFailed, TableNotFound, Wording
from lsmlake.format import manifest, puffin
from lsmlake.format.deletion_vector import DeletionVector
from lsmlake.format.files import Bucket, BucketState, CommitMessage, DataFile, VectorRef
from lsmlake.format.manifest import ManifestMeta
from lsmlake.format.paths import TablePaths, first_schema, numbered
from lsmlake.format.snapshot import Named, Snapshot
from lsmlake.schema.schema import Schema
from lsmlake.store.env import Env
from lsmlake.store.storage import delete_quietly, read_bytes, storage_errors

_CACHED = 256
_EXPIRED = b"expired\n"  # in the place of a snapshot: its number stays taken, or a slow commit could take it again
_LOOKS = 10
_HINT_BYTES_MAX = 19  # digits of the highest number
_RESTORE = "restore it from a copy, or roll back to a snapshot that does not use it"
LIST_SNAPSHOTS = Wording("snapshots() lists those that are kept", command="`lsmlake snapshots TABLE` lists those that are kept")

_Decoded = TypeVar("_Decoded", Schema, Snapshot)


class Cache:
    """The newest `_CACHED` decoded files that can never change, by path: every path that is cached holds a uuid, its own or the
    table's. Threads share it, processes do not; pickles empty."""

    def __init__(self) -> None:
        self._values: OrderedDict[str, object] = OrderedDict()
        self._lock = Lock()

    def get(self, key: Hashable, make: Callable[[], object]) -> object:
        with self._lock:
            if key in self._values:
                self._values.move_to_end(key)
                return self._values[key]
        value = make()
        with self._lock:
            self._values[key] = value
            while len(self._values) > _CACHED:
                self._values.popitem(last=False)
        return value

    def __reduce__(self):
        return Cache, ()


def read_first_schema(env: Env, root: str) -> Schema | None:
    """Schema 0 of the table in folder `root`, None if there is no table. Raises Corrupt, UnsupportedFormat."""
    path = first_schema(root)
    try:
        return Schema.decode(read_bytes(env.storage, path), path)
    except FileNotFoundError:
        return None


@dataclass(frozen=True)
class Metadata:
    """The metadata of one table: of the table with uuid `paths.table_uuid`, not of another one that has got its name."""

    env: Env
    paths: TablePaths
    cache: Cache = field(default_factory=Cache, compare=False)

    # -- schemas ------------------------------------------------------------------------------------------------------

    def schema(self, number: int) -> Schema:
        path = self.paths.schema(number)
        if number == 0:
            return self.cache.get(f"{path}#{self.paths.table_uuid}", self.first_schema)
        return self.cache.get(path, lambda: self._own(Schema.decode(self._read(path, None), path), number, path))

    def first_schema(self) -> Schema:
        """Schema 0, read again, which proves that the table still exists under its name. Raises TableNotFound with the reason if
        the table was dropped or renamed, or if another table has its name."""
        path = self.paths.schema(0)
        try:
            data = read_bytes(self.env.storage, path)
        except FileNotFoundError:
            raise TableNotFound(
                "the table was dropped or renamed",
                where=self.paths.root,
                expected=f"schema file {path}",
                cure=Wording(
                    "open it by the name it has now; tables() lists the tables there are",
                    command="use the name it has now; `lsmlake ls` lists the tables there are",
                ),
            ) from None
        schema = self.cache.get(data, lambda: Schema.decode(data, path))
        if schema.table_uuid != self.paths.table_uuid:
            raise TableNotFound(
                "the table was dropped and another one was created under its name",
                where=self.paths.root,
                expected=f"table_uuid {self.paths.table_uuid}",
                found=schema.table_uuid,
                cure=Wording("open the new table with lake.table(...)", command="run the command again"),
            )
        return schema

    def schema_of(self, snapshot: Snapshot | None) -> Schema:
        """The schema in effect at a snapshot; that of `None`, before the first, is schema 0. Raises TableNotFound."""
        return self.first_schema() if snapshot is None else self.schema(snapshot.schema_id)

    def latest_schema(self) -> Schema:
        """The schema in effect. Raises TableNotFound if there is no table."""
        return self.schema_of(self.latest())

    def schema_ids(self) -> list[int]:
        """All schemas, ascending; those after the one in effect were never published."""
        entries = self.env.storage.list(self.paths.schemas)
        return sorted({0, *numbered((entry.path for entry in entries), self.paths.schemas, "schema")})

    def put_schema(self, schema: Schema) -> bool:
        """False if that version exists."""
        return self.env.storage.put_if_absent(self.paths.schema(schema.id), schema.encode())

    # -- snapshots ----------------------------------------------------------------------------------------------------

    def snapshot(self, number: int) -> Snapshot:
        """Raises SnapshotNotFound; TableNotFound if the table is not there any more."""
        path = self.paths.snapshot(number)
        try:
            data = read_bytes(self.env.storage, path)
        except FileNotFoundError:
            self.first_schema()
            raise SnapshotNotFound(f"there is no snapshot {number}", where=self.paths.root, cure=LIST_SNAPSHOTS) from None
        if data == _EXPIRED:
            raise SnapshotNotFound(f"snapshot {number} has expired", where=self.paths.root, cure=LIST_SNAPSHOTS)
        return self._own(Snapshot.decode(data, path), number, path)

    @contextmanager
    def unless_expired(self, *snapshots: Snapshot | int | None) -> Iterator[None]:
        """What cannot be read of `snapshots` because one has expired meanwhile is not damaged: Corrupt becomes SnapshotNotFound,
        or TableNotFound if the table is gone. Snapshots or their numbers; None is none."""
        try:
            yield
        except Corrupt as broken:
            self.first_schema()
            numbers = [one.id if isinstance(one, Snapshot) else one for one in snapshots if one is not None]
            expired = [number for number in numbers if not self.is_kept(number)]
            if not expired:
                raise
            raise SnapshotNotFound(
                f"snapshot {expired[0]} has expired while it was read",
                where=self.paths.root,
                cure="read the latest snapshot; option snapshot.time-retained keeps replaced snapshots longer",
            ) from broken

    def is_kept(self, number: int) -> bool:
        """Whether a snapshot has not expired."""
        try:
            return self.snapshot(number).id == number
        except SnapshotNotFound:
            return False

    def is_numbered(self, number: int) -> bool:
        """Whether a snapshot has that number, or had it and its mark keeps it taken."""
        return self.env.storage.size(self.paths.snapshot(number)) is not None

    def is_in_place(self, snapshot: Snapshot) -> bool:
        """Whether a snapshot that was read before, or the mark of its expiry, is still there. If not, its number and the next one
        have been freed."""
        path = self.paths.snapshot(snapshot.id)
        try:
            data = read_bytes(self.env.storage, path)
        except FileNotFoundError:
            return False
        return data == _EXPIRED or Snapshot.decode(data, path) == snapshot

    def stored_ms(self, number: int) -> int | None:
        """When a snapshot was stored, by the storage's clock; None if it is gone."""
        path = self.paths.snapshot(number)
        return next((entry.modified_ms for entry in self.env.storage.list(self.paths.snapshots) if entry.path == path), None)

    def retire(self, numbers: Sequence[int], mark: int | None) -> None:
        """Put marks in the places of snapshots, the last one last; then all are durable. `mark`: the number of one."""
        for number in numbers:
            path = self.paths.snapshot(number)
            if mark is not None and number != numbers[-1]:
                with suppress(FileNotFoundError):  # another process has freed the number of `mark`, so also of older snapshots
                    self.env.storage.copy(self.paths.snapshot(mark), path)
                    continue
            with self.env.storage.write(path) as sink:  # after an error the snapshot must stay there
                sink.write(_EXPIRED)
            mark = number

    def recorded(self, number: int) -> Snapshot:
        """A snapshot that is kept, or of which the changelog still is. Raises SnapshotNotFound."""
        try:
            return self.snapshot(number)
        except SnapshotNotFound:
            path = self.paths.changelog(number)
            if self.env.storage.size(path) is None:
                raise
            return self._own(Snapshot.decode(self._read(path, None), path), number, path)

    def record(self, snapshots: Sequence[Snapshot]) -> None:
        """Keep what the changelogs of snapshots need when the snapshots go; the last one last, then all are durable."""
        for snapshot in snapshots:
            path = self.paths.changelog(snapshot.id)
            if snapshot is snapshots[-1]:
                self._write(path, snapshot.encode())
            else:
                with suppress(FileNotFoundError):  # expired by another process, which has recorded it
                    self.env.storage.copy(self.paths.snapshot(snapshot.id), path)

    def recorded_ids(self) -> list[int]:
        """Expired snapshots whose changelog is kept, ascending."""
        entries = self.env.storage.list(self.paths.changelogs)
        return numbered((entry.path for entry in entries), self.paths.changelogs, "changelog")

    def snapshot_ids(self) -> list[int]:
        """The snapshots there are, ascending. One listing. Raises TableNotFound if there are none because the table is gone."""
        return self.numbers()[0]

    def numbers(self) -> tuple[list[int], list[int]]:
        """(snapshots, marks of expired ones), ascending. One listing. A file older than a mark is no snapshot: a commit that was
        asleep for long took a number that had been freed (`commit.publish`, step 6). Raises TableNotFound."""
        entries = list(self.env.storage.list(self.paths.snapshots))
        folder = self.paths.snapshots
        marks = numbered([entry.path for entry in entries if entry.size == len(_EXPIRED)], folder, "snapshot")
        found = numbered([entry.path for entry in entries if entry.size != len(_EXPIRED)], folder, "snapshot")
        if not found:
            self.first_schema()
        return [number for number in found if not marks or number > marks[-1]], marks

    def latest_id(self) -> int | None:
        """The newest snapshot. The LATEST hint is where the search begins, never the answer."""
        storage, number = self.env.storage, self._hint()
        if number is None or storage.size(self.paths.snapshot(number)) is None:
            return (self.snapshot_ids() or [None])[-1]
        while storage.size(self.paths.snapshot(number + 1)) is not None:
            number += 1
        if number > 1 and storage.size(self.paths.snapshot(number - 1)) is None:  # freed numbers: the hint is very old
            return (self.snapshot_ids() or [None])[-1]
        return number

    def latest(self) -> Snapshot | None:
        for _ in range(_LOOKS):
            number = self.latest_id()
            try:
                return None if number is None else self.snapshot(number)
            except SnapshotNotFound:  # overtaken, and expired at once
                continue
        raise StorageFailed(
            "the latest snapshot expires faster than it can be read",
            where=self.paths.snapshots,
            cure="expire snapshots less often",
        )

    def put_snapshot(self, snapshot: Snapshot) -> bool:
        """Publish. False if that id is taken."""
        return self.env.storage.put_if_absent(self.paths.snapshot(snapshot.id), snapshot.encode())

    def hint_latest(self, number: int) -> None:
        with self.env.storage.write(self.paths.latest) as sink:
            sink.write(str(number).encode())

    def _hint(self) -> int | None:
        """The number in the hint file; None if there is none. Reads a few bytes, however long the file is."""
        path = self.paths.latest
        try:
            with self.env.storage.read(path) as file, storage_errors("read", path):
                text = file.read(_HINT_BYTES_MAX + 1)
        except FileNotFoundError:
            return None
        return int(text) if text.isdigit() and len(text) <= _HINT_BYTES_MAX else None

    # -- manifests ----------------------------------------------------------------------------------------------------

    def manifest_metas(self, snapshot: Snapshot) -> tuple[ManifestMeta, ...]:
        """Every manifest of the snapshot in commit order."""
        return (*self.manifest_list(snapshot.base_manifest_list), *self.manifest_list(snapshot.delta_manifest_list))

    def manifest_list(self, named: Named) -> tuple[ManifestMeta, ...]:
        path = self.paths.manifest(named.name)
        return self.cache.get(path, lambda: manifest.decode_list(self._read(path, named.bytes), path))

    def entries(self, meta: ManifestMeta, schema: Schema) -> pa.Table:
        """The entries of a manifest, sequences inherited. Checked against the schema once, then cached with it."""
        path = self.paths.manifest(meta.name)

        def read() -> pa.Table:
            table = manifest.decode(self._read(path, meta.bytes), path)
            manifest.check_columns(table, schema, path)
            return manifest.inherit(table, meta.sequence)

        return self.cache.get(f"{path}#{schema.id}#{meta.sequence}", read)

    def _all_entries(self, metas: Iterable[ManifestMeta], schema: Schema) -> Iterator[pa.Table]:
        return (self.entries(meta, schema) for meta in metas)

    def delta(self, snapshot: Snapshot, schema: Schema) -> pa.Table:
        """The entries the snapshot itself brought, in their order."""
        return manifest.concat(self._all_entries(self.manifest_list(snapshot.delta_manifest_list), schema), schema)

    def changelog(self, snapshot: Snapshot, schema: Schema) -> pa.Table:
        """The entries of the changelog files of this snapshot alone."""
        named = snapshot.changelog_manifest_list
        return manifest.concat(self._all_entries(self.manifest_list(named) if named else (), schema), schema)

    def live(self, snapshot: Snapshot, schema: Schema) -> pa.Table:
        """The live set of the snapshot: entries as `lsmlake.format.manifest` describes them."""
        path = self.paths.snapshot(snapshot.id)
        return self.cache.get(
            f"{path}#live", lambda: manifest.fold(self._all_entries(self.manifest_metas(snapshot), schema), schema)
        )

    def states(
        self, snapshot: Snapshot, schema: Schema, buckets: Iterable[Bucket] | None = None, *, statistics: bool = True
    ) -> dict[Bucket, BucketState]:
        """The buckets named (default: all) that the snapshot has."""
        table, wanted = self.live(snapshot, schema), None if buckets is None else set(buckets)
        if wanted is not None:
            numbers = pa.array(sorted({bucket.number for bucket in wanted}), pa.int32())
            table = table.filter(pc.is_in(table["bucket"], value_set=numbers))
        found = manifest.states(table, self.vector_refs(snapshot), schema, statistics=statistics)
        return found if wanted is None else {bucket: state for bucket, state in found.items() if bucket in wanted}

    def put_manifest(self, table: pa.Table, schema_id: int, sequence: int) -> ManifestMeta:
        name = f"manifest-{self.env.ids()}"
        data = manifest.encode(table)
        self._write(self.paths.manifest(name), data)
        return manifest.describe(name, data, table, schema_id, sequence)

    def put_manifest_list(self, metas: Sequence[ManifestMeta]) -> Named:
        return self._put_named("manifest-list", manifest.encode_list(metas))

    # -- vectors ------------------------------------------------------------------------------------------------------

    def vector_refs(self, snapshot: Snapshot) -> Mapping[str, VectorRef]:
        """Data file name -> where its vector lies, for all live files that have one."""
        named = snapshot.index_manifest
        if named is None:
            return {}
        path = self.paths.manifest(named.name)
        return self.cache.get(path, lambda: manifest.decode_index(self._read(path, named.bytes), path))

    def put_index(self, vectors: Mapping[str, VectorRef]) -> Named:
        return self._put_named("index-manifest", manifest.encode_index(vectors))

    def vector(self, ref: VectorRef, file: DataFile) -> DeletionVector:
        """The vector of `file`, by one ranged read. Raises Corrupt if it is damaged or marks a row past the end of the file."""
        path = self.paths.puffin(ref.puffin)
        try:
            with self.env.storage.read(path) as source, storage_errors("read", path):
                size = source.size()
                source.seek(min(ref.offset, size))
                data = source.read(max(0, min(ref.length, size - ref.offset)))  # which sets memory aside for all it is asked for
        except FileNotFoundError as gone:
            self.first_schema()
            raise Corrupt("deletion vector file is missing", where=path, cure=_RESTORE) from gone
        vector = DeletionVector.decode(data, f"{path}, vector of {file.name}", file.rows)
        if len(vector) != ref.cardinality:
            raise Corrupt(
                "deletion vector marks another number of rows",
                where=path,
                expected=ref.cardinality,
                found=len(vector),
                cure=_RESTORE,
            )
        return vector

    def vectors(self, refs: Mapping[str, VectorRef], files: Iterable[DataFile]) -> dict[str, DeletionVector]:
        """By name, the vectors of those of `files` that have one."""
        return {file.name: self.vector(refs[file.name], file) for file in files if file.name in refs}

    def put_vectors(self, vectors: Mapping[str, DeletionVector]) -> dict[str, VectorRef]:
        """One new Puffin file that holds `vectors`; empty -> nothing written."""
        if not vectors:
            return {}
        name = f"dv-{self.env.ids()}.puffin"
        data, places = puffin.encode(vectors)
        self._write(self.paths.puffin(name), data)
        return {file: VectorRef(name, *place) for file, place in places.items()}

    def _own(self, found: _Decoded, number: int, path: str) -> _Decoded:
        """`found` itself. Raises Corrupt if it is another one than the file's name says, or of another table: somebody has copied
        the file."""
        if found.id != number:
            raise Corrupt("file holds another number than its name", where=path, expected=number, found=found.id, cure=_RESTORE)
        if found.table_uuid != self.paths.table_uuid:
            expected = f"table_uuid {self.paths.table_uuid}"
            raise Corrupt("file of another table", where=path, expected=expected, found=found.table_uuid, cure=_RESTORE)
        return found

    # -- bytes --------------------------------------------------------------------------------------------------------

    def delete_quietly(self, paths: Iterable[str]) -> None:
        """Remove files that nothing names, as far as the store lets us: what stays does no harm and is an orphan."""
        delete_quietly(self.env.storage, paths)

    def discard(self, messages: Iterable[CommitMessage]) -> None:
        """Remove, quietly, what was written for messages that will not be committed."""
        self.delete_quietly(path for message in messages for path in message.written)

    def _put_named(self, prefix: str, data: bytes) -> Named:
        named = Named(f"{prefix}-{self.env.ids()}", len(data))
        self._write(self.paths.manifest(named.name), data)
        return named

    def _write(self, path: str, data: bytes) -> None:
        try:
            with self.env.storage.write(path) as sink:
                sink.write(data)
        except BaseException:  # which does not tell whether the file is there
            self.delete_quietly([path])
            raise

    def _read(self, path: str, length: int | None) -> bytes:
        try:
            with self.env.storage.read(path) as source, storage_errors("read", path):
                size = source.size()
                if length is None or size == length:
                    return source.read()
        except FileNotFoundError as gone:
            self.first_schema()
            raise Corrupt("metadata file is missing", where=path, cure=_RESTORE) from gone
        raise Corrupt("metadata file has another length", where=path, expected=f"{length} bytes", found=size, cure=_RESTORE)
