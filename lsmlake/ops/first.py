"""The first rows of a stream of batches."""

from __future__ import annotations

import pyarrow as pa


def first_rows(batches: pa.RecordBatchReader, count: int) -> pa.Table:
    """At most `count` rows. Stops reading once it has them."""
    found: list[pa.RecordBatch] = []
    left = count
    while left:
        try:
            batch = batches.read_next_batch()
        except StopIteration:
            break
        found.append(batch.slice(0, left))
        left -= found[-1].num_rows
    batches.close()
    return pa.Table.from_batches(found, batches.schema)
