"""The session of PySpark that decides."""

from __future__ import annotations

import logging
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import SparkSession
from spark_support import JVM_OPTIONS, classic_session


@contextmanager
def session() -> Iterator[SparkSession]:
    """A session for a while. Some queries of TPC-DS broadcast more than Spark's usual memory holds."""
    os.environ.setdefault("SPARK_SUBMIT_OPTS", JVM_OPTIONS)
    os.environ.setdefault("PYSPARK_SUBMIT_ARGS", "--driver-memory 4g pyspark-shell")
    with tempfile.TemporaryDirectory() as folder:
        spark = classic_session(Path(folder))
        spark.sparkContext.setLogLevel("OFF")  # statements that fail are outcomes
        logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)
        try:
            yield spark
        finally:
            spark.stop()
