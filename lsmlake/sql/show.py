"""SHOW and DESCRIBE: what a lake holds, as rows."""

from __future__ import annotations

import re
from collections.abc import Callable

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


def show(lake: Lake, words: Words) -> pa.Table:
    """SHOW ..."""
    if words.take("DATABASES") or words.take("SCHEMAS"):
        fits = _pattern(words)
        return pa.table({"namespace": pa.array(filter(fits, lake.databases()), pa.string())})
    if words.take("TABLES"):
        database = words.name() if words.take("IN") or words.take("FROM") else None
        fits = _pattern(words)
        found = lake.tables() if database is None else [f"{database}.{name}" for name in lake.tables(database)]
        pairs = [pair for pair in (name.split(".", 1) for name in found) if fits(pair[1])]
        return _texts(("namespace", "tableName"), pairs)
    if words.take("COLUMNS"):
        _ = words.take("IN") or words.take("FROM")
        return _texts(("col_name",), [(name,) for name in _schema(lake, words).columns.names])
    if words.take("CREATE", "TABLE"):
        name = words.name()
        words.end()
        return _texts(("createtab_stmt",), [(create_statement(name, lake.table(name).version.schema),)])
    if words.take("TBLPROPERTIES"):
        return _texts(("key", "value"), sorted(_schema(lake, words).options.items()))
    if words.take("PARTITIONS"):
        name = words.name()
        words.end()
        return lake.table(name).partitions()
    words.refuse("this SHOW is not supported", expected=_SHOWN)


def _pattern(words: Words) -> Callable[[str], bool]:
    """[LIKE] 'pattern' at the end of a statement: * stands for any text, | for or; letters are compared without case."""
    given = words.one("a pattern") if words.take("LIKE") or words.is_text() else "*"
    words.end()
    parts = (re.escape(part.strip()).replace(r"\*", ".*") for part in given.split("|"))
    regex = re.compile("|".join(parts), re.IGNORECASE)
    return lambda name: regex.fullmatch(name) is not None


def describe(lake: Lake, words: Words) -> pa.Table:
    """DESCRIBE [TABLE] [EXTENDED] table, DESCRIBE DATABASE database"""
    if words.take("DATABASE") or words.take("SCHEMA"):
        words.take("EXTENDED")
        name = words.name()
        words.end()
        pairs = [("Namespace Name", name), ("Location", database_dir(name)), ("Tables", str(len(lake.tables(name))))]
        return _texts(("info_name", "info_value"), pairs)
    words.take("TABLE")
    extended = words.take("EXTENDED") or words.take("FORMATTED")
    name = words.name()
    words.end()
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


def _schema(lake: Lake, words: Words) -> Schema:
    name = words.name()
    words.end()
    return lake.table(name).version.schema


def _type(field: pa.Field) -> str:
    return format_type(field.type) + ("" if field.nullable else " NOT NULL")


def _literal(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _texts(names: tuple[str, ...], rows: list) -> pa.Table:
    columns = list(zip(*rows, strict=True)) or [()] * len(names)
    return pa.table([pa.array(column, pa.string()) for column in columns], names=list(names))
