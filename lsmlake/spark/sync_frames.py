"""`Lake.sync` of a DataFrame: a micro-batch with events of many tables, of which each table gets its own by one commit.

Spark reads where an event says its table, and what events say of columns (`cdc.route_queries`): the answer has a row per table.
The driver makes and alters tables, and each table then takes its events as `Table.upsert(format=...)` does. The executors keep
the batch meanwhile.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from functools import partial, reduce
from operator import or_
from pathlib import PurePath

import pyarrow as pa
from pyspark.sql import functions as F

from lsmlake.api.sync.database_sync import DatabaseSync
from lsmlake.border import public
from lsmlake.cdc import avro_sources, rejected_events
from lsmlake.cdc.event_formats import ChangeFormat
from lsmlake.cdc.event_queries import EVENT, KEY, OFFSET, VALUE
from lsmlake.cdc.given_events import check_column
from lsmlake.cdc.inferred_types import of_spark
from lsmlake.cdc.route_queries import CONTENT, KEYS, NO_CHANGE, SOURCE, TYPES, RouteQuery
from lsmlake.cdc.source_tables import SourceTable, described
from lsmlake.commit.request import Identity
from lsmlake.errors import InvalidData, InvalidOption, InvalidQuery
from lsmlake.spark import frame_writer
from lsmlake.spark.caller import SinkArrival, caller
from lsmlake.spark.change_frames import events_of, readable
from lsmlake.spark.learned import Learned
from lsmlake.spark.ship import carried
from lsmlake.spark.stream import check_trigger, ends_query, started
from lsmlake.storage.env import Env
from lsmlake.write.write_request import WriteRequest

_KINDS, _NAMES, _FIRST, _GIVEN = "event_kinds", "event_names", "event_first", "event_given"

_log = logging.getLogger("lsmlake.spark")


@dataclass(frozen=True)
class RoutedFrame:
    """Events in a DataFrame, and the tables that they are for.

    Attributes:
        events: with the columns `EVENT`, `KEY`, `OFFSET`, `SOURCE` and `TYPES`.
        tables: the tables as the events describe them.
        unnamed: some events name no table.
    """

    events: object
    tables: tuple[SourceTable, ...]
    unnamed: bool

    def of(self, tables: Sequence[SourceTable]):
        """The events of some tables, as a DataFrame with a column of events."""
        flags = [(F.col(SOURCE) == one.name) & F.col(TYPES).eqNullSafe(F.lit(one.types)) for one in tables]
        return self._data(self.events.where(reduce(or_, flags)))

    @property
    def nameless(self):
        """The events that name no table; None if all do."""
        return self._data(self.events.where(F.col(SOURCE).isNull())) if self.unnamed else None

    def _data(self, events):
        return events.select(F.col(EVENT).alias(VALUE), KEY, OFFSET)

    def reject(self, env: Env, table: str, data, reason: str, identity: Identity) -> None:
        """Writes events, which are the result of another method, to a table for rejected events."""
        version = rejected_events.opened(env, table)
        is_binary = dict(data.dtypes)[VALUE] == "binary"
        text = F.base64(F.col(VALUE)) if is_binary else F.make_valid_utf8(F.col(VALUE))
        columns = {"reason": F.lit(reason), "event": text, "position": F.lit(None).cast("string"), "event_offset": F.col(OFFSET)}
        moment = F.timestamp_millis(F.lit(env.clock())).alias(rejected_events.REJECTED_AT)
        made = data.select(moment, *(column.alias(name) for name, column in columns.items()))
        frame_writer.upsert(version, made, WriteRequest(identity, compact=False), Learned())

    def in_process(self, data) -> pa.Table:
        """Events, which are the result of another method, in the driver."""
        return data.toArrow()


@contextmanager
def routed(df, format: ChangeFormat, column: str | None) -> Iterator[RoutedFrame]:
    """Tells the events of a DataFrame apart by their tables. The executors keep them meanwhile."""
    events = events_of(df, format, column)
    routes = _of_avro(events, format) if format.events.avro else _of_json(events, format)
    kept = routes.withColumn(_FIRST, F.monotonically_increasing_id()).persist()
    try:
        found = kept.groupBy(SOURCE, TYPES).agg(*_facts(format)).where(f"{SOURCE} IS NULL OR {SOURCE} <> '{NO_CHANGE}'").collect()
        named = sorted((row for row in found if row[SOURCE] is not None), key=lambda row: row[_FIRST])
        tables = tuple(_described(format, row.asDict()) for row in named)
        yield RoutedFrame(kept, tables, len(named) < len(found))
    finally:
        kept.unpersist()


def _of_json(events, format: ChangeFormat):
    events = readable(events.withColumn(_GIVEN, F.col(EVENT)))
    for chosen in RouteQuery(format.events).in_spark([_GIVEN, KEY, OFFSET]):
        events = events.selectExpr(*chosen)
    return events.withColumnRenamed(_GIVEN, EVENT)


def _of_avro(events, format: ChangeFormat):
    names = f"{EVENT} binary, {KEY} binary, {OFFSET} bigint, {SOURCE} string, {TYPES} string"
    return events.mapInArrow(partial(_avro_task, format), names)


def _avro_task(format: ChangeFormat, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        events = pa.Table.from_batches([batch])
        sources, types = avro_sources.routes(events, format)
        yield from events.append_column(SOURCE, sources).append_column(TYPES, types).to_batches()


def _facts(format: ChangeFormat) -> list:
    first = F.min(_FIRST).alias(_FIRST)
    if format.events.avro:
        return [first]
    kinds = F.expr(f"schema_of_variant_agg(try_parse_json({CONTENT}))").alias(_KINDS)
    names = F.min_by(F.expr(f"json_object_keys({CONTENT})"), F.col(_FIRST)).alias(_NAMES)  # the kinds are in the order of names
    return [F.collect_set(KEYS).alias(KEYS), kinds, names, first]


def _described(format: ChangeFormat, row: Mapping[str, object]) -> SourceTable:
    if format.events.avro:
        return avro_sources.described(format, row[SOURCE], row[TYPES])
    found = of_spark(row[_KINDS])
    kinds = {name: found[name] for name in [*(row[_NAMES] or ()), *found] if name in found}
    return described(format, row[SOURCE], row[TYPES], row[KEYS], kinds)


# -- batches ----------------------------------------------------------------------------------------------------------


@ends_query
@public
@dataclass(frozen=True)
class DatabaseSink:
    """The function for `foreachBatch` that applies a micro-batch to all tables. On Spark Connect it is pickled and runs in a
    process beside the server."""

    sync: DatabaseSync
    column: str | None
    checkpoint: str
    arrival: SinkArrival | None = None

    def __call__(self, df, batch_id: int) -> None:
        calling = caller(df.sparkSession, self.checkpoint, self.arrival)
        if calling is None:
            raise InvalidData(
                "the function of a sync was called outside of its query", where="sync", cure="let sync start the query"
            )
        with routed(df, self.sync.rules.format, self.column) as events:
            report = self.sync.apply(events, calling.query, batch_id)
        for one in report.tables:
            told = one.table, batch_id, one.rows, one.rejected, "; ".join(one.reasons)
            _log.log(logging.WARNING if one.rejected else logging.INFO, "%s: batch %d: %d rows written, %d rejected %s", *told)

    def __reduce__(self):
        values = [getattr(self, field.name) for field in fields(self) if field.name != "arrival"]
        return carried(self.sync.lake.runtime.package, _arrived, *values)


def _arrived(*values: object) -> DatabaseSink:
    return DatabaseSink(*values, arrival=SinkArrival.now())


def sync(
    given: DatabaseSync,
    df,
    checkpoint: str | PurePath | None,
    column: str | None,
    trigger: Mapping[str, object] | None,
    query_name: str | None,
):
    """`Lake.sync` of a DataFrame: applies it, or starts a query."""
    check_column(column or VALUE, df.columns)
    if not df.isStreaming:
        said = {"checkpoint": checkpoint, "trigger": trigger, "query_name": query_name}
        if unused := [name for name, value in said.items() if value is not None]:
            cure = f"leave out {', '.join(unused)}, or pass a streaming DataFrame"
            raise InvalidQuery("a DataFrame that is not streaming is applied once", found=unused, cure=cure)
        with routed(df, given.rules.format, column) as events:
            return given.apply(events, f"sync-{given.lake.env.ids()}", 0)
    if not checkpoint:
        raise InvalidOption("a stream needs a checkpoint", where="sync", expected="a directory", cure="pass checkpoint=...")
    check_trigger(trigger)
    writer = df.writeStream.foreachBatch(DatabaseSink(given, column, str(checkpoint)))
    writer = writer.option("checkpointLocation", str(checkpoint))
    writer = writer if query_name is None else writer.queryName(query_name)
    return started(writer if trigger is None else writer.trigger(**trigger), f"sync of {given.rules.database}")
