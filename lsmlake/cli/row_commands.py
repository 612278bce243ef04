"""The commands that show rows: of a table, of its changes, and of its system tables."""

from __future__ import annotations

import datetime
from collections.abc import Sequence

import pyarrow as pa

from lsmlake.api.readable import Readable
from lsmlake.api.system_tables import SUMMARIES
from lsmlake.api.table import Table
from lsmlake.cli.argument_reading import column_names
from lsmlake.cli.arguments import Columns, Limit, SnapshotId, TagName, Timestamp, Where
from lsmlake.cli.command_maker import CommandResult
from lsmlake.cli.progress import busy
from lsmlake.errors import InvalidQuery
from lsmlake.report.listing_views import statistics_view
from lsmlake.report.rows import Rows


def head(
    table: Table,
    *,
    limit: Limit = 10,
    where: Where = None,
    columns: Columns = None,
    snapshot: SnapshotId = None,
    tag: TagName = None,
    timestamp: Timestamp = None,
) -> CommandResult:
    """Show some rows of a table.

    The order of rows is not defined. A terminal shows the columns that fit; --json and a pipe get all columns.
    """
    names = column_names(columns)
    scan = table.scan(where=where, columns=names, limit=limit, snapshot=snapshot, tag=tag, timestamp=timestamp)
    with busy("reading"):
        rows = scan.to_arrow()
    return CommandResult(rows, Rows(rows))


def changes(
    table: Table,
    start: str,
    end: str | None = None,
    *,
    mode: str = "diff",
    limit: Limit = None,
    where: Where = None,
    columns: Columns = None,
) -> CommandResult:
    """List the changes between two snapshots of a table.

    Mode diff compares the two; changelog reads what the table's changelog-producer wrote; delta reads what the commits wrote.

    Args:
        start (START): The snapshot before the first change, by number, tag or time; 0: none.
        end (END): The last snapshot, by number, tag or time; default: the latest.
        mode (MODE): diff, changelog or delta.
        limit (N): Show at most N changes.
    """
    tags = table.meta.tags.names()
    first, last = _moment(start, tags), None if end is None else _moment(end, tags)
    selected = table.changes(first, last, mode=mode, where=where, columns=column_names(columns))
    with busy("reading"):
        rows = _first(selected, limit)
    return CommandResult(rows, Rows(rows, "change"))


def _moment(text: str, tags: Sequence[str]) -> int | str | datetime.datetime:
    """A tag name if there is a tag of this name, else a snapshot id or a time."""
    if text in tags:
        return text
    if text.isdecimal():
        return int(text)
    try:
        return datetime.datetime.fromisoformat(text)
    except ValueError:
        return text


def system(
    table: Table,
    name: str | None = None,
    *,
    limit: Limit = None,
    columns: Columns = None,
    snapshot: SnapshotId = None,
    tag: TagName = None,
    timestamp: Timestamp = None,
) -> CommandResult:
    """Show a system table of a table, such as audit_log.

    Without NAME, list the system tables.

    Args:
        name: The system table.
    """
    if name is None:
        moment = {"--snapshot": snapshot, "--tag": tag, "--timestamp": timestamp}
        if given := [flag for flag, value in moment.items() if value is not None]:
            raise InvalidQuery("the list of system tables has no snapshots", found=given[0], cure="name a system table")
        rows = _first(pa.table({"name": list(SUMMARIES), "description": list(SUMMARIES.values())}), limit)
    else:
        with busy("reading"):
            rows = _first(table.system_table(name, snapshot=snapshot, tag=tag, timestamp=timestamp), limit)
    names = column_names(columns)
    if names is not None:
        if unknown := [each for each in names if each not in rows.column_names]:
            expected = f"some of {rows.column_names}"
            raise InvalidQuery("unknown columns", expected=expected, found=unknown, cure="correct the names")
        rows = rows.select(names)
    by_column = name == "statistics" and names is None and rows.num_rows
    return CommandResult(rows, statistics_view(rows) if by_column else Rows(rows))


def _first(rows: pa.Table | Readable, limit: int | None) -> pa.Table:
    if isinstance(rows, pa.Table):
        return rows if limit is None else rows.slice(0, limit)
    return rows.to_arrow() if limit is None else rows.head(limit)
