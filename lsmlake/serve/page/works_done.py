"""The compactions of a table and other works that removed files, with write amplification."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from lsmlake.api.table import Table
from lsmlake.errors import LakeError, SnapshotNotFound
from lsmlake.maintain.work_history import WorkHistory, WorkRecord, of_commit
from lsmlake.serve.page.shown_files import LastUsed

_SNAPSHOTS_MAX = 200


class _Commit(NamedTuple):
    """What a snapshot did. `work`: None if it removed no file; `brought`: the rows that its writer brought."""

    work: WorkRecord | None
    brought: int = 0


@dataclass
class Compactions:
    """The works of tables. Those of a snapshot are kept, because reading its manifests takes milliseconds."""

    _kept: LastUsed = field(default_factory=lambda: LastUsed(20_000))

    def of(self, table: Table) -> dict[str, Any]:
        """The works of a table: those that maintainers recorded, and those that its newest snapshots show, oldest first.

        `amplification`: the rows that the newest snapshots wrote to files, per row that their writers brought.
        """
        meta, ids = table.meta, table.meta.snapshots.ids()
        recorded = WorkHistory(meta.env).of(meta.paths.line)
        told = {one.snapshot_id for one in recorded}
        looked = {number: self._of_snapshot(table, number) for number in ids[-_SNAPSHOTS_MAX:]}
        works = [(one, 0) for one in recorded]
        works += [(one.work, one.brought) for number, one in looked.items() if one.work is not None and number not in told]
        works.sort(key=lambda one: (one[0].end_ms, one[0].snapshot_id or 0))
        brought = sum(one.brought for one in looked.values())
        written = sum(one.brought if one.work is None else one.work.rows or 0 for one in looked.values())
        done = [one for one, _ in works if one.error is None]
        return {
            "works": [record_row(*one) for one in works],
            "looked": len(looked),
            "snapshots": len(ids),
            "bytes_in": sum(one.bytes_in or 0 for one in done),
            "bytes_out": sum(one.bytes_out or 0 for one in done),
            "amplification": written / brought if brought else None,
        }

    def _of_snapshot(self, table: Table, number: int) -> _Commit:
        meta = table.meta
        try:
            snapshot = meta.snapshots.get(number)
            key = meta.paths.line, number, snapshot.delta_manifest_list.name
            with meta.snapshots.unless_expired(snapshot):
                return self._kept.get(key, lambda: _Commit(of_commit(meta, table.name, snapshot), snapshot.delta_rows))
        except SnapshotNotFound:
            return _Commit(None)
        except LakeError as broken:
            return _Commit(WorkRecord(table.name, "look", None, None, 0, number, error=str(broken)))


def record_row(record: WorkRecord, brought: int = 0) -> dict[str, Any]:
    """A piece of work that was done, for JSON.

    `amplification`: bytes written per byte taken from level 0; of a compaction that is a part of a write, rows written per row
    that the writer `brought`; null of other works.
    """
    amplification = None
    if record.bytes_level0 and record.bytes_out is not None:
        amplification = record.bytes_out / record.bytes_level0
    elif brought and record.rows is not None:
        amplification = record.rows / brought
    return {
        "table": record.table,
        "kind": record.kind,
        "reason": record.reason,
        "start_ms": record.start_ms,
        "end_ms": record.end_ms,
        "snapshot": record.snapshot_id,
        "rows": record.rows,
        "bytes_in": record.bytes_in,
        "bytes_level0": record.bytes_level0,
        "bytes_out": record.bytes_out,
        "files_in": record.files_in,
        "files_out": record.files_out,
        "amplification": amplification,
        "who": record.who,
        "error": record.error,
    }
