"""Analyzes a table: measures its visible rows and publishes the result as its statistics.

1. Plan a read of the newest version, and measure its rows (`read.measure`, or Spark).
2. Store the statistics under a new name. Publish a snapshot of kind ANALYZE that names them; later snapshots name them, too.

The snapshot has the rows of the one before. So no other commit conflicts with an analysis, and it may describe an older snapshot
than the one it follows; the statistics name theirs. A rollback also brings back the statistics of its target.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from lsmlake.commit.commit import commit
from lsmlake.commit.request import Identity, Request
from lsmlake.format.snapshot import Snapshot
from lsmlake.format.statistics import ColumnStatistics, TableStatistics
from lsmlake.kernels.bounds import bounds
from lsmlake.read.measure import ColumnMeasure, Measured
from lsmlake.read.plan import Plan, plan
from lsmlake.schema.values import value_text
from lsmlake.tables.statistics import put_statistics
from lsmlake.tables.version import Version

_BOUND_BYTES = 256  # a longer least or greatest value is cut to a bound


def analyze(
    version: Version, columns: Sequence[str] | None, measure: Callable[[Plan, Sequence[str]], Measured]
) -> Snapshot | None:
    """See `Table.analyze`. `measure`: reads a plan and measures its columns."""
    if version.snapshot is None:
        return None
    meta, schema = version.meta, version.schema
    with version.unless_expired():
        planned = plan(version, columns=columns or None)
        measured = measure(planned, planned.columns if columns is None or columns else ())
        stored = _stored(version, measured.rows)
    ids = schema.field_ids()
    found = tuple(_column(ids[name], column, measured.rows) for name, column in measured.columns.items())
    statistics = TableStatistics(version.snapshot.id, schema.id, measured.rows, stored, found)
    named = put_statistics(meta, statistics)
    return commit(version, Request(Identity(meta.env.ids()), requires=(), statistics=named)).snapshot


def _stored(version: Version, rows: int) -> int:
    """About how many bytes of the data files the visible rows take: their share of all rows."""
    files = version.live()
    stored, held = (sum(files[name].to_pylist()) for name in ("bytes", "rows"))
    return round(stored * rows / held) if held else 0


def _column(number: int, column: ColumnMeasure, rows: int) -> ColumnStatistics:
    values = rows - column.nulls
    distinct = None if column.distinct is None else min(column.distinct, values)
    lengths = column.length is not None and values > 0
    average = -(-column.length // values) if lengths else None
    least, greatest = bounds(column.least, column.greatest, _BOUND_BYTES)
    low, high = (None if bound is None else value_text(bound) for bound in (least, greatest))
    return ColumnStatistics(number, distinct, low, high, column.nulls, average, column.longest if lengths else None)
