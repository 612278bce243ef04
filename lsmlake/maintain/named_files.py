"""Listings of the objects that are stored in one file each: snapshots, schemas, tags, branches and consumers.

A file that cannot be read, because it is damaged or of a newer format, is a row with its name or number, nulls, and the reason in
`error`. So it hides no other row. A call that needs the file raises the error, which then also names the cure.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any, NamedTuple

import pyarrow as pa

from lsmlake.errors import Corrupt, InvalidQuery, LakeError, SnapshotNotFound, UnsupportedFormat
from lsmlake.format.branch import BranchInfo
from lsmlake.format.snapshot import Snapshot
from lsmlake.format.tag import Tag
from lsmlake.options.option_types import duration
from lsmlake.storage.concurrency import ahead
from lsmlake.tables.consumers import consumer_names, read_consumer
from lsmlake.tables.version import Metadata

_TIME = pa.timestamp("ms", "UTC")
_NAMES = pa.list_(pa.string())
_TEXTS = pa.map_(pa.string(), pa.string())
_Column = tuple[pa.DataType, Callable[[Any], object]]


class _Listed(NamedTuple):
    """A file that was listed. `content`: None if it cannot be read; then `error` says why."""

    name: str | int
    content: object
    error: LakeError | None = None


def _listed(meta: Metadata, names: Iterable[str | int], read: Callable[[str | int], object]) -> Iterator[_Listed]:
    """Reads files. Those that are deleted meanwhile, for which `read` returns None or raises SnapshotNotFound, are left out."""

    def one(name: str | int) -> Generator[_Listed]:
        with suppress(SnapshotNotFound):
            try:
                content, error = read(name), None
            except (Corrupt, UnsupportedFormat) as broken:
                content, error = None, broken
            if content is not None or error is not None:
                yield _Listed(name, content, error)

    return ahead(map(one, names), meta.env.storage.at_once)


def _table(name: str, type_: pa.DataType, listed: Iterable[_Listed], columns: Mapping[str, _Column]) -> pa.Table:
    """One row per file. `columns`: the type of each column, and a function from the content of the file to its value."""
    rows = list(listed)
    values = {
        column: pa.array([None if row.content is None else of(row.content) for row in rows], kind)
        for column, (kind, of) in columns.items()
    }
    errors = [row.error and _reason(row.error) for row in rows]
    return pa.table({name: pa.array([row.name for row in rows], type_), **values, "error": pa.array(errors, pa.string())})


def _reason(error: LakeError) -> str:
    """The message without the cure, which the command line words differently."""
    return str(LakeError(error.what, where=error.where, expected=error.expected, found=error.found))


def _all_snapshots(meta: Metadata, last: int | None = None) -> list[_Listed]:
    ids = meta.snapshots.ids()
    return list(_listed(meta, ids if last is None else ids[-last:], meta.snapshots.get))


def snapshots(meta: Metadata, last: int | None = None) -> pa.Table:
    """One row per retained snapshot, ascending; with `last` of only that many, the newest."""
    if last is not None and (not isinstance(last, int) or isinstance(last, bool) or last < 1):
        raise InvalidQuery("last is not a number of snapshots", expected="1 or more", found=last, cure="correct last")
    columns: dict[str, _Column] = {
        "schema_id": (pa.int64(), lambda s: s.schema_id),
        "writer_id": (pa.string(), lambda s: s.writer_id),
        "commit_id": (pa.int64(), lambda s: s.commit_id),
        "commit_kind": (pa.string(), lambda s: s.kind),
        "commit_time": (_TIME, lambda s: s.time_ms),
        "total_record_count": (pa.int64(), lambda s: s.total_rows),
        "delta_record_count": (pa.int64(), lambda s: s.delta_rows),
        "changelog_record_count": (pa.int64(), lambda s: s.changelog_rows),
        "watermark": (pa.int64(), lambda s: s.watermark),
        "base_manifest_list": (pa.string(), lambda s: s.base_manifest_list.name),
        "delta_manifest_list": (pa.string(), lambda s: s.delta_manifest_list.name),
        "changelog_manifest_list": (pa.string(), lambda s: s.changelog_manifest_list and s.changelog_manifest_list.name),
        "index_manifest": (pa.string(), lambda s: s.index_manifest and s.index_manifest.name),
        "statistics": (pa.string(), lambda s: s.statistics and s.statistics.name),
        "properties": (_TEXTS, lambda s: list(s.properties.items())),
    }
    return _table("snapshot_id", pa.int64(), _all_snapshots(meta, last), columns)


def history(meta: Metadata) -> pa.Table:
    """One row per retained snapshot, ascending, with the names and meanings of Apache Iceberg.

    `parent_id`: the snapshot whose rows it builds on, for a rollback its target. `is_current_ancestor`: whether the newest
    snapshot builds on it; null if a snapshot in between cannot be read.
    """
    rows = _all_snapshots(meta)
    parents = {row.name: _parent(row.content) for row in rows if row.content is not None}
    ancestors, number = set(), rows[-1].name if rows else None
    while number in parents:
        ancestors.add(number)
        number = parents[number]
    broken = number if number in {row.name for row in rows} else 0  # what is older than that may be an ancestor or not

    def is_ancestor(snapshot: Snapshot) -> bool | None:
        return True if snapshot.id in ancestors else None if snapshot.id < broken else False

    columns: dict[str, _Column] = {
        "made_current_at": (_TIME, lambda s: s.time_ms),
        "parent_id": (pa.int64(), _parent),
        "is_current_ancestor": (pa.bool_(), is_ancestor),
    }
    return _table("snapshot_id", pa.int64(), rows, columns)


def _parent(snapshot: Snapshot) -> int | None:
    return snapshot.restores or (snapshot.id - 1) or None


def schemas(meta: Metadata) -> pa.Table:
    """One row per schema, ascending; those after the one in effect are not published."""
    meta.files.first_schema()
    uncached = meta.with_empty_cache()  # a schema that loses its race is deleted, and its number used again
    columns: dict[str, _Column] = {
        "fields": (pa.string(), lambda s: ", ".join(f"{field.name} {field.type}" for field in s.columns)),
        "partition_keys": (_NAMES, lambda s: list(s.partition_by)),
        "primary_keys": (_NAMES, lambda s: list(s.primary_key)),
        "options": (_TEXTS, lambda s: list(s.options.items())),
        "comment": (pa.string(), lambda s: s.comment),
        "update_time": (_TIME, lambda s: s.time_ms),
    }
    return _table("schema_id", pa.int64(), _listed(meta, meta.schemas.ids(), uncached.schemas.get), columns)


def tags(meta: Metadata) -> pa.Table:
    """One row per tag, ordered by snapshot, then by name. `branches`: the branches that were created from the tag."""
    meta.files.first_schema()
    rows = [_Listed(*row) for row in meta.tags.listed()]
    rows.sort(key=lambda row: (row.content is None, row.content and row.content.snapshot.id))
    begun = _all_branches(meta) if meta.paths.branch is None else []

    def branches_of(tag: Tag) -> list[str | int]:
        return [
            row.name for row in begun if row.content and row.content.base and _origin(row.content) == (tag.name, tag.snapshot.id)
        ]

    columns: dict[str, _Column] = {
        "snapshot_id": (pa.int64(), lambda t: t.snapshot.id),
        "schema_id": (pa.int64(), lambda t: t.snapshot.schema_id),
        "commit_time": (_TIME, lambda t: t.snapshot.time_ms),
        "record_count": (pa.int64(), lambda t: t.snapshot.total_rows),
        "create_time": (_TIME, lambda t: t.create_time_ms),
        "time_retained": (pa.string(), lambda t: None if t.time_retained_ms is None else duration.text(t.time_retained_ms)),
        "branches": (_NAMES, branches_of),
    }
    return _table("tag_name", pa.string(), rows, columns)


def _origin(branch: BranchInfo) -> tuple[str | None, int]:
    """The tag that a branch was created from, and its snapshot."""
    return branch.tag, branch.base.id


def _all_branches(meta: Metadata) -> list[_Listed]:
    rows = list(_listed(meta, meta.branches.names(), meta.branches.read))
    known = meta.branches.by_new_name({row.name: row.content for row in rows if row.content is not None})
    return [row for row in rows if row.content is None or row.name in known]


def branches(meta: Metadata) -> pa.Table:
    """One row per branch of the table, ordered by name. `created_from_snapshot`: where the branch begins; null: without rows."""
    columns: dict[str, _Column] = {
        "created_from_snapshot": (pa.int64(), lambda info: info.base and info.base.id),
        "created_from_tag": (pa.string(), lambda info: info.tag),
        "create_time": (_TIME, lambda info: info.time_ms),
    }
    return _table("branch_name", pa.string(), _all_branches(meta.on(None)), columns)


def consumers(meta: Metadata) -> pa.Table:
    """One row per consumer, ordered by name."""
    meta.files.first_schema()
    columns: dict[str, _Column] = {
        "next_snapshot_id": (pa.int64(), lambda c: c.progress.next_snapshot),
        "reads_in_full": (pa.bool_(), lambda c: c.progress.full),
        "last_progress": (_TIME, lambda c: c.modified_ms),
    }
    times = consumer_names(meta)
    return _table("consumer_id", pa.string(), _listed(meta, times, lambda name: read_consumer(meta, name, times[name])), columns)
