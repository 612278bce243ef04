"""ALTER TABLE and COMMENT ON, read word by word. All clauses of a statement are one commit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import pyarrow as pa

from lsmlake.api.lake import Lake
from lsmlake.dialect.sql_text import Text
from lsmlake.errors import InvalidSchema, TableExists
from lsmlake.schema.alterations.draft import Alteration
from lsmlake.schema.alterations.of_columns import (
    AddColumn,
    ChangeType,
    DropColumn,
    MoveColumn,
    RenameColumn,
    SetComment,
    SetDefault,
    SetNullable,
)
from lsmlake.schema.alterations.of_table import (
    AddPartitionField,
    DropPartitionField,
    ReplacePartitionField,
    SetOption,
    SetTableComment,
)
from lsmlake.schema.fields import field_at, resolve
from lsmlake.schema.schema import Schema
from lsmlake.sql.default_clause import constant
from lsmlake.sql.token_reader import Words, full_name
from lsmlake.tables.views import Views
from lsmlake.types import ddl
from lsmlake.types.type_text import backticked, format_type_of

Action = Callable[[], object]
_ACTIONS = (
    "RENAME TO, RENAME COLUMN, ADD / DROP / ALTER / CHANGE COLUMN, SET / UNSET TBLPROPERTIES, "
    "ADD / DROP / REPLACE PARTITION FIELD"
)
_CURES = {
    "SET LOCATION": "a table lies in the folder of its database: to have it elsewhere, write CALL copy",
    "SET FILEFORMAT": "leave it out: the files of a table are Parquet",
    "SET TAGS": "write SET TBLPROPERTIES for options, COMMENT ON for a description, CALL create_tag to name a snapshot",
    "SET SERDE": "leave it out: the files of a table are Parquet",
    "SET SERDEPROPERTIES": "leave it out: the files of a table are Parquet",
    "DROP CONSTRAINT": "leave it out: a table has no constraints but its key and NOT NULL; write ALTER COLUMN ... DROP NOT NULL",
    "DROP FOREIGN KEY": "leave it out: a table has no foreign keys",
    "DROP PRIMARY KEY": "the key of a table is for life: create another table and insert the rows",
    "DROP INDEX": "write UNSET TBLPROPERTIES ('file-index....columns'), the option that asked for the index",
    "DROP PARTITION": "write DELETE FROM table WHERE ..., or CALL expire_partitions",
    "ADD CONSTRAINT": "leave it out: a key is given at CREATE TABLE; write ALTER COLUMN ... SET NOT NULL",
    "ADD PARTITION": "leave it out: a partition is there with its first row",
    "REPLACE COLUMNS": "write ADD COLUMN, DROP COLUMN and RENAME COLUMN, or CREATE OR REPLACE TABLE",
    "RECOVER PARTITIONS": "leave it out: the snapshots of a table know its partitions",
    "CLUSTER BY": "write SET TBLPROPERTIES ('clustering.columns' = '...')",
}
"""The cure for each clause that Spark or another engine knows and lsmlake does not."""


def alter(lake: Lake, words: Words) -> Action:
    """ALTER TABLE name action"""
    if not words.take("TABLE"):
        words.refuse("only tables and views can be altered", expected="ALTER TABLE or ALTER VIEW")
    if words.follows("IF", "EXISTS"):
        words.refuse("IF EXISTS is not supported here", cure="leave it out")
    name = full_name(lake, words)
    if words.take("RENAME", "TO"):
        return partial(_rename, lake, name, full_name(lake, words))
    table = lake.table(name)
    alterations = _alterations(words, table.version.schema, lake.runtime.zone)
    return partial(table.alter, *alterations)


def _rename(lake: Lake, name: str, new_name: str) -> None:
    if Views(lake.env.storage).is_there(new_name):
        raise TableExists(f"a view has the name {new_name!r}", cure="choose another name, or drop the view")
    lake.rename_table(name, new_name)


def comment_on(lake: Lake, words: Words) -> Action:
    """COMMENT ON TABLE name | COLUMN name.column IS 'text' | NULL. Two names are a table of the current database and a column."""
    words.need("ON")
    kind = words.take_one("TABLE", "COLUMN")
    if words.follows("VIEW"):
        cure = "write ALTER VIEW name SET TBLPROPERTIES ('comment' = 'text')"
        words.refuse("COMMENT ON VIEW is not supported", expected="COMMENT ON TABLE or COMMENT ON COLUMN", cure=cure)
    if not kind:
        words.refuse("this COMMENT is not supported", expected="COMMENT ON TABLE or COMMENT ON COLUMN")
    path = words.path() if kind == "COLUMN" else []
    if len(path) == 2 and lake.session.database:
        path = [lake.session.database, *path]
    name = full_name(lake, words) if kind == "TABLE" else ".".join(path[:2])
    if kind == "COLUMN" and len(path) < 3:
        words.refuse("the column lacks its table", expected="COMMENT ON COLUMN database.table.column")
    words.need("IS")
    comment = None if words.take("NULL") else words.literal("a comment")
    change = SetTableComment(comment) if kind == "TABLE" else SetComment(path[2:], comment)
    table = lake.table(name)
    return partial(table.alter, change)


def _alterations(words: Words, schema: Schema, zone: str) -> list[Alteration]:
    if words.take("RENAME", "COLUMN"):
        return _renamed(words, schema)
    if change := _partition_change(words):
        return [change]
    if _take_columns(words, "ADD"):
        return _added(words, schema, zone)
    if _take_columns(words, "DROP"):
        return _dropped(words, schema)
    if words.take("SET", "TBLPROPERTIES"):
        return [SetOption(*pair) for pair in words.pairs("an option").items()]
    if words.take("UNSET", "TBLPROPERTIES"):
        return _unset(words, schema)
    for first in ("ALTER", "CHANGE"):
        if words.take(first, "COLUMN"):
            return _columns_changed(words, schema, zone, first == "CHANGE")
    for clause, cure in _CURES.items():
        if words.follows(*clause.split()):
            words.refuse(f"{clause} is not supported", expected=_ACTIONS, cure=cure)
    words.refuse("this ALTER TABLE is not supported", expected=_ACTIONS)


def _take_columns(words: Words, first: str) -> bool:
    return words.take(first, "COLUMN") or words.take(first, "COLUMNS")


def _there(schema: Schema, path: Sequence[str]) -> bool:
    try:
        resolve(tuple(schema.columns), path, "")
    except InvalidSchema:
        return False
    return True


def _renamed(words: Words, schema: Schema) -> list[Alteration]:
    """RENAME COLUMN path TO name. The name may repeat the path of the struct; a field cannot move to another struct."""
    optional = words.take("IF", "EXISTS")
    path = words.path("a column")
    words.need("TO")
    *parent, name = words.path("a name")
    if parent and [one.lower() for one in parent] != [one.lower() for one in path[:-1]]:
        cure = "give the new name alone; to move values, add a field and UPDATE it"
        words.refuse("RENAME COLUMN cannot move a field", expected=f"a name in {'.'.join(path[:-1]) or 'the table'}", cure=cure)
    return [] if optional and not _there(schema, path) else [RenameColumn(path, name)]


def _added(words: Words, schema: Schema, zone: str) -> list[Alteration]:
    """[IF NOT EXISTS] column, ... or (column, ...)"""
    optional = words.take("IF", "NOT", "EXISTS")
    read = partial(_column, words, zone)
    columns = words.listed(read) if words.follows("(") else [read()]
    while words.take(","):
        columns.append(read())
    return [one for one in columns if not (optional and _there(schema, one.path))]


def _column(words: Words, zone: str) -> AddColumn:
    """path TYPE [NOT NULL] [DEFAULT value] [COMMENT 'text'] [FIRST | AFTER column]"""
    path, kind = words.path("a column"), words.type()
    if words.take("NOT", "NULL"):
        kind += " NOT NULL"
    default = comment = after = None
    if words.take("DEFAULT"):
        default = _value(words.until("a value", "COMMENT", "FIRST", "AFTER"), zone, _type(kind.removesuffix(" NOT NULL")).type)
    if words.take("COMMENT"):
        comment = words.literal("a comment")
    first = words.take("FIRST")
    if not first and words.take("AFTER"):
        after = words.identifier("a column")
    return AddColumn(path, kind, after, first, default, comment)


def _type(text: str) -> pa.Field:
    """A field with the type that the text names."""
    return ddl.parse_columns(f"c {text}").field(0)


def _value(written: str, zone: str, kind: pa.DataType | None) -> object:
    """The value of an expression without columns."""
    text = Text(written)
    with text.read() as node:
        value = constant(node, text, zone, kind)
    return value


def _dropped(words: Words, schema: Schema) -> list[Alteration]:
    """[IF EXISTS] path, ... or (path, ...)"""
    optional = words.take("IF", "EXISTS")
    paths = words.listed(words.path) if words.follows("(") else [words.path("a column")]
    while words.take(","):
        paths.append(words.path("a column"))
    return [DropColumn(path) for path in paths if not (optional and not _there(schema, path))]


def _unset(words: Words, schema: Schema) -> list[Alteration]:
    """[IF EXISTS] ('option', ...). Without IF EXISTS, as in Spark, an option that is not set is an error."""
    optional = words.take("IF", "EXISTS")
    options = words.listed(lambda: words.literal("an option") if words.is_text() else ".".join(words.path("an option")))
    missing = [option for option in options if option not in schema.options]
    if missing and not optional:
        words.refuse(
            f"the option {missing[0]} is not set",
            expected=f"one of {', '.join(schema.options)}" if schema.options else "no UNSET: the table sets no option",
            cure="write UNSET TBLPROPERTIES IF EXISTS",
        )
    return [SetOption(option, None) for option in options if option not in missing]


def _columns_changed(words: Words, schema: Schema, zone: str, change: bool) -> list[Alteration]:
    """column action, ...; or after CHANGE: column name TYPE [COMMENT 'text'] [FIRST | AFTER column]"""
    alterations: list[Alteration] = []
    while True:
        path = words.path("a column")
        if change and not any(map(words.follows, ("TYPE", "SET", "DROP", "COMMENT", "FIRST", "AFTER"))):
            return _as_in_hive(words, path)
        alterations.append(_changed(words, path, schema, zone))
        if not words.take(","):
            return alterations


def _changed(words: Words, path: list[str], schema: Schema, zone: str) -> Alteration:
    if words.take("TYPE") or words.take("SET", "DATA", "TYPE"):
        kind = words.type()
        if words.follows("USING"):
            words.refuse("USING is not supported", cure="leave it out: a type can only widen, which needs no expression")
        return ChangeType(path, format_type_of(_type(kind)))
    if words.take("SET", "NOT", "NULL"):
        return SetNullable(path, False)
    if words.take("DROP", "NOT", "NULL"):
        return SetNullable(path, True)
    if words.take("SET", "DEFAULT"):
        kind = None
        if _there(schema, path):
            columns = tuple(schema.columns)
            kind = field_at(columns, resolve(columns, path, "")).type
        return SetDefault(path, _value(words.until("a value"), zone, kind))
    if words.take("DROP", "DEFAULT"):
        return SetDefault(path, None, dropped=True)
    if words.take("COMMENT"):
        return SetComment(path, words.literal("a comment"))
    if words.take("FIRST"):
        return MoveColumn(path, None, True)
    if words.take("AFTER"):
        return MoveColumn(path, words.identifier("a column"), False)
    words.refuse(
        "this ALTER COLUMN is not supported",
        expected="TYPE, SET / DROP NOT NULL, SET / DROP DEFAULT, COMMENT, FIRST or AFTER",
    )


def _as_in_hive(words: Words, path: list[str]) -> list[Alteration]:
    """The new name, type, comment and place of a column."""
    name = words.identifier("the name of the column")
    new = [*path[:-1], name]
    alterations: list[Alteration] = [] if name == path[-1] else [RenameColumn(path, name)]
    alterations.append(ChangeType(new, format_type_of(_type(words.type()))))
    if words.take("COMMENT"):
        alterations.append(SetComment(new, words.literal("a comment")))
    if words.take("FIRST"):
        alterations.append(MoveColumn(new, None, True))
    elif words.take("AFTER"):
        alterations.append(MoveColumn(new, words.identifier("a column"), False))
    return alterations


# -- partition fields ---------------------------------------------------------------------------------------------------


def _partition_change(words: Words) -> Alteration | None:
    """ADD | DROP | REPLACE PARTITION FIELD, as in Iceberg's extension of Spark's SQL. None for other forms."""
    if words.take("ADD", "PARTITION", "FIELD"):
        return AddPartitionField(_field_of(words), _name_after_as(words))
    if words.take("DROP", "PARTITION", "FIELD"):
        return DropPartitionField(_field_of(words))
    if words.take("REPLACE", "PARTITION", "FIELD"):
        old = _field_of(words)
        words.need("WITH", cure="write REPLACE PARTITION FIELD old WITH new")
        return ReplacePartitionField(old, _field_of(words), _name_after_as(words))
    return None


def _field_of(words: Words) -> str:
    """A partition field in the text: a name, or a transform of a column."""
    name = words.identifier("a partition field")
    if not words.follows("("):
        return name
    return f"{name}({', '.join(words.listed(partial(_argument, words)))})"


def _argument(words: Words) -> str:
    if words.is_number():
        return str(words.number("a number"))
    return backticked(words.identifier("a column or a number"))


def _name_after_as(words: Words) -> str | None:
    return words.identifier() if words.take("AS") else None
