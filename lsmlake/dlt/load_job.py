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
from dlt.common.schema.utils import get_columns_names_with_prop, get_first_column_name_with_prop, get_root_table
from dlt.common.storages.load_package import ParsedLoadJobFileName
from dlt.destinations.job_impl import ReferenceFollowupJobRequest

from lsmlake.api.table import Table
from lsmlake.dialect.connection import registered
from lsmlake.dialect.sql_types import quoted
from lsmlake.dlt.append_merges import Versions, merge_by_key, merge_versions
from lsmlake.dlt.dlt_errors import as_load_errors
from lsmlake.dlt.dlt_records import identity_of
from lsmlake.dlt.job_files import batches_of, check_columns
from lsmlake.dlt.nested_rows import MergeRules, stale_rows, unknown_rows
from lsmlake.dlt.staged_rows import Staged, staging, without
from lsmlake.dlt.table_design import SCD2, precisions_of, required_of
from lsmlake.errors import InvalidData, InvalidSchema
from lsmlake.options.merge_options import DEDUPLICATE

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
            load_chain(loads[0], [load for load in loads[1:] if load.has_rows])


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
    def has_rows(self) -> bool:
        """Whether the load or the table can have rows."""
        return bool(self.paths) or self.table.version.snapshot is not None

    @property
    def memory_bytes(self) -> int:
        """What the table allows a writer."""
        return self.table.version.options.write.buffer_bytes

    @property
    def staged(self) -> Staged:
        """The files, and the column with the ids of their rows."""
        return Staged(self.table, self.paths, self.hinted("row_key"))

    @property
    def identified(self) -> Staged:
        """As `staged`. Raises InvalidSchema if the rows have no ids."""
        if self.hinted("row_key") is None:
            cure = "give the rows an id (add_dlt_id), or do not nest: max_table_nesting=0"
            raise InvalidSchema("a nested table or its root has no row key", where=self.table.name, cure=cure)
        return self.staged

    @property
    def rules(self) -> MergeRules:
        """How its rows are merged, as a root table."""
        sort = self.hinted("dedup_sort")
        return MergeRules(
            self.hinted("hard_delete"),
            tuple(get_columns_names_with_prop(self.hints, "merge_key")),
            None if sort is None else (sort, self.hints["columns"][sort]["dedup_sort"]),
            repeats=self.hints.get("x-merge-strategy") == "delete-insert",
        )

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows, with the columns of the table."""
        check_columns(self.paths, self.table.schema.names, self.table.name)
        return batches_of(self.paths, self.table.schema, required_of(self.hints), precisions_of(self.hints))


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
    with staging(load.memory_bytes) as connection, registered(connection, "batches", wanted, batches_of(load.paths, wanted)):
        query = f"SELECT {names} FROM batches GROUP BY {names} HAVING count(*) > 1 LIMIT 1"
        repeated = connection.execute(query).fetchall()
    if repeated:
        raise InvalidData(
            "several rows have the same primary key, and the table keeps one row of each",
            where=load.table.name,
            found=dict(zip(key, repeated[0], strict=True)),
            cure="give each key once, or load the table anew without primary_key: refresh='drop_resources'",
        )


def _merge(root: TableLoad, nested: Sequence[TableLoad]) -> None:
    """Merges the rows of a load by the strategy of its table."""
    strategy = root.hints["x-merge-strategy"]
    if strategy == "insert-only":
        _insert(root, nested)
    elif strategy == SCD2:
        _add_versions(root, nested)
    elif root.table.primary_key:
        _upsert(root, nested)
    else:
        _append(root, nested)


def _upsert(root: TableLoad, nested: Sequence[TableLoad]) -> None:
    """Upserts the root rows by key, and their nested rows with them; deletes stored rows with the merge keys of the load."""
    rules = root.rules
    if not (nested or rules.merge_key):
        _upsert_root(root, rules, root.batches(), iter(()))
        return
    staged = root.identified if nested else root.staged
    if nested:
        _check_replaces(root.table)
    with stale_rows(staged, rules, root.memory_bytes, nested=bool(nested)) as stale:
        for load in reversed(nested):
            if (root_key := load.hinted("root_key")) is None:
                cure = "set root_key=True on the source, then load the table anew: refresh='drop_resources'"
                raise InvalidSchema("a nested table has no root key", where=load.table.name, cure=cure)
            deletes = stale.of(load.identified, root_key)
            rows = chain(_kinds(load.batches(), None), _as_deletes(deletes, load.table.schema))
            load.table.upsert(rows, row_kind=_KIND, **load.identity)
        _upsert_root(root, rules, without(root.batches(), stale.losers()), stale.replaced())


def _check_replaces(table: Table) -> None:
    """Raises InvalidSchema if a new row does not always replace the stored row of its key, and so its nested rows."""
    merge = table.version.options.merge
    if merge.engine != DEDUPLICATE or merge.sequence_field:
        raise InvalidSchema(
            "a table with nested tables is merged by other rules than the last row of a key",
            where=table.name,
            found=f"merge-engine {merge.engine}, sequence.field {','.join(merge.sequence_field) or 'none'}",
            cure="do not nest: max_table_nesting=0, or load the table anew without these options: refresh='drop_resources'",
        )


def _upsert_root(
    root: TableLoad, rules: MergeRules, batches: Iterator[pa.RecordBatch], deletes: Iterator[pa.RecordBatch]
) -> None:
    """`deletes`: the keys of stored rows that go."""
    rows, order = chain(_kinds(batches, rules.hard_delete), _as_deletes(deletes, root.table.schema)), None
    if rules.sort is not None:
        rows, order = _ordered(rows, *rules.sort, root.table.name), _ORDER
    if root.paths:
        root.table.upsert(rows, row_kind=_KIND, order_by=order, **root.identity)


def _insert(root: TableLoad, nested: Sequence[TableLoad]) -> None:
    """Adds the rows of new keys, in nested tables those of new row keys."""
    hard_delete = root.hinted("hard_delete")
    if nested and hard_delete is not None:
        cure = "use the strategy 'delete-insert' or 'upsert', or do not nest: max_table_nesting=0"
        raise InvalidSchema("insert-only has no hard deletes of rows with nested rows", where=root.table.name, cure=cure)
    for load in (*reversed(nested), root):
        if load.paths:
            left_out = unknown_rows(load.staged, load.rules, load.memory_bytes, nested=bool(nested) and load is root)
            load.table.upsert(_kinds(without(load.batches(), left_out), None), row_kind=_KIND, **load.identity)


def _add_versions(root: TableLoad, nested: Sequence[TableLoad]) -> None:
    """Retires root rows that the load lacks, and adds its new rows, in nested tables those of new row keys."""
    versions = Versions.of(root.hints)
    if nested and root.hinted("row_key") is not None:
        cure = "leave out row_version_column_name, or do not nest: max_table_nesting=0"
        what = "scd2 by a row version of the user has no nested tables, as nested rows do not tell whether their root row is new"
        raise InvalidSchema(what, where=root.table.name, found=versions.row_version, cure=cure)
    for load in reversed(nested):
        known = unknown_rows(load.identified, MergeRules(), load.memory_bytes, nested=False)
        load.table.append(without(load.batches(), known), **load.identity)
    if root.paths:
        merge_versions(root.staged, versions, root.batches(), root.memory_bytes, root.identity)


def _append(root: TableLoad, nested: Sequence[TableLoad]) -> None:
    """Adds the rows of a table without keys, except those that are marked as deleted. With a merge key, rows that have no ids
    replace all stored rows with their values of it."""
    hard_delete, merge_key = root.hinted("hard_delete"), root.rules.merge_key
    if merge_key and root.paths:
        rows = _unmarked(root.batches(), hard_delete)
        merge_by_key(root.staged, merge_key, rows, root.memory_bytes, root.identity)
        return
    if nested and hard_delete is not None:
        cure = "give a primary_key, or do not nest: max_table_nesting=0"
        raise InvalidSchema("a merge without keys has no hard deletes of nested rows", where=root.table.name, cure=cure)
    for load in (*reversed(nested), root):
        if load.paths:
            load.table.append(_unmarked(load.batches(), hard_delete), **load.identity)


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


def _unmarked(batches: Iterator[pa.RecordBatch], hard_delete: str | None) -> Iterator[pa.RecordBatch]:
    """Leaves out rows that are marked as deleted."""
    for batch in _kinds(batches, hard_delete):
        yield batch.filter(pc.equal(batch.column(_KIND), _INSERT)).drop_columns([_KIND])


def _as_deletes(keys: Iterator[pa.RecordBatch], columns: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Deletes of the rows with these keys: all other columns are null."""
    for batch in keys:
        names = set(batch.schema.names)
        arrays = [batch.column(one.name) if one.name in names else pa.nulls(batch.num_rows, one.type) for one in columns]
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
