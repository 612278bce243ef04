"""The command `follow`: the changes of a table as lines, one by one as they are committed."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from lsmlake.api.table import Table
from lsmlake.cdc.event_formats import ChangeFormat
from lsmlake.cli.argument_reading import column_names
from lsmlake.cli.arguments import Columns, SnapshotId, Timestamp, Where
from lsmlake.cli.sql_output import WRITERS, bytes_of
from lsmlake.errors import InvalidQuery
from lsmlake.kernels.text_format import TEXT, joined

_Wait = Annotated[float | None, typer.Option("--wait", metavar="SECONDS", show_default=False)]


def follow(
    table: Table,
    *,
    format: str | None = None,
    keys: bool = False,
    consumer: str | None = None,
    once: bool = False,
    wait: _Wait = None,
    start: str | None = None,
    snapshot: SnapshotId = None,
    timestamp: Timestamp = None,
    mode: str | None = None,
    where: Where = None,
    columns: Columns = None,
    commit_columns: bool = False,
) -> None:
    """Print the changes of a table as lines, as they are committed.

    Each line is a JSON object. First come all rows as inserts, then the changes, until Ctrl-C. With --consumer the next call
    continues where this one stopped; the lines of the commit at which it stopped may come again.

    Args:
        format (FORMAT): Print change events: debezium-json, canal-json, maxwell-json, ogg-json, aws-dms, mongodb or plain; or a
            JSON object of the arguments of ChangeFormat. A tombstone has no value, so it has no line without --keys.
        keys: With --format, print {"key": ..., "value": ...} of each message instead of its value.
        consumer (NAME): Remember the progress in the table under this name, and continue from it.
        once: Stop after the latest snapshot, instead of waiting for new ones.
        wait (SECONDS): Without --once: the time between two looks for new snapshots; default: 1.
        start (START): latest-full (the default), latest, from-snapshot, from-snapshot-full or from-timestamp.
        snapshot (N): Start with the changes of this snapshot.
        timestamp (TIME): Start with the changes after this time, in UTC unless it names a zone: '2026-01-31 12:00'.
        mode (MODE): diff, changelog or delta; default: the changelog, or diff for commits without one.
        where (SQL): Only changes of rows that satisfy this.
        commit_columns: Add the snapshot, the time and the order of each change.
    """
    events = None if format is None else ChangeFormat.of_text(format)
    if once and wait is not None:
        raise InvalidQuery("--once does not wait for new snapshots", found=f"--wait {wait:g}", cure="leave out --wait or --once")
    if keys and events is None:
        raise InvalidQuery("--keys is for messages, which --format makes", cure="add --format, or leave --keys out")
    if events is not None and events.name == "plain" and not keys:
        what = "with --format plain a delete is a message without a value, which has no line"
        raise InvalidQuery(what, expected="--keys", found="no --keys", cure="add --keys, or choose another format")
    if events is not None and events.events.avro:
        what = f"messages of {events.name} are bytes, which have no lines"
        cure = "write --format debezium-json, or send the messages of Table.follow in a Python program"
        raise InvalidQuery(what, where="--format", expected="a format of text", found=events.name, cure=cure)
    how = {"where": where, "columns": column_names(columns), "consumer": consumer, "commit_columns": commit_columns}
    at = {"start": start, "snapshot": snapshot, "timestamp": timestamp, "mode": mode}
    out = sys.stdout.buffer
    for batch in table.follow(wait=None if once else 1.0 if wait is None else wait, format=events, **at, **how):
        rows = batch.to_batches()
        written = WRITERS["json"](out, rows.schema, False)
        for some in rows:
            if events is None or keys:
                written.write(some)
            else:
                out.write(bytes_of(joined(some["value"].drop_null().cast(TEXT), "\n")))
        out.flush()  # before the batch counts as read
