"""Makes the snapshots of Iceberg that a publication adds, line by line, the oldest first: for each its vectors, manifests,
manifest list and metadata.

Each snapshot follows the newest older snapshot on its line; the first snapshot of a branch follows the snapshot of the table at
which the branch begins. Only the changes of a snapshot are written (`iceberg_view`); the rest is inherited.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from lsmlake.errors import Corrupt, InvalidOption, InvalidSchema
from lsmlake.format import puffin
from lsmlake.format.data_files import DataFile, VectorRef
from lsmlake.format.snapshot import COMPACT, Snapshot
from lsmlake.iceberg import table_metadata
from lsmlake.iceberg.avro import DATA, EQUALITY_DELETES, POSITION_DELETES
from lsmlake.iceberg.entries import Entry, EntryKey, Made, Point, SnapshotNumbers, VectorPlace
from lsmlake.iceberg.iceberg_manifests import ChangeSummary, EntryChange, ManifestFiles, SnapshotManifests, changed
from lsmlake.iceberg.iceberg_view import IcebergView, Touched, touched
from lsmlake.iceberg.lineage import Line
from lsmlake.iceberg.published import entries_of, is_of, list_bytes, manifest_bytes, manifests_of, path_of, uri_of
from lsmlake.iceberg.schemas import check_promotions
from lsmlake.tables.version import Metadata, Version


@dataclass
class Additions:
    """`content`: the metadata, which gets the schemas of the snapshots. `put`: writes a file of the metadata; returns its URI.
    `whole`: whether the newest snapshot of the table must be published. `made`: the new snapshots."""

    meta: Metadata
    content: table_metadata.Metadata
    put: Callable[[str, bytes], str]
    whole: bool
    made: list[dict] = field(default_factory=list)

    def add(self, lines: Sequence[Line]) -> None:
        """Adds the snapshots that the metadata lacks. Snapshots that Iceberg cannot express and damaged snapshots are left out.

        Raises:
            InvalidSchema: with `whole`, the newest snapshot of the table has files of a type that Iceberg does not widen.
            Corrupt: with `whole`, the newest snapshot of the table is damaged; or the metadata is.
        """
        known = table_metadata.published(self.content)
        read = [(line, one) for line in lines for _, one in sorted(line.kept.items()) if one is not None]
        todo = [(line, one) for line, one in read if known.get(line.id_of(one.id)) != table_metadata.identity_of(one)]
        new = {line.id_of(one.id) for line, one in todo}
        published = {one["snapshot-id"]: one for one in self.content["snapshots"] if one["snapshot-id"] not in new}
        files = self.meta if len(todo) <= 1 else self.meta.with_empty_cache()
        newest = max((one.id for line, one in todo if line is lines[0]), default=None)
        for line, snapshot in todo:
            try:
                published_snapshot = self._sound(files, lines[0], line, snapshot, published)
            except InvalidOption:
                continue
            except (InvalidSchema, Corrupt) as failed:  # no reader of Iceberg could read the snapshot
                if is_of(self.meta, failed.where) or (self.whole and line is lines[0] and snapshot.id == newest):
                    raise
                continue
            published[published_snapshot["snapshot-id"]] = published_snapshot
            self.made.append(published_snapshot)

    def _sound(self, files: Metadata, main: Line, line: Line, snapshot: Snapshot, published: Mapping[int, Mapping]) -> dict:
        try:
            return self._made(files, main, line, snapshot, published)
        except Corrupt as damaged:
            if is_of(self.meta, damaged.where):
                raise
            return self._made(files, main, line, snapshot, {})  # the snapshot before it may be the damaged one

    def _made(self, files: Metadata, main: Line, line: Line, snapshot: Snapshot, published: Mapping[int, Mapping]) -> dict:
        view, schema_id = IcebergView.of(Version.at(files if line is main else line.meta, snapshot)), snapshot.schema_id
        before, parent = None, None
        if (base := _before(main, line, snapshot.id, published)) is not None:
            of, last = base
            before = IcebergView.of(Version.at(files if of is main else of.meta, of.kept[last] or of.meta.snapshots.get(last)))
            parent = published[of.id_of(last)]
        if line is main:
            content, order = table_metadata.with_schema(self.content, view.version.schema)
        else:
            content, schema_id, order = table_metadata.with_branch_schema(self.content, view.version.schema, line.common)
        number = SnapshotNumbers(line.id_of(snapshot.id), max(snapshot.id, self._last_sequence() + 1))
        with line.meta.snapshots.unless_expired(snapshot):
            published_snapshot = Step(files, self.put, view, before, parent, number, schema_id, order, self.next_row).snapshot()
        self.content = content
        return published_snapshot

    @property
    def next_row(self) -> int:
        """The first unused row id."""
        last = self.made[-1] if self.made else None
        return self.content["next-row-id"] if last is None else last["first-row-id"] + last["added-rows"]

    def _last_sequence(self) -> int:
        return self.made[-1]["sequence-number"] if self.made else self.content["last-sequence-number"]


def _before(main: Line, line: Line, number: int, published: Mapping[int, Mapping]) -> tuple[Line, int] | None:
    """The line and the number of the newest older snapshot in the metadata: on the same line, or on the table's line up to the
    snapshot at which the line begins."""
    for of, last in ((line, number - 1), (main, line.begins)):
        last_published = max((one for one in of.kept if one <= last and of.id_of(one) in published), default=None)
        if last_published is not None:
            return of, last_published
    return None


# -- one snapshot -----------------------------------------------------------------------------------------------------


class Step(NamedTuple):
    """Makes one snapshot.

    Attributes:
        meta: the table.
        put: writes a file of the metadata by its name; returns its URI.
        view: the snapshot.
        before: the snapshot that it follows in the metadata; None: it is the first.
        parent: `before` in the metadata.
        number: the id and the sequence number of the snapshot.
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
        differing = touched(self.before, self.view)
        change, rows = self._change(differing)
        self._check_types()
        files = ManifestFiles(lambda uri: entries_of(meta, uri), self._put_manifest)
        manifests = SnapshotManifests() if self.parent is None else manifests_of(meta, self.parent)
        where = "" if self.parent is None else path_of(meta, self.parent["manifest-list"])
        manifests, summary = changed(
            manifests, change, replace(self.view.version.schema, id=self.schema_id), number, files, where
        )
        parent = {} if self.parent is None else {"parent-snapshot-id": self.parent["snapshot-id"]}
        header = {
            "snapshot-id": str(number.id),
            "parent-snapshot-id": str(parent.get("parent-snapshot-id", "null")),
            "sequence-number": str(number.sequence),
            "first-row-id": str(self.next_row),
        }
        uri = self.put(f"snap-{number.id}-{meta.env.ids()}.avro", manifests.encode(header))
        meta.files.cache.put(path_of(meta, uri), manifests, list_bytes)
        return {
            "snapshot-id": number.id,
            **parent,
            "sequence-number": number.sequence,
            "timestamp-ms": snapshot.time_ms,
            "manifest-list": uri,
            "summary": self._summary(summary, manifests, self._shows_the_same(differing)),
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
        """Writes the vector of each file that has one to a Puffin file: DuckDB 1.5 mixes up the vectors of a Puffin file."""
        places_of_files = []
        vectors = self.view.vectors([(one.bucket, one.after) for one in files], self.view.version.vector_refs())
        for one in files:
            if one.after.name in vectors:
                of = self._uri(one)
                data, places = puffin.encode({of: vectors[one.after.name]})
                uri = self.put(f"dv-{self.view.version.number}-{self.meta.env.ids()}.puffin", data)
                places_of_files.append((one, VectorPlace(uri, len(data), *places[of])))
        return places_of_files

    def _uri(self, one: Touched) -> str:
        return uri_of(self.meta, self.meta.paths.data(one.file))

    def _put_manifest(self, data: bytes, entries: list[Entry]) -> str:
        meta = self.meta
        uri = self.put(f"manifest-{meta.env.ids()}.avro", data)
        meta.files.cache.put(path_of(meta, uri), entries, manifest_bytes)
        return uri

    def _shows_the_same(self, files: Sequence[Touched]) -> bool:
        """Whether readers see the rows of the snapshot before: this is a compaction of it, which took no hidden rows and
        dropped none."""
        snapshot, before = self.view.version.snapshot, self.before
        if snapshot.kind != COMPACT or before is None or before.version.number != snapshot.id - 1:
            return False
        if not all(one.before is None or before.shows(one.before) for one in files):
            return False
        expires = any(view.version.options.retention.rows_ms is not None for view in (before, self.view))
        return not expires or self._rows_kept(files)

    def _rows_kept(self, files: Sequence[Touched]) -> bool:
        """Whether as many rows are visible as before, so the compaction has dropped none by `record-level.expire-time`. False
        also if level 0 superseded some."""
        old, new = self.before.version.vector_refs(), self.view.version.vector_refs()
        return _live_rows((one.before for one in files), old) == _live_rows((one.after for one in files), new)

    def _summary(self, done: ChangeSummary, manifests: SnapshotManifests, shows_the_same: bool) -> dict[str, str]:
        """`shows_the_same`: only then readers may skip the snapshot, as they skip those of the operation "replace"."""
        snapshot = self.view.version.snapshot
        plain = not done.removed and set(done.added) <= {DATA}
        if shows_the_same:
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
            table_metadata.COMMIT: table_metadata.identity_of(snapshot),
            table_metadata.SNAPSHOT: str(snapshot.id),
            "engine-name": "lsmlake",
        }
        totals = {name: str(count) for name, count in manifests.totals().items()}
        prefix = table_metadata.SUMMARY
        told = {name.removeprefix(prefix): value for name, value in snapshot.properties.items() if name.startswith(prefix)}
        return {**told, "operation": operation, **nonzero, **totals, **identity}


def _live_rows(files: Iterable[DataFile | None], refs: Mapping[str, VectorRef]) -> int:
    return sum(one.rows - (refs[one.name].cardinality if one.name in refs else 0) for one in files if one is not None)


def _point(one: Touched) -> Point:
    file = one.before or one.after
    return Point(one.bucket.number, file.sequence)
