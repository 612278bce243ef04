"""Reads, writes and caches table metadata: schemas, snapshots, manifests and vectors. Makes no decisions.

`format` encodes and decodes the files, `store.cache` holds the decoded ones, and `commit` decides what to publish.
"""

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

_EXPIRED = b"expired\n"  # content of a mark: it keeps the snapshot's number taken, so that no slow commit reuses it
_LOOKS = 10
_STEPS = 20  # snapshots probed one by one before the hint is read
_HINT_BYTES_MAX = 19  # digits of the highest number
_RESTORE = "restore it from a copy, or roll back to a snapshot that does not use it"
LIST_SNAPSHOTS = Wording("snapshots() lists those that are kept", command="`lsmlake snapshots TABLE` lists those that are kept")

_Decoded = TypeVar("_Decoded", Schema, Snapshot)


def read_first_schema(env: Env, root: str) -> Schema | None:
    """Schema 0 of the table in folder `root`; None if there is no table. Raises Corrupt, UnsupportedFormat."""
    path = first_schema(root)
    try:
        return Schema.decode(read_bytes(env.storage, path), path)
    except FileNotFoundError:
        return None


@dataclass(frozen=True)
class Metadata:
    """The metadata of the table with uuid `paths.table_uuid`; never of a later table with the same name."""

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
        """Read schema 0 from the storage, which proves that the table still exists under its name. Raises TableNotFound, with
        the reason, if the table was dropped or renamed, or if another table has its name."""
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
        """The schema in effect at a snapshot; schema 0 for None, before the first snapshot. Raises TableNotFound."""
        return self.first_schema() if snapshot is None else self.schema(snapshot.schema_id)

    def latest_schema(self) -> Schema:
        """The schema in effect. Raises TableNotFound if there is no table."""
        return self.schema_of(self.latest())

    def schema_ids(self) -> list[int]:
        """The numbers of all schemas, ascending; those after the one in effect are not published."""
        entries = self.env.storage.list(self.paths.schemas)
        return sorted({0, *numbered((entry.path for entry in entries), self.paths.schemas, "schema")})

    def put_schema(self, schema: Schema) -> bool:
        """Store a schema; returns False if its number is taken."""
        return self.env.storage.put_if_absent(self.paths.schema(schema.id), schema.encode())

    # -- snapshots ----------------------------------------------------------------------------------------------------

    def snapshot(self, number: int) -> Snapshot:
        """Read a snapshot. Raises SnapshotNotFound; TableNotFound if the table no longer exists."""
        stored = self._stored(number)
        if stored is None:
            self.first_schema()
            raise SnapshotNotFound(f"there is no snapshot {number}", where=self.paths.root, cure=LIST_SNAPSHOTS)
        if stored.data == _EXPIRED:
            raise SnapshotNotFound(f"snapshot {number} has expired", where=self.paths.root, cure=LIST_SNAPSHOTS)
        return self._decoded(stored)

    def kept_snapshot(self, number: int) -> Snapshot:
        """As `snapshot(number)`, but also raises SnapshotNotFound for a snapshot that a slow commit stored under a freed number.
        One read if this snapshot was checked before."""
        snapshot = self.snapshot(number)

        def follows() -> bool:
            numbered = self.is_numbered(number + 1) or self.latest_id() == number
            return numbered or self.is_numbered(number + 1)  # another commit may have come between the two looks

        if not self.cache.get(f"{self.paths.snapshot(number)}#{snapshot.delta_manifest_list.name}", follows):
            raise SnapshotNotFound(f"snapshot {number} has expired", where=self.paths.root, cure=LIST_SNAPSHOTS)
        return snapshot

    @contextmanager
    def unless_expired(self, *snapshots: Snapshot | int | None) -> Iterator[None]:
        """Turns Corrupt into SnapshotNotFound if one of `snapshots` (or snapshot numbers; None is ignored) has expired during the
        read, or into TableNotFound if the table no longer exists: missing files are then not damage."""
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
        """Whether a snapshot exists and has not expired."""
        try:
            return self.snapshot(number).id == number
        except SnapshotNotFound:
            return False

    def is_numbered(self, number: int) -> bool:
        """Whether the number is taken by a snapshot, or by the mark of an expired one."""
        return self.env.storage.size(self.paths.snapshot(number)) is not None

    def is_in_place(self, snapshot: Snapshot) -> bool:
        """Whether a snapshot read before, or the mark of its expiry, still exists. If not, its number was freed."""
        stored = self._stored(snapshot.id)
        return stored is not None and (stored.data == _EXPIRED or self._decoded(stored) == snapshot)

    def is_first(self) -> bool:
        """Whether snapshot 1, which was just published, is the first of the table. If not, its number had been freed. One
        listing. Raises TableNotFound."""
        numbers, marks = self.numbers()
        return 1 in (*numbers[:1], *marks[:1])

    def stored_ms(self, number: int) -> int | None:
        """When a snapshot was stored, by the storage's clock; None if it no longer exists."""
        path = self.paths.snapshot(number)
        return next((entry.modified_ms for entry in self.env.storage.list(self.paths.snapshots) if entry.path == path), None)

    def retire(self, numbers: Sequence[int], mark: int | None) -> None:
        """Replace snapshots by marks. The last mark is written last, which makes all durable. `mark`: the number of an existing
        mark, to copy from."""
        for number in numbers:
            path = self.paths.snapshot(number)
            if mark is not None and number != numbers[-1]:
                with suppress(FileNotFoundError):  # another process has freed the number of `mark`, and thus those of older ones
                    self.env.storage.copy(self.paths.snapshot(mark), path)
                    continue
            with self.env.storage.write(path) as sink:  # not `_write`, which deletes the file after an error
                sink.write(_EXPIRED)
            mark = number

    def recorded(self, number: int) -> Snapshot:
        """A retained snapshot, or the copy of an expired one whose changelog is retained. Raises SnapshotNotFound."""
        try:
            return self.snapshot(number)
        except SnapshotNotFound:
            path = self.paths.changelog(number)
            if self.env.storage.size(path) is None:
                raise
            return self._own(Snapshot.decode(self._read(path, None), path), number, path)

    def record(self, snapshots: Sequence[Snapshot]) -> None:
        """Copy snapshots so that their changelogs outlive them. The last copy is written last, which makes all durable."""
        for snapshot in snapshots:
            path = self.paths.changelog(snapshot.id)
            if snapshot is snapshots[-1]:
                self._write(path, snapshot.encode())
            else:
                with suppress(FileNotFoundError):  # another process has expired it, and has recorded it before
                    self.env.storage.copy(self.paths.snapshot(snapshot.id), path)

    def recorded_ids(self) -> list[int]:
        """The numbers of expired snapshots whose changelog is retained, ascending."""
        entries = self.env.storage.list(self.paths.changelogs)
        return numbered((entry.path for entry in entries), self.paths.changelogs, "changelog")

    def snapshot_ids(self) -> list[int]:
        """The numbers of all snapshots, ascending. One listing. Raises TableNotFound if the table does not exist."""
        return self.numbers()[0]

    def numbers(self) -> tuple[list[int], list[int]]:
        """The numbers of (snapshots, marks of expired ones), ascending. One listing. A snapshot file with a number before a mark
        does not count: a slow commit stored it under a freed number (`commit.commit`, step 6). Raises TableNotFound."""
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
        """The newest snapshot; None before the first. Two reads if this handle has seen it before, and one more for each snapshot
        since. Raises TableNotFound if the table does not exist."""
        for _ in range(_LOOKS):
            found = self._forward() or self._listed()
            if found is None:
                return None
            if found.data != _EXPIRED:
                self.cache.latest = found
                return self._decoded(found)
        raise StorageFailed(
            "the latest snapshot expired before it could be read, on every attempt",
            where=self.paths.snapshots,
            found=f"{_LOOKS} attempts",
            cure="expire snapshots less often",
        )

    def _forward(self) -> Stored | None:
        """The newest snapshot, found by probing successors of the newest one seen, or of the hint. None if that snapshot has
        changed or no longer exists, so the snapshots must be listed."""
        known = self.cache.latest
        here = self._stored(self._hint() if known is None else known.number)
        if here is None or here.data == _EXPIRED or (known is not None and here.data != known.data):
            return None
        if known is None and here.number > 1 and self.env.storage.size(self.paths.snapshot(here.number - 1)) is None:
            return None  # the hint is so old that numbers before it were freed
        for step in count(1):
            following = self._stored(here.number + 1)
            if following is None:
                return here
            here = self._hinted(following) if step == _STEPS else following

    def _hinted(self, here: Stored) -> Stored:
        """The snapshot that the hint names if it is newer than `here`; no number after `here`, which exists, has been freed."""
        hinted = self._stored(self._hint())
        return here if hinted is None or hinted.number <= here.number else hinted

    def _listed(self) -> Stored | None:
        """The newest snapshot, found by a listing; None if there is none."""
        numbers = self.snapshot_ids()
        return self._stored(numbers[-1]) or Stored(numbers[-1], _EXPIRED) if numbers else None

    def _stored(self, number: int | None) -> Stored | None:
        """The stored file of a snapshot; None if it does not exist."""
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
        """Publish a snapshot; returns False if its number is taken."""
        return self.env.storage.put_if_absent(self.paths.snapshot(snapshot.id), snapshot.encode())

    def note_latest(self, snapshot: Snapshot) -> None:
        """Cache a snapshot just published; the next search for the newest one starts there."""
        self.cache.latest = Stored(snapshot.id, snapshot.encode())

    def hint_latest(self, number: int) -> None:
        with self.env.storage.write(self.paths.latest) as sink:
            sink.write(str(number).encode())

    def _hint(self) -> int | None:
        """The number in the hint file; None if the file is missing or malformed. Reads a few bytes, however long the file is."""
        path = self.paths.latest
        try:
            with self.env.storage.read(path) as file, storage_errors("read", path):
                text = file.read(_HINT_BYTES_MAX + 1)
        except FileNotFoundError:
            return None
        return int(text) if text.isdigit() and len(text) <= _HINT_BYTES_MAX else None

    # -- manifests ----------------------------------------------------------------------------------------------------

    def manifest_metas(self, snapshot: Snapshot) -> tuple[ManifestMeta, ...]:
        """All manifests of the snapshot, in commit order."""
        return (*self.manifest_list(snapshot.base_manifest_list), *self.manifest_list(snapshot.delta_manifest_list))

    def manifest_list(self, named: Named) -> tuple[ManifestMeta, ...]:
        path = self.paths.manifest(named.name)
        return self.cache.get(path, lambda: manifest.decode_list(self._read(path, named.bytes), path))

    def entries(self, meta: ManifestMeta, schema: Schema) -> pa.Table:
        """The entries of a manifest, with inherited sequences. Checked against the schema once, then cached for that schema."""
        path = self.paths.manifest(meta.name)

        def read() -> pa.Table:
            table = manifest.decode(self._read(path, meta.bytes), path)
            manifest.check_columns(table, schema, path)
            return table

        return manifest.inherit(self.cache.get(f"{path}#{schema.id}", read), meta.sequence)

    def _all_entries(self, metas: Iterable[ManifestMeta], schema: Schema) -> Iterator[pa.Table]:
        return (self.entries(meta, schema) for meta in metas)

    def delta(self, snapshot: Snapshot, schema: Schema) -> pa.Table:
        """The entries that the snapshot itself added, in order."""
        return manifest.concat(self._all_entries(self.manifest_list(snapshot.delta_manifest_list), schema), schema)

    def changelog(self, snapshot: Snapshot, schema: Schema) -> pa.Table:
        """The entries of the snapshot's own changelog files."""
        named = snapshot.changelog_manifest_list
        return manifest.concat(self._all_entries(self.manifest_list(named) if named else (), schema), schema)

    def live(self, snapshot: Snapshot, schema: Schema) -> pa.Table:
        """The live files of the snapshot, as entries of `format.manifest`. Those of the newest snapshot are kept, and a later
        snapshot adds its new manifests to them; those of older ones are cached."""
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
        """The state of those of `buckets` (default: all) that have files in the snapshot."""
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
        """Data file name -> location of its vector, for all live files that have one."""
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
        """Read the vector of `file`, in one ranged read. Raises Corrupt if it is damaged or marks a row that does not exist."""
        path = self.paths.puffin(ref.puffin)
        try:
            with self.env.storage.read(path) as source, storage_errors("read", path):
                size = source.size()
                source.seek(min(ref.offset, size))
                data = source.read(max(0, min(ref.length, size - ref.offset)))  # `read` allocates as much as is requested
        except FileNotFoundError as missing:
            self.first_schema()
            raise Corrupt("deletion vector file is missing", where=path, cure=_RESTORE) from missing
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
        """Data file name -> vector, for those of `files` that have one."""
        return {file.name: self.vector(refs[file.name], file) for file in files if file.name in refs}

    def put_vectors(self, vectors: Mapping[str, DeletionVector]) -> dict[str, VectorRef]:
        """Write `vectors` to one new Puffin file; writes nothing if there are none."""
        if not vectors:
            return {}
        name = f"dv-{self.env.ids()}.puffin"
        data, places = puffin.encode(vectors)
        self._write(self.paths.puffin(name), data)
        return {file: VectorRef(name, *place) for file, place in places.items()}

    def _own(self, found: _Decoded, number: int, path: str) -> _Decoded:
        """`found` itself. Raises Corrupt if its number differs from the file's name, or it belongs to another table, as after
        copying the file."""
        if found.id != number:
            raise Corrupt("file holds another number than its name", where=path, expected=number, found=found.id, cure=_RESTORE)
        if found.table_uuid != self.paths.table_uuid:
            expected = f"table_uuid {self.paths.table_uuid}"
            raise Corrupt("file of another table", where=path, expected=expected, found=found.table_uuid, cure=_RESTORE)
        return found

    # -- bytes --------------------------------------------------------------------------------------------------------

    def delete_quietly(self, paths: Iterable[str]) -> None:
        """Delete unreferenced files; storage errors are ignored, since a file that stays is a harmless orphan."""
        delete_quietly(self.env.storage, paths)

    def discard(self, messages: Iterable[CommitMessage]) -> None:
        """Delete the files written for messages that will not be committed; storage errors are ignored."""
        self.delete_quietly(path for message in messages for path in message.written)

    def _put_named(self, prefix: str, data: bytes) -> Named:
        named = Named(f"{prefix}-{self.env.ids()}", len(data))
        self._write(self.paths.manifest(named.name), data)
        return named

    def _write(self, path: str, data: bytes) -> None:
        try:
            with self.env.storage.write(path) as sink:
                sink.write(data)
        except BaseException:  # the file may exist nevertheless
            self.delete_quietly([path])
            raise

    def _read(self, path: str, length: int | None) -> bytes:
        try:
            with self.env.storage.read(path) as source, storage_errors("read", path):
                size = source.size()
                if length is None or size == length:
                    return source.read()
        except FileNotFoundError as missing:
            self.first_schema()
            raise Corrupt("metadata file is missing", where=path, cure=_RESTORE) from missing
        raise Corrupt("metadata file has another length", where=path, expected=f"{length} bytes", found=size, cure=_RESTORE)
