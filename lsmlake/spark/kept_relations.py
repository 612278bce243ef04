"""Parquet relations: Spark's list of the files of a scan, with their sizes and partitions.

To make a relation takes 0.2 ms for each file, as it looks up the state of each. The files of a version never change, so a
classic session keeps the relation for the next DataFrame of the same files. Only the relation is kept: each DataFrame has columns
of its own, without which Spark could not tell two sides of a join apart.

PySpark does not document these ways into the JVM. Where they fail, its own reader is used: the same rows, 0.2 s later for 1,000
files.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import NamedTuple

from lsmlake.spark.frame_types import is_connect
from lsmlake.tables.live import Cache
from lsmlake.undo import pass_interruption

_log = logging.getLogger("lsmlake.spark")
_FILE_BYTES = 1 << 10  # of the state of a file, in the memory of the driver's JVM
_LARGEST_PART = 4  # of the cache: a larger relation would push out all manifests
_SEPARATOR = "\0"  # no address has it


class _KeptRelation(NamedTuple):
    """A relation of the JVM. `session`: the session that made it; it alone can use it."""

    session: object
    relation: object


def parquet(spark, reader, addresses: Callable[[], Sequence[str]], cache: Cache, files: tuple):
    """Returns the rows of Parquet files.

    Args:
        spark: the session.
        reader: its DataFrameReader, with schema and options.
        addresses: returns the addresses of the files.
        cache: keeps the relation.
        files: names the files, and all that the reader was told.
    """
    if is_connect(spark):
        return reader.parquet(*addresses())
    key = "relation", id(spark), *files
    kept = cache.known(key)
    try:
        if kept is not None:
            return reader._df(spark._jsparkSession.baseRelationToDataFrame(kept.relation))
        named = addresses()
        # PySpark passes each element of a list to the JVM by a call of its own, of 0.1 ms
        texts = spark._jvm.java.util.regex.Pattern.compile(_SEPARATOR).split(_SEPARATOR.join(named))
        rows = reader._df(reader._jreader.parquet(texts))
        relation = rows._jdf.queryExecution().analyzed()
        small = _LARGEST_PART * _FILE_BYTES * len(named) <= cache.limit_bytes
        if small and relation.nodeName() == "LogicalRelation":
            cache.put(key, _KeptRelation(spark, relation.relation()), lambda _: _FILE_BYTES * len(named))
        return rows
    except Exception as failed:  # the session has no such way into the JVM, or the public one raises the same error
        pass_interruption(failed)
        _log.debug("Spark's list of files is not kept: %s", failed)
        return reader.parquet(*addresses())
