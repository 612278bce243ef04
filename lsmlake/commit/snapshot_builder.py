"""Builds a snapshot: writes its manifests, manifest lists and vector index, and returns the snapshot as a value.

A manifest of the same edits is written once for all attempts: a file inherits its sequence from the snapshot that adds it, so a
retry after a conflict writes only the lists.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

from lsmlake.commit.invariants import apply
from lsmlake.commit.replay import Identity
from lsmlake.format import manifest
from lsmlake.format.files import Bucket, BucketEdit, BucketState, CommitMessage
from lsmlake.format.manifest import ADD, DELETE, ManifestEntry, ManifestMeta
from lsmlake.format.snapshot import APPEND, COMPACT, OVERWRITE, Named, Snapshot
from lsmlake.schema.schema import Schema
from lsmlake.store.metadata import Metadata

_CLOCKS_DIFFER_MS = 60_000

_Written = TypeVar("_Written", Named, ManifestMeta)


class SnapshotBuilder:
    """Builds one snapshot per attempt to commit `messages`, written for `schema`. `remade`: visible rows may change."""

    def __init__(
        self,
        meta: Metadata,
        schema: Schema,
        messages: Sequence[CommitMessage],
        identity: Identity,
        properties: Mapping[str, str],
        remade: bool,
    ) -> None:
        self.meta, self.schema, self.messages, self.identity = meta, schema, messages, identity
        self.properties, self.remade = properties, remade
        self.manifests: dict[tuple, ManifestMeta] = {}  # by the identities of its edits, then "data" or "changelog"
        self.written: list[str] = []  # metadata of the current attempt

    def build(
        self, latest: Snapshot | None, schema_id: int, edits: tuple[BucketEdit, ...], states: Mapping[Bucket, BucketState]
    ) -> Snapshot:
        """Write all metadata that the snapshot after `latest` references; returns the snapshot, not yet published."""
        number = latest.id + 1 if latest else 1
        meta = self.meta
        delta = [self._manifest(edits)._replace(sequence=number)] if any(c.added or c.removed for c in edits) else []
        base = meta.manifest_metas(latest) if latest else ()
        base = self._merge_small(base, number)
        base_list = self._tracked(meta.put_manifest_list(base))
        delta_list = self._tracked(meta.put_manifest_list(delta))
        changelog = [self._changelog(edits)._replace(sequence=number)] if any(c.changelog for c in edits) else []
        index = latest.index_manifest if latest else None
        if any(edit.vectors or edit.removed for edit in edits):
            vectors = _index(meta.vector_refs(latest) if latest else {}, edits)
            if vectors or index:
                index = self._tracked(meta.put_index(vectors))
        rows = sum(message.rows for message in self.messages)
        writers, queries = (dict(latest.writers), dict(latest.queries)) if latest else ({}, {})
        if self.identity.commit_id is not None:
            writers[self.identity.writer_id] = self.identity.commit_id
            if self.identity.query or (self.identity.query == "" and self.identity.writer_id not in queries):
                queries[self.identity.writer_id] = self.identity.query
        return Snapshot(
            id=number,
            table_uuid=self.schema.table_uuid,
            schema_id=schema_id,
            base_manifest_list=base_list,
            delta_manifest_list=delta_list,
            index_manifest=index,
            writer_id=self.identity.writer_id,
            commit_id=self.identity.commit_id,
            kind=APPEND if rows else OVERWRITE if self.remade else COMPACT,
            time_ms=self._time_ms(latest),
            total_rows=(latest.total_rows if latest else 0) + sum(_growth(edit, states) for edit in edits),
            delta_rows=rows,
            changelog_manifest_list=self._tracked(meta.put_manifest_list(changelog)) if changelog else None,
            changelog_rows=sum(file.rows for edit in edits for file in edit.changelog),
            writers=writers,
            queries=queries,
            properties=dict(self.properties),
        )

    def _time_ms(self, latest: Snapshot | None) -> int:
        """The current time, but not before `latest`, since clocks differ a little. If they differ much, the storage's clock
        decides which one is wrong, so a snapshot dated years ahead does not determine the times of all that follow."""
        now_ms = self.meta.env.clock()
        if latest is None or latest.time_ms <= now_ms + _CLOCKS_DIFFER_MS:
            return max(now_ms, latest.time_ms if latest else 0)
        stored_ms = self.meta.stored_ms(latest.id)
        latest_is_wrong = stored_ms is not None and abs(stored_ms - now_ms) < abs(stored_ms - latest.time_ms)
        return now_ms if latest_is_wrong else latest.time_ms

    def _manifest(self, edits: tuple[BucketEdit, ...]) -> ManifestMeta:
        return self._once((*_identities(edits), "data"), _entries(edits))

    def _changelog(self, edits: tuple[BucketEdit, ...]) -> ManifestMeta:
        entries = [ManifestEntry(ADD, c.bucket, c.total_buckets, file) for c in edits for file in c.changelog]
        return self._once((*_identities(edits), "changelog"), entries)

    def _once(self, key: tuple, entries: list[ManifestEntry]) -> ManifestMeta:
        if key not in self.manifests:
            self.manifests[key] = self.meta.put_manifest(manifest.to_table(entries, self.schema), self.schema.id, 0)
        return self.manifests[key]

    def _merge_small(self, metas: Sequence[ManifestMeta], number: int) -> Sequence[ManifestMeta]:
        """Merge the small manifests at the end of the list into one, once there are `manifest.merge-min-count` of them."""
        options, small = self.schema.parsed_options, 0
        while small < len(metas) and metas[-1 - small].bytes < options.commit.manifest_target_bytes:
            small += 1
        if small < options.commit.manifest_merge_count:
            return metas
        kept, merged = metas[: len(metas) - small], metas[len(metas) - small :]
        table = manifest.merge((self.meta.entries(one, self.schema) for one in merged), self.schema)
        return (*kept, self._tracked(self.meta.put_manifest(table, self.schema.id, number))) if table.num_rows else kept

    def _tracked(self, file: _Written) -> _Written:
        self.written.append(self.meta.paths.manifest(file.name))
        return file

    def withdraw(self) -> None:
        """Delete the metadata of the current attempt, except the manifests of edits, which the next attempt can reuse."""
        self.meta.delete_quietly(self.written)
        self.written = []

    def unused(self, used: Sequence[BucketEdit]) -> list[str]:
        """The manifests that a snapshot of the edits `used` does not reference."""
        return [self.meta.paths.manifest(meta.name) for key, meta in self.manifests.items() if key[:-1] != _identities(used)]


def _identities(edits: Sequence[BucketEdit]) -> tuple[int, ...]:
    return tuple(map(id, edits))


def _entries(edits: Sequence[BucketEdit]) -> list[ManifestEntry]:
    """Removals come first, since an upgrade removes and adds the same file."""
    return [
        ManifestEntry(kind, edit.bucket, edit.total_buckets, file)
        for edit in edits
        for kind, files in ((DELETE, edit.removed), (ADD, edit.added))
        for file in files
    ]


def _index(before: Mapping[str, object], edits: Sequence[BucketEdit]) -> dict:
    removed = {file.name for edit in edits for file in edit.removed} - {file.name for edit in edits for file in edit.added}
    after = {name: ref for name, ref in before.items() if name not in removed}
    for edit in edits:
        after.update(edit.vectors)
    return after


def _growth(edit: BucketEdit, states: Mapping[Bucket, BucketState]) -> int:
    """The change in the number of live rows."""
    before = states.get(edit.bucket) or BucketState(edit.bucket, edit.total_buckets)
    if edit.base is None:
        return sum(file.rows for file in edit.added)
    return _live(apply(before, edit)) - _live(before)


def _live(state: BucketState) -> int:
    return sum(file.rows for file in state.files) - sum(ref.cardinality for ref in state.vectors.values())
