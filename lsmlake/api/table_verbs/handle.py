"""A handle to a table: its name, its schema, and its branches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TypeVar

import pyarrow as pa

from lsmlake.api.runtime import Runtime
from lsmlake.border import verbs_of
from lsmlake.errors import InvalidQuery, Wording
from lsmlake.format.paths import on_branch, split_branch
from lsmlake.notebook import html_pairs, html_rows, offered
from lsmlake.schema.kept_query import refuse_rows
from lsmlake.schema.schema import Schema
from lsmlake.tables.version import Metadata, Version
from lsmlake.types.type_text import format_type_of

Handled = TypeVar("Handled", bound="Handle")


def check_append_only(schema: Schema, name: str) -> None:
    """Raises InvalidQuery if the table has a primary key."""
    if not schema.append_only:
        raise InvalidQuery(
            "append is for tables without a primary key",
            where=name,
            expected="an append-only table",
            found=f"primary key {list(schema.primary_key)}",
            cure="use upsert: a row replaces the older row of its key",
        )


def check_keyed(schema: Schema, name: str, verb: str, cure: str | Wording) -> None:
    """Raises InvalidQuery if the table has no primary key, which `verb` needs."""
    if schema.append_only:
        raise InvalidQuery(
            f"{verb} needs a primary key",
            where=name,
            expected="a table with a primary key",
            found="an append-only table",
            cure=cure,
        )


@verbs_of("Table")
@dataclass(frozen=True)
class Handle:
    """A handle to a table: its name, its schema, and its branches."""

    name: str
    meta: Metadata
    runtime: Runtime

    def __repr__(self) -> str:
        return f"<lsmlake table {self.name} in {self.path}>"

    def __dir__(self) -> list[str]:
        return offered(super().__dir__())

    def _repr_html_(self) -> str:
        """The name, the columns and the options. Reads the schema, no data."""
        schema = self.version.schema
        kind = "append-only" if schema.append_only else f"primary key {', '.join(schema.primary_key)}"
        title = f"{self.name}: {kind}"
        if schema.partition_by:
            title += f"; partitioned by {', '.join(schema.partition_by)}"
        columns = [(field.name, format_type_of(field), "" if field.nullable else "NOT NULL") for field in schema.columns]
        return html_rows(title, ("column", "type", ""), columns) + html_pairs("options", schema.options.items())

    @property
    def version(self) -> Version:
        """The table at its newest snapshot. Each access reads it anew: a verb reads it once and passes it on."""
        return Version.latest(self.meta)

    @property
    def schema(self) -> pa.Schema:
        """The columns."""
        return self.version.schema.shown_columns

    @property
    def primary_key(self) -> tuple[str, ...]:
        """The primary key columns, in the order in which they were declared."""
        return self.version.schema.primary_key

    @property
    def partition_by(self) -> tuple[str, ...]:
        """The partition fields of new files, such as "dt" and "days(ts)", in order; empty for a table without partitions."""
        return self.version.schema.partition_by

    @property
    def options(self) -> Mapping[str, str]:
        """The options that the table sets; all others have their defaults."""
        return MappingProxyType(dict(self.version.schema.options))

    @property
    def comment(self) -> str | None:
        """The comment of the table, if it has one."""
        return self.version.schema.comment

    @property
    def path(self) -> str:
        """The folder of the table, relative to the warehouse."""
        return self.meta.paths.root

    def branch(self: Handled, name: str) -> Handled:
        """A branch as a table, for all verbs. `lake.table("sales.orders$branch_b1")` opens the same.

        Raises:
            TableNotFound: there is no branch of that name.
        """
        meta = self.meta.on(None)
        table, _ = split_branch(self.name)
        return replace(self, name=on_branch(table, name), meta=meta.on(meta.branches.place(name)))


def writable(table: Handle) -> Version:
    """The table at its newest snapshot, for a verb that writes rows. Raises InvalidQuery for a view table."""
    version = table.version
    if version.schema.view is not None:
        refuse_rows(version.schema.view, table.name)
    return version
