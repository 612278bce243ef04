"""CREATE TABLE, from columns, from a query, or like another table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import pyarrow as pa
from sqlglot import exp

from lsmlake.api.lake import Lake
from lsmlake.api.lake_verbs.loading import created_from, with_columns
from lsmlake.api.public_types import SparkDataFrame
from lsmlake.api.table import Table
from lsmlake.dialect.sql_text import Text
from lsmlake.errors import InvalidSchema, TableExists, TableNotFound
from lsmlake.format.snapshot import Snapshot
from lsmlake.inputs.data import Input
from lsmlake.inputs.text_files import FileOptions
from lsmlake.maintain.alter import replace_table
from lsmlake.schema.defaults import WRITE, default_of, scalar_of, with_default
from lsmlake.schema.schema import Schema
from lsmlake.sql.default_clause import constant
from lsmlake.sql.insert import write_rows
from lsmlake.sql.named_tables import Catalog
from lsmlake.sql.run_query import order_of_rows
from lsmlake.sql.token_reader import name_of
from lsmlake.types import ddl
from lsmlake.types.column_types import COMMENT, TEXT_TYPE
from lsmlake.types.spelling import spelled
from lsmlake.types.type_text import backticked
from lsmlake.write.order import Ordered

_PROVIDERS = ("lsmlake", "paimon")
_WHOLE_KEY = "write PRIMARY KEY (columns) once"
_CURES = {
    "LocationProperty": "leave LOCATION out: a table lies in the folder of its database",
    "TemporaryProperty": "write CREATE TEMPORARY VIEW name AS SELECT ...",
    "GlobalProperty": "write CREATE TEMPORARY VIEW name AS SELECT ...",
    "ExternalProperty": "leave EXTERNAL out: the files of a table belong to the lake; CALL import_parquet adopts others",
    "RowFormatDelimitedProperty": "leave ROW FORMAT out: the files of a table are Parquet",
    "RowFormatSerdeProperty": "leave ROW FORMAT out: the files of a table are Parquet",
}
Query = Callable[[exp.Expression], Callable[[], pa.Table | SparkDataFrame]]
"""Reads a query and returns a function that runs it."""
Assigned = Callable[[exp.Create, exp.Expression, Schema], Callable[[], pa.Table | SparkDataFrame]]
"""Reads a query and returns a function that runs it and assigns its columns to those of a table, in their order."""


@dataclass
class Definition:
    """A parsed CREATE TABLE. `given`: the clauses read so far; no clause may occur twice. `nullable`: the columns with NULL."""

    columns: pa.Schema | None = None
    primary_key: tuple[str, ...] = ()
    partition_by: list[str] = field(default_factory=list)
    options: dict[str, str] = field(default_factory=dict)
    comment: str | None = None
    like: str | None = None
    given: set[str] = field(default_factory=set)
    nullable: dict[str, exp.Expression] = field(default_factory=dict)

    @property
    def arguments(self) -> dict[str, object]:
        """The arguments of `Lake.create_table`, except the columns."""
        return {
            "primary_key": self.primary_key,
            "partition_by": self.partition_by,
            "options": self.options,
            "comment": self.comment,
        }

    def schema(self, time_ms: int, table_uuid: str, name: str, columns: pa.Schema | None = None) -> Schema:
        """The schema of a new table. `columns`: None: those of the statement. Raises InvalidSchema, InvalidOption."""
        given = self.primary_key, self.partition_by, self.options, self.comment
        return Schema.create(columns if self.columns is None else self.columns, *given, time_ms, table_uuid, name)


def create(catalog: Catalog, node: exp.Create, query_of: Query, assigned: Assigned) -> Callable[[], object]:
    """CREATE [OR REPLACE] TABLE [IF NOT EXISTS] name [(columns)] [clauses] [AS query]"""
    lake, text = catalog.lake, catalog.text
    text.word(node, "kind", "TABLE")
    exists, replaces = bool(node.args.get("exists")), bool(node.args.get("replace"))
    if exists and replaces:
        text.refuse(node, "OR REPLACE and IF NOT EXISTS exclude each other", cure="use one of them")
    table = node.this.this if isinstance(node.this, exp.Schema) else node.this
    if not isinstance(table, exp.Table):
        text.refuse(node, "this is not the name of a table", cure="name a table")
    name, made = lake.session.full_name(name_of(table, text)), _definition(node, text, lake.runtime.zone)
    query = node.args.get("expression")
    if node.args.get("clone") is not None:
        text.refuse(node, "CLONE is not supported", cure="write CALL copy, or CREATE TABLE LIKE for the columns alone")
    if made.like is not None:
        if query is not None or made.columns is not None or made.given - {"LIKE", "TBLPROPERTIES", "COMMENT", "USING"}:
            text.refuse(
                node,
                "LIKE takes all from the other table",
                expected="LIKE table [COMMENT] [TBLPROPERTIES]",
                cure="leave the rest out",
            )
        made = _like(lake, made, text, node)
    if query is None:
        if made.columns is None:
            text.refuse(node, "the columns are missing", cure="write CREATE TABLE name (column TYPE, ...)")
        if replaces and _there(lake, name):
            return lambda: _replace(lake, name, made, made.columns, [])
        return lambda: lake.create_table(name, made.columns, if_not_exists=exists, **made.arguments)
    if isinstance(query, exp.Table):
        text.wrong(query, "AS needs a query", cure="write AS SELECT * FROM the table")
    if made.columns is not None and not isinstance(node.this, exp.Schema):
        text.refuse(node, "AS takes the columns of its query", cure="name the columns of the partitions without their types")
    rows_of = query_of(query) if made.columns is None else assigned(node, query, made.schema(lake.env.clock(), "", name))

    def act() -> None:
        present = _there(lake, name)
        if present and exists:
            return
        if present and not replaces:
            raise TableExists(f"table {name!r} exists", cure="choose another name, or write CREATE OR REPLACE TABLE")
        rows, ordered = rows_of(), order_of_rows(query, catalog)
        if present:
            _replace_by_rows(lake, name, made, rows, ordered)
        else:
            load = partial(_load, ordered=ordered)
            created_from(lake, name, rows, **made.arguments, cast=False, row_kind=None, load=load, columns=made.columns)

    return act


def _load(table: Table, rows: Input, ordered: Ordered) -> Snapshot | None:
    return write_rows(table, table.version, rows, None, ordered)


def _replace_by_rows(lake: Lake, name: str, made: Definition, rows: pa.Table | SparkDataFrame, ordered: Ordered) -> None:
    columns = made.columns
    if columns is None:
        columns, _ = with_columns(lake.runtime, rows, made.primary_key, None, FileOptions())
    if isinstance(rows, pa.Table):
        _replace(lake, name, made, columns, [rows], ordered)
    else:
        _replace(lake, name, made, columns, [rows.toArrow()], Ordered.QUERY)


def _replace(
    lake: Lake, name: str, made: Definition, columns: pa.Schema, tables: Sequence[pa.Table], ordered: Ordered = Ordered.ALL
) -> None:
    """Gives a table other columns, options and rows."""

    def wanted(time_ms: int, table_uuid: str) -> Schema:
        return made.schema(time_ms, table_uuid, name, columns)

    replace_table(lake.table(name).meta, name, wanted, tables, ordered)


def _there(lake: Lake, name: str) -> bool:
    try:
        lake.table(name)
    except TableNotFound:
        return False
    return True


def _like(lake: Lake, made: Definition, text: Text, node: exp.Create) -> Definition:
    """The columns, key, partitions, options and comment of another table, without its rows."""
    schema = lake.table(lake.session.full_name(made.like)).version.schema
    own = {name: value for name, value in schema.options.items() if not name.startswith("metadata.iceberg")}
    return replace(
        made,
        columns=pa.schema([_plain_field(one) for one in schema.shown_fields]),
        primary_key=schema.primary_key if {*schema.primary_key} <= {*schema.shown} else (),
        partition_by=list(schema.partition_by),
        options={**own, **made.options},
        comment=made.comment if "COMMENT" in made.given else schema.comment,
    )


def _plain_field(column: pa.Field) -> pa.Field:
    """A column of another table: its name, type, comment, length and default, without its field id."""
    metadata = {key: value for key, value in (column.metadata or {}).items() if key in (COMMENT, TEXT_TYPE)}
    made = pa.field(column.name, column.type, column.nullable, metadata or None)
    return with_default(made, WRITE, value) if (value := default_of(column, WRITE)) is not None else made


# -- the clauses --------------------------------------------------------------------------------------------------------


def _definition(node: exp.Create, text: Text, zone: str) -> Definition:
    made = Definition()
    columns: list[exp.Expression] = []
    defaults: dict[str, exp.Expression] = {}
    if isinstance(node.this, exp.Schema):
        for item in node.this.expressions:
            if isinstance(item, exp.PrimaryKey):
                _set_key(made, _key_of(item, text), item, text)
            else:
                columns.append(_column(item, made, defaults, text))
    properties = node.args.get("properties")
    for item in properties.expressions if properties is not None else ():
        columns += _clause(item, made, defaults, text)
    if (named := made.options.pop("primary-key", None)) is not None:
        _set_key(made, tuple(name.strip() for name in named.split(",")), node, text)
    for name in made.primary_key:
        if name in made.nullable:
            cure = "leave NULL out, or the column out of the key"
            text.refuse(made.nullable[name], f"column {name} of the primary key cannot be null", found="NULL", cure=cure)
    if columns:
        made.columns = _with_defaults(ddl.columns_of(columns), defaults, text, zone)
    return made


def _set_key(made: Definition, key: Sequence[str], item: exp.Expression, text: Text) -> None:
    if made.primary_key:
        text.refuse(item, "the primary key is given twice", found=", ".join(key), cure=_WHOLE_KEY)
    made.primary_key = tuple(key)


def _key_of(item: exp.PrimaryKey, text: Text) -> list[str]:
    """The columns of PRIMARY KEY (a, b)."""
    if options := item.args.get("options"):
        text.refuse(item, "a primary key is enforced", found=", ".join(map(str, options)), cure="leave the words behind it out")
    _ = item.args.get("include").args.get("with_storage") if item.args.get("include") is not None else None
    names = item.expressions
    if not all(isinstance(one, (exp.Identifier, exp.Column)) for one in names):
        text.refuse(item, "PRIMARY KEY takes names of columns", cure="name columns")
    return [one.name for one in names]


def _clause(item: exp.Expression, made: Definition, defaults: dict[str, exp.Expression], text: Text) -> Sequence[exp.Expression]:
    """Stores a clause that follows the columns in `made`. Returns the columns that PARTITIONED BY defines."""
    columns: list[exp.Expression] = []
    match item:
        case exp.PartitionedByProperty():
            _once("PARTITIONED BY", made, item, text)
            for part in _items(item):
                if isinstance(part, exp.ColumnDef):
                    columns.append(_column(part, made, defaults, text))
                made.partition_by.append(part.name if isinstance(part, exp.ColumnDef) else _partition_field(part, item, text))
        case exp.SchemaCommentProperty():
            _once("COMMENT", made, item, text)
            made.comment = item.this.name
        case exp.FileFormatProperty():
            _once("USING", made, item, text)
            if item.args.get("hive_format") or item.this is None or item.this.name.lower() not in _PROVIDERS:
                text.refuse(item, "only tables of lsmlake can be created", cure="write USING lsmlake, or leave it out")
        case exp.OptionsProperty():
            _set_options(made, item.expressions, item, text)
        case exp.Property() if type(item) is exp.Property:
            _set_options(made, [item], item, text)
        case exp.PrimaryKey():
            _set_key(made, _key_of(item, text), item, text)
        case exp.ClusteredByProperty():
            _once("CLUSTERED BY", made, item, text)
            if item.args.get("sorted_by"):
                text.refuse(item, "SORTED BY is not supported", cure="leave it out: the rows of a bucket are sorted by their key")
            names = [one.name for one in item.expressions]
            buckets = item.args.get("buckets")
            made.given.add("TBLPROPERTIES")
            _set_option(made, "bucket", buckets.name, item, text)
            _set_option(made, "bucket-key", ",".join(names), item, text)
        case exp.ClusterProperty():
            _once("CLUSTER BY", made, item, text)
            _set_option(made, "clustering.columns", ",".join(one.name for one in item.expressions), item, text)
        case exp.LikeProperty():
            _once("LIKE", made, item, text)
            made.like = name_of(item.this, text)
        case _:
            text.refuse(item, "this is not supported in CREATE TABLE", cure=_CURES.get(type(item).__name__, ""))
    return columns


def _once(clause: str, made: Definition, item: exp.Expression, text: Text) -> None:
    if clause in made.given:
        text.refuse(item, f"{clause} is given twice", cure="give it once")
    made.given.add(clause)


def _set_options(made: Definition, items: Sequence[exp.Expression], clause: exp.Expression, text: Text) -> None:
    made.given.add("TBLPROPERTIES")
    for item in items:
        _set_option(made, *option_of(item), clause, text)


def _set_option(made: Definition, name: str, value: str, item: exp.Expression, text: Text) -> None:
    if name in made.options:
        text.refuse(item, f"the option {name} is given twice", cure="give it once")
    made.options[name] = value


def option_of(item: exp.Expression) -> tuple[str, str]:
    """A table property: its name and value."""
    value = item.args.get("value")
    return _dotted(item.this), str(value.this if isinstance(value, (exp.Literal, exp.Boolean)) else spelled(value))


def _dotted(node: exp.Expression) -> str:
    return spelled(node).replace("`", "") if isinstance(node, (exp.Column, exp.Dot)) else node.name


# -- columns ------------------------------------------------------------------------------------------------------------


def _column(item: exp.Expression, made: Definition, defaults: dict[str, exp.Expression], text: Text) -> exp.Expression:
    """A column definition. Moves its PRIMARY KEY into `made` and its DEFAULT into `defaults`."""
    if not isinstance(item, exp.ColumnDef):
        text.refuse(item, "this is not a column", cure="write name TYPE, or PRIMARY KEY (columns)")
    kept = []
    for constraint in item.args.get("constraints") or ():
        match constraint.args.get("kind"):
            case exp.PrimaryKeyColumnConstraint():
                _set_key(made, [item.name], item, text)
            case exp.DefaultColumnConstraint() as found:
                if item.name in defaults:
                    text.refuse(item, f"column {item.name} has two defaults", cure="give one")
                defaults[item.name] = found.this
            case exp.NotNullColumnConstraint() as found if found.args.get("allow_null"):
                made.nullable[item.name] = item
                kept.append(constraint)
            case _:
                kept.append(constraint)
    return exp.ColumnDef(this=item.this, kind=item.args.get("kind"), constraints=kept)


def _with_defaults(columns: pa.Schema, defaults: dict[str, exp.Expression], text: Text, zone: str) -> pa.Schema:
    for name, node in defaults.items():
        number = columns.names.index(name)
        try:
            value = scalar_of(constant(node, text, zone, columns.field(number).type), columns.field(number), "CREATE TABLE")
        except InvalidSchema as error:
            text.refuse(node, f"the default does not fit column {name}", expected=error.expected, cure="correct the default")
        columns = columns.set(number, with_default(columns.field(number), WRITE, value))
    return columns


def _items(item: exp.PartitionedByProperty) -> list[exp.Expression]:
    return item.this.expressions if isinstance(item.this, (exp.Schema, exp.Tuple)) else [item.this]


def _partition_field(part: exp.Expression, item: exp.Expression, text: Text) -> str:
    """A field of PARTITIONED BY: a column, days(column), bucket(16, column)."""
    match part:
        case exp.Identifier():
            return part.name
        case exp.Column() if not part.args.get("table"):
            return part.name
        case exp.PartitionedByBucket() | exp.PartitionByTruncate():
            name = "bucket" if isinstance(part, exp.PartitionedByBucket) else "truncate"
            return f"{name}({part.expression.name}, {backticked(part.this.name)})"
        case exp.Anonymous():
            names = (one.name if isinstance(one, exp.Literal) else backticked(one.name) for one in part.expressions)
            return f"{part.name}({', '.join(names)})"
    expected = "names such as dt, days(ts), bucket(16, id)"
    text.refuse(item, "PARTITIONED BY takes columns and transforms of them", expected=expected, cure="name columns")
