"""A local Spark session for the command line that prints nothing on the console.

Spark's Java process prints warnings before it reads settings, so it is started with standard error redirected to a file, from
which the reason is read if it does not start.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from tempfile import TemporaryDirectory, TemporaryFile
from typing import IO

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from lsmlake.cli.java import require_java
from lsmlake.errors import MissingDependency

_SETTINGS = {
    "spark.driver.memory": "2g",
    "spark.driver.host": "127.0.0.1",  # a host name that does not resolve, as behind some VPNs, would prevent the start
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
}


@contextmanager
def local_session(name: str = "lsmlake", settings: Mapping[str, str] = {}) -> Iterator[SparkSession]:
    """A session on all cores of this machine, stopped at the end. `settings` override defaults. Raises MissingDependency."""
    require_java()
    os.environ["PYSPARK_PYTHON"] = sys.executable
    with TemporaryDirectory(prefix="lsmlake-spark-") as scratch:
        builder = SparkSession.builder.master("local[*]").appName(name).config("spark.sql.warehouse.dir", scratch)
        for key, value in {**_SETTINGS, **settings}.items():
            builder = builder.config(key, value)
        session = _started(builder)
        try:
            yield session
        finally:
            session.stop()


def _started(builder: SparkSession.Builder) -> SparkSession:
    with TemporaryFile() as log:
        try:
            with _errors_into(log):
                return builder.getOrCreate()
        except PySparkException as failed:
            log.seek(0)
            lines = log.read().decode(errors="replace").strip().splitlines()
            reason = lines[-1] if lines else str(failed)
            raise MissingDependency("Spark did not start", found=reason, cure="check whether `pyspark` starts") from failed


@contextmanager
def _errors_into(log: IO[bytes]) -> Iterator[None]:
    """Redirect the standard error of processes started inside the block to `log`, for as long as they live."""
    sys.stderr.flush()
    kept = os.dup(2)
    try:
        os.dup2(log.fileno(), 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
