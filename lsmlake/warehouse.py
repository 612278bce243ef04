"""The entry points of the package: `connect` opens a warehouse; `ship` and `register` prepare a Spark session; `decode` reads
change events."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import pyarrow as pa

from lsmlake.api.lake import Lake
from lsmlake.api.lake_verbs.administration import columns_in
from lsmlake.api.public_types import Data, SparkDataFrame, SparkSession, TableSchema
from lsmlake.api.runtime import Args, Runtime
from lsmlake.border import public
from lsmlake.cdc.decoding import decoded
from lsmlake.cdc.event_formats import ChangeFormat
from lsmlake.cdc.event_rows import EventReader
from lsmlake.errors import InvalidOption, InvalidQuery, with_arguments
from lsmlake.extras import need_spark
from lsmlake.inputs.in_memory import is_spark
from lsmlake.maintain.followers import FOLLOWERS
from lsmlake.spark.ship import ship as ship_package
from lsmlake.storage.env import Env
from lsmlake.storage.location import cache_at, storage_at
from lsmlake.storage.storage import Storage
from lsmlake.tables.live import Cache
from lsmlake.types.literal import zone_named

_WORKERS_MAX = 4  # a compaction needs about 0.6 GB of memory
_ANY = "any"
_CACHE_BYTES = 10 << 30


@dataclass(frozen=True)
class EmbeddedRuntime(Runtime):
    """All work in this process; SQL is executed by DuckDB. `attach`: makes the runtime of a Spark session. `zone`: see
    `Runtime.zone`."""

    attach: Callable[[SparkSession], Runtime]
    zone: str = "UTC"

    def attached(self, spark: SparkSession) -> Runtime:
        return self.attach(spark)

    @property
    def executes(self) -> Callable[[Lake, str, Args, Mapping[str, object]], pa.Table]:
        from lsmlake.sql.execution import execute  # loads sqlglot

        return execute

    @property
    def keeps_views(self) -> object:
        from lsmlake.views.view_keeper import ViewKeeper  # loads sqlglot

        return ViewKeeper()


@public
def connect(
    location: str | os.PathLike[str],
    *,
    storage_options: Mapping[str, object] | None = None,
    cache: str | os.PathLike[str] | None = None,
    cache_bytes: int | None = None,
    spark: SparkSession | None = None,
    time_zone: str | None = None,
) -> Lake:
    """Open a warehouse. The first write creates its directory; a bucket must exist.

    Args:
        location: a directory, as a path or a file:// address; or "s3://bucket/prefix", "gs://bucket/prefix",
            "az://container/prefix", "abfss://container@account.dfs.core.windows.net/prefix"; or "memory://name", which all
            connections of this process share.
        storage_options: settings of an object store, by the names of obstore: endpoint, region, access_key_id,
            secret_access_key, session_token, profile, allow_http, timeout, max_retries and others. Default: the usual environment
            variables, profiles and roles.
        cache: a directory of this machine, for the files of an object store that never change, and for copies of rows that make
            lookups by key faster, of object stores and directories. Processes can share it; Spark's tasks use the same path of
            theirs. Without it, files are read from the store whenever memory does not hold them.
        cache_bytes: the most bytes in that directory, by default 10 GiB. All processes that share it should pass the same.
        spark: a SparkSession, classic or Connect, that runs the operations on DataFrames. Without it, all methods except those of
            Spark run in this process.
        time_zone: the zone of every time that is given without one, in SQL, `where`, converted data and time travel, and of the
            hours and days that SQL computes: a name such as "Europe/Berlin", or an offset such as "+01:00". Default: UTC, or with
            Spark the session's `spark.sql.session.timeZone`.

    Raises:
        InvalidQuery: `location` is not a path or an address of these kinds, `time_zone` is not a time zone, or Spark has its own.
        InvalidOption: a storage option is unknown or has a value that does not fit; or a cache is too small, or is given for a
            warehouse in memory, or only its size is given.
        MissingDependency: PySpark is not installed, or obstore for an object store.

    Example:
        >>> lake = lsmlake.connect("warehouse")
    """
    if cache is None and cache_bytes is not None:
        raise InvalidOption(
            "cache_bytes has no effect without a cache", where="connect()", found=cache_bytes, cure="pass cache=, a directory"
        )
    disk_cache = None if cache is None else cache_at(os.fspath(cache), _CACHE_BYTES if cache_bytes is None else cache_bytes)
    storage = storage_at(os.fspath(location), storage_options, disk_cache)
    if spark is not None:
        storage.place(_ANY)  # raises if the tasks cannot reach it
    workers = min(_WORKERS_MAX, os.cpu_count() or 1)
    decoded_rows = Cache(limit_bytes=0)  # an option of each table is the limit of what it adds
    env = Env(storage, workers=workers, followers=FOLLOWERS, copies=disk_cache, decoded=decoded_rows)
    return Lake(env, _runtime(storage, spark, time_zone))


@public
def ship(spark: SparkSession) -> None:
    """Distribute this package to the executors of a session, classic or Connect, where it is not installed.

    Streams work, too, and so does the format "lsmlake" if `register` is called afterwards. The dependencies of lsmlake (PyArrow,
    NumPy, pandas, pyroaring, msgpack, sqlglot) must be installed where Spark runs Python. A second call does nothing.

    Args:
        spark: the session.

    Raises:
        MissingDependency: PySpark is not installed.
    """
    need_spark("ship(spark)")
    _check_session(spark, "ship(spark)")
    ship_package(spark)


@public
def register(spark: SparkSession) -> None:
    """Register the format "lsmlake" with a session, for `spark.read.format("lsmlake")` and `spark.readStream.format("lsmlake")`.

    lsmlake must be installed where Spark runs Python, or distributed by `ship` before.

    Args:
        spark: a SparkSession, classic or Connect.

    Raises:
        MissingDependency: PySpark is not installed.

    Example:
        >>> lsmlake.register(spark)
        >>> spark.read.format("lsmlake").load("warehouse/sales.db/orders")
    """
    need_spark("register(spark)")
    _check_session(spark, "register(spark)")
    from lsmlake.spark.datasource import portable

    portable.register(spark)


@public
def decode(
    data: Data,
    format: str | ChangeFormat,
    schema: TableSchema,
    *,
    primary_key: Sequence[str] = (),
    column: str | None = None,
    time_zone: str | None = None,
) -> pa.Table | SparkDataFrame:
    """Decode change events to rows with row kinds, as `Table.upsert(format=...)` writes them.

    Args:
        data: texts or bytes with one event each, files with an event per line, or data with a column of events.
        format: as in `Table.upsert`.
        schema: the columns of the rows: a pyarrow.Schema, DDL text or, for a DataFrame, a StructType. Other fields of the events
            are left out.
        primary_key: the key. An update that changes it becomes a delete and an insert.
        column: the column of the events. Default: "value".
        time_zone: of times without a time zone. Default: UTC. A DataFrame has that of its session.

    Returns:
        A table, or for a DataFrame a DataFrame, with these columns and

        - `_row_kind`: '+I', '+U', '-D' or, for an event that removes all rows, 'truncate';
        - `_event_position`, `_event_offset`: the position in the source and the offset in Kafka, by which events are ordered;
        - `_event_kept`: the numbers of the columns that have not changed and whose values the event lacks, such as ",2,5,".

    Raises:
        InvalidData: an event cannot be read. With a DataFrame the error is raised when Spark reads it.

    Example:
        >>> rows = lsmlake.cdc.decode("events.jsonl", "maxwell-json", "id BIGINT, name STRING", primary_key=["id"])
    """
    if is_spark(data):
        need_spark("decode of a DataFrame")
        if time_zone is not None:
            raise _of_session(time_zone)
        from lsmlake.spark.change_frames import decoded_frame

        runtime = _runtime(storage_at("."), data.sparkSession)
        return decoded_frame(data, _reader(runtime, format, schema, primary_key, runtime.zone), column, by_spark=True)
    reader = _reader(Runtime(), format, schema, primary_key, "UTC" if time_zone is None else _checked_zone(time_zone))
    return decoded(data, reader, column)


def _reader(
    runtime: Runtime, format: str | ChangeFormat, schema: TableSchema, primary_key: Sequence[str], zone: str
) -> EventReader:
    columns = columns_in(runtime, schema, "pass the events as a DataFrame, or write the columns as text")
    if unknown := [name for name in primary_key if name not in columns.names]:
        raise InvalidQuery("unknown key columns", expected=columns.names, found=unknown, cure="correct the names")
    return EventReader(ChangeFormat.of(format), columns, tuple(primary_key), zone)


def _check_session(spark: SparkSession, where: str) -> None:
    if not (hasattr(spark, "dataSource") and hasattr(spark, "createDataFrame")):
        kind = type(spark).__name__
        raise InvalidQuery("not a Spark session", where=where, expected="a SparkSession of Spark 4", found=kind, cure="pass one")


def _runtime(storage: Storage, spark: SparkSession | None, time_zone: str | None = None) -> Runtime:
    if spark is None:
        return EmbeddedRuntime(partial(_runtime, storage), "UTC" if time_zone is None else _checked_zone(time_zone))
    if time_zone is not None:
        raise _of_session(time_zone)
    need_spark("connect(..., spark=...)")
    from lsmlake.spark.spark_runtime import SparkRuntime

    return SparkRuntime(spark, near=storage.at_once == 1)


def _of_session(time_zone: str) -> InvalidQuery:
    """The error for a time zone beside that of a Spark session."""
    where, cure = with_arguments("{}", "time_zone"), f"set spark.sql.session.timeZone to {time_zone}"
    return InvalidQuery("with Spark, the session has the time zone", where=where, found=time_zone, cure=cure)


def _checked_zone(name: str) -> str:
    try:
        zone_named(name)
    except ValueError as error:
        cure = "pass the name of a time zone"
        raise InvalidQuery(
            "unknown time zone",
            where=with_arguments("{}", "time_zone"),
            expected="a name such as Europe/Berlin or +01:00",
            found=name,
            cure=cure,
        ) from error
    return "UTC" if name in ("GMT", "UT", "Z", "Etc/UTC") else name
