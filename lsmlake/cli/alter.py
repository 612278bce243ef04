"""`lsmlake alter`: change the columns and options of a table."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Annotated

import typer

import lsmlake
from lsmlake.cli.arguments import Debug, Json, TableName, Warehouse
from lsmlake.cli.opening import open_lake, open_table, pairs
from lsmlake.cli.output import Sentences, emit
from lsmlake.cli.progress import spinner
from lsmlake.errors import InvalidOption
from lsmlake.schema.alterations.alteration import Alteration

_COLUMN = re.compile(
    r"(?P<name>\S+)\s+(?P<type>.+?)(?:\s+DEFAULT\s+(?P<quote>'?)(?P<default>.*)(?P=quote))?", re.IGNORECASE | re.DOTALL
)


def _repeated(name: str, metavar: str, help: str) -> object:
    return typer.Option(name, metavar=metavar, help=f"{help}; may be repeated.")


Add = Annotated[list[str] | None, _repeated("--add", "'NAME TYPE [DEFAULT VALUE]'", "Add a column")]
Rename = Annotated[list[str] | None, _repeated("--rename", "OLD=NEW", "Rename a column")]
Drop = Annotated[list[str] | None, _repeated("--drop", "NAME", "Drop a column")]
Type = Annotated[list[str] | None, _repeated("--type", "NAME=TYPE", "Widen the type of a column")]
First = Annotated[list[str] | None, _repeated("--first", "NAME", "Move a column before all others")]
After = Annotated[list[str] | None, _repeated("--after", "NAME=OTHER", "Move a column after another one")]
Comment = Annotated[list[str] | None, _repeated("--comment", "NAME=TEXT", "Set the comment of a column")]
NotNull = Annotated[list[str] | None, _repeated("--not-null", "NAME", "Refuse nulls, if the column has none")]
Nullable = Annotated[list[str] | None, _repeated("--nullable", "NAME", "Allow nulls")]
Default = Annotated[list[str] | None, _repeated("--default", "NAME=VALUE", "Set the value of rows written without the column")]
AddField = Annotated[list[str] | None, _repeated("--add-partition-field", "FIELD", "Partition new files by a field: 'days(ts)'")]
DropField = Annotated[list[str] | None, _repeated("--drop-partition-field", "FIELD", "Partition new files without a field")]
Set = Annotated[list[str] | None, _repeated("--set", "NAME=VALUE", "Set an option")]
Unset = Annotated[list[str] | None, _repeated("--unset", "NAME", "Remove an option")]


def alter(
    ctx: typer.Context,
    table: TableName,
    add: Add = None,
    rename: Rename = None,
    drop: Drop = None,
    type: Type = None,
    first: First = None,
    after: After = None,
    comment: Comment = None,
    not_null: NotNull = None,
    nullable: Nullable = None,
    default: Default = None,
    add_partition_field: AddField = None,
    drop_partition_field: DropField = None,
    set: Set = None,
    unset: Unset = None,
    json: Json = False,
    warehouse: Warehouse = None,
    debug: Debug = False,
) -> None:
    """Change columns and options of a table, as one commit.

    Options are unset first; then columns are dropped, renamed, widened, added and moved; the rest follows. A field inside a
    struct is named by its path, such as payload.note. If new options give the files another meaning, the commit compacts all
    buckets.
    """
    alterations: list[Alteration] = [
        *map(lsmlake.unset_option, unset or ()),
        *map(lsmlake.drop_column, drop or ()),
        *(lsmlake.rename_column(*pair) for pair in pairs(rename, "OLD=NEW")),
        *(lsmlake.change_type(*pair) for pair in pairs(type, "NAME=TYPE")),
        *_added(add or ()),
        *(lsmlake.move_column(name, first=True) for name in first or ()),
        *(lsmlake.move_column(name, after=other) for name, other in pairs(after, "NAME=OTHER")),
        *(lsmlake.set_comment(*pair) for pair in pairs(comment, "NAME=TEXT")),
        *(lsmlake.set_default(*pair) for pair in pairs(default, "NAME=VALUE")),
        *map(lsmlake.drop_not_null, nullable or ()),
        *map(lsmlake.set_not_null, not_null or ()),
        *map(lsmlake.drop_partition_field, drop_partition_field or ()),
        *map(lsmlake.add_partition_field, add_partition_field or ()),
        *(lsmlake.set_option(*pair) for pair in pairs(set, "NAME=VALUE")),
    ]
    found = open_table(open_lake(ctx, warehouse, debug), table)
    if not alterations:
        raise InvalidOption("nothing to alter", cure="add --set NAME=VALUE, --add 'NAME TYPE' or another option; see --help")
    with spinner() as progress:
        progress.add_task("altering", total=None)
        snapshot = found.alter(*alterations)
    done = "nothing changed" if snapshot is None else f"altered in snapshot {snapshot.id}"
    emit({"snapshot_id": snapshot.id if snapshot else None}, Sentences((f"{found.name}: {done}",)), json)


def _added(texts: Iterable[str]) -> list[Alteration]:
    """The additions of columns. Raises InvalidOption."""
    found = []
    for text in texts:
        match = _COLUMN.fullmatch(text.strip())
        if match is None:
            raise InvalidOption("not a column", found=repr(text), cure="write --add 'NAME TYPE [DEFAULT VALUE]'")
        default = match["default"]
        is_null = default is not None and not match["quote"] and default.upper() == "NULL"
        found.append(lsmlake.add_column(match["name"], match["type"], default=None if is_null else default))
    return found
