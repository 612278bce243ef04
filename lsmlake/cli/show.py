"""`lsmlake show`: one table on one page."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated

import typer

from lsmlake.cli.arguments import Debug, Json, TableName, Warehouse
from lsmlake.cli.opening import open_lake, open_table
from lsmlake.cli.output import emit
from lsmlake.errors import InvalidQuery
from lsmlake.format.files import Bucket, BucketState
from lsmlake.maintain.listings import partition_text
from lsmlake.report.summary import Summary
from lsmlake.schema.schema import Schema

OneBucket = Annotated[int | None, typer.Option("--bucket", min=0, metavar="N", help="Draw the bucket of this number.")]
Partition = Annotated[str | None, typer.Option("--partition", metavar="TEXT", help='Draw one of this: "dt=2026-01-01".')]
_NAMED = 5  # partitions that an error message suggests


def show(
    ctx: typer.Context,
    table: TableName,
    bucket: OneBucket = None,
    partition: Partition = None,
    json: Json = False,
    warehouse: Warehouse = None,
    debug: Debug = False,
) -> None:
    """Show a table on one page: schema, size, LSM tree.

    The tree is that of the largest bucket, of those that --bucket and --partition select.
    """
    lake = open_lake(ctx, warehouse, debug)
    found = open_table(lake, table)
    version = found.version
    schema, latest, states = version.schema, version.snapshot, version.states()
    left = _of_partition(schema, _of_number(schema, states, bucket), partition)
    chosen = max(left, key=lambda one: sum(file.bytes for file in left[one].files), default=None)
    why = f"the largest of {len(left):,}" if len(left) > 1 else ""
    summary = Summary(found.name, f"{lake.env.storage.root}/{found.path}", schema, latest, states, chosen, why)
    emit(summary.record(), summary, json)


def _of_number(schema: Schema, states: Mapping[Bucket, BucketState], number: int | None) -> Mapping[Bucket, BucketState]:
    if number is None:
        return states
    buckets = schema.parsed_options.layout.buckets
    if number >= buckets:
        raise InvalidQuery("no such bucket", expected=f"0 to {buckets - 1}", found=number, cure="correct --bucket")
    return {bucket: state for bucket, state in states.items() if bucket.number == number}


def _of_partition(schema: Schema, states: Mapping[Bucket, BucketState], text: str | None) -> Mapping[Bucket, BucketState]:
    """The buckets whose partition has every `name=value` of `text`, which are separated by ',' or '/'."""
    if text is None:
        return states
    if not schema.all_partition_columns:
        raise InvalidQuery("the table has no partitions", found=f"--partition {text!r}", cure="leave --partition out")
    texts = {bucket: partition_text(schema, bucket) for bucket in states}
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
