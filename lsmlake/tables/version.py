"""The metadata of a table or of one of its branches, and the table at one snapshot.

Schemas, snapshots, tags, branches, manifests and vectors share files and a cache, and make no decisions. This module reads and
writes schemas and vectors, whose files never change: each schema number has a file, and the newest snapshot names the schema in
effect; the vectors that a commit writes for a bucket are in one Puffin file. A verb reads the version once and passes it on; the
code that it calls never reads the newest version again.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import lru_cache, partial

import numpy as np
import pyarrow as pa

from lsmlake import undo
from lsmlake.errors import Corrupt, SnapshotNotFound
from lsmlake.format import manifest, puffin
from lsmlake.format.data_files import Bucket, BucketState, DataFile, VectorRef
from lsmlake.format.deletion_vector import DeletionVector
from lsmlake.format.paths import Branch, TablePaths, first_schema, numbered
from lsmlake.format.snapshot import Snapshot
from lsmlake.lsm.cover import Covers
from lsmlake.options.table_options import Options
from lsmlake.schema.evolution import through
from lsmlake.schema.schema import Schema
from lsmlake.storage.concurrency import side_by_side
from lsmlake.storage.env import Env
from lsmlake.storage.storage import Storage, read_bytes
from lsmlake.tables.branches import Branches
from lsmlake.tables.live import Cache, Selection
from lsmlake.tables.manifests import Manifests
from lsmlake.tables.snapshots import Snapshots
from lsmlake.tables.table_files import RESTORE, TableFiles
from lsmlake.tables.tags import Tags

EXPIRED = "EXPIRED"
"""Stands for the kind of a snapshot that cannot be read any more: its commit may have changed anything."""
_decoded = lru_cache(maxsize=256)(Schema.decode)
"""Schemas by the bytes of their files: each statement opens its tables."""


@dataclass(frozen=True)
class Metadata:
    files: TableFiles
    schemas: Schemas
    snapshots: Snapshots
    tags: Tags
    branches: Branches
    manifests: Manifests
    vectors: Vectors

    @staticmethod
    def of(env: Env, paths: TablePaths) -> Metadata:
        """The metadata of a table, with an empty cache. Reads nothing."""
        return Metadata._on(TableFiles(env, paths, Cache(env.limits.cache_bytes)))

    @staticmethod
    def opened(env: Env, root: str) -> Metadata | None:
        """The metadata of the table in the folder `root`; None if there is no table. Reads schema 0 and, in a storage that reads
        by requests, the hint, so that the first verb need not wait for it. Raises Corrupt, UnsupportedFormat."""
        path = first_schema(root)
        try:
            schema = _decoded(read_bytes(env.storage, path), path)
        except FileNotFoundError:
            return None
        meta = Metadata.of(env, TablePaths(root, schema.table_uuid))
        meta.schemas.keep(schema)
        if env.storage.at_once > 1:
            meta.snapshots.read_hint()
        return meta

    @staticmethod
    def _on(files: TableFiles) -> Metadata:
        tags, manifests = Tags(files), Manifests(files)
        snapshots = Snapshots(files, tags, manifests)
        return Metadata(files, Schemas(files), snapshots, tags, Branches(files), manifests, Vectors(files))

    def on(self, branch: Branch | None) -> Metadata:
        """The metadata of a branch of the table; None: of the table itself. Reads nothing."""
        return Metadata.of(self.env, self.paths.on(branch))

    def with_empty_cache(self) -> Metadata:
        """The same metadata, without the caches of this process and of the disk."""
        return Metadata.of(replace(self.env, storage=self.env.storage.uncached, copies=None, decoded=None), self.paths)

    def past_disk_cache(self) -> Metadata:
        """The same metadata; with an empty cache if the storage has a cache on disk."""
        return self if self.env.storage.uncached is self.env.storage else self.with_empty_cache()

    def with_cache_aside(self) -> Metadata:
        """The same metadata with a second cache, which reads from this cache and stores nothing in it."""
        return Metadata._on(TableFiles(self.env, self.paths, Cache(self.env.limits.cache_bytes, self.files.cache)))

    @property
    def env(self) -> Env:
        return self.files.env

    @property
    def paths(self) -> TablePaths:
        return self.files.paths


# -- schemas ----------------------------------------------------------------------------------------------------------


OF_FALLBACK = 1 << 24
"""Added to the schema numbers of files that are read from another branch, which numbers its schemas by itself."""


@dataclass(frozen=True)
class Schemas:
    """The schemas of a table or branch. `fallback`: those of the branch with the files of which `OF_FALLBACK` tells."""

    files: TableFiles
    fallback: Schemas | None = None

    def get(self, number: int) -> Schema:
        if self.fallback is not None and number >= OF_FALLBACK:
            return self.fallback.get(number - OF_FALLBACK)
        files, path = self.files, self.files.paths.schema(number)
        read = files.first_schema if number == 0 else lambda: files.own(Schema.decode(files.read(path, None), path), number, path)
        return files.cache.get(self._key(number), read)

    def known(self, number: int) -> Schema | None:
        """The schema of this number; None if this handle has not read it."""
        return self.files.cache.known(self._key(number))

    def keep(self, schema: Schema) -> None:
        """Caches a schema that was read from the table."""
        self.files.cache.put(self._key(schema.id), schema)

    def _key(self, number: int) -> tuple[str, str]:
        return self.files.paths.schema(number), self.files.paths.table_uuid

    def of(self, snapshot: Snapshot | None) -> Schema:
        """The schema in effect at a snapshot; schema 0 for None, before the first snapshot. Raises TableNotFound."""
        return self.files.first_schema() if snapshot is None else self.get(snapshot.schema_id)

    def ids(self) -> list[int]:
        """The numbers of all schemas, ascending; those after the one in effect are not published."""
        folder = self.files.paths.schemas
        return sorted({0, *numbered((entry.path for entry in self.files.env.storage.list(folder)), folder, "schema")})

    def begin(self, schema: Schema) -> bool:
        """As `put`, for schema 0, which creates a table. The table is deleted if the public call fails before it has a
        snapshot."""
        path = self.files.paths.schema(schema.id)
        unmade = _Unmade(self.files.env.storage, self.files.paths.snapshots, schema.encode())
        undo.made(unmade, [path])
        created = self.put(schema)
        if not created:
            undo.kept(unmade, [path])
        return created

    def put(self, schema: Schema) -> bool:
        """Stores a schema; returns False if its number is taken. The schema stays if the public call fails: another call may have
        found it and may name it in a snapshot."""
        return self.files.env.storage.put_if_absent(self.files.paths.schema(schema.id), schema.encode())


@dataclass(frozen=True)
class _Unmade:
    """Deletes schema 0 of a table if this process created it (its content shows that) and no snapshot was committed."""

    storage: Storage
    snapshots: str
    data: bytes

    def __call__(self, paths: list[str]) -> None:
        for path in paths:
            with suppress(FileNotFoundError):
                committed = next(iter(self.storage.list(self.snapshots)), None) is not None
                if not committed and read_bytes(self.storage, path) == self.data:
                    self.storage.delete(path)


# -- deletion vectors -------------------------------------------------------------------------------------------------


_KEPT_BYTES = 1 << 20


@dataclass(frozen=True)
class Vectors:
    files: TableFiles

    def get(self, ref: VectorRef, file: DataFile) -> DeletionVector:
        """Reads the vector of `file`, in one ranged read. Raises Corrupt if it is damaged or marks a row that does not exist."""
        return self._decoded(self._read(ref.puffin, ref.offset, ref.offset + ref.length), ref, file)

    def read_together(self, refs: Mapping[str, VectorRef], files: Iterable[DataFile]) -> dict[str, DeletionVector]:
        """As `read`, with one read of each Puffin file, from the first to the last of its vectors."""
        by_puffin: dict[str, list[DataFile]] = {}
        for file in files:
            if file.name in refs:
                by_puffin.setdefault(refs[file.name].puffin, []).append(file)

        def read(name: str, group: Sequence[DataFile]) -> dict[str, DeletionVector]:
            own = [refs[file.name] for file in group]
            start, stop = min(ref.offset for ref in own), max(ref.offset + ref.length for ref in own)
            data = self._read(name, start, stop)
            return {
                file.name: self._decoded(data[ref.offset - start : ref.offset - start + ref.length], ref, file)
                for ref, file in zip(own, group, strict=True)
            }

        read_groups = side_by_side(
            [partial(read, name, group) for name, group in by_puffin.items()], self.files.env.storage.at_once
        )
        return {name: vector for some in read_groups for name, vector in some.items()}

    def _read(self, name: str, start: int, stop: int) -> bytes:
        path = self.files.paths.puffin(name)
        written: bytes | None = self.files.cache.known(path)
        if written is not None:
            return written[start:stop]
        try:
            return self.files.env.storage.read_range(path, start, stop)
        except FileNotFoundError as missing:
            self.files.first_schema()
            raise Corrupt("deletion vector file is missing", where=path, cure=RESTORE) from missing

    def _decoded(self, data: bytes, ref: VectorRef, file: DataFile) -> DeletionVector:
        path = self.files.paths.puffin(ref.puffin)
        vector = DeletionVector.decode(data, f"{path}, vector of {file.name}", file.rows)
        if len(vector) != ref.cardinality:
            what, marked = "deletion vector marks another number of rows", len(vector)
            raise Corrupt(what, where=path, expected=ref.cardinality, found=marked, cure=RESTORE)
        return vector

    def read(self, refs: Mapping[str, VectorRef], files: Iterable[DataFile]) -> dict[str, DeletionVector]:
        """Data file name -> vector, for the `files` that have a vector."""
        if self.files.env.storage.at_once > 1:
            return self.read_together(refs, files)
        return {file.name: self.get(refs[file.name], file) for file in files if file.name in refs}

    def put(self, vectors: Mapping[str, DeletionVector]) -> dict[str, VectorRef]:
        """Writes `vectors` to one new Puffin file; writes nothing if there are none."""
        if not vectors:
            return {}
        name = f"dv-{self.files.env.ids()}.puffin"
        data, places = puffin.encode(vectors)
        path = self.files.paths.puffin(name)
        self.files.write_unnamed(path, data)
        if self.files.env.storage.at_once > 1 and len(data) <= _KEPT_BYTES:
            self.files.cache.put(path, data, len)  # the next compaction of the bucket adds to these vectors
        return {file: VectorRef(name, *place) for file, place in places.items()}


# -- the table at one snapshot ----------------------------------------------------------------------------------------


_PARTITION_BYTES = 200


@contextmanager
def _both(outer: AbstractContextManager[None], inner: AbstractContextManager[None]) -> Iterator[None]:
    with outer, inner:
        yield


@dataclass(frozen=True)
class Version:
    """`snapshot`: None before the first commit. `schema`: the schema in effect at the snapshot; for a reader of changes, that
    schema with the columns of another one. Pickles without the cache of `meta`, so a Spark task reads metadata itself.

    `fallback`: where a batch read finds the partitions that this version lacks (`read.fallback`).
    """

    meta: Metadata
    snapshot: Snapshot | None
    schema: Schema
    fallback: Version | None = None

    @staticmethod
    def latest(meta: Metadata) -> Version:
        """The newest version of a table. Costs two reads in the steady state. Raises TableNotFound."""
        return Version.at(meta, meta.snapshots.latest())

    @staticmethod
    def at(meta: Metadata, snapshot: Snapshot | None) -> Version:
        """The table as of a given snapshot. Raises TableNotFound."""
        if snapshot is not None and meta.env.storage.at_once > 1 and meta.schemas.known(snapshot.schema_id) is None:
            side_by_side([partial(meta.schemas.of, snapshot), partial(meta.snapshots.load, snapshot)], meta.env.storage.at_once)
        return Version(meta, snapshot, meta.schemas.of(snapshot))

    @staticmethod
    def seen(meta: Metadata, snapshot: Snapshot | None, schema: Schema) -> Version:
        """The table as of a given snapshot, with the columns of `schema` (`schema.evolution.through`). Raises TableNotFound."""
        return Version(meta, snapshot, through(meta.schemas.of(snapshot), schema))

    @property
    def number(self) -> int:
        """The number of the snapshot; 0 before the first."""
        return 0 if self.snapshot is None else self.snapshot.id

    @property
    def options(self) -> Options:
        return self.schema.parsed_options

    def unless_expired(self) -> AbstractContextManager[None]:
        """See `Snapshots.unless_expired`."""
        own = self.meta.snapshots.unless_expired(self.snapshot)
        return own if self.fallback is None else _both(self.fallback.unless_expired(), own)

    def kinds_until(self, later: Version) -> set[str]:
        """The kinds of the snapshots after this version, up to a later version; EXPIRED for snapshots that have expired."""
        return {self._kind(number) for number in range(self.number + 1, later.number + 1)}

    def _kind(self, number: int) -> str:
        try:
            return self.meta.snapshots.get(number).kind
        except SnapshotNotFound:
            return EXPIRED

    def live(self, selection: Selection | None = None) -> pa.Table:
        """The live files with rows, as manifest entries; with a selection, only the files that it needs."""
        return manifest.with_rows(self.entries(selection))

    def entries(self, selection: Selection | None = None) -> pa.Table:
        """As `live`, with files of retained deletes."""
        own = self._entries(selection)
        if self.fallback is None:
            return own
        return manifest.concat([own, self._lacking(self.fallback._entries(selection))], self.schema)

    def _entries(self, selection: Selection | None) -> pa.Table:
        if self.snapshot is None:
            return manifest.concat([], self.schema)
        return self.meta.manifests.live(self.snapshot, self.schema, selection)

    def _lacking(self, entries: pa.Table) -> pa.Table:
        """The entries of the fallback in partitions that this version lacks."""
        if not entries.num_rows:
            return entries
        codes = manifest.partition_codes(entries, self.schema)
        _, first = np.unique(codes, return_index=True)
        own = self.partitions()
        lacking = [one not in own for one in manifest.partitions_of(entries.take(pa.array(first)), self.schema)]
        entries = entries.filter(pa.array(np.array(lacking)[codes]))
        place, numbers = entries.schema.get_field_index("schema_id"), entries["schema_id"].to_numpy() + np.int32(OF_FALLBACK)
        return entries.set_column(place, entries.schema.field(place), pa.array(numbers))

    def live_files(self) -> int:
        """The number of live files; with those of the fallback. Reads the manifest lists."""
        own = 0 if self.snapshot is None else sum(meta.added - meta.deleted for meta in self.meta.manifests.metas(self.snapshot))
        return own if self.fallback is None else own + self.fallback.live_files()

    def vector_refs(self) -> Mapping[str, VectorRef]:
        """Data file name -> location of its vector, for all live files that have one."""
        own = {} if self.snapshot is None else self.meta.manifests.vector_refs(self.snapshot)
        return own if self.fallback is None else ChainMap(own, self.fallback.vector_refs())

    def covers(self) -> Covers:
        """The buckets of each partition. Cached; reads the live files unless all of them have the total of new partitions."""
        return self.meta.manifests.covers(self.snapshot, self.schema)

    def partitions(self) -> frozenset[tuple]:
        """`Bucket.partition_key` of all partitions with files, without those of the fallback. Cached; reads the live files."""
        if self.snapshot is None:
            return frozenset()
        key = self.snapshot.delta_manifest_list.name, self.meta.paths.table_uuid, self.schema.id, "partitions"
        return self.meta.files.cache.get(key, self._partitions, lambda found: _PARTITION_BYTES * len(found))

    def _partitions(self) -> frozenset[tuple]:
        entries = self._entries(None)
        _, first = np.unique(manifest.partition_codes(entries, self.schema), return_index=True)
        return frozenset(manifest.partitions_of(entries.take(pa.array(first)), self.schema))

    def states(self, buckets: Iterable[Bucket] | None = None, *, statistics: bool = True) -> dict[Bucket, BucketState]:
        """The states of the `buckets` (default: all) that have files in the snapshot, without those of the fallback."""
        manifests, snapshot = self.meta.manifests, self.snapshot
        return {} if snapshot is None else manifests.states(snapshot, self.schema, buckets, statistics=statistics)
