"""The manifests of a snapshot of Iceberg. A manifest never changes; later snapshots name the unchanged manifests again.

A snapshot writes one manifest of the files that it adds, and rewrites the manifests that name a file that it removes. To find
these without reading all manifests, the manifest list notes for each manifest the range of bucket numbers and of sequence numbers
of its data files. Once `_MERGED` manifests have about the same size, they are merged, so an entry is rewritten only a few times;
a manifest has at most about `_ENTRIES` entries, so the cost of a change does not grow with the table.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pyarrow as pa

from lsmlake.errors import Corrupt
from lsmlake.iceberg import avro
from lsmlake.iceberg.avro import ADDED, CURE, DATA, DELETED, EXISTING, NOTES, partition_name
from lsmlake.iceberg.entries import Entry, EntryKey, Point, SnapshotNumbers, deleted, encode, existing, key_of
from lsmlake.iceberg.schemas import binary
from lsmlake.kernels import transforms
from lsmlake.schema.schema import Schema

_MERGED, _ENTRIES = 8, 1024


class Span(NamedTuple):
    """The range of the points of a manifest, inclusive."""

    bucket_min: int
    bucket_max: int
    sequence_min: int
    sequence_max: int

    def has(self, point: Point) -> bool:
        within = self.sequence_min <= point.sequence <= self.sequence_max
        return within and self.bucket_min <= point.bucket <= self.bucket_max

    @staticmethod
    def of(points: Collection[Point]) -> Span:
        buckets, sequences = [point.bucket for point in points], [point.sequence for point in points]
        return Span(min(buckets), max(buckets), min(sequences), max(sequences))


class Manifest(NamedTuple):
    """A manifest: its record in the manifest list, and the range of its points."""

    record: Mapping[str, Any]
    span: Span

    @property
    def live(self) -> int:
        return self.record["added_files_count"] + self.record["existing_files_count"]

    @property
    def live_rows(self) -> int:
        return self.record["added_rows_count"] + self.record["existing_rows_count"]

    @property
    def has_deletes(self) -> bool:
        return self.record["content"] != DATA

    @property
    def kind(self) -> tuple[bool, int]:
        """The kind of a manifest: only manifests of one kind can be merged."""
        return self.has_deletes, self.record["partition_spec_id"]


class SnapshotManifests(NamedTuple):
    """The manifests of a snapshot."""

    listed: tuple[Manifest, ...] = ()

    def encode(self, header: Mapping[str, str]) -> bytes:
        notes = json.dumps([one.span for one in self.listed])
        return avro.write_list([one.record for one in self.listed], {**header, NOTES: notes})

    def totals(self) -> dict[str, int]:
        """The totals over all files for the summary of the snapshot. Spark plans joins by the number of rows, including dead
        ones."""
        data = [one for one in self.listed if not one.has_deletes]
        return {
            "total-records": sum(one.live_rows for one in data),
            "total-data-files": sum(one.live for one in data),
            "total-delete-files": sum(one.live for one in self.listed if one.has_deletes),
        }

    @staticmethod
    def decode(data: bytes, where: str) -> SnapshotManifests:
        records, header = avro.read(data, where)
        spans = json.loads(header[NOTES])
        return SnapshotManifests(tuple(Manifest(record, Span(*span)) for record, span in zip(records, spans, strict=True)))


@dataclass(frozen=True)
class EntryChange:
    """The changes of a snapshot: the entries that it adds, and the keys of the entries that it removes, each with its point."""

    added: Sequence[tuple[Entry, int]] = ()
    """Each entry with its partition spec."""
    removed: Mapping[EntryKey, Point] = field(default_factory=dict)


class ManifestFiles(NamedTuple):
    """Reads the entries of a manifest by its URI, and writes a manifest, whose URI it returns."""

    read: Callable[[str], list[Entry]]
    put: Callable[[bytes, list[Entry]], str]


class ChangeSummary(NamedTuple):
    """The changes of a snapshot as counts, for its summary."""

    added: Mapping[int, int]
    removed: Mapping[int, int]
    added_rows: int
    removed_rows: int


def changed(
    before: SnapshotManifests, change: EntryChange, schema: Schema, number: SnapshotNumbers, files: ManifestFiles, where: str
) -> tuple[SnapshotManifests, ChangeSummary]:
    """The manifests of the snapshot of this number, which follows `before`.

    Raises:
        Corrupt: an entry to be removed is missing. `where`: the path of the manifest list `before`.
    """
    writer = _ManifestWriter(schema, number, files)
    missing = dict(change.removed)
    gone: list[Entry] = []
    kept, rewritten = [], []
    for one in before.listed:
        if not one.live:
            continue
        wanted = {key for key, point in missing.items() if (key.content != DATA) == one.kind[0] and one.span.has(point)}
        entries = [entry for entry in files.read(one.record["manifest_path"]) if entry["status"] != DELETED] if wanted else []
        left = [entry for entry in entries if key_of(entry) in wanted]
        if not left:
            kept.append(one)
            continue
        gone += left
        for entry in left:
            del missing[key_of(entry)]
        out = {key_of(entry) for entry in left}
        survivors = [deleted(entry, number.id) if key_of(entry) in out else existing(entry) for entry in entries]
        rewritten.append(writer.write(survivors, one.kind))
    if missing:
        expected = f"an entry of {next(iter(missing)).uri}"
        raise Corrupt("Iceberg metadata lacks a file of the table", where=where, expected=expected, found="none", cure=CURE)
    kept = _merged(kept, writer)
    made = []
    for kind in sorted({(_deletes(entry), spec) for entry, spec in change.added}):
        some = [entry for entry, spec in change.added if (_deletes(entry), spec) == kind]
        made += writer.write_sorted(some, kind)
    added = [entry for entry, _ in change.added]
    listed = sorted([*kept, *rewritten, *made], key=lambda one: one.record["content"])
    return SnapshotManifests(tuple(listed)), _summary(added, gone)


def _merged(manifests: list[Manifest], writer: _ManifestWriter) -> list[Manifest]:
    """The manifests after merging: manifests of about the same size are merged once there are many."""
    tiers: dict[tuple, list[Manifest]] = {}
    for one in manifests:
        tier = max(0, (one.live.bit_length() - 1) // 3)
        if one.live < _ENTRIES // 2:  # merged ones have more, so they are not written again for this
            tiers.setdefault((*one.kind, tier), []).append(one)
    due = [some for some in tiers.values() if len(some) >= _MERGED]
    merged = {one.record["manifest_path"] for some in due for one in some}
    manifests_after = [one for one in manifests if one.record["manifest_path"] not in merged]
    for some in due:
        read = (entry for one in some for entry in writer.files.read(one.record["manifest_path"]))
        manifests_after += writer.write_sorted([existing(entry) for entry in read if entry["status"] != DELETED], some[0].kind)
    return manifests_after


def _deletes(entry: Entry) -> bool:
    return entry["data_file"]["content"] != DATA


def _summary(added: Sequence[Entry], gone: Sequence[Entry]) -> ChangeSummary:
    counts = []
    for entries in (added, gone):
        contents = [entry["data_file"]["content"] for entry in entries]
        counts.append({content: contents.count(content) for content in set(contents)})
    rows = [sum(e["data_file"]["record_count"] for e in es if e["data_file"]["content"] == DATA) for es in (added, gone)]
    return ChangeSummary(counts[0], counts[1], rows[0], rows[1])


class _ManifestWriter(NamedTuple):
    schema: Schema
    number: SnapshotNumbers
    files: ManifestFiles

    def write_sorted(self, entries: list[Entry], kind: tuple[bool, int]) -> list[Manifest]:
        """Writes many entries, sorted, to few manifests, so that each manifest covers few buckets."""
        entries = sorted(entries, key=lambda entry: entry["point"])
        size = -(-len(entries) // -(-len(entries) // _ENTRIES))
        return [self.write(entries[start : start + size], kind) for start in range(0, len(entries), size)]

    def write(self, entries: list[Entry], kind: tuple[bool, int]) -> Manifest:
        deletes, spec = kind
        data = encode(self.schema, spec, entries, deletes=deletes)
        uri = self.files.put(data, entries)
        live = [entry for entry in entries if entry["status"] != DELETED]
        firsts = [entry["data_file"]["first_row_id"] for entry in live if not deletes]
        record = {
            "manifest_path": uri,
            "manifest_length": len(data),
            "partition_spec_id": spec,
            "content": int(deletes),
            "sequence_number": self.number.sequence,
            "min_sequence_number": min((entry["sequence_number"] for entry in live), default=self.number.sequence),
            "added_snapshot_id": self.number.id,
            "partitions": self._partitions(entries, spec),
            "key_metadata": None,
            "first_row_id": None if deletes else min(firsts, default=0),
        }
        for name, status in (("added", ADDED), ("existing", EXISTING), ("deleted", DELETED)):
            some = [entry["data_file"]["record_count"] for entry in entries if entry["status"] == status]
            record |= {f"{name}_files_count": len(some), f"{name}_rows_count": sum(some)}
        return Manifest(record, Span.of([entry["point"] for entry in entries]))

    def _partitions(self, entries: Sequence[Entry], spec: int) -> list[dict]:
        summaries = []
        for column in self.schema.partition_columns_of(spec):
            name = partition_name(column.name)
            values = [entry["data_file"]["partition"][name] for entry in entries]
            valid = [value for value in values if value is not None]
            type_ = pa.date32() if column.transform.name == transforms.DAY else column.type
            low, high = (binary(side(valid), type_) if valid else None for side in (min, max))
            summary = {"contains_null": len(valid) < len(values), "contains_nan": False}
            summaries.append({**summary, "lower_bound": low, "upper_bound": high})
        return summaries
