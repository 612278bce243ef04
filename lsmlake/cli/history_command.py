"""The command `history`: brings the history of a table up to date."""

from __future__ import annotations

from lsmlake.api.lake import Lake
from lsmlake.cli.argument_reading import column_names
from lsmlake.cli.command_maker import CommandResult
from lsmlake.cli.progress import busy
from lsmlake.report.text import counted


def history(
    lake: Lake,
    source: str,
    name: str,
    *,
    track: str | None = None,
    track_except: str | None = None,
    sequence_by: str | None = None,
    start: str | None = None,
) -> CommandResult:
    """Keep the versions of a table's rows in another table.

    The history has the columns of the table, valid_from and valid_to. The first call creates it; each call adds the changes since
    the last one, and so does lsmlake maintain. Options that a later call leaves out are those of the first call.

    Args:
        source (TABLE): The table, database.table.
        name (HISTORY): The history, database.table.
        track (NAMES): Only a change of these columns, separated by commas, begins a version. Default: of any column.
        track_except (NAMES): All columns but these are tracked.
        sequence_by (COLUMN): The column that says from when a row is valid, or _commit_time. Default: the sequence.field of the
            table, if its changes tell its value, otherwise the commits.
        start (START): Where the first call begins: latest-full, with the current rows (default); earliest-full, with the oldest
            snapshot.
    """
    names = {"track": column_names(track, "--track"), "track_except": column_names(track_except, "--track-except")}
    with busy("following"):
        kept = lake.history_of(source, name, **names, sequence_by=sequence_by, start=start)
        rows, open_rows = kept.count(), kept.scan(where="valid_to IS NULL").count()
    found = {"history": name, "versions": rows, "valid": open_rows}
    return CommandResult(found, f"{name}: {counted(rows, 'version')}, {open_rows:,} of them valid now")
