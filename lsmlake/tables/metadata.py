"""The metadata of a table or of one of its branches: schemas, snapshots, tags, branches, manifests and vectors.

They share files and a cache. Makes no decisions.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

from lsmlake.format.paths import Branch, TablePaths, first_schema
from lsmlake.schema.schema import Schema
from lsmlake.storage.env import Env
from lsmlake.storage.storage import read_bytes
from lsmlake.tables.branches import Branches
from lsmlake.tables.cache import Cache
from lsmlake.tables.manifests import Manifests
from lsmlake.tables.schemas import Schemas
from lsmlake.tables.snapshots import Snapshots
from lsmlake.tables.table_files import TableFiles
from lsmlake.tables.tags import Tags
from lsmlake.tables.vectors import Vectors

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
        """The metadata of the table in the folder `root`; None if there is no table. Reads schema 0 and, where it takes a
        request, the hint, so that the first verb need not wait for it. Raises Corrupt, UnsupportedFormat."""
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
        """The same without anything that this process or a disk has cached."""
        return Metadata.of(replace(self.env, storage=self.env.storage.uncached), self.paths)

    def past_disk_cache(self) -> Metadata:
        """The same, or `with_empty_cache` if the storage has a cache on disk."""
        return self if self.env.storage.uncached is self.env.storage else self.with_empty_cache()

    def with_cache_aside(self) -> Metadata:
        """The same with a cache that finds what this one holds, and puts nothing into it."""
        return Metadata._on(TableFiles(self.env, self.paths, Cache(self.env.limits.cache_bytes, self.files.cache)))

    @property
    def env(self) -> Env:
        return self.files.env

    @property
    def paths(self) -> TablePaths:
        return self.files.paths
