"""The commands for named objects of a table: tags, branches and consumers."""

from __future__ import annotations

from collections.abc import Mapping

from lsmlake.api.table import Table
from lsmlake.cli.arguments import Positive, SnapshotId, Timestamp
from lsmlake.cli.command_maker import CommandResult
from lsmlake.cli.progress import busy
from lsmlake.errors import InvalidQuery
from lsmlake.report.listing_views import view_of
from lsmlake.report.text import counted


def consumers(table: Table, *, remove: str | None = None) -> CommandResult:
    """List the consumers of a table and what each reads next.

    Snapshots that a consumer has yet to read do not expire.

    Args:
        remove (NAME): Remove this consumer, then list the others.
    """
    if remove is not None:
        table.reset_consumer(remove)
    listed = table.consumers()
    return CommandResult(listed, view_of("consumers", listed))


def tag(
    table: Table,
    *,
    create: str | None = None,
    snapshot: SnapshotId = None,
    timestamp: Timestamp = None,
    retain: str | None = None,
    replace: bool = False,
    rename: str | None = None,
    to: str | None = None,
    delete: str | None = None,
    expire: bool = False,
    dry_run: bool = False,
) -> CommandResult:
    """List, create, rename or delete the tags of a table.

    A tag names a snapshot. Its rows can be read by this name, with --tag of other commands, also after the snapshot has expired.

    Args:
        create (NAME): Tag the latest snapshot, or the one given.
        retain (TIME): With --create: how long to keep the tag: '7 d'.
        replace: With --create: replace the tag if it exists.
        rename (NAME): Give this tag the name that --to says.
        to (NAME): With --rename: the new name.
        delete (NAME): Delete this tag, and files that only it needs.
        expire: Delete all tags that have expired.
        dry_run: With --delete or --expire: delete nothing, show what would be.
    """
    of_create = {"--snapshot": snapshot, "--timestamp": timestamp, "--retain": retain, "--replace": replace or None}
    needed = {name: ("--create", value) for name, value in of_create.items()} | {"--to": ("--rename", to)}
    needed |= {"--dry-run": ("--delete or --expire", dry_run or None)}
    _check({"--create": create, "--rename": rename, "--delete": delete, "--expire": expire or None}, needed)
    if delete is not None or expire:
        with busy("deleting tags"):
            report = table.expire_tags(dry_run=dry_run) if delete is None else table.delete_tag(delete, dry_run=dry_run)
        if not report.tags:
            return CommandResult(report, f"{table.name}: no tag to delete")
        left = (f"{name}: its files were not deleted: {why}" for name, why in report.left.items())
        return CommandResult(report, (f"{table.name}: {_gone(', '.join(report.tags), report.files, dry_run)}", *left))
    if create is not None:
        table.create_tag(create, snapshot, timestamp=timestamp, retain=retain, replace=replace)
    if rename is not None:
        table.rename_tag(rename, to)
    listed = table.tags()
    return CommandResult(listed, view_of("tags", listed))


def branch(
    table: Table,
    *,
    create: str | None = None,
    snapshot: Positive = None,
    tag: str | None = None,
    rename: str | None = None,
    to: str | None = None,
    delete: str | None = None,
    fast_forward: str | None = None,
    dry_run: bool = False,
) -> CommandResult:
    """List, create, rename, delete or fast-forward to branches.

    A branch has commits, schemas and tags of its own. Other commands take it as 'database.table$branch_NAME'.

    Args:
        create (NAME): Create a branch at the latest snapshot, or at another.
        snapshot (N): With --create: begin at this snapshot.
        tag (NAME): With --create: begin at this tag.
        rename (NAME): Give this branch the name that --to says.
        to (NAME): With --rename: the new name.
        delete (NAME): Delete this branch, and files that only it needs.
        fast_forward (NAME): Make the commits of this branch the commits of the table, which must have no others since.
        dry_run: With --delete: delete nothing, show what would be.
    """
    needed = {"--snapshot": ("--create", snapshot), "--tag": ("--create", tag), "--to": ("--rename", to)}
    needed |= {"--dry-run": ("--delete", dry_run or None)}
    _check({"--create": create, "--rename": rename, "--delete": delete, "--fast-forward": fast_forward}, needed)
    if delete is not None:
        with busy("deleting the branch"):
            report = table.delete_branch(delete, dry_run=dry_run)
        return CommandResult(report, f"{table.name}: branch {_gone(delete, report.files, dry_run)}")
    if fast_forward is not None:
        latest = table.fast_forward(fast_forward)
        number = None if latest is None else latest.id
        return CommandResult({"snapshot_id": number}, f"{table.name}: at snapshot {number or 0} of branch {fast_forward}")
    if create is not None:
        table.create_branch(create, tag=tag, snapshot=snapshot)
    if rename is not None:
        table.rename_branch(rename, to)
    listed = table.branches()
    return CommandResult(listed, view_of("branches", listed))


def _check(verbs: Mapping[str, object], needed: Mapping[str, tuple[str, object]]) -> None:
    """Refuse options that have no effect. `needed`: option -> the options that it belongs to, and its value."""
    given = [name for name, value in verbs.items() if value is not None]
    if len(given) > 1:
        raise InvalidQuery(f"{' and '.join(given)} exclude each other", cure="run one command after the other")
    for name, (owners, value) in needed.items():
        if value is not None and not set(owners.split(" or ")) & set(given):
            raise InvalidQuery(f"{name} has no effect without {owners}", cure=f"add {owners}, or leave {name} out")
    if "--rename" in given and needed["--to"][1] is None:
        raise InvalidQuery("--rename needs the new name", cure="add --to NAME")


def _gone(what: str, files: int, dry_run: bool) -> str:
    would = "would be " if dry_run else ""
    return f"{what} {would}deleted, {counted(files, 'file')} {would}removed"
