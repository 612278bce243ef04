"""The commit: one optimistic conditional create of `snapshot-<n+1>`. It handles snapshots and edits and never reads rows.

1. Start from the version that the caller has read; if it is out of date, from the newest one at once. If it already holds this
   commit, return that snapshot (`commit.identity`).
2. Check the commit's requirements (`commit.requirements`) and `rebase` its messages: a compaction whose bucket has changed falls
   back to a plain append, or is dropped. An overwrite replaces what its buckets hold at this version.
3. Check the invariants of the edited buckets (`commit.invariants`).
4. Write the manifest of the edits (reused by later attempts with the same edits), the manifest lists and, if vectors changed, the
   index manifest (`commit.snapshot_builder`).
5. Create the snapshot file if it is absent. If it exists, wait and retry (`commit.attempts`). The lists of this attempt are
   deleted at the end, so that the retry does not wait for it.
6. Check that the preceding snapshot, or its expiry mark, and schema 0 still exist; of snapshot 1, that no later snapshot has
   expired. A writer that was suspended for long may have reused a freed snapshot number, or written into a dropped table; such a
   snapshot does not count and is removed.

Files are deleted only if certainly no published snapshot references them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from lsmlake.commit.attempts import Attempts, Retries, publish
from lsmlake.commit.followers import after_commit, before_deletion
from lsmlake.commit.identity import Identity, replayed
from lsmlake.commit.invariants import check_edits
from lsmlake.commit.outcome import Committed, Conflict, Unknown
from lsmlake.commit.rebase import Rebased, rebase, replacing
from lsmlake.commit.requirements import Fits, Follows, Requirement
from lsmlake.commit.snapshot_builder import SnapshotBuilder
from lsmlake.errors import (
    CommitConflict,
    CommitUnknown,
    Corrupt,
    LakeError,
    SnapshotNotFound,
    StorageFailed,
    TableNotFound,
    Wording,
)
from lsmlake.format.files import Bucket, BucketEdit, BucketState, CommitMessage
from lsmlake.format.snapshot import Named, Snapshot
from lsmlake.schema.schema import Schema
from lsmlake.tables.snapshots import HINT_EVERY
from lsmlake.tables.version import Version

Restate = Callable[[Version], Sequence[CommitMessage]]
"""Returns the messages of a statement for the version to follow. Raises Overtaken if the statement must be evaluated again."""


@dataclass(frozen=True)
class Succession:
    """Makes a commit put `schema` into effect, directly after snapshot `after` (0: as the first snapshot). `remade`: the commit
    may change the visible rows. `restores`: the commit makes the files of this older snapshot live again, and no others."""

    schema: Schema
    after: int
    remade: bool
    restores: Snapshot | None = None


def commit(
    version: Version,
    messages: Sequence[CommitMessage],
    identity: Identity,
    properties: Mapping[str, str] = {},
    succession: Succession | None = None,
    replaces: Callable[[Mapping[Bucket, BucketState]], Collection[Bucket]] | None = None,
    statistics: Named | None = None,
    restated: Restate | None = None,
) -> Committed:
    """Publish `messages` as one snapshot and delete the files that it does not use.

    Args:
        version: the version that the messages were computed from; they follow its schema.
        replaces: an overwrite: the messages replace the content of the buckets that this chooses, which include theirs. It is
            asked in each attempt, given all buckets of the version to follow. So rows that other commits added to the buckets
            before the publication are replaced, too.
        statistics: an analysis: the file that the snapshot and later ones name. It requires nothing of the snapshot before: it
            knows columns by id, and rows may have changed meanwhile as they may afterwards.
        restated: a statement that changes rows by condition: makes the messages for each attempt, from the version to follow.

    Returns:
        The outcome; without a snapshot if there was nothing to publish, or every message was overtaken.

    Raises:
        CommitConflict: after `commit.max-retries`, or if the table was altered so that the messages no longer fit. The table is
            unchanged.
        StorageFailed: the table is unchanged.
        CommitUnknown: the store failed in step 5 or 6 and does not answer; the commit may have been published.
        TableNotFound: the table was dropped or renamed, even if another table has its name by now. Nothing is published.
        Overtaken: from `restated`. Nothing is published.
    """
    meta, options = version.meta, version.options
    retries = Retries(options.commit.retries, options.commit.wait_min_ms, options.commit.wait_max_ms)
    attempts = _Commit(version, messages, identity, properties, succession, replaces, statistics, restated)
    committed = publish(attempts, retries, meta.env)
    if committed is None:
        raise CommitConflict(
            "other commits came first on every attempt",
            where=meta.paths.root,
            found=f"{1 + retries.count} attempts",
            cure="run it again; with many writers raise commit.max-retries",
        )
    if committed.snapshot is not None:
        after_commit(version, committed.snapshot)
    return committed


def drop_buckets(version: Version, choose: Callable[[Mapping[Bucket, BucketState]], Collection[Bucket]]) -> Snapshot | None:
    """Publish the removal of all rows of the buckets that `choose` names; returns the snapshot. Raises as `commit` does."""
    return commit(version, (), Identity(version.meta.env.ids()), replaces=choose).snapshot


class _Commit(Attempts):
    """Attempts to publish the same messages."""

    def __init__(
        self,
        version: Version,
        messages: Sequence[CommitMessage],
        identity: Identity,
        properties: Mapping[str, str],
        succession: Succession | None,
        replaces: Callable[[Mapping[Bucket, BucketState]], Collection[Bucket]] | None,
        statistics: Named | None,
        restated: Restate | None,
    ) -> None:
        self.meta, self.schema, self.messages, self.identity = version.meta, version.schema, messages, identity
        self.succession, self.replaces, self.statistics, self.restated = succession, replaces, statistics, restated
        self.written = {path: None for message in messages for path in message.written}
        self.planned: list[tuple[Mapping[Bucket, BucketState], Sequence[CommitMessage]]] = []  # what an overwrite replaced
        self.requirements: Sequence[Requirement] = [Fits(version.schema)] if succession is None else [Follows(succession.after)]
        if statistics is not None or restated is not None:  # a statement is evaluated again on another schema
            self.requirements = ()
        by_position = restated is not None and version.schema.append_only
        remade = replaces is not None or by_position or (succession is not None and succession.remade)
        self.builder = SnapshotBuilder(version.meta, version.schema, messages, identity, properties, remade, statistics)
        self.version: Version | None = version
        self.base: Snapshot | None = None  # the snapshot that `tried` follows
        self.tried: tuple[Snapshot, Rebased] | None = None
        self.publishing = False  # the store was asked to publish `tried` and has not refused

    def run(self) -> Committed | Conflict | Unknown:
        if self.version is not None:
            version, self.version = self.version, None
            outcome = self._attempt(version)
            if not isinstance(outcome, Conflict):
                return outcome
            self.withdraw()  # out of date: that other writers commit now is not known yet, so there is no reason to wait
        return self._attempt(Version.latest(self.meta))

    def _attempt(self, version: Version) -> Committed | Conflict | Unknown:
        self.publishing = False
        if done := replayed(version, self.identity):
            return Committed(done)
        try:
            with version.unless_expired():
                return self._onto(version)
        except SnapshotNotFound:
            if self.meta.snapshots.is_kept(version.number):
                raise  # of another version, which the requirements read: no attempt can meet them any more
            return Conflict()  # only a commit after `version` can have expired it

    def _onto(self, version: Version) -> Committed | Conflict | Unknown:
        meta, latest = self.meta, version.snapshot
        there = meta.schemas.get(latest.schema_id if latest else 0)
        for requirement in self.requirements:
            requirement.check(version.number, there, meta.paths.root)
        states, messages = self._messages_onto(Version(meta, latest, there))
        rebased = rebase(messages, states)
        if not rebased.edits and self.succession is None and self.statistics is None:
            return Committed(None, (), rebased.overtaken)
        check_edits([(edit, states.get(edit.bucket)) for edit in rebased.edits], meta.paths.root)
        schema = there if self.succession is None else self.succession.schema
        if self.succession is not None and self.succession.restores is not None:
            snapshot = self.builder.restore(latest, schema.id, self.succession.restores)
        else:
            snapshot = self.builder.build(latest, schema, rebased.edits, states)
        number = snapshot.id
        self.base, self.tried, self.publishing = latest, (snapshot, rebased), True
        try:
            if not meta.snapshots.put(snapshot):
                outcome = self._refused(number)
                self.publishing = isinstance(outcome, Committed)
                return outcome
            outcome = self._confirm()
        except (StorageFailed, Corrupt) as failed:
            return Unknown(failed)
        if isinstance(outcome, Committed):
            meta.snapshots.note_latest(snapshot)
            self._hint(number)
        return outcome

    def _messages_onto(self, version: Version) -> tuple[Mapping[Bucket, BucketState], Sequence[CommitMessage]]:
        """The messages for an attempt on `version`, and the state there of every bucket that they compact or replace."""
        if self.replaces is None:
            messages = self.messages
            if self.restated is not None:
                messages = self.restated(version)
                self.written |= {path: None for message in messages for path in message.written}
            compacted = [message.bucket for message in messages if message.compact is not None]
            return version.states(compacted, statistics=False) if compacted else {}, messages
        there = version.states(statistics=False)
        states = {bucket: there[bucket] for bucket in self.replaces(there) if bucket in there}
        if not self.planned or self.planned[-1][0] != states:  # otherwise the manifest of the last attempt still fits
            self.planned.append((states, replacing(self.messages, states)))
        return self.planned[-1]

    def _refused(self, number: int) -> Committed | Conflict:
        """The outcome of an attempt whose number is taken: by a snapshot, or by a mark. Raises TableNotFound, StorageFailed."""
        self.builder.taken = 0
        try:
            there = self.meta.snapshots.get(number)
        except SnapshotNotFound:
            self.builder.taken = self.meta.snapshots.last_cut(number)
            return Conflict()
        return self._outcome_given(there)

    def _confirm(self) -> Committed | Conflict:
        """Step 6, after the snapshot was created. Raises TableNotFound, StorageFailed, CommitUnknown."""
        meta, (snapshot, rebased) = self.meta, self.tried
        try:
            # The schema last: renaming the table between the two checks moves all its snapshots. Storages whose calls are made
            # side by side do not rename.
            base, snapshots = self.base, meta.snapshots
            in_place = snapshots.is_first if base is None else partial(snapshots.is_in_place, base)
            follows, _ = meta.env.side_by_side([in_place, meta.files.first_schema])
        except TableNotFound as missing:
            self._unpublish(missing)
            raise
        if not follows:
            self.publishing = False
            meta.files.delete_quietly([meta.paths.snapshot(snapshot.id)])
            with suppress(LakeError):
                before_deletion(meta)  # it may name the snapshot, whose files may be deleted in the end
            return Conflict()
        return Committed(snapshot, rebased.edits, rebased.overtaken)

    def _unpublish(self, missing: TableNotFound) -> None:
        """Delete the snapshot, because the table no longer exists. Raises CommitUnknown if the snapshot is missing too: it may
        have been published and then renamed with the table."""
        meta, path = self.meta, self.meta.paths.snapshot(self.tried[0].id)
        if meta.env.storage.size(path) is None:
            raise CommitUnknown(
                "the table was dropped or renamed while the commit was published",
                where=path,
                found=missing,
                cure="if it was renamed, look for the commit in the snapshots of the table under its new name",
            ) from missing
        self.publishing = False
        meta.files.delete_quietly([path])

    def settle(self, unknown: Unknown) -> Committed | Conflict:
        number = self.tried[0].id
        try:
            found = self._look_up()
        except (SnapshotNotFound, TableNotFound, StorageFailed, Corrupt) as failed:
            raise CommitUnknown(
                "the store failed while publishing",
                where=self.meta.paths.snapshot(number),
                found=unknown.cause,
                cure=Wording(
                    "look for the commit in snapshots(); committing again with the same writer_id and commit_id is safe",
                    command="look for a new snapshot in `lsmlake snapshots TABLE` before you run the command again",
                ),
            ) from failed
        if found is None:
            raise unknown.cause
        return found

    def _look_up(self) -> Committed | Conflict | None:
        """Find the outcome of the attempt in the store; None if it was certainly not published. Raises SnapshotNotFound if the
        snapshot of that number, ours or another, has expired; StorageFailed, Corrupt, TableNotFound."""
        meta, number = self.meta, self.tried[0].id
        try:
            return self._outcome_given(meta.snapshots.get(number))
        except SnapshotNotFound:
            if meta.snapshots.is_numbered(number) or (meta.snapshots.latest_id() or 0) >= number:
                raise
            return None

    def _outcome_given(self, stored: Snapshot) -> Committed | Conflict:
        """The outcome, given the snapshot stored under the number. It can be our own although the create was refused: a store
        that repeats a request by itself refuses the repetition."""
        return self._confirm() if stored == self.tried[0] else Conflict()

    def give_up(self) -> None:
        if self.publishing:
            try:
                outcome = self._look_up()
            except LakeError:
                self.meta.files.delete_quietly(self.builder.withdrawn)
                return
            if isinstance(outcome, Committed):
                self.finish(outcome)
                return
        self.builder.withdraw()
        self._clean(())
        if self.statistics is not None:
            self.meta.files.delete_quietly([self.meta.paths.manifest(self.statistics.name)])

    def finish(self, committed: Committed) -> None:
        self._clean(committed.edits)

    def withdraw(self) -> None:
        self.builder.withdraw()

    def _clean(self, used: Sequence[BucketEdit]) -> None:
        paths = self.meta.paths
        kept = {path for edit in used for file in (*edit.added, *edit.changelog) for path in paths.with_index(file)}
        kept |= {paths.puffin(ref.puffin) for edit in used for ref in edit.vectors.values()}
        unused = [path for path in self.written if path not in kept]
        self.meta.files.delete_quietly([*unused, *self.builder.unused(used)])

    def _hint(self, number: int) -> None:
        if number % HINT_EVERY:
            return
        try:
            self.meta.snapshots.hint(number)
        except StorageFailed:  # readers find the newest snapshot without the hint, too
            return
