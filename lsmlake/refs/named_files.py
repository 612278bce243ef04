"""The files that many snapshots name, less those that others name: for deletions that no neighbouring snapshot can decide.

The cost is that of reading each manifest once, and of one fold for each of the others that added a file in question.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from lsmlake.format.manifest import ADD
from lsmlake.format.snapshot import Snapshot
from lsmlake.refs.file_references import data_of, indexes_of, manifests_of
from lsmlake.tables.metadata import Metadata


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
        """The files of snapshots, ascending; without their changelogs."""
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
        """Leave out the files of other snapshots."""
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
