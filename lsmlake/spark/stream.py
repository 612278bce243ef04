"""Streaming writes and reads. A streaming upsert is exactly once: each micro-batch is one commit, identified by writer id and
batch id.

After a crash between the commit and Spark's checkpoint, Spark runs the batch again; the writer finds its commit and does nothing.
The default writer id is the query's id. It is stored in the checkpoint, so it survives restarts; a new checkpoint, whose batch
ids restart at 0, gives another writer id. If the user gives the writer id, the table also stores the query's id, so that batches
of another query are not mistaken for replays.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from functools import partial, wraps

from pyspark.errors import PySparkException
from pyspark.sql import functions as F

from lsmlake.api.following import Following
from lsmlake.api.table import Table
from lsmlake.border import public, short
from lsmlake.cdc.change_input import ChangeInput
from lsmlake.cdc.event_formats import ChangeFormat
from lsmlake.commit.request import Identity, replayed
from lsmlake.errors import EngineFailed, InvalidData, InvalidOption
from lsmlake.inputs.in_memory import is_spark
from lsmlake.maintain.alter import evolve
from lsmlake.read.travel import time_text
from lsmlake.schema.rowkind import COMMIT_TIME
from lsmlake.spark.caller import Batches, SinkArrival, caller
from lsmlake.spark.datasource import options, portable
from lsmlake.spark.frame_types import to_arrow
from lsmlake.spark.ship import carried
from lsmlake.tables.version import Metadata
from lsmlake.types.literal import zone_named
from lsmlake.undo import is_interruption
from lsmlake.write.prepare import unstored
from lsmlake.write.write_request import WriteRequest

_WRITTEN = Batches()
_OBSERVED = "lsmlake"
"""The name of the metrics in the progress of a query."""
_LATE, _STARTS = "Python worker failed to connect back", 3
_log = logging.getLogger("lsmlake.spark")


def ends_query(kind: type) -> type:
    """Makes calls of a class raise an interruption as an Exception: PySpark answers Spark only if the function for `foreachBatch`
    returns or raises an Exception; otherwise the query would wait forever."""
    call = kind.__call__

    @wraps(call)
    def called(self: object, df: object, batch_id: int) -> None:
        try:
            call(self, df, batch_id)
        except BaseException as error:
            if not is_interruption(error):
                raise
            what, cause = f"batch {batch_id} was interrupted", f"{type(error).__name__}: {error}"
            raise EngineFailed(what, where="sink", found=cause, cure="start the query again: it writes the batch then") from error

    kind.__call__ = called
    return kind


@ends_query
@public
@dataclass(frozen=True)
class Sink:
    """The function for `foreachBatch`. On Spark Connect it is pickled and runs in a process beside the server."""

    table: Table
    writer_id: str | None
    request: WriteRequest
    changes: ChangeInput | None
    checkpoint: str | None
    replaces: str | None
    arrival: SinkArrival | None = None

    def __call__(self, df, batch_id: int) -> None:
        if not is_spark(df):
            cure = "pass the sink to foreachBatch; upsert() takes other data"
            raise InvalidData("not a DataFrame of Spark", where="sink", found=type(df).__name__, cure=cure)
        calling = caller(df.sparkSession, self.checkpoint, self.arrival)
        if calling is None:
            raise InvalidData(
                "a sink was called outside of a streaming query, or in a thread without Spark's properties",
                where=self.table.name,
                expected="a call by foreachBatch, in its thread or in a pyspark.InheritableThread",
                cure="call it there, or use upsert(df, writer_id=..., commit_id=...)",
            )
        query = None if self.writer_id is None else calling.query  # a query's id is unique as a writer id
        identity = Identity(self.writer_id or calling.query, batch_id, query, self.replaces)
        table = self.table
        with _WRITTEN.once(table.meta.env.storage.place(table.meta.paths.home), identity.writer_id, calling.run, batch_id):
            version = table.version
            if self.changes is None and version.options.write.merge_schema and not replayed(version, identity):
                compactions = partial(table.runtime.compactions, table.meta)
                columns = to_arrow(df.schema)
                version = evolve(version, table.name, columns, unstored(columns, version.schema, self.request), compactions)
            clock = table.meta.env.clock
            began_ms = clock()
            request, runtime = replace(self.request, identity=identity), table.runtime
            if self.changes is None:
                snapshot = runtime.upsert(version, df, request)
            else:
                snapshot = runtime.upsert_changes(version, df, request, self.changes)
            if snapshot is not None:
                told = table.name, batch_id, snapshot.id, snapshot.delta_rows, (clock() - began_ms) / 1000
                _log.info("%s: batch %d is in snapshot %d, %d rows written, %.2f s", *told)

    def __reduce__(self):
        values = [getattr(self, field.name) for field in fields(self) if field.name != "arrival"]
        return carried(self.table.runtime.package, _arrived, *values)


def _arrived(*values: object) -> Sink:
    return Sink(*values, arrival=SinkArrival.now())


def sink(
    table: Table,
    writer_id: str | None,
    request: WriteRequest,
    changes: ChangeInput | None,
    checkpoint: str | None,
    replaces: str | None,
    connect: bool,
) -> Sink:
    if writer_id is None and checkpoint is None and connect:
        raise InvalidOption(
            "on Spark Connect a sink cannot see which query calls it",
            where=f"{table.name}.sink()",
            expected="writer_id or checkpoint",
            cure="pass the query's checkpoint directory, or a unique name, as in sink(writer_id='orders-stream')",
        )
    if writer_id is None and replaces is not None:
        raise InvalidOption(
            "replaces needs writer_id",
            where=f"{table.name}.sink()",
            found=f"replaces={replaces!r}",
            cure="pass writer_id as well, or omit replaces",
        )
    return Sink(table, writer_id, request, changes, checkpoint, replaces)


def write_stream(
    table: Table,
    df,
    checkpoint: str,
    trigger: Mapping[str, object] | None,
    request: WriteRequest,
    changes: ChangeInput | None,
    query_name: str | None,
    writer_id: str | None,
):
    check_trigger(trigger)
    if not checkpoint:
        raise InvalidOption(
            "a streaming upsert needs a checkpoint", where=table.name, expected="a directory", cure="pass checkpoint=..."
        )
    if not getattr(df, "isStreaming", False):
        raise InvalidData(
            "not a streaming DataFrame", found=type(df).__name__, cure="use spark.readStream, or upsert for a batch"
        )
    table = replace(table, runtime=table.runtime.for_stream(df))
    writer = _observed(df).writeStream.foreachBatch(Sink(table, writer_id, request, changes, str(checkpoint), None))
    writer = writer.option("checkpointLocation", str(checkpoint))
    writer = writer if query_name is None else writer.queryName(query_name)
    return started(writer if trigger is None else writer.trigger(**trigger), table.name)


_TRIGGERS = {"processingTime": str, "availableNow": bool, "once": bool}


def check_trigger(trigger: Mapping[str, object] | None) -> None:
    """Raises InvalidOption unless it is one trigger of `DataStreamWriter.trigger` with a value. Spark knows one more, continuous,
    which runs no function."""
    if trigger is None:
        return
    fits = (isinstance(value, _TRIGGERS.get(name, ())) and bool(value) for name, value in trigger.items())
    if len(trigger) != 1 or not all(fits):
        expected = "one of {'processingTime': '10 seconds'}, {'availableNow': True} and {'once': True}"
        raise InvalidOption("not a trigger", where="trigger", expected=expected, found=short(trigger), cure="pass one of them")


def _observed(df):
    """A stream that reports its row count and, for a feed of changes, the newest commit time in the progress of its query."""
    metrics = [F.count(F.lit(1)).alias("rows")]
    if COMMIT_TIME in df.columns:
        metrics.append(F.unix_millis(F.max(F.col(COMMIT_TIME))).alias("newest_change_ms"))
    return df.observe(_OBSERVED, *metrics)


def started(writer, name: str):
    """Starts a stream. A Connect server gives the Python process of the function ten seconds to start, which no setting changes
    and a busy machine may exceed. Then no query has begun, so the start is tried again."""
    for left in reversed(range(_STARTS)):
        try:
            return writer.start()
        except PySparkException as error:
            if _LATE not in str(error) or not left:
                raise
            _log.warning("%s: the Python process of the stream did not start in time; trying again", name)


def _known(zone: str) -> str | None:
    """The time zone of the session; None for a name of Java's own, which `where` does not need, as it was read before."""
    try:
        zone_named(zone)
    except ValueError:
        return None
    return zone


def read_stream(spark, meta: Metadata, following: Following, zone: str):
    """Returns the changes of a table as a streaming DataFrame, through the data source. Invalid arguments raise here."""
    follower = following.follower(meta, zone)
    following.events(follower)
    follower.begin()
    name = portable.registered(spark, meta.env)
    given = {
        options.START: following.start,
        options.SNAPSHOT: following.snapshot,
        options.TIMESTAMP: None if (time_ms := follower.start.time_ms) is None else time_text(time_ms, zone),
        options.MODE: following.mode,
        options.WHERE: following.where,
        options.COLUMNS: json.dumps(follower.like.columns),
        options.SCHEMA: follower.like.schema.id,
        options.CONSUMER: following.consumer,
        options.MAX_ROWS: following.limit.rows,
        options.MAX_BYTES: following.limit.bytes,
        options.MAX_FILES: following.limit.files,
        options.ZONE: _known(zone),
        options.BRANCH: None if meta.paths.branch is None else meta.paths.branch.name,
        options.CHANGELOG: "true",
        options.COMMITS: str(following.commit_columns).lower(),
        options.EVENTS: None if following.format is None else json.dumps(ChangeFormat.of(following.format).words),
    }
    reader = spark.readStream.format(name)
    return reader.options(**{n: str(v) for n, v in given.items() if v is not None}).load(meta.env.storage.place(meta.paths.root))
