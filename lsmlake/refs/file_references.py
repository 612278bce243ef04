"""Deletes files of snapshots that cannot be found any more, but not those that a tag or a retained snapshot needs.

In a table that was never rolled back, only two other snapshots can need a file of a snapshot: the newest tagged one before it,
and the oldest tagged or retained one after it. That holds for data files, vector files, manifests and manifest lists alike. The
rule is that of Apache Paimon (`TagManager.doClean`, `ExpireSnapshotsImpl`). `refs.rollback_reachability` says which other
snapshots can need a file after a rollback.

`NamedFiles` are the files that many snapshots reference, less the files that other snapshots reference: for deletions that no
neighbouring snapshot can decide. The cost is reading each manifest once, and one fold for each of the other snapshots that added
a file in question.

`tables.tags` says why a tag that is created meanwhile loses no file.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from lsmlake import undo
from lsmlake.commit.commit import before_deletion
from lsmlake.errors import Corrupt, SnapshotNotFound, Wording
from lsmlake.format.manifest import ADD
from lsmlake.format.paths import index_of
from lsmlake.format.snapshot import Snapshot
from lsmlake.refs.rollback_reachability import Returns, attempts_while_restless, number_of, retained
from lsmlake.storage.concurrency import together
from lsmlake.tables.tags import Holder, reason_of
from lsmlake.tables.version import Metadata

Result = TypeVar("Result")
_GROUP = 1_000  # files deleted by one request, where the storage can
_RELEASE = Wording(
    "restore the file from a copy, or delete the tag with delete_tag()",
    command="restore the file from a copy, or delete the tag: `lsmlake tag TABLE --delete NAME`",
)


@dataclass
class Held:
    """The files that tags need. Reads the metadata of each snapshot once."""

    meta: Metadata
    _files: dict[str, set[str]] = field(default_factory=dict)

    def free(self, removed: Sequence[tuple[Snapshot, Sequence[str]]], first: int) -> list[str]:
        """The files that no tag and no retained snapshot needs.

        Args:
            removed: snapshots, each with its files that the next snapshot does not need.
            first: the oldest snapshot after the removed ones.

        Raises:
            Corrupt: the metadata of a tag is damaged or missing.
        """

        def unneeded(holders: Sequence[Holder]) -> list[str]:
            returns, unneeded = Returns.of(self.meta, first), []
            owned = self.meta.branches.owned([snapshot for snapshot, _ in removed])
            with self.meta.snapshots.unless_expired(*returns.snapshots):
                for snapshot, paths in [one for one in removed if one[0] in owned]:
                    needed = set().union(*map(self.by, returns.near(holders, snapshot.id)))
                    unneeded += [path for path in paths if path not in needed]
            return unneeded

        return self.among_holders(unneeded)

    def among_holders(self, choose: Callable[[list[Holder]], Result]) -> Result:
        """Calls `choose` with all holders; calls it again if a file is missing because a tag was deleted or a snapshot expired
        meanwhile. Tags and pins are read before each call, so that `choose` sees what the programs that made a pin have
        published."""
        holders = holders_of(self.meta)
        for _ in attempts_while_restless(self.meta):
            try:
                return choose(holders)
            except SnapshotNotFound:
                holders = holders_of(self.meta)
            except Corrupt:
                before, holders = holders, holders_of(self.meta)
                if holders == before:
                    raise

    def by(self, holder: Holder) -> set[str]:
        """The paths of all files of the snapshot of a holder. Raises Corrupt, which names the holder."""
        key = holder.snapshot.delta_manifest_list.name
        if key not in self._files:
            try:
                self._files[key] = files_of(self.meta, holder.snapshot)
            except Corrupt as damaged:
                raise Corrupt(
                    f"{damaged.what}, and {holder.reason} needs it, so no file can be deleted",
                    where=damaged.where,
                    expected=damaged.expected,
                    found=damaged.found,
                    cure=_RELEASE,
                ) from damaged
        return self._files[key]


def holders_of(meta: Metadata, without: Collection[str] = ()) -> list[Holder]:
    """All tags, pins and snapshots that branches begin at, ordered by snapshot. Pins are read before the branches for which they
    were made. `without`: the names of tags to ignore."""
    ignored = set(map(reason_of, without))
    tagged = [holder for holder in meta.tags.holders() if holder.reason not in ignored]
    return sorted([*tagged, *meta.branches.holders()], key=number_of)


def unused(meta: Metadata, snapshot: Snapshot, files: Collection[str], without: Collection[str] = ()) -> list[str]:
    """Returns the files of a snapshot that no tag and no retained snapshot needs. None if the snapshot itself is tagged or
    retained.

    Args:
        meta: the table.
        snapshot: the snapshot.
        files: `files_of` the snapshot.
        without: the names of tags to ignore.

    Raises:
        Corrupt: the metadata of a tag or of a snapshot is damaged or missing.
        TableNotFound: the table was dropped or renamed.
        StorageFailed: tags or snapshots changed during every attempt.
    """
    ignored, held = set(map(reason_of, without)), Held(meta)

    def unneeded(listed: Sequence[Holder]) -> list[str]:
        numbers, holders = meta.snapshots.ids(), [holder for holder in listed if holder.reason not in ignored]
        oldest = [retained(meta, number) for number in numbers[:1]]
        if snapshot.id in numbers and meta.snapshots.get(snapshot.id) == snapshot:
            return []
        newer = sorted((holder for holder in (*holders, *oldest) if holder.snapshot.id > snapshot.id), key=number_of)
        if not meta.branches.owned([snapshot]):
            return []
        returns = Returns.of(meta, 0)
        with meta.snapshots.unless_expired(*returns.snapshots, *(holder.snapshot for holder in oldest)):
            needed = map(held.by, [*returns.near(holders, snapshot.id), *newer[:1]])
            return sorted(set(files).difference(*needed))

    return held.among_holders(unneeded)


def files_of(meta: Metadata, snapshot: Snapshot) -> set[str]:
    """The paths of all files of a snapshot except those of its changelog. Raises Corrupt."""
    live = meta.manifests.live(snapshot, meta.schemas.of(snapshot))
    return {*paths_of(meta, live), *metadata_of(meta, snapshot)}


def metadata_of(meta: Metadata, snapshot: Snapshot) -> set[str]:
    """The paths of the manifests, manifest lists, vector files and statistics of a snapshot."""
    puffins = {ref.puffin for ref in meta.manifests.vector_refs(snapshot).values()}
    return manifests_of(meta, snapshot) | set(map(meta.paths.puffin, puffins))


def manifests_of(meta: Metadata, snapshot: Snapshot) -> set[str]:
    """The paths of the manifests, manifest lists and index manifests of a snapshot, and of its statistics beside them."""
    index = snapshot.index_manifest
    files = (snapshot.base_manifest_list, snapshot.delta_manifest_list, index, snapshot.statistics)
    names = {named.name for named in files if named} | {m.name for m in meta.manifests.metas(snapshot)}
    if index is not None:
        names |= {part.name for part in meta.manifests.index(index).parts}
    return set(map(meta.paths.manifest, names))


def paths_of(meta: Metadata, entries: pa.Table) -> list[str]:
    """The paths of the data files of manifest entries, and then of their index files."""
    return [*data_of(meta, entries).values(), *indexes_of(meta, entries).values()]


def data_of(meta: Metadata, entries: pa.Table) -> dict[str, str]:
    """File name -> path, of the data files of manifest entries."""
    places = zip(entries["directory"].to_pylist(), entries["name"].to_pylist(), strict=True)
    return {name: meta.paths.new_data(directory, name) for directory, name in places}


def indexes_of(meta: Metadata, entries: pa.Table) -> dict[str, str]:
    """Name of a data file -> path of its index file, for those that have one."""
    indexed = entries.filter(pc.is_valid(entries["index_bytes"]))
    return {name: index_of(path) for name, path in data_of(meta, indexed).items()}


def delete(meta: Metadata, paths: Iterable[str]) -> int:
    """Deletes files, up to `Env.workers` groups of them at once; returns the number of paths, whether the files existed or not.
    Calls the followers of the table first: Iceberg metadata is brought up to date, so that no reader of it finds a file missing.
    If one fails, no file is deleted: `remove_orphan_files` deletes them later."""
    distinct = list(dict.fromkeys(paths))
    if distinct:
        before_deletion(meta)
    groups = [distinct[start : start + _GROUP] for start in range(0, len(distinct), _GROUP)]
    undo.made(meta.env.storage.delete_all, distinct)
    together(meta.env.storage.delete_all, groups, meta.env.workers, lambda done: None)
    undo.kept(meta.env.storage.delete_all, distinct)
    return len(distinct)


# -- files that many snapshots name -----------------------------------------------------------------------------------


@dataclass
class NamedFiles:
    """`data`: the paths of data files by name. `indexes`: the paths of their index files, by the same names. `puffins`: names of
    vector files. `manifests`: paths of manifests, lists, index manifests and statistics."""

    data: dict[str, str] = field(default_factory=dict)
    indexes: dict[str, str] = field(default_factory=dict)
    puffins: set[str] = field(default_factory=set)
    manifests: set[str] = field(default_factory=set)

    def copied(self) -> NamedFiles:
        return NamedFiles(dict(self.data), dict(self.indexes), set(self.puffins), set(self.manifests))

    def add(self, meta: Metadata, snapshots: Iterable[Snapshot]) -> None:
        """Adds the files of snapshots, ascending; without their changelogs."""
        before: Snapshot | None = None
        for snapshot in snapshots:
            schema = meta.schemas.of(snapshot)
            follows = before is not None and snapshot.id == before.id + 1 and snapshot.restores is None
            entries = meta.manifests.delta(snapshot, schema) if follows else meta.manifests.live(snapshot, schema)
            added = entries.filter(pc.equal(entries["kind"], ADD))
            self.data.update(data_of(meta, added))
            self.indexes.update(indexes_of(meta, added))
            if before is None or snapshot.index_manifest != before.index_manifest:
                self.puffins.update(ref.puffin for ref in meta.manifests.vector_refs(snapshot).values())
            self.manifests |= manifests_of(meta, snapshot)
            before = snapshot

    def remove(self, meta: Metadata, snapshots: Iterable[Snapshot]) -> None:
        """Removes the files of other snapshots."""
        adds: dict[str, bool] = {}  # manifest -> whether it adds one of the files
        for snapshot in snapshots:
            self.manifests -= manifests_of(meta, snapshot)
            self.puffins -= meta.manifests.vector_refs(snapshot).puffins_in_use(self.puffins)
            schema = meta.schemas.of(snapshot)
            for one in meta.manifests.metas(snapshot):
                if one.name not in adds:
                    adds[one.name] = bool(self._among(meta.manifests.entries(one, schema)))
            if any(adds[one.name] for one in meta.manifests.metas(snapshot)):
                for name in self._among(meta.manifests.live(snapshot, schema)):
                    del self.data[name]
                    self.indexes.pop(name, None)

    def _among(self, entries: pa.Table) -> list[str]:
        """The names of the files that entries add."""
        named = pc.and_(
            pc.equal(entries["kind"], ADD), pc.is_in(entries["name"], value_set=pa.array(list(self.data), pa.string()))
        )
        return entries["name"].filter(named).unique().to_pylist()

    def paths(self, meta: Metadata) -> list[str]:
        """All paths: data files and their index files, then vector files, then manifests."""
        data = sorted([*self.data.values(), *self.indexes.values()])
        return [*data, *sorted(map(meta.paths.puffin, self.puffins)), *sorted(self.manifests)]
