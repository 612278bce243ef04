"""Collects small batches on the driver, which writes them in process: one Spark job and no Python worker.

Writing a batch in tasks costs some tenths of a second regardless of its size: a shuffle, and one Python worker per task. One
process writes 100,000 rows in less time. The size of a batch is unknown before it is computed, and it must not overload the
driver. So:

1. `row_limit` estimates from the table: the last commit with rows was small, and so are the lookups and merges of the next write.
   Streams and recurring jobs write batches of similar sizes.
2. `rows` collects the batch within limits: partition p (from 0) may return limit / (p + 1) rows. Batches smaller than the limit
   with evenly distributed rows fit; of other batches at most a few times the limit is transferred.
3. A batch that does not fit, or fails, is computed again and written by tasks.

The changes of an UPDATE or DELETE are written like a batch.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from lsmlake.compact.bucket_compaction import Picker
from lsmlake.errors import SnapshotNotFound
from lsmlake.format.data_files import BucketState
from lsmlake.format.snapshot import Snapshot
from lsmlake.lsm.levels import Levels
from lsmlake.lsm.pick import Compaction
from lsmlake.spark.frame_types import is_connect
from lsmlake.spark.learned import Learned
from lsmlake.tables.version import Metadata, Version
from lsmlake.undo import pass_interruption

_LOOKUP_ROWS = 50_000_000  # of a table: a batch with random keys reads the whole key column, about 0.2 s
_LOOKUP_FILES = 256
_BATCH_BYTES = 128 << 20  # in memory
_EXPANSION = 4  # of a Parquet file in memory
_LOOKS = 4
_ORDER = "row_order"
_PARTITION_BITS = 33  # of monotonically_increasing_id; the lower bits number the rows of a partition


def row_limit(version: Version, pick: Picker | None, df, learned: Learned) -> int:
    """Returns how many rows of `df` the driver may collect and write; 0: write in tasks. `learned`: what earlier writes told."""
    if is_connect(df) or version.meta.paths.root in learned.uneven:
        return 0
    limit, latest = version.options.write.collect_rows, version.snapshot
    if latest is None or not limit or not 0 < last_rows(version.meta, latest) <= limit:
        return 0
    try:
        with version.unless_expired():
            states = list(version.states(statistics=False).values())
    except SnapshotNotFound:
        return 0
    files = [file for state in states for file in state.files]
    if pick and not _writes_little(version, latest, states, pick):
        return 0
    row_bytes = _EXPANSION * sum(file.bytes for file in files) // max(1, sum(file.rows for file in files))
    return min(limit, _BATCH_BYTES // max(1, row_bytes))


def writes_little(version: Version, pick: Picker | None) -> bool:
    """Whether the lookup and the merges of the next small batch suit the driver."""
    latest = version.snapshot
    if pick is None or latest is None:
        return True
    return _writes_little(version, latest, list(version.states(statistics=False).values()), pick)


def _writes_little(version: Version, latest: Snapshot, states: Sequence[BucketState], pick: Picker) -> bool:
    if latest.total_rows > _LOOKUP_ROWS or sum(len(state.files) for state in states) > _LOOKUP_FILES:
        return False
    return sum(_merge_bytes(state, pick) for state in states) <= version.meta.env.limits.driver_merge_bytes


def last_rows(meta: Metadata, latest: Snapshot) -> int:
    """Returns the number of rows of the last commit that wrote rows; 0 if it is not among the last few."""
    snapshot = latest
    for _ in range(_LOOKS):
        if snapshot.delta_rows or snapshot.id == 1:
            break
        try:
            snapshot = meta.snapshots.get(snapshot.id - 1)
        except SnapshotNotFound:
            break
    return snapshot.delta_rows


def _merge_bytes(state: BucketState, pick: Picker) -> int:
    """Returns the bytes that the next compaction of a bucket merges, if the next batch is like the newest file."""
    dead = {name: ref.cardinality for name, ref in state.vectors.items()}
    levels = Levels.of(state.files, dead)
    if not levels.runs:
        return 0
    coming = levels.runs[0].files[0]._replace(name="", level=0, sequence=None, min_sequence=None)
    then = Levels.of((*state.files, coming), dead)
    return max(_bytes(pick(levels)), _bytes(pick(then)))


def _bytes(picked: Compaction | None) -> int:
    return sum(file.bytes for file in picked.inputs if file.name) if picked else 0


def modest(pick: Picker | None, merge_bytes: int) -> Picker | None:
    """Restricts `pick`: it leaves large rewrites that only reclaim deleted rows to batches written by tasks. (A compaction of
    level 0 must run, or the batch would stay at level 0.)"""
    if pick is None:
        return None

    def picked(levels: Levels) -> Compaction | None:
        compaction = pick(levels)
        return compaction if levels.level0 or _bytes(compaction) <= merge_bytes else None

    return picked


def rows(df, columns: Sequence[str], limit: int) -> pa.Table | None:
    """Returns all rows of a DataFrame, its `columns`, in Spark's order; None if there are too many, or if the job failed."""
    numbered = placed_rows(df, columns, limit)
    return None if numbered is None else numbered.drop_columns([_ORDER])


def placed_rows(df, columns: Sequence[str], limit: int) -> pa.Table | None:
    """As `rows`, with the column `row_order`: the numbers of `monotonically_increasing_id`."""
    partition, row = f"shiftright({_ORDER}, {_PARTITION_BITS})", f"({_ORDER} & {(1 << _PARTITION_BITS) - 1})"
    numbered = df.selectExpr(*columns, f"monotonically_increasing_id() as {_ORDER}")
    try:  # one row beyond the limit shows that there are more
        result = numbered.where(f"({row} - 1) * ({partition} + 1) < {limit}").toArrow()
    except Exception as error:  # over spark.driver.maxResultSize, or an error of the batch, which the tasks will report
        pass_interruption(error)
        return None
    order = result[_ORDER]
    place = pc.bit_wise_and(order, (1 << _PARTITION_BITS) - 1)
    share = pc.multiply(place, pc.add(pc.shift_right(order, _PARTITION_BITS), 1))
    too_many = pc.any(pc.greater_equal(share, limit)).as_py()
    return None if too_many else result
