"""The watermark of a table: up to which time its rows are thought to be complete, by the option `watermark.column`. Pure.

The watermark of a snapshot is the greatest value of the column in the rows that were written so far, less `watermark.delay`; it
never falls. It comes from the statistics of the files that a commit adds, so it costs no read.

Source: the watermarks of Apache Spark (`withWatermark`) and of Apache Paimon's snapshots.
"""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from lsmlake.format.data_files import BucketEdit
from lsmlake.lsm.row_expiry import MILLIS_FROM
from lsmlake.schema.schema import Schema

_UNITS = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}  # per second


def watermark(schema: Schema, column: str, edits: Iterable[BucketEdit], before: int | None) -> int | None:
    """The watermark after a commit of `edits`, in milliseconds since 1970.

    Args:
        schema: the schema in effect.
        column: the one with the time of an event.
        edits: those of the commit. Files that a compaction wrote hold no newer row than the commits before it.
        before: the watermark of the snapshot before.
    """
    number, type_ = schema.field_ids()[column], schema.columns.field(column).type
    delay_ms = schema.parsed_options.tags.watermark_delay_ms
    bounds = (file.stats[number].max for edit in edits for file in edit.added if number in file.stats)
    times = [_milliseconds(bound, type_) - delay_ms for bound in bounds if bound is not None]
    return max(times if before is None else [*times, before], default=None)


def _milliseconds(value: object, type_: pa.DataType) -> int:
    if pa.types.is_timestamp(type_):
        return pa.scalar(value, type_).value * 1000 // _UNITS[type_.unit]
    return value if value >= MILLIS_FROM else value * 1000
