"""The query of a view table, opened: its tree, its columns, and the tables that it reads, each at one snapshot."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa
from sqlglot import exp

from lsmlake.api.lake import Lake
from lsmlake.api.runtime import Runtime
from lsmlake.commit.request import Position
from lsmlake.dialect.query import QueryTranslator
from lsmlake.dialect.sql_text import Text, peek
from lsmlake.dialect.table_use import TableUse
from lsmlake.errors import InvalidQuery
from lsmlake.format.snapshot import SourcePosition
from lsmlake.read.fallback import branch_name
from lsmlake.schema.kept_query import KeptQuery
from lsmlake.sql.named_tables import Catalog
from lsmlake.storage.env import Env, moment_of
from lsmlake.tables.version import Version
from lsmlake.types.type_text import format_type


@dataclass(frozen=True)
class _Zoned(Runtime):
    """The runtime in which queries of view tables are evaluated: this process, in the time zone of the view table."""

    zone: str = "UTC"


@dataclass(frozen=True)
class OpenedQuery:
    """A query whose tables were opened.

    Attributes:
        text: the query.
        tree: its tree.
        catalog: the tables that it names.
        columns: the columns of its result.
        sources: the tables that it reads, by name, without those that it reads at a fixed snapshot.
        varies: why the same tables may give other rows each time; None: they do not.
        now: the time of the query.
    """

    text: Text
    tree: exp.Expression
    catalog: Catalog
    columns: pa.Schema
    sources: Mapping[str, Version]
    varies: str | None
    now: str

    @property
    def position(self) -> Position:
        """The states of the sources."""
        return {name: position_of(version) for name, version in self.sources.items()}


def position_of(version: Version) -> SourcePosition:
    """The state of a table at a version."""
    return SourcePosition(version.schema.table_uuid, version.number, version.schema.id)


def open_query(env: Env, kept: KeptQuery) -> OpenedQuery:
    """Reads a query completely and opens its tables. Raises InvalidQuery, TableNotFound."""
    text, now = Text(kept.text), moment_of(env)
    catalog = Catalog(Lake(env, _Zoned(kept.zone)), text, {}, temporary=False, database=kept.database)
    with text.read() as tree:
        if not isinstance(tree, exp.Query):
            text.refuse(tree, "a view table keeps the rows of a query", cure="write SELECT ...")
        if peek(tree, "order") is not None and peek(tree, "limit") is None:
            text.refuse(peek(tree, "order"), "the rows of a view table have no order", cure="leave ORDER BY out")
        translator = QueryTranslator(text, catalog.schema, now, draws=True)
        columns = translator.query(tree).schema
    sources = dict(_source(use, catalog) for use in translator.uses if peek(use.node, "version") is None)
    return OpenedQuery(text, text.parsed(), catalog, columns, sources, _varies(text, catalog), now)


def _source(use: TableUse, catalog: Catalog) -> tuple[str, Version]:
    name, rows = catalog.name(use.node), catalog.rows(use.node)
    if not isinstance(rows, Version):
        raise InvalidQuery(
            "a view table reads tables of its lake only",
            where=name,
            expected="database.table",
            found=f"{name}, which has no snapshots",
            cure="load the rows into a table, and name that",
        )
    if rows.fallback is not None:
        raise InvalidQuery(
            "a view table follows the changes of tables, and a table that is read with a branch has no changes of that",
            where=name,
            expected="a table without scan.fallback-branch and scan.primary-branch",
            found=f"branch {branch_name(rows.fallback)!r}",
            cure="remove the option, or write CREATE VIEW",
        )
    return name, rows


def _varies(text: Text, catalog: Catalog) -> str | None:
    """Why a query does not depend on its tables alone: it was translated before, and fails only without a time and draws."""
    try:
        QueryTranslator(text, catalog.schema, None).query(text.parsed())
    except InvalidQuery as refused:
        return f"{refused.what} ({refused.found})"
    return None


def check_columns(opened: OpenedQuery, shown: pa.Schema, where: str) -> None:
    """Raises InvalidQuery if the query gives other columns than the view table has. `shown`: those of the view table."""
    given = [(field.name, format_type(field.type)) for field in opened.columns]
    expected = [(field.name, format_type(field.type)) for field in shown]
    if given != expected:
        raise InvalidQuery(
            "the query of the view table has other columns than when it was created: its tables were altered",
            where=where,
            expected=", ".join(" ".join(one) for one in expected),
            found=", ".join(" ".join(one) for one in given),
            cure="write CREATE OR REPLACE MATERIALIZED VIEW",
        )
