"""DESCRIBE: a database, a table or view, a column, a query, the history and the details of a table."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from lsmlake.api.lake import Lake
from lsmlake.api.table import Table
from lsmlake.format.paths import database_dir
from lsmlake.format.view import View
from lsmlake.schema.fields import field_at, resolve
from lsmlake.schema.kept_query import KeptQuery
from lsmlake.schema.schema import Schema
from lsmlake.sql.default_clause import described
from lsmlake.sql.sql_listing import texts, type_of
from lsmlake.sql.token_reader import Words, full_name, table_or_view, table_or_view_name
from lsmlake.sql.view_statements import Analyse, columns_of
from lsmlake.tables.databases import Databases
from lsmlake.tables.version import Version
from lsmlake.tables.views import Views
from lsmlake.types.column_types import COMMENT, plain
from lsmlake.types.intervals import sql_type
from lsmlake.types.type_text import format_type

_COLUMNS = ("col_name", "data_type", "comment")
_INFO = ("info_name", "info_value")


def describe(lake: Lake, words: Words, analyse: Analyse) -> Callable[[], pa.Table]:
    """DESCRIBE ..."""
    if words.take_one("DATABASE", "SCHEMA", "NAMESPACE"):
        extended = words.take("EXTENDED")
        return partial(_database, lake, words.identifier("a database"), extended)
    if words.take("HISTORY"):
        name = full_name(lake, words)
        return partial(_history, lake, name, words.number("a number of versions") if words.take("LIMIT") else None)
    if words.take("DETAIL"):
        return partial(_detail, lake, full_name(lake, words))
    if words.follows("FUNCTION"):
        words.refuse("there are no functions but those of Spark", cure="leave it out")
    query = words.take("QUERY") or any(map(words.follows, ("SELECT", "WITH", "VALUES", "FROM")))
    if query:
        columns = analyse(words.rest("a query"), True).columns
        return lambda: texts(_COLUMNS, [(one.name, format_type(plain(sql_type(one))), None) for one in columns])
    words.take("TABLE")
    extended = bool(words.take_one("EXTENDED", "FORMATTED"))
    name = table_or_view_name(lake, words)
    if words.follows("AS") or words.follows("PARTITION") or not words.any_follow():
        return partial(_described, lake, name, extended)
    return partial(_column, lake, name, words.path("a column"), extended)


# -- databases ----------------------------------------------------------------------------------------------------------


def _database(lake: Lake, name: str, extended: bool) -> pa.Table:
    tables, views = lake.tables(name), Views(lake.env.storage).names(name)
    facts = Databases(lake.env.storage).facts(name)
    pairs = [("Namespace Name", name), ("Comment", facts.get("comment", "")), ("Location", database_dir(name))]
    pairs += [("Tables", str(len(tables))), ("Views", str(len(views)))]
    if extended:
        pairs.append(("Properties", _pairs(facts.get("properties", {}))))
    return texts(_INFO, pairs)


# -- tables and views ---------------------------------------------------------------------------------------------------


def _described(lake: Lake, name: str, extended: bool) -> pa.Table:
    opened = table_or_view(lake, name)
    if isinstance(opened, View):
        rows = [_row(field) for field in columns_of(opened)]
        details = details_of_view(name, opened)
    else:
        schema = opened.version.schema
        rows = [*map(_row, schema.shown_fields), *_partitions(schema)]
        details = details_of_table(name, opened, schema)
        if extended and (defaults := list(described(schema.columns))):
            rows += [("# Column Default Values", "", ""), *((field.name, type_of(field), default) for field, default in defaults)]
    if extended:
        rows += [("# Detailed Table Information", "", ""), *((key, value, "") for key, value in details.items())]
    return texts(_COLUMNS, rows)


def _row(field: pa.Field) -> tuple[str, str, str | None]:
    return field.name, type_of(field), _comment(field)


def _comment(field: pa.Field) -> str | None:
    return (field.metadata or {}).get(COMMENT, b"").decode() or None


def _partitions(schema: Schema) -> list[tuple[str, str, str | None]]:
    if len(schema.identity_columns) < len(schema.partition_columns):  # Spark lists transforms in another form than columns
        return [("# Partitioning", "", ""), *((f"Part {i}", term, "") for i, term in enumerate(schema.partition_by))]
    if not schema.partition_columns:
        return []
    columns = ((one, type_of(schema.columns.field(one)), None) for one in schema.identity_columns)
    return [("# Partition Information", "", ""), *columns]


def _pairs(properties: Mapping[str, str]) -> str:
    return ", ".join(f"{key}={value}" for key, value in sorted(properties.items()))


def details_of_table(name: str, table: Table, schema: Schema) -> dict[str, str]:
    """The lines of DESCRIBE EXTENDED for a table."""
    view = {} if schema.view is None else _details_of_query(table, schema.view)
    return {
        "Name": name,
        "Type": "MANAGED" if schema.view is None else "MATERIALIZED_VIEW",
        "Primary Key": ", ".join(schema.primary_key),
        "Location": table.path,
        "Comment": schema.comment or "",
        "Provider": "lsmlake",
        "Table Properties": _pairs(schema.options),
        **view,
    }


def _details_of_query(table: Table, view: KeptQuery) -> dict[str, str]:
    """The query of a view table, and the snapshots of its tables that the rows show."""
    snapshot = table.version.snapshot
    position = snapshot.position if snapshot is not None and snapshot.position is not None else {}
    return {
        "View Text": view.text,
        "View Query Database": view.database or "",
        "View Query Time Zone": view.zone,
        "Refreshed To": ", ".join(f"{name} snapshot {source.snapshot}" for name, source in position.items()),
    }


def details_of_view(name: str, view: View) -> dict[str, str]:
    """The lines of DESCRIBE EXTENDED for a view."""
    return {
        "Name": name,
        "Type": "VIEW",
        "Created Time": dt.datetime.fromtimestamp(view.create_time_ms / 1000, dt.timezone.utc).isoformat(timespec="seconds"),
        "Comment": view.comment or "",
        "Table Properties": _pairs(view.properties),
        "View Text": view.text,
        "View Query Database": view.database or "",
        "View Query Output Columns": ", ".join(column.source for column in view.columns),
    }


def _column(lake: Lake, name: str, path: list[str], extended: bool) -> pa.Table:
    """The lines of DESCRIBE for the column `path`. `extended`: with its statistics."""
    opened = table_or_view(lake, name)
    columns = tuple(columns_of(opened)) if isinstance(opened, View) else tuple(opened.version.schema.shown_fields)
    field = field_at(columns, resolve(columns, path, name))
    rows = [("col_name", field.name), ("data_type", type_of(field)), ("comment", _comment(field))]
    if extended:
        statistics = {} if isinstance(opened, View) else _statistics(opened, field.name if len(path) == 1 else "")
        known = ("min", "max", "nullCount", "distinctCount", "avgLen", "maxLen")
        names = ("min", "max", "num_nulls", "distinct_count", "avg_col_len", "max_col_len")
        values = (statistics.get(one) for one in known)
        rows += [(one, None if value is None else str(value)) for one, value in zip(names, values, strict=True)]
    return texts(_INFO, rows)


def _statistics(table: Table, column: str) -> dict[str, object]:
    rows = table.system_table("statistics").to_pylist()
    return dict(rows[0]["colstat"]).get(column, {}) if rows else {}


# -- history and detail -------------------------------------------------------------------------------------------------


def _history(lake: Lake, name: str, limit: int | None) -> pa.Table:
    """The retained snapshots, newest first."""
    snapshots = lake.table(name).snapshots()
    made = snapshots.take(pa.array(range(len(snapshots) - 1, -1, -1), pa.int64()))
    return made if limit is None else made.slice(0, limit)


def _detail(lake: Lake, name: str) -> pa.Table:
    """One row with the figures of a table, as in Delta Lake."""
    table = lake.table(name)
    version = table.version
    schema, files = version.schema, version.live()
    changed = schema.time_ms if version.snapshot is None else version.snapshot.time_ms
    created = Version.at(table.meta, None).schema.time_ms
    moment = pa.timestamp("ms", "UTC")
    facts = {
        "format": ("lsmlake", pa.string()),
        "id": (schema.table_uuid, pa.string()),
        "name": (name, pa.string()),
        "description": (schema.comment, pa.string()),
        "location": (table.path, pa.string()),
        "createdAt": (created, moment),
        "lastModified": (changed, moment),
        "partitionColumns": (list(schema.partition_by), pa.list_(pa.string())),
        "clusteringColumns": (list(schema.parsed_options.appends.clustering_columns), pa.list_(pa.string())),
        "numFiles": (files.num_rows, pa.int64()),
        "sizeInBytes": (pc.sum(files["bytes"]).as_py() or 0, pa.int64()),
        "properties": (list(schema.options.items()), pa.map_(pa.string(), pa.string())),
        "primaryKey": (list(schema.primary_key), pa.list_(pa.string())),
        "numRows": (version.snapshot.total_rows if version.snapshot else 0, pa.int64()),
        "version": (version.number, pa.int64()),
    }
    return pa.table({key: pa.array([value], kind).cast(kind) for key, (value, kind) in facts.items()})
