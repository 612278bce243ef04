"""Values out to Spark tasks and results back: the one way work is spread, on classic Spark and Connect alike.

A task is a picklable function of one picklable payload. An error of ours travels back as a value, so its message reaches the user
as it was raised, not inside a stack trace of the JVM.
"""

from __future__ import annotations

import pickle
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from zipimport import zipimporter

import pyarrow as pa
from pyspark.sql import functions as F

from lsmlake.errors import LakeError

RESULT = "result binary"
_ARCHIVES = "pyspark", "py4j", "spark-core"
_RESULT = pa.schema([("result", pa.binary())])


def result(value: object) -> pa.RecordBatch:
    """A value, or an error, on its way to the driver: the last a task does."""
    _spare_archives()
    return pa.record_batch([[pickle.dumps(value)]], schema=_RESULT)


def _spare_archives() -> None:
    """PySpark before 4.3 begins every task with `importlib.invalidate_caches()`, and Python before 3.13 then reads the directory
    of every archive it has an importer of: 70 ms for Spark's own, which do not change. An importer that is not in the cache is
    made again when it is needed, of a directory that is kept."""
    for path, importer in list(sys.path_importer_cache.items()):
        if isinstance(importer, zipimporter) and path.rpartition("/")[2].startswith(_ARCHIVES):
            del sys.path_importer_cache[path]


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
            outcome = work(value)
        except LakeError as error:
            outcome = error
        yield result(outcome)
