"""SHOW and DESCRIBE: what a lake holds, as rows."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial

import pyarrow as pa

from lsmlake.api.lake import Lake
from lsmlake.format.paths import database_dir
from lsmlake.schema.schema import Schema
from lsmlake.schema.type_text import backticked, format_columns, format_type
from lsmlake.schema.types import COMMENT
from lsmlake.sql.defaults import described
from lsmlake.sql.words import Words

_SHOWN = (
    "DATABASES [LIKE 'pattern'], TABLES [IN database] [LIKE 'pattern'], COLUMNS IN table, CREATE TABLE table, "
    "TBLPROPERTIES table, PARTITIONS table"
)


def show(lake: Lake, words: Words) -> Callable[[], pa.Table]:
    """SHOW ..."""
    if words.take("DATABASES") or words.take("SCHEMAS"):
        fits = _pattern(words)
        return lambda: pa.table({"namespace": pa.array(filter(fits, lake.databases()), pa.string())})
    if words.take("TABLES"):
        database = words.name() if words.take("IN") or words.take("FROM") else None
        fits = _pattern(words)
        return partial(_tables, lake, database, fits)
    if words.take("COLUMNS"):
        _ = words.take("IN") or words.take("FROM")
        name = words.name()
        return lambda: _texts(("col_name",), [(one,) for one in lake.table(name).version.schema.columns.names])
    if words.take("CREATE", "TABLE"):
        name = words.name()
        return lambda: _texts(("createtab_stmt",), [(create_statement(name, lake.table(name).version.schema),)])
    if words.take("TBLPROPERTIES"):
        name = words.name()
        return lambda: _texts(("key", "value"), sorted(lake.table(name).version.schema.options.items()))
    if words.take("PARTITIONS"):
        name = words.name()
        return lambda: lake.table(name).partitions()
    words.refuse("this SHOW is not supported", expected=_SHOWN)


def _tables(lake: Lake, database: str | None, fits: Callable[[str], bool]) -> pa.Table:
    found = lake.tables() if database is None else [f"{database}.{name}" for name in lake.tables(database)]
    pairs = [pair for pair in (name.split(".", 1) for name in found) if fits(pair[1])]
    return _texts(("namespace", "tableName"), pairs)


def _pattern(words: Words) -> Callable[[str], bool]:
    """[LIKE] 'pattern' at the end of a statement: * stands for any text, | for or; letters are compared without case."""
    given = words.one("a pattern") if words.take("LIKE") or words.is_text() else "*"
    parts = (re.escape(part.strip()).replace(r"\*", ".*") for part in given.split("|"))
    regex = re.compile("|".join(parts), re.IGNORECASE)
    return lambda name: regex.fullmatch(name) is not None


def describe(lake: Lake, words: Words) -> Callable[[], pa.Table]:
    """DESCRIBE [TABLE] [EXTENDED] table, DESCRIBE DATABASE database"""
    if words.take("DATABASE") or words.take("SCHEMA"):
        words.take("EXTENDED")
        return partial(_database, lake, words.name())
    words.take("TABLE")
    extended = words.take("EXTENDED") or words.take("FORMATTED")
    return partial(_described, lake, words.name(), extended)


def _database(lake: Lake, name: str) -> pa.Table:
    pairs = [("Namespace Name", name), ("Location", database_dir(name)), ("Tables", str(len(lake.tables(name))))]
    return _texts(("info_name", "info_value"), pairs)


def _described(lake: Lake, name: str, extended: bool) -> pa.Table:
    table = lake.table(name)
    schema = table.version.schema
    rows = [(field.name, _type(field), (field.metadata or {}).get(COMMENT, b"").decode() or None) for field in schema.columns]
    if len(schema.identity_columns) < len(schema.partition_columns):  # Spark lists transforms in another form than columns
        rows += [("# Partitioning", "", ""), *((f"Part {i}", term, "") for i, term in enumerate(schema.partition_by))]
    elif schema.partition_columns:
        rows += [
            ("# Partition Information", "", ""),
            *((one, _type(schema.columns.field(one)), None) for one in schema.identity_columns),
        ]
    if extended:
        if defaults := list(described(schema.columns)):
            rows += [("# Column Default Values", "", ""), *((field.name, _type(field), default) for field, default in defaults)]
        details = {
            "Name": name,
            "Primary Key": ", ".join(schema.primary_key),
            "Location": table.path,
            "Comment": schema.comment or "",
            "Provider": "lsmlake",
            "Table Properties": ", ".join(f"{key}={value}" for key, value in sorted(schema.options.items())),
        }
        rows += [("# Detailed Table Information", "", ""), *((key, value, "") for key, value in details.items())]
    return _texts(("col_name", "data_type", "comment"), rows)


def create_statement(name: str, schema: Schema) -> str:
    """The CREATE TABLE that makes a table with these columns, keys and options."""
    defaults = {field.name: f" DEFAULT {sql}" for field, sql in described(schema.columns)}
    columns = ", ".join(format_columns(pa.schema([field])) + defaults.get(field.name, "") for field in schema.columns)
    key = f", PRIMARY KEY ({', '.join(map(backticked, schema.primary_key))})" if schema.primary_key else ""
    made = f"CREATE TABLE {'.'.join(map(backticked, name.split('.')))} ({columns}{key})"
    if schema.partition_by:
        fields = (field.transform.sql(backticked(field.column)) for field in schema.partition_columns)
        made += f" PARTITIONED BY ({', '.join(fields)})"
    if schema.comment:
        made += f" COMMENT {_literal(schema.comment)}"
    if schema.options:
        pairs = ", ".join(f"{_literal(key)} = {_literal(value)}" for key, value in sorted(schema.options.items()))
        made += f" TBLPROPERTIES ({pairs})"
    return made


def _type(field: pa.Field) -> str:
    return format_type(field.type) + ("" if field.nullable else " NOT NULL")


def _literal(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _texts(names: tuple[str, ...], rows: list) -> pa.Table:
    columns = list(zip(*rows, strict=True)) or [()] * len(names)
    return pa.table([pa.array(column, pa.string()) for column in columns], names=list(names))
