"""How metadata listings are shown: their columns and captions, by name. `--json` has all columns of the listing."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from lsmlake.report.listing import CellKind, Listing, ListingColumn
from lsmlake.report.text import counted, human_bytes, human_count, human_share

_ROOMY, _USUAL = 100, 70  # window widths from which optional columns are shown


class _Shown(NamedTuple):
    """A column: its title, and the column of the listing that it shows, or a function that returns its values."""

    title: str
    kind: CellKind
    values: str | Callable[[pa.Table], Sequence[object]]
    from_width: int = 0


class _Page(NamedTuple):
    """A listing. `noun`: the noun for a row. `none`: the caption without rows. `more`: text that the caption adds to the row
    count."""

    noun: str
    none: str
    columns: tuple[_Shown, ...]
    more: Callable[[pa.Table], str] = lambda table: ""
    plural: str = ""


def _keys(files: pa.Table) -> list[str]:
    return [f"{first} .. {last}" for first, last in zip(*map(_values(files), ("min_key", "max_key")), strict=True)]


def _sums(table: pa.Table) -> list[int]:
    names = "record_count", "deleted_record_count", "file_size_in_bytes"
    return [pc.sum(table[name]).as_py() or 0 for name in names]


def _of_files(files: pa.Table) -> str:
    rows, dead, size = _sums(files)
    return f", {human_bytes(size)}, {human_count(rows)} rows, {human_count(dead)} of them dead ({human_share(dead, rows)})"


def _of_partitions(partitions: pa.Table) -> str:
    live, dead, size = _sums(partitions)
    return f", {human_count(live)} live rows, {human_count(dead)} dead, {human_bytes(size)}"


def _joined(texts: pa.ChunkedArray) -> list[str | None]:
    return ["; ".join(each) or None for each in texts.to_pylist()]


_PAGES: Mapping[str, _Page] = {
    "snapshots": _Page(
        "snapshot",
        "no snapshot: nothing was written yet",
        (
            _Shown("snapshot", CellKind.NUMBER, "snapshot_id"),
            _Shown("time", CellKind.TIME, "commit_time"),
            _Shown("kind", CellKind.TEXT, "commit_kind", _USUAL),
            _Shown("rows", CellKind.COUNT, "total_record_count"),
            _Shown("new rows", CellKind.COUNT, "delta_record_count"),
            _Shown("writer id", CellKind.WORD, "writer_id"),
            _Shown("commit id", CellKind.NUMBER, "commit_id", _USUAL),
        ),
    ),
    "files": _Page(
        "file",
        "no files",
        (
            _Shown("partition", CellKind.TEXT, "partition"),
            _Shown("bucket", CellKind.NUMBER, "bucket"),
            _Shown("level", CellKind.NUMBER, "level"),
            _Shown("rows", CellKind.COUNT, "record_count"),
            _Shown("dead", CellKind.COUNT, "deleted_record_count", _USUAL),
            _Shown("size", CellKind.BYTES, "file_size_in_bytes"),
            _Shown("keys", CellKind.WORD, _keys, _ROOMY),
            _Shown("created", CellKind.TIME, "creation_time", _ROOMY),
            _Shown("file", CellKind.PATH, "file_path"),
        ),
        _of_files,
    ),
    "partitions": _Page(
        "partition",
        "no partition: nothing was written yet",
        (
            _Shown("partition", CellKind.TEXT, "partition"),
            _Shown("live rows", CellKind.COUNT, "record_count"),
            _Shown("dead", CellKind.COUNT, "deleted_record_count"),
            _Shown("files", CellKind.COUNT, "file_count"),
            _Shown("size", CellKind.BYTES, "file_size_in_bytes"),
            _Shown("newest file", CellKind.TIME, "last_update_time"),
        ),
        _of_partitions,
    ),
    "branches": _Page(
        "branch",
        "no branches",
        (
            _Shown("branch", CellKind.TEXT, "branch_name"),
            _Shown("begins at", CellKind.NUMBER, "created_from_snapshot"),
            _Shown("tag", CellKind.TEXT, "created_from_tag"),
            _Shown("created", CellKind.TIME, "create_time"),
        ),
        plural="branches",
    ),
    "tags": _Page(
        "tag",
        "no tags",
        (
            _Shown("tag", CellKind.TEXT, "tag_name"),
            _Shown("snapshot", CellKind.NUMBER, "snapshot_id"),
            _Shown("commit time", CellKind.TIME, "commit_time", _USUAL),
            _Shown("rows", CellKind.COUNT, "record_count"),
            _Shown("created", CellKind.TIME, "create_time"),
            _Shown("kept for", CellKind.TEXT, "time_retained"),
        ),
    ),
    "consumers": _Page(
        "consumer",
        "no consumers",
        (
            _Shown("consumer", CellKind.TEXT, "consumer_id"),
            _Shown("next snapshot", CellKind.NUMBER, "next_snapshot_id"),
            _Shown("last progress", CellKind.TIME, "last_progress"),
        ),
    ),
    "health": _Page(
        "table",
        "no tables",
        (
            _Shown("table", CellKind.TEXT, "table_name"),
            _Shown("rows", CellKind.COUNT, "record_count"),
            _Shown("runs at level 0", CellKind.COUNT, "level0_runs"),
            _Shown("rows at level 0", CellKind.COUNT, "level0_rows", _USUAL),
            _Shown("dead", CellKind.TEXT, lambda health: [f"{share:.0%}" for share in health["dead_share"].to_pylist()]),
            _Shown("small files", CellKind.COUNT, "small_files", _ROOMY),
            _Shown("snapshots", CellKind.COUNT, "snapshot_count", _ROOMY),
            _Shown("last commit", CellKind.TIME, "commit_time", _ROOMY),
            _Shown("due", CellKind.TEXT, lambda health: _joined(health["due"]), _USUAL),
            _Shown("problems", CellKind.PROSE, lambda health: _joined(health["problems"])),
        ),
    ),
    "maintenance": _Page(
        "work",
        "nothing was due",
        (
            _Shown("table", CellKind.TEXT, "table_name"),
            _Shown("work", CellKind.TEXT, "kind"),
            _Shown("end", CellKind.TIME, "end_time", _ROOMY),
            _Shown("files in", CellKind.COUNT, "files_in"),
            _Shown("files out", CellKind.COUNT, "files_out"),
            _Shown("bytes in", CellKind.BYTES, "bytes_in", _USUAL),
            _Shown("bytes out", CellKind.BYTES, "bytes_out", _USUAL),
            _Shown("why", CellKind.PROSE, "reason"),
        ),
    ),
    "plan": _Page(
        "work",
        "nothing is due",
        (
            _Shown("table", CellKind.TEXT, "table_name"),
            _Shown("work", CellKind.TEXT, "kind"),
            _Shown("benefit", CellKind.BYTES, "benefit_in_bytes"),
            _Shown("cost", CellKind.BYTES, "cost_in_bytes"),
            _Shown("why", CellKind.PROSE, "reason"),
            _Shown("waits", CellKind.TEXT, "waits"),
        ),
    ),
    "options": _Page(
        "option",
        "0 options",
        (
            _Shown("option", CellKind.TEXT, "name"),
            _Shown("value", CellKind.TEXT, "value"),
            _Shown("default", CellKind.TEXT, "default"),
            _Shown("meaning", CellKind.PROSE, "description", _ROOMY),
        ),
    ),
}
_ONLY_IF_ANY = {"files": ("partition",), "plan": ("waits",)}
"""Columns that are left out if all their values are null."""


def view_of(name: str, table: pa.Table, more: str = "") -> Listing:
    """The listing `name` as people see it. `more`: ends the caption."""
    page, values = _PAGES[name], _values(table)
    columns = [
        ListingColumn(title, kind, values(source) if isinstance(source, str) else source(table), width)
        for title, kind, source, width in page.columns
        if source not in _ONLY_IF_ANY.get(name, ()) or table[source].null_count < table.num_rows
    ]
    if "error" in table.column_names and table["error"].null_count < table.num_rows:  # of files that cannot be read
        columns.append(ListingColumn("error", CellKind.PROSE, values("error")))
    caption = counted(table.num_rows, page.noun, page.plural) + page.more(table) if table.num_rows else page.none
    return Listing(tuple(columns), caption + more)


def tables_view(tables: Sequence[Mapping[str, object]], where: str) -> Listing:
    """Lists records {name, rows, files, bytes, commit_time, primary_key}; a database without tables has a name only."""
    names = ("table", "name"), ("rows", "rows"), ("files", "files"), ("size", "bytes"), ("last commit", "commit_time")
    kinds = CellKind.TEXT, CellKind.COUNT, CellKind.COUNT, CellKind.BYTES, CellKind.TIME
    columns = [
        ListingColumn(title, kind, [one.get(name) for one in tables]) for (title, name), kind in zip(names, kinds, strict=True)
    ]
    keys = [", ".join(one["primary_key"]) if one.get("primary_key") else None for one in tables]
    count = counted(sum(one["table"] is not None for one in tables), "table")
    return Listing((*columns, ListingColumn("key", CellKind.TEXT, keys, _ROOMY)), f"{count} in {where}")


def statistics_view(statistics: pa.Table) -> Listing:
    """The columns of one analysis; its row and bytes as the caption."""
    (row,) = statistics.to_pylist(maps_as_pydicts="strict")
    columns = row["colstat"]

    def shown(title: str, kind: CellKind, name: str, from_width: int = 0) -> ListingColumn:
        return ListingColumn(title, kind, [values[name] for values in columns.values()], from_width)

    size = f"{human_count(row['mergedRecordCount'])} rows in {human_bytes(row['mergedRecordSize'])}"
    return Listing(
        (
            ListingColumn("column", CellKind.TEXT, list(columns)),
            shown("distinct", CellKind.COUNT, "distinctCount"),
            shown("nulls", CellKind.COUNT, "nullCount"),
            shown("min", CellKind.VALUE, "min"),
            shown("max", CellKind.VALUE, "max"),
            shown("mean length", CellKind.COUNT, "avgLen", _USUAL),
            shown("max length", CellKind.COUNT, "maxLen", _USUAL),
        ),
        f"{size} at snapshot {row['snapshot_id']}",
    )


def _values(table: pa.Table) -> Callable[[str], list]:
    """Returns a function from a column name to its values."""
    return lambda name: table[name].to_pylist()
