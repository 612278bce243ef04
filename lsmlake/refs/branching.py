"""Creates, renames and deletes branches. `refs.forwarding` forwards the table to one.

A branch begins with copies of a snapshot and of the schemas up to it. It shares files with the table: the snapshot that it
begins at holds them (`tables.branches`), like a tag, for the expiry of the table and for that of the branch.

- Create: pin the snapshot (`refs.pinned`); copy schemas and snapshot into new directories; create the file of the branch, if
  absent. Only the last step makes a branch.
- Rename: create the file of the branch under the new name, delete the old one. Its directories keep the name that the branch was
  created under, so no storage needs to move anything.
- Delete: delete the file of the branch, then the files that only the branch names, then its directories.

Renaming a branch, deleting it and forwarding the table to it exclude each other. Such work has these steps:

1. Read the state of the branch. Complete a rename that another program has left behind.
2. Begin the work (`tables.branches`): one program of many creates the file. A program with the same work joins it, because the
   other one may have died.
3. Read the state again. If the work has ended meanwhile, this program was slow: begin anew.
4. Do the work. Each step can be done twice. End the work; only a deletion has no end.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from lsmlake.errors import CommitConflict, CommitUnknown, Corrupt, InvalidQuery, LakeError, StorageFailed, TableNotFound, Wording
from lsmlake.format.branch import DELETE, FORWARD, RENAME, BranchInfo, BranchWork
from lsmlake.format.snapshot import Snapshot
from lsmlake.notebook import Shown
from lsmlake.refs.file_references import NamedFiles, delete, holders_of
from lsmlake.refs.pinned import pinned
from lsmlake.refs.reachability import changelog_of
from lsmlake.refs.rollback_reachability import settled
from lsmlake.tables.branches import BranchState
from lsmlake.tables.version import Metadata, Version

_OF_MAIN = Wording("call it on the table itself", command="name the table without $branch_")


@dataclass(frozen=True)
class BranchReport(Shown):
    """A branch that was deleted or, in a dry run, would be.

    Attributes:
        branch: its name.
        snapshots: how many snapshots it has.
        tags: the names of its tags.
        files: how many files only it needs.
    """

    branch: str
    snapshots: int
    tags: tuple[str, ...]
    files: int


def create_branch(meta: Metadata, name: str, snapshot: Snapshot | None, tag: str | None) -> BranchInfo:
    """Creates a branch.

    Args:
        meta: the table.
        name: the name of the branch.
        snapshot: a retained or tagged snapshot to begin at; None: the table has none.
        tag: the tag that named the snapshot.

    Raises:
        InvalidQuery: the name is not valid, or it is taken; or `meta` is a branch.
        SnapshotNotFound: the snapshot has expired.
    """
    check_main(meta)
    if meta.branches.read(name) is not None:
        raise taken(meta, name)
    info = BranchInfo(meta.env.ids(), meta.paths.table_uuid, name, tag, meta.env.clock(), snapshot)
    if snapshot is None:
        _create(meta, name, info)
        return info

    def undo() -> None:
        if meta.branches.read(name) == info:
            meta.branches.remove(name)
            _clear(meta.on(info.named(name)))

    with pinned(meta, snapshot, (CommitUnknown, StorageFailed), undo):
        _create(meta, name, info)
    return info


def _create(meta: Metadata, name: str, info: BranchInfo) -> None:
    on = meta.on(info.named(name))
    try:
        if info.base is not None:
            for number in meta.schemas.ids():
                if 0 < number <= info.base.schema_id:
                    on.schemas.put(meta.schemas.get(number))
            on.snapshots.put(info.base)
        meta.files.first_schema()
        if not meta.branches.put(name, info):
            raise taken(meta, name)
    except LakeError as failed:
        if not isinstance(failed, StorageFailed):  # after that, the branch may be there or not
            _clear(on)
        raise


def _clear(on: Metadata) -> None:
    """Deletes the schemas, snapshots, tags, consumers and changelogs of a branch, but no other file."""
    for folder in (on.paths.snapshots, on.paths.changelogs, on.paths.consumers, on.paths.tags, on.paths.schemas, on.paths.works):
        on.files.delete_quietly([entry.path for entry in on.env.storage.list(folder)])


def rename_branch(meta: Metadata, name: str, to: str) -> None:
    """Gives a branch another name. Handles with the old name fail. Works on any storage: no file is moved.

    Raises:
        InvalidQuery: the new name is not valid, or it is taken; or the table is read with the branch.
        TableNotFound: there is no branch of that name.
        CommitConflict: the table is being forwarded to the branch, or the branch is being deleted.
    """
    check_main(meta)
    _check_unread(meta, name, "renamed")
    meta.paths.branch_file(to)
    while True:
        name, info, state = settled_state(meta, name)
        if name == to:
            return
        if meta.branches.read(to) is not None:
            raise taken(meta, to)
        state = begin(meta, name, info, state, BranchWork(RENAME, None, name, to))
        if state is not None:
            complete_rename(meta, info, state)
            return


def delete_branch(
    meta: Metadata, name: str, *, dry_run: bool = False, progress: Callable[[str], None] = lambda what: None
) -> BranchReport:
    """Deletes a branch, and the files that only it needs. Writers on the branch fail.

    If the file of the branch is damaged, it is not known which files only the branch needs: they stay as orphans.

    Raises:
        TableNotFound: there is no branch of that name.
        InvalidQuery: the table is read with the branch.
        Corrupt: other metadata cannot be read, so it is not known which files others need. Nothing was deleted.
    """
    check_main(meta)
    _check_unread(meta, name, "deleted")
    while True:
        try:
            name, info, state = settled_state(meta, name)
        except Corrupt:
            return _give_up(meta, name, dry_run=dry_run)
        on = meta.on(info.named(name))
        own, changelogs, count = settled(meta, partial(_own, on))
        tags = tuple(tag.name for tag in on.tags.all())
        paths = settled(meta, partial(_only, meta, own, changelogs, name))
        report = BranchReport(name, count, tags, len(paths))
        if dry_run:
            return report
        if begin(meta, name, info, state, BranchWork(DELETE)) is not None:
            break
    meta.branches.remove(name)
    # Again: the table may have been forwarded before this work began.
    paths = settled(meta, partial(_only, meta, own, changelogs, name))
    for path in paths:
        progress(path)
    delete(meta, paths)
    _clear(on)
    for folder in {name, info.folder}:
        meta.env.storage.prune(meta.paths.branch_folder(folder))
    return report


def _give_up(meta: Metadata, name: str, *, dry_run: bool) -> BranchReport:
    """Deletes a branch whose file or state is damaged: that file, then the rest of its folder, without the directories of other
    branches that were created there. The state of the branch need not be known: no other program can read it either."""
    folder, file = meta.paths.branch_folder(name), meta.paths.branch_file(name)
    listed = [entry.path for entry in meta.env.storage.list(folder)]  # before a branch of that name can be created again
    try:
        others = [meta.branches.read(other) for other in meta.branches.names() if other != name]
    except Corrupt:  # another branch may have been created under the name
        listed = []
    uuids = {info.uuid for info in others if info is not None} if listed else set()
    if not dry_run:
        meta.branches.remove(name)
        own = [path for path in listed if path != file and uuids.isdisjoint(path.split("/"))]
        meta.files.delete_quietly(own)
        meta.env.storage.prune(folder)
    return BranchReport(name, 0, (), 0)


def _own(on: Metadata) -> tuple[NamedFiles, list[str], int]:
    """The files that a branch names, those of its changelogs, and the number of its snapshots."""
    files, numbers, changelogs = NamedFiles(), on.snapshots.ids(), []
    snapshots = [on.snapshots.get(number) for number in numbers]
    recorded = [on.snapshots.recorded(number) for number in on.snapshots.recorded_ids()]
    with on.snapshots.unless_expired(*numbers):
        files.add(on, snapshots)
        for holder in holders_of(on):
            files.add(on, [holder.snapshot])
        for snapshot in (*snapshots, *recorded):
            changelogs += changelog_of(on, snapshot)
    return files, changelogs, len(numbers)


def _only(meta: Metadata, files: NamedFiles, changelogs: Sequence[str], name: str) -> list[str]:
    """The paths of the files that only the branch `name` references."""
    left = files.copied()
    held = [holder for holder in holders_of(meta) if holder.reason != f"branch {name!r}"]
    kept = [meta.snapshots.get(number) for number in meta.snapshots.ids()]
    with meta.snapshots.unless_expired(*kept):
        left.remove(meta, [*(holder.snapshot for holder in held), *reversed(kept)])
        others = {path for snapshot in kept for path in changelog_of(meta, snapshot)} if changelogs else set()
    if changelogs:
        recorded = map(meta.snapshots.recorded, meta.snapshots.recorded_ids())
        others.update(path for snapshot in recorded for path in changelog_of(meta, snapshot))
    return [*left.paths(meta), *(path for path in changelogs if path not in others)]


def check_main(meta: Metadata) -> None:
    if meta.paths.branch is not None:
        raise InvalidQuery(
            "branches belong to the table, not to a branch",
            where=meta.paths.root,
            found=f"branch {meta.paths.branch.name!r}",
            cure=_OF_MAIN,
        )


# -- work that excludes other work ------------------------------------------------------------------------------------


_DOING = {FORWARD: "forwarded to", RENAME: "renamed", DELETE: "deleted"}
_TAKEN = Wording(
    "choose another name; delete_branch() removes a branch",
    command="choose another name, or delete that branch",
    sql="choose another name, or delete that branch",
)


def begin(meta: Metadata, name: str, info: BranchInfo, state: BranchState, work: BranchWork) -> BranchState | None:
    """Does steps 2 and 3. Returns None if the branch has changed: begin anew.

    Raises:
        CommitConflict: another program does other work on the branch.
        TableNotFound: the branch was deleted or renamed.
    """
    if not meta.branches.begin(info, state, work):
        now = meta.branches.state(info)
        if now.ended == state.ended and now.work is not None and now.work.work != work.work:
            raise _busy(meta, name, now.work)
        return now if now.ended == state.ended and now.work == work else None
    try:
        if meta.branches.get(name) != info:
            raise TableNotFound(f"the branch {name!r} was deleted", where=meta.paths.root)
    except TableNotFound:
        meta.files.delete_quietly([meta.paths.on(info.named(name)).begun(state.ended + 1)])
        raise
    now = meta.branches.state(info)
    if now.ended == state.ended and now.work == work:
        return now
    meta.files.delete_quietly([meta.paths.on(info.named(name)).begun(state.ended + 1)])
    return None


def settled_state(meta: Metadata, name: str) -> tuple[str, BranchInfo, BranchState]:
    """Does step 1. Returns the state, and the name of the branch, which is the new name if a rename was completed. Raises
    TableNotFound."""
    while True:
        info = meta.branches.get(name)
        state = meta.branches.state(info)
        if state.work is None or state.work.work != RENAME:
            return name, info, state
        complete_rename(meta, info, state)
        name = state.work.new_name


def complete_rename(meta: Metadata, info: BranchInfo, state: BranchState) -> None:
    """Does step 4 of a rename: creates the file of the new name and deletes the file of the old one. A program that was suspended
    meanwhile changes nothing. Raises InvalidQuery: the name is taken."""
    old, new = state.work.old_name, state.work.new_name
    created = meta.branches.put(new, info)
    if not created and meta.branches.read(new) != info:
        meta.branches.end(info, state, state.base)
        raise taken(meta, new)
    if meta.branches.state(info) != state:
        if created:
            meta.branches.remove(new)
        return
    if meta.branches.read(old) == info:
        meta.branches.remove(old)
    meta.branches.end(info, state, state.base)


def _check_unread(meta: Metadata, name: str, doing: str) -> None:
    """Raises InvalidQuery if the options of the table name the branch: reads of the table would fail without it."""
    read = Version.latest(meta).options.read
    for option, named in (("scan.fallback-branch", read.fallback_branch), ("scan.primary-branch", read.primary_branch)):
        if named == name:
            raise InvalidQuery(
                f"a branch that the table is read with cannot be {doing}",
                where=meta.paths.root,
                found=f"{option} = {name}",
                cure="remove the option of the table first, or name another branch in it",
            )


def taken(meta: Metadata, name: str) -> InvalidQuery:
    return InvalidQuery("the name of the branch is taken", where=meta.paths.root, found=repr(name), cure=_TAKEN)


def _busy(meta: Metadata, name: str, work: BranchWork) -> CommitConflict:
    return CommitConflict(
        f"the branch {name!r} is being {_DOING[work.work]}",
        where=meta.paths.root,
        expected="no other program that forwards to the branch, renames it or deletes it",
        found=work.work,
        cure="wait; if the program that did it has died, repeat what it did",
    )
