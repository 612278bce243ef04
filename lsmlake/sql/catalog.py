"""The tables that a statement names: each read at one snapshot, however often the statement names it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import pyarrow as pa
from sqlglot import exp

from lsmlake.api.inputs import as_input
from lsmlake.api.lake import Lake
from lsmlake.api.readable import Readable
from lsmlake.api.table import Table
from lsmlake.dialect.reading import peek
from lsmlake.dialect.text import Text
from lsmlake.dialect.types import DATE, TIMESTAMP, TIMESTAMP_NTZ, of_column
from lsmlake.errors import LakeError
from lsmlake.read.travel import Moment, resolve
from lsmlake.schema.ddl import type_of
from lsmlake.store.version import Version

Rows = pa.Table | Version | Readable
"""What a name stands for: rows in memory, a table at a snapshot, or a system table that is read as a table is."""


@dataclass
class Catalog:
    """The tables of a lake, and `given`: data that the caller names, by lower case name. `lazy`: no system table is read that a
    runtime can read."""

    lake: Lake
    text: Text
    given: Mapping[str, object]
    lazy: bool = False
    _found: dict[tuple, Rows] = field(default_factory=dict)
    _tables: dict[str, Table] = field(default_factory=dict)

    def schema(self, node: exp.Table) -> pa.Schema:
        """The columns of a table in FROM. Refuses what is not there."""
        found = self.rows(node)
        return found.schema.plain_columns if isinstance(found, Version) else found.schema

    def rows(self, node: exp.Table) -> Rows:
        """What a table in FROM stands for."""
        moment = self._moment(node)
        key = (self.name(node).lower(), moment)
        if key not in self._found:
            self._found[key] = self._open(node, moment)
        return self._found[key]

    def pin(self, node: exp.Table, version: Version) -> None:
        """Makes a name stand for a version of its table."""
        self._found[(self.name(node).lower(), Moment())] = version

    def reads(self, part: exp.Expression, target: exp.Table) -> bool:
        """Whether a part of a statement reads the table that the statement changes, as it is now."""
        name = self.name(target).lower()
        others = (one for one in part.find_all(exp.Table) if one is not target and peek(one, "version") is None)
        return any(self.name(one).lower() == name for one in others)

    def name(self, node: exp.Table) -> str:
        """The full name of a table in the text."""
        return ".".join(part.name for part in node.parts)

    def table(self, node: exp.Table) -> Table:
        """The handle of a table that the statement changes or describes."""
        name = self.name(node)
        if name not in self._tables:
            if "." not in name:
                self.text.refuse(node, f"there is no table {name}", expected="database.table", cure=self._cure(name))
            table = self.lake.table(name)
            self._tables[name] = replace(table, meta=self.lake.kept.of(table.meta))
        return self._tables[name]

    def _cure(self, name: str) -> str:
        homes = [one for one in self.lake.tables() if one.partition(".")[2].lower() == name.lower()]
        return f"write {homes[0]}" if homes else "write the database before the table"

    def _open(self, node: exp.Table, moment: Moment) -> Rows:
        name = self.name(node)
        if name.lower() in self.given:
            if moment != Moment():
                self.text.refuse(node, "only a table of the lake has versions")
            rows = pa.concat_tables(as_input(self.given[name.lower()], inferred=True).tables)
            return rows.cast(pa.schema([pa.field(field.name, of_column(field), field.nullable) for field in rows.schema]))
        whole, dollar, system = name.rpartition("$")
        if dollar and not system.startswith("branch_"):
            table = self.lake.table(whole)
            found = table.system_table(system, snapshot=moment.snapshot, tag=moment.tag, timestamp=moment.timestamp)
            return found if self.lazy or isinstance(found, pa.Table) else found.to_arrow()
        table = self.table(node)
        return Version.at(table.meta, resolve(table.meta, moment, table.runtime.zone))

    def _moment(self, node: exp.Table) -> Moment:
        version = node.args.get("version")
        if version is None:
            return Moment()
        value = version.expression
        if isinstance(value, exp.Cast) and type_of(value.to) in (TIMESTAMP, TIMESTAMP_NTZ, DATE):  # TIMESTAMP '...'
            value = value.this
        self.text.word(version, "kind", "AS OF")
        if not isinstance(value, exp.Literal):
            self.text.refuse(version, "a version is a number, the name of a tag, or a time", cure="write VERSION AS OF 12")
        if str(version.this).upper() == "TIMESTAMP":
            return Moment(timestamp=value.this)
        return (
            Moment(tag=value.this)
            if value.is_string and not self._is_number(node, value.this)
            else Moment(snapshot=int(value.this))
        )

    def _is_number(self, node: exp.Table, text: str) -> bool:
        """Whether a quoted version is the number of a snapshot: the name of a tag comes first."""
        if not text.isdecimal():
            return False
        try:
            self.table(node).meta.tags.get(text)
        except LakeError:
            return True
        return False
