"""Reads rows and changes in Python tasks: each task reads whole splits or pieces with the code of `read` and `cdc`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial

import pyarrow as pa

from lsmlake.cdc import binlog
from lsmlake.cdc.binlog import ROWKIND, list_schema
from lsmlake.cdc.change_reader import Piece, changes_schema, read_piece
from lsmlake.cdc.commits import Feed
from lsmlake.cdc.encoding import EventWriter
from lsmlake.read.arrow_scan import read_split
from lsmlake.read.plan import Plan, Split
from lsmlake.spark import settings, tasks
from lsmlake.spark.frame_types import of_tasks, to_arrow, to_spark
from lsmlake.tables.version import Metadata

BATCH_ROWS = 1 << 16


def needed(plan: Plan, where: str | None) -> tuple[str, ...]:
    """Returns the columns that tasks must read: all of them if only Spark can evaluate the filter."""
    return plan.needed if plan.predicate is not None or where is None else tuple(plan.schema.columns.names)


def rows(spark, plan: Plan, splits: Sequence[Split], names: Sequence[str]):
    """Returns a DataFrame with the columns `names` of `splits`, one task per split."""
    schema = fields(plan, names)
    lean = replace(plan, columns=tuple(names), splits=(), pruned=())
    return tasks.payloads(spark, splits).mapInArrow(partial(_read_task, lean, schema), to_spark(schema))


def fields(plan: Plan, names: Sequence[str]) -> pa.Schema:
    return pa.schema([plan.schema.typed_columns.field(name).with_nullable(True) for name in names])


def _read_task(plan: Plan, schema: pa.Schema, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    taken = of_tasks(schema)
    for split in tasks.unpacked(batches):
        for table in read_split(plan, split):
            yield from table.cast(taken).to_batches(max_chunksize=BATCH_ROWS)


def changes(spark, meta: Metadata, like: Feed, pieces: Sequence[Piece], events: EventWriter | None = None):
    """Returns a DataFrame with the changes of `pieces`, one task per piece. `events`: what writes them as events."""
    schema = changes_fields(like) if events is None else events.schema
    settings.check_types(spark.conf.get, schema)
    if not pieces:
        return spark.createDataFrame([], to_spark(schema))
    read = partial(read_piece, meta, like) if events is None else partial(events.read, meta)
    return tasks.payloads(spark, pieces).mapInArrow(partial(_changes_task, read, schema), to_spark(schema))


def as_lists(frame, key: Sequence[str]):
    """Returns a DataFrame of `changes` in which an update is one row (`cdc.binlog`). A partition of the DataFrame has all changes
    of its buckets in order, so the two rows of an update are adjacent."""
    schema = list_schema(pa.field(ROWKIND, pa.string()), pa.schema(list(to_arrow(frame.schema))[1:]))
    return frame.mapInArrow(partial(_lists_task, tuple(key), schema), to_spark(schema))


def _lists_task(key: tuple[str, ...], schema: pa.Schema, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for table in binlog.as_lists(batches, key, schema):
        yield from table.cast(of_tasks(schema)).to_batches()


def changes_fields(like: Feed) -> pa.Schema:
    """Returns the schema of changes for Spark: all columns nullable, with the lengths of texts."""
    fields = {field.name: field for field in changes_schema(like)}
    fields |= {name: like.schema.typed_columns.field(name) for name in like.columns}
    return pa.schema([field.with_nullable(True) for field in fields.values()])


def _changes_task(
    read: Callable[[Piece], Iterator[pa.Table]], schema: pa.Schema, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    taken = of_tasks(schema)
    for piece in tasks.unpacked(batches):
        for table in read(piece):
            yield from table.cast(taken).to_batches(max_chunksize=BATCH_ROWS)
