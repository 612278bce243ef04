"""Upsert of change events, and of rows to which the words of AUTO CDC apply, from a DataFrame.

1. Tasks decode the events (`cdc.decoding`). Where the executors lack DuckDB, Spark first parses the JSON into columns of text
   (`from_json`), which takes it twice the time; tasks turn these into rows (`cdc.event_rows`).
2. Most batches are an upsert of these rows (`spark.frame_writer`), so nothing is computed twice. A task that meets an event that
   needs more says so by an error of the batch.
3. Then the rows are kept by the executors and resolved: rejected events go to their table; a truncate leaves the rows after it,
   which overwrite the table; a window over the rows of each key, and a join with the table, fill in values that an update lacks.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial, reduce
from operator import and_, or_
from weakref import WeakSet

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Window
from pyspark.sql import functions as F
from pyspark.sql import types as st

from lsmlake.api.change_writes import check_rejects, row_request, warn_unmet, with_positions
from lsmlake.cdc import rejected_events
from lsmlake.cdc.change_input import ChangeInput, check_order
from lsmlake.cdc.change_rows import Lacking, missing_value, needs_all, unordered
from lsmlake.cdc.change_words import ChangeWords, columns_read, lacks_unchanged
from lsmlake.cdc.computed_columns import ComputedColumn, lacks_some, needs_of
from lsmlake.cdc.decoding import decoded_tables
from lsmlake.cdc.event_formats import ChangeFormat
from lsmlake.cdc.event_lines import NOT_UTF_8, RESERVED, check_whole, has_reserved, unreadable
from lsmlake.cdc.event_queries import EVENT, KEY, KIND, OFFSET, VALUE, WRONG
from lsmlake.cdc.event_rows import (
    KEPT,
    OWN_COLUMNS,
    PLACE,
    POSITION,
    REASON,
    REJECTED,
    ROW_KIND,
    TEXT,
    TRUNCATED,
    EventReader,
    empty,
    refusal,
)
from lsmlake.cdc.given_events import check_column
from lsmlake.commit.commit import again
from lsmlake.commit.request import Identity, replayed
from lsmlake.errors import InvalidData, InvalidQuery, LakeError, MissingDependency
from lsmlake.format.snapshot import Snapshot
from lsmlake.options.merge_options import AGGREGATION, PARTIAL_UPDATE
from lsmlake.read.plan import plan
from lsmlake.read.point import rows_of_keys
from lsmlake.schema.schema import Schema
from lsmlake.spark import frame_writer, read
from lsmlake.spark.conversion import ERROR
from lsmlake.spark.frame_types import of_tasks, to_arrow, to_spark
from lsmlake.spark.learned import Learned
from lsmlake.spark.settings import Get, computes_otherwise
from lsmlake.statements.attempts import OVERTAKEN
from lsmlake.tables.version import Version
from lsmlake.types.type_text import backticked, format_type
from lsmlake.undo import pass_interruption
from lsmlake.write.order import OrderBy
from lsmlake.write.read_set import KeysUnchanged
from lsmlake.write.replace import Replacement
from lsmlake.write.write_request import WriteRequest

_ORDER, _NUMBER, _OLD, _LAST = "_event_order", "_event_number", "_event_old", "_event_last"
_TABLE_ROWS, _TABLE_BYTES = 1 << 16, 64 << 20
_OF_EVENT = KEPT, TEXT, POSITION, PLACE
"""The columns of decoded rows that say what becomes of an event."""
_KEYS_MAX = 100_000
"""Old rows are looked up by the driver for up to so many keys; otherwise Spark joins the batch with the table."""


class _Lost(InvalidData):
    """An update lacks a value that nothing has. Users see `missing_value`, which names the key."""


class _Special(InvalidData):
    """Events of the batch are no plain inserts, updates and deletes."""


def _own(request: WriteRequest) -> tuple[str, ...]:
    """The columns of decoded rows that no upsert reads."""
    return KEPT, TEXT, *unordered(request)


def upsert_changes(version: Version, df, request: WriteRequest, changes: ChangeInput, learned: Learned) -> Snapshot | None:
    """`Table.upsert` of changes in a DataFrame. `learned`: see `spark.frame_writer.upsert`."""
    if df.isStreaming:
        raise InvalidData("a streaming DataFrame is no batch", cure="use write_stream, or foreachBatch with sink()")
    if done := replayed(version, request.identity):
        return done
    check_rejects(version, changes)
    if not _has_events(df, changes):
        return ChangeFrame(version, df, request, changes, learned).write()
    get = df.sparkSession.conf.get
    reader = changes.reader(version.schema, get("spark.sql.session.timeZone"))
    reader = replace(reader, computes=_tries(changes.words(reader.zone, request.order_by), reader, get))
    write = partial(_write_events, version, df, with_positions(request), changes, learned, reader)
    if df.sparkSession in _WITHOUT_DUCKDB:
        return write(by_spark=True)
    try:
        return write(by_spark=False)
    except MissingDependency:  # in a task
        if reader.format.events.avro:  # which Spark itself does not read
            raise
        _WITHOUT_DUCKDB.add(df.sparkSession)
        return write(by_spark=True)


def _tries(words: ChangeWords, reader: EventReader, get: Get) -> Callable[[pa.Table], tuple[pa.Table, dict[int, str]]] | None:
    """Tries the expressions on each event, in tasks: those that they evaluate as Spark does. An event of which Spark cannot
    evaluate another one fails the batch."""
    texts = [*(text for text, _ in words.conditions.values()), *words.order]
    if texts and computes_otherwise(get, texts):
        words = replace(words, deletes=None, truncates=None, order=())
    words = words.understood(reader.fields)
    return words.tried if words.refuses else None


_WITHOUT_DUCKDB: WeakSet = WeakSet()
"""The sessions whose executors lack DuckDB."""


def _write_events(
    version: Version, df, request: WriteRequest, changes: ChangeInput, learned: Learned, reader: EventReader, *, by_spark: bool
) -> Snapshot | None:
    """Decodes events and writes their rows. `by_spark`: Spark parses their JSON, since tasks lack DuckDB. Then a value of which
    nothing can be computed is an error of Spark."""
    reader = replace(reader, computes=None) if by_spark else reader
    _tell_unmet(version, events_of(df, reader.format, changes.column), changes, learned, reader, by_spark=by_spark)
    decode = partial(_decoded, df, reader, changes, by_spark=by_spark)
    if changes.truncates is None and not changes.ignore_nulls:
        try:
            plain = _with_words(decode(strict=True), changes).drop(*_own(request), REASON)
            return ChangeFrame(version, plain, request, changes, learned, errors=True).plain()
        except _Special:
            pass
    with _held(_with_words(decode(strict=False), changes)) as rows:
        return ChangeFrame(version, rows, request, changes, learned, errors=True).resolved()


def _tell_unmet(version: Version, events, changes: ChangeInput, learned: Learned, reader: EventReader, *, by_spark: bool) -> None:
    """Logs the names in `except_columns` that no event has. A task reads events until it has met all names, and a name that was
    met is not looked for again; so only a name that is wrong, or rare, makes Spark read the events twice."""
    root = version.meta.paths.root
    names = [one for one in changes.named_fields(version.schema) if (root, one) not in learned.met]
    if not names:
        return
    alone = replace(reader, computes=None, fits=None, met=set())
    by_spark = by_spark and not reader.format.events.avro
    made = _parsed(events, alone) if by_spark else events
    rows = made.mapInArrow(partial(_met_task, alone, names, by_spark), "name string").collect()
    found = {row["name"] for row in rows}
    learned.met.update((root, one) for one in names if one in found)
    if found:  # otherwise no event has a row
        warn_unmet(version.meta.paths.table_name, [one for one in names if one not in found])


def _met_task(
    reader: EventReader, names: Sequence[str], by_spark: bool, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """The names of `names` that the events have, and null if they have rows."""
    tables = _joined(batches)
    decoded = map(partial(_rows_of, reader), tables) if by_spark else decoded_tables(tables, reader, threads=1)
    with suppress(LakeError):  # the write will raise it
        for _ in decoded:
            if reader.met.issuperset(names):
                break
    found = [None, *(one for one in names if one in reader.met)] if reader.met else []
    yield pa.record_batch([pa.array(found, pa.string())], ["name"])


def decoded_frame(df, reader: EventReader, column: str | None, *, by_spark: bool):
    """The rows of events in a DataFrame, for `lsmlake.cdc.decode`. A rejected event fails the job of Spark. `by_spark`: Spark
    parses JSON."""
    given = ChangeInput(reader.format, column, rejects=True)
    rows = _decoded(df, reader, given, strict=False, by_spark=by_spark)
    message = F.concat(F.lit("an event cannot be read: "), REASON, F.coalesce(F.concat(F.lit(", found "), TEXT), F.lit("")))
    fails = (F.col(ROW_KIND) == REJECTED) | F.col(ERROR).isNotNull()
    kind = F.when(fails, F.raise_error(message)).otherwise(F.col(ROW_KIND))
    return rows.withColumn(ROW_KIND, kind).drop(TEXT, REASON, ERROR)


@contextmanager
def _held(rows) -> Iterator[object]:
    """Keeps the rows in the executors meanwhile, so that all jobs see the same rows."""
    kept = rows.persist()
    try:
        yield kept
    finally:
        kept.unpersist()


# -- events -----------------------------------------------------------------------------------------------------------


def _has_events(df, changes: ChangeInput) -> bool:
    if changes.format is None:
        return False
    given = changes.format.events
    return changes.column is not None or not given.columns or (bool(given.operation) and VALUE in df.columns)


def _decoded(df, reader: EventReader, changes: ChangeInput, *, strict: bool, by_spark: bool):
    """The rows of events, with `ERROR`. `strict`: a special event is an error of the batch. `by_spark`: Spark parses JSON."""
    events = events_of(df, reader.format, changes.column)
    by_spark = by_spark and not reader.format.events.avro
    events = _parsed(events, reader) if by_spark else events
    fields = reader.fields.append(pa.field(ERROR, pa.binary()))
    numbered = to_spark(pa.schema([field.with_name(f"c{i}") for i, field in enumerate(fields)]))  # names may have dots
    made = events.mapInArrow(partial(_decode_task, reader, changes.rejects, strict, by_spark), numbered)
    return made.selectExpr(*(f"c{i} as {backticked(field.name)}" for i, field in enumerate(fields)))


def _parsed(events, reader: EventReader):
    """Events in JSON as columns of texts, parsed by Spark."""
    events = readable(events)
    for chosen in reader.query.in_spark([EVENT, OFFSET, WRONG]):
        events = events.selectExpr(*chosen)
    return events


def events_of(df, format: ChangeFormat, column: str | None):
    """The events in a DataFrame, with the columns `EVENT`, `KEY` and `OFFSET`. Raises InvalidData."""
    column = column or VALUE
    check_column(column, df.columns)
    type_ = "binary" if format.events.avro else "string"
    key = f"cast({KEY} as {type_})" if KEY in df.columns and column != KEY else f"cast(null as {type_})"
    offset = f"cast({OFFSET} as bigint)" if OFFSET in df.columns else "cast(null as bigint)"
    return df.selectExpr(f"cast({backticked(column)} as {type_}) as {EVENT}", f"{key} as {KEY}", f"{offset} as {OFFSET}")


def readable(events):
    """Events in JSON as `cdc.event_lines.readable` makes them, for expressions of Spark. The column `WRONG` is there."""
    text = f"make_valid_utf8({EVENT})"
    chosen = f"if(startswith({text}, '\\uFEFF'), substr({text}, 2), {text}) AS {EVENT}"
    wrong = f"if(is_valid_utf8({EVENT}), NULL, '{NOT_UTF_8}') AS {WRONG}"
    others = [name for name in events.columns if name not in (EVENT, KEY)]
    return events.selectExpr(*others, chosen, f"if(is_valid_utf8({KEY}), {KEY}, NULL) AS {KEY}", wrong)


def _decode_task(
    reader: EventReader, rejects: bool, strict: bool, by_spark: bool, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    fields = reader.fields.append(pa.field(ERROR, pa.binary()))

    def sent(rows: pa.Table, error: LakeError | None) -> Iterator[pa.RecordBatch]:
        errors = pa.nulls(rows.num_rows, pa.binary()) if error is None else pa.array([pickle.dumps(error)])
        made = rows.append_column(ERROR, errors).cast(of_tasks(fields))
        yield from made.rename_columns([f"c{i}" for i in range(len(fields))]).to_batches()

    tables = _joined(batches)
    try:
        for rows in map(partial(_rows_of, reader), tables) if by_spark else decoded_tables(tables, reader, threads=1):
            rejected, truncated = (pc.any(pc.equal(rows[ROW_KIND], kind)).as_py() for kind in (REJECTED, TRUNCATED))
            if rejected and not rejects:
                raise refusal(rows)
            if strict and (rejected or truncated or rows[KEPT].null_count < rows.num_rows):
                raise _Special("the batch has events that are no plain changes")
            yield from sent(rows, None)
    except LakeError as error:
        nothing = {name: [str(error) if name == REASON else None] for name in reader.fields.names}
        yield from sent(pa.table(nothing, schema=reader.fields), error)


def _rows_of(reader: EventReader, parsed: pa.Table) -> pa.Table:
    """The rows of events that Spark has parsed."""
    return reader.rows(reader.without_marks(_whole(parsed, reader)))


def _whole(events: pa.Table, reader: EventReader) -> pa.Table:
    """Events that Spark has parsed. The column `WRONG` has the reason for those that are more than one object of JSON, or have a
    character that is none."""
    changes = KIND if reader.format.events.operation else EVENT
    places = np.flatnonzero(np.asarray(pc.and_(events[changes].is_valid(), events[EVENT].is_valid())))
    texts = events[EVENT].combine_chunks().take(pa.array(places))
    reasons = np.full(events.num_rows, None)
    reasons[places[has_reserved(texts)]] = RESERVED
    try:
        check_whole(texts)
    except pa.ArrowException:
        for row, reason in unreadable(texts, check_whole).items():
            reasons[places[row]] = f"the event is no object of JSON: {reason}"
    if not reasons.any():
        return events
    wrong = pc.coalesce(events[WRONG], pa.array(reasons, pa.string()))
    return events.set_column(events.column_names.index(WRONG), WRONG, wrong)


def _joined(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
    """The batches of a task as fewer and larger tables."""
    held: list[pa.RecordBatch] = []
    for batch in batches:
        held.append(batch)
        if sum(one.num_rows for one in held) >= _TABLE_ROWS or sum(one.nbytes for one in held) >= _TABLE_BYTES:
            yield pa.Table.from_batches(held)
            held = []
    if held:
        yield pa.Table.from_batches(held)


# -- the words of AUTO CDC --------------------------------------------------------------------------------------------


def _with_words(rows, changes: ChangeInput):
    """The rows with their computed columns, and with the column `ROW_KIND` if the conditions say anything."""
    if changes.computed:
        rows = _with_computed(rows, changes.computed)
    conditions = changes.words("UTC").conditions
    kind = F.col(ROW_KIND) if ROW_KIND in rows.columns else F.lit("+I")
    for text, its in conditions.values():
        has_no_values = F.coalesce(kind.isin(REJECTED, TRUNCATED), F.lit(False))
        condition = _condition(rows, text)
        if KEPT in rows.columns:
            read = [name for name in columns_read(text, to_arrow(rows.drop(ERROR).schema)) if name not in OWN_COLUMNS]
            lacks = reduce(or_, (_keeps_strictly(rows, name) for name in read), F.lit(False))
            condition = F.when(lacks, F.raise_error(F.lit(str(lacks_unchanged(text, read))))).otherwise(condition)
        kind = F.when(has_no_values, kind).when(condition, F.lit(its)).otherwise(kind)
    return rows.withColumn(ROW_KIND, kind) if conditions else rows


def _with_computed(rows, computed: Sequence[ComputedColumn]):
    """Decoded rows with their computed columns, as `cdc.computed_columns.added` makes them."""
    place = rows.columns.index(ROW_KIND)
    own = to_arrow(rows.select(*map(backticked, rows.columns[:place])).schema)
    kept, made, read = F.col(KEPT), [], F.col(ROW_KIND) != REJECTED
    for number, one in enumerate(computed, start=place):
        lacks = [F.coalesce(kept.contains(f",{own.get_field_index(name)},"), F.lit(False)) for name in needs_of(one, own)]
        if lacks:
            some, every = reduce(or_, lacks), reduce(and_, lacks)
            partly = F.raise_error(F.lit(str(lacks_some(one.name))))
            kept = F.when(read & some & ~every, partly).when(every, F.concat(kept, F.lit(f"{number},"))).otherwise(kept)
        made.append(F.when(read, F.expr(f"cast(({one.expression}) as {format_type(one.type)})")).alias(one.name))
    before, others = (map(backticked, names) for names in (rows.columns[:place], rows.columns[place:]))
    return rows.select(*before, *made, *others).withColumn(KEPT, kept)


def _condition(rows, text: str):
    try:
        condition = F.coalesce(F.expr(f"({text})"), F.lit(False))
        is_condition = isinstance(rows.select(F.expr(f"({text})")).schema[0].dataType, st.BooleanType)
    except Exception as refused:  # of Spark's analyzer, classic or Connect
        pass_interruption(refused)
        raise InvalidQuery(
            "Spark does not understand a condition",
            where=text,
            expected=f"a condition on {rows.columns}",
            found=str(refused).partition("\n")[0],
            cure="correct the condition",
        ) from refused
    if not is_condition:
        raise InvalidQuery("this is not a condition", where=text, expected="BOOLEAN", cure="write a comparison")
    return condition


def _keeps_strictly(rows, name: str):
    """Whether a row has no value of a column because it has not changed."""
    if KEPT not in rows.columns:
        return F.lit(False)
    return F.coalesce(F.col(KEPT).contains(f",{rows.columns.index(name)},"), F.lit(False))


# -- rows -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ChangeFrame:
    """Rows of changes, and how they are written. `errors`: tasks of ours made them, and the column `ERROR` has their errors."""

    version: Version
    df: object
    request: WriteRequest
    changes: ChangeInput
    learned: Learned
    errors: bool = False

    @property
    def schema(self) -> Schema:
        """The schema of the table."""
        return self.version.schema

    def write(self) -> Snapshot | None:
        """Writes a DataFrame that has the rows themselves."""
        changes, schema = self.changes, self.schema
        rows = _with_words(self.df, changes)
        request = row_request(self.request, changes)
        if request.row_kind is not None and self.request.row_kind is None and request.row_kind.column not in rows.columns:
            rows = rows.withColumn(request.row_kind.column, F.lit(None).cast("string"))  # rows of a first load
        own = [name for name in rows.columns if name == ROW_KIND or (request.row_kind and name == request.row_kind.column)]
        order = set() if request.order_by is None else request.order_by.reads
        others = [name for name in rows.columns if name.lower() in order and name not in schema.columns.names]
        left = changes.kept_columns([name for name in rows.columns if name != ROW_KIND], [*own, *others])
        check_order(order, left, schema)
        made = rows.select(*(F.col(backticked(name)) for name in [*left, *(one for one in own if one not in left)]))
        batch = replace(self, df=made, request=request)
        if changes.truncates is None and not changes.ignore_nulls:
            return batch.plain()
        with _held(made) as held:
            return replace(batch, df=held).resolved()

    def plain(self) -> Snapshot | None:
        """Writes rows that are inserts, updates and deletes."""
        rows = _with_required(self.df, self.schema)
        return frame_writer.upsert(self.version, rows, self.request, self.learned, errors=self.errors)

    def resolved(self) -> Snapshot | None:
        """Writes rows that may be rejected events or truncates, or keep old values."""
        lacking = Lacking.of(self.df.columns, self.schema) if self.changes.ignore_nulls else Lacking((), ())
        if lacking.with_default and self.df.where(self._writes(self.df)).head(1):
            lacking.check()
        nulls = {field.name: F.lit(None).cast(field.dataType) for field in to_spark(pa.schema(lacking.nulls))}
        return replace(self, df=self.df.withColumns(nulls) if nulls else self.df)._resolved()

    def _resolved(self) -> Snapshot | None:
        order = self.request.order_by or OrderBy()
        texts = [backticked(text) if order.names else text for text in order.expressions]
        facts, kept = self._facts(texts)
        if facts["error"] is not None:
            raise pickle.loads(facts["error"])
        if facts["rejected"]:
            self._keep_rejected()
        keys = [F.struct(F.expr(text).alias("v")).alias(f"k{i}") for i, text in enumerate(texts)]
        rows = self.df.withColumn(_ORDER, F.struct(*keys, F.monotonically_increasing_id().alias("place")))
        request = self.request
        if ROW_KIND in rows.columns:
            truncates = rows.where(F.col(ROW_KIND) == TRUNCATED).agg(F.max(_ORDER).alias(_LAST))
            rows = rows.where(~F.col(ROW_KIND).isin(TRUNCATED, REJECTED))
            rows = rows.drop(REASON, ERROR) if self.errors else rows
            if facts["truncated"]:
                _check_ordered(facts)
                rows = rows.crossJoin(F.broadcast(truncates)).where(F.col(_ORDER) > F.col(_LAST)).drop(_LAST)
                request = replace(request, replaces=Replacement(everything=True), compact=False)
        batch = replace(self, df=rows, request=request, errors=False)
        if not kept:
            return replace(batch, df=rows.drop(_ORDER, *_own(self.request))).plain()
        recorded: list[object] = []
        return again(self.version, lambda now: replace(batch, version=now)._with_old_values(kept, recorded), *OVERTAKEN)

    def _facts(self, order: Sequence[str]) -> tuple[st.Row, list[str]]:
        """What kinds of rows there are, and the columns whose values some rows keep. `order`: the expressions of `order_by`."""
        rows, engine = self.df, self.schema.parsed_options.merge.engine
        kind = F.col(ROW_KIND) if ROW_KIND in rows.columns else F.lit("+I")
        truncated, unordered = kind == TRUNCATED, [F.expr(text).isNull() for text in order]
        error = F.max(ERROR) if self.errors else F.lit(None)
        counts = {"rejected": kind == REJECTED, "truncated": truncated, "unordered": reduce(and_, unordered, truncated)}
        names = [name for name in rows.columns if name in self.schema.columns.names and name not in self.schema.primary_key]
        flags = {f"c{i}": self._keeps(rows, name) for i, name in enumerate(names if engine != PARTIAL_UPDATE else ())}
        found = rows.agg(error.alias("error"), *(F.max(one).alias(name) for name, one in {**counts, **flags}.items())).head()
        kept = [name for i, name in enumerate(names) if f"c{i}" in flags and found[f"c{i}"]]
        if kept and engine == AGGREGATION:
            raise needs_all(engine)
        return found, kept

    def _keep_rejected(self) -> None:
        """Writes the rejected events to their table."""
        meta = self.version.meta
        table = rejected_events.opened(meta.env, rejected_events.name_for(meta.paths.table_name, self.changes.rejected))
        columns = [F.col(old).alias(new) for new, old in rejected_events.SOURCES.items()]
        moment = F.timestamp_millis(F.lit(self.version.meta.env.clock())).alias(rejected_events.REJECTED_AT)
        made = self.df.where(F.col(ROW_KIND) == REJECTED).select(moment, *columns)
        frame_writer.upsert(table, made, WriteRequest(self.request.identity, compact=False), self.learned)

    def _without_lost(self, rows, recorded: list[object]):
        """The rows without the events that lack a value which nothing has, as `_LAST` flags them. These go to the table of
        rejected events, once each: later attempts, and a replay, may find others. An event that an attempt before has rejected,
        also one of a process that has died, is not written. `recorded`: gets the moment of the commit of an attempt."""
        meta = self.version.meta
        table = rejected_events.opened(meta.env, rejected_events.name_for(meta.paths.table_name, self.changes.rejected))
        identity = rejected_events.next_of_lost(table, self.request.identity)
        moment, at = F.timestamp_millis(F.lit(meta.env.clock())), rejected_events.REJECTED_AT
        new = rows.where(_LAST)
        if not recorded and identity != rejected_events.of_lost(self.request.identity):  # of a process that has died
            recorded.append(F.timestamp_millis(F.lit(0)))
        if recorded:
            known = read.frame(rows.sparkSession, plan(table, None, [at, *rejected_events.PLACES]), None, read.AUTO)
            known = known.select(*(F.col(name).alias(f"_known_{name}") for name in (at, *rejected_events.PLACES)))
            same = reduce(and_, [F.col(old).eqNullSafe(F.col(f"_known_{name}")) for name, old in rejected_events.PLACES.items()])
            new = new.join(known, same, "left_anti")
            rows = rows.join(known.where(F.col(f"_known_{at}") >= recorded[0]), same, "left_anti")
        if new.head(1):
            self._keep_lost(table, new, identity, moment)
            recorded.append(moment)
        return rows.where(~F.col(_LAST))

    def _keep_lost(self, table: Version, rows, identity: Identity, moment) -> None:
        """Writes events that lack a value which nothing has to the table of rejected events."""
        key = F.to_json(F.struct(*(F.col(backticked(name)) for name in self.schema.primary_key)))
        reason = F.concat(F.lit("an update lacks a value that has not changed, and the table has no row with it: key "), key)
        places = (F.col(old).alias(new) for new, old in rejected_events.PLACES.items())
        made = rows.select(moment.alias(rejected_events.REJECTED_AT), reason.alias("reason"), *places)
        frame_writer.upsert(table, made, WriteRequest(identity, compact=False), self.learned)

    def _keeps(self, rows, name: str):
        """Whether a row keeps the value of a column."""
        strict = _keeps_strictly(rows, name)
        if not self.changes.ignore_nulls:
            return strict
        return strict | (F.col(backticked(name)).isNull() & self._writes(rows))

    def _writes(self, rows):
        """Whether a row is an insert or update."""
        kind = F.col(ROW_KIND) if ROW_KIND in rows.columns else F.lit("+I")
        return ~kind.isin("-D", TRUNCATED, REJECTED)

    def _with_old_values(self, kept: Sequence[str], recorded: list[object]) -> Snapshot | None:
        """Writes the rows with the values that they keep, on a version. `recorded`: see
        `_without_lost`. Raises Overtaken."""
        if done := replayed(self.version, self.request.identity):
            return done
        schema, rows = self.schema, self.df
        keys = [F.col(backticked(name)) for name in schema.primary_key]
        window = Window.partitionBy(*keys).orderBy(_ORDER)
        kind = F.col(ROW_KIND) if ROW_KIND in rows.columns else F.lit("+I")
        numbered = rows.withColumn(_NUMBER, F.row_number().over(window))
        made, missing, old = [], F.lit(False), self._old(kept)
        joined = numbered.join(old, [F.col(f"{_OLD}.k{i}").eqNullSafe(key) for i, key in enumerate(keys)], "left")
        for i, name in enumerate(kept):
            own = F.struct(F.col(backticked(name)).alias("v"), (kind == "-D").alias("deleted"))
            last = F.last(F.when(~self._keeps(rows, name), own), ignorenulls=True).over(window)
            keeps, strict = self._keeps(rows, name), _keeps_strictly(rows, name)
            value = F.when(last.isNull(), F.col(f"{_OLD}.c{i}")).when(~last["deleted"], last["v"])
            nothing = F.when(last.isNull(), F.col(f"{_OLD}.k0").isNull()).otherwise(last["deleted"])
            missing = missing | (keeps & strict & nothing)
            made.append(F.when(keeps, value).otherwise(F.col(backticked(name))).alias(name))
        others = [F.col(backticked(name)) for name in rows.columns if name not in (*kept, _ORDER, *_OF_EVENT)]
        places = [name for name in _OF_EVENT if name in rows.columns]
        filled = joined.select(*others, *made, F.col(_NUMBER), missing.alias(_LAST), *places)
        if self.changes.rejects:
            filled = self._without_lost(filled, recorded)
        filled = filled.drop(*places)
        replaces = self.request.replaces is not None
        requires = self.request.requires if replaces else (KeysUnchanged(self.version, None),)
        request = replace(self.request, order_by=OrderBy((_NUMBER,)), requires=requires)
        lost = F.when(F.col(_LAST), F.lit(pickle.dumps(_Lost("an update lacks a value that has not changed"))))
        try:
            return replace(self, df=filled.withColumn(ERROR, lost).drop(_LAST), request=request, errors=True).plain()
        except _Lost:
            row = filled.where(_LAST).head(1)[0]
            raise missing_value({name: row[name] for name in schema.primary_key}) from None

    def _old(self, kept: Sequence[str]):
        """The rows of the table with keys of the batch: the key as `_OLD.k0`.. and the kept columns as `_OLD.c0`.."""
        schema, version, spark = self.schema, self.version, self.df.sparkSession
        names = [*schema.primary_key, *kept]
        fields = pa.schema([schema.plain_columns.field(name) for name in names])
        nothing = spark.createDataFrame([], to_spark(pa.schema([field.with_nullable(True) for field in fields])))
        rows = nothing if self.request.replaces is not None or version.snapshot is None else self._looked_up(kept, fields)
        aliases = [f"k{i}" for i in range(len(schema.primary_key))] + [f"c{i}" for i in range(len(kept))]
        return (nothing if rows is None else rows).toDF(*aliases).alias(_OLD)

    def _looked_up(self, kept: Sequence[str], fields: pa.Schema):
        """The rows of the table with keys of rows that keep values; None if there are none."""
        schema, version, names = self.schema, self.version, fields.names
        keeps = reduce(or_, (self._keeps(self.df, name) for name in kept))
        own = [F.col(backticked(name)) for name in schema.primary_key]
        keys = self.df.where(keeps).select(*own).distinct().limit(_KEYS_MAX + 1).toArrow()
        if keys.num_rows > _KEYS_MAX:
            rows = read.frame(self.df.sparkSession, plan(version, None, names), None, read.AUTO)
            return rows.select(*map(backticked, names))
        wanted = keys.cast(pa.schema([fields.field(name) for name in schema.primary_key]))
        found = rows_of_keys(version, wanted, [name for name in schema.columns.names if name in names]).select(names)
        return self.df.sparkSession.createDataFrame(found.cast(of_tasks(found.schema))) if found.num_rows else None


def _check_ordered(facts: st.Row) -> None:
    """Raises InvalidData if a truncate has no place among the other rows."""
    if facts["unordered"]:
        raise InvalidData(
            "nothing tells which rows come before an event that removes all rows",
            expected="events with a position in their source, or order_by",
            cure="pass order_by=<a column or expression that grows from change to change>",
        )


def _with_required(rows, schema: Schema):
    """The rows, in which deletes have some value in NOT NULL columns: only their key counts."""
    if ROW_KIND not in rows.columns:
        return rows
    types = {field.name: field.dataType for field in rows.schema.fields}
    for field in schema.plain_columns:
        if not field.nullable and field.name in types and field.name not in schema.primary_key:
            column = F.col(backticked(field.name))
            some = F.lit(empty(field.type).as_py()).cast(types[field.name])
            rows = rows.withColumn(field.name, F.when((F.col(ROW_KIND) == "-D") & column.isNull(), some).otherwise(column))
    return rows
