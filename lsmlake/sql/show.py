"""SHOW: the databases, tables and other objects of a lake, as rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial

import pyarrow as pa

from lsmlake.api.lake import Lake
from lsmlake.format.view import View
from lsmlake.schema.schema import Schema
from lsmlake.sql.default_clause import described
from lsmlake.sql.describe import details_of_table, details_of_view
from lsmlake.sql.sql_listing import Fits, Listed, database_in, pattern, quoted_text, tables_of, texts, views_of
from lsmlake.sql.token_reader import Words, full_name, table_or_view, table_or_view_name
from lsmlake.sql.view_statements import columns_of
from lsmlake.types.type_text import backticked, format_columns

_SHOWN = (
    "DATABASES [LIKE 'pattern'], TABLES [IN database] [LIKE 'pattern'], TABLE EXTENDED [IN database] LIKE 'pattern', "
    "VIEWS [IN database] [LIKE 'pattern'], COLUMNS IN table, CREATE TABLE table, TBLPROPERTIES table [('name')], "
    "PARTITIONS table, CURRENT NAMESPACE"
)
_CURES = {
    "FUNCTIONS": "the functions are those of Spark; the page about SQL names the others",
    "CATALOGS": "leave it out: a lake is one catalog",
    "GRANTS": "leave it out: the file system or object store has the rights",
}


def show(lake: Lake, words: Words) -> Callable[[], pa.Table]:
    """SHOW ..."""
    if words.take_one("DATABASES", "SCHEMAS", "NAMESPACES"):
        fits = pattern(words)
        return lambda: pa.table({"namespace": pa.array(filter(fits, lake.databases()), pa.string())})
    if words.take("TABLES"):
        return partial(_tables, lake, database_in(words), pattern(words))
    if words.take("TABLE", "EXTENDED"):
        database = database_in(words)
        if not words.follows("LIKE"):
            words.refuse("expected LIKE", cure="write SHOW TABLE EXTENDED LIKE '*'")
        return partial(_tables_extended, lake, database, pattern(words))
    if words.take("VIEWS"):
        return partial(_views, lake, database_in(words), pattern(words))
    if words.take("COLUMNS"):
        if not words.take_one("IN", "FROM"):
            words.refuse("expected IN", expected="SHOW COLUMNS IN table")
        return partial(_columns, lake, table_or_view_name(lake, words))
    if words.take("CREATE", "TABLE"):
        return partial(_create, lake, table_or_view_name(lake, words))
    if words.take("TBLPROPERTIES"):
        name = table_or_view_name(lake, words)
        asked = words.listed(partial(_property, words)) if words.follows("(") else []
        return partial(_properties, lake, name, asked)
    if words.take("PARTITIONS"):
        name = full_name(lake, words)
        return lambda: lake.table(name).partitions()
    if words.take("CURRENT", "NAMESPACE"):
        return lambda: texts(("catalog", "namespace"), [("lsmlake", lake.session.database)])
    cure = next((cure for word, cure in _CURES.items() if words.follows(word)), "")
    words.refuse("this SHOW is not supported", expected=_SHOWN, cure=cure)


def _property(words: Words) -> str:
    return words.literal("an option") if words.is_text() else ".".join(words.path("an option"))


# -- lists --------------------------------------------------------------------------------------------------------------


def _listed(items: Iterable[Listed], name: str) -> pa.Table:
    rows = sorted(items)
    made = texts(("namespace", name), [(one.database, one.name) for one in rows])
    return made.append_column("isTemporary", pa.array([not one.database for one in rows], pa.bool_()))


def _tables(lake: Lake, database: str | None, fits: Fits) -> pa.Table:
    """Tables and, as in Spark, views."""
    return _listed(_fitting(lake, database, fits), "tableName")


def _fitting(lake: Lake, database: str | None, fits: Fits) -> list[Listed]:
    return [one for one in (*tables_of(lake, database), *views_of(lake, database)) if fits(one.name)]


def _views(lake: Lake, database: str | None, fits: Fits) -> pa.Table:
    return _listed((one for one in views_of(lake, database) if fits(one.name)), "viewName")


def _tables_extended(lake: Lake, database: str | None, fits: Fits) -> pa.Table:
    items = sorted(_fitting(lake, database, fits))
    information = [_information(lake, one) for one in items]
    return _listed(items, "tableName").append_column("information", pa.array(information, pa.string()))


def _information(lake: Lake, one: Listed) -> str:
    opened = table_or_view(lake, one.full_name)
    if isinstance(opened, View):
        details, columns = details_of_view(one.full_name, opened), pa.schema(columns_of(opened))
    else:
        schema = opened.version.schema
        details, columns = details_of_table(one.full_name, opened, schema), schema.shown_fields
    lines = [f"{name}: {value}" for name, value in details.items() if value]
    lines += ["Schema: root", *(f" |-- {format_columns(pa.schema([field]))}" for field in columns)]
    return "\n".join(lines) + "\n"


# -- one table or view --------------------------------------------------------------------------------------------------


def _table_or_view(lake: Lake, name: str) -> Schema | View:
    opened = table_or_view(lake, name)
    return opened if isinstance(opened, View) else opened.version.schema


def _columns(lake: Lake, name: str) -> pa.Table:
    definition = _table_or_view(lake, name)
    names = [one.name for one in definition.columns] if isinstance(definition, View) else definition.shown
    return texts(("col_name",), [(one,) for one in names])


def _create(lake: Lake, name: str) -> pa.Table:
    definition = _table_or_view(lake, name)
    made = create_view_statement(name, definition) if isinstance(definition, View) else create_statement(name, definition)
    return texts(("createtab_stmt",), [(made,)])


def _properties(lake: Lake, name: str, asked: list[str]) -> pa.Table:
    definition = _table_or_view(lake, name)
    properties: Mapping[str, str] = definition.properties if isinstance(definition, View) else definition.options
    if asked:  # as in Spark, a property that is not set gives a row, too
        missing = f"Table {name} does not have property: "
        return texts(("key", "value"), [(one, properties.get(one, missing + one)) for one in asked])
    return texts(("key", "value"), sorted(properties.items()))


def create_statement(name: str, schema: Schema) -> str:
    """The CREATE TABLE that makes a table with these columns, keys and options; of a view table the CREATE MATERIALIZED VIEW.
    Its query names tables as in the database that was current."""
    if schema.view is not None:
        return _create_materialized_view(name, schema)
    defaults = {field.name: f" DEFAULT {sql}" for field, sql in described(schema.columns)}
    columns = ", ".join(format_columns(pa.schema([field])) + defaults.get(field.name, "") for field in schema.columns)
    key = f", PRIMARY KEY ({', '.join(map(backticked, schema.primary_key))})" if schema.primary_key else ""
    made = f"CREATE TABLE {_quoted(name)} ({columns}{key})"
    if schema.partition_by:
        fields = (field.transform.sql(backticked(field.column)) for field in schema.partition_columns)
        made += f" PARTITIONED BY ({', '.join(fields)})"
    return made + _comment_and_properties(schema.comment, schema.options)


def _create_materialized_view(name: str, schema: Schema) -> str:
    made = f"CREATE MATERIALIZED VIEW {_quoted(name)}"
    if schema.partition_by:
        made += f" PARTITIONED BY ({', '.join(schema.partition_by)})"
    return f"{made}{_comment_and_properties(schema.comment, schema.options)} AS {schema.view.text}"


def create_view_statement(name: str, view: View) -> str:
    """The CREATE VIEW statement of a view. Its query names tables as in the database that was current."""
    columns = (
        backticked(one.name) + ("" if one.comment is None else f" COMMENT {quoted_text(one.comment)}") for one in view.columns
    )
    word = "VIEW" if "." in name else "TEMPORARY VIEW"
    made = f"CREATE {word} {_quoted(name)} ({', '.join(columns)})" + _comment_and_properties(view.comment, view.properties)
    return f"{made} AS {view.text}"


def _quoted(name: str) -> str:
    return ".".join(map(backticked, name.split(".")))


def _comment_and_properties(comment: str | None, properties: Mapping[str, str]) -> str:
    made = f" COMMENT {quoted_text(comment)}" if comment else ""
    if properties:
        pairs = ", ".join(f"{quoted_text(key)} = {quoted_text(value)}" for key, value in sorted(properties.items()))
        made += f" TBLPROPERTIES ({pairs})"
    return made
