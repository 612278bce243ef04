"""A table at one snapshot. A verb reads it once and passes it on; nothing below the verb asks for the newest snapshot again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass

import pyarrow as pa

from lsmlake.format.files import Bucket, BucketState, VectorRef
from lsmlake.format.snapshot import Snapshot
from lsmlake.options.table_options import Options
from lsmlake.schema.schema import Schema
from lsmlake.store.bucket_files import BucketFiles
from lsmlake.store.metadata import Metadata


@dataclass(frozen=True)
class Version:
    """`snapshot` is None before the first commit. `schema` is the one in effect at the snapshot; a reader of changes may read an
    older snapshot by a newer schema. Pickles without the cache of `meta`, so a Spark task reads what it needs."""

    meta: Metadata
    snapshot: Snapshot | None
    schema: Schema

    @staticmethod
    def latest(meta: Metadata) -> Version:
        """The newest version of a table. Costs two reads in the steady state. Raises TableNotFound."""
        return Version.at(meta, meta.latest())

    @staticmethod
    def at(meta: Metadata, snapshot: Snapshot | None) -> Version:
        """The table as of a snapshot that was read before. Raises TableNotFound."""
        return Version(meta, snapshot, meta.schema_of(snapshot))

    @property
    def number(self) -> int:
        """The number of the snapshot; 0 before the first."""
        return 0 if self.snapshot is None else self.snapshot.id

    @property
    def options(self) -> Options:
        return self.schema.parsed_options

    def unless_expired(self) -> AbstractContextManager[None]:
        """See `Metadata.unless_expired`."""
        return self.meta.unless_expired(self.snapshot)

    def live(self) -> pa.Table:
        """The live files, as manifest entries."""
        return self.meta.live(self.snapshot, self.schema)

    def vector_refs(self) -> Mapping[str, VectorRef]:
        """Data file name -> where its vector lies, for all live files that have one."""
        return {} if self.snapshot is None else self.meta.vector_refs(self.snapshot)

    def states(self, buckets: Iterable[Bucket] | None = None, *, statistics: bool = True) -> dict[Bucket, BucketState]:
        """The buckets named (default: all) that the snapshot has."""
        return {} if self.snapshot is None else self.meta.states(self.snapshot, self.schema, buckets, statistics=statistics)

    def files(self, bucket: Bucket) -> BucketFiles:
        """The data files of a bucket."""
        return BucketFiles(self.meta, self.schema, bucket)
