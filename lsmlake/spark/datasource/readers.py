"""`spark.read.format("lsmlake")` and `spark.readStream.format("lsmlake")`: the rows of a plan, and the changes of a table.

The offset of a stream is a `cdc.follow.Offset`. Spark records it before reading up to it, and the pieces between two offsets are
always the same, so each change is delivered exactly once, also over restarts. One task reads all changes of a bucket in a
micro-batch, in order.

Spark 4.1 has no limits for such sources: a micro-batch reads all available changes, `availableNow` is one micro-batch, and a
consumer lags one micro-batch behind.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition

from lsmlake.cdc.change_reader import Piece, by_bucket, read_piece
from lsmlake.cdc.commits import Feed
from lsmlake.cdc.encoding import EventWriter
from lsmlake.cdc.follow import UNLIMITED, Follower, Limit, Offset
from lsmlake.errors import InvalidQuery, in_options, naming
from lsmlake.lsm.difference import KIND_FIELD
from lsmlake.read.arrow_scan import read_split
from lsmlake.read.plan import Plan
from lsmlake.spark.datasource.options import ARGUMENTS_OF_READS
from lsmlake.spark.frame_types import of_tasks
from lsmlake.spark.ship import Package, WithPackage

try:
    from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows, SupportsTriggerAvailableNow
except ImportError:  # Spark 4.1
    ReadAllAvailable = SupportsTriggerAvailableNow = None

_BATCH_ROWS = 1 << 16
_UPSERTS = ("+I", "+U")


class BatchReader(WithPackage, DataSourceReader):
    """The read of a batch."""

    def __init__(self, package: Package | None, plan: Plan, schema: pa.Schema) -> None:
        self.package, self.plan, self.arrow = package, plan, of_tasks(schema)

    def partitions(self) -> Sequence[InputPartition]:
        return [InputPartition(split) for split in self.plan.splits]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if partition.value is None:  # Spark reads one partition even if the plan has none
            return
        with in_options(ARGUMENTS_OF_READS), naming("where", (InvalidQuery,)):
            for table in read_split(self.plan, partition.value):
                yield from table.cast(self.arrow).to_batches(max_chunksize=_BATCH_ROWS)


class StreamReader(WithPackage, DataSourceStreamReader):
    """The reads of a stream, in Spark 4.1."""

    def __init__(
        self,
        package: Package | None,
        follower: Follower,
        limit: Limit,
        schema: pa.Schema,
        changelog: bool,
        events: EventWriter | None = None,
    ) -> None:
        """`events`: what writes the changes as events; None: they are rows, with `changelog` those of all kinds."""
        self.package, self.follower, self.limit, self.changelog, self.events = package, follower, limit, changelog, events
        self.arrow = of_tasks(schema)

    @in_options(ARGUMENTS_OF_READS)
    def initialOffset(self) -> dict:
        offset = self.follower.begin()
        self.follower.note(offset)
        return offset._asdict()

    def latestOffset(self) -> dict:
        return self.follower.end()._asdict()

    @in_options(ARGUMENTS_OF_READS)
    def partitions(self, start: dict, end: dict) -> Sequence[InputPartition]:
        """Each partition carries the columns to read: the columns of this reader, even if the table has others when a task
        begins."""
        first, last = Offset(**start), Offset(**end)
        self.follower.note(first)
        pieces = [piece for _, piece in self.follower.pieces(first, last)]
        alone = first.full and last.snapshot <= first.snapshot + (last.pieces == 0)  # no key is in two of them
        return [InputPartition((self.follower.like, piece)) for piece in (pieces if alone else by_bucket(pieces))]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        like, piece = partition.value
        with in_options(ARGUMENTS_OF_READS), naming("where", (InvalidQuery,)):
            for table in self._tables(like, piece):
                yield from table.cast(self.arrow).to_batches(max_chunksize=_BATCH_ROWS)

    def _tables(self, like: Feed, piece: Piece) -> Iterator[pa.Table]:
        if self.events is not None:
            yield from replace(self.events, like=like).read(self.follower.meta, piece)
            return
        for table in read_piece(self.follower.meta, like, piece):
            if not self.changelog:
                kinds = table[KIND_FIELD.name]
                table = table.filter(pc.is_in(kinds, value_set=pa.array(_UPSERTS))).drop_columns([KIND_FIELD.name])
            yield table

    def commit(self, end: dict) -> None:
        """Records progress. Spark calls this one batch late and not for the last batch; but it requests a batch only after the
        previous one is in its checkpoint, so `partitions` records progress as well."""
        self.follower.note(Offset(**end))

    def stop(self) -> None:
        """There is nothing to release."""


if ReadAllAvailable is None:
    LimitedStreamReader = None
else:

    class LimitedStreamReader(StreamReader, SupportsTriggerAvailableNow):
        """The reads of a stream, in Spark 4.2 and later, with limits."""

        until: int | None = None

        def getDefaultReadLimit(self):
            return ReadAllAvailable() if self.limit == UNLIMITED else ReadMaxRows(self.limit.rows or 1 << 62)

        def latestOffset(self, start: dict, limit) -> dict:
            self.follower.note(Offset(**start))
            allowed = UNLIMITED if isinstance(limit, ReadAllAvailable) else self.limit
            return self.follower.advance(Offset(**start), allowed, self.until)._asdict()

        def reportLatestOffset(self) -> dict:
            return self.follower.end()._asdict()

        def prepareForTriggerAvailableNow(self) -> None:
            self.until = self.follower.end().snapshot - 1
