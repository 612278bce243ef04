"""Identifies the streaming query that calls a foreachBatch function, and the run of the query.

Classic Spark stores both in properties of the thread that runs the batch. Spark Connect starts one process beside the server per
run of a query, without this information. There the process identifies the run, and the query is found in one of two ways: by the
id in the checkpoint, if the user passed it, or as the only query that became active in the session after the sink arrived.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Lock
from typing import NamedTuple

from lsmlake.errors import InvalidData
from lsmlake.spark.frame_types import is_connect
from lsmlake.storage.storage import escaped

UNKNOWN = ""
QUERY_ID, _RUN_ID = "sql.streaming.queryId", "spark.jobGroup.id"
_CONNECT_SESSION = "pyspark.sql.connect.session"


class Caller(NamedTuple):
    """The id of a query, `UNKNOWN` if it cannot be determined, and the id of its run, unique in this process."""

    query: str
    run: str


@dataclass(frozen=True)
class SinkArrival:
    """The state of the session when a sink arrived in a process beside a Connect server: the client's session, and the queries
    that were active before. None of these queries calls the sink."""

    session: object
    active: frozenset[str]

    @staticmethod
    def now() -> SinkArrival | None:
        """Returns the current state; None in a process without a Connect session."""
        module = sys.modules.get(_CONNECT_SESSION)
        session = module.SparkSession.getActiveSession() if module else None
        return SinkArrival(session, _active(session)) if session else None

    def query(self) -> str:
        """Returns the calling query, `UNKNOWN` if several queries became active since."""
        new = _active(self.session) - self.active
        return next(iter(new)) if len(new) == 1 else UNKNOWN


def _active(session) -> frozenset[str]:
    return frozenset(query.id for query in session.streams.active)


def caller(spark, checkpoint: str | None, arrival: SinkArrival | None) -> Caller | None:
    """Returns the calling query; None outside of a query. Must run in the thread of the batch. `spark`: the batch's session."""
    if not is_connect(spark):
        context = spark.sparkContext
        query = context.getLocalProperty(QUERY_ID)
        return Caller(query, context.getLocalProperty(_RUN_ID)) if query else None
    if checkpoint is not None:
        return Caller(_id_in(checkpoint, spark), UNKNOWN)
    return Caller(arrival.query() if arrival else UNKNOWN, UNKNOWN)


def _id_in(checkpoint: str, spark) -> str:
    """Returns the id of the query with this checkpoint. The server reads it in a small job."""
    return json.loads(spark.read.text(escaped(f"{checkpoint.rstrip('/')}/metadata")).first()[0])["id"]


class Batches:
    """The batches that sinks of this process have written. Each writer id may write a batch once per run of a query.

    Spark repeats a batch only in another run. So a second write in the same run comes from another sink with the same writer id,
    and its rows would be mistaken for a replay.
    """

    def __init__(self) -> None:
        self._last: dict[tuple[str, str], tuple[str, int]] = {}
        self._lock = Lock()

    @contextmanager
    def once(self, table: str, writer_id: str, run: str, batch_id: int) -> Iterator[None]:
        """Records the batch unless the body fails. Raises InvalidData if it was written already in this run."""
        name, batch = (table, writer_id), (run, batch_id)
        with self._lock:
            before = self._last.get(name)
            if before == batch:
                raise InvalidData(
                    f"a sink has already written batch {batch_id} with the writer_id {writer_id!r} in this run of the query",
                    where=table,
                    expected="one sink per writer_id",
                    cure="pass a different writer_id to each sink, as in sink(writer_id='orders-2'); the first may keep its own",
                )
            self._last[name] = batch
        try:
            yield
        except BaseException:
            with self._lock:
                if before is None:
                    del self._last[name]
                else:
                    self._last[name] = before
            raise
