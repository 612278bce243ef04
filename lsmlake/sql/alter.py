"""ALTER TABLE."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

import pyarrow as pa
from sqlglot import exp

from lsmlake.api.lake import Lake
from lsmlake.dialect.text import Text
from lsmlake.schema import ddl
from lsmlake.schema.alterations.alteration import Alteration
from lsmlake.schema.alterations.attributes import ChangeType, SetComment, SetDefault, SetNullable
from lsmlake.schema.alterations.columns import AddColumn, DropColumn, MoveColumn, RenameColumn
from lsmlake.schema.alterations.options import SetOption
from lsmlake.schema.alterations.partition_fields import AddPartitionField, DropPartitionField, ReplacePartitionField
from lsmlake.schema.type_text import backticked, format_type
from lsmlake.sql.create import option_of
from lsmlake.sql.defaults import constant
from lsmlake.sql.words import Words


def alter(lake: Lake, node: exp.Alter, text: Text) -> Callable[[], object]:
    """ALTER TABLE: one commit for all actions."""
    text.word(node, "kind", "TABLE")
    name = ".".join(part.name for part in node.this.parts)
    actions = node.args.get("actions")
    if len(actions) == 1 and isinstance(actions[0], exp.AlterRename):
        return partial(lake.rename_table, name, ".".join(part.name for part in actions[0].this.parts))
    table, zone = lake.table(name), lake.runtime.zone
    return partial(
        table.alter, *(made for action in actions for made in _alterations(action, table.version.schema.columns, text, zone))
    )


def alter_by_words(lake: Lake, words: Words) -> Callable[[], object] | None:
    """UNSET TBLPROPERTIES, ALTER COLUMN ... FIRST | AFTER and ... PARTITION FIELD, which sqlglot does not parse. None for other
    forms."""
    if not words.take("TABLE"):
        return None
    name = words.name()
    if words.take("UNSET", "TBLPROPERTIES"):
        words.take("IF", "EXISTS")
        if not words.take("("):
            words.refuse("expected (")
        options = [words.one("an option")]
        while words.take(","):
            options.append(words.one("an option"))
        if not words.take(")"):
            words.refuse("expected )")
        return partial(lake.table(name).alter, *(SetOption(option, None) for option in options))
    if (change := _partition_change(words)) is not None:
        return partial(lake.table(name).alter, change)
    if words.take("ALTER", "COLUMN"):
        column = words.name().split(".")
        if words.take("FIRST"):
            return partial(lake.table(name).alter, MoveColumn(column, None, True))
        if words.take("AFTER"):
            return partial(lake.table(name).alter, MoveColumn(column, words.one("a column"), False))
    return None


def _partition_change(words: Words) -> Alteration | None:
    """ADD | DROP | REPLACE PARTITION FIELD, as in Iceberg's extension of Spark's SQL. None for other forms."""
    if words.take("ADD", "PARTITION", "FIELD"):
        return AddPartitionField(_field_of(words), _name_after_as(words))
    if words.take("DROP", "PARTITION", "FIELD"):
        return DropPartitionField(_field_of(words))
    if words.take("REPLACE", "PARTITION", "FIELD"):
        old = _field_of(words)
        if not words.take("WITH"):
            words.refuse("expected WITH", cure="write REPLACE PARTITION FIELD old WITH new")
        return ReplacePartitionField(old, _field_of(words), _name_after_as(words))
    return None


def _field_of(words: Words) -> str:
    """A partition field in the text: a name, or a transform of a column."""
    name = words.one("a partition field")
    if not words.take("("):
        return name
    arguments = [_argument(words)]
    while words.take(","):
        arguments.append(_argument(words))
    if not words.take(")"):
        words.refuse("expected )")
    return f"{name}({', '.join(arguments)})"


def _argument(words: Words) -> str:
    found = words.one("a column or a number")
    return found if found.isdecimal() else backticked(found)


def _name_after_as(words: Words) -> str | None:
    return words.one("a name") if words.take("AS") else None


def _alterations(action: exp.Expression, columns: pa.Schema, text: Text, zone: str) -> Iterable[Alteration]:
    match action:
        case exp.Schema():
            return [_added(item, text, zone) for item in action.expressions]
        case exp.ColumnDef():
            return [_added(action, text, zone)]
        case exp.RenameColumn():
            return [_renamed(action, text)]
        case exp.Drop():
            text.word(action, "kind", "COLUMN", "COLUMNS")
            return [DropColumn(_path(column)) for column in action.args.get("tables")]
        case exp.AlterSet():
            found = [item for part in action.expressions for item in part.expressions]
            return [SetOption(*option_of(item)) for item in found]
        case exp.AlterColumn():
            return [_changed(action, columns, text, zone)]
    text.refuse(action, "this ALTER is not supported")


def _renamed(action: exp.RenameColumn, text: Text) -> Alteration:
    """`RENAME COLUMN a.b TO c`, or `TO a.c`."""
    path, to = _path(action.this), _path(action.args.get("to"))
    if len(to) > 1 and [one.lower() for one in to[:-1]] != [one.lower() for one in path[:-1]]:
        what = "a column cannot be moved into another STRUCT"
        text.refuse(action, what, expected=".".join([*path[:-1], to[-1]]), cure="add a column and copy the values")
    return RenameColumn(path, to[-1])


def _path(node: exp.Expression) -> list[str]:
    return [part.name for part in node.parts] if isinstance(node, (exp.Column, exp.Dot)) else [node.name]


def _added(item: exp.Expression, text: Text, zone: str) -> Alteration:
    if not isinstance(item, exp.ColumnDef):
        text.refuse(item, "this is not a column", cure="write name TYPE")
    comment = default = None
    for constraint in item.args.get("constraints") or ():
        match constraint.args.get("kind"):
            case exp.CommentColumnConstraint() as found:
                comment = found.name
            case exp.DefaultColumnConstraint() as found:
                default = constant(found.this, text, zone, ddl.type_of(item.args.get("kind")))
            case _:
                text.refuse(constraint, "this is not supported for a new column")
    place = item.args.get("position")
    after = place.this.name if place is not None and place.this is not None else None
    first = place is not None and text.word(place, "position", "FIRST", "AFTER") == "FIRST"
    kind = format_type(ddl.type_of(item.args.get("kind")))
    return AddColumn(_path(item.this), kind, after, first, default, comment)


def _changed(action: exp.AlterColumn, columns: pa.Schema, text: Text, zone: str) -> Alteration:
    path, given = _path(action.this), action.args
    if given.get("dtype") is not None:
        return ChangeType(path, format_type(ddl.type_of(given["dtype"])))
    if given.get("allow_null") is not None:
        return SetNullable(path, bool(given["allow_null"]))
    if given.get("comment") is not None:
        return SetComment(path, given["comment"].this)
    if given.get("default") is not None:
        kind = columns.field(path[0]).type if len(path) == 1 and path[0] in columns.names else None
        return SetDefault(path, constant(given["default"], text, zone, kind))
    if given.get("drop"):
        return SetDefault(path, None, dropped=True)
    text.refuse(action, "this ALTER COLUMN is not supported")
