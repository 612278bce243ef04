"""Upsert or append of a Spark DataFrame: Spark hashes and shuffles, tasks sort and write in Arrow, the driver commits once.

0. A small batch comes to the driver instead: see `collected`.
1. Check names and types on the driver; nothing has run yet.
2. A large load counts the rows of each partition, so that it can give a new one several buckets (`first_load`).
3. With `cast`, convert the values in tasks (`cast_rows`). Add the bucket (Spark's own `hash` in generated code), the values of
   `order_by`, and the place of the row in the input, for repeats of a key. From here on the columns go by number: `mapInArrow`
   takes a dot or a backtick in a name for syntax.
4. Shuffle by partition and bucket. Without partitions every bucket goes to a task of its own, or there are as many tasks as run
   at once; with partitions Spark decides on the number of tasks.
5. Each task writes its buckets (`write.bucket_writer`) and returns commit messages. Attempts that fail leave only unreferenced
   files.

If keys can move between partitions, tasks that have all rows of some keys place these first: one more shuffle.

An append-only table needs no order of rows: without partitions and bucket key there is no shuffle, and each task writes its rows
to files of its own (`write.append`).
"""

from __future__ import annotations

import pickle
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pyarrow as pa

from lsmlake.commit.request import replayed
from lsmlake.compact.bucket_compaction import Picker
from lsmlake.errors import InvalidData, InvalidSchema, LakeError
from lsmlake.format.data_files import CommitMessage
from lsmlake.format.snapshot import Snapshot
from lsmlake.lsm.cover import Covers
from lsmlake.schema.conform import check_types
from lsmlake.schema.rowkind import with_kind, with_kinds
from lsmlake.schema.schema import ROW_KIND, Schema
from lsmlake.spark import collected, divide_tasks, settings, tasks
from lsmlake.spark.arrow_batches import LongRows, by_rows, can_bound, refuse_long, short_rows
from lsmlake.spark.bucket_numbers import with_buckets
from lsmlake.spark.conversion import ERROR, cast_rows, raise_error
from lsmlake.spark.first_load import PARALLEL, counts_rows, for_new_partitions, in_few, in_parallel, rows_by_partition
from lsmlake.spark.frame_plan import runs_python, shuffled
from lsmlake.spark.frame_types import is_connect, of_tasks, to_arrow, to_spark
from lsmlake.spark.learned import Learned
from lsmlake.spark.order_by import FrameOrder
from lsmlake.spark.partition_columns import partition_values
from lsmlake.tables.version import Version
from lsmlake.types.column_types import CHAR, SizedText, sized_text
from lsmlake.types.type_text import backticked
from lsmlake.write.append import append_files, joined
from lsmlake.write.key_places import CHANGE
from lsmlake.write.order import Arrival, Ordered
from lsmlake.write.prepare import check_sequence, delete_columns, optional_columns, prepare
from lsmlake.write.write import (
    Intake,
    Part,
    bucket_messages,
    covers_for,
    inline_picker,
    key_intake,
    known_partitions,
    picker,
    placed_parts,
    publish,
    until_placed,
    write_parts,
    write_placed,
)
from lsmlake.write.write_request import WriteRequest

_BUCKET, _ORDER, _BY = "bucket_number", "row_order", "order_by"
_BATCH_ROWS = 1 << 16

Placed = tuple[pa.Table, pa.ChunkedArray | None, Arrival]
"""Rows, their bucket numbers, if known, and their order."""


@dataclass(frozen=True)
class _Write:
    """The value that every task receives."""

    base: Version
    covers: Covers
    columns: Sequence[str]
    request: WriteRequest
    compact: bool
    order: FrameOrder
    ordered: Ordered
    errors: bool = False
    by_rows: bool = False
    """Whether the batches for the tasks are bounded by rows only (`spark.arrow_batches`)."""


def upsert(version: Version, df, request: WriteRequest, learned: Learned, *, errors: bool = False) -> Snapshot | None:
    """`Table.upsert` and `Table.delete_keys` for a DataFrame. `learned`: what earlier writes told; this function adds to it.
    `errors`: tasks of ours made the rows, and the column `ERROR` has their errors."""
    if df.isStreaming:
        raise InvalidData("a streaming DataFrame is no batch", cure="use write_stream, or foreachBatch with sink()")
    if done := replayed(version, request.identity):  # before the columns are checked: the table may have been altered since
        return done
    schema, frame_columns = version.schema, _columns_of(df.drop(ERROR) if errors else df)
    settings.check_types(df.sparkSession.conf.get, schema.columns)
    order = FrameOrder.of(frame_columns, schema, request)
    columns = columns_for(schema, frame_columns, request, order.own)
    pick = None if schema.append_only else picker(version, request.compact, reclaims=request.reclaims)
    limit = collected.row_limit(version, pick, df, learned)
    covers, ordered = covers_for(version, request), _ordered(df, schema, order)
    write = _Write(version, covers, columns, request, pick is not None, order, ordered, errors)
    collects = limit and not (order.expressions and request.cast is not None)  # the rows are ordered by converted values
    rows = collected.placed_rows(df, _numbered_columns(df, write), limit) if collects else None
    if rows is not None:
        given, arrival = _arrived(raise_error(rows) if errors else rows, write)
        return upsert_collected(version, given, request, pick, arrival)
    parallelism = PARALLEL if is_connect(df) else df.sparkSession.sparkContext.defaultParallelism
    covers = in_parallel(version, write.covers, parallelism, replaces=request.replaces is not None)
    covers = _for_new_partitions(replace(write, covers=covers), df, parallelism)
    snapshot = _by_tasks(replace(write, covers=covers), df, covers.most if is_connect(df) else parallelism, learned)
    if limit and snapshot and snapshot.delta_rows <= limit:
        learned.uneven.add(version.meta.paths.root)
    return snapshot


def _for_new_partitions(write: _Write, df, parallelism: int) -> Covers:
    """The covers of a write, with several buckets for each large new partition."""
    base, request, schema = write.base, write.request, write.base.schema
    last_rows = 0 if base.snapshot is None else collected.last_rows(base.meta, base.snapshot)
    placed_by = {field.column for field in schema.partition_columns}
    if not counts_rows(base, request, last_rows) or not placed_by <= {*write.columns} or shuffled(df):
        return write.covers  # a shuffle is not computed twice
    rows = _as_stored(df.selectExpr(*_values(write.columns)), schema, write.columns)
    partition = partition_values(schema, lambda name: _numbered(write.columns.index(name)))
    counted = rows_by_partition(rows, schema, partition)
    known = known_partitions(base, request)
    return for_new_partitions(write.covers, schema.spec_id, counted, known() if counted else (), parallelism)


def _ordered(df, schema: Schema, order: FrameOrder) -> Ordered:
    if order.any or schema.append_only:
        return Ordered.ALL
    return Ordered.NONE if shuffled(df) else Ordered.PARTS


def upsert_collected(
    version: Version, rows: pa.Table, request: WriteRequest, pick: Picker | None, arrival: Arrival | None = None
) -> Snapshot | None:
    """Writes rows in the driver process. `arrival`: the order of the rows; None: the order of the table `rows`."""
    prepared, kept = prepare(rows, version.schema, request, None)
    if arrival is not None and kept is not None:
        arrival = arrival.take(kept)
    part = Part.of(prepared) if arrival is None else Part(prepared, arrival)
    return write_parts(version, [part], request, collected.modest(pick, version.meta.env.limits.driver_merge_bytes))


def _by_tasks(write: _Write, df, parallelism: int, learned: Learned) -> Snapshot | None:
    root = write.base.meta.paths.root
    if root not in learned.long_rows and _can_bound_by_rows(write, df, learned):
        try:
            with by_rows(df.sparkSession):
                return _through_tasks(replace(write, by_rows=True), df, parallelism)
        except LongRows:
            learned.long_rows.add(root)
    return _through_tasks(write, df, parallelism)


def _can_bound_by_rows(write: _Write, df, learned: Learned) -> bool:
    """Whether batches may be bounded by rows only. This holds for every Python function of the job, so Spark's own code must make
    all rows that Python gets."""
    if is_connect(df) or write.request.cast is not None or write.base.schema.moves_keys:
        return False
    rows = df.selectExpr(*_numbered_columns(df, write))
    return not runs_python(rows, micro_batch=learned.without_python) and can_bound(df.sparkSession, rows.schema.fields)


def _through_tasks(write: _Write, df, parallelism: int) -> Snapshot | None:
    if write.base.schema.moves_keys:
        return until_placed(write.base, write.request, partial(_by_key_and_bucket, write, df, parallelism))
    placed = _placed(df, write, parallelism)
    return _published(write, placed.mapInArrow(partial(_write_task, _sent(write)), tasks.RESULT), df.sparkSession)


def _sent(write: _Write) -> _Write:
    """What a task receives: only the driver commits."""
    return replace(write, request=replace(write.request, requires=None))


def _published(write: _Write, written, spark) -> Snapshot | None:
    """Commits what tasks have written. `written`: a DataFrame of their messages."""
    results, errors = tasks.collect(written)
    messages: list[CommitMessage] = [message for result in results for message in result]
    if errors:
        write.base.meta.files.discard(messages)
        # a task that lacks the values of long rows, which another task refuses, may find errors that the data does not have
        raise next((error for error in errors if isinstance(error, LongRows)), errors[0])
    in_tasks = divide_tasks.run_on(spark)
    if write.covers.first != write.base.options.layout.first_buckets and messages:
        pick = inline_picker(write.base, reclaims=write.request.reclaims) if write.compact else None
        replaces = write.request.replaces is not None
        messages = in_few(write.base, write.covers, messages, pick, in_tasks, replaces=replaces)
    return publish(write.base, _one_per_bucket(write.base, messages), write.request, in_tasks)


def _one_per_bucket(base: Version, messages: list[CommitMessage]) -> list[CommitMessage]:
    """The messages of all tasks, one per bucket. Several tasks may append to one bucket."""
    return joined(messages) if base.schema.append_only else messages


def columns_for(schema: Schema, columns: pa.Schema, request: WriteRequest, own: Collection[str] = ()) -> list[str]:
    """The columns that a write takes from data with these columns. `own`: columns that only the order of the rows reads.
    Raises InvalidData."""
    row_kind = request.row_kind and request.row_kind.column
    if request.deletes:
        names = list(delete_columns(schema, request))
        check_sequence(columns.names, schema, request)
    else:
        optional = optional_columns(columns.names, schema)
        names = [name for name in schema.columns.names if name not in optional]
    extra = [row_kind] if row_kind and row_kind not in names else []
    if extra and columns.names.count(row_kind) != 1:
        raise InvalidData(
            "the row-kind column is not in the data, or twice", where=f"column {row_kind!r}", expected="once", found=columns.names
        )
    given = pa.schema([field for field in columns if field.name not in extra and field.name not in own])
    check_types(given, schema, names, request.cast)
    return names + extra


def _columns_of(df) -> pa.Schema:
    try:
        return to_arrow(df.schema)
    except InvalidSchema as unknown:
        raise InvalidData(unknown.what, where=unknown.where, found=unknown.found, cure=unknown.cure) from unknown


def _values(columns: Sequence[str]) -> list[str]:
    return [f"{backticked(name)} as {_numbered(i)}" for i, name in enumerate(columns)]


def _numbered_columns(df, write: _Write) -> list[str]:
    """The columns of a write by number, the values of `order_by`, and the errors of tasks, if there are any."""
    return [*_values(write.columns), *_order_values(df, write), *([ERROR] if write.errors else [])]


def _placed(df, write: _Write, parallelism: int):
    schema, columns = write.base.schema, write.columns
    numbered = df.selectExpr(*_numbered_columns(df, write)) if write.request.cast is None else _converted(df, write)
    numbered = _as_stored(numbered, schema, columns)
    types = {field.name: field.dataType.simpleString() for field in to_spark(schema.row_columns)}
    key = ", ".join(f"try_cast({_numbered(columns.index(n))} as {types[n]})" for n in schema.bucket_key)  # it decides the hash
    partition = partition_values(schema, lambda name: _numbered(columns.index(name)) if name in columns else None)
    ordered = numbered.selectExpr("*", f"monotonically_increasing_id() as {_ORDER}")
    placed = with_buckets(ordered, schema, write.covers, key, partition, _BUCKET)
    placed = short_rows(placed, _BUCKET) if write.by_rows else placed
    if not key and not partition:
        return placed
    if not partition:
        return placed.repartitionById(min(write.covers.most, parallelism), _BUCKET)
    return placed.repartition(*partition, _BUCKET)


def _order_values(df, write: _Write) -> list[str]:
    """The expressions of `order_by` as SQL for numbered columns."""
    write.order.check(df)
    return [f"{text} as {_BY}{i}" for i, text in enumerate(write.order.expressions)]


def _converted(df, write: _Write):
    """The numbered columns, converted, and the values of `order_by` over the converted columns."""
    schema, columns = write.base.schema, write.columns
    own = sorted(name for name in write.order.own if name not in columns)
    taken = [*columns, *own] if write.order.expressions else columns
    fields = [schema.typed_columns.field(name) if name in schema.columns.names else None for name in taken]
    made = df.selectExpr(*_values(taken))
    made = cast_rows(made, made.columns, fields, write.request.cast)
    if not write.order.expressions:
        return made
    named = made.selectExpr(*(f"{_numbered(i)} as {backticked(name)}" for i, name in enumerate(taken)), ERROR)
    return named.selectExpr(*_values(columns), ERROR, *_order_values(named, write))


def _as_stored(rows, schema: Schema, columns: Sequence[str]):
    """Pads or trims the texts of key and partition columns to their VARCHAR(n) or CHAR(n). The writer refuses longer texts."""
    placing = {*schema.bucket_key, *(field.column for field in schema.partition_columns)}
    sized = {name: text for name in placing if name in columns and (text := sized_text(schema.columns.field(name)))}
    made = {_numbered(columns.index(name)): text for name, text in sized.items()}
    if not made:
        return rows
    return rows.selectExpr(*(f"{_stored_text(one, made[one])} as {one}" if one in made else one for one in rows.columns))


def _stored_text(column: str, text: SizedText) -> str:
    stored = f"rpad({column}, {text.length}, ' ')" if text.name == CHAR else f"substring({column}, 1, {text.length})"
    return f"if(char_length(rtrim({column})) <= {text.length}, {stored}, {column})"


def _numbered(column: int) -> str:
    return f"c{column}"


def _write_task(write: _Write, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    try:
        outcome: object = _messages(write, _unplaced(write, batches))
    except LakeError as error:
        outcome = error
    yield tasks.result(outcome)  # even if the task fails after this point, the driver may commit the messages


def _unplaced(write: _Write, batches: Iterator[pa.RecordBatch]) -> Iterator[Placed]:
    """The inverse of `_placed`: the rows, their buckets and their order."""
    for batch in batches:
        refuse_long(batch[_BUCKET])
        table = pa.Table.from_batches([batch])
        rows, arrival = _arrived(raise_error(table.drop_columns([_BUCKET])), write)
        yield rows, table[_BUCKET], arrival


def _arrived(rows: pa.Table, write: _Write) -> tuple[pa.Table, Arrival]:
    """The rows with the names of their columns, and their order."""
    by = [f"{_BY}{i}" for i in range(len(write.order.expressions))]
    arrival = Arrival(np.asarray(rows[_ORDER]), rows.select(by) if by else None, write.ordered)
    return rows.drop_columns([_ORDER, *by]).rename_columns(write.columns), arrival


# -- keys that move ---------------------------------------------------------------------------------------------------


def _by_key_and_bucket(write: _Write, df, parallelism: int, now: Version, request: WriteRequest) -> Snapshot | None:
    """Writes to a table whose keys can move between partitions: tasks that have all rows of some keys give these their places at
    the version `now` (`write.key_places`); then the rows go to the tasks of their buckets."""
    schema = now.schema
    write = replace(write, base=now, request=request, covers=covers_for(now, request))
    by_key = replace(write, base=replace(now, schema=schema.of_keys), covers=Covers(parallelism))
    placed = _placed(df, by_key, parallelism).mapInArrow(partial(_place_task, _sent(write)), to_spark(_placed_fields(schema)))
    ordered = placed.selectExpr("*", f"monotonically_increasing_id() as {_ORDER}")
    names = {name: _numbered(i) for i, name in enumerate(schema.columns.names)}
    partition = partition_values(schema, names.get)
    key = ", ".join(names[name] for name in schema.bucket_key)
    routed = with_buckets(ordered, schema, write.covers, key, partition, _BUCKET).repartition(*partition, _BUCKET)
    return _published(write, routed.mapInArrow(partial(_write_placed_task, _sent(write)), tasks.RESULT), df.sparkSession)


_KIND, _CHANGE = "row_kind", "of_changelog"


def _placed_fields(schema: Schema) -> pa.Schema:
    """Placed rows, by number, with the columns of the table, their kinds, whether they belong to the changelog, and an error."""
    columns = [field.with_name(_numbered(i)) for i, field in enumerate(schema.row_columns)]
    return pa.schema([*columns, pa.field(_KIND, pa.int8()), pa.field(_CHANGE, pa.bool_()), pa.field(ERROR, pa.binary())])


def _place_task(write: _Write, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    schema, fields = write.base.schema, _placed_fields(write.base.schema)
    try:
        with key_intake(schema, write.request) as given:
            for rows, _, arrival in _unplaced(write, batches):
                given.add(rows, arrival)
            for part in placed_parts(write.base, given, write.request):
                (rows,), count = with_kinds([part.rows], always=True), part.rows.num_rows
                change = rows[CHANGE] if CHANGE in rows.column_names else pa.repeat(False, count)
                columns = [*rows.select(schema.columns.names).columns, rows[ROW_KIND], change, pa.nulls(count, pa.binary())]
                made = pa.table(columns, schema=fields)
                yield from made.cast(of_tasks(fields)).to_batches(max_chunksize=_BATCH_ROWS)
    except LakeError as error:
        row = {name: [None] for name in fields.names} | {ERROR: [pickle.dumps(error)]}
        yield from pa.table(row, schema=fields).cast(of_tasks(fields)).to_batches()


def _write_placed_task(write: _Write, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    base, request = write.base, write.request
    try:
        pick = inline_picker(base, reclaims=request.reclaims) if write.compact else None
        with Intake(base.schema, write.covers, request, prepared=True, known=known_partitions(base, request)) as intake:
            for batch in batches:
                rows = raise_error(pa.Table.from_batches([batch]))
                numbers, arrival = rows[_BUCKET], Arrival(np.asarray(rows[_ORDER]))
                intake.add(_as_placed(rows, base.schema, intake.flagged), arrival, numbers)
            outcome: object = bucket_messages(base, intake, pick)
    except LakeError as error:
        outcome = error
    yield tasks.result(outcome)


def _as_placed(rows: pa.Table, schema: Schema, flagged: bool) -> pa.Table:
    """The inverse of what `_place_task` does to the rows of a part."""
    own = rows.select([_numbered(i) for i in range(len(schema.columns))]).rename_columns(schema.columns.names)
    made, kinds = own.cast(schema.row_columns), np.asarray(rows[_KIND])
    made = with_kind(made, kinds) if flagged or kinds.any() else made
    return made.append_column(CHANGE, rows[_CHANGE]) if flagged else made


# -- in this process --------------------------------------------------------------------------------------------------


def write_here(base: Version, columns: Sequence[str], placed: Iterator[Placed], request: WriteRequest) -> Snapshot | None:
    """Writes rows in this process, without a Spark session, and commits once. Does not read `placed` if `request.identity`
    has committed before."""
    if done := replayed(base, request.identity):
        return done
    if base.schema.moves_keys:
        with key_intake(base.schema, request) as given:
            for rows, _, arrival in placed:
                given.add(rows, arrival)
            return write_placed(base, given, request, picker(base, None))
    write = _Write(base, covers_for(base, request), columns, request, picker(base, None) is not None, FrameOrder(), Ordered.ALL)
    return publish(base, _messages(write, placed), request)


def _messages(write: _Write, placed: Iterator[Placed]) -> list[CommitMessage]:
    base = write.base
    if base.schema.append_only:
        return append_files(base, (prepare(rows, base.schema, write.request, None)[0] for rows, _, _ in placed), write.covers)
    pick = inline_picker(base, reclaims=write.request.reclaims) if write.compact else None
    with Intake(base.schema, write.covers, write.request, known=known_partitions(base, write.request)) as intake:
        for rows, numbers, arrival in placed:
            intake.add(rows, arrival, numbers)
        return bucket_messages(base, intake, pick)
