"""Publishes a table as an Iceberg table of format version 3, which names the data files of the table where they lie.

    metadata/v<k>.metadata.json     created if absent: this publishes. The newest KEPT files stay
    metadata/version-hint.text      a number as text: where to begin the search for the newest one
    metadata/snap-<n>-<id>.avro     the manifest list of snapshot n
    metadata/manifest-<id>.avro     a manifest, written once (`manifests`)
    metadata/dv-<n>-<id>.puffin     a deletion vector that snapshot n changed

1. Find the newest metadata file, and the snapshots of the table that it lacks or that are gone. The first publication creates the
   hint before: from then on nobody deletes files without `bring_up_to_date`, so none is deleted that it is about to name.
2. For each new snapshot, oldest first: what it changed (`changes`), as vectors, entries and manifests.
3. Create the next metadata file. If another publisher came first, delete what this one wrote and begin again.
4. Delete the files of snapshots that the metadata does not name any more. Data files are deleted by the table, after this.

The vectors of Iceberg name their data file by its full URI, and a reader takes all vectors of a Puffin file, or the wrong one. So
the vectors are copied from those of the table, each to a file; together with them go the deletes among the rows of level 0.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import NamedTuple

from lsmlake.errors import CommitConflict, InvalidOption, InvalidSchema, SnapshotNotFound
from lsmlake.extras import need
from lsmlake.format.snapshot import Snapshot
from lsmlake.interop.iceberg import metadata, published
from lsmlake.interop.iceberg.changes import View
from lsmlake.interop.iceberg.manifests import Manifests
from lsmlake.interop.iceberg.published import Current, name_of, path_of, uri_of
from lsmlake.interop.iceberg.step import Step
from lsmlake.store.metadata import Metadata
from lsmlake.store.version import Version

_ATTEMPTS = 20


class Published(NamedTuple):
    """`metadata_file`: the URI of the newest metadata file. `content`: of it. `snapshots`: how many this publication added."""

    metadata_file: str
    content: metadata.Metadata
    snapshots: int


def publish(meta: Metadata, *, whole: bool = True) -> Published:
    """Bring the Iceberg metadata up to date: all snapshots that are kept or tagged, and no others. Older ones that Iceberg cannot
    express are left out.

    Args:
        meta: the table.
        whole: whether the newest snapshot must be there; False: it may be left out, too.

    Raises:
        InvalidOption: the table has no deletion vectors.
        InvalidSchema: a column was widened in a way that Iceberg does not know, and files have its old type.
        MissingDependency: fastavro is not installed.
        CommitConflict: other publishers came first on every attempt.
        Corrupt, StorageFailed: metadata is damaged, or cannot be read or written.
    """
    for _ in range(_ATTEMPTS):
        attempt = _Attempt(meta, whole)
        try:
            found = attempt.run()
        except BaseException:
            meta.files.delete_quietly(attempt.written)
            raise
        if found is not None:
            return found
        meta.files.delete_quietly(attempt.written)
    raise CommitConflict(
        "other publishers of Iceberg metadata came first on every attempt",
        where=meta.paths.iceberg(""),
        found=f"{_ATTEMPTS} attempts",
        cure="run it again",
    )


def bring_up_to_date(meta: Metadata) -> None:
    """Publish, if the table was ever published; otherwise one request. To be called after snapshots or tags are gone and before
    their data files are deleted, so that no reader of the newest metadata finds a file missing. Raises as `publish`."""
    if published.is_published(meta):
        publish(meta.on(None), whole=False)


@dataclass
class _Attempt:
    """One attempt to publish; `whole` as in `publish`. `written`: the paths of the files that it wrote."""

    meta: Metadata
    whole: bool
    written: list[str] = field(default_factory=list)

    def run(self) -> Published | None:
        """None: another publisher came first."""
        meta = self.meta
        before = published.current(meta)
        version = Version.latest(meta)  # not before: the metadata must not go back to an older snapshot
        if self.whole:
            View.of(version)
        location = uri_of(meta, meta.paths.root)
        if before is None:
            need("fastavro", "Iceberg metadata")
            meta.env.storage.put_if_absent(meta.paths.iceberg(published.HINT), b"1")
        old = None if before is None else before.content
        if old is None or old["location"] != location:  # the table was renamed, or moved
            old = metadata.first(meta.paths.table_uuid, location, meta.schemas.get(0))
        known = metadata.published(old)
        kept, tags = self._kept(known)
        read = [(number, kept[number]) for number in sorted(kept) if kept[number] is not None]
        todo = [snapshot for number, snapshot in read if known.get(number) != metadata.identity_of(snapshot)]
        content, made = self._made(old, kept, todo)
        there = {one["snapshot-id"] for one in (*content["snapshots"], *made)} & kept.keys()
        if self.whole or version.number in there:
            content, _ = metadata.with_schema(content, version.schema)
        current_id = max((number for number in there if number <= version.number), default=None)
        next_row = made[-1]["first-row-id"] + made[-1]["added-rows"] if made else old["next-row-id"]
        content = metadata.with_snapshots(content, made, kept, current_id, next_row)
        content = metadata.with_refs(content, {name: number for name, number in tags.items() if number in there})
        if before is not None and content == before.content:
            return Published(uri_of(meta, meta.paths.iceberg(name_of(before.number))), content, 0)
        return self._put(before, content, len(made))

    def _put(self, before: Current | None, content: metadata.Metadata, made: int) -> Published | None:
        meta, number = self.meta, 1 if before is None else before.number + 1
        last = "" if before is None else uri_of(meta, meta.paths.iceberg(name_of(before.number)))
        last_ms = 0 if before is None else before.content["last-updated-ms"]
        newest = max([last_ms, meta.env.clock(), *(one["timestamp-ms"] for one in content["snapshots"])])
        content = metadata.logged(content, last, last_ms, newest)
        path = meta.paths.iceberg(name_of(number))
        written, self.written = self.written, []  # after a failure the metadata file may be there and name them
        if not meta.env.storage.put_if_absent(path, json.dumps(content).encode()):
            self.written = written
            return None
        with meta.env.storage.write(meta.paths.iceberg(published.HINT)) as sink:
            sink.write(str(number).encode())
        gone = [] if before is None else self._unnamed(before.content, content)
        if number > metadata.KEPT:
            gone.append(meta.paths.iceberg(name_of(number - metadata.KEPT)))
        meta.files.delete_quietly(gone)
        return Published(uri_of(meta, path), content, made)

    def _kept(self, known: Mapping[int, str]) -> tuple[dict[int, Snapshot | None], dict[str, int]]:
        """The snapshots to publish, by number, and the tags with theirs. `known`: those that the metadata has. The newest of them
        that is still itself proves those before, which are not read: None."""
        meta, proven = self.meta, False
        tags = {tag.name: tag.snapshot for tag in meta.tags.readable() if tag.name}
        kept: dict[int, Snapshot | None] = {snapshot.id: snapshot for snapshot in tags.values()}
        for number in reversed(meta.snapshots.ids()):
            if proven and number in known:
                tagged = kept.get(number)
                kept[number] = tagged if tagged and metadata.identity_of(tagged) == known[number] else None
                continue
            with suppress(SnapshotNotFound):  # it has expired since it was listed
                found = kept[number] = meta.snapshots.get(number)
                proven = proven or known.get(number) == metadata.identity_of(found)
        return kept, {name: snapshot.id for name, snapshot in tags.items() if kept[snapshot.id] == snapshot}

    def _made(
        self, old: metadata.Metadata, kept: Mapping[int, Snapshot | None], todo: list[Snapshot]
    ) -> tuple[metadata.Metadata, list[dict]]:
        """The metadata with the schemas of new snapshots, and these snapshots."""
        meta = self.meta if len(todo) <= 1 else self.meta.with_empty_cache()
        new = {snapshot.id for snapshot in todo}
        states = {
            one["snapshot-id"]: one for one in old["snapshots"] if one["snapshot-id"] in kept and one["snapshot-id"] not in new
        }
        content, next_row, made = old, old["next-row-id"], []
        for snapshot in todo:
            base = max((number for number in states if number < snapshot.id), default=None)
            try:
                view = View.of(Version.at(meta, snapshot))
            except InvalidOption:
                continue
            before = None if base is None else View.of(Version.at(meta, kept[base] or meta.snapshots.get(base)))
            content, order = metadata.with_schema(content, view.version.schema)
            there = Manifests() if base is None else published.manifests_of(self.meta, states[base])
            try:
                with meta.snapshots.unless_expired(snapshot):
                    one = Step(meta, self.put, view, before, there, order, next_row).snapshot()
            except InvalidSchema:
                if self.whole and snapshot is todo[-1]:
                    raise
                continue  # no reader of Iceberg could read it
            states[snapshot.id] = one
            made.append(one)
            next_row += one["added-rows"]
        return content, made

    def _unnamed(self, before: metadata.Metadata, after: metadata.Metadata) -> list[str]:
        """The paths of the files of snapshots that are not named any more, and which no other snapshot needs."""
        stay = {one["manifest-list"] for one in after["snapshots"]}
        gone = [one for one in before["snapshots"] if one["manifest-list"] not in stay]
        if not gone:
            return []
        kept = published.manifests_by_uri(self.meta, after["snapshots"])
        lost = {uri: one for uri, one in published.manifests_by_uri(self.meta, gone).items() if uri not in kept}
        vectors = {uri: point for manifest in lost.values() for uri, point in published.vectors_of(self.meta, manifest)}
        for manifest in kept.values():
            if any(manifest.span.has(point) for point in vectors.values()):
                for uri, _ in published.vectors_of(self.meta, manifest):
                    vectors.pop(uri, None)
        return [path_of(self.meta, uri) for uri in (*(one["manifest-list"] for one in gone), *lost, *vectors)]

    def put(self, name: str, data: bytes) -> str:
        """Write a file of the metadata; returns its URI."""
        path = self.meta.paths.iceberg(name)
        self.written.append(path)
        self.meta.files.write(path, data)
        return uri_of(self.meta, path)
