"""A read that has been described but not done: `Table.scan(...)`."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from lsmlake.border import public, through
from lsmlake.engine import Engine
from lsmlake.extras import need
from lsmlake.lsm.predicate import Unsupported, parse
from lsmlake.ops import plan as planning
from lsmlake.ops.plan import Plan
from lsmlake.ops.read import count, output_schema, read_plan
from lsmlake.ops.travel import Moment, resolve
from lsmlake.store.metadata import Metadata


@public
@dataclass(frozen=True)
class Scan:
    """Rows of a table at a moment. Each `to_...` reads the table as it is when called, unless a snapshot was named."""

    meta: Metadata
    engine: Engine
    where: str | None
    columns: tuple[str, ...] | None
    mode: str
    moment: Moment

    def plan(self) -> Plan:
        """The files to read, as values. Metadata only. Raises InvalidQuery, SnapshotNotFound."""
        return self._plan(engine_filters=False)

    def _plan(self, *, engine_filters: bool) -> Plan:
        """With `engine_filters` the engine applies `where` itself, so what we cannot read of it only costs pruning."""
        snapshot = resolve(self.meta, self.moment)
        schema = self.meta.schema_of(snapshot)
        predicate = None
        if self.where is not None:
            try:
                predicate = parse(self.where, schema.plain_columns, zone=self.engine.zone)
            except Unsupported:
                if not engine_filters:
                    raise
        with self.meta.unless_expired(snapshot):
            return planning.plan(self.meta, schema, snapshot, predicate, self.columns, self.mode)

    def to_batches(self) -> pa.RecordBatchReader:
        """The rows as they are read, by up to four threads. Held at a time: a few chunks, of a row group or 65,536 rows, of each
        file under way. No order is promised, but the same plan gives the same one."""
        plan = self.plan()
        batches = (batch for table in read_plan(self.meta, plan) for batch in table.to_batches())
        return pa.RecordBatchReader.from_batches(output_schema(plan), through(batches, "Scan"))

    def to_arrow(self) -> pa.Table:
        """All rows. No order is promised."""
        return self.to_batches().read_all()

    def to_pandas(self):
        """All rows as a pandas.DataFrame."""
        need("pandas", "to_pandas()")
        return self.to_arrow().to_pandas()

    def count(self) -> int:
        """The number of rows; without `where` from metadata and at most the key columns."""
        return count(self.meta, self.plan())

    def to_spark(self, strategy: str = "auto"):
        """The rows as a Spark DataFrame, evaluated lazily. `strategy`: 'native' (Catalyst reads the Parquet files and masks dead
        rows by broadcast bitmaps), 'arrow' (Python tasks read and mask) or 'auto'. Both give the same rows."""
        return self.engine.frame(self.meta, self._plan(engine_filters=True), self.where, strategy)

    def explain(self) -> str:
        """What a read would do: files left by each step of pruning, dead rows masked, rows waiting at level 0, strategy."""
        plan = self._plan(engine_filters=self.engine.filters)
        waiting = sum(file.rows for split in plan.splits for file in split.level0)
        steps = " -> ".join(f"{files} ({step})" for step, files in plan.pruned)
        masked = sum(len(split.vectors) for split in plan.splits)
        return "\n".join(
            [
                f"snapshot  {plan.snapshot.id if plan.snapshot else 'none: the table is empty'}   mode {plan.mode}",
                f"columns   {', '.join(plan.columns)}",
                f"where     {self.where or 'all rows'}",
                f"files     {steps}",
                f"masked    {plan.dead_rows} dead rows in {masked} files",
                f"level 0   {waiting} rows waiting in {sum(len(split.level0) for split in plan.splits)} files",
                f"strategy  {self.engine.strategy(plan)}",
            ]
        )
