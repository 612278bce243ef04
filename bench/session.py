"""The Spark session of the benchmarks: local, one thread per core, all other settings at their defaults."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import SparkSession

_SETTINGS = {
    "spark.driver.memory": "4g",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",  # as lsmlake writes them
    "spark.sql.parquet.compression.codec": "zstd",
    "spark.hadoop.parquet.compression.codec.zstd.level": "1",
}


@contextmanager
def session(folder: Path) -> Iterator[SparkSession]:
    """A session whose temporary files lie below `folder`, stopped at the end; one that runs already is used and left alone."""
    if (running := SparkSession.getActiveSession()) is not None:
        yield running
        return
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[*]").appName("lsmlake bench").config("spark.local.dir", str(folder / "spark"))
    for name, value in _SETTINGS.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    try:
        yield spark
    finally:
        spark.stop()
