"""Publishes tables when the catalog shows them.

Metadata lies in the folder of the table, where every publication writes it (`iceberg.mirror`): from the first one on, expiry of
the table keeps it in step before it deletes files, and removes what no snapshot needs. A table whose commits publish it is shown
as they left it, without asking other catalogs. Threads that ask for one table wait for one publication.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from threading import Lock
from typing import NamedTuple

from lsmlake.api.lake import Lake
from lsmlake.errors import LakeError, StorageFailed, Wording
from lsmlake.format.paths import MAIN
from lsmlake.iceberg import mirror, published, table_metadata
from lsmlake.iceberg.lineage import refs_of
from lsmlake.iceberg.mirror import Published
from lsmlake.tables.version import Metadata, Version

_LOOK_EVERY_MS = 10_000
_log = logging.getLogger("lsmlake.serve")


class _SeenRefs(NamedTuple):
    """The references of a table at the last look. Those that Iceberg can express are published once per metadata file."""

    time_ms: int
    metadata_file: str
    refs: Mapping[str, int]


class Publications:
    """The published tables of a lake."""

    def __init__(self, lake: Lake) -> None:
        self._lake = lake
        self._guard = Lock()
        self._seen: dict[str, _SeenRefs] = {}
        """Root of a table -> the last look for references that its writers failed to publish."""
        self._locks: dict[str, tuple[Lock, int]] = {}
        """Root of a table -> its lock, and how many threads hold it or wait for it."""

    def of(self, name: str) -> Published:
        """The metadata of a table as of its newest snapshot, published if it was not.

        Raises:
            TableNotFound: the table does not exist.
            As `mirror.publish`.
        """
        meta = self._lake.table(name).meta
        root = meta.paths.root
        with self._alone(root):
            found = _by_commits(meta)
            if found is None:
                return _published(meta)
            return self._with_refs(meta, found)

    def _with_refs(self, meta: Metadata, found: Published) -> Published:
        """Publishes a table once more if its writers failed to publish a tag or branch. Looks for such ones every ten seconds at
        most, since this reads all branches; shows what the writers published if the server cannot publish."""
        root, now = meta.paths.root, meta.env.clock()
        last = self._seen.get(root)
        if last is not None and now < last.time_ms + _LOOK_EVERY_MS:
            return found
        refs = refs_of(meta)
        known = last is not None and (last.metadata_file, last.refs) == (found.metadata_file, refs)
        if refs != _refs(found.content) and not known:
            try:
                found = mirror.publish(meta)
            except LakeError as failed:
                _log.warning("%s: tags or branches that its writers failed to publish are not shown: %s", root, failed)
        self._seen[root] = _SeenRefs(now, found.metadata_file, refs)
        return found

    @contextmanager
    def _alone(self, root: str) -> Iterator[None]:
        with self._guard:
            lock, threads = self._locks.get(root, (Lock(), 0))
            self._locks[root] = lock, threads + 1
        try:
            with lock:
                yield
        finally:
            with self._guard:
                _, threads = self._locks.pop(root)
                if threads > 1:
                    self._locks[root] = lock, threads - 1


def _by_commits(meta: Metadata) -> Published | None:
    """The metadata of a table whose commits publish it, if it shows the newest snapshot."""
    version = Version.latest(meta)
    found = published.current(meta) if version.options.iceberg.enabled else None
    if found is None or not _is_of(version, found.content):
        return None
    return Published(published.uri_of(meta, meta.paths.iceberg(published.name_of(found.number))), found.content, 0)


def _published(meta: Metadata) -> Published:
    try:
        return mirror.publish(meta)
    except StorageFailed as refused:
        cure = Wording(
            "let the server write there, or set metadata.iceberg = true, so that writers publish",
            command="let the server write there, or set metadata.iceberg = true, so that writers publish",
        )
        raise refused.changed(cure=cure) from None


def _refs(content: table_metadata.Metadata) -> dict[str, int]:
    """The tags and branches of the metadata, as `refs_of` has those of the table: a writer may have failed to publish one."""
    return {name: one["snapshot-id"] for name, one in content["refs"].items() if name != MAIN}


def _is_of(version: Version, content: table_metadata.Metadata) -> bool:
    """Whether the metadata shows this version as the current one."""
    return (
        version.snapshot is not None
        and content.get("current-snapshot-id") == version.number
        and content["current-schema-id"] == version.schema.id
        and table_metadata.published(content).get(version.number) == table_metadata.identity_of(version.snapshot)
    )
