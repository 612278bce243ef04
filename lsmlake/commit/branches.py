"""Creates, renames and deletes branches, and forwards the table to one.

A branch begins with copies of a snapshot and of the schemas up to it. It shares files with the table: the snapshot that it
begins at holds them (`store.branches`), like a tag, for the expiry of the table and for that of the branch.

Creation: pin the snapshot (`commit.pinned`); copy schemas and snapshot into new directories; create the file of the
branch, if absent. Only the last step makes a branch.

Forwarding, while no commit came to the table after the snapshot that the branch begins at:

1. Claim the branch, so that no other process deletes it. Copy its schemas. Note in the file of the branch up to which snapshot
   the table is forwarded; nothing expires meanwhile.
2. Copy the tags of the branch, then its snapshots, in order, each if absent. So a crash leaves the table at a snapshot of the
   branch, and forwarding again completes it; a writer of the table that comes first ends it.
3. The files belong to the table from now on: the branch begins at the last snapshot copied, and forgets the older ones.

Deletion: claim the branch, so that no other process forwards the table to it; delete its file, then the files that only it names,
then its directory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from lsmlake.commit.holding import holders_of
from lsmlake.commit.named_files import NamedFiles
from lsmlake.commit.pinned import pinned
from lsmlake.commit.reachability import changelog_of
from lsmlake.commit.returns import settled
from lsmlake.errors import (
    CommitConflict,
    CommitUnknown,
    Corrupt,
    InvalidQuery,
    LakeError,
    SnapshotNotFound,
    StorageFailed,
    Wording,
)
from lsmlake.format.branch import BranchInfo
from lsmlake.format.paths import Branch
from lsmlake.format.snapshot import Snapshot
from lsmlake.notebook import Shown
from lsmlake.store.metadata import Metadata
from lsmlake.store.storage import read_bytes

_FORWARD, _DELETE = b"forward\n", b"delete\n"
_TAKEN = Wording("choose another name; delete_branch() removes a branch", command="choose another name, or delete that branch")
_OF_MAIN = Wording("call it on the table itself", command="name the table without $branch_")
_AFRESH = Wording(
    "copy the rows with upsert(), or create a new branch from the table and write them there",
    command="create a new branch of the table and load the rows there",
)


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
    """Create a branch.

    Args:
        meta: the table.
        name: the name of the branch.
        snapshot: a retained or tagged snapshot to begin at; None: the table has none.
        tag: the tag that named the snapshot.

    Raises:
        InvalidQuery: the name is not valid, or it is taken; or `meta` is a branch.
        SnapshotNotFound: the snapshot has expired.
    """
    _check_main(meta)
    if meta.branches.read(name) is not None:
        raise _taken(meta, name)
    info = BranchInfo(meta.env.ids(), meta.paths.table_uuid, tag, meta.env.clock(), snapshot)
    if snapshot is None:
        _create(meta, name, info)
        return info
    with pinned(meta, snapshot, uncertain=(CommitUnknown, StorageFailed)):
        _create(meta, name, info)
    return info


def _create(meta: Metadata, name: str, info: BranchInfo) -> None:
    on = meta.on(Branch(name, info.uuid))
    try:
        if info.base is not None:
            for number in meta.schemas.ids():
                if 0 < number <= info.base.schema_id:
                    on.schemas.put(meta.schemas.get(number))
            on.snapshots.put(info.base)
        meta.files.first_schema()
        if not meta.branches.put(name, info):
            raise _taken(meta, name)
    except LakeError as failed:
        if not isinstance(failed, StorageFailed):  # after that, the branch may be there or not
            _clear(on)
        raise


def _clear(on: Metadata) -> None:
    """Delete the schemas, snapshots, tags, consumers and changelogs of a branch, but no other file."""
    for folder in (on.paths.snapshots, on.paths.changelogs, on.paths.consumers, on.paths.tags, on.paths.schemas):
        on.files.delete_quietly([entry.path for entry in on.env.storage.list(folder)])


def rename_branch(meta: Metadata, name: str, to: str) -> None:
    """Give a branch another name, at once. Handles with the old name fail.

    Raises:
        InvalidQuery: the new name is not valid, or it is taken.
        TableNotFound: there is no branch of that name.
    """
    _check_main(meta)
    target = meta.paths.branch_home(to)
    meta.branches.get(name)
    if name != to and not meta.env.storage.move(meta.paths.branch_home(name), target):
        meta.branches.get(name)
        raise _taken(meta, to)


def delete_branch(
    meta: Metadata, name: str, *, dry_run: bool = False, progress: Callable[[str], None] = lambda what: None
) -> BranchReport:
    """Delete a branch, and the files that only it needs. Writers on the branch fail.

    If the file of the branch is damaged, it is not known which files only the branch needs: they stay as orphans.

    Raises:
        TableNotFound: there is no branch of that name.
        Corrupt: other metadata cannot be read, so it is not known which files others need. Nothing was deleted.
    """
    _check_main(meta)
    try:
        on = meta.on(meta.branches.place(name))
    except Corrupt:
        return _give_up(meta, name, dry_run=dry_run)
    own, changelogs, count = settled(meta, lambda: _own(on))
    tags = tuple(tag.name for tag in on.tags.all())
    paths = settled(meta, lambda: _only(meta, own, changelogs, name))
    report = BranchReport(name, count, tags, len(paths))
    if dry_run:
        return report
    _claim(on, _DELETE)
    meta.env.storage.delete(meta.paths.branch_file(name))
    # Again: the table may have been forwarded before the claim.
    paths = settled(meta, lambda: _only(meta, own, changelogs, name))
    for path in paths:
        progress(path)
        meta.env.storage.delete(path)
    _clear(on)
    meta.env.storage.delete(meta.paths.claim(on.paths.branch))
    if meta.branches.read(name) is None:
        meta.env.storage.prune(meta.paths.branch_home(name))
    return report


def _give_up(meta: Metadata, name: str, *, dry_run: bool) -> BranchReport:
    """Delete a branch whose file is damaged: that file, then the rest of its directory. The branch cannot be claimed, because its
    uuid is not known; but no other program can read the file either and forward the table to the branch."""
    home = meta.paths.branch_home(name)
    listed = [entry.path for entry in meta.env.storage.list(home)]  # before a branch of that name can be created again
    if not dry_run:
        meta.env.storage.delete(meta.paths.branch_file(name))
        meta.files.delete_quietly(path for path in listed if path != meta.paths.branch_file(name))
        if meta.branches.read(name) is None:
            meta.env.storage.prune(home)
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
        base = on.branches.get(on.paths.branch.name).base
        for snapshot in (*snapshots, *recorded):
            if base is None or snapshot.id > base.id:  # that of the base belongs to the table
                changelogs += changelog_of(on, snapshot)
    return files, changelogs, len(numbers)


def _only(meta: Metadata, files: NamedFiles, changelogs: Sequence[str], name: str) -> list[str]:
    """The paths of those files that nothing but the branch `name` names."""
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


def _claim(on: Metadata, work: bytes) -> None:
    """Exclude other work of this kind on the branch; work that a crash has ended is continued."""
    path = on.paths.claim(on.paths.branch)
    on.files.first_schema()
    if on.env.storage.put_if_absent(path, work):
        return
    try:
        found = read_bytes(on.env.storage, path)
    except FileNotFoundError:
        found = b"ended"
    if found != work:
        raise CommitConflict(
            f"the branch {on.paths.branch.name!r} is being {'forwarded to' if found == _FORWARD else 'deleted'}",
            where=path,
            expected="no other program that forwards to the branch or deletes it",
            found=found.decode(errors="replace"),
            cure="wait; if the program that did it has died, repeat what it did",
        )


# -- forwarding -------------------------------------------------------------------------------------------------------


def fast_forward(meta: Metadata, name: str) -> Snapshot | None:
    """Forward the table to the latest snapshot of a branch. Returns the latest snapshot of the table.

    Raises:
        CommitConflict: the table has commits that the branch does not have.
        TableNotFound: there is no branch of that name.
    """
    _check_main(meta)
    info = meta.branches.get(name)
    on = meta.on(Branch(name, info.uuid))
    latest = meta.snapshots.latest()
    _check_line(meta, on, info, latest)
    goal = info.forward or on.snapshots.latest()
    if goal is None or (latest is not None and goal.id <= latest.id):
        if info.forward is not None:
            _finish(on, name, info, info.forward)
        return latest
    first = 1 if latest is None else latest.id + 1
    _check_retained(on, first, goal.id)
    _claim(on, _FORWARD)
    _copy_schemas(meta, on, 0 if latest is None else latest.schema_id, goal.schema_id)
    if info.forward is None:
        info = replace(info, forward=goal)
        meta.branches.replace(name, info)
    tags = [tag for tag in on.tags.all() if tag.snapshot.id <= goal.id]
    for tag in tags:
        if not meta.tags.put(tag) and meta.tags.get(tag.name).snapshot != tag.snapshot:
            _finish(on, name, info, latest)
            raise InvalidQuery(
                f"the table has another tag {tag.name!r} than the branch",
                where=meta.paths.root,
                expected=f"snapshot {tag.snapshot.id}, as on the branch",
                found=f"snapshot {meta.tags.get(tag.name).snapshot.id}",
                cure="rename or delete one of the two tags",
            )
    for number in range(first, goal.id + 1):
        if not _copy(meta, on, number):
            _finish(on, name, info, on.snapshots.get(number - 1) if number > first else latest)
            raise _diverged(meta, name, info, number)
    meta.snapshots.note_latest(goal)
    _finish(on, name, info, goal)
    return goal


def _check_line(meta: Metadata, on: Metadata, info: BranchInfo, latest: Snapshot | None) -> None:
    """Raises CommitConflict unless the latest snapshot of the table is that which the branch begins at, or one of the branch."""
    if latest == info.base:
        return
    if latest is not None:
        try:
            if on.snapshots.get(latest.id) == latest:
                return
        except SnapshotNotFound:
            on.files.first_schema()
    first = 1 if info.base is None else info.base.id + 1
    raise _diverged(meta, on.paths.branch.name, info, first)


def _diverged(meta: Metadata, name: str, info: BranchInfo, first: int) -> CommitConflict:
    base = "before its first snapshot" if info.base is None else f"at snapshot {info.base.id}"
    numbers = [number for number in meta.snapshots.ids() if number >= first]
    found = []
    for number in numbers[:5]:
        try:
            came = meta.snapshots.get(number)
            found.append(f"snapshot {number} ({came.kind} by {came.writer_id})")
        except SnapshotNotFound:
            continue
    more = f" and {len(numbers) - len(found)} more" if len(numbers) > len(found) else ""
    return CommitConflict(
        f"the table has commits that the branch {name!r}, which begins {base}, does not have",
        where=meta.paths.root,
        expected="no commit on the table since the branch was created",
        found=f"{', '.join(found)}{more}" or "a commit under way",
        cure=_AFRESH,
    )


def _check_retained(on: Metadata, first: int, last: int) -> None:
    there = {*on.snapshots.ids(), *on.snapshots.cut_ids()}
    if missing := [number for number in range(first, last + 1) if number not in there]:
        raise SnapshotNotFound(
            f"the table cannot be forwarded: snapshot {missing[0]} of the branch has expired",
            where=on.paths.home,
            expected=f"all snapshots from {first} on",
            cure=_AFRESH,
        )


def _copy_schemas(meta: Metadata, on: Metadata, after: int, last: int) -> None:
    for number in on.schemas.ids():
        if not after < number <= last:
            continue
        schema = on.schemas.get(number)
        if not meta.schemas.put(schema) and meta.schemas.get(number).encode() != schema.encode():
            raise CommitConflict(
                f"an alteration of the table has taken the number {number}, which a schema of the branch has",
                where=meta.paths.schema(number),
                expected="no alteration since the branch was created",
                found="a schema file that no snapshot names",
                cure="wait for the alteration to end; if none is under way, delete the file",
            )


def _copy(meta: Metadata, on: Metadata, number: int) -> bool:
    """Copy a snapshot, or the mark of one that a rollback removed. Returns False if another commit has taken the number."""
    if on.snapshots.is_cut(number):
        return meta.snapshots.put_cut(number) or meta.snapshots.is_cut(number)
    snapshot = on.snapshots.get(number)
    if meta.snapshots.put(snapshot):
        return True
    try:
        return meta.snapshots.get(number) == snapshot
    except SnapshotNotFound:
        return False


def _finish(on: Metadata, name: str, info: BranchInfo, goal: Snapshot | None) -> None:
    """Step 3: the branch begins at `goal`, the last of its snapshots that the table has."""
    if on.branches.get(name).forward == info.forward:  # otherwise another process has finished it
        if goal is not None:
            _forget(on, goal)
        on.branches.replace(name, replace(info, base=goal, forward=None))
    on.env.storage.delete(on.paths.claim(on.paths.branch))


def _forget(on: Metadata, goal: Snapshot) -> None:
    """Remove what the branch has up to `goal`, which belongs to the table now, without any other file."""
    for tag in on.tags.all():
        if tag.snapshot.id <= goal.id:
            on.tags.remove(tag.name)
    numbers, marks = on.snapshots.numbers()
    if older := [number for number in numbers if number < goal.id]:
        on.snapshots.retire(older, marks[-1] if marks else None)
    for number in on.snapshots.recorded_ids():
        if number <= goal.id:
            on.env.storage.delete(on.paths.changelog(number))


# -- errors -----------------------------------------------------------------------------------------------------------


def _check_main(meta: Metadata) -> None:
    if meta.paths.branch is not None:
        raise InvalidQuery(
            "branches belong to the table, not to a branch",
            where=meta.paths.root,
            found=f"branch {meta.paths.branch.name!r}",
            cure=_OF_MAIN,
        )


def _taken(meta: Metadata, name: str) -> InvalidQuery:
    return InvalidQuery("the name of the branch is taken", where=meta.paths.root, found=repr(name), cure=_TAKEN)
