"""Streams in and out. Streaming upsert, exactly once: every micro-batch is one commit, known by its writer and its batch number.

After a crash between our commit and Spark's own checkpoint Spark runs the batch again; the writer finds its commit and does
nothing. The writer is the query, unless the user names it: the query's id lies in the checkpoint, so it outlives restarts, and a
new checkpoint, whose batches are numbered from 0 again, has another one. Under a name of the user's the table keeps the query's
id too, so that batches of another query are never taken for replays.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields

from lsmlake.api.following import Following
from lsmlake.api.table import Table
from lsmlake.border import public
from lsmlake.commit.publish import Identity
from lsmlake.errors import InvalidData, InvalidOption
from lsmlake.read.travel import time_text
from lsmlake.schema import rowkind
from lsmlake.spark import source
from lsmlake.spark.caller import Arrival, Batches, caller
from lsmlake.spark.ship import carried
from lsmlake.store.metadata import Metadata
from lsmlake.write.prepare import Request

_WRITTEN = Batches()


@public
@dataclass(frozen=True)
class Sink:
    """What `foreachBatch` calls. On Spark Connect it is pickled, and runs in a process beside the server."""

    table: Table
    writer_id: str | None
    request: Request
    checkpoint: str | None
    replaces: str | None
    arrival: Arrival | None = None

    def __call__(self, df, batch_id: int) -> None:
        calling = caller(df.sparkSession, self.checkpoint, self.arrival)
        if calling is None:
            raise InvalidData(
                "a sink was called outside of a streaming query, or in a thread that Spark does not know",
                where=self.table.name,
                expected="a call by foreachBatch, in its thread or in a pyspark.InheritableThread",
                cure="call it there, or use upsert(df, writer_id=..., commit_id=...)",
            )
        query = None if self.writer_id is None else calling.query  # a query's id, as a name, is nobody else's
        identity = Identity(self.writer_id or calling.query, batch_id, query, self.replaces)
        table = self.table
        with _WRITTEN.once(table.meta.env.storage.place(table.path), identity.writer_id, calling.run, batch_id):
            runtime, schema = table.runtime, table.current
            runtime.upsert(table.meta, schema, df, identity, request=self.request, compact=None)

    def __reduce__(self):
        values = [getattr(self, field.name) for field in fields(self) if field.name != "arrival"]
        return carried(self.table.runtime.package, _arrived, *values)


def _arrived(*values: object) -> Sink:
    return Sink(*values, arrival=Arrival.now())


def sink(
    table: Table,
    writer_id: str | None,
    row_kind: str | Mapping[str, object] | None,
    checkpoint: str | None,
    replaces: str | None,
    connect: bool,
) -> Sink:
    if writer_id is None and checkpoint is None and connect:
        raise InvalidOption(
            "Spark Connect does not tell a foreachBatch function which query calls it",
            where=f"{table.name}.sink()",
            expected="writer_id or checkpoint",
            cure="pass the query's checkpoint directory, or a name of its own, as in sink(writer_id='orders-stream')",
        )
    if writer_id is None and replaces is not None:
        raise InvalidOption(
            "replaces means nothing without writer_id",
            where=f"{table.name}.sink()",
            found=f"replaces={replaces!r}",
            cure="name the stream, or leave it out",
        )
    return Sink(table, writer_id, _request(row_kind), checkpoint, replaces)


def _request(row_kind: str | Mapping[str, object] | None) -> Request:
    return Request(rowkind.Source.of(row_kind))


def write_stream(table: Table, df, checkpoint: str, trigger: Mapping[str, object], row_kind: str | Mapping[str, object] | None):
    if not checkpoint:
        raise InvalidOption(
            "a streaming upsert needs a checkpoint", where=table.name, expected="a directory", cure="pass checkpoint=..."
        )
    if not getattr(df, "isStreaming", False):
        raise InvalidData(
            "not a streaming DataFrame", found=type(df).__name__, cure="use spark.readStream, or upsert for a batch"
        )
    writer = df.writeStream.foreachBatch(Sink(table, None, _request(row_kind), str(checkpoint), None))
    writer = writer.option("checkpointLocation", str(checkpoint))
    return (writer.trigger(**trigger) if trigger else writer).start()


def read_stream(spark, meta: Metadata, following: Following, zone: str):
    """The changes of a table as a streaming DataFrame, by way of the data source. What can be refused is refused here."""
    follower = following.follower(meta, zone)
    follower.begin()
    source.register(spark)
    given = {
        source.START: following.start,
        source.SNAPSHOT: following.snapshot,
        source.TIMESTAMP: None if (time_ms := follower.start.time_ms) is None else time_text(time_ms, zone),
        source.MODE: following.mode,
        source.WHERE: following.where,
        source.COLUMNS: json.dumps(follower.like.columns),
        source.CONSUMER: following.consumer,
        source.MAX_ROWS: following.limit.rows,
        source.MAX_BYTES: following.limit.bytes,
        source.MAX_FILES: following.limit.files,
        source.ZONE: zone,
        source.CHANGELOG: "true",
    }
    reader = spark.readStream.format(source.LakeSource.name())
    return reader.options(**{n: str(v) for n, v in given.items() if v is not None}).load(meta.env.storage.place(meta.paths.root))
