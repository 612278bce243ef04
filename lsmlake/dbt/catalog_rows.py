"""What `dbt docs generate` shows of tables and views: one row per column, with the statistics of its table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import agate
from dbt_common.clients.agate_helper import table_from_data_flat

from lsmlake.api.lake import Lake
from lsmlake.api.table import Table
from lsmlake.errors import TableNotFound
from lsmlake.sql.view_statements import columns_of
from lsmlake.tables.views import Views
from lsmlake.types.column_types import COMMENT
from lsmlake.types.type_text import format_type_of

_TEXTS = ("table_type", "table_comment", "column_name", "column_type", "column_comment")
_COLUMNS = (
    "table_database",
    "table_schema",
    "table_name",
    *_TEXTS[:2],
    "table_owner",
    "column_name",
    "column_index",
    *_TEXTS[3:],
)
_STATISTICS = (
    ("rows", "Rows", "The number of rows."),
    ("bytes", "Size", "The bytes of the data files."),
    ("files", "Files", "The number of data files."),
    ("last_modified", "Last modified", "When the newest snapshot was committed, in UTC."),
    ("primary_key", "Primary key", "The columns of the primary key."),
    ("partition_by", "Partitioned by", "The fields of the partitions."),
)
"""The name of a statistic, its label and its description."""
_PARTS = ("label", "value", "description", "include")
Facts = dict[str, object]


def catalog_rows(lake: Lake, schemas: Sequence[str]) -> agate.Table:
    """The columns of all tables and views of databases. A database that does not exist has none. Raises LakeError."""
    rows = [row for schema in schemas for row in _of_schema(lake, schema)]
    names = [*_COLUMNS, "has_stats", *(f"stats:{one}:{part}" for one, _, _ in _STATISTICS for part in _PARTS)]
    return table_from_data_flat(rows, names) if rows else agate.Table([], names, [agate.Text()] * len(names))


def _of_schema(lake: Lake, schema: str) -> Iterator[Facts]:
    try:
        tables, views = lake.tables(schema), Views(lake.env.storage)
    except TableNotFound:
        return
    for name in tables:
        table = lake.table(f"{schema}.{name}")
        facts = {"table_type": "table", "table_comment": table.comment, "has_stats": True, **_statistics(lake, table)}
        yield from _columns(schema, name, facts, table.version.schema.columns)
    for name in views.names(schema):
        if (view := views.get(f"{schema}.{name}")) is not None:
            facts = {"table_type": "view", "table_comment": view.comment, "has_stats": False, **_shown({})}
            yield from _columns(schema, name, facts, columns_of(view))


def _columns(schema: str, name: str, facts: Facts, columns) -> Iterator[Facts]:  # fields of a schema, or an iterator of them
    for index, field in enumerate(columns, start=1):
        comment = (field.metadata or {}).get(COMMENT, b"").decode() or None
        column = {
            "column_name": field.name,
            "column_index": index,
            "column_type": format_type_of(field),
            "column_comment": comment,
        }
        yield {"table_database": None, "table_schema": schema, "table_name": name, "table_owner": None, **facts, **column}


def _statistics(lake: Lake, table: Table) -> Facts:
    (detail,) = lake.sql(f"DESCRIBE DETAIL {table.name}").to_arrow().to_pylist()
    return _shown(
        {
            "rows": detail["numRows"],
            "bytes": detail["sizeInBytes"],
            "files": detail["numFiles"],
            "last_modified": str(detail["lastModified"]),
            "primary_key": ", ".join(detail["primaryKey"]),
            "partition_by": ", ".join(detail["partitionColumns"]),
        }
    )


def _shown(values: Facts) -> Facts:
    """Statistics as dbt's catalog has them; one without a value is not shown."""
    facts: Facts = {}
    for name, label, description in _STATISTICS:
        value = values.get(name)
        parts = (label, value, description, value not in (None, ""))
        facts |= {f"stats:{name}:{part}": one for part, one in zip(_PARTS, parts, strict=True)}
    return facts
