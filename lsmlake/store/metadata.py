"""Metadata in and out: schemas, snapshots, manifests, vectors. Loads, stores, caches what never changes; decides nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import count
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
from lsmlake.store.cache import Cache, Live, Stored
from lsmlake.store.env import Env
from lsmlake.store.storage import delete_quietly, read_bytes, storage_errors

_EXPIRED = b"expired\n"  # in the place of a snapshot: its number stays taken, or a slow commit could take it again
_LOOKS = 10
_STEPS = 20  # snapshots that are read one after the other before the hint is asked
_HINT_BYTES_MAX = 19  # digits of the highest number
_RESTORE = "restore it from a copy, or roll back to a snapshot that does not use it"
LIST_SNAPSHOTS = Wording("snapshots() lists those that are kept", command="`lsmlake snapshots TABLE` lists those that are kept")

_Decoded = TypeVar("_Decoded", Schema, Snapshot)


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
    cache: Cache = field(default=None, compare=False)

    def __post_init__(self) -> None:
        if self.cache is None:
            object.__setattr__(self, "cache", Cache(self.env.limits.cache_bytes))

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
        stored = self._stored(number)
        if stored is None:
            self.first_schema()
            raise SnapshotNotFound(f"there is no snapshot {number}", where=self.paths.root, cure=LIST_SNAPSHOTS)
        if stored.data == _EXPIRED:
            raise SnapshotNotFound(f"snapshot {number} has expired", where=self.paths.root, cure=LIST_SNAPSHOTS)
        return self._decoded(stored)

    def kept_snapshot(self, number: int) -> Snapshot:
        """`snapshot(number)`. Raises SnapshotNotFound, too, for the snapshot of a slow commit that took a number after it had
        been
        freed. One read if the snapshot was asked for before."""
        snapshot = self.snapshot(number)

        def follows() -> bool:
            numbered = self.is_numbered(number + 1) or self.latest_id() == number
            return numbered or self.is_numbered(number + 1)  # another commit may have come between the two looks

        if not self.cache.get(f"{self.paths.snapshot(number)}#{snapshot.delta_manifest_list.name}", follows):
            raise SnapshotNotFound(f"snapshot {number} has expired", where=self.paths.root, cure=LIST_SNAPSHOTS)
        return snapshot

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
        stored = self._stored(snapshot.id)
        return stored is not None and (stored.data == _EXPIRED or self._decoded(stored) == snapshot)

    def is_first(self) -> bool:
        """Whether snapshot 1, which was just published, is the first of the table. If not, its number had been freed. One
        listing. Raises TableNotFound."""
        numbers, marks = self.numbers()
        return 1 in (*numbers[:1], *marks[:1])

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
        """The number of the newest snapshot."""
        latest = self.latest()
        return None if latest is None else latest.id

    def latest(self) -> Snapshot | None:
        """The newest snapshot; None if there is none yet. Two reads if it is the newest that this handle has seen, one more for
        each
        snapshot since. Raises TableNotFound if there is none because the table is gone."""
        for _ in range(_LOOKS):
            found = self._forward() or self._listed()
            if found is None:
                return None
            if found.data != _EXPIRED:
                self.cache.latest = found
                return self._decoded(found)
        raise StorageFailed(
            "the latest snapshot expires faster than it can be read",
            where=self.paths.snapshots,
            cure="expire snapshots less often",
        )

    def _forward(self) -> Stored | None:
        """The newest snapshot, by going from one that was read before, or that the hint names, to the next. None if that one is
        not
        there any more, or may not be what it was: then the numbers must be listed."""
        known = self.cache.latest
        here = self._stored(self._hint() if known is None else known.number)
        if here is None or here.data == _EXPIRED or (known is not None and here.data != known.data):
            return None
        if known is None and here.number > 1 and self.env.storage.size(self.paths.snapshot(here.number - 1)) is None:
            return None  # freed numbers: the hint is very old
        for step in count(1):
            following = self._stored(here.number + 1)
            if following is None:
                return here
            here = self._hinted(following) if step == _STEPS else following

    def _hinted(self, here: Stored) -> Stored:
        """The snapshot that the hint names if it is newer than `here`, which is kept, so no number after it has been freed."""
        hinted = self._stored(self._hint())
        return here if hinted is None or hinted.number <= here.number else hinted

    def _listed(self) -> Stored | None:
        """The newest snapshot of a listing."""
        numbers = self.snapshot_ids()
        return self._stored(numbers[-1]) or Stored(numbers[-1], _EXPIRED) if numbers else None

    def _stored(self, number: int | None) -> Stored | None:
        """The file of a snapshot; None if there is none."""
        if number is None:
            return None
        try:
            return Stored(number, read_bytes(self.env.storage, self.paths.snapshot(number)))
        except FileNotFoundError:
            return None

    def _decoded(self, stored: Stored) -> Snapshot:
        path = self.paths.snapshot(stored.number)
        return self.cache.get(f"{path}#{stored.data}", lambda: self._own(Snapshot.decode(stored.data, path), stored.number, path))

    def put_snapshot(self, snapshot: Snapshot) -> bool:
        """Publish. False if that id is taken."""
        return self.env.storage.put_if_absent(self.paths.snapshot(snapshot.id), snapshot.encode())

    def note_latest(self, snapshot: Snapshot) -> None:
        """Remember a snapshot that was just published: the next look for the newest one begins there."""
        self.cache.latest = Stored(snapshot.id, snapshot.encode())

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
            return table

        return manifest.inherit(self.cache.get(f"{path}#{schema.id}", read), meta.sequence)

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
        """The live set of the snapshot: entries as `lsmlake.format.manifest` describes them. That of the newest snapshot is kept,
        and continued by the manifests that later snapshots add; those of older ones are cached."""
        metas, newest = self.manifest_metas(snapshot), self.cache.newest
        if newest is not None and snapshot.id < newest.number:
            key = f"{self.paths.manifest(snapshot.delta_manifest_list.name)}#live under schema {schema.id}"
            return self.cache.get(key, lambda: manifest.fold(self._all_entries(metas, schema), schema))
        if newest is not None and newest.schema_id == schema.id and newest.metas == metas[: len(newest.metas)]:
            entries = newest.entries
            if added := metas[len(newest.metas) :]:
                entries = manifest.fold([entries, *self._all_entries(added, schema)], schema)
        else:
            entries = manifest.fold(self._all_entries(metas, schema), schema)
        self.cache.newest = Live(snapshot.id, schema.id, metas, entries)
        return entries

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
        path = self.paths.manifest(name)
        self._write(path, data)
        self.cache.put(f"{path}#{schema_id}", table)
        return manifest.describe(name, data, table, schema_id, sequence)

    def put_manifest_list(self, metas: Sequence[ManifestMeta]) -> Named:
        named = self._put_named("manifest-list", manifest.encode_list(metas))
        self.cache.put(self.paths.manifest(named.name), tuple(metas))
        return named

    # -- vectors ------------------------------------------------------------------------------------------------------

    def vector_refs(self, snapshot: Snapshot) -> Mapping[str, VectorRef]:
        """Data file name -> where its vector lies, for all live files that have one."""
        named = snapshot.index_manifest
        if named is None:
            return {}
        path = self.paths.manifest(named.name)
        return self.cache.get(path, lambda: manifest.decode_index(self._read(path, named.bytes), path))

    def put_index(self, vectors: Mapping[str, VectorRef]) -> Named:
        named = self._put_named("index-manifest", manifest.encode_index(vectors))
        self.cache.put(self.paths.manifest(named.name), vectors)
        return named

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
