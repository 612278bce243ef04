"""A table at one snapshot. A verb reads the version once and passes it on; the code it calls never reads the newest one again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa

from lsmlake.errors import SnapshotNotFound
from lsmlake.format import manifest
from lsmlake.format.data_files import Bucket, BucketState, VectorRef
from lsmlake.format.snapshot import Snapshot
from lsmlake.lsm.cover import Covers
from lsmlake.options.table_options import Options
from lsmlake.schema.evolution import through
from lsmlake.schema.schema import Schema
from lsmlake.storage.concurrency import side_by_side
from lsmlake.tables.live import Selection
from lsmlake.tables.metadata import Metadata

EXPIRED = "EXPIRED"
"""Stands for the kind of a snapshot that cannot be read any more: its commit may have changed anything."""


@dataclass(frozen=True)
class Version:
    """`snapshot`: None before the first commit. `schema`: the one in effect at the snapshot; a reader of changes sees it through
    the columns of another one. Pickles without the cache of `meta`, so a Spark task reads metadata itself."""

    meta: Metadata
    snapshot: Snapshot | None
    schema: Schema

    @staticmethod
    def latest(meta: Metadata) -> Version:
        """The newest version of a table. Costs two reads in the steady state. Raises TableNotFound."""
        return Version.at(meta, meta.snapshots.latest())

    @staticmethod
    def at(meta: Metadata, snapshot: Snapshot | None) -> Version:
        """The table as of a given snapshot. Raises TableNotFound."""
        if snapshot is not None and meta.schemas.known(snapshot.schema_id) is None and meta.env.storage.at_once > 1:
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
        return self.meta.snapshots.unless_expired(self.snapshot)

    def kinds_until(self, later: Version) -> set[str]:
        """The kinds of the snapshots after this one, until that of a later version; EXPIRED for those that have expired."""
        return {self._kind(number) for number in range(self.number + 1, later.number + 1)}

    def _kind(self, number: int) -> str:
        try:
            return self.meta.snapshots.get(number).kind
        except SnapshotNotFound:
            return EXPIRED

    def live(self, selection: Selection | None = None) -> pa.Table:
        """The live files with rows, as manifest entries; or those that a selection needs."""
        return manifest.with_rows(self.entries(selection))

    def entries(self, selection: Selection | None = None) -> pa.Table:
        """As `live`, with files of retained deletes."""
        return self.meta.manifests.live(self.snapshot, self.schema, selection)

    def live_files(self) -> int:
        """The number of live files. Reads the manifest lists."""
        return sum(meta.added - meta.deleted for meta in self.meta.manifests.metas(self.snapshot))

    def vector_refs(self) -> Mapping[str, VectorRef]:
        """Data file name -> location of its vector, for all live files that have one."""
        return {} if self.snapshot is None else self.meta.manifests.vector_refs(self.snapshot)

    def covers(self) -> Covers:
        """The buckets of each partition. Cached; reads the live files unless all of them have the total of new partitions."""
        return self.meta.manifests.covers(self.snapshot, self.schema)

    def partitions(self) -> frozenset[tuple]:
        """`Bucket.partition_key` of all partitions with files. Reads the live files."""
        if self.snapshot is None:
            return frozenset()
        entries = self.entries()
        _, first = np.unique(manifest.partition_codes(entries, self.schema), return_index=True)
        return frozenset(manifest.partitions_of(entries.take(pa.array(first)), self.schema))

    def states(self, buckets: Iterable[Bucket] | None = None, *, statistics: bool = True) -> dict[Bucket, BucketState]:
        """The state of those of `buckets` (default: all) that have files in the snapshot."""
        manifests, snapshot = self.meta.manifests, self.snapshot
        return {} if snapshot is None else manifests.states(snapshot, self.schema, buckets, statistics=statistics)
