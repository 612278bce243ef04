"""What a table of dlt's schema is as a table of a warehouse: its columns, its key, its partitions, its options; and the
alterations that bring an existing table there.

A table has a primary key if rows of it can be merged: the primary key of a table that is merged or replaced, its row key if it
has only a merge key, and the row key of its nested tables. Every other table is append-only.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from dlt.common.destination.capabilities import DestinationCapabilitiesContext
from dlt.common.schema.utils import get_columns_names_with_prop, get_root_table, is_nested_table

from lsmlake.api.alterations import add_column, change_type, drop_not_null, set_comment, set_option
from lsmlake.api.table import Table
from lsmlake.dlt.dlt_types import arrow_type
from lsmlake.errors import InvalidSchema
from lsmlake.schema.alterations.draft import Alteration
from lsmlake.schema.alterations.of_table import SetTableComment
from lsmlake.types.column_types import COMMENT

OPTIONS_HINT = "x-lsmlake-options"
"""The hint of a table of dlt with options of `create_table`: see `lsmlake.dlt.adapter`."""
SCD2 = "scd2"
_REFUSED = "sort", "cluster"
_REFUSED_OF_VERSIONS = "primary_key", "hard_delete", "dedup_sort"
_REFUSED_OF_NESTED = "hard_delete", "dedup_sort"
_DEDUPLICATED = "x-stage-data-deduplicated"


@dataclass(frozen=True)
class Design:
    """`columns`: only those of the key are NOT NULL. `unpartitioned`: those whose hint `partition` is False."""

    name: str
    columns: pa.Schema
    key: tuple[str, ...]
    partition_by: tuple[str, ...]
    unpartitioned: tuple[str, ...]
    options: Mapping[str, object]
    comment: str | None

    @staticmethod
    def of(
        table: Mapping[str, Any], tables: Mapping[str, Mapping[str, Any]], capabilities: DestinationCapabilitiesContext
    ) -> Design:
        """The design of a prepared table of dlt; `tables`: of the same schema. Raises InvalidSchema for a hint that nothing
        obeys."""
        check_hints(table)
        key, columns = key_of(table, tables), table["columns"]
        fields = [
            pa.field(name, arrow_type(column, capabilities), nullable=name not in key, metadata=_comment(column))
            for name, column in columns.items()
        ]
        partition_by = tuple(get_columns_names_with_prop(table, "partition"))
        unpartitioned = tuple(name for name, column in columns.items() if column.get("partition") is False)
        options = table.get(OPTIONS_HINT) or {}
        return Design(table["name"], pa.schema(fields), key, partition_by, unpartitioned, options, table.get("description"))

    def check_partitions(self, stored: Table) -> None:
        """Raises InvalidSchema if the stored table was partitioned otherwise."""
        have = tuple(stored.partition_by)
        if (self.partition_by and self.partition_by != have) or not set(have).isdisjoint(self.unpartitioned):
            raise InvalidSchema(
                "the table is partitioned by other columns",
                where=self.name,
                expected=list(self.partition_by),
                found=list(have),
                cure="correct the partition hints, or load the table anew: refresh='drop_resources'",
            )

    def alterations(self, stored: Table) -> Iterator[Alteration]:
        """What the stored table lacks."""
        have = {field.name.lower(): field for field in stored.schema}
        for field in self.columns:
            old = have.get(field.name.lower())
            if old is None:
                yield add_column(field.name, field.type, comment=_described(field))
            elif old.type != field.type:
                yield change_type(old.name, field.type)
            elif not old.nullable and field.nullable and old.name not in stored.primary_key:
                yield drop_not_null(old.name)
        yield from self.settings(stored)

    def settings(self, stored: Table) -> Iterator[Alteration]:
        """The options and the descriptions in which the stored table differs. One that is not given stays as it is."""
        have = {field.name.lower(): field for field in stored.version.schema.columns}
        for field in self.columns:
            old, text = have.get(field.name.lower()), _described(field)
            if old is not None and text is not None and text != _described(old):
                yield set_comment([old.name], text)
        if self.comment and self.comment != stored.comment:
            yield SetTableComment(self.comment)
        for name, value in self.options.items():
            if str(value).lower() != str(stored.options.get(name)).lower():
                yield set_option(name, value)


def _comment(column: Mapping[str, Any]) -> dict[str, str] | None:
    return {"comment": column["description"]} if column.get("description") else None


def _described(field: pa.Field) -> str | None:
    text = (field.metadata or {}).get(COMMENT)
    return None if text is None else text.decode()


def key_of(table: Mapping[str, Any], tables: Mapping[str, Mapping[str, Any]]) -> tuple[str, ...]:
    """The primary key of a table; empty: the table is append-only."""
    root = table if not is_nested_table(table) else get_root_table(tables, table["name"])
    keyed = tuple(get_columns_names_with_prop(root, "primary_key"))
    if root.get("x-merge-strategy") == SCD2:
        return ()
    if not keyed and get_columns_names_with_prop(root, "merge_key"):
        keyed = tuple(get_columns_names_with_prop(root, "row_key"))
    if table["write_disposition"] not in ("merge", "replace") or not keyed:
        return ()
    return tuple(get_columns_names_with_prop(table, "row_key")) if is_nested_table(table) else keyed


def required_of(table: Mapping[str, Any]) -> tuple[str, ...]:
    """The columns in which dlt allows no null."""
    return tuple(name for name, column in table["columns"].items() if column.get("nullable") is False)


def precisions_of(table: Mapping[str, Any]) -> dict[str, int]:
    """The precisions that the types of columns do not have, and loads check: of texts, binaries and integers."""
    kinds = "text", "binary", "bigint"
    found = {name: column.get("precision") for name, column in table["columns"].items() if column.get("data_type") in kinds}
    return {name: precision for name, precision in found.items() if precision is not None}


def check_hints(table: Mapping[str, Any]) -> None:
    """Raises InvalidSchema for a hint that nothing obeys."""
    disposition, nested = table["write_disposition"], is_nested_table(table)
    merged = disposition == "merge"
    strategy = table.get("x-merge-strategy")
    refused = _REFUSED
    if strategy == SCD2:
        refused = (*refused, *_REFUSED_OF_VERSIONS)
    elif nested:
        refused = (*refused, *_REFUSED_OF_NESTED)
    if disposition == "append" or (merged and (nested or strategy not in ("delete-insert", SCD2))):
        refused = (*refused, "merge_key")
    found = [f"{hint} of {name}" for hint in refused for name in get_columns_names_with_prop(table, hint)]
    unique = get_columns_names_with_prop(table, "unique")
    keys = {*get_columns_names_with_prop(table, "row_key"), *get_columns_names_with_prop(table, "primary_key")}
    found += [f"unique of {name}" for name in unique if name not in keys]
    if table.get("table_format"):
        found.append(f"table_format {table['table_format']}")
    if merged and table.get(_DEDUPLICATED):
        found.append("deduplicated of the merge")
    if found:
        raise InvalidSchema(
            "hints that the destination lsmlake does not obey",
            where=table["name"],
            found=found,
            cure="leave them out, or end those of an earlier load by False; lsmlake.dlt.adapter gives options of a table",
        )


def check_kind(stored: Table, table: Mapping[str, Any], key: Sequence[str]) -> None:
    """Raises InvalidSchema if a stored table cannot be written as the prepared table of dlt says."""
    have, disposition = tuple(stored.primary_key), table["write_disposition"]
    is_keyed = disposition == "merge" or (disposition == "replace" and get_columns_names_with_prop(table, "primary_key"))
    if disposition == "append" and have:
        raise InvalidSchema(
            "rows cannot be appended to a table with a primary key, as rows of a key replace each other",
            where=stored.name,
            found=f"the primary key {list(have)}",
            cure="use write_disposition='merge', or load the table anew: refresh='drop_resources'",
        )
    if is_keyed and set(have) != set(key):
        raise InvalidSchema(
            f"a {disposition} needs a table with the primary key of the resource",
            where=stored.name,
            expected=list(key),
            found=f"the primary key {list(have)}" if have else "an append-only table",
            cure="load the table anew: refresh='drop_resources'",
        )
