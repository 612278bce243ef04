"""What the page of a table shows on top: its definition and its size."""

from __future__ import annotations

from typing import Any

from lsmlake.api.table import Table
from lsmlake.report.summary import Summary
from lsmlake.serve.page.commit_timeline import marks_of, ranges, snapshot_row
from lsmlake.serve.page.shown_files import KnownFiles


def card(known: KnownFiles, table: Table) -> dict[str, Any]:
    """The definition of a table, its newest snapshot, and sums over its files.

    `live_rows`: rows at levels >= 1 that no vector marks; `waiting_rows`: rows at level 0 that a fresh read merges.
    """
    files = known.at(table, None)
    version, meta = files.version, table.meta
    definition = Summary(table.name, meta.paths.root, version.schema, None, {}, None).record()
    waits = files.waits
    dead, waiting = int(files.dead.sum()), int((files.rows[waits] - files.dead[waits]).sum())
    stored = int(files.rows.sum())
    return {
        **{name: definition[name] for name in ("name", "comment", "columns", "primary_key", "partition_by", "options")},
        "path": f"{meta.env.storage.root}/{meta.paths.root}",
        "append_only": version.schema.append_only,
        "snapshot": version.snapshot and snapshot_row(version.snapshot),
        "ranges": ranges(meta.snapshots.ids()),
        "marks": marks_of(meta),
        "files": len(files.names),
        "bytes": int(files.bytes.sum()),
        "stored_rows": stored,
        "live_rows": stored - dead - waiting,
        "dead_rows": dead,
        "waiting_rows": waiting,
        "partitions": len(files.partitions),
        "buckets": len(set(zip(files.partition.tolist(), files.buckets.tolist(), strict=True))),
    }
