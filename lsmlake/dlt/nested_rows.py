"""Merges of tables with nested tables: finds the nested rows that the new rows of their root rows replace.

A root row that is merged takes its nested rows with it: those that the load does not hold any more are deleted, and all of them
if the root row is deleted. The ids of root rows can differ between loads, so the ids of the stored rows of the same keys count,
too. So nested tables are written before their root: a load that was interrupted finds the old ids again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import pyarrow as pa

from lsmlake.api.table import Table
from lsmlake.dialect.connection import PatientConnection, connected, memory_limit, registered, translated_errors
from lsmlake.dialect.sql_types import quoted
from lsmlake.dlt.job_files import batches_of
from lsmlake.errors import InvalidData, InvalidSchema

_WHAT = "a merge of nested tables"


@dataclass(frozen=True)
class Staged:
    """The files of a load for one table. `row_key`: the column with the ids of its rows."""

    table: Table
    paths: Sequence[str]
    row_key: str

    def columns(self, *names: str) -> pa.Schema:
        """Columns of the table."""
        return pa.schema([self.table.schema.field(name) for name in dict.fromkeys(names)])


@dataclass(frozen=True)
class StaleRows:
    """`connection`: has the table `roots` with the ids of all root rows that the load writes; `deleted`: it deletes the row."""

    connection: PatientConnection

    def of(self, nested: Staged, root_key: str) -> Iterator[pa.RecordBatch]:
        """Yields the ids of the stored or new rows of a nested table that are to be deleted, as a column with the name of its row
        key. `root_key`: the column with the ids of root rows.

        Raises InvalidData if stored rows lack the ids of their root rows."""
        ids = f"SELECT {quoted(nested.row_key)} AS id, {quoted(root_key)} AS root FROM batches"
        wanted = nested.columns(nested.row_key, root_key)
        self.fill("fresh", ids, wanted, batches_of(nested.paths, wanted))
        stored = nested.table.scan(columns=[nested.row_key, root_key])
        of_roots = f"{ids} WHERE root IS NULL OR root IN (SELECT id FROM roots)"
        self.fill("stored", of_roots, stored.schema, stored.to_batches())
        [(unknown,)] = self.connection.execute("SELECT count(*) FROM stored WHERE root IS NULL").fetchall()
        if unknown:
            raise InvalidData(
                "stored rows of a nested table lack the ids of their root rows, so a merge cannot replace them",
                where=nested.table.name,
                found=f"{unknown:,} rows without {root_key}",
                cure="load the table anew: refresh='drop_resources', or write_disposition='replace' with root_key=True",
            )
        found = self.connection.sql(
            "SELECT id FROM stored WHERE id NOT IN (SELECT id FROM fresh) "
            "UNION ALL SELECT id FROM fresh WHERE root IN (SELECT id FROM roots WHERE deleted)"
        )
        for batch in found.to_arrow_reader(1 << 16):
            yield pa.RecordBatch.from_arrays([batch.column(0).cast(pa.string())], [nested.row_key])

    def fill(self, name: str, query: str, schema: pa.Schema, batches: Iterator[pa.RecordBatch]) -> None:
        """Makes a table from a query on `batches`."""
        with registered(self.connection, "batches", schema, batches):
            self.connection.execute(f"CREATE OR REPLACE TEMP TABLE {name} AS {query}")


@contextmanager
def stale_rows(root: Staged, hard_delete: str | None, memory_bytes: int) -> Iterator[StaleRows]:
    """A context in which the root rows of a load are known, with the ids that the stored rows of their keys have.

    Args:
        root: the root table and its files.
        hard_delete: the column that marks deletes.
        memory_bytes: what DuckDB may use; it spills to disk beyond.

    Raises:
        InvalidData: the load has two rows of a key: which of them the nested rows belong to is not known.
    """
    key = root.table.primary_key
    if root.row_key not in root.table.schema.names:
        cure = "leave add_dlt_id on, or do not nest: max_table_nesting=0"
        raise InvalidSchema("a table with nested tables has no row key", where=root.table.name, found=None, cure=cure)
    with connected("UTC", _WHAT) as connection:
        connection.execute(f"SET memory_limit = '{memory_limit(memory_bytes)}'")
        wanted = root.columns(*key, root.row_key, *([] if hard_delete is None else [hard_delete]))
        names = ", ".join(f"{quoted(name)} AS k{number}" for number, name in enumerate(key))
        rows = StaleRows(connection)
        deleted = "false" if hard_delete is None else deletes_in_sql(hard_delete, wanted)
        with translated_errors():
            query = f"SELECT {names}, {quoted(root.row_key)} AS id, {deleted} AS deleted FROM batches"
            rows.fill("staged", query, wanted, batches_of(root.paths, wanted))
            _check_keys(connection, root.table, len(key))
            stored = root.table.scan(columns=list(dict.fromkeys([*key, root.row_key])))
            equal = " AND ".join(f"batches.{quoted(name)} = staged.k{number}" for number, name in enumerate(key))
            old = f"SELECT batches.{quoted(root.row_key)} AS id, deleted FROM batches JOIN staged ON {equal}"
            rows.fill("olds", old, stored.schema, stored.to_batches())
            connection.execute(
                "CREATE OR REPLACE TEMP TABLE roots AS "
                "SELECT id, deleted FROM staged UNION SELECT id, deleted FROM olds WHERE id IS NOT NULL"
            )
            yield rows


def deletes_in_sql(column: str, columns: pa.Schema) -> str:
    """The condition that a row is a delete: its mark is true or, if it is no boolean, not null."""
    name = quoted(column)
    return f"coalesce({name}, false)" if pa.types.is_boolean(columns.field(column).type) else f"{name} IS NOT NULL"


def _check_keys(connection: PatientConnection, table: Table, width: int) -> None:
    names = ", ".join(f"k{number}" for number in range(width))
    repeated = connection.execute(f"SELECT {names} FROM staged GROUP BY {names} HAVING count(*) > 1 LIMIT 1").fetchall()
    if repeated:
        raise InvalidData(
            "a load has several rows of one key, and the table has nested tables",
            where=table.name,
            found=dict(zip(table.primary_key, repeated[0], strict=True)),
            cure="give each key once, or do not nest: max_table_nesting=0",
        )
