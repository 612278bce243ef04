"""The tables that a statement names: each read at one snapshot, however often the statement names it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, partial

import pyarrow as pa
from sqlglot import exp

from lsmlake.api.lake import Lake
from lsmlake.api.public_types import SparkDataFrame
from lsmlake.api.readable import Readable
from lsmlake.api.runtime import Runtime
from lsmlake.api.table import Table
from lsmlake.dialect.scope import declared
from lsmlake.dialect.sql_text import Text, peek
from lsmlake.dialect.sql_types import DATE, TIMESTAMP, TIMESTAMP_NTZ, of_column
from lsmlake.dialect.table_use import StoredRows, ViewUse, ViewUseColumn
from lsmlake.errors import InvalidData, InvalidQuery, LakeError, TableNotFound
from lsmlake.format.view import View
from lsmlake.inputs.data import as_input, typed
from lsmlake.read.digits import most_digits
from lsmlake.read.fallback import version_to_read, with_fallback
from lsmlake.read.travel import Moment
from lsmlake.schema.conform import Cast
from lsmlake.schema.kept_query import refuse_rows
from lsmlake.sql import information_schema, sys_tables
from lsmlake.sql.file_relations import is_file, opened
from lsmlake.sql.token_reader import cure_of, name_of
from lsmlake.sql.view_statements import columns_of
from lsmlake.tables.version import Version
from lsmlake.tables.views import Views
from lsmlake.types import column_types
from lsmlake.types.ddl import type_of
from lsmlake.types.intervals import result_field

_VERSION = re.compile(r"[vV]\d+", re.ASCII)


@dataclass(frozen=True)
class GivenFrame:
    """A DataFrame that the caller gives a name. Its rows stay in Spark."""

    frame: SparkDataFrame
    runtime: Runtime

    @property
    def schema(self) -> pa.Schema:
        return self.runtime.columns_of(self.frame.schema)

    def to_spark(self) -> SparkDataFrame:
        """The DataFrame. Raises InvalidData for a stream."""
        if self.frame.isStreaming:
            raise InvalidData("a streaming DataFrame is no batch", cure="use foreachBatch, and pass each batch")
        return self.frame


Rows = pa.Table | Version | Readable | ViewUse | GivenFrame
"""The object that a name stands for: rows in memory, a table at a snapshot, a system table or files that are read
like a table, a view, or a DataFrame."""
_NAME = "full_name"
"""The key in `meta` of a table node under which the query of a view keeps the full name."""


@dataclass
class Catalog:
    """The tables that a text names.

    Attributes:
        lake: the lake of the tables.
        text: the statement, or the query of a view in it.
        given: lower-case name -> data that the caller passes.
        lazy: whether system tables stay unread, so that the runtime reads them.
        temporary: whether a name can mean a temporary view.
        database: the database of tables that are named without one.
        trail: the views around this query, outermost first.
    """

    lake: Lake
    text: Text
    given: Mapping[str, object]
    lazy: bool = False
    temporary: bool = True
    database: str | None = None
    trail: tuple[str, ...] = ()
    _found: dict[tuple, Rows] = field(default_factory=dict)
    _tables: dict[str, Table] = field(default_factory=dict)

    @staticmethod
    def of(lake: Lake, text: Text, given: Mapping[str, object], *, lazy: bool) -> Catalog:
        """The tables that a statement names. Names without a database are in the current one."""
        return Catalog(lake, text, {name.lower(): data for name, data in given.items()}, lazy, database=lake.session.database)

    def schema(self, node: exp.Table) -> pa.Schema | ViewUse:
        """The columns of a table in FROM, or the view. Refuses a name that does not exist."""
        rows = self.rows(node)
        if isinstance(rows, ViewUse):
            return rows
        return rows.schema.shown_columns if isinstance(rows, Version) else rows.schema

    def stored(self, node: exp.Table) -> pa.Schema | StoredRows | ViewUse:
        """As `schema`, with what the version that is read says of its numbers."""
        rows, found = self.rows(node), self.schema(node)
        return StoredRows(found, cache(partial(most_digits, rows))) if isinstance(rows, Version) else found

    def rows(self, node: exp.Table) -> Rows:
        """The rows of a table in FROM."""
        key = (self.name(node), self._moment(node))
        if key not in self._found:
            self._found[key] = self._open(node, *key)
        rows = self._found[key]
        if isinstance(rows, Version) and rows.fallback is None and key[1] == Moment():  # it may have been pinned
            rows = self._found[key] = with_fallback(rows)
        return rows

    def newest(self, node: exp.Table) -> Version:
        """The newest version of the table that a statement changes. The name stands for this version from now on."""
        version = Version.latest(self.table(node).meta)
        if version.schema.view is not None:
            refuse_rows(version.schema.view, self.name(node))
        self.pin(node, version)
        return version

    def pin(self, node: exp.Table, version: Version) -> None:
        """Makes a name stand for a version of its table. A query reads that with its fallback."""
        self._found[(self.name(node), Moment())] = version

    def reads(self, part: exp.Expression, target: exp.Table) -> bool:
        """Whether a part of a statement reads the table that the statement changes, in its current state, directly or through a
        view."""
        return self._reads(part, self.name(target), target)

    def _reads(self, part: exp.Expression, name: str, target: exp.Table | None) -> bool:
        for one in part.find_all(exp.Table):
            if one is target or peek(one, "version") is not None or not isinstance(peek(one, "this"), exp.Identifier):
                continue
            if self.name(one) == name:
                return True
            rows = self._found.get((self.name(one), Moment()))
            if isinstance(rows, ViewUse) and rows.catalog._reads(rows.tree(), name, None):
                return True
        return False

    def queries_in(self, part: exp.Expression, named: Mapping[str, exp.CTE]) -> Iterator[tuple[exp.Expression, Text]]:
        """The named queries that a part of a statement reads, directly or through other named queries. `named`: the queries of a
        WITH around it; other queries are views."""
        own = {cte.alias.lower() for cte in part.find_all(exp.CTE)}
        for one in part.find_all(exp.Table):
            name = one.name.lower() if len(one.parts) == 1 else ""
            if name in own:
                continue
            if name in named:
                query = peek(named[name], "this")
                yield query, self.text
                yield from self.queries_in(query, {other: cte for other, cte in named.items() if other != name})
            elif (view := self._view_named(one)) is not None:
                query = view.tree()
                yield query, view.text
                yield from view.catalog.queries_in(query, {})

    def _view_named(self, node: exp.Table) -> ViewUse | None:
        """The view with this name; None for a table, and for a name that does not exist, which fails when it is read."""
        if not isinstance(peek(node, "this"), exp.Identifier) or is_file(node) or not self.is_named(node):
            return None
        try:
            rows = self.rows(node)
        except LakeError:
            return None
        return rows if isinstance(rows, ViewUse) else None

    def views(self) -> list[ViewUse]:
        """The views that the text reads, directly or through other views. Complete once the text is translated."""
        return [rows for rows in self._found.values() if isinstance(rows, ViewUse)]

    def name(self, node: exp.Table) -> str:
        """The full name of a table in the text; for a table or view outside all databases, the plain name."""
        if _NAME in node.meta:
            return node.meta[_NAME]
        if is_file(node):
            return ".".join(part.name for part in node.parts)
        name = name_of(node, self.text)
        if "." in name:
            return name
        if name.lower() in self.given or (self.temporary and self.lake.session.view(name) is not None):
            return name.lower()
        made = name if self.database is None else f"{self.database}.{name}"
        if self.trail:
            node.meta[_NAME] = made
        return made

    def is_named(self, node: exp.Table) -> bool:
        """Whether a table name without a database can be a table of the lake."""
        return "." in (name := self.name(node)) or name in self.given or self._temporary_view(name) is not None

    def table(self, node: exp.Table) -> Table:
        """The handle of a table that the statement changes or describes. Refuses a view."""
        name = self.name(node)
        if "." not in name:
            self.text.refuse(node, f"there is no table {name}", expected="database.table", cure=cure_of(self.lake, name))
        if is_file(node):
            self.text.refuse(node, "files cannot be changed", expected="a table", cure="name a table")
        try:
            return self._table(name)
        except TableNotFound:
            if "$" not in name and Views(self.lake.env.storage).is_there(name):
                self.text.refuse(node, f"{name} is a view", expected="a table", cure="name a table that the view reads")
            raise

    def _table(self, name: str) -> Table:
        if name not in self._tables:
            self._tables[name] = self.lake.table(name)
        return self._tables[name]

    def _given_rows(self, data: object) -> pa.Table:
        given = as_input(data, inferred=True)
        first = next(given.tables, pa.table({}))
        fields = {field.name.lower(): field for field in first.schema}
        return pa.concat_tables([first, *typed(given, fields, Cast(self.lake.runtime.zone))])

    def _temporary_view(self, name: str) -> View | None:
        return self.lake.session.view(name) if self.temporary else None

    def _open(self, node: exp.Table, name: str, moment: Moment) -> Rows:
        if name in self.given:
            if moment != Moment():
                self.text.refuse(node, "only a table of the lake has versions", cure="leave the version out")
            if self.lake.runtime.owns(self.given[name]):
                return GivenFrame(self.given[name], self.lake.runtime)
            rows = self._given_rows(self.given[name])
            return rows.cast(pa.schema([result_field(field.name, of_column(field), field.nullable) for field in rows.schema]))
        if "." not in name and (view := self._temporary_view(name)) is not None:
            return self._view(node, name, view, moment)
        if is_file(node):
            if moment != Moment():
                self.text.refuse(node, "a file has no versions", cure="leave the version out")
            if self.lake.session.served:
                self.text.refuse(node, "a server reads no files but those of tables", cure="name a table")
            return opened(node, self.text)
        for described in (information_schema, sys_tables):
            if (rows := described.table(self.lake, name)) is not None:
                return rows
        whole, dollar, system = name.rpartition("$")
        if dollar and not system.startswith("branch_"):
            table = self.lake.table(whole)
            system_table = table.system_table(system, snapshot=moment.snapshot, tag=moment.tag, timestamp=moment.timestamp)
            return system_table if self.lazy or isinstance(system_table, pa.Table) else system_table.to_arrow()
        if "." not in name:
            self.text.refuse(node, f"there is no table {name}", expected="database.table", cure=cure_of(self.lake, name))
        try:
            table = self._table(name)
        except TableNotFound:
            if dollar or (view := Views(self.lake.env.storage).get(name)) is None:
                raise
            return self._view(node, name, view, moment)
        return version_to_read(table.meta, moment, table.runtime.zone)

    def _view(self, node: exp.Table, name: str, view: View, moment: Moment) -> ViewUse:
        if moment != Moment():
            self.text.refuse(node, "a view has no versions", cure="write the version in a query of its tables")
        if name in self.trail:
            trail = " -> ".join((*self.trail, name))
            raise InvalidQuery("a view reads itself", where=f"view {name}", found=trail, cure="write CREATE OR REPLACE VIEW")
        text = Text(view.text)
        within = replace(self, text=text, given={}, temporary="." not in name, database=view.database, trail=(*self.trail, name))
        columns = tuple(
            ViewUseColumn(
                field.name,
                column_types.plain(field.type),
                column.source,
                column.place,
                declared(column_types.with_lengths(field)),
            )
            for field, column in zip(columns_of(view), view.columns, strict=True)
        )
        return ViewUse(name, text, within, columns)

    def _moment(self, node: exp.Table) -> Moment:
        version, alias = node.args.get("version"), node.args.get("alias")
        if alias is not None and isinstance(alias.this, exp.Parameter):  # orders@v12
            number = alias.this.name
            if version is not None or not _VERSION.fullmatch(number):
                written, expected = f"@{number}", "a name such as orders@v12"
                self.text.refuse(
                    node, "@ takes the number of a version", expected=expected, found=written, cure="write @v and a number"
                )
            return Moment(snapshot=int(number[1:]))
        if version is None:
            return Moment()
        value = version.expression
        if isinstance(value, exp.Cast) and type_of(value.to) in (TIMESTAMP, TIMESTAMP_NTZ, DATE):  # TIMESTAMP '...'
            value = value.this
        self.text.word(version, "kind", "AS OF")
        counts = not isinstance(value, exp.Literal) or value.is_string or value.this.isdecimal()
        if not (isinstance(value, exp.Literal) and counts):
            self.text.refuse(version, "a version is a number, the name of a tag, or a time", cure="write VERSION AS OF 12")
        if str(version.this).upper() == "TIMESTAMP":
            return Moment(timestamp=value.this)
        return (
            Moment(tag=value.this)
            if value.is_string and not self._is_number(node, value.this)
            else Moment(snapshot=int(value.this))
        )

    def _is_number(self, node: exp.Table, text: str) -> bool:
        """Whether a quoted version is a snapshot id. A tag with this name takes precedence."""
        if not text.isdecimal():
            return False
        try:
            self._table(self.name(node)).meta.tags.get(text)
        except LakeError:
            return True
        return False
