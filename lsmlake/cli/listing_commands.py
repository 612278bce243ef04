"""The commands that only read metadata, such as `ls`, `files` and `show`. They load no verbs."""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterator, Mapping

import pyarrow as pa
import pyarrow.compute as pc
import typer

from lsmlake.cli.argument_reading import open_env, open_metadata
from lsmlake.cli.arguments import DatabaseName, Natural, OptionalTableName, SnapshotId, TagName, Timestamp
from lsmlake.cli.command_maker import CommandResult
from lsmlake.cli.guard import one_line
from lsmlake.cli.whole_file import checked_path, whole_file
from lsmlake.errors import InvalidQuery, LakeError
from lsmlake.format.data_files import Bucket, BucketState
from lsmlake.maintain import named_files
from lsmlake.maintain import version_listings as read
from lsmlake.read.travel import Moment, resolve
from lsmlake.report.listing_views import tables_view, view_of
from lsmlake.report.option_reference import Reference
from lsmlake.report.summary import Summary
from lsmlake.report.text import counted, human_bytes
from lsmlake.schema.schema import Schema
from lsmlake.storage.env import Env
from lsmlake.tables.databases import Databases, metadata_of
from lsmlake.tables.version import Metadata, Version

_NAMED = 5  # partitions that an error message suggests


def snapshots(table: Metadata, *, last: int | None = None) -> CommandResult:
    """List the snapshots of a table, the oldest first.

    Args:
        last (N): List only this many, the newest.
    """
    listed = named_files.snapshots(table, last)
    return CommandResult(listed, view_of("snapshots", listed))


def files(table: Metadata, *, snapshot: SnapshotId = None, tag: TagName = None, timestamp: Timestamp = None) -> CommandResult:
    """List the live data files of a table.

    Ordered by partition and bucket, the newest run first.
    """
    listed = read.files(_at(table, snapshot, timestamp, tag))
    return CommandResult(listed, view_of("files", listed))


def partitions(
    table: Metadata, *, snapshot: SnapshotId = None, tag: TagName = None, timestamp: Timestamp = None
) -> CommandResult:
    """List the partitions of a table.

    For a table without partitions, prints one line.
    """
    listed = read.partitions(read.files(_at(table, snapshot, timestamp, tag)))
    return CommandResult(listed, view_of("partitions", listed))


def _at(meta: Metadata, snapshot: int | None, timestamp: str | None, tag: str | None) -> Version:
    return Version.at(meta, resolve(meta, Moment(snapshot, timestamp, tag), "UTC"))


def options(ctx: typer.Context, table: OptionalTableName = None, *, all: bool = False) -> CommandResult:
    """List the options of a table, or all supported options.

    With TABLE, list the options that the table sets; without it, every option with its default and meaning.

    Args:
        all: Include the options that the table does not set.
    """
    if table is None:
        all_options = read.option_reference()
        return CommandResult(all_options, Reference(all_options))
    all_options = read.options(Version.latest(open_metadata(ctx, table)).schema)
    listed: pa.Table = all_options if all else all_options.filter(pc.is_valid(all_options["value"]))
    left = all_options.num_rows - listed.num_rows
    more = f"; {counted(left, 'option')} at the default: --all" if left else ""
    return CommandResult(listed, view_of("options", listed, more))


# -- a warehouse --------------------------------------------------------------------------------------------------------


def ls(ctx: typer.Context, database: DatabaseName = None) -> CommandResult:
    """List the tables of the warehouse.

    Row counts include all rows at level 0, even those that replace others. A database without tables is listed by its name. A
    table that cannot be read is listed without numbers; its error goes to standard error, and the exit code is 1.
    """
    env = open_env(ctx)
    records = list(_records(env, Databases(env.storage).names() if database is None else [database]))
    errors = [str(record["error"]) for record in records if record["error"]]
    return CommandResult(records, tables_view(records, database or env.storage.root), errors)


def _records(env: Env, names: list[str]) -> Iterator[dict[str, object]]:
    """One record per table, and one per database without tables."""
    databases = Databases(env.storage)
    for database in names:
        databases.need(database)
        tables = databases.tables(database)
        if not tables:
            yield {"name": database, "database": database, "table": None, "error": None}
        for table in tables:
            yield {"name": f"{database}.{table}", "database": database, "table": table, **_holdings(env, f"{database}.{table}")}


def _holdings(env: Env, name: str) -> dict[str, object]:
    try:
        version = Version.latest(metadata_of(env, name))
        schema, latest = version.schema, version.snapshot
        live = version.live() if latest else None
    except LakeError as broken:
        return {"error": one_line(broken)}
    return {
        "primary_key": list(schema.primary_key),
        "partition_by": list(schema.partition_by),
        "comment": schema.comment,
        "snapshot_id": latest.id if latest else None,
        "commit_time": datetime.datetime.fromtimestamp(latest.time_ms / 1000, datetime.timezone.utc) if latest else None,
        "rows": latest.total_rows if latest else 0,
        "files": live.num_rows if latest else 0,
        "bytes": (pc.sum(live["bytes"]).as_py() or 0) if latest else 0,
        "error": None,
    }


# -- a table on one page ------------------------------------------------------------------------------------------------


def show(
    ctx: typer.Context, table: Metadata, *, bucket: Natural = None, partition: str | None = None, html: str | None = None
) -> CommandResult:
    """Show a table on one page: schema, size, LSM tree.

    The tree is that of the largest bucket, of those that --bucket and --partition select.

    Args:
        bucket (N): Draw the bucket of this number.
        partition (TEXT): Draw one of this: "dt=2026-01-01".
        html (FILE): Write the page that `lsmlake serve` shows to this file instead, with its history, trees and files: one file
            that any browser opens without a server.
    """
    if html is not None:
        return _as_html(ctx, html, {"--bucket": bucket, "--partition": partition})
    version = Version.latest(table)
    schema, latest, states = version.schema, version.snapshot, version.states()
    left = _of_partition(schema, _of_number(schema, states, bucket), partition)
    chosen = max(left, key=lambda one: sum(file.bytes for file in left[one].files), default=None)
    why = f"the largest of {len(left):,}" if len(left) > 1 else ""
    path = f"{table.env.storage.root}/{table.paths.root}"
    summary = Summary(ctx.params["table"], path, schema, latest, states, chosen, why)
    return CommandResult(summary.record(), summary)


def _as_html(ctx: typer.Context, file: str, given: Mapping[str, object]) -> CommandResult:
    """Writes the page of the table to a file."""
    if chosen := [name for name, value in given.items() if value is not None]:
        cure = f"leave {chosen[0]} out, or --html"
        raise InvalidQuery("the page of a table shows all its buckets", found=f"--html with {chosen[0]}", cure=cure)
    from lsmlake.cli.opening import open_lake, open_table  # loads all verbs
    from lsmlake.serve.page.saved_page import saved_page

    path = checked_path(file, "--html")
    document = saved_page(open_table(open_lake(ctx), ctx.params["table"])).encode()
    with whole_file(path) as opened:
        opened.write(document)
    return CommandResult({"html": str(file), "bytes": len(document)}, f"{file}: {human_bytes(len(document))}")


def _of_number(schema: Schema, states: Mapping[Bucket, BucketState], number: int | None) -> Mapping[Bucket, BucketState]:
    if number is None:
        return states
    greatest = max((bucket.number for bucket in states), default=0)
    if number > max(greatest, schema.parsed_options.layout.first_buckets - 1):
        raise InvalidQuery("no such bucket", expected=f"0 to {greatest}", found=number, cure="correct --bucket")
    return {bucket: state for bucket, state in states.items() if bucket.number == number}


def _of_partition(schema: Schema, states: Mapping[Bucket, BucketState], text: str | None) -> Mapping[Bucket, BucketState]:
    """The buckets whose partition has every `name=value` of `text`, which are separated by ',' or '/'."""
    if text is None:
        return states
    if not schema.all_partition_columns:
        raise InvalidQuery("the table has no partitions", found=f"--partition {text!r}", cure="leave --partition out")
    texts = {bucket: read.partition_text(schema, bucket) for bucket in states}
    wanted = _pairs(schema, text)
    left = {bucket: state for bucket, state in states.items() if wanted <= _pairs(schema, texts[bucket] or "")}
    if not left:
        known = sorted(set(map(str, texts.values())))
        more = f" or {len(known) - _NAMED:,} more" if len(known) > _NAMED else ""
        expected = (
            " or ".join(map(repr, known[:_NAMED])) + more or f"{schema.all_partition_columns[0].name}=..., once there is data"
        )
        raise InvalidQuery("no such partition", expected=expected, found=repr(text), cure="correct --partition")
    return left


def _pairs(schema: Schema, text: str) -> set[str]:
    """'dt=a, b=c' -> {'dt=a', 'b=c'}: split at each comma or slash that precedes the name of a partition column."""
    names = "|".join(re.escape(field.name) for field in schema.all_partition_columns)
    return {pair.strip() for pair in re.split(rf"[,/]\s*(?=(?:{names})=)", text)}
