"""Forwards the table to a branch, while no commit came to the table after the snapshot that the branch begins at.

1. Copy the schemas of the branch. Begin the work (`refs.branching`), which names the last snapshot to copy. Until it ends, no
   snapshot of the table or of the branch expires.
2. Copy the snapshots of the branch, in order, each if absent. So a crash leaves the table at a snapshot of the branch, and
   forwarding again completes it; a writer of the table that comes first ends it. The numbers of snapshots that have expired on
   the branch are taken by the marks that a cut leaves, so older snapshots of the table stay. Copy the tags last: the table must
   not have tags of snapshots that it does not have.
3. The files belong to the table from now on: the branch begins at the last snapshot copied, and forgets the older ones.

The expiry of a branch that has begun before step 1 first replaces snapshots by marks, then asks `Branches.owned`, then deletes
files. So it sees the work, or step 2 sees the marks.
"""

from __future__ import annotations

from lsmlake.errors import CommitConflict, InvalidQuery, SnapshotNotFound, Wording
from lsmlake.format.branch import FORWARD, BranchInfo, BranchWork
from lsmlake.format.snapshot import Snapshot
from lsmlake.refs.branching import begin, check_main, settled_state
from lsmlake.tables.branches import BranchState
from lsmlake.tables.consumers import consumers
from lsmlake.tables.version import Metadata

_AFRESH = Wording(
    "copy the rows with upsert(), or create a new branch from the table and write them there",
    command="create a new branch of the table and load the rows there",
    sql="INSERT the rows, or CALL create_branch for a new branch and insert them there",
)
_CONSUMER_OF_BRANCH = Wording(
    "let it read the branch to its end, or remove it by reset_consumer() of the branch",
    command="let it read the branch to its end, or remove it: `lsmlake consumers 'TABLE$branch_NAME' --remove NAME`",
    sql="let it read the branch to its end, or remove it: CALL reset_consumer of the branch",
)
_CONSUMER = Wording(
    "let it read the table to its end and reset_consumer() to the latest snapshot of the branch, or remove it",
    command="`lsmlake consumers TABLE --remove NAME` removes it",
    sql="let it read the table to its end, or remove it: CALL reset_consumer",
)


def fast_forward(meta: Metadata, name: str) -> Snapshot | None:
    """Forward the table to the latest snapshot of a branch. Returns the latest snapshot of the table.

    Raises:
        CommitConflict: the table has commits that the branch does not have; or the branch is being deleted.
        InvalidQuery: the table has another tag of the same name as the branch; or a consumer of the table needs changes that have
            expired on the branch; or a consumer of the branch has not read it to its end.
        TableNotFound: there is no branch of that name.
    """
    check_main(meta)
    while True:
        name, info, state = settled_state(meta, name)
        on, latest = meta.on(info.named(name)), meta.snapshots.latest()
        goal = state.forward or on.snapshots.latest()
        if state.forward is None:
            _check_line(meta, on, state.base, latest)
            if goal is None or (latest is not None and goal.id <= latest.id):
                return latest
            _check_consumers(meta, on, latest, goal)
            _check_consumers_of_branch(on, name, goal)
            _check_tags(meta, on, goal)
        _copy_schemas(meta, on, 0 if state.base is None else state.base.schema_id, goal.schema_id)
        state = begin(meta, name, info, state, BranchWork(FORWARD, goal))
        if state is None:
            continue
        diverged = None
        try:
            if not _has(meta, state.forward):  # otherwise a program died after it had copied them
                _copy_snapshots(meta, on, state)
        except CommitConflict as conflict:
            diverged = conflict
        if meta.branches.state(info) != state:  # another process has finished it
            continue
        reached = _last_common(meta, on, state)
        _finish(meta, on, info, state, reached)
        if diverged is not None:
            raise diverged
        if reached == state.forward:  # otherwise a rollback with cut has removed it from the branch
            meta.snapshots.note_latest(reached)
            return meta.snapshots.latest()


def _check_line(meta: Metadata, on: Metadata, base: Snapshot | None, latest: Snapshot | None) -> None:
    """Raises CommitConflict unless the branch begins at the latest snapshot of the table, or has this snapshot."""
    if latest == base:
        return
    if latest is not None:
        try:
            if on.snapshots.get(latest.id) == latest:
                return
        except SnapshotNotFound:
            on.files.first_schema()
    raise _diverged(meta, on, base, 1 if base is None else base.id + 1)


def _check_consumers(meta: Metadata, on: Metadata, latest: Snapshot | None, goal: Snapshot) -> None:
    """Raises InvalidQuery if a consumer of the table would need the changes of a snapshot that has expired on the branch."""
    first, known = 1 if latest is None else latest.id + 1, {*on.snapshots.ids(), *on.snapshots.cut_ids()}
    missing = [number for number in range(first, goal.id + 1) if number not in known]
    for consumer in consumers(meta) if missing else ():
        raise InvalidQuery(
            f"consumer {consumer.name!r} of the table could not read all changes of the branch",
            where=meta.paths.root,
            expected=f"all snapshots of the branch from {first} on",
            found=f"snapshot {missing[0]} has expired",
            cure=_CONSUMER,
        )


def _check_consumers_of_branch(on: Metadata, name: str, goal: Snapshot) -> None:
    """Raises InvalidQuery if a consumer of the branch has yet to read snapshots that the branch forgets (step 3)."""
    for consumer in consumers(on):
        following, full = consumer.progress
        if following < goal.id or (following == goal.id and not full):
            raise InvalidQuery(
                f"consumer {consumer.name!r} of the branch {name!r} has not read all that the table gets",
                where=on.paths.root,
                expected=f"a consumer that reads snapshot {goal.id + 1} next",
                found=f"it reads snapshot {following} next",
                cure=_CONSUMER_OF_BRANCH,
            )


def _check_tags(meta: Metadata, on: Metadata, goal: Snapshot) -> None:
    """Raises InvalidQuery if the table has a tag of another snapshot under the name of a tag of the branch. If both have an
    automatic tag of one period, the table's tag stays."""
    tags = {tag.name: tag for tag in meta.tags.readable()}
    for tag in on.tags.all():
        other = tags.get(tag.name, tag)
        if tag.snapshot.id <= goal.id and other.snapshot != tag.snapshot and not (tag.automatic and other.automatic):
            raise InvalidQuery(
                f"the table has another tag {tag.name!r} than the branch",
                where=meta.paths.root,
                expected=f"snapshot {tag.snapshot.id}, as on the branch",
                found=f"snapshot {other.snapshot.id}",
                cure="rename or delete one of the two tags",
            )


def _copy_snapshots(meta: Metadata, on: Metadata, state: BranchState) -> None:
    """Does step 2, without the tags. Raises CommitConflict."""
    for number in range(1 if state.base is None else state.base.id + 1, state.forward.id + 1):
        if not _copy(meta, on, number):
            raise _diverged(meta, on, state.base, number)


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
    """Copies a snapshot, or leaves a mark for one that has expired or was removed. Returns False if another commit has taken the
    number. Raises TableNotFound: the branch was deleted."""
    try:
        snapshot = on.snapshots.get(number)
    except SnapshotNotFound:
        on.files.first_schema()
        return meta.snapshots.put_cut(number) or not meta.snapshots.is_kept(number)
    return meta.snapshots.put(snapshot) or _has(meta, snapshot)


def _has(meta: Metadata, snapshot: Snapshot) -> bool:
    try:
        return meta.snapshots.get(snapshot.id) == snapshot
    except SnapshotNotFound:
        return False


def _last_common(meta: Metadata, on: Metadata, state: BranchState) -> Snapshot | None:
    """The last snapshot that the branch and the table have in common."""
    if _has(meta, state.forward):
        return state.forward
    first = 1 if state.base is None else state.base.id + 1
    for number in range(state.forward.id, first - 1, -1):
        if on.snapshots.is_kept(number) and _has(meta, snapshot := on.snapshots.get(number)):
            return snapshot
    return state.base


def _diverged(meta: Metadata, on: Metadata, base: Snapshot | None, first: int) -> CommitConflict:
    begins = "before its first snapshot" if base is None else f"at snapshot {base.id}"
    numbers = [number for number in meta.snapshots.ids() if number >= first]
    commits = []
    for number in numbers[:5]:
        try:
            came = meta.snapshots.get(number)
            commits.append(f"snapshot {number} ({came.kind} by {came.writer_id})")
        except SnapshotNotFound:
            continue
    more = f" and {len(numbers) - len(commits)} more" if len(numbers) > len(commits) else ""
    return CommitConflict(
        f"the table has commits that the branch {on.paths.branch.name!r}, which begins {begins}, does not have",
        where=meta.paths.root,
        expected="no commit on the table since the branch was created",
        found=f"{', '.join(commits)}{more}" or "a commit under way",
        cure=_AFRESH,
    )


def _finish(meta: Metadata, on: Metadata, info: BranchInfo, state: BranchState, reached: Snapshot | None) -> None:
    """Ends step 2 and does step 3: the branch begins at `reached`, the last of its snapshots that the table has."""
    if reached is not None:
        for tag in on.tags.all():
            if tag.snapshot.id <= reached.id:
                meta.tags.put(tag)
        _forget(on, reached)
    meta.branches.end(info, state, reached)


def _forget(on: Metadata, goal: Snapshot) -> None:
    """Removes the metadata of the branch up to snapshot `goal`, which belongs to the table now, and no other file."""
    for tag in on.tags.all():
        if tag.snapshot.id <= goal.id:
            on.tags.remove(tag.name)
    numbers, marks = on.snapshots.numbers()
    if older := [number for number in numbers if number < goal.id]:
        on.snapshots.retire(older, marks[-1] if marks else None)
    for number in on.snapshots.recorded_ids():
        if number <= goal.id:
            on.env.storage.delete(on.paths.changelog(number))
