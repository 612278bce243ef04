"""`lsmlake alter`: change the columns and options of a table."""

from __future__ import annotations

import re
from collections.abc import Iterable

import lsmlake
from lsmlake.api.table import Table
from lsmlake.cli.argument_reading import pairs
from lsmlake.cli.command_maker import CommandResult
from lsmlake.cli.progress import busy
from lsmlake.errors import InvalidOption
from lsmlake.maintain.alter import RESCALE
from lsmlake.schema.alterations.draft import Alteration

_COLUMN = re.compile(
    r"(?P<name>\S+)\s+(?P<type>.+?)(?:\s+DEFAULT\s+(?:'(?P<text>(?:[^']|'')*)'|(?P<word>[^\s']+)))?", re.IGNORECASE | re.DOTALL
)
_DEFAULT = re.compile(r"\sDEFAULT\s", re.IGNORECASE)
_Names = list[str] | None


def alter(
    table: Table,
    *,
    add: _Names = None,
    rename: _Names = None,
    drop: _Names = None,
    type: _Names = None,
    first: _Names = None,
    after: _Names = None,
    comment: _Names = None,
    not_null: _Names = None,
    nullable: _Names = None,
    default: _Names = None,
    add_partition_field: _Names = None,
    drop_partition_field: _Names = None,
    set: _Names = None,
    unset: _Names = None,
) -> CommandResult:
    """Change columns and options of a table, as one commit.

    Options are unset first; then columns are dropped, renamed, widened, added and moved; the rest follows. A field inside a
    struct is named by its path, such as payload.note. If new options give the files another meaning, the commit compacts all
    buckets.

    Args:
        add ('NAME TYPE [DEFAULT VALUE]'): Add a column; may be repeated.
        rename (OLD=NEW): Rename a column; may be repeated.
        drop (NAME): Drop a column; may be repeated.
        type (NAME=TYPE): Widen the type of a column; may be repeated.
        first (NAME): Move a column before all others; may be repeated.
        after (NAME=OTHER): Move a column after another one; may be repeated.
        comment (NAME=TEXT): Set the comment of a column; may be repeated.
        not_null (NAME): Refuse nulls, if the column has none; may be repeated.
        nullable (NAME): Allow nulls; may be repeated.
        default (NAME=VALUE): Set the value of rows written without the column; may be repeated.
        add_partition_field (FIELD): Partition new files by a field: 'days(ts)'; may be repeated.
        drop_partition_field (FIELD): Partition new files without a field; may be repeated.
        set (NAME=VALUE): Set an option; may be repeated.
        unset (NAME): Remove an option; may be repeated.
    """
    _check_exclusive("--not-null", not_null, "--nullable", nullable)
    _check_exclusive("--set", [name for name, _ in pairs(set, "NAME=VALUE")], "--unset", unset)
    alterations: list[Alteration] = [
        *map(lsmlake.unset_option, unset or ()),
        *map(lsmlake.drop_column, drop or ()),
        *(lsmlake.rename_column(*pair) for pair in pairs(rename, "OLD=NEW", "--rename")),
        *(lsmlake.change_type(*pair) for pair in pairs(type, "NAME=TYPE", "--type")),
        *_added(add or ()),
        *(lsmlake.move_column(name, first=True) for name in first or ()),
        *(lsmlake.move_column(name, after=other) for name, other in pairs(after, "NAME=OTHER", "--after")),
        *(lsmlake.set_comment(*pair) for pair in pairs(comment, "NAME=TEXT", "--comment", as_written=True)),
        *(lsmlake.set_default(*pair) for pair in pairs(default, "NAME=VALUE", "--default", as_written=True)),
        *map(lsmlake.drop_not_null, nullable or ()),
        *map(lsmlake.set_not_null, not_null or ()),
        *map(lsmlake.drop_partition_field, drop_partition_field or ()),
        *map(lsmlake.add_partition_field, add_partition_field or ()),
        *(lsmlake.set_option(*pair) for pair in pairs(set, "NAME=VALUE", "--set")),
    ]
    if not alterations:
        raise InvalidOption("nothing to alter", cure="add --set NAME=VALUE, --add 'NAME TYPE' or another option; see --help")
    with busy("altering"):
        snapshot = table.alter(*alterations)
    done = "nothing changed" if snapshot is None else f"altered in snapshot {snapshot.id}"
    if snapshot is not None and (left := snapshot.properties.get(RESCALE)):
        done += f"; {left}"
    return CommandResult({"snapshot_id": snapshot.id if snapshot else None}, f"{table.name}: {done}")


def _added(texts: Iterable[str]) -> list[Alteration]:
    """The additions of columns. Raises InvalidOption."""
    columns = []
    for text in texts:
        match = _COLUMN.fullmatch(text.strip())
        if match is None or _DEFAULT.search(match["type"]):
            cure = "write --add 'NAME TYPE [DEFAULT VALUE]', with quotes around a value with blanks, and nothing behind it"
            raise InvalidOption("not a column", found=repr(text), cure=cure)
        quoted, word = match["text"], match["word"]
        value = quoted.replace("''", "'") if quoted is not None else None if word is None or word.upper() == "NULL" else word
        columns.append(lsmlake.add_column(match["name"], match["type"], default=value))
    return columns


def _check_exclusive(one: str, of_one: _Names, other: str, of_other: _Names) -> None:
    """Refuses a name that two options name which undo each other."""
    if both := [name for name in of_one or () if name in (of_other or ())]:
        raise InvalidOption(f"{one} and {other} exclude each other", found=both[0], cure="leave one of them out")
