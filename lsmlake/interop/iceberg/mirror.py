"""Publishes a table as an Iceberg table of format version 3, which names the data files of the table where they lie.

    metadata/v<k>.metadata.json     created if absent: this publishes. The newest KEPT files stay
    metadata/version-hint.text      a number as text: where to begin the search for the newest one
    metadata/snap-<n>-<id>.avro     the manifest list of snapshot n
    metadata/manifest-<id>.avro     a manifest, written once (`manifests`)
    metadata/dv-<n>-<id>.puffin     a deletion vector that snapshot n changed

1. Find the newest metadata file, and the snapshots of the table that it lacks or that are gone.
2. For each new snapshot, oldest first: what it changed (`changes`), as vectors, entries and manifests.
3. Create the next metadata file. If another publisher came first, delete what this one wrote and begin again.
4. Delete the files of snapshots that the metadata does not name any more. Data files are deleted by the table, after this.

The vectors of Iceberg name their data file by its full URI, and a reader takes all vectors of a Puffin file, or the wrong one. So
the vectors are copied from those of the table, each to a file; together with them go the deletes among the rows of level 0.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import NamedTuple

from lsmlake.errors import CommitConflict, Corrupt, InvalidOption, InvalidSchema, SnapshotNotFound
from lsmlake.format import puffin
from lsmlake.format.snapshot import COMPACT, Snapshot
from lsmlake.interop.iceberg import entries, metadata
from lsmlake.interop.iceberg.avro import DATA, DELETED, EQUALITY_DELETES, POSITION_DELETES
from lsmlake.interop.iceberg.changes import Touched, View, touched
from lsmlake.interop.iceberg.entries import Entry, Key, Made, Place, Point
from lsmlake.interop.iceberg.manifests import Change, Files, Manifest, Manifests, Summary, changed
from lsmlake.interop.iceberg.schemas import check_promotions
from lsmlake.store.metadata import Metadata
from lsmlake.store.storage import read_bytes
from lsmlake.store.version import Version

_ATTEMPTS = 20
_FILE = re.compile(r"v([1-9][0-9]{0,17})\.metadata\.json")
_CURE = "delete the folder `metadata` of the table; the next publication makes it anew"


class Published(NamedTuple):
    """`metadata_file`: the URI of the newest metadata file. `content`: of it. `snapshots`: how many this publication added."""

    metadata_file: str
    content: metadata.Metadata
    snapshots: int


def is_published(meta: Metadata) -> bool:
    """Whether the table has Iceberg metadata."""
    return meta.env.storage.size(meta.paths.iceberg("version-hint.text")) is not None


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


class Current(NamedTuple):
    """The newest metadata file."""

    number: int
    content: metadata.Metadata


def current(meta: Metadata) -> Current | None:
    """The newest Iceberg metadata; None: there is none. Raises Corrupt."""
    storage, number = meta.env.storage, _hint(meta)
    if number is None or storage.size(meta.paths.iceberg(_name(number))) is None:
        listed = (_FILE.fullmatch(entry.path.rpartition("/")[2]) for entry in storage.list(meta.paths.iceberg("")[:-1]))
        number = max((int(found[1]) for found in listed if found), default=None)
        if number is None:
            return None
    while storage.size(meta.paths.iceberg(_name(number + 1))) is not None:
        number += 1
    path = meta.paths.iceberg(_name(number))
    try:
        return Current(number, json.loads(read_bytes(storage, path)))
    except ValueError as broken:
        raise Corrupt("Iceberg metadata cannot be read", where=path, found=repr(broken), cure=_CURE) from broken


def uri_of(meta: Metadata, path: str) -> str:
    """The address of a file in Iceberg metadata."""
    place = meta.env.storage.place(path)
    return place if "://" in place else f"file://{place}"


def manifests_of(meta: Metadata, snapshot: Mapping) -> Manifests:
    """The manifests of a snapshot of the metadata."""
    path = _path(meta, snapshot["manifest-list"])
    return meta.files.cache.get(path, lambda: Manifests.decode(_content(meta, path), path), _list_bytes)


def entries_of(meta: Metadata, uri: str) -> list[Entry]:
    """The entries of a manifest."""
    path = _path(meta, uri)
    return meta.files.cache.get(path, lambda: entries.decode(_content(meta, path), path), _manifest_bytes)


def _name(number: int) -> str:
    return f"v{number}.metadata.json"


def _hint(meta: Metadata) -> int | None:
    try:
        text = read_bytes(meta.env.storage, meta.paths.iceberg("version-hint.text"))
    except FileNotFoundError:
        return None
    return int(text) if text.isdigit() and len(text) < 19 else None


def _path(meta: Metadata, uri: str) -> str:
    return meta.paths.iceberg(uri.rpartition("/")[2])


def _content(meta: Metadata, path: str) -> bytes:
    try:
        return read_bytes(meta.env.storage, path)
    except FileNotFoundError as missing:
        raise Corrupt("Iceberg metadata is missing", where=path, cure=_CURE) from missing


def _list_bytes(found: Manifests) -> int:
    return 2048 * (1 + len(found.listed))


def _manifest_bytes(found: list[Entry]) -> int:
    return 4096 * (1 + len(found))


@dataclass
class _Attempt:
    """One attempt to publish; `whole` as in `publish`. `written`: the paths of the files that it wrote."""

    meta: Metadata
    whole: bool
    written: list[str] = field(default_factory=list)

    def run(self) -> Published | None:
        """None: another publisher came first."""
        meta = self.meta
        version = Version.latest(meta)
        if self.whole:
            View.of(version)
        before = current(meta)
        location = uri_of(meta, meta.paths.root)
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
            return Published(uri_of(meta, meta.paths.iceberg(_name(before.number))), content, 0)
        return self._put(before, content, len(made))

    def _put(self, before: Current | None, content: metadata.Metadata, made: int) -> Published | None:
        meta, number = self.meta, 1 if before is None else before.number + 1
        last = "" if before is None else uri_of(meta, meta.paths.iceberg(_name(before.number)))
        last_ms = 0 if before is None else before.content["last-updated-ms"]
        newest = max([last_ms, meta.env.clock(), *(one["timestamp-ms"] for one in content["snapshots"])])
        content = metadata.logged(content, last, last_ms, newest)
        path = meta.paths.iceberg(_name(number))
        written, self.written = self.written, []  # after a failure the metadata file may be there and name them
        if not meta.env.storage.put_if_absent(path, json.dumps(content).encode()):
            self.written = written
            return None
        with meta.env.storage.write(meta.paths.iceberg("version-hint.text")) as sink:
            sink.write(str(number).encode())
        gone = [] if before is None else self._unnamed(before.content, content)
        if number > metadata.KEPT:
            gone.append(meta.paths.iceberg(_name(number - metadata.KEPT)))
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
            there = Manifests() if base is None else manifests_of(self.meta, states[base])
            try:
                with meta.snapshots.unless_expired(snapshot):
                    one = _Step(self, view, before, there, order, next_row).snapshot()
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
        kept, lost = self._manifests(after["snapshots"]), self._manifests(gone)
        lost = {uri: one for uri, one in lost.items() if uri not in kept}
        vectors = {uri: point for manifest in lost.values() for uri, point in self._vectors(manifest)}
        for manifest in kept.values():
            if any(manifest.span.has(point) for point in vectors.values()):
                for uri, _ in self._vectors(manifest):
                    vectors.pop(uri, None)
        return [_path(self.meta, uri) for uri in (*(one["manifest-list"] for one in gone), *lost, *vectors)]

    def _manifests(self, snapshots: list[Mapping]) -> dict[str, Manifest]:
        """URI -> manifest of each of the snapshots."""
        return {one.record["manifest_path"]: one for each in snapshots for one in manifests_of(self.meta, each).listed}

    def _vectors(self, manifest: Manifest) -> list[tuple[str, Point]]:
        """The files of the live vectors of a manifest."""
        found = entries_of(self.meta, manifest.record["manifest_path"]) if manifest.has_deletes else []
        return [
            (entry["data_file"]["file_path"], entry["point"])
            for entry in found
            if entry["status"] != DELETED and entry["data_file"]["content"] == POSITION_DELETES
        ]

    def put(self, name: str, data: bytes) -> str:
        """Write a file of the metadata; returns its URI."""
        path = self.meta.paths.iceberg(name)
        self.written.append(path)
        self.meta.files.write(path, data)
        return uri_of(self.meta, path)


class _Step(NamedTuple):
    """Makes one snapshot. `before` and `there`: the snapshot that it follows in the metadata, and its manifests."""

    attempt: _Attempt
    view: View
    before: View | None
    there: Manifests
    order: int
    next_row: int

    def snapshot(self) -> dict:
        snapshot, meta = self.view.version.snapshot, self.attempt.meta
        change, rows = self._change(touched(self.before, self.view))
        self._check_types()
        files = Files(lambda uri: entries_of(meta, uri), self._put_manifest)
        there, summary = changed(self.there, change, self.view.version.schema, snapshot.id, files)
        parent = {} if self.before is None else {"parent-snapshot-id": self.before.version.number}
        header = {
            "snapshot-id": str(snapshot.id),
            "parent-snapshot-id": str(parent.get("parent-snapshot-id", "null")),
            "sequence-number": str(snapshot.id),
            "first-row-id": str(self.next_row),
        }
        uri = self.attempt.put(f"snap-{snapshot.id}-{meta.env.ids()}.avro", there.encode(header))
        meta.files.cache.put(_path(meta, uri), there, _list_bytes)
        return {
            "snapshot-id": snapshot.id,
            **parent,
            "sequence-number": snapshot.id,
            "timestamp-ms": snapshot.time_ms,
            "manifest-list": uri,
            "summary": self._summary(summary),
            "schema-id": self.view.version.schema.id,
            "first-row-id": self.next_row,
            "added-rows": rows,
        }

    def _check_types(self) -> None:
        """Raises InvalidSchema if live files have a type that Iceberg does not widen to the present one."""
        version = self.view.version
        if self.before is not None and self.before.version.schema.types_by_id == version.schema.types_by_id:
            return
        for id in version.live()["schema_id"].unique().to_pylist() if version.schema.id else ():
            check_promotions(version.meta.schemas.get(id), version.schema, version.meta.paths.root)

    def _change(self, files: list[Touched]) -> tuple[Change, int]:
        """The entries that the snapshot adds and removes, and the number of rows that it adds."""
        view, before = self.view, self.before
        refs = view.version.vector_refs()
        old_refs = {} if before is None else before.version.vector_refs()
        made = Made(view.version.schema, view.version.number)
        added: list[tuple[Entry, int]] = []
        removed: dict[Key, Point] = {}
        masked: list[Touched] = []
        next_row = self.next_row
        for one in files:
            bucket, uri = one.bucket, self._uri(one)
            shown, was_shown = view.shows(one.after), before is not None and before.shows(one.before)
            deletes, deleted = view.deletes_older(one.after), before is not None and before.deletes_older(one.before)
            if was_shown and not shown:
                removed[Key(DATA, uri)] = _point(one)
            if deleted and not deletes:
                removed[Key(EQUALITY_DELETES, uri)] = _point(one)
            if shown and not was_shown:
                added.append((made.data(uri, bucket, one.after, next_row, self.order), bucket.spec))
                next_row += one.after.rows
            if deletes and not deleted:
                added.append((made.equality_deletes(uri, bucket, one.after), bucket.spec))
            hides = shown and (refs.get(one.after.name), view.hides_deletes(one.after))
            hid = was_shown and (old_refs.get(one.before.name), before.hides_deletes(one.before))
            if hides != hid:
                if hid and any(hid):
                    removed[Key(POSITION_DELETES, uri)] = _point(one)
                if hides and any(hides):
                    masked.append(one)
        added += [
            (made.vector(self._uri(one), one.bucket, one.after, place), one.bucket.spec) for one, place in self._vectors(masked)
        ]
        return Change(added, removed), next_row - self.next_row

    def _vectors(self, files: list[Touched]) -> list[tuple[Touched, Place]]:
        """Write the vector of each file that has one to a Puffin file: DuckDB 1.5 mixes up the vectors of a Puffin file."""
        attempt, found = self.attempt, []
        vectors = self.view.vectors([(one.bucket, one.after) for one in files], self.view.version.vector_refs())
        for one in files:
            if one.after.name in vectors:
                of = self._uri(one)
                data, places = puffin.encode({of: vectors[one.after.name]})
                uri = attempt.put(f"dv-{self.view.version.number}-{attempt.meta.env.ids()}.puffin", data)
                found.append((one, Place(uri, len(data), *places[of])))
        return found

    def _uri(self, one: Touched) -> str:
        return uri_of(self.attempt.meta, self.attempt.meta.paths.data(one.file))

    def _put_manifest(self, data: bytes, found: list[Entry]) -> str:
        meta = self.attempt.meta
        uri = self.attempt.put(f"manifest-{meta.env.ids()}.avro", data)
        meta.files.cache.put(_path(meta, uri), found, _manifest_bytes)
        return uri

    def _summary(self, done: Summary) -> dict[str, str]:
        snapshot = self.view.version.snapshot
        plain = not done.removed and set(done.added) <= {DATA}
        if snapshot.kind == COMPACT:
            operation = "replace"
        elif plain:
            operation = "append"
        else:
            operation = "overwrite" if done.added.get(DATA) else "delete"
        counts = {
            "added-data-files": done.added.get(DATA, 0),
            "deleted-data-files": done.removed.get(DATA, 0),
            "added-delete-files": done.added.get(EQUALITY_DELETES, 0) + done.added.get(POSITION_DELETES, 0),
            "removed-delete-files": done.removed.get(EQUALITY_DELETES, 0) + done.removed.get(POSITION_DELETES, 0),
            "added-records": done.added_rows,
            "deleted-records": done.removed_rows,
        }
        told = {name: str(count) for name, count in counts.items() if count}
        identity = {metadata.COMMIT: metadata.identity_of(snapshot), "engine-name": "lsmlake"}
        return {"operation": operation, **told, **identity}


def _point(one: Touched) -> Point:
    file = one.before or one.after
    return Point(one.bucket.number, file.sequence)
