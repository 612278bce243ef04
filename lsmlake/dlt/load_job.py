"""The job that writes the files of a load package to one table and its nested tables: one commit for each table.

The writer of the commits is the job in its load, so a job that is tried again, or that dlt resumes after its process was killed,
repeats none of them. Nested tables are written first (see `nested_rows`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from dlt.common.destination.client import RunnableLoadJob
from dlt.common.schema.utils import get_first_column_name_with_prop, get_root_table
from dlt.common.storages.load_package import ParsedLoadJobFileName
from dlt.destinations.job_impl import ReferenceFollowupJobRequest

from lsmlake.api.table import Table
from lsmlake.dialect.connection import connected, memory_limit, registered, translated_errors
from lsmlake.dialect.sql_types import quoted
from lsmlake.dlt.dlt_errors import as_load_errors
from lsmlake.dlt.dlt_records import identity_of
from lsmlake.dlt.job_files import batches_of, check_columns
from lsmlake.dlt.nested_rows import Staged, stale_rows
from lsmlake.dlt.table_design import required_of
from lsmlake.errors import InvalidData, InvalidSchema

_KIND, _ORDER = "_dlt_lsmlake_kind", "_dlt_lsmlake_order"
_INSERT, _DELETE = "+I", "-D"


class LoadChain(RunnableLoadJob):
    """Writes a root table and its nested tables. The file of the job lists the files of the load."""

    def run(self) -> None:
        """Writes nested tables first, the root last."""
        paths: dict[str, list[str]] = {}
        for path in ReferenceFollowupJobRequest.resolve_references(self._file_path):
            name = ParsedLoadJobFileName.parse(path.replace("\\", "/").rpartition("/")[2]).table_name
            paths.setdefault(name, []).append(path)
        client = self._job_client
        with as_load_errors():
            identity = identity_of(self._load_id, self._parsed_file_name.file_id)
            root = get_root_table(self._schema.tables, self.load_table_name)["name"]
            loads = [
                TableLoad(client.records.table(hints["name"]), hints, tuple(paths.get(hints["name"], ())), identity)
                for hints in client.stored_chain(root)
            ]
            load_chain(loads[0], loads[1:])


@dataclass(frozen=True)
class TableLoad:
    """The files of a load for one table. `hints`: the prepared table of dlt. `identity`: what makes its commit unique."""

    table: Table
    hints: Mapping[str, Any]
    paths: Sequence[str]
    identity: Mapping[str, Any]

    def hinted(self, hint: str) -> str | None:
        """The column with a hint."""
        return get_first_column_name_with_prop(self.hints, hint)

    @property
    def memory_bytes(self) -> int:
        """What the table allows a writer."""
        return self.table.version.options.write.buffer_bytes

    @property
    def staged(self) -> Staged:
        """The files and the ids of their rows. Raises InvalidSchema if the rows have none."""
        if (row_key := self.hinted("row_key")) is None:
            cure = "give the rows an id (add_dlt_id), or do not nest: max_table_nesting=0"
            raise InvalidSchema("a nested table or its root has no row key", where=self.table.name, cure=cure)
        return Staged(self.table, self.paths, row_key)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows, with the columns of the table."""
        check_columns(self.paths, self.table.schema.names, self.table.name)
        return batches_of(self.paths, self.table.schema, required_of(self.hints))


def load_chain(root: TableLoad, nested: Sequence[TableLoad]) -> None:
    """Writes a root table and its nested tables."""
    disposition = root.hints["write_disposition"]
    if disposition == "merge":
        _merge(root, nested)
        return
    for load in (*reversed(nested), root):
        if disposition == "replace":
            _replace(load)
        elif load.paths:
            load.table.append(load.batches(), **load.identity)


def _replace(load: TableLoad) -> None:
    """Replaces all rows, in one commit. Raises InvalidData for two rows of a key, one of which would get lost."""
    if load.table.primary_key and load.paths:
        _check_unique(load)
    load.table.overwrite(load.batches(), truncate=True, **load.identity)


def _check_unique(load: TableLoad) -> None:
    key = load.table.primary_key
    wanted = pa.schema([load.table.schema.field(name) for name in key])
    names = ", ".join(map(quoted, key))
    with connected("UTC", "a replace by key") as connection, translated_errors():
        connection.execute(f"SET memory_limit = '{memory_limit(load.memory_bytes)}'")
        with registered(connection, "batches", wanted, batches_of(load.paths, wanted)):
            query = f"SELECT {names} FROM batches GROUP BY {names} HAVING count(*) > 1 LIMIT 1"
            repeated = connection.execute(query).fetchall()
    if repeated:
        raise InvalidData(
            "several rows have the same primary key, and the table keeps one row of each",
            where=load.table.name,
            found=dict(zip(key, repeated[0], strict=True)),
            cure="give each key once, or leave out primary_key",
        )


def _merge(root: TableLoad, nested: Sequence[TableLoad]) -> None:
    """Upserts the root rows by key, and their nested rows with them."""
    hard_delete = root.hinted("hard_delete")
    if nested:
        with stale_rows(root.staged, hard_delete, root.memory_bytes) as stale:
            for load in reversed(nested):
                if (root_key := load.hinted("root_key")) is None:
                    cure = "set root_key=True on the source, then load the table anew: refresh='drop_resources'"
                    raise InvalidSchema("a nested table has no root key", where=load.table.name, cure=cure)
                deletes = stale.of(load.staged, root_key)
                rows = chain(_kinds(load.batches(), None), _as_deletes(deletes, load.table.schema))
                load.table.upsert(rows, row_kind=_KIND, **load.identity)
    rows, order = _kinds(root.batches(), hard_delete), None
    if (sort := root.hinted("dedup_sort")) is not None:
        rows, order = _ordered(rows, sort, root.hints["columns"][sort]["dedup_sort"], root.table.name), _ORDER
    if root.paths:
        root.table.upsert(rows, row_kind=_KIND, order_by=order, **root.identity)


# -- batches ----------------------------------------------------------------------------------------------------------


def _kinds(batches: Iterator[pa.RecordBatch], hard_delete: str | None) -> Iterator[pa.RecordBatch]:
    """Adds the row kinds: a row is a delete if its mark is true or, if it is no boolean, not null."""
    for batch in batches:
        kinds = pa.repeat(pa.scalar(_INSERT), batch.num_rows)
        if hard_delete is not None:
            mark = batch.column(hard_delete)
            deleted = pc.fill_null(mark, False) if pa.types.is_boolean(mark.type) else mark.is_valid()
            kinds = pc.if_else(deleted, _DELETE, _INSERT)
        yield batch.append_column(_KIND, kinds)


def _as_deletes(ids: Iterator[pa.RecordBatch], columns: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Deletes of the rows with these ids: all other columns are null."""
    for batch in ids:
        (name,) = batch.schema.names
        arrays = [batch.column(0) if one.name == name else pa.nulls(batch.num_rows, one.type) for one in columns]
        rows = pa.RecordBatch.from_arrays(arrays, schema=pa.schema([field.with_nullable(True) for field in columns]))
        yield rows.append_column(_KIND, pa.repeat(pa.scalar(_DELETE), batch.num_rows))


def _ordered(batches: Iterator[pa.RecordBatch], column: str, direction: str, table: str) -> Iterator[pa.RecordBatch]:
    """Adds the column that orders the rows of a key: the greatest value of `column` stays, or the least under "asc"."""
    for batch in batches:
        values = batch.column(column)
        if direction == "asc":
            values = _negated(values, column, table)
        yield batch.append_column(_ORDER, values)


def _negated(values: pa.Array, column: str, table: str) -> pa.Array:
    kind = values.type
    if pa.types.is_boolean(kind):
        return pc.negate(values.cast(pa.int64()))
    if pa.types.is_date(kind):
        return pc.negate(values.cast(pa.int32()))
    if pa.types.is_timestamp(kind) or pa.types.is_time(kind):
        return pc.negate(values.cast(pa.int64()))
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return pc.negate(values)
    cure = "sort by a number, a time or a date, or by 'desc'"
    raise InvalidSchema(
        "dedup_sort='asc' needs values that can be negated", where=f"{table}, column {column}", found=kind, cure=cure
    )
