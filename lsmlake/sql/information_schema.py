"""`information_schema`: the content of a lake as tables of SQL, with the columns of Databricks and the SQL standard."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import pyarrow as pa

from lsmlake.api.lake import Lake
from lsmlake.errors import TableNotFound
from lsmlake.format.view import View
from lsmlake.schema.schema import Schema
from lsmlake.sql.default_clause import described
from lsmlake.sql.sql_listing import Listed, tables_of, views_of
from lsmlake.sql.token_reader import table_or_view
from lsmlake.sql.view_statements import columns_of
from lsmlake.tables.databases import Databases
from lsmlake.tables.version import Version
from lsmlake.types.column_types import COMMENT
from lsmlake.types.type_text import format_type_of

NAME = "information_schema"
CATALOG = "lsmlake"
_TIME = pa.timestamp("us", "UTC")
_Row = dict[str, object]


def table(lake: Lake, name: str) -> pa.Table | None:
    """The table `information_schema.name`; None for a name in another database. Raises TableNotFound."""
    database, _, own = name.partition(".")
    if database.lower() != NAME:
        return None
    if own.lower() not in _TABLES:
        raise TableNotFound(f"there is no table {name!r}", expected=f"one of {', '.join(_TABLES)}", cure="correct the name")
    rows, columns = _TABLES[own.lower()]
    records = list(rows(lake))
    return pa.table({column: pa.array([row[column] for row in records], kind) for column, kind in columns.items()})


def _place(one: Listed) -> _Row:
    return {"table_catalog": CATALOG, "table_schema": one.database, "table_name": one.name}


def _tables(lake: Lake) -> Iterator[tuple[Listed, Schema | View]]:
    """All tables and permanent views, ordered by name. Leaves out a table or view that is dropped meanwhile."""
    homes = lake.databases()
    listed = [one for home in homes for one in (*tables_of(lake, home), *(v for v in views_of(lake, home) if v.database))]
    for one in sorted(listed):
        try:
            opened = table_or_view(lake, one.full_name)
        except TableNotFound:
            continue
        yield one, opened if isinstance(opened, View) else opened.version.schema


def _schemata(lake: Lake) -> Iterator[_Row]:
    databases = Databases(lake.env.storage)
    for name in lake.databases():
        yield {"catalog_name": CATALOG, "schema_name": name, "comment": databases.facts(name).get("comment")}


def _table_rows(lake: Lake) -> Iterator[_Row]:
    for one, definition in _tables(lake):
        view = isinstance(definition, View)
        created = definition.create_time_ms if view else _created(lake, one)
        yield {
            **_place(one),
            "table_type": "VIEW" if view else "MANAGED" if definition.view is None else "MATERIALIZED_VIEW",
            "is_insertable_into": "NO" if view or definition.view is not None else "YES",
            "comment": definition.comment,
            "data_source_format": None if view else "LSMLAKE",
            "created": created * 1000,
            "last_altered": (created if view else definition.time_ms) * 1000,
        }


def _created(lake: Lake, one: Listed) -> int:
    return Version.at(lake.table(one.full_name).meta, None).schema.time_ms


def _columns(lake: Lake) -> Iterator[_Row]:
    for one, definition in _tables(lake):
        fields = pa.schema(columns_of(definition)) if isinstance(definition, View) else definition.shown_fields
        partitions = () if isinstance(definition, View) else definition.identity_columns
        defaults = {field.name: sql for field, sql in described(fields) if sql != "NULL"}
        for place, field in enumerate(fields, 1):
            kind = field.type
            decimal = pa.types.is_decimal(kind)
            comment = (field.metadata or {}).get(COMMENT)
            yield {
                **_place(one),
                "column_name": field.name,
                "ordinal_position": place,
                "column_default": defaults.get(field.name),
                "is_nullable": "YES" if field.nullable else "NO",
                "full_data_type": format_type_of(field).lower(),
                "data_type": format_type_of(field).partition("(")[0].partition("<")[0],
                "numeric_precision": kind.precision if decimal else None,
                "numeric_scale": kind.scale if decimal else None,
                "partition_index": partitions.index(field.name) + 1 if field.name in partitions else None,
                "comment": None if comment is None else comment.decode(),
            }


def _views(lake: Lake) -> Iterator[_Row]:
    for one, definition in _tables(lake):
        if isinstance(definition, View):
            yield {**_place(one), "view_definition": definition.text, "check_option": "NONE", "is_updatable": "NO"}


def _constraints(lake: Lake) -> Iterator[tuple[Listed, Schema, _Row]]:
    for one, schema in _tables(lake):
        if isinstance(schema, Schema) and schema.primary_key:
            name = {"constraint_catalog": CATALOG, "constraint_schema": one.database, "constraint_name": f"{one.name}_pk"}
            yield one, schema, {**name, **_place(one)}


def _table_constraints(lake: Lake) -> Iterator[_Row]:
    for _, _, row in _constraints(lake):
        yield {**row, "constraint_type": "PRIMARY KEY", "is_deferrable": "NO", "initially_deferred": "NO", "enforced": "YES"}


def _key_column_usage(lake: Lake) -> Iterator[_Row]:
    for _, schema, row in _constraints(lake):
        for place, name in enumerate(schema.primary_key, 1):
            yield {**row, "column_name": name, "ordinal_position": place}


def _texts(*names: str) -> dict[str, pa.DataType]:
    return dict.fromkeys(names, pa.string())


_PLACE = _texts("table_catalog", "table_schema", "table_name")
_CONSTRAINT = {**_texts("constraint_catalog", "constraint_schema", "constraint_name"), **_PLACE}
_TABLES: Mapping[str, tuple[Callable[[Lake], Iterator[_Row]], Mapping[str, pa.DataType]]] = {
    "schemata": (_schemata, _texts("catalog_name", "schema_name", "comment")),
    "tables": (
        _table_rows,
        {
            **_PLACE,
            **_texts("table_type", "is_insertable_into", "comment", "data_source_format"),
            "created": _TIME,
            "last_altered": _TIME,
        },
    ),
    "columns": (
        _columns,
        {
            **_PLACE,
            "column_name": pa.string(),
            "ordinal_position": pa.int32(),
            **_texts("column_default", "is_nullable", "full_data_type", "data_type"),
            "numeric_precision": pa.int32(),
            "numeric_scale": pa.int32(),
            "partition_index": pa.int32(),
            "comment": pa.string(),
        },
    ),
    "views": (_views, {**_PLACE, **_texts("view_definition", "check_option", "is_updatable")}),
    "table_constraints": (
        _table_constraints,
        {**_CONSTRAINT, **_texts("constraint_type", "is_deferrable", "initially_deferred", "enforced")},
    ),
    "key_column_usage": (_key_column_usage, {**_CONSTRAINT, "column_name": pa.string(), "ordinal_position": pa.int32()}),
}
