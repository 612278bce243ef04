"""Row expiry: drops rows whose time column is older than the option `record-level.expire-time`. Pure.

A row is kept while now <= time + expire time, in whole seconds; a row with a null time never expires. Integers are seconds since
1970, 64-bit integers from 10^12 on are milliseconds. Only a compaction that rewrites a file drops its expired rows.

Source: Apache Paimon, `RecordLevelExpire`.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from lsmlake.format.data_files import DataFile
from lsmlake.schema.schema import Schema

MILLIS_FROM = 10**12
"""From here on, an integer is milliseconds since 1970, not seconds."""


@dataclass(frozen=True)
class RowExpiry:
    """`column` with field id `field_id` holds the time; rows older than `limit_s` (seconds since 1970) have expired."""

    column: str
    field_id: int
    limit_s: int

    @staticmethod
    def of(schema: Schema, now_ms: int) -> RowExpiry | None:
        """Reads the options of the table; None if its rows do not expire."""
        options = schema.parsed_options
        if options.retention.rows_ms is None:
            return None
        column = options.retention.row_time_field
        return RowExpiry(column, schema.field_ids()[column], now_ms // 1000 - options.retention.rows_ms // 1000)

    def live_rows(self, rows: pa.Table) -> pa.Table:
        """Returns the rows that have not expired."""
        fresh = pc.fill_null(pc.greater_equal(_seconds(rows[self.column]), self.limit_s), True)
        return rows if pc.all(fresh).as_py() is not False else rows.filter(fresh)

    def may_apply_to(self, file: DataFile) -> bool:
        """Whether the file may hold an expired row, according to its statistics."""
        stats = file.stats.get(self.field_id)
        if stats is None or stats.min is None:
            return stats is None or stats.nulls < file.rows
        oldest = pa.chunked_array([pa.array([stats.min])])
        return _seconds(oldest)[0].as_py() < self.limit_s


def _seconds(times: pa.ChunkedArray) -> pa.ChunkedArray:
    if pa.types.is_timestamp(times.type):
        return pc.floor(pc.divide(times.cast(pa.int64()).cast(pa.float64()), _units(times.type))).cast(pa.int64())
    numbers = times.cast(pa.int64())
    return pc.if_else(pc.greater_equal(numbers, MILLIS_FROM), pc.divide(numbers, 1000), numbers)


def _units(type_: pa.TimestampType) -> float:
    """Units per second."""
    return {"s": 1.0, "ms": 1e3, "us": 1e6, "ns": 1e9}[type_.unit]
