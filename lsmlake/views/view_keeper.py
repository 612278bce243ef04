"""Creates view tables and refreshes them: what the runtimes offer to the verbs of a lake (`api.runtime.Runtime.keeps_views`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from lsmlake.commit.request import Advance, Identity, Request
from lsmlake.commit.requirements import Follows
from lsmlake.errors import InvalidQuery, InvalidSchema, TableExists, Wording
from lsmlake.extras import need
from lsmlake.format.paths import TablePaths
from lsmlake.lsm.merge.rules import check_new
from lsmlake.maintain.alter import succeed, versions
from lsmlake.maintain.refresh_report import RefreshReport
from lsmlake.schema.alterations.altered import replaced
from lsmlake.schema.kept_query import KeptQuery
from lsmlake.schema.partitioning import Term
from lsmlake.schema.schema import Schema
from lsmlake.storage.env import Env
from lsmlake.tables.databases import Databases, metadata_of
from lsmlake.tables.version import Metadata, Version
from lsmlake.tables.views import Views
from lsmlake.types.column_types import plain
from lsmlake.views.view_refresh import Refresh, hidden_fields, refresh
from lsmlake.views.view_shape import KEY, ViewShape, shape_of
from lsmlake.views.view_sources import OpenedQuery, open_query
from lsmlake.write.replace import Overwrite
from lsmlake.write.write import new_files

_TAKEN = Wording(
    "choose another name, or pass if_not_exists=True",
    command="choose another name",
    sql="choose another name, or write IF NOT EXISTS",
)


@dataclass(frozen=True)
class ViewDefinition:
    """A view table to be created."""

    name: str
    kept: KeptQuery
    partition_by: Sequence[str] = ()
    options: Mapping[str, object] | None = None
    comment: str | None = None

    def schema(self, opened: OpenedQuery, shape: ViewShape, time_ms: int, table_uuid: str) -> Schema:
        """The first schema of the view table. Raises InvalidSchema, InvalidOption."""
        shown = [pa.field(field.name, plain(field.type)) for field in opened.columns]
        columns = pa.schema([*shown, *hidden_fields(shape)])
        key = self._key(shape, columns)
        options = dict(self.options or {})
        given = columns, key, self.partition_by, options, self.comment, time_ms, table_uuid, self.name
        made = Schema.create(*given, view=self.kept)
        check_new(made, self.name)
        return made

    def _key(self, shape: ViewShape, columns: pa.Schema) -> Sequence[str]:
        parts = list(dict.fromkeys(Term.parse(text, columns.names, self.name).column for text in self.partition_by))
        allowed = shape.key_columns or tuple(shape.key_outputs)
        if shape.keyed and (other := [name for name in parts if name not in allowed]):
            raise InvalidSchema(
                "the partitions of a view table are columns of its key",
                where=self.name,
                expected=", ".join(allowed) or "no partitions",
                found=", ".join(other),
                cure="partition by other columns, or leave the partitions out",
            )
        return shape.key_columns or ((*parts, KEY) if shape.keyed else ())


class ViewKeeper:
    """Creates and refreshes the view tables of warehouses, in this process."""

    def defined(
        self,
        name: str,
        query: str,
        database: str | None,
        zone: str,
        partition_by: Sequence[str],
        options: Mapping[str, object] | None,
        comment: str | None,
    ) -> ViewDefinition:
        """A view table to be created. `database`, `zone`: those in which the query is read."""
        return ViewDefinition(name, KeptQuery(query, database, zone), partition_by, options, comment)

    def create(self, env: Env, made: ViewDefinition, *, if_not_exists: bool, replaces: bool) -> None:
        """Creates a view table with its rows. Raises TableExists, TableNotFound, InvalidQuery, InvalidSchema, InvalidOption."""
        need("duckdb", "a view table")
        databases, root = Databases(env.storage), Databases(env.storage).root(made.name)
        there = databases.is_table(root)
        if there and if_not_exists:
            _check_is_view_table(metadata_of(env, made.name), made.name)
            return
        if there and not replaces:
            raise TableExists(f"table {made.name!r} exists", cure=_TAKEN)
        if Views(env.storage).is_there(made.name):
            raise TableExists(f"a view has the name {made.name!r}", cure="choose another name, or drop the view")
        opened = open_query(env, made.kept)
        if made.name.lower() in (name.lower() for name in opened.sources):
            raise InvalidQuery("the view table would read itself", where=made.name, cure="correct the query")
        if there:
            _replace(metadata_of(env, made.name), made)
            return
        table_uuid = env.ids()
        schema = made.schema(opened, shape_of(opened), env.clock(), table_uuid)
        databases.clear(root)
        if not Metadata.of(env, TablePaths(root, table_uuid)).schemas.begin(schema):
            if if_not_exists:
                _check_is_view_table(metadata_of(env, made.name), made.name)
                return
            raise TableExists(f"table {made.name!r} exists", cure=_TAKEN)
        refresh(env, made.name)

    def refresh(self, env: Env, name: str, *, full: bool = False) -> RefreshReport:
        """See `Lake.refresh`."""
        need("duckdb", "a refresh of a view table")
        return refresh(env, name, full=full)


def _replace(meta: Metadata, made: ViewDefinition) -> None:
    """Gives a view table another query, and its rows, by one commit."""
    for version in versions(meta, made.name, "create"):
        _check_is_view_table(meta, made.name)
        opened, time_ms = open_query(meta.env, made.kept), meta.env.clock()
        shape = shape_of(opened)
        first = made.schema(opened, shape, time_ms, version.schema.table_uuid)
        if first.primary_key != version.schema.primary_key:
            raise InvalidSchema(
                "a view table that is replaced keeps its primary key",
                where=made.name,
                expected=", ".join(version.schema.primary_key) or "no primary key",
                found=", ".join(first.primary_key) or "no primary key",
                cure="write DROP MATERIALIZED VIEW, then CREATE MATERIALIZED VIEW: the older snapshots then go with the table",
            )
        number = meta.schemas.ids()[-1] + 1
        schema = replaced(version.schema, first, number, time_ms, made.name)
        before = version.snapshot.position if version.snapshot else None
        after = Version(meta, version.snapshot, schema)
        messages = new_files(after, [Refresh(after, opened, shape, before, made.name).all_rows()])
        advance, requires = Advance(before, opened.position), (Follows(version.number),)
        restate = Overwrite(messages, choose=list).restate
        identity = Identity(meta.env.ids())
        request = Request(identity, messages, requires, restate, remade=True, schema=schema, advance=advance)
        if succeed(after, request):
            return


def _check_is_view_table(meta: Metadata, name: str) -> None:
    """Raises TableExists for a table without a query, which is neither replaced nor taken for a view table."""
    if Version.latest(meta).schema.view is None:
        cure = "choose another name, or drop the table first"
        raise TableExists(f"{name!r} is a table without a query, and no view table", cure=cure)
