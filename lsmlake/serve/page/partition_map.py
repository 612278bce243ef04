"""The files of a table at one snapshot, summed by partition, and one by one inside a partition: what a treemap shows.

The largest are returned one by one, the others as sums of some of similar size, so that an answer stays small and still has all
files in it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lsmlake.api.table import Table
from lsmlake.format.manifest import files_of
from lsmlake.serve.page.shown_files import KnownFiles, ShownFiles, short_key

_PARTS_MAX, _GROUPS_MAX = 1_000, 100
"""Up to so many parts are returned one by one. If there are more, so many groups of the smallest are among them."""


def partition_map(
    known: KnownFiles, table: Table, snapshot: int | None = None, partition: str | None = None, search: str = ""
) -> dict[str, Any]:
    """The partitions of a table; with `partition`, the files of this one.

    Args:
        known: what is known of the files of tables.
        table: the table.
        snapshot: its number; None: the newest.
        partition: the partition whose files to list, as text; "" is the only one of a table without partitions.
        search: only partitions whose text has this in it.

    Raises:
        InvalidQuery: the partition has no files.
        SnapshotNotFound: the snapshot is not retained.
    """
    files = known.at(table, snapshot)
    answer = {
        "snapshot": files.version.number or None,
        "partition": partition,
        "search": search,
        "partitioned": bool(files.partitions) and files.partitions[0] is not None,
        "total": _sums(files, np.arange(len(files.names))),
        "partitions": len(files.partitions),
    }
    if partition is not None:
        return answer | _files(files, files.of_partition(files.place_of(partition or None)))
    return answer | _partitions(files, search.strip().lower())


def _sums(files: ShownFiles, rows: np.ndarray) -> dict[str, int]:
    level0 = rows[files.waits[rows]]
    return {
        "files": len(rows),
        "bytes": int(files.bytes[rows].sum()),
        "rows": int(files.rows[rows].sum()),
        "dead": int(files.dead[rows].sum()),
        "level0_rows": int(files.rows[level0].sum()),
    }


def _partitions(files: ShownFiles, search: str) -> dict[str, Any]:
    count = len(files.partitions)
    sums = {
        "files": np.bincount(files.partition, minlength=count),
        "bytes": _added(files.partition, files.bytes, count),
        "rows": _added(files.partition, files.rows, count),
        "dead": _added(files.partition, files.dead, count),
        "level0_rows": _added(files.partition[files.waits], files.rows[files.waits], count),
    }
    found = [place for place in range(count) if search in (files.partitions[place] or "").lower()]
    shown, groups = _shown(np.array(found, np.int64))
    parts = [{"name": files.partitions[at] or "", **{name: int(of[at]) for name, of in sums.items()}} for at in shown.tolist()]
    rest = [{"count": len(group), **{name: int(of[group].sum()) for name, of in sums.items()}} for group in groups]
    return {"parts": parts, "rest": rest, "found": len(found)}


def _shown(ordered: np.ndarray) -> tuple[np.ndarray, list[np.ndarray]]:
    """Those that are returned one by one, and the groups of the others. `ordered`: the largest first."""
    if len(ordered) <= _PARTS_MAX:
        return ordered, []
    single = _PARTS_MAX - _GROUPS_MAX
    return ordered[:single], np.array_split(ordered[single:], _GROUPS_MAX)


def _added(places: np.ndarray, values: np.ndarray, count: int) -> np.ndarray:
    """The sums of whole numbers by place, exact."""
    sums = np.zeros(count, np.int64)
    np.add.at(sums, places, values)
    return sums


def _files(files: ShownFiles, rows: np.ndarray) -> dict[str, Any]:
    rows = rows[np.argsort(-files.bytes[rows], kind="stable")]
    shown, groups = _shown(rows)
    listed = files_of(files.entries.take(shown), files.version.schema, statistics=False)
    parts = [
        {
            "name": file.name,
            "bucket": bucket.number,
            "level": file.level,
            "files": 1,
            "bytes": file.bytes,
            "rows": file.rows,
            "dead": int(files.dead[row]),
            "level0_rows": file.rows if files.waits[row] else 0,
            "created_ms": file.created_ms,
            "min": short_key(file.min_key) if file.min_key else None,
            "max": short_key(file.max_key) if file.max_key else None,
        }
        for row, (bucket, _, file) in zip(shown.tolist(), listed, strict=True)
    ]
    rest = [{"count": len(group), **_sums(files, group)} for group in groups]
    return {"parts": parts, "rest": rest, "found": len(rows), "inside": _sums(files, rows)}
