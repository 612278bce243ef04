"""Compacts buckets in Spark tasks, one bucket per task, the largest first; the driver commits."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from lsmlake.compact.job import CompactBuckets, Goal, compact_one, needs_compaction
from lsmlake.format.files import BucketState, CommitMessage
from lsmlake.schema.schema import Schema
from lsmlake.spark import tasks
from lsmlake.tables.metadata import Metadata


def run_on(spark, meta: Metadata, schema: Schema) -> CompactBuckets:
    """Returns a function that compacts buckets, with one task for each bucket that has something to compact."""

    def run(states: Sequence[BucketState], goal: Goal) -> list[CommitMessage]:
        busy = [state for state in states if needs_compaction(meta, schema, goal, state)]
        results, errors = tasks.spread(spark, partial(compact_one, meta, schema, goal), busy)
        messages = [message for message in results if message]
        if errors:
            meta.files.discard(messages)
            raise errors[0]
        return messages

    return run
