"""Streams in and out. Streaming upsert, exactly once: every micro-batch is one commit known by (query id, batch id).

A batch that Spark runs again - because the driver died between our commit and its own checkpoint - finds that commit and does
nothing. The query id lies in the checkpoint, so it outlives restarts and goes with the checkpoint if that is removed, when
batches are numbered from 0 again.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass

from lsmlake.errors import InvalidData, InvalidOption
from lsmlake.following import Following
from lsmlake.spark import source
from lsmlake.spark.types import is_connect
from lsmlake.store.metadata import Metadata
from lsmlake.table import Table

_QUERY_ID = "sql.streaming.queryId"
_PATTERN_CHARACTERS = re.compile(r"[\\{}\[\]*?]")


@dataclass(frozen=True)
class Sink:
    """What `foreachBatch` calls. Pickles: on Spark Connect it runs in a process beside the server."""

    table: Table
    writer_id: str | None
    checkpoint: str | None
    row_kind: str | None

    def __call__(self, df, batch_id: int) -> None:
        writer_id = self.writer_id or _query_id(df.sparkSession, self.checkpoint)
        self.table.upsert(df, row_kind=self.row_kind, writer_id=writer_id, commit_id=batch_id)


def _query_id(spark, checkpoint: str | None) -> str:
    """Classic Spark tells the thread that runs the batch; on Connect the id is read from the checkpoint, a small job."""
    if is_connect(spark):
        folder = _PATTERN_CHARACTERS.sub(r"\\\g<0>", checkpoint.rstrip("/"))  # what Spark reads is a pattern, a checkpoint is not
        text = spark.read.text(f"{folder}/metadata").first()[0]
        return json.loads(text)["id"]
    query = spark.sparkContext.getLocalProperty(_QUERY_ID)
    if not query:
        raise InvalidData(
            "called outside of a streaming query, so batches cannot be told apart",
            expected="a call by foreachBatch",
            cure="pass writer_id to sink(), or use upsert",
        )
    return query


def sink(table: Table, writer_id: str | None, row_kind: str | None, connect: bool) -> Sink:
    if writer_id is None and connect:
        raise InvalidOption(
            "on Spark Connect a foreachBatch function cannot learn which query calls it",
            where=f"{table.name}.sink()",
            expected="writer_id",
            cure="name the stream, the same over restarts, as in sink(writer_id='orders-stream'), or use write_stream",
        )
    return Sink(table, writer_id, None, row_kind)


def write_stream(table: Table, df, checkpoint: str, trigger: Mapping[str, object], row_kind: str | None):
    if not checkpoint:
        raise InvalidOption(
            "a streaming upsert needs a checkpoint", where=table.name, expected="a directory", cure="pass checkpoint=..."
        )
    if not getattr(df, "isStreaming", False):
        raise InvalidData(
            "not a streaming DataFrame", found=type(df).__name__, cure="use spark.readStream, or upsert for a batch"
        )
    writer = df.writeStream.foreachBatch(Sink(table, None, str(checkpoint), row_kind))
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
        source.TIMESTAMP: following.timestamp,
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
