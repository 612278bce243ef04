"""Finds the files of a table that are referenced by retained snapshots, retained changelogs, tags, pins, branches, and the
followers of the table (`commit.commit`), such as the newest metadata files of Iceberg, which reference manifests and vectors of
their own. Data files that only Iceberg metadata references do not count: they are deleted after this metadata is brought up to
date.

`Reachable.look` reads what it has not read before, so a second look costs one listing of each kind unless something is new. The
order of its reads makes the answer complete while other programs work: a file never loses its last reference before it gets a new
one, be it from a snapshot, a tag or a pin (`tables.tags`). So snapshots are read, then tags and pins, and snapshots again, until
no snapshot is new: a pin may belong to a rollback that is just being published.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pyarrow as pa
import pyarrow.compute as pc

from lsmlake.commit.commit import references
from lsmlake.errors import Corrupt, SnapshotNotFound, TableNotFound
from lsmlake.format.manifest import ADD, ManifestMeta
from lsmlake.format.paths import Branch
from lsmlake.format.snapshot import Snapshot
from lsmlake.refs.file_references import Held, metadata_of, paths_of
from lsmlake.tables.tags import Holder
from lsmlake.tables.version import Metadata

Progress = Callable[[str], None]


def changelog_of(meta: Metadata, snapshot: Snapshot) -> list[str]:
    """The paths of all files that only the changelog of a snapshot uses. None for the snapshot that a branch begins at: its
    changelog belongs to the table. Raises Corrupt."""
    named = snapshot.changelog_manifest_list
    if named is None or meta.branches.is_of_table(snapshot):
        return []
    schema = meta.schemas.of(snapshot)
    manifests = [meta.paths.manifest(m.name) for m in meta.manifests.listed(named)]
    return [*paths_of(meta, meta.manifests.changelog(snapshot, schema)), *manifests, meta.paths.manifest(named.name)]


class Reachable:
    """The referenced paths found so far. Memory: about 100 bytes per file."""

    def __init__(self, meta: Metadata, progress: Progress = lambda what: None) -> None:
        self.meta, self.progress = meta.with_empty_cache(), progress
        self._held = Held(self.meta)
        self._snapshots: set[int] = set()
        self._recorded: set[int] = set()
        self._holders: set[str] = set()
        self._before: tuple[ManifestMeta, ...] | None = None  # the manifests of a snapshot whose files are known
        self._chunks: list[pa.Array] = []
        self._branches: dict[Branch, Reachable] = {}  # a branch that is renamed stays under its old name, too
        self._references = references(self.meta) if meta.paths.branch is None else []

    def look(self) -> int:
        """Reads everything that is new; returns how many snapshots, changelogs and tags that was.

        Raises:
            Corrupt: metadata is damaged or missing, so nobody can tell which files are needed.
            UnsupportedFormat: a newer version of lsmlake has written metadata.
            TableNotFound: the table was dropped or renamed.
        """
        count = 0
        while True:
            new = self._look_at_snapshots() + self._look_at_changelogs() + self._look_at_branches()
            new_holders = self._held.among_holders(lambda holders: sum(map(self._add_holder, holders)))
            later = self._look_at_snapshots()  # what was published in the place of a pin, such as a rollback
            count += new + new_holders + later
            if not new + later:
                for new_paths in self._references:
                    self._add(new_paths())
                self._settle()
                return count

    def names(self, paths: pa.Array) -> pa.Array:
        """Flags the paths that are referenced."""
        known = self._chunks[0] if self._chunks else pa.array([], pa.string())
        flags = pc.is_in(paths, value_set=known)
        for branch in self._branches.values():
            flags = pc.or_(flags, branch.names(paths))
        return flags

    def _settle(self) -> None:
        if len(self._chunks) > 1:
            self._chunks = [pc.unique(pa.chunked_array(self._chunks))]

    def _look_at_snapshots(self) -> int:
        added = len(self._snapshots)
        for number in [number for number in self.meta.snapshots.ids() if number not in self._snapshots]:
            self.progress(self.meta.paths.snapshot(number))
            try:
                self._add_snapshot(self.meta.snapshots.get(number))
            except SnapshotNotFound:  # it has expired since it was listed
                continue
            self._snapshots.add(number)
        return len(self._snapshots) - added

    def _add_snapshot(self, snapshot: Snapshot) -> None:
        """Adds the files of a snapshot. Data files that the last snapshot has, too, are not listed again."""
        meta = self.meta
        with meta.snapshots.unless_expired(snapshot):
            metas, schema = meta.manifests.metas(snapshot), meta.schemas.of(snapshot)
            shared = 0 if self._before is None else len(self._before)
            if self._before is not None and metas[:shared] == self._before:
                tables = [meta.manifests.entries(one, schema) for one in metas[shared:]]
                data = [path for table in tables for path in paths_of(meta, table.filter(pc.equal(table["kind"], ADD)))]
            else:
                data = paths_of(meta, meta.manifests.live(snapshot, schema))
            self._add([*data, *metadata_of(meta, snapshot), *changelog_of(meta, snapshot)])
        self._before = metas

    def _look_at_changelogs(self) -> int:
        added = len(self._recorded)
        for number in [number for number in self.meta.snapshots.recorded_ids() if number not in self._recorded]:
            self.progress(self.meta.paths.changelog(number))
            try:
                snapshot = self.meta.snapshots.recorded(number)
                self._add(changelog_of(self.meta, snapshot))
            except SnapshotNotFound:  # its changelog has expired since it was listed
                continue
            except Corrupt:
                if number in self.meta.snapshots.recorded_ids():
                    raise
                continue
            self._recorded.add(number)
        return len(self._recorded) - added

    def _look_at_branches(self) -> int:
        """Adds the files that the branches of the table reference."""
        count = 0
        for name, info in self.meta.branches.all().items() if self.meta.paths.branch is None else ():
            branch = info.named(name)
            looker = self._branches.get(branch) or Reachable(self.meta.on(branch), self.progress)
            try:
                count += looker.look()
            except TableNotFound:  # deleted or renamed meanwhile
                self.meta.files.first_schema()
                continue
            self._branches[branch] = looker
        return count

    def _add_holder(self, holder: Holder) -> int:
        key = holder.snapshot.delta_manifest_list.name
        if key in self._holders:
            return 0
        self.progress(holder.reason)
        self._add(self._held.by(holder))
        self._holders.add(key)
        return 1

    def _add(self, paths: Iterable[str]) -> None:
        self._chunks.append(pa.array(paths, pa.string()))
