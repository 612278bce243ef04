"""CREATE and DROP of tables and databases."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import pyarrow as pa
from sqlglot import exp

from lsmlake.api.lake import Lake
from lsmlake.api.types import SparkDataFrame
from lsmlake.dialect.reading import passed_on
from lsmlake.dialect.text import Text
from lsmlake.errors import InvalidSchema, TableNotFound
from lsmlake.schema import ddl
from lsmlake.schema.defaults import WRITE, scalar_of, with_default
from lsmlake.schema.type_text import backticked
from lsmlake.sql.defaults import constant

_PROVIDERS = ("lsmlake", "paimon")


@dataclass(frozen=True)
class Definition:
    """What a CREATE TABLE says besides the columns."""

    name: str
    primary_key: tuple[str, ...]
    partition_by: tuple[str, ...]
    options: dict[str, str]
    comment: str | None


def create(
    lake: Lake, node: exp.Create, text: Text, rows_of: Callable[[exp.Expression], Callable[[], pa.Table | SparkDataFrame]]
) -> Callable[[], object]:
    """CREATE TABLE, CREATE TABLE AS SELECT, CREATE DATABASE. `rows_of`: reads the query of AS SELECT."""
    exists = bool(node.args.get("exists"))
    kind = text.word(node, "kind", "TABLE", "DATABASE", "SCHEMA")
    if kind != "TABLE":
        return partial(lake.create_database, _database(node.this), if_not_exists=exists)
    definition, columns = _definition(node, text, lake.runtime.zone)
    query = node.args.get("expression")
    options = {
        "primary_key": definition.primary_key,
        "partition_by": definition.partition_by,
        "options": definition.options,
        "comment": definition.comment,
    }
    if query is None:
        if columns is None:
            text.refuse(node, "the columns are missing", cure="write CREATE TABLE name (column TYPE, ...)")
        return partial(lake.create_table, definition.name, columns, if_not_exists=exists, **options)
    if columns is not None:
        text.refuse(node, "AS SELECT has no list of columns", cure="leave the list out, or cast in the SELECT")
    rows = rows_of(query)

    def act() -> None:
        if not (exists and _there(lake, definition.name)):
            lake.create_table_from(definition.name, rows(), **options)

    return act


def _there(lake: Lake, name: str) -> bool:
    try:
        lake.table(name)
    except TableNotFound:
        return False
    return True


def _database(node: exp.Expression) -> str:
    return node.args.get("db").name if isinstance(node, exp.Table) and not node.name and node.args.get("db") else node.name


def _definition(node: exp.Create, text: Text, zone: str) -> tuple[Definition, pa.Schema | None]:
    table, columns, key, defaults = node.this, None, [], {}
    if isinstance(table, exp.Schema):
        definitions = []
        for item in table.expressions:
            if isinstance(item, exp.PrimaryKey):
                key += [part.name for part in item.expressions]
                _ = item.args.get("include")  # without arguments of its own it says nothing
                continue
            definitions.append(_plain(item, key, defaults, text))
        columns, table = _with_defaults(ddl.columns_of(definitions), defaults, text, zone), table.this
    options, partition_by, comment = {}, [], None
    for item in (node.args.get("properties") or exp.Properties(expressions=[])).expressions:
        match item:
            case exp.PartitionedByProperty():
                partition_by = _partition_fields(item, text)
            case exp.SchemaCommentProperty():
                comment = item.this.name
            case exp.FileFormatProperty():
                if item.this.name.lower() not in _PROVIDERS:
                    text.refuse(item, "only tables of lsmlake can be created", cure="write USING lsmlake, or leave it out")
            case exp.OptionsProperty():
                options |= dict(map(option_of, item.expressions))
            case exp.Property():
                options |= dict([option_of(item)])
            case _:
                text.refuse(item, "this is not supported in CREATE TABLE")
    named = options.pop("primary-key", None)
    key += [name.strip() for name in named.split(",")] if named else []
    name = ".".join(part.name for part in table.parts)
    return Definition(name, tuple(key), tuple(partition_by), options, comment), columns


def _with_defaults(columns: pa.Schema, defaults: dict[str, exp.Expression], text: Text, zone: str) -> pa.Schema:
    for name, node in defaults.items():
        number = columns.names.index(name)
        try:
            value = scalar_of(constant(node, text, zone, columns.field(number).type), columns.field(number), "CREATE TABLE")
        except InvalidSchema as error:
            text.refuse(node, f"the default does not fit column {name}", expected=error.expected, cure="correct the default")
        columns = columns.set(number, with_default(columns.field(number), WRITE, value))
    return columns


def _plain(item: exp.Expression, key: list[str], defaults: dict[str, exp.Expression], text: Text) -> exp.Expression:
    """A column definition without PRIMARY KEY, which joins `key`, and without DEFAULT, which joins `defaults`."""
    if not isinstance(item, exp.ColumnDef):
        text.refuse(item, "this is not a column", cure="write name TYPE, or PRIMARY KEY (columns)")
    kept = []
    for constraint in item.args.get("constraints") or ():
        if isinstance(constraint.args.get("kind"), exp.PrimaryKeyColumnConstraint):
            key.append(item.name)
        elif isinstance(constraint.args.get("kind"), exp.DefaultColumnConstraint):
            defaults[item.name] = constraint.args.get("kind").this
        else:
            kept.append(constraint)
    return exp.ColumnDef(this=item.this, kind=item.args.get("kind"), constraints=kept)


def _partition_fields(item: exp.PartitionedByProperty, text: Text) -> list[str]:
    """The fields of PARTITIONED BY: a column, days(column), bucket(16, column)."""
    found = item.this.expressions if isinstance(item.this, (exp.Schema, exp.Tuple)) else [item.this]
    return [_partition_field(part, item, text) for part in found]


def _partition_field(part: exp.Expression, item: exp.Expression, text: Text) -> str:
    match part:
        case exp.Identifier() | exp.Column():
            return part.name
        case exp.PartitionedByBucket() | exp.PartitionByTruncate():
            name = "bucket" if isinstance(part, exp.PartitionedByBucket) else "truncate"
            return f"{name}({part.expression.name}, {backticked(part.this.name)})"
        case exp.Anonymous():
            names = (one.name if isinstance(one, exp.Literal) else backticked(one.name) for one in part.expressions)
            return f"{part.name}({', '.join(names)})"
    cure = "define the columns in the list of columns"
    text.refuse(item, "PARTITIONED BY takes names of columns and transforms of them", cure=cure)


def option_of(item: exp.Expression) -> tuple[str, str]:
    """A table property: its name and value."""
    value = item.args.get("value")
    if not isinstance(value, (exp.Literal, exp.Boolean)):
        passed_on(value)
        return _dotted(item.this), value.sql("spark")
    return _dotted(item.this), str(value.this)


def _dotted(node: exp.Expression) -> str:
    if isinstance(node, (exp.Column, exp.Dot)):
        passed_on(node)
        return node.sql("spark").replace("`", "")
    return node.name


def drop(lake: Lake, node: exp.Drop, text: Text) -> Callable[[], object]:
    """DROP TABLE, DROP DATABASE"""
    what, *others = node.args.get("tables")
    if others:
        text.refuse(others[0], "DROP takes one name", cure="write a statement for each")
    exists = bool(node.args.get("exists"))
    if text.word(node, "kind", "TABLE", "DATABASE", "SCHEMA") == "TABLE":
        remove = partial(lake.drop_table, ".".join(part.name for part in what.parts))
    else:
        _ = node.args.get("restrict")  # what DROP DATABASE does without CASCADE
        remove = partial(lake.drop_database, _database(what), cascade=bool(node.args.get("cascade")))

    def act() -> None:
        try:
            remove()
        except TableNotFound:
            if not exists:
                raise

    return act
