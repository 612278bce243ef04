"""The changes between two snapshots that have been described but not read: `Table.changes(...)`."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from lsmlake.engine import Engine
from lsmlake.errors import InvalidQuery
from lsmlake.lsm.predicate import parse
from lsmlake.ops import plan as planning
from lsmlake.ops.changes import Pair, changes_schema, pairs, read_changes
from lsmlake.ops.plan import Plan
from lsmlake.ops.travel import Moment, resolve
from lsmlake.store.metadata import Metadata


@dataclass(frozen=True)
class Changes:
    """What happened after snapshot `start` up to and with snapshot `end`, net: a row changed twice is one change.

    The first column is `_row_kind` ('+I', '-U', '+U', '-D'); a -U stands just before its +U. Folded onto the rows at `start` the
    changes give those at `end`.
    """

    meta: Metadata
    engine: Engine
    start: int
    end: int | None
    where: str | None
    columns: tuple[str, ...] | None

    def _plans(self) -> tuple[Plan, list[Pair]]:
        schema = self.meta.latest_schema()
        predicate = None if self.where is None else parse(self.where, schema.plain_columns, zone=self.engine.zone)
        last = resolve(self.meta, Moment(self.end))
        if isinstance(self.start, bool) or not isinstance(self.start, int) or self.start < 0:
            raise InvalidQuery(
                "the start of changes is the number of a snapshot, 0 = before the first",
                found=repr(self.start),
                cure="see snapshots()",
            )
        if last is not None and self.start > last.id:
            raise InvalidQuery(
                "changes end before they start", expected=f"a start up to {last.id}", found=self.start, cure="turn them round"
            )
        first = resolve(self.meta, Moment(self.start)) if self.start and last is not None else None
        before, after = (planning.plan(self.meta, schema, snapshot, predicate, self.columns) for snapshot in (first, last))
        return after, pairs(before, after)

    def to_batches(self) -> pa.RecordBatchReader:
        """The changes bucket after bucket; what is held at a time are the changed rows of one. Raises InvalidQuery,
        SnapshotNotFound."""
        plan, found = self._plans()
        batches = (batch for pair in found for batch in read_changes(self.meta, plan, pair).to_batches())
        return pa.RecordBatchReader.from_batches(changes_schema(plan), batches)

    def to_arrow(self) -> pa.Table:
        """All changes; by key inside a bucket."""
        return self.to_batches().read_all()

    def to_pandas(self):
        """All changes as a pandas.DataFrame."""
        return self.to_arrow().to_pandas()

    def to_spark(self):
        """The changes as a Spark DataFrame, lazily evaluated, a bucket a task. No order is promised."""
        plan, found = self._plans()
        return self.engine.changes_frame(self.meta, plan, found)

    def count(self) -> int:
        """The number of changes; an update counts twice."""
        return sum(batch.num_rows for batch in self.to_batches())
