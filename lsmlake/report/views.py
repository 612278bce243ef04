"""Defines the columns and captions of metadata listings. `--json` has all columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from lsmlake.report.listing import Column, Kind, Listing
from lsmlake.report.text import counted
from lsmlake.report.units import human_bytes, human_count, human_share

_ROOMY, _USUAL = 100, 70  # window widths from which optional columns are shown


def tables_view(tables: Sequence[Mapping[str, object]], where: str) -> Listing:
    """Lists records {name, rows, files, bytes, commit_time, primary_key}; a database without tables has a name only."""

    def column(name: str) -> list:
        return [record.get(name) for record in tables]

    keys = [", ".join(record["primary_key"]) if record.get("primary_key") else None for record in tables]
    return Listing(
        (
            Column("table", Kind.TEXT, column("name")),
            Column("rows", Kind.COUNT, column("rows")),
            Column("files", Kind.COUNT, column("files")),
            Column("size", Kind.BYTES, column("bytes")),
            Column("last commit", Kind.TIME, column("commit_time")),
            Column("key", Kind.TEXT, keys, _ROOMY),
        ),
        f"{counted(sum(record['table'] is not None for record in tables), 'table')} in {where}",
    )


def snapshots_view(snapshots: pa.Table) -> Listing:
    column = _values(snapshots)
    return Listing(
        (
            Column("snapshot", Kind.NUMBER, column("snapshot_id")),
            Column("time", Kind.TIME, column("commit_time")),
            Column("kind", Kind.TEXT, column("commit_kind"), _USUAL),
            Column("rows", Kind.COUNT, column("total_record_count")),
            Column("new rows", Kind.COUNT, column("delta_record_count")),
            Column("writer id", Kind.WORD, column("writer_id")),
            Column("commit id", Kind.NUMBER, column("commit_id"), _USUAL),
            *_errors(snapshots),
        ),
        counted(snapshots.num_rows, "snapshot") if snapshots.num_rows else "no snapshot: nothing was written yet",
    )


def files_view(files: pa.Table) -> Listing:
    column = _values(files)
    keys = [f"{first} .. {last}" for first, last in zip(column("min_key"), column("max_key"), strict=True)]
    partition = [Column("partition", Kind.TEXT, column("partition"))] if files["partition"].null_count < files.num_rows else []
    return Listing(
        (
            *partition,
            Column("bucket", Kind.NUMBER, column("bucket")),
            Column("level", Kind.NUMBER, column("level")),
            Column("rows", Kind.COUNT, column("record_count")),
            Column("dead", Kind.COUNT, column("deleted_record_count"), _USUAL),
            Column("size", Kind.BYTES, column("file_size_in_bytes")),
            Column("keys", Kind.WORD, keys, _ROOMY),
            Column("created", Kind.TIME, column("creation_time"), _ROOMY),
            Column("file", Kind.PATH, column("file_path")),
        ),
        _files_caption(files),
    )


def partitions_view(partitions: pa.Table) -> Listing:
    column = _values(partitions)
    live, dead, size = (pc.sum(partitions[name]).as_py() or 0 for name in _SUMMED)
    known = counted(partitions.num_rows, "partition")
    total = f"{known}, {human_count(live)} live rows, {human_count(dead)} dead, {human_bytes(size)}"
    return Listing(
        (
            Column("partition", Kind.TEXT, column("partition")),
            Column("live rows", Kind.COUNT, column("record_count")),
            Column("dead", Kind.COUNT, column("deleted_record_count")),
            Column("files", Kind.COUNT, column("file_count")),
            Column("size", Kind.BYTES, column("file_size_in_bytes")),
            Column("newest file", Kind.TIME, column("last_update_time")),
        ),
        total if partitions.num_rows else "no partition: nothing was written yet",
    )


def statistics_view(statistics: pa.Table) -> Listing:
    """The columns of one analysis; its row and bytes as the caption."""
    (row,) = statistics.to_pylist(maps_as_pydicts="strict")
    columns = row["colstat"]

    def column(name: str) -> list:
        return [values[name] for values in columns.values()]

    size = f"{human_count(row['mergedRecordCount'])} rows in {human_bytes(row['mergedRecordSize'])}"
    return Listing(
        (
            Column("column", Kind.TEXT, list(columns)),
            Column("distinct", Kind.COUNT, column("distinctCount")),
            Column("nulls", Kind.COUNT, column("nullCount")),
            Column("min", Kind.VALUE, column("min")),
            Column("max", Kind.VALUE, column("max")),
            Column("mean length", Kind.COUNT, column("avgLen"), _USUAL),
            Column("max length", Kind.COUNT, column("maxLen"), _USUAL),
        ),
        f"{size} at snapshot {row['snapshot_id']}",
    )


def branches_view(branches: pa.Table) -> Listing:
    column = _values(branches)
    return Listing(
        (
            Column("branch", Kind.TEXT, column("branch_name")),
            Column("begins at", Kind.NUMBER, column("created_from_snapshot")),
            Column("tag", Kind.TEXT, column("created_from_tag")),
            Column("created", Kind.TIME, column("create_time")),
            *_errors(branches),
        ),
        counted(branches.num_rows, "branch", "branches") if branches.num_rows else "no branches",
    )


def tags_view(tags: pa.Table) -> Listing:
    column = _values(tags)
    return Listing(
        (
            Column("tag", Kind.TEXT, column("tag_name")),
            Column("snapshot", Kind.NUMBER, column("snapshot_id")),
            Column("commit time", Kind.TIME, column("commit_time"), _USUAL),
            Column("rows", Kind.COUNT, column("record_count")),
            Column("created", Kind.TIME, column("create_time")),
            Column("kept for", Kind.TEXT, column("time_retained")),
            *_errors(tags),
        ),
        counted(tags.num_rows, "tag") if tags.num_rows else "no tags",
    )


def consumers_view(consumers: pa.Table) -> Listing:
    column = _values(consumers)
    return Listing(
        (
            Column("consumer", Kind.TEXT, column("consumer_id")),
            Column("next snapshot", Kind.NUMBER, column("next_snapshot_id")),
            Column("last progress", Kind.TIME, column("last_progress")),
            *_errors(consumers),
        ),
        counted(consumers.num_rows, "consumer") if consumers.num_rows else "no consumers",
    )


def options_view(options: pa.Table, left: int) -> Listing:
    """`left`: options at their defaults that are not listed."""
    column = _values(options)
    more = f"; {counted(left, 'option')} at the default: --all" if left else ""
    return Listing(
        (
            Column("option", Kind.TEXT, column("name")),
            Column("value", Kind.TEXT, column("value")),
            Column("default", Kind.TEXT, column("default")),
            Column("meaning", Kind.PROSE, column("description"), _ROOMY),
        ),
        f"{counted(options.num_rows, 'option')}{more}",
    )


_SUMMED = "record_count", "deleted_record_count", "file_size_in_bytes"


def _files_caption(files: pa.Table) -> str:
    if not files.num_rows:
        return "no files"
    rows, dead, size = (pc.sum(files[name]).as_py() for name in ("record_count", "deleted_record_count", "file_size_in_bytes"))
    share = f"{human_count(dead)} of them dead ({human_share(dead, rows)})"
    return f"{counted(files.num_rows, 'file')}, {human_bytes(size)}, {human_count(rows)} rows, {share}"


def _errors(table: pa.Table) -> list[Column]:
    """The reasons why files cannot be read, if there are any."""
    reasons = table["error"]
    return [Column("error", Kind.PROSE, reasons.to_pylist())] if reasons.null_count < len(reasons) else []


def _values(table: pa.Table):
    """Returns a function from a column name to its values."""
    return lambda name: table[name].to_pylist()
