"""Small batches come to the driver, which writes them as a process without Spark does: one Spark job and no Python worker.

To spread a batch over tasks costs some tenths of a second whatever its size: a shuffle, and a Python worker for every task. One
process writes 100,000 rows in less. How large a batch is nobody knows before it is computed, and it must not flood the driver.
So:

1. `row_limit` decides by what is known: the last commit that brought rows was small, and so is the work on the table itself,
   lookups and merges. Streams and jobs that come again bring batches of like size.
2. `rows` fetches the batch, or as much of it as may come: partition p (from 0) may hold limit / (p + 1) rows. Batches below the
   limit whose rows are spread evenly fit, and of others a few times the limit comes at most, whatever they hold.
3. What did not fit, or failed, is written by tasks after all, and computed once more for that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from lsmlake.compact.bucket import Picker
from lsmlake.errors import SnapshotNotFound
from lsmlake.format.files import BucketState
from lsmlake.format.snapshot import Snapshot
from lsmlake.lsm.levels import Levels
from lsmlake.lsm.pick import Compaction
from lsmlake.schema.schema import Schema
from lsmlake.store.metadata import Metadata

_LOOKUP_ROWS = 50_000_000  # of a table: a batch with keys all over reads the key column of all, some 0.2 s
_LOOKUP_FILES = 256
_MERGE_BYTES = 64 << 20  # to be merged with the batch, in all buckets
_BATCH_BYTES = 128 << 20  # in memory
_EXPANSION = 4  # of a Parquet file in memory
_LOOKS = 4
_ORDER = "row_order"
_PARTITION_BITS = 33  # of monotonically_increasing_id, below them the row in its partition


def row_limit(meta: Metadata, schema: Schema, latest: Snapshot | None, pick: Picker | None) -> int:
    """How many rows the driver may fetch and write; 0: let the tasks do it."""
    limit = schema.parsed_options.write.collect_rows
    if latest is None or not limit or not 0 < _last_rows(meta, latest) <= limit:
        return 0
    try:
        with meta.unless_expired(latest):
            states = list(meta.states(latest, schema, statistics=False).values())
    except SnapshotNotFound:
        return 0
    files = [file for state in states for file in state.files]
    if pick and (latest.total_rows > _LOOKUP_ROWS or len(files) > _LOOKUP_FILES):
        return 0
    if pick and sum(_merge_bytes(state, pick) for state in states) > _MERGE_BYTES:
        return 0
    row_bytes = _EXPANSION * sum(file.bytes for file in files) // max(1, sum(file.rows for file in files))
    return min(limit, _BATCH_BYTES // max(1, row_bytes))


def _last_rows(meta: Metadata, latest: Snapshot) -> int:
    """How many rows the last commit brought that brought any; 0: too long ago."""
    snapshot = latest
    for _ in range(_LOOKS):
        if snapshot.delta_rows or snapshot.id == 1:
            break
        try:
            snapshot = meta.snapshot(snapshot.id - 1)
        except SnapshotNotFound:
            break
    return snapshot.delta_rows


def _merge_bytes(state: BucketState, pick: Picker) -> int:
    """What a bucket is about to merge, if the next batch is like the newest file."""
    dead = {name: ref.cardinality for name, ref in state.vectors.items()}
    levels = Levels.of(state.files, dead)
    if not levels.runs:
        return 0
    coming = replace(levels.runs[0].files[0], name="", level=0, sequence=None, min_sequence=None)
    then = Levels.of((*state.files, coming), dead)
    return max(_bytes(pick(levels)), _bytes(pick(then)))


def _bytes(picked: Compaction | None) -> int:
    return sum(file.bytes for file in picked.inputs if file.name) if picked else 0


def modest(pick: Picker | None) -> Picker | None:
    """`pick` without large rewrites for dead rows, which are left to a batch that is written by tasks. (The first compaction
    must run, or the batch would lie at level 0.)"""
    if pick is None:
        return None

    def picked(levels: Levels) -> Compaction | None:
        found = pick(levels)
        return found if levels.level0 or _bytes(found) <= _MERGE_BYTES else None

    return picked


def rows(df, columns: Sequence[str], limit: int) -> pa.Table | None:
    """All rows of a DataFrame, its `columns`, in the order Spark has them; `None` if more than may come, or none could."""
    partition, row = f"shiftright({_ORDER}, {_PARTITION_BITS})", f"({_ORDER} & {(1 << _PARTITION_BITS) - 1})"
    numbered = df.selectExpr(*columns, f"monotonically_increasing_id() as {_ORDER}")
    try:  # one row more tells that there are more
        found = numbered.where(f"({row} - 1) * ({partition} + 1) < {limit}").toArrow()
    except Exception:  # beyond spark.driver.maxResultSize, or an error of the batch, which Spark tells better when tasks meet it
        return None
    order = found[_ORDER]
    place = pc.bit_wise_and(order, (1 << _PARTITION_BITS) - 1)
    share = pc.multiply(place, pc.add(pc.shift_right(order, _PARTITION_BITS), 1))
    too_many = pc.any(pc.greater_equal(share, limit)).as_py()
    return None if too_many else found.drop_columns([_ORDER])
