"""Compares the Iceberg metadata of a table with the table, for `maintain.verify`.

The published state is read only from the metadata files. The expected state comes from the live set of the table's snapshot of
the same number, whereas the publisher computes it from the changes between snapshots. The check compares files, sequence numbers,
rows, partitions, bounds, deletes, positions of vectors, row ids, schemas, specs and references. Every named file must exist;
`maintain.verify` checks the files of the table's snapshots. Metadata that lags behind the table is logged, not reported.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import pairwise
from typing import NamedTuple

from lsmlake.errors import InvalidOption, LakeError, MissingDependency, SnapshotNotFound
from lsmlake.format import manifest, puffin
from lsmlake.format.data_files import Bucket, DataFile, VectorRef
from lsmlake.format.deletion_vector import DeletionVector
from lsmlake.format.snapshot import Snapshot
from lsmlake.iceberg import published, table_metadata
from lsmlake.iceberg.avro import DATA, EQUALITY_DELETES, POSITION_DELETES
from lsmlake.iceberg.check_files import PlacedFile, PublishedFiles, damage, guarded, read_vectors
from lsmlake.iceberg.entries import EntryKey, Point, key_of
from lsmlake.iceberg.iceberg_view import IcebergView
from lsmlake.iceberg.lineage import branches_of, id_on, tag_on, tags_of
from lsmlake.iceberg.published import Current, Newest, name_of, path_of, uri_of
from lsmlake.iceberg.schemas import binary, schema_json, spec_json
from lsmlake.schema.schema import Schema
from lsmlake.tables.finding import Finding, finding
from lsmlake.tables.version import Metadata, Version
from lsmlake.types.type_table import number_of

_log = logging.getLogger("lsmlake.iceberg")

_LOOKS = 3
_CONTENTS = {DATA: "a data file", EQUALITY_DELETES: "an equality-delete file", POSITION_DELETES: "a vector"}


def iceberg_findings(meta: Metadata, progress: Callable[[str], None]) -> list[Finding]:
    """Returns the findings about the Iceberg metadata; costs one request if the table has none. Starts again if the metadata is
    published meanwhile."""
    folder = meta.paths.iceberg("")[:-1]
    if next(iter(meta.env.storage.list(folder)), None) is None:
        return []
    findings: list[Finding] = []
    for _ in range(_LOOKS):
        try:
            newest = published.newest(meta)
            findings = [*_of_files(meta, newest)]
            if newest is not None:
                current = Current(newest.number, published.content(meta, newest.number))
                findings += _Check(meta, current, progress).run()
            if not findings or published.newest(meta) == newest:
                return findings
        except MissingDependency as missing:
            _log.warning("%s: its Iceberg metadata was not verified: %s", meta.paths.root, missing)
            return []
        except LakeError as broken:
            return [finding(folder, broken)]
    return findings


def _of_files(meta: Metadata, newest: Newest | None) -> Iterator[Finding]:
    """The findings about the hint and about older metadata files."""
    path, last = meta.paths.iceberg(published.HINT), 0 if newest is None else newest.number
    hint = published.hint(meta) if newest is None else newest.hint
    if hint is None:
        yield damage(path, "the hint of the Iceberg metadata is missing, or it is no number", last, "none")
    elif hint > max(last, 1):  # the first publisher writes 1 before the file
        yield damage(meta.paths.iceberg(name_of(hint)), "the metadata file that the hint names is missing", "a file", "none")
    elif hint < last:  # a publisher died before it wrote the hint
        _log.info("%s: the hint of its Iceberg metadata lags behind", meta.paths.root)
    for number in published.numbers(meta):
        if number < last:
            yield from guarded(meta.paths.iceberg(name_of(number)), partial(_readable, meta, number))


def _readable(meta: Metadata, number: int) -> Iterator[Finding]:
    published.content(meta, number)
    yield from ()


class Facts(NamedTuple):
    """The statements of an entry about its file on which readers depend."""

    sequence: int
    rows: int
    bytes: int
    spec: int
    partition: tuple
    equality_ids: tuple[int, ...] = ()


class TableFile(NamedTuple):
    """A file of the table that entries name."""

    bucket: Bucket
    file: DataFile
    vector: VectorRef | None
    hides_deletes: bool


class _Check:
    def __init__(self, meta: Metadata, newest: Current, progress: Callable[[str], None]) -> None:
        self.meta, self.content, self.progress = meta, newest.content, progress
        self.path = meta.paths.iceberg(name_of(newest.number))
        self.files = PublishedFiles(meta, progress)
        self.vectors: dict[tuple, list[Finding]] = {}
        self.missing: dict[str, bool] = {}
        self.places = _places(meta)

    def run(self) -> Iterator[Finding]:
        meta = self.meta
        try:
            if self.content["location"] != uri_of(meta, meta.paths.root):
                _log.info("%s: its Iceberg metadata is that of before it was renamed or moved", meta.paths.root)
                return
            snapshots = table_metadata.ours(self.content)
            others = [one["snapshot-id"] for one in self.content["snapshots"] if one not in snapshots]
        except (LookupError, TypeError) as broken:
            yield damage(self.path, "Iceberg metadata is malformed", "", repr(broken))
            return
        if others:
            yield damage(self.path, "another program has committed to the Iceberg metadata of the table", "none", others)
        yield from guarded(self.path, self._metadata)
        for one in snapshots:
            self.progress(self.path)
            yield from guarded(self.path, partial(self._snapshot, one))
        latest = meta.snapshots.latest_id()
        if latest is not None and latest not in {one.get("snapshot-id") for one in snapshots}:
            _log.info("%s: its Iceberg metadata lags behind snapshot %d", meta.paths.root, latest)

    # -- the metadata file --------------------------------------------------------------------------------------------

    def _metadata(self) -> Iterator[Finding]:
        content, damaged = self.content, partial(damage, self.path)
        ids = [one["snapshot-id"] for one in content["snapshots"]]
        if len(set(ids)) < len(ids):
            yield damaged("Iceberg metadata names a snapshot twice", "different ids", sorted(ids))
        for name, ref in content["refs"].items():
            if ref["snapshot-id"] not in ids:
                yield damaged(f"the reference {name!r} names no snapshot", f"one of {ids}", ref["snapshot-id"])
        current, main = content.get("current-snapshot-id"), content["refs"].get("main", {}).get("snapshot-id")
        if current != main:
            yield damaged("the current snapshot is not that of the branch main", main, current)
        sequences = [one["sequence-number"] for one in content["snapshots"]]
        if max(sequences, default=0) > content["last-sequence-number"]:
            yield damaged(
                "a snapshot has a greater sequence number than the last", content["last-sequence-number"], max(sequences)
            )
        schemas, specs = (
            {one[id] for one in content[name]} for name, id in (("schemas", "schema-id"), ("partition-specs", "spec-id"))
        )
        needed = {content["current-schema-id"], *(one["schema-id"] for one in content["snapshots"])}
        if needed - schemas or content["default-spec-id"] not in specs:
            yield damaged("Iceberg metadata lacks a schema or spec", sorted(needed), sorted(schemas))
        tags = {name: one.id for name, one in tags_of(self.meta).items() if name != "main"} | self._tags_of_branches()
        if tags != {name: ref["snapshot-id"] for name, ref in content["refs"].items() if ref["type"] == "tag"}:
            _log.info("%s: the tags in its Iceberg metadata lag behind", self.meta.paths.root)

    def _tags_of_branches(self) -> dict[str, int]:
        """The tags of published branches: name of the reference -> snapshot id."""
        expected = {}
        for on, state in branches_of(self.meta):
            branch, begins = on.paths.branch.name, 0 if state.base is None else state.base.id
            for tag, one in tags_of(on).items() if branch in self.content["refs"] else ():
                expected[tag_on(branch, tag)] = one.id if one.id <= begins else id_on(on, one.id)
        return expected

    # -- one snapshot -------------------------------------------------------------------------------------------------

    def _snapshot(self, one: Mapping) -> Iterator[Finding]:
        number = one["snapshot-id"]
        findings = list(self._of_snapshot(one))
        yield from (each._replace(snapshots=(number,)) for each in findings)

    def _of_snapshot(self, one: Mapping) -> Iterator[Finding]:
        listed = path_of(self.meta, one["manifest-list"])
        entries: dict[EntryKey, PlacedFile] = {}
        for record in self.files.listed(one["manifest-list"]):
            placed, findings = self.files.manifest(record)
            yield from findings
            for each in placed:
                key = key_of(each.entry)
                if key in entries:
                    yield damage(each.path, "a file is named twice in one snapshot", "one entry", key.uri)
                entries[key] = each
        yield from self._row_ids(listed, one, entries)
        version = self._in_table(one)
        if version is None:  # it has expired, and the metadata lags behind
            yield from self._missing(entries)
            return
        try:
            view = IcebergView.of(version)
        except InvalidOption as broken:
            yield finding(self.path, broken)
            return
        yield from self._schema(one, version)
        with version.unless_expired():
            yield from self._compared(listed, view, entries)

    def _in_table(self, one: Mapping) -> Version | None:
        """The snapshot of the table, or of a branch; None if it cannot be found any more."""
        identity = one["summary"][table_metadata.COMMIT]
        for meta, snapshot_or_number in self.places.get(one["snapshot-id"], ()):
            with suppress(SnapshotNotFound):
                snapshot = meta.snapshots.get(snapshot_or_number) if isinstance(snapshot_or_number, int) else snapshot_or_number
                if table_metadata.identity_of(snapshot) == identity:
                    return Version.at(meta, snapshot)
        return None

    def _row_ids(self, listed: str, one: Mapping, entries: Mapping[EntryKey, PlacedFile]) -> Iterator[Finding]:
        files = [placed.entry["data_file"] for key, placed in entries.items() if key.content == DATA]
        ids = sorted((file["first_row_id"], file["record_count"]) for file in files)
        if any(first + rows > following for (first, rows), (following, _) in pairwise(ids)):
            yield damage(listed, "row ids of two files overlap", "disjoint ranges", ids)
        next_row = self.content["next-row-id"]
        for placed in entries.values():
            file = placed.entry["data_file"]
            if file["content"] == DATA and file["first_row_id"] + file["record_count"] > next_row:
                yield damage(placed.path, "a row id is not before the next row id", next_row, file["first_row_id"])
        if one["first-row-id"] + one["added-rows"] > next_row:
            yield damage(self.path, "a row id is not before the next row id", next_row, one["first-row-id"] + one["added-rows"])

    def _missing(self, entries: Mapping[EntryKey, PlacedFile]) -> Iterator[Finding]:
        for key, placed in entries.items():
            file = placed.entry["data_file"]["file_path"]
            if file not in self.missing:
                path = path_of(self.meta, file) if key.content == POSITION_DELETES else self._data_path(file)
                self.missing[file] = path is None or self.meta.env.storage.size(path) is None
            if self.missing[file]:
                yield damage(placed.path, "Iceberg metadata names a file that is missing", _CONTENTS[key.content], file)

    def _data_path(self, uri: str) -> str | None:
        prefix = f"{self.content['location']}/"
        return f"{self.meta.paths.root}/{uri.removeprefix(prefix)}" if uri.startswith(prefix) else None

    def _schema(self, one: Mapping, version: Version) -> Iterator[Finding]:
        schema, snapshot = version.schema, version.snapshot
        published_schema = next((each for each in self.content["schemas"] if each["schema-id"] == one["schema-id"]), None)
        if published_schema != (expected := {**schema_json(schema), "schema-id": self._schema_id(one, schema)}):
            yield damage(self.path, "a snapshot has another schema", expected, published_schema)
        specs = {each["spec-id"]: each for each in self.content["partition-specs"]}
        for spec in schema.partitioning.specs:
            if specs.get(spec.id) != (expected := spec_json(spec)):
                yield damage(self.path, "Iceberg metadata has another partition spec", expected, specs.get(spec.id))
        if one["timestamp-ms"] != snapshot.time_ms:
            yield damage(self.path, "a snapshot has another time", snapshot.time_ms, one["timestamp-ms"])

    def _schema_id(self, one: Mapping, schema: Schema) -> int:
        """The id of a schema in the metadata. A schema of a branch may have another id than in the table."""
        return schema.id if one["snapshot-id"] < table_metadata.OF_BRANCHES else one["schema-id"]

    # -- the files of one snapshot ------------------------------------------------------------------------------------

    def _compared(self, listed: str, view: IcebergView, entries: Mapping[EntryKey, PlacedFile]) -> Iterator[Finding]:
        version, left = view.version, dict(entries)
        refs, ids = version.vector_refs(), version.schema.field_ids()
        equality = tuple(ids[name] for name in version.schema.key)
        for bucket, _, file in manifest.files_of(version.live(), version.schema):
            uri = uri_of(self.meta, self.meta.paths.data(file))
            one = TableFile(bucket, file, refs.get(file.name), view.hides_deletes(file))
            partition = tuple(map(number_of, bucket.partition))
            facts = Facts(file.sequence, file.rows, file.bytes, bucket.spec, partition)
            if view.shows(file):
                yield from self._entry(listed, left.pop(EntryKey(DATA, uri), None), EntryKey(DATA, uri), facts, one, version)
                vector = left.pop(EntryKey(POSITION_DELETES, uri), None)
                yield from self._vector(listed, vector, uri, one, view)
            if view.deletes_older(file):
                key = EntryKey(EQUALITY_DELETES, uri)
                facts = facts._replace(equality_ids=equality)
                yield from self._entry(listed, left.pop(key, None), key, facts, one, version)
        for key, placed in left.items():
            yield damage(placed.path, f"{_CONTENTS[key.content]} is published that the snapshot has not", "no entry", key.uri)

    def _entry(
        self, listed: str, placed: PlacedFile | None, key: EntryKey, expected: Facts, one: TableFile, version: Version
    ) -> Iterator[Finding]:
        if placed is None:
            yield damage(listed, f"{_CONTENTS[key.content]} of the snapshot is not published", key.uri, "no entry")
            return
        entry, file = placed.entry, placed.entry["data_file"]
        partition = tuple(map(number_of, file["partition"].values()))
        sizes = file["record_count"], file["file_size_in_bytes"]
        actual = Facts(entry["sequence_number"], *sizes, placed.spec, partition, tuple(file["equality_ids"] or ()))
        if actual != expected:
            yield damage(placed.path, f"the entry of {file['file_path']} is wrong", expected, actual)
        if entry["point"] != (point := Point(one.bucket.number, one.file.sequence)):
            yield damage(placed.path, f"the note beside the entry of {file['file_path']} is wrong", point, entry["point"])
        schemas = [version.schema, version.meta.schemas.get(one.file.schema_id)]
        if wrong := [*_wrong_bounds(file, one.file, schemas)]:
            yield damage(placed.path, f"statistics of {file['file_path']} are wrong", *wrong[0])

    def _vector(self, listed: str, placed: PlacedFile | None, uri: str, one: TableFile, view: IcebergView) -> Iterator[Finding]:
        if placed is None and (one.vector is None and not one.hides_deletes):
            return
        entry = None if placed is None else placed.entry["data_file"]
        place = None if entry is None else (entry["file_path"], entry["content_offset"], entry["content_size_in_bytes"])
        memo = (one.file.name, one.vector, one.hides_deletes, place)
        if memo not in self.vectors:
            where = listed if entry is None else path_of(self.meta, entry["file_path"])
            self.progress(where)
            check = partial(self._positions, listed, placed, uri, one, view)
            self.vectors[memo] = [*guarded(where, check)]
        yield from self.vectors[memo]

    def _positions(
        self, listed: str, placed: PlacedFile | None, uri: str, one: TableFile, view: IcebergView
    ) -> Iterator[Finding]:
        refs = {} if one.vector is None else {one.file.name: one.vector}
        expected = view.vectors([(one.bucket, one.file)], refs).get(one.file.name)
        if placed is None:
            if expected:
                yield damage(listed, f"the vector of {uri} is not published", f"{len(expected)} positions", "no entry")
            return
        file = placed.entry["data_file"]
        path = path_of(self.meta, file["file_path"])
        data, footer, vectors = read_vectors(self.meta, path)
        place = puffin.Blob(file["content_offset"], file["content_size_in_bytes"], file["record_count"])
        if (len(data), footer) != (file["file_size_in_bytes"], {uri: place}):
            yield damage(placed.path, "the entry of a vector is wrong", (len(data), footer), (file["file_size_in_bytes"], place))
        elif vectors[uri] != expected:
            yield damage(path, f"the vector marks other rows of {uri}", _positions(expected), _positions(vectors[uri]))
        if placed.entry["sequence_number"] < one.file.sequence:
            what = "a vector is older than its data file"
            yield damage(placed.path, what, f"{one.file.sequence} or more", placed.entry["sequence_number"])


def _places(meta: Metadata) -> dict[int, list[tuple[Metadata, Snapshot | int]]]:
    """Snapshot id -> the places of the snapshot: the table or a branch, and the number of a retained snapshot or a tagged one."""
    places: dict[int, list[tuple[Metadata, Snapshot | int]]] = {}
    lines = [(meta, 0)]
    for on, state in branches_of(meta):
        begins = 0
        if state.base is not None:
            begins = state.base.id
            places.setdefault(begins, []).append((meta, state.base))
        lines.append((on, begins))
    for on, begins in lines:
        for one in (*on.snapshots.ids(), *(tag.snapshot for tag in on.tags.readable())):
            number = one if isinstance(one, int) else one.id
            if number > begins:
                places.setdefault(id_on(on, number), []).append((on, one))
    return places


def _wrong_bounds(entry: Mapping, file: DataFile, schemas: Sequence[Schema]) -> Iterator[tuple[object, object]]:
    """Yields (expected bound, bound of the entry) where an entry differs from the statistics of its file.

    The bounds may have the type of any of `schemas`. Columns that the first schema lacks, because they were dropped later, are
    not compared: the table does not know their bounds."""
    types = {id: [] for id in schemas[0].field_ids().values()}
    for schema in schemas:
        for name, id in schema.field_ids().items():
            types.get(id, []).append(schema.columns.field(name).type)
    for pair in entry["null_value_counts"] or ():
        if pair["key"] in file.stats and pair["value"] != file.stats[pair["key"]].nulls:
            yield f"{file.stats[pair['key']].nulls} nulls of field {pair['key']}", pair["value"]
    for name, side in (("lower_bounds", "min"), ("upper_bounds", "max")):
        for pair in entry[name] or ():
            stats, known = file.stats.get(pair["key"]), types.get(pair["key"], ())
            value = None if stats is None else getattr(stats, side)
            if known and (value is None or pair["value"] not in [binary(value, kind) for kind in known]):
                yield f"{side} {value!r} of field {pair['key']}", pair["value"]


def _positions(vector: DeletionVector | None) -> str:
    marked = [] if vector is None else vector.positions().tolist()
    return f"{len(marked)} positions, {marked[:10]}"
