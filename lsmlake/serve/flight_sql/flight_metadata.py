"""The answers to questions about the lake: databases are schemas in the one catalog of `information_schema`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from lsmlake.api.lake import Lake
from lsmlake.errors import TableNotFound
from lsmlake.format.view import View
from lsmlake.serve.flight_sql.flight_messages import (
    CommandGetCatalogs,
    CommandGetCrossReference,
    CommandGetDbSchemas,
    CommandGetExportedKeys,
    CommandGetImportedKeys,
    CommandGetPrimaryKeys,
    CommandGetTables,
    CommandGetTableTypes,
)
from lsmlake.sql.information_schema import CATALOG
from lsmlake.sql.sql_listing import Listed
from lsmlake.sql.token_reader import table_or_view
from lsmlake.sql.view_statements import columns_of
from lsmlake.tables.views import Views
from lsmlake.types.type_text import format_type_of

TABLE, VIEW = "TABLE", "VIEW"
_FIELD = b"ARROW:FLIGHT:SQL:"
_Row = tuple[object, ...]


def _needed(name: str, kind: pa.DataType | None = None) -> pa.Field:
    return pa.field(name, kind or pa.string(), nullable=False)


_CATALOGS = pa.schema([_needed("catalog_name")])
_SCHEMAS = pa.schema([pa.field("catalog_name", pa.string()), _needed("db_schema_name")])
_TABLES = pa.schema(
    [
        pa.field("catalog_name", pa.string()),
        pa.field("db_schema_name", pa.string()),
        _needed("table_name"),
        _needed("table_type"),
    ]
)
_TABLES_WITH_SCHEMA = _TABLES.append(_needed("table_schema", pa.binary()))
_TYPES = pa.schema([_needed("table_type")])
_PRIMARY_KEYS = pa.schema(
    [
        pa.field("catalog_name", pa.string()),
        pa.field("db_schema_name", pa.string()),
        _needed("table_name"),
        _needed("column_name"),
        pa.field("key_name", pa.string()),
        _needed("key_sequence", pa.int32()),
    ]
)
_FOREIGN_KEYS = pa.schema(
    [
        pa.field("pk_catalog_name", pa.string()),
        pa.field("pk_db_schema_name", pa.string()),
        _needed("pk_table_name"),
        _needed("pk_column_name"),
        pa.field("fk_catalog_name", pa.string()),
        pa.field("fk_db_schema_name", pa.string()),
        _needed("fk_table_name"),
        _needed("fk_column_name"),
        _needed("key_sequence", pa.int32()),
        pa.field("fk_key_name", pa.string()),
        pa.field("pk_key_name", pa.string()),
        _needed("update_rule", pa.uint8()),
        _needed("delete_rule", pa.uint8()),
    ]
)
_FIXED = {
    CommandGetCatalogs: _CATALOGS,
    CommandGetDbSchemas: _SCHEMAS,
    CommandGetTableTypes: _TYPES,
    CommandGetPrimaryKeys: _PRIMARY_KEYS,
    CommandGetExportedKeys: _FOREIGN_KEYS,
    CommandGetImportedKeys: _FOREIGN_KEYS,
    CommandGetCrossReference: _FOREIGN_KEYS,
}


def schema_of(command: object) -> pa.Schema | None:
    """The columns of the answer to a question; None if the command is none of these questions."""
    if isinstance(command, CommandGetTables):
        return _TABLES_WITH_SCHEMA if command.include_schema else _TABLES
    return _FIXED.get(type(command))


def answer(lake: Lake, command: object) -> pa.Table:
    """The answer to a question."""
    rows: Iterable[_Row]
    match command:
        case CommandGetCatalogs():
            rows = [(CATALOG,)]
        case CommandGetTableTypes():
            rows = [(TABLE,), (VIEW,)]
        case CommandGetDbSchemas():
            rows = [(CATALOG, name) for name in _databases(lake, command.catalog, command.schema_pattern)]
        case CommandGetTables():
            rows = [one.row(command.include_schema) for one in _named(lake, command)]
        case CommandGetPrimaryKeys():
            rows = list(_primary_keys(lake, command))
        case _:
            rows = []  # there are no foreign keys
    schema = schema_of(command)
    assert schema is not None
    columns = list(zip(*rows, strict=True)) or [()] * len(schema)
    return pa.table([pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)], schema=schema)


def _databases(lake: Lake, catalog: str | None, pattern: str | None) -> list[str]:
    return [] if catalog not in (None, CATALOG) else _fitting(lake.databases(), pattern)


def _fitting(names: list[str], pattern: str | None) -> list[str]:
    """The names that fit a pattern of LIKE: % stands for any text, _ for one character, and \\ makes them plain. Arrow needs time
    in proportion to the text for it, whatever the pattern."""
    if pattern is None:
        return names
    return pa.array(names, pa.string()).filter(pc.match_like(pa.array(names, pa.string()), pattern)).to_pylist()


class _Named(NamedTuple):
    """A table or view of the lake. `columns`: empty unless they are asked for."""

    listed: Listed
    kind: str
    columns: pa.Schema

    def row(self, with_schema: bool) -> _Row:
        place = (CATALOG, self.listed.database, self.listed.name, self.kind)
        return (*place, self.columns.serialize().to_pybytes()) if with_schema else place


def _named(lake: Lake, asked: CommandGetTables) -> Iterator[_Named]:
    """The tables and views that are asked for, by database and name."""
    kinds = asked.table_types or (TABLE, VIEW)
    for database in _databases(lake, asked.catalog, asked.schema_pattern):
        tables = lake.tables(database) if TABLE in kinds else []
        views = Views(lake.env.storage).names(database) if VIEW in kinds else []
        known = {**dict.fromkeys(views, VIEW), **dict.fromkeys(tables, TABLE)}
        for name in _fitting(sorted(known), asked.table_pattern):
            one = Listed(database, name, known[name] == VIEW)
            columns = _columns(lake, one) if asked.include_schema else pa.schema([])
            if columns is not None:
                yield _Named(one, known[name], columns)


def _columns(lake: Lake, one: Listed) -> pa.Schema | None:
    """The columns of a table or view, with what drivers want to know; None if it was dropped meanwhile."""
    try:
        found = table_or_view(lake, one.full_name)
    except TableNotFound:
        return None
    columns = columns_of(found) if isinstance(found, View) else found.schema
    return pa.schema([field.with_metadata(_facts(one, field)) for field in columns])


def _facts(one: Listed, field: pa.Field) -> dict[bytes, bytes]:
    kind = field.type
    numbers = {b"PRECISION": str(kind.precision), b"SCALE": str(kind.scale)} if pa.types.is_decimal(kind) else {}
    facts = {
        b"CATALOG_NAME": CATALOG,
        b"DB_SCHEMA_NAME": one.database,
        b"TABLE_NAME": one.name,
        b"TYPE_NAME": format_type_of(field),
        **numbers,
    }
    return {_FIELD + name: value.encode() for name, value in facts.items()}


def _primary_keys(lake: Lake, asked: CommandGetPrimaryKeys) -> Iterator[_Row]:
    for database in lake.databases():
        if asked.catalog not in (None, CATALOG) or asked.schema not in (None, database):
            continue
        try:
            key = lake.table(f"{database}.{asked.table}").primary_key
        except TableNotFound:
            continue
        names = sorted((name, place) for place, name in enumerate(key, 1))
        yield from ((CATALOG, database, asked.table, name, f"{asked.table}_pk", place) for name, place in names)
