"""Which streaming query calls a foreachBatch function, and in which of its runs.

Classic Spark notes both on the thread that runs the batch. Spark Connect starts a process beside the server for every run of a
query and tells it nothing; so there the process is the run, and the query is found in one of two ways: its id is read from the
checkpoint, where the user named it, or the query is the only one that became active in the session after the sink arrived in the
process.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Lock
from typing import NamedTuple

from lsmlake.errors import InvalidData
from lsmlake.spark.types import is_connect

UNKNOWN = ""
_QUERY_ID, _RUN_ID = "sql.streaming.queryId", "spark.jobGroup.id"
_PATTERN_CHARACTERS = re.compile(r"[\\{}\[\]*?]")
_CONNECT_SESSION = "pyspark.sql.connect.session"


class Caller(NamedTuple):
    """A query's id, `UNKNOWN` if it cannot be known, and the id of its run, unique in this process."""

    query: str
    run: str


@dataclass(frozen=True)
class Arrival:
    """What a process beside a Connect server notes when a sink arrives in it: the session of the client, and the queries that
    were active already, none of which is the one that calls the sink."""

    session: object
    active: frozenset[str]

    @staticmethod
    def now() -> Arrival | None:
        """None in a process that has no Connect session."""
        module = sys.modules.get(_CONNECT_SESSION)
        session = module.SparkSession.getActiveSession() if module else None
        return Arrival(session, _active(session)) if session else None

    def query(self) -> str:
        """The query that calls, or `UNKNOWN` if several became active since."""
        new = _active(self.session) - self.active
        return next(iter(new)) if len(new) == 1 else UNKNOWN


def _active(session) -> frozenset[str]:
    return frozenset(query.id for query in session.streams.active)


def caller(spark, checkpoint: str | None, arrival: Arrival | None) -> Caller | None:
    """Who calls, in the thread that runs the batch; `None` outside of a query. `spark`: the session of the batch."""
    if not is_connect(spark):
        context = spark.sparkContext
        query = context.getLocalProperty(_QUERY_ID)
        return Caller(query, context.getLocalProperty(_RUN_ID)) if query else None
    if checkpoint is not None:
        return Caller(_id_in(checkpoint, spark), UNKNOWN)
    return Caller(arrival.query() if arrival else UNKNOWN, UNKNOWN)


def _id_in(checkpoint: str, spark) -> str:
    """The id of the query whose checkpoint this is; the server reads it, a small job."""
    folder = _PATTERN_CHARACTERS.sub(r"\\\g<0>", checkpoint.rstrip("/"))  # what Spark reads is a pattern, a checkpoint is not
    return json.loads(spark.read.text(f"{folder}/metadata").first()[0])["id"]


class Batches:
    """The batches that sinks of this process have written: each at most once by every name in one run of a query.

    A second time is no replay, for Spark runs a batch again only in another run. It is another sink with the same name, and its
    rows would be taken for the first one's.
    """

    def __init__(self) -> None:
        self._last: dict[tuple[str, str], tuple[str, int]] = {}
        self._lock = Lock()

    @contextmanager
    def once(self, table: str, writer_id: str, run: str, batch_id: int) -> Iterator[None]:
        """Note the batch unless the body fails. Raises InvalidData."""
        name, batch = (table, writer_id), (run, batch_id)
        with self._lock:
            before = self._last.get(name)
            if before == batch:
                raise InvalidData(
                    f"a sink has written batch {batch_id} under the writer_id {writer_id!r} already, in this run of the query",
                    where=table,
                    expected="one sink for each writer_id",
                    cure="give each sink a writer_id of its own, as in sink(writer_id='orders-2'); the first may keep its own",
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
