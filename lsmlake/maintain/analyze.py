"""The statistics of a table: measures its visible rows, and stores and reads the statistics.

1. Plan a read of the newest version, and measure its rows (`read.measure`, or Spark).
2. Store the statistics under a new name, beside the manifests. Publish a snapshot of kind ANALYZE that names them; later
   snapshots name them, too.

The snapshot has the same rows as the preceding one. So no other commit conflicts with an analysis, and the statistics may
describe an older snapshot than the preceding one; they name it. A rollback also brings back the statistics of its target.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from lsmlake.commit.commit import commit
from lsmlake.commit.request import Identity, Request
from lsmlake.errors import Corrupt
from lsmlake.format.snapshot import NamedFile, Snapshot
from lsmlake.format.statistics import ANALYZE_AGAIN, ColumnStatistics, TableStatistics
from lsmlake.kernels.bounds import bounds
from lsmlake.read.measure import ColumnMeasure, Measured
from lsmlake.read.plan import Plan, plan
from lsmlake.schema.values import value_text
from lsmlake.tables.version import Metadata, Version

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
    column_statistics = tuple(_column(ids[name], column, measured.rows) for name, column in measured.columns.items())
    statistics = TableStatistics(version.snapshot.id, schema.id, measured.rows, stored, column_statistics)
    named = put_statistics(meta, statistics)
    return commit(version, Request(Identity(meta.env.ids()), requires=(), statistics=named)).snapshot


def _stored(version: Version, rows: int) -> int:
    """The estimated bytes of the visible rows: their share of the bytes of the data files."""
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


# -- statistics as stored ---------------------------------------------------------------------------------------------


def put_statistics(meta: Metadata, statistics: TableStatistics) -> NamedFile:
    """Stores statistics, which no snapshot names yet."""
    return meta.files.write_new("statistics", statistics.encode())


def statistics_of(meta: Metadata, snapshot: Snapshot | None) -> TableStatistics | None:
    """The statistics that a snapshot names; None: it names none. Raises Corrupt."""
    named = None if snapshot is None else snapshot.statistics
    if named is None:
        return None
    path = meta.paths.manifest(named.name)
    try:
        return TableStatistics.decode(meta.files.read(path, named.bytes), path)
    except Corrupt as damaged:  # no row depends on the file, so the cure is to replace it, not to restore it
        details = {"where": damaged.where, "expected": damaged.expected, "found": damaged.found}
        raise Corrupt(damaged.what, **details, cure=ANALYZE_AGAIN) from damaged
