"""Values out to Spark tasks and results back: the one way work is spread, on classic Spark and Connect alike.

A task is a picklable function of one picklable payload. An error of ours travels back as a value, so its message reaches the user
as it was raised, not inside a stack trace of the JVM.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from functools import partial

import pyarrow as pa
from pyspark.sql import functions as F

from lsmlake.errors import LakeError

RESULT = "result binary"
_RESULT = pa.schema([("result", pa.binary())])


def result(value: object) -> pa.RecordBatch:
    """A value, or an error, on its way to the driver."""
    return pa.record_batch([[pickle.dumps(value)]], schema=_RESULT)


def collect(df) -> tuple[list, list[LakeError]]:
    """Run a DataFrame of results: (values, errors)."""
    values = [pickle.loads(row[0]) for row in df.collect()]
    return [v for v in values if not isinstance(v, LakeError)], [v for v in values if isinstance(v, LakeError)]


def payloads(spark, values: Sequence[object]):
    """A DataFrame with a task for each of `values`, in their order."""
    table = pa.table(
        {"id": pa.array(range(len(values)), pa.int32()), "payload": pa.array([pickle.dumps(v) for v in values], pa.binary())}
    )
    return spark.createDataFrame(table).repartitionById(len(values), F.col("id"))


def unpacked(batches: Iterator[pa.RecordBatch]) -> Iterator[object]:
    """The payloads of a task."""
    for batch in batches:
        for data in batch.column(1):
            yield pickle.loads(data.as_py())


def spread(spark, work: Callable[[object], object], values: Sequence[object]) -> tuple[list, list[LakeError]]:
    """`work` of each of `values`, a task each: (results, errors), in no order."""
    return collect(payloads(spark, values).mapInArrow(partial(_work, work), RESULT)) if values else ([], [])


def _work(work: Callable[[object], object], batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for value in unpacked(batches):
        try:
            yield result(work(value))
        except LakeError as error:
            yield result(error)
