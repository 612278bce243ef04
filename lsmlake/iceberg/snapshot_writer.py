"""Makes one snapshot of Iceberg from a snapshot of the table: vectors, manifests, manifest list, metadata.

Only what the snapshot changes is written (`changes`); the rest is inherited from the snapshot before it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import NamedTuple

from lsmlake.format import puffin
from lsmlake.format.snapshot import COMPACT
from lsmlake.iceberg import metadata
from lsmlake.iceberg.avro import DATA, EQUALITY_DELETES, POSITION_DELETES
from lsmlake.iceberg.changes import IcebergView, Touched, touched
from lsmlake.iceberg.entries import Entry, EntryKey, Made, Point, SnapshotNumbers, VectorPlace
from lsmlake.iceberg.manifests import ChangeSummary, EntryChange, ManifestFiles, SnapshotManifests, changed
from lsmlake.iceberg.published import entries_of, list_bytes, manifest_bytes, manifests_of, path_of, uri_of
from lsmlake.iceberg.schemas import check_promotions
from lsmlake.tables.metadata import Metadata


class Step(NamedTuple):
    """Makes one snapshot.

    Attributes:
        meta: the table.
        put: writes a file of the metadata by its name; returns its URI.
        view: the snapshot.
        before: the snapshot that it follows in the metadata; None: it is the first.
        parent: `before` in the metadata.
        number: what the snapshot is called.
        schema_id: the id of its schema.
        order: the id of the order of its rows.
        next_row: the first row id that no row has yet.
    """

    meta: Metadata
    put: Callable[[str, bytes], str]
    view: IcebergView
    before: IcebergView | None
    parent: Mapping | None
    number: SnapshotNumbers
    schema_id: int
    order: int
    next_row: int

    def snapshot(self) -> dict:
        snapshot, meta, number = self.view.version.snapshot, self.meta, self.number
        change, rows = self._change(touched(self.before, self.view))
        self._check_types()
        files = ManifestFiles(lambda uri: entries_of(meta, uri), self._put_manifest)
        there = SnapshotManifests() if self.parent is None else manifests_of(meta, self.parent)
        where = "" if self.parent is None else path_of(meta, self.parent["manifest-list"])
        there, summary = changed(there, change, replace(self.view.version.schema, id=self.schema_id), number, files, where)
        parent = {} if self.parent is None else {"parent-snapshot-id": self.parent["snapshot-id"]}
        header = {
            "snapshot-id": str(number.id),
            "parent-snapshot-id": str(parent.get("parent-snapshot-id", "null")),
            "sequence-number": str(number.sequence),
            "first-row-id": str(self.next_row),
        }
        uri = self.put(f"snap-{number.id}-{meta.env.ids()}.avro", there.encode(header))
        meta.files.cache.put(path_of(meta, uri), there, list_bytes)
        return {
            "snapshot-id": number.id,
            **parent,
            "sequence-number": number.sequence,
            "timestamp-ms": snapshot.time_ms,
            "manifest-list": uri,
            "summary": self._summary(summary, there),
            "schema-id": self.schema_id,
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

    def _change(self, files: list[Touched]) -> tuple[EntryChange, int]:
        """The entries that the snapshot adds and removes, and the number of rows that it adds."""
        view, before = self.view, self.before
        refs = view.version.vector_refs()
        old_refs = {} if before is None else before.version.vector_refs()
        made = Made(view.version.schema, self.number)
        added: list[tuple[Entry, int]] = []
        removed: dict[EntryKey, Point] = {}
        masked: list[Touched] = []
        next_row = self.next_row
        for one in files:
            bucket, uri = one.bucket, self._uri(one)
            shown, was_shown = view.shows(one.after), before is not None and before.shows(one.before)
            deletes, deleted = view.deletes_older(one.after), before is not None and before.deletes_older(one.before)
            if was_shown and not shown:
                removed[EntryKey(DATA, uri)] = _point(one)
            if deleted and not deletes:
                removed[EntryKey(EQUALITY_DELETES, uri)] = _point(one)
            if shown and not was_shown:
                added.append((made.data(uri, bucket, one.after, next_row, self.order), bucket.spec))
                next_row += one.after.rows
            if deletes and not deleted:
                added.append((made.equality_deletes(uri, bucket, one.after), bucket.spec))
            hides = shown and (refs.get(one.after.name), view.hides_deletes(one.after))
            hid = was_shown and (old_refs.get(one.before.name), before.hides_deletes(one.before))
            if hides != hid:
                if hid and any(hid):
                    removed[EntryKey(POSITION_DELETES, uri)] = _point(one)
                if hides and any(hides):
                    masked.append(one)
        added += [
            (made.vector(self._uri(one), one.bucket, one.after, place), one.bucket.spec) for one, place in self._vectors(masked)
        ]
        return EntryChange(added, removed), next_row - self.next_row

    def _vectors(self, files: list[Touched]) -> list[tuple[Touched, VectorPlace]]:
        """Write the vector of each file that has one to a Puffin file: DuckDB 1.5 mixes up the vectors of a Puffin file."""
        found = []
        vectors = self.view.vectors([(one.bucket, one.after) for one in files], self.view.version.vector_refs())
        for one in files:
            if one.after.name in vectors:
                of = self._uri(one)
                data, places = puffin.encode({of: vectors[one.after.name]})
                uri = self.put(f"dv-{self.view.version.number}-{self.meta.env.ids()}.puffin", data)
                found.append((one, VectorPlace(uri, len(data), *places[of])))
        return found

    def _uri(self, one: Touched) -> str:
        return uri_of(self.meta, self.meta.paths.data(one.file))

    def _put_manifest(self, data: bytes, found: list[Entry]) -> str:
        meta = self.meta
        uri = self.put(f"manifest-{meta.env.ids()}.avro", data)
        meta.files.cache.put(path_of(meta, uri), found, manifest_bytes)
        return uri

    def _summary(self, done: ChangeSummary, there: SnapshotManifests) -> dict[str, str]:
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
        nonzero = {name: str(count) for name, count in counts.items() if count}
        identity = {
            metadata.COMMIT: metadata.identity_of(snapshot),
            metadata.SNAPSHOT: str(snapshot.id),
            "engine-name": "lsmlake",
        }
        totals = {name: str(count) for name, count in there.totals().items()}
        return {"operation": operation, **nonzero, **totals, **identity}


def _point(one: Touched) -> Point:
    file = one.before or one.after
    return Point(one.bucket.number, file.sequence)
