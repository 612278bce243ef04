"""The alterations of `Table.alter`: one function each, for the columns and the options of a table."""

from __future__ import annotations

from collections.abc import Sequence

from lsmlake.api.public_types import ColumnType, OptionValue, Value
from lsmlake.border import public
from lsmlake.errors import InvalidOption
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
from lsmlake.schema.alterations.of_table import AddPartitionField, DropPartitionField, ReplacePartitionField, SetOption


@public
def set_option(name: str, value: OptionValue) -> Alteration:
    """Set an option of the table.

    Args:
        name: the name of the option.
        value: the value, or its text, such as "128 mb".
    """
    if value is None:
        cure = f"write unset_option({name!r}) for its default"
        raise InvalidOption(f"option {name!r} has no value", where="set_option()", cure=cure)
    return SetOption(name, value)


@public
def unset_option(name: str) -> Alteration:
    """Reset an option to its default."""
    return SetOption(name, None)


@public
def add_column(
    column: str | Sequence[str],
    type: ColumnType,
    *,
    after: str | None = None,
    first: bool = False,
    default: Value = None,
    comment: str | None = None,
) -> Alteration:
    """Add a column, or a field to a struct. Rewrites no file.

    Args:
        column: the name of the column. A field is named by its path, such as "payload.note" or ["payload", "note"]; the element
            of an ARRAY is called `element`, the value of a MAP `value`.
        type: a type in DDL, such as "DECIMAL(10,2) NOT NULL", of PyArrow or of Spark.
        after: the column to come after; by default the last one.
        first: put it before all others.
        default: the value of all existing rows, and of rows written without the column. Under merge engines that combine
            rows, a row without the column does not change it, and has null for a new key. Times without a zone are in UTC.
        comment: a comment.
    """
    return AddColumn(column, type, after, first, default, comment)


@public
def rename_column(column: str | Sequence[str], name: str) -> Alteration:
    """Rename a column, or a field of a struct. Options that name the column follow. Rewrites no file.

    Args:
        column: the name or path; see `add_column`.
        name: the new name, without the path.
    """
    return RenameColumn(column, name)


@public
def drop_column(column: str | Sequence[str]) -> Alteration:
    """Drop a column, or a field of a struct. Its values stay in files until these are compacted, and are
    readable in earlier snapshots; a column added later under the same name does not have them.

    Args:
        column: the name or path; see `add_column`. Not a key column, nor one that an option names.
    """
    return DropColumn(column)


@public
def move_column(column: str | Sequence[str], *, after: str | None = None, first: bool = False) -> Alteration:
    """Move a column among the columns, or a field within its struct.

    Args:
        column: the name or path; see `add_column`.
        after: the column to come after.
        first: put it before all others.
    """
    return MoveColumn(column, after, first)


@public
def change_type(column: str | Sequence[str], type: ColumnType) -> Alteration:
    """Widen the type of a column or of a nested field. Rewrites no file.

    An integer can become a longer one, DOUBLE (from INT and shorter ones) or a DECIMAL with room for its digits; FLOAT can become
    DOUBLE; a DECIMAL can have more digits on each side of the point; DATE can become TIMESTAMP_NTZ. The types of key columns
    cannot change.

    Args:
        column: the name or path; see `add_column`.
        type: the new type; see `add_column`.
    """
    return ChangeType(column, type)


@public
def set_comment(column: str | Sequence[str], comment: str | None) -> Alteration:
    """Set the comment of a column or of a nested field; None removes it."""
    return SetComment(column, comment)


@public
def set_not_null(column: str | Sequence[str]) -> Alteration:
    """Refuse nulls in a column from now on. `alter` first proves that it has none, from statistics or by
    reading the column. If only superseded rows have nulls, it compacts the table."""
    return SetNullable(column, False)


@public
def drop_not_null(column: str | Sequence[str]) -> Alteration:
    """Allow nulls in a column or in a nested field."""
    return SetNullable(column, True)


@public
def set_default(column: str | Sequence[str], value: Value) -> Alteration:
    """Set the value of rows that are written without the column from now on. Existing rows keep their
    values."""
    return SetDefault(column, value)


@public
def drop_default(column: str | Sequence[str]) -> Alteration:
    """Remove the default: from now on every row must be written with a value of the column."""
    return SetDefault(column, None, dropped=True)


@public
def add_partition_field(field: str, *, name: str | None = None) -> Alteration:
    """Partition new files by a further field. Existing files do not change, and are pruned by the fields that they have.

    A table with a primary key allows this only while it has no rows, because the rows of a key would be in two partitions.

    Args:
        field: a column, or a transform of one: "years(c)", "months(c)", "days(c)", "hours(c)", "bucket(16, c)", "truncate(4, c)".
        name: the name of the field, which directory names begin with; default: Iceberg's, such as "ts_day" or "id_bucket_16".
    """
    return AddPartitionField(field, name)


@public
def drop_partition_field(field: str) -> Alteration:
    """Partition new files without a field; see `add_partition_field`.

    Args:
        field: its name, such as "ts_day", or its transform, such as "days(ts)".
    """
    return DropPartitionField(field)


@public
def replace_partition_field(old: str, new: str, *, name: str | None = None) -> Alteration:
    """Partition new files by another field instead of an existing one; see `add_partition_field`.

    Args:
        old: the field to drop: its name or its transform.
        new: the field to add.
        name: the name of the new field.
    """
    return ReplacePartitionField(old, new, name)
