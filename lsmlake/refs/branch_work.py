"""Work on a branch that excludes other work: to forward the table to it, to rename it, to delete it.

1. Read the state of the branch. Complete a rename that another program has left behind.
2. Begin the work (`tables.branches`): one program of many creates the file. A program with the same work joins it, because the
   other one may have died.
3. Read the state again. If the work has ended meanwhile, this program was slow: begin anew.
4. Do the work. Each step can be done twice. End the work; only a deletion has no end.
"""

from __future__ import annotations

from lsmlake.errors import CommitConflict, InvalidQuery, TableNotFound, Wording
from lsmlake.format.branch import DELETE, FORWARD, RENAME, BranchInfo, BranchWork
from lsmlake.tables.branches import BranchState
from lsmlake.tables.metadata import Metadata

_DOING = {FORWARD: "forwarded to", RENAME: "renamed", DELETE: "deleted"}
_TAKEN = Wording("choose another name; delete_branch() removes a branch", command="choose another name, or delete that branch")


def begin(meta: Metadata, name: str, info: BranchInfo, state: BranchState, work: BranchWork) -> BranchState | None:
    """Steps 2 and 3. None: the branch has changed, begin anew.

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
    """Step 1. Also the name of the branch, which is another one after a rename that was left behind. Raises TableNotFound."""
    while True:
        info = meta.branches.get(name)
        state = meta.branches.state(info)
        if state.work is None or state.work.work != RENAME:
            return name, info, state
        complete_rename(meta, info, state)
        name = state.work.new_name


def complete_rename(meta: Metadata, info: BranchInfo, state: BranchState) -> None:
    """Step 4 of a rename: create the file of the new name, delete that of the old one. A program that was suspended changes
    nothing any more. Raises InvalidQuery: the name is taken."""
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
