"""The command `refresh`: brings a view table up to date."""

from __future__ import annotations

from lsmlake.api.lake import Lake
from lsmlake.cli.arguments import TableName
from lsmlake.cli.command_maker import CommandResult
from lsmlake.cli.progress import busy
from lsmlake.maintain.refresh_report import NOTHING, RefreshReport
from lsmlake.report.text import counted
from lsmlake.views.view_shape import CHANGES, KEYS, WHOLE

_WAYS = {
    CHANGES: "added the changes to the groups",
    KEYS: "evaluated the query for the keys that changed",
    WHOLE: "evaluated the query for all rows",
}
"""By way of a refresh, what it did."""


def refresh(lake: Lake, name: TableName, *, full: bool = False) -> CommandResult:
    """Bring a view table up to date with the tables of its query.

    One commit. It reads only what has changed, where the query allows that; lsmlake maintain does the same.

    Args:
        full: Evaluate the query for all rows, whatever has changed.
    """
    with busy("refreshing"):
        report = lake.refresh(name, full=full)
    return CommandResult(report, f"{name}: {_told(report)}")


def _told(report: RefreshReport) -> str:
    if report.way == NOTHING:
        return "the tables have no new snapshot"
    read = f", {counted(report.changes, 'change')} read" if report.changes else ""
    deleted = f", {report.deleted:,} deleted" if report.deleted else ""
    reason = f" ({report.reason})" if report.reason else ""
    return f"{_WAYS[report.way]}{reason}{read}, {counted(report.written, 'row')} written{deleted}"
