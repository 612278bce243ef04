"""Builds a snapshot: writes its manifests, manifest lists and vector index, and returns the snapshot as a value.

A manifest of the same edits is written once for all attempts: a file inherits its sequence from the snapshot that adds it, so a
retry after a conflict writes only the lists.

The manifests of a table, and the index manifests of its vectors, are logs: a commit appends a part, and readers fold all parts.
`full_tail` chooses the parts to merge, so that a commit costs the same however many commits and files there are. Parts are
merged by size, as the runs of a size-tiered LSM tree: each tier holds parts up to eight times larger than the one before it,
and a tier that is full becomes one part. So an entry is written once per tier, and n commits leave O(log n) parts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import TypeVar

from lsmlake.commit.request import Request
from lsmlake.commit.requirements import apply
from lsmlake.format import manifest
from lsmlake.format.data_files import Bucket, BucketEdit, BucketState, VectorRef
from lsmlake.format.deletion_vector import IndexManifest, IndexPart, VectorChanges, merged
from lsmlake.format.manifest import ADD, DELETE, ManifestEntry, ManifestMeta
from lsmlake.format.snapshot import ANALYZE, APPEND, COMPACT, OVERWRITE, NamedFile, Snapshot
from lsmlake.lsm.event_time import watermark
from lsmlake.schema.schema import Schema
from lsmlake.tables import live as live_set
from lsmlake.tables.manifests import Manifests
from lsmlake.tables.version import Metadata

_CLOCKS_DIFFER_MS = 60_000
_DEAD_MIN = 1_000  # from this many entries of removed files on, all manifests are merged

_Written = TypeVar("_Written", NamedFile, ManifestMeta)


class SnapshotBuilder:
    """Builds one snapshot per attempt to commit `request`, whose messages were written for `schema`. If the request has no
    statistics, those of the preceding snapshot stay."""

    def __init__(self, meta: Metadata, schema: Schema, request: Request) -> None:
        self.meta, self.schema, self.request = meta, schema, request
        self.files = meta.files.gathering()
        self.stored = Manifests(self.files)
        self.manifests: dict[tuple, ManifestMeta] = {}  # by the identities of its edits, then "data" or "changelog"
        self.edits: list[tuple[BucketEdit, ...]] = []  # of `manifests`: kept alive, so that their `id` stays unique
        self.written: list[str] = []  # metadata of the current attempt
        self.withdrawn: list[str] = []  # metadata of the attempts before, to be deleted at the end
        self.unwritten: dict[str, bytes] = {}  # those of `manifests` that the attempts before have not written
        self.taken = 0  # the last number that is known to be taken without a snapshot

    def build(
        self, latest: Snapshot | None, schema: Schema, edits: tuple[BucketEdit, ...], states: Mapping[Bucket, BucketState]
    ) -> Snapshot:
        """Returns the snapshot after `latest`, and holds all metadata that it references ready for `write`. `schema`: the schema
        in effect from this snapshot on, which can be newer than that of the messages."""
        number = self._number(latest)
        delta = [self._manifest(edits)._replace(sequence=number)] if any(c.added or c.removed for c in edits) else []
        base = self.stored.metas(latest) if latest else ()
        base = self._merged(base, schema, number)
        base_list = self._tracked(self.stored.put_list(base))
        delta_list = self._tracked(self.stored.put_list(delta))
        changelog = [self._changelog(edits)._replace(sequence=number)] if any(c.changelog for c in edits) else []
        index = self._index(latest, edits)
        changelog_list = self._tracked(self.stored.put_list(changelog)) if changelog else None
        rows, identity = sum(message.rows for message in self.request.messages), self.request.identity
        writers, queries = (dict(latest.writers), dict(latest.queries)) if latest else ({}, {})
        if identity.commit_id is not None:
            writers[identity.writer_id] = identity.commit_id
            if identity.query or (identity.query == "" and identity.writer_id not in queries):
                queries[identity.writer_id] = identity.query
        return Snapshot(
            id=number,
            table_uuid=self.schema.table_uuid,
            schema_id=schema.id,
            base_manifest_list=base_list,
            delta_manifest_list=delta_list,
            index_manifest=index,
            writer_id=self.request.identity.writer_id,
            commit_id=self.request.identity.commit_id,
            kind=self._kind(rows),
            time_ms=self._time_ms(latest),
            total_rows=(latest.total_rows if latest else 0) + sum(_growth(edit, states) for edit in edits),
            delta_rows=rows,
            changelog_manifest_list=changelog_list,
            changelog_rows=sum(file.rows for edit in edits for file in edit.changelog),
            watermark=self._watermark(latest, schema, edits),
            statistics=self.request.statistics or (latest.statistics if latest else None),
            writers=writers,
            queries=queries,
            properties=dict(self.request.properties),
            last_rollback=latest.newest_rollback if latest else None,
            position=self.request.advance.after if self.request.advance else (latest.position if latest else None),
        )

    def restore(self, latest: Snapshot, schema_id: int, target: Snapshot) -> Snapshot:
        """The snapshot after `latest` with the files and vectors of `target`; its two manifest lists are held ready for `write`.
        The new snapshot still knows the last commit of each writer, so that no batch is applied again."""
        base_list = self._tracked(self.stored.put_list(self.stored.metas(target)))
        delta_list = self._tracked(self.stored.put_list(()))
        return Snapshot(
            id=self._number(latest),
            table_uuid=self.schema.table_uuid,
            schema_id=schema_id,
            base_manifest_list=base_list,
            delta_manifest_list=delta_list,
            index_manifest=target.index_manifest,
            writer_id=self.request.identity.writer_id,
            commit_id=self.request.identity.commit_id,
            kind=OVERWRITE,
            time_ms=self._time_ms(latest),
            total_rows=target.total_rows,
            delta_rows=0,
            watermark=target.watermark,
            statistics=target.statistics,
            writers=dict(latest.writers),
            queries=dict(latest.queries),
            properties=dict(self.request.properties),
            restores=target.id,
            last_rollback=latest.newest_rollback,
            position=target.position,
        )

    def write(self) -> None:
        """Writes the metadata of the current attempt, after which its snapshot can be published."""
        self.files.write_gathered()

    def _watermark(self, latest: Snapshot | None, schema: Schema, edits: tuple[BucketEdit, ...]) -> int | None:
        before, column = latest.watermark if latest else None, schema.parsed_options.tags.watermark_column
        return before if column is None else watermark(schema, column, edits, before)

    def _kind(self, rows: int) -> str:
        if self.request.remade:
            return OVERWRITE
        return APPEND if rows else COMPACT if self.request.statistics is None else ANALYZE

    def _number(self, latest: Snapshot | None) -> int:
        return 1 + max(latest.id if latest else 0, self.taken)

    def _time_ms(self, latest: Snapshot | None) -> int:
        """The current time, but not before `latest`, since clocks differ a little. If they differ much, the storage's clock
        decides which one is wrong, so a snapshot dated years ahead does not determine the times of all that follow."""
        now_ms = self.meta.env.clock()
        if latest is None or latest.time_ms <= now_ms + _CLOCKS_DIFFER_MS:
            return max(now_ms, latest.time_ms if latest else 0)
        stored_ms = self.meta.snapshots.stored_ms(latest.id)
        latest_is_wrong = stored_ms is not None and abs(stored_ms - now_ms) < abs(stored_ms - latest.time_ms)
        return now_ms if latest_is_wrong else latest.time_ms

    def _manifest(self, edits: tuple[BucketEdit, ...]) -> ManifestMeta:
        return self._once(edits, "data", _entries(edits))

    def _changelog(self, edits: tuple[BucketEdit, ...]) -> ManifestMeta:
        entries = [ManifestEntry(ADD, c.bucket, c.total_buckets, file) for c in edits for file in c.changelog]
        return self._once(edits, "changelog", entries)

    def _once(self, edits: tuple[BucketEdit, ...], what: str, entries: list[ManifestEntry]) -> ManifestMeta:
        key = (*map(id, edits), what)
        if key not in self.manifests:
            self.edits.append(edits)
            self.manifests[key] = self.stored.put(manifest.to_table(entries, self.schema), self.schema, 0)
        meta = self.manifests[key]
        path = self.meta.paths.manifest(meta.name)
        if path in self.unwritten:
            self.files.gathered[path] = self.unwritten.pop(path)
        return meta

    def _merged(self, metas: Sequence[ManifestMeta], schema: Schema, number: int) -> Sequence[ManifestMeta]:
        """Merges manifests at the end of the list if they fill a tier; all if most of their entries are of files that left, or if
        the request says so."""
        options, manifests = schema.parsed_options.commit, self.stored
        groups = [list(group) for _, group in groupby(metas, key=lambda meta: meta.sequence)]  # one commit or merge wrote each
        sizes = [sum(meta.added + meta.deleted for meta in group) for group in groups]
        live = sum(meta.added - meta.deleted for meta in metas)
        tail = full_tail(sizes, options.manifest_merge_count)
        if self.request.merges_manifests or sum(sizes) - live > max(_DEAD_MIN, live):
            tail = len(groups)
        if not tail:
            return metas
        merged = [meta for group in groups[-tail:] for meta in group]
        kept = metas[: len(metas) - len(merged)]
        table = live_set.merge((manifests.entries(one, schema) for one in merged), schema, whole=not kept)
        if not table.num_rows:
            return kept
        entry_bytes = sum(meta.bytes for meta in merged) / sum(sizes[-tail:])
        rows = max(1, int(options.manifest_target_bytes / entry_bytes))
        if table.num_rows > rows:
            table = live_set.clustered(table, schema)
        parts = [table.slice(start, rows) for start in range(0, table.num_rows, rows)]
        return (*kept, *(self._tracked(manifests.put(part, schema, number)) for part in parts))

    def _index(self, latest: Snapshot | None, edits: Sequence[BucketEdit]) -> NamedFile | None:
        """Writes the changes of the vectors, if there are any; returns the index manifest of the new snapshot."""
        manifests, before = self.stored, latest.index_manifest if latest else None
        if not any(edit.vectors or edit.removed for edit in edits):
            return before
        changes = _changes(manifests.vector_refs(latest) if latest else {}, edits)
        if not changes:
            return before
        parts: tuple[IndexPart, ...] = ()
        if before is not None:
            index = manifests.index(before)
            parts = (*index.parts, IndexPart(*before, len(index.changes)))
        tail = full_tail([part.files for part in parts], self.schema.parsed_options.commit.manifest_merge_count)
        kept, taken = parts[: len(parts) - tail], parts[len(parts) - tail :]
        layers = [manifests.index(NamedFile(part.name, part.bytes)).changes for part in taken]
        changes = merged([*layers, changes])
        if not kept:
            changes = VectorChanges((name, ref) for name, ref in changes.items() if ref is not None)
        follows = None if before is None else before.name
        return self._tracked(manifests.put_index(IndexManifest(kept, follows, changes)))

    def _tracked(self, file: _Written) -> _Written:
        self.written.append(self.meta.paths.manifest(file.name))
        return file

    def withdraw(self) -> None:
        """Gives up the metadata of the current attempt, except the manifests of edits, which the next attempt can reuse."""
        gathered, manifests = dict(self.files.gathered), {self.meta.paths.manifest(meta.name) for meta in self.manifests.values()}
        self.files.gathered.clear()
        self.unwritten |= {path: data for path, data in gathered.items() if path in manifests}
        self.withdrawn += [path for path in self.written if path not in gathered]
        self.written = []

    def unused(self, used: Sequence[BucketEdit]) -> list[str]:
        """The files of attempts that were given up, and the manifests that a snapshot of the edits `used` does not reference."""
        other = (self.meta.paths.manifest(meta.name) for key, meta in self.manifests.items() if key[:-1] != _identities(used))
        return [*self.withdrawn, *(path for path in other if path not in self.unwritten)]


def _identities(edits: Sequence[BucketEdit]) -> tuple[int, ...]:
    return tuple(map(id, edits))


def _entries(edits: Sequence[BucketEdit]) -> list[ManifestEntry]:
    """Removals come first, since an upgrade removes and adds the same file. All entries of a file have one total, as
    they have one bucket, although a bucket that is split changes its total."""
    return [
        ManifestEntry(kind, edit.bucket, total, file)
        for edit in edits
        for kind, files, total in (
            (DELETE, edit.removed, (edit.base or edit).total_buckets),
            (ADD, edit.added, edit.total_buckets),
        )
        for file in files
    ]


def _changes(before: Mapping[str, VectorRef], edits: Sequence[BucketEdit]) -> VectorChanges:
    """The vectors that the edits add, and None for the files with a vector that they remove."""
    removed = {file.name for edit in edits for file in edit.removed} - {file.name for edit in edits for file in edit.added}
    changes = VectorChanges((name, None) for name in sorted(removed) if name in before)
    for edit in edits:
        changes.update(edit.vectors)
    return changes


def _growth(edit: BucketEdit, states: Mapping[Bucket, BucketState]) -> int:
    """The change in the number of live rows."""
    before = states.get(edit.bucket) or BucketState(edit.bucket, edit.total_buckets)
    if edit.base is None:
        return sum(file.rows for file in edit.added)
    return _live(apply(before, edit)) - _live(before)


def _live(state: BucketState) -> int:
    return sum(file.rows for file in state.files) - sum(ref.cardinality for ref in state.vectors.values())


_FIRST_TIER = 1_000  # entries; a part with fewer is cheap to write again
_FAN = 8


def full_tail(sizes: Sequence[int], most: int) -> int:
    """Returns how many parts at the end of the log to merge into one; 0: none.

    Args:
        sizes: The entries of each part, in commit order.
        most: The number of parts that fill the first tier. `_FAN` parts fill any other.
    """
    merged = tier = count = 0
    for number, size in enumerate(reversed(sizes), start=1):
        own = _tier(size)
        if own > tier:
            tier, count = own, 0
        count += own == tier
        if count >= (_FAN if tier else most):
            merged = number
    return merged


def _tier(entries: int) -> int:
    tier, end = 0, _FIRST_TIER
    while entries >= end:
        tier, end = tier + 1, end * _FAN
    return tier
