"""The history of a table: its snapshots, newest first, page by page, with the tags, branches and consumers at them; and the row
changes of one commit.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import closing
from itertools import pairwise
from typing import Any

import pyarrow as pa

from lsmlake.api.table import Table
from lsmlake.errors import LakeError, SnapshotNotFound
from lsmlake.format.snapshot import Snapshot
from lsmlake.kernels.interval_text import with_texts
from lsmlake.read.limit import first_rows
from lsmlake.schema.values import is_number, texts
from lsmlake.tables.consumers import consumers
from lsmlake.tables.version import Metadata
from lsmlake.types.type_text import format_type_of

PAGE = 200
"""Snapshots of one answer."""
OUTLINE = 200
"""Snapshots of an outline."""
ROWS_MAX = 100
_CELL_MAX = 2_000


def history(table: Table, before: int | None = None, limit: int = PAGE) -> dict[str, Any]:
    """The newest retained snapshots, or those before a snapshot.

    Args:
        table: the table or branch.
        before: only snapshots with smaller numbers.
        limit: how many at most.
    """
    meta = table.meta
    ids = meta.snapshots.ids()
    page = [number for number in ids if before is None or number < before][-limit:]
    marks = marks_of(meta)
    by_snapshot: dict[int, list[dict[str, Any]]] = {}
    for mark in marks:
        by_snapshot.setdefault(mark["snapshot"], []).append({"kind": mark["kind"], "name": mark["name"]})
    rows = [row for number in reversed(page) if (row := _row(meta, number, by_snapshot.get(number, []))) is not None]
    return {"ranges": ranges(ids), "count": len(ids), "rows": rows, "older": bool(page) and page[0] > ids[0], "marks": marks}


def outline(table: Table, most: int = OUTLINE) -> dict[str, Any]:
    """The rows of a table over all of its retained snapshots, of which at most `most` are read: evenly spaced ones, the first and
    the last among them."""
    ids = table.meta.snapshots.ids()
    places = sorted({place * (len(ids) - 1) // (most - 1) for place in range(most)}) if len(ids) > most else range(len(ids))
    rows = (_row(table.meta, ids[place], []) for place in places)
    points = [{name: row[name] for name in ("snapshot", "time_ms", "rows")} for row in rows if row and "error" not in row]
    return {"count": len(ids), "points": points}


def _row(meta: Metadata, number: int, marks: list[dict[str, Any]]) -> dict[str, Any] | None:
    """None: it has expired meanwhile."""
    try:
        snapshot = meta.snapshots.get(number)
    except SnapshotNotFound:
        return None
    except LakeError as broken:
        return {"snapshot": number, "error": str(broken), "marks": marks}
    return {**snapshot_row(snapshot), "marks": marks}


def snapshot_row(snapshot: Snapshot) -> dict[str, Any]:
    """A snapshot for JSON."""
    return {
        "snapshot": snapshot.id,
        "kind": snapshot.kind,
        "time_ms": snapshot.time_ms,
        "writer": snapshot.writer_id,
        "commit": snapshot.commit_id,
        "schema": snapshot.schema_id,
        "written": snapshot.delta_rows,
        "rows": snapshot.total_rows,
        "changelog": snapshot.changelog_rows,
        "restores": snapshot.restores,
    }


def ranges(ids: Iterable[int]) -> list[list[int]]:
    """Ascending numbers as ranges [first, last], both inclusive."""
    ordered = list(ids)
    starts = [ordered[0], *(after for before, after in pairwise(ordered) if after > before + 1)] if ordered else []
    ends = [*(before for before, after in pairwise(ordered) if after > before + 1), ordered[-1]] if ordered else []
    return [list(both) for both in zip(starts, ends, strict=True)]


def marks_of(meta: Metadata) -> list[dict[str, Any]]:
    """The tags, branches and consumers of a table, by snapshot. A consumer is at the last snapshot that it has read; 0: it has
    read none. Those that cannot be read are left out: `Table.tags` and its like say why."""
    found = [{"kind": "tag", "name": tag.name, "snapshot": tag.snapshot.id} for tag in meta.tags.readable()]
    try:
        branches = meta.branches.all() if meta.paths.branch is None else {}
        found += [
            {"kind": "branch", "name": name, "snapshot": info.base.id if info.base else 0} for name, info in branches.items()
        ]
    except LakeError as broken:
        found.append({"kind": "branch", "name": str(broken), "snapshot": 0})
    try:
        found += [
            {"kind": "consumer", "name": one.name, "snapshot": max(0, one.progress.next_snapshot - 1)} for one in consumers(meta)
        ]
    except LakeError as broken:
        found.append({"kind": "consumer", "name": str(broken), "snapshot": 0})
    return sorted(found, key=lambda mark: (mark["snapshot"], mark["kind"], mark["name"]))


def commit_changes(table: Table, snapshot: int) -> dict[str, Any]:
    """The first row changes of one commit.

    If the snapshot before it has expired, so that nothing is left to compare with, these are the rows that the commit wrote.

    Raises:
        SnapshotNotFound: the snapshot is not retained.
    """
    taken = table.meta.snapshots.get(snapshot)
    by_diff = snapshot == 1 or table.meta.snapshots.is_kept(snapshot - 1)
    changes = table.changes(snapshot - 1, snapshot, mode="diff" if by_diff else "delta")
    with closing(changes.to_batches()) as reader:
        tables = (pa.Table.from_batches([batch]) for batch in reader)
        rows = pa.concat_tables([reader.schema.empty_table(), *first_rows(tables, ROWS_MAX + 1)])
    more = rows.num_rows > ROWS_MAX
    return {"commit": snapshot_row(taken), "by": "diff" if by_diff else "delta", **cells(rows.slice(0, ROWS_MAX)), "more": more}


def cells(rows: pa.Table) -> dict[str, Any]:
    """Rows for a page: the columns, and each row as a list of texts; null is None. Long values are cut, which a mark shows."""
    shown = with_texts(rows)
    columns = [{"name": field.name, "type": format_type_of(field), "number": is_number(field.type)} for field in rows.schema]
    values = [[None if value is None else _cut(value) for value in texts(column)] for column in shown.columns]
    return {"columns": columns, "rows": [list(row) for row in zip(*values, strict=True)], "count": rows.num_rows}


def _cut(text: str) -> str:
    return text if len(text) <= _CELL_MAX else f"{text[:_CELL_MAX]}… ({len(text):,} characters)"
