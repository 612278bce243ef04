"""Sends values to Spark tasks and collects results, on classic Spark and Connect.

A task is a picklable function of one picklable payload. A LakeError is returned as a value, so the user sees its message and not
a stack trace of the JVM.

Buckets are compacted in tasks, one bucket each, the largest first; the driver commits.
"""

from __future__ import annotations

import pickle
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from zipimport import zipimporter

import pyarrow as pa
from pyspark.sql import functions as F

from lsmlake.compact.job import CompactBuckets, Goal, compact_one, needs_compaction
from lsmlake.errors import LakeError
from lsmlake.format.data_files import BucketState, CommitMessage
from lsmlake.schema.schema import Schema
from lsmlake.tables.version import Metadata

RESULT = "result binary"
_ARCHIVES = "pyspark", "py4j", "spark-core"
_RESULT = pa.schema([("result", pa.binary())])


def result(value: object) -> pa.RecordBatch:
    """Encodes a value or error for the driver; the last step of a task."""
    _spare_archives()
    return pa.record_batch([[pickle.dumps(value)]], schema=_RESULT)


def _spare_archives() -> None:
    """Removes the importers of Spark's archives from Python's cache. PySpark before 4.3 begins each task with
    `importlib.invalidate_caches()`, and Python before 3.13 then reads the directory of each cached archive again, 70 ms for
    Spark's. Python creates a removed importer again when it needs it, from a directory listing that it keeps."""
    for path, importer in list(sys.path_importer_cache.items()):
        if isinstance(importer, zipimporter) and path.rpartition("/")[2].startswith(_ARCHIVES):
            del sys.path_importer_cache[path]


def collect(df) -> tuple[list, list[LakeError]]:
    """Runs a DataFrame of results; returns (values, errors)."""
    values = [pickle.loads(row[0]) for row in df.collect()]
    return [v for v in values if not isinstance(v, LakeError)], [v for v in values if isinstance(v, LakeError)]


def payloads(spark, values: Sequence[object]):
    """Returns a DataFrame with one task per value, in order."""
    table = pa.table(
        {"id": pa.array(range(len(values)), pa.int32()), "payload": pa.array([pickle.dumps(v) for v in values], pa.binary())}
    )
    return spark.createDataFrame(table).repartitionById(len(values), F.col("id"))


def unpacked(batches: Iterator[pa.RecordBatch]) -> Iterator[object]:
    """Yields the payloads of a task."""
    for batch in batches:
        for data in batch.column(1):
            yield pickle.loads(data.as_py())


def spread(spark, work: Callable[[object], object], values: Sequence[object]) -> tuple[list, list[LakeError]]:
    """Runs `work` on each value, one task per value; returns (results, errors) in any order."""
    return collect(payloads(spark, values).mapInArrow(partial(_work, work), RESULT)) if values else ([], [])


def _work(work: Callable[[object], object], batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for value in unpacked(batches):
        try:
            outcome = work(value)
        except LakeError as error:
            outcome = error
        yield result(outcome)


def run_on(spark, meta: Metadata, schema: Schema) -> CompactBuckets:
    """Returns a function that compacts buckets, with one task for each bucket that needs compaction."""

    def run(states: Sequence[BucketState], goal: Goal) -> list[CommitMessage]:
        busy = [state for state in states if needs_compaction(meta, schema, goal, state)]
        results, errors = spread(spark, partial(compact_one, meta, schema, goal), busy)
        messages = [message for message in results if message]
        if errors:
            meta.files.discard(messages)
            raise errors[0]
        return messages

    return run
