"""What `Lake.sync` has done, by table."""

from __future__ import annotations

from dataclasses import dataclass, field, fields

import pyarrow as pa

from lsmlake.notebook import Shown

PARTITIONS, OPTIONS = OF_TABLES = "partition_by", "options"
"""Begin the words for partitions and options that a table does not get."""


@dataclass(frozen=True)
class SyncedTable(Shown):
    """What a call of `Lake.sync` has done to one table.

    Attributes:
        table: the name of the table in the lake.
        sources: the names of the tables at the source.
        created: the call made the table.
        commits: how many commits the call made.
        rows: how many rows these commits wrote.
        columns_added: the columns that the table got after it was made.
        columns_widened: the columns that got a wider type.
        rejected: how many events were rejected.
        snapshot_id: the last snapshot of these commits; None: there is none.
        reasons: why events were refused together, such as a type that is no widening.
    """

    table: str
    sources: tuple[str, ...] = ()
    created: bool = False
    commits: int = 0
    rows: int = 0
    columns_added: tuple[str, ...] = ()
    columns_widened: tuple[str, ...] = ()
    rejected: int = 0
    snapshot_id: int | None = None
    reasons: tuple[str, ...] = ()


def of_table(one: SyncedTable, later: SyncedTable) -> SyncedTable:
    """The sum of what two batches have done to the same table."""
    return SyncedTable(
        one.table,
        _united(one.sources, later.sources),
        one.created or later.created,
        one.commits + later.commits,
        one.rows + later.rows,
        _united(one.columns_added, later.columns_added),
        _united(one.columns_widened, later.columns_widened),
        one.rejected + later.rejected,
        one.snapshot_id if later.snapshot_id is None else later.snapshot_id,
        _united(one.reasons, later.reasons),
    )


def _united(some: tuple[str, ...], more: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*some, *more)))


_KINDS = {
    "table": pa.string(),
    "created": pa.bool_(),
    "snapshot_id": pa.int64(),
    **dict.fromkeys(("commits", "rows", "rejected"), pa.int64()),
    **dict.fromkeys(("sources", "columns_added", "columns_widened", "reasons"), pa.list_(pa.string())),
}


@dataclass(frozen=True)
class SyncReport(Shown):
    """The result of `Lake.sync`.

    Attributes:
        batches: how many batches of events the call has applied.
        tables: what it has done to each table, in the order of their names.
        rejected: how many events were rejected because they name no table.
        unmatched: tables that `primary_keys`, `partition_by`, `computed_columns` or `table_mapping` name, and that the database
            does not have: their events may come later, or the names or patterns are wrong.
        left_out: the tables at the source whose events were left out, as `tables` and `excluding_tables` say.
        idle: arguments that have decided nothing: patterns that match no table at the source; `table_prefix` and `table_suffix`
            if `table_mapping` names all tables; `infer_types=False` if all events declare their types; and partitions and
            options that a table does not have because it was there before.
    """

    batches: int = 0
    tables: tuple[SyncedTable, ...] = field(default=())
    rejected: int = 0
    unmatched: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    idle: tuple[str, ...] = ()

    def __getitem__(self, table: str) -> SyncedTable:
        """What was done to a table, by its name, with the database or without. Raises KeyError."""
        for one in self.tables:
            if table in (one.table, one.table.partition(".")[2]):
                return one
        raise KeyError(table)

    __iter__ = None  # otherwise Python would ask for the tables 0, 1, ...

    def to_arrow(self) -> pa.Table:
        """One row per table."""
        names = [one.name for one in fields(SyncedTable)]
        columns = {name: pa.array([getattr(one, name) for one in self.tables], _KINDS[name]) for name in names}
        return pa.table(columns)


def together(report: SyncReport, later: SyncReport) -> SyncReport:
    """What the batches of two reports have done."""
    known = {one.table: one for one in report.tables}
    for one in later.tables:
        known[one.table] = of_table(known[one.table], one) if one.table in known else one
    tables = tuple(known[name] for name in sorted(known))
    unmatched = later.unmatched if later.batches else report.unmatched
    left_out = tuple(sorted({*report.left_out, *later.left_out}))
    idle = report.idle or later.idle
    if report.batches and later.batches:  # a pattern may match in one batch; partitions and options are those of a table
        given = dict.fromkeys((*report.idle, *later.idle))
        idle = tuple(one for one in given if one.startswith(OF_TABLES) or (one in report.idle and one in later.idle))
    return SyncReport(report.batches + later.batches, tables, report.rejected + later.rejected, unmatched, left_out, idle)
