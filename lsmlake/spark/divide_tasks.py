"""Divides the files of buckets in Spark tasks, or on the driver if they are small."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from lsmlake.files import divide as in_process
from lsmlake.files.divide import Divide, Division, NewBucket, discard, divide_part
from lsmlake.schema.schema import Schema
from lsmlake.spark import tasks
from lsmlake.tables.version import Metadata


def run_on(spark) -> Divide:
    """Returns a function that divides files, with tasks of at most `files.divide.AT_ONCE` new buckets each."""

    def run(meta: Metadata, schema: Schema, works: Sequence[Division]) -> list[NewBucket]:
        if sum(work.bytes for work in works) <= meta.env.limits.driver_merge_bytes:
            return in_process.divide(meta, schema, works)
        parts = sorted((part for work in works for part in work.parts()), key=lambda part: part.bytes, reverse=True)
        results, errors = tasks.spread(spark, partial(divide_part, meta, schema), parts)
        made = [one for result in results for one in result]
        if errors:
            discard(meta, made)
            raise errors[0]
        return made

    return run
