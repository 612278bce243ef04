"""Compacts buckets in Spark tasks, one bucket per task, the largest first; the driver commits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lsmlake.compact.bucket import compact_bucket
from lsmlake.compact.job import CompactBuckets, Goal, picker_of
from lsmlake.format.files import BucketState, CommitMessage
from lsmlake.lsm.levels import Levels
from lsmlake.schema.schema import Schema
from lsmlake.spark import tasks
from lsmlake.store.bucket_files import BucketFiles
from lsmlake.store.metadata import Metadata


@dataclass(frozen=True)
class _Compaction:
    """Called in a task with the state of a bucket."""

    meta: Metadata
    schema: Schema
    goal: Goal

    def __call__(self, state: BucketState) -> CommitMessage | None:
        pick = picker_of(self.meta, self.schema, self.goal.full)
        return compact_bucket(BucketFiles(self.meta, self.schema, state.bucket), state, pick, becoming=self.goal.becoming)


def run_on(spark, meta: Metadata, schema: Schema) -> CompactBuckets:
    """Returns a function that compacts buckets, with one task for each bucket that has something to compact."""

    def run(states: Sequence[BucketState], goal: Goal) -> list[CommitMessage]:
        pick = picker_of(meta, schema, goal.full)
        busy = [state for state in states if goal.becoming or pick(_levels(state))]
        results, errors = tasks.spread(spark, _Compaction(meta, schema, goal), busy)
        messages = [message for message in results if message]
        if errors:
            meta.files.discard(messages)
            raise errors[0]
        return messages

    return run


def _levels(state: BucketState) -> Levels:
    return Levels.of(state.files, {name: ref.cardinality for name, ref in state.vectors.items()})
