"""`ScanSplit`: a part of a scan that one task reads, in this process or in another one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from lsmlake.api.public_types import ArrowExpression
from lsmlake.api.readable import Readable
from lsmlake.border import public, through
from lsmlake.predicate.arrow_expression import matching
from lsmlake.read.arrow_scan import output_schema, read_plan
from lsmlake.read.fallback import branch_name
from lsmlake.read.limit import KeyOrder, first_rows, first_rows_by_key
from lsmlake.read.plan import Plan, by_file


@public
@dataclass(frozen=True, repr=False)
class ScanSplit(Readable):
    """A part of a scan: `Scan.splits`. The splits of a scan together hold its rows, each row once.

    A split holds the metadata of its files and no rows. It can be pickled and read in another process, which needs access to the
    files and no lake. Credentials that the environment of a process gives are not pickled; those in `storage_options` are. It
    reads the snapshot that was planned, and has the Arrow stream interface.

    Raises:
        SnapshotNotFound: the snapshot has expired and its files are deleted.

    Example:
        >>> with concurrent.futures.ProcessPoolExecutor() as pool:
        ...     tables = list(pool.map(lsmlake.ScanSplit.to_arrow, orders.scan().splits()))
    """

    plan: Plan
    filter: ArrowExpression | None
    selected: tuple[str, ...] | None
    limit: int | None
    order_by_key: KeyOrder | None

    def __hash__(self) -> int:
        """By the files, of which a plan has mappings."""
        names = tuple(file.name for file in self.plan.data_files)
        return hash((self.plan.version.meta.paths, self.plan.columns, names, self.limit, self.order_by_key))

    def __repr__(self) -> str:
        rows = "an unknown number of" if self.num_rows is None else f"{self.num_rows:,}"
        return f"<lsmlake split of {self.plan.version.meta.paths.root}, {self.plan.files:,} files, {rows} rows>"

    @property
    def schema(self) -> pa.Schema:
        """The columns of the rows, in their order: those of the scan. Reads nothing."""
        whole = output_schema(self.plan)
        return whole if self.selected is None else pa.schema([whole.field(name) for name in self.selected])

    @property
    def branch(self) -> str:
        """The name of the branch whose files the split reads; 'main' for the table itself. Reads nothing."""
        version = self.plan.version
        of_fallback = version.fallback is not None and any(split.of_fallback for split in self.plan.splits)
        return branch_name(version.fallback if of_fallback else version)

    @property
    def num_rows(self) -> int | None:
        """The number of rows, if metadata tells it. None: the split must be read, as there is a condition or a merge. Reads
        nothing."""
        filters = self.plan.predicate is not None or self.filter is not None
        if filters or any(split.level0 or split.merged for split in self.plan.splits):
            return None
        stored = sum(file.rows for split in self.plan.splits for file in split.files)
        live = stored - self.plan.dead_rows
        return live if self.limit is None else min(live, self.limit)

    def to_batches(self) -> pa.RecordBatchReader:
        """The rows as a stream of record batches. Memory holds a few chunks of each file that is being read."""
        tables = planned_rows(self.plan, self.filter, self.selected, self.limit, self.order_by_key)
        batches = (batch for table in tables for batch in table.to_batches())
        return pa.RecordBatchReader.from_batches(self.schema, through(batches, "ScanSplit"))


def planned_rows(
    plan: Plan, where: ArrowExpression | None, columns: Sequence[str] | None, limit: int | None, order: KeyOrder | None
) -> Iterator[pa.Table]:
    """Yields the rows of a plan: those for which the expression `where` is true, with these columns; the first `limit`."""
    tables = read_plan(plan) if order is None else iter([first_rows_by_key(plan, limit, order)])
    if where is not None:
        tables = matching(tables, where, columns)
    return tables if limit is None else first_rows(tables, limit)


def divided(
    plan: Plan, where: ArrowExpression | None, columns: Sequence[str] | None, limit: int | None, order: KeyOrder | None
) -> list[ScanSplit]:
    """The splits of a plan: one for each file, and one for the files of a bucket that are merged at read. A plan of the first
    rows is one split, since only all of them together tell which these are."""
    groups = [plan.splits] if limit is not None else [(split,) for split in by_file(plan.splits)]
    lean = replace(plan, pruned=())
    selected = None if where is None or columns is None else tuple(columns)
    return [ScanSplit(replace(lean, splits=group), where, selected, limit, order) for group in groups if group]
