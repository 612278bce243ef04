"""Where users begin: `lsmlake.connect` opens a warehouse, `lsmlake.register` gives a Spark session the format "lsmlake"."""

from __future__ import annotations

import os

from lsmlake.api.lake import Lake
from lsmlake.api.runtime import Runtime
from lsmlake.border import public
from lsmlake.errors import InvalidQuery
from lsmlake.extras import need_spark
from lsmlake.store.env import Env
from lsmlake.store.local import LocalStorage, directory_at

_WORKERS_MAX = 4  # a compaction takes some 0.6 GB


@public
def connect(location: str | os.PathLike, *, spark: object | None = None) -> Lake:
    """Open the warehouse in directory `location` (a path or file:// address), made by the first write.

    `spark`: a SparkSession, classic or Connect, that then does the work on DataFrames. Without it everything but Spark's own
    verbs runs in this process. Raises InvalidQuery for a text that is no path and for an address this release cannot reach.
    """
    text = os.fspath(location)
    if text.startswith("file://"):
        text = text[len("file://") :]
    elif "://" in text:
        raise InvalidQuery(
            "this release keeps tables in file systems only",
            where=text,
            expected="a directory",
            cure="mount the store, or use a local directory",
        )
    storage = LocalStorage(directory_at(text))
    return Lake(Env(storage, workers=min(_WORKERS_MAX, os.cpu_count() or 1)), _runtime(spark))


@public
def ship(spark: object) -> None:
    """Give this package to the executors of a session, classic or Connect, where it need not be installed.

    Streams and the format "lsmlake" work too, `register` called afterwards. What lsmlake depends on (PyArrow, NumPy, pandas,
    pyroaring, msgpack, sqlglot) must be installed where Spark runs Python. Does nothing the second time.
    """
    need_spark("ship(spark)")
    _check_session(spark, "ship(spark)")
    from lsmlake.spark import ship

    ship.ship(spark)


@public
def register(spark: object) -> None:
    """Make `spark.read.format("lsmlake")` and `spark.readStream.format("lsmlake")`, `.load("<warehouse>/<database>.db/<table>")`,
    known to a session. lsmlake must be installed where Spark runs Python, or shipped before: `ship`."""
    need_spark("register(spark)")
    _check_session(spark, "register(spark)")
    from lsmlake.spark import source

    source.register(spark)


def _check_session(spark: object, where: str) -> None:
    if not (hasattr(spark, "dataSource") and hasattr(spark, "createDataFrame")):
        found = type(spark).__name__
        raise InvalidQuery("not a Spark session", where=where, expected="a SparkSession of Spark 4", found=found, cure="pass one")


def _runtime(spark: object | None) -> Runtime:
    if spark is None:
        return Runtime()
    need_spark("connect(..., spark=...)")
    from lsmlake.spark.runtime import SparkRuntime

    return SparkRuntime(spark)
