"""The rows of a load in tables of DuckDB, for merges that must know them before they write."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lsmlake.api.table import Table
from lsmlake.dialect.connection import PatientConnection, connected, memory_limit, registered, translated_errors
from lsmlake.dialect.sql_types import quoted
from lsmlake.dlt.job_files import batches_of
from lsmlake.write.prepare import delete_columns
from lsmlake.write.write_request import WriteRequest

POSITION = "_dlt_lsmlake_position"
BATCH_ROWS = 1 << 16


@dataclass(frozen=True)
class Staged:
    """The files of a load for one table. `row_key`: the column with the ids of its rows, if it has one."""

    table: Table
    paths: Sequence[str]
    row_key: str | None

    @property
    def key(self) -> tuple[str, ...]:
        """What identifies a row: the primary key; in an append-only table the row key."""
        return tuple(self.table.primary_key) or (() if self.row_key is None else (self.row_key,))

    @property
    def delete_columns(self) -> tuple[str, ...]:
        """The columns that a delete of a stored row needs: the key, and those of `sequence.field`."""
        return delete_columns(self.table.version.schema, WriteRequest(deletes=True))

    def columns(self, *names: str) -> pa.Schema:
        """Columns of the table."""
        return pa.schema([self.table.schema.field(name) for name in dict.fromkeys(names)])

    def stage(self, connection: PatientConnection, name: str, query: str, *names: str) -> None:
        """Makes a table from a query on `batches`, the rows of the load with some of their columns and `POSITION`, their place in
        the load."""
        wanted = self.columns(*names)
        fill(connection, name, query, wanted.append(pa.field(POSITION, pa.int64())), _placed(batches_of(self.paths, wanted)))


@contextmanager
def staging(memory_bytes: int) -> Iterator[PatientConnection]:
    """A connection to DuckDB. `memory_bytes`: what it may use; it spills to disk beyond."""
    with connected("UTC", "a load of dlt") as connection, translated_errors():
        connection.execute(f"SET memory_limit = '{memory_limit(memory_bytes)}'")
        yield connection


def fill(connection: PatientConnection, name: str, query: str, schema: pa.Schema, batches: Iterator[pa.RecordBatch]) -> None:
    """Makes a table from a query on `batches`."""
    with registered(connection, "batches", schema, batches):
        connection.execute(f"CREATE OR REPLACE TEMP TABLE {name} AS {query}")


def positions(connection: PatientConnection, source: str) -> pa.Array:
    """The column `pos` of a table or query."""
    return connection.sql(f"SELECT pos FROM {source}").to_arrow_table().column(0).combine_chunks()


def without(batches: Iterable[pa.RecordBatch], gone: pa.Array) -> Iterator[pa.RecordBatch]:
    """Leaves out the rows at positions of the load."""
    start = 0
    for batch in batches:
        places = pa.array(np.arange(start, start + batch.num_rows, dtype=np.int64))
        start += batch.num_rows
        yield batch.filter(pc.invert(pc.is_in(places, value_set=gone))) if len(gone) else batch


def named(source: str, short: str, names: Sequence[str]) -> str:
    """The columns of a source under short names: k0, k1."""
    return ", ".join(f"{source}.{quoted(name)} AS {short}{number}" for number, name in enumerate(names))


def short_names(short: str, count: int) -> str:
    """The short names of columns."""
    return ", ".join(f"{short}{number}" for number in range(count))


def _placed(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    start = 0
    for batch in batches:
        yield batch.append_column(POSITION, pa.array(np.arange(start, start + batch.num_rows, dtype=np.int64)))
        start += batch.num_rows
