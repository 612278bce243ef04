"""Merges into append-only tables, each one MERGE and one commit: the strategy `scd2`, and merge keys of rows without ids.

The source of the MERGE has the rows to insert, and a row for each value whose stored rows are retired or deleted. Under scd2 the
row version, a hash of the row, identifies a row: a stored row is active until a load lacks its version. Active rows of the load
stay as they are, the other rows of the load are inserted, and the other active rows are retired: `valid_to` becomes the start of
the load. With a merge key only rows with a merge key of the load are retired.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from dlt.common.schema.utils import get_active_record_timestamp, get_columns_names_with_prop, get_validity_column_names
from dlt.common.storages.load_package import load_package_state
from dlt.common.time import ensure_datetime_in_tz

from lsmlake.api.merging import Merging
from lsmlake.api.table import Table
from lsmlake.api.table_verbs.handle import writable
from lsmlake.commit.request import Identity
from lsmlake.dialect.connection import PatientConnection
from lsmlake.dlt.staged_rows import BATCH_ROWS, POSITION, Staged, fill, named, positions, staging, without
from lsmlake.statements.clause import DELETE, INSERT, MATCHED, NOT_MATCHED, UPDATE, Clause
from lsmlake.statements.statement import given
from lsmlake.storage.env import moment_of
from lsmlake.types.type_text import backticked

_ACT, _ACTIVE = "_dlt_lsmlake_act", "_dlt_lsmlake_active"
_END, _INSERT = "end", "insert"
_MOMENT = pa.timestamp("us", "UTC")


@dataclass(frozen=True)
class Versions:
    """The columns of scd2, and its times.

    Attributes:
        row_version: the column with the hash of a row.
        valid_from, valid_to: the columns with the times from which and until which a row was active.
        active: `valid_to` of active rows; None: null.
        boundary: the time of the load.
        merge_key: only rows with a merge key of the load are retired; empty: all that the load lacks.
    """

    row_version: str
    valid_from: str
    valid_to: str
    active: datetime.datetime | None
    boundary: datetime.datetime
    merge_key: tuple[str, ...]

    @staticmethod
    def of(hints: Mapping[str, Any]) -> Versions:
        """Those of the prepared table of dlt in a load."""
        [version] = get_columns_names_with_prop(hints, "x-row-version")
        start = hints.get("x-boundary-timestamp") or load_package_state()["state"]["created_at"]
        return Versions(
            version,
            *get_validity_column_names(hints),
            get_active_record_timestamp(hints),
            ensure_datetime_in_tz(start, datetime.timezone.utc),
            tuple(get_columns_names_with_prop(hints, "merge_key")),
        )

    @property
    def are_active(self) -> pc.Expression:
        """The condition for the active rows."""
        column = pc.field(self.valid_to)
        return column.is_null() if self.active is None else column == pa.scalar(self.active, _MOMENT)

    def started(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Rows of the load as active rows."""
        return _with(_with(batch, self.valid_from, self.boundary), self.valid_to, self.active)


def merge_versions(
    staged: Staged, versions: Versions, rows: Iterable[pa.RecordBatch], memory_bytes: int, identity: Mapping[str, Any]
) -> None:
    """Retires the active rows that the load lacks, and inserts its rows that are not active. `rows`: those of the load."""
    table, version, until = staged.table, versions.row_version, backticked(versions.valid_to)
    columns = [version, *versions.merge_key]
    found = f"SELECT {named('batches', 'c', columns)}"
    with staging(memory_bytes) as connection:
        staged.stage(connection, "staged", f"{found}, {POSITION} AS pos FROM batches", *columns)
        stored = table.scan(columns=list(dict.fromkeys(columns)), where=versions.are_active)
        fill(connection, "active", f"{found} FROM batches", stored.schema, stored.to_batches())
        known = positions(connection, "(SELECT pos FROM staged SEMI JOIN active USING (c0))")
        if [(len(known),)] == connection.execute("SELECT count(*) FROM staged").fetchall():
            rows = ()  # reads no other columns of a load without new rows
        retired = "SELECT DISTINCT c0 FROM active ANTI JOIN staged USING (c0)"
        if versions.merge_key:
            keys = ", ".join(f"c{number}" for number in range(1, len(columns)))
            retired = f"SELECT DISTINCT c0 FROM (FROM active SEMI JOIN staged USING ({keys})) ANTI JOIN staged USING (c0)"
        ends = (_with(batch, versions.valid_to, versions.boundary) for batch in _found(connection, retired, table, [version]))
        source = chain(_acting(ends, _END), _acting(map(versions.started, without(rows, known)), _INSERT))
        active = pa.scalar(versions.active, _MOMENT)
        _merge(
            table,
            (batch.append_column(_ACTIVE, pa.repeat(active, batch.num_rows)) for batch in source),
            f"{_same([version])} AND t.{until} " + ("IS NULL" if versions.active is None else f"= s.{_ACTIVE}"),
            Clause(MATCHED, UPDATE, {(versions.valid_to,): f"s.{until}"}, f"s.{_ACT} = '{_END}'"),
            identity,
        )


def merge_by_key(
    staged: Staged, merge_key: Sequence[str], rows: Iterable[pa.RecordBatch], memory_bytes: int, identity: Mapping[str, Any]
) -> None:
    """Replaces all stored rows with a merge key of the load. `rows`: those to insert."""
    with staging(memory_bytes) as connection:
        staged.stage(connection, "staged", f"SELECT DISTINCT {named('batches', 'c', merge_key)} FROM batches", *merge_key)
        ends = _found(connection, "FROM staged", staged.table, merge_key)
        source = chain(_acting(ends, _END), _acting(rows, _INSERT))
        _merge(staged.table, source, f"{_same(merge_key)} AND s.{_ACT} = '{_END}'", Clause(MATCHED, DELETE), identity)


def _merge(table: Table, source: Iterator[pa.RecordBatch], on: str, matched: Clause[str], identity: Mapping[str, Any]) -> None:
    """A MERGE that is committed once for an identity."""
    values = {(name,): f"s.{backticked(name)}" for name in table.schema.names}
    clauses = matched, Clause(NOT_MATCHED, INSERT, values, f"s.{_ACT} = '{_INSERT}'")
    with given(clauses, on, moment_of(table.meta.env), None, ("t",), ("s",)) as statement:
        merging = Merging(statement, table.runtime, table.name, identity=Identity(**identity))
        merging.read(writable(table), source)()


def _found(connection: PatientConnection, query: str, table: Table, names: Iterable[str]) -> Iterator[pa.RecordBatch]:
    """Yields the rows of a query as rows of the table, at least one batch: its columns are `names`, the others are null."""
    columns = pa.schema([field.with_nullable(True) for field in table.schema])
    yield pa.RecordBatch.from_pylist([], columns)
    for batch in connection.sql(query).to_arrow_reader(BATCH_ROWS):
        found = dict(zip(names, batch.columns, strict=True))
        arrays = [found[one.name].cast(one.type) if one.name in found else pa.nulls(batch.num_rows, one.type) for one in columns]
        yield pa.RecordBatch.from_arrays(arrays, schema=columns)


def _acting(batches: Iterable[pa.RecordBatch], act: str) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield batch.append_column(_ACT, pa.repeat(pa.scalar(act), batch.num_rows))


def _with(batch: pa.RecordBatch, name: str, value: datetime.datetime | None) -> pa.RecordBatch:
    """The rows with one value in a column."""
    field = batch.schema.field(name)
    return batch.set_column(batch.schema.get_field_index(name), field, pa.repeat(pa.scalar(value, field.type), batch.num_rows))


def _same(names: Iterable[str]) -> str:
    return " AND ".join(f"t.{backticked(name)} = s.{backticked(name)}" for name in names)
