"""The commit: one conditional create of `snapshot-<n+1>`. Optimistic; knows snapshots and edits, nothing of rows.

1. Start from the version that the caller has read; after a conflict, from the newest. Is our own commit there already? Then it is
   done (`commit.replay`).
2. Check what the commit needs (`commit.requirements`), and `rebase` the messages: a compaction that was overtaken falls back to a
   plain append, or is dropped.
3. Check the invariants of the edited buckets (`commit.invariants`).
4. Write the manifest of the edits (once for each outcome of 2), its lists and, if vectors changed, the index manifest
   (`commit.snapshot_builder`).
5. Create the snapshot if absent. Taken: remove what this attempt wrote, wait a little, start again (`commit.publish`).
6. Check that the snapshot before it, or its mark, is still there, and schema 0. A writer that was asleep for long may have
   created
   a snapshot whose number had been freed, or of a table that was dropped meanwhile: neither is a commit.

Files are removed only when it is certain that nothing published names them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lsmlake.commit.invariants import check_edits
from lsmlake.commit.outcome import Committed, Conflict, Unknown
from lsmlake.commit.publish import Attempts, Retries, publish
from lsmlake.commit.rebase import Rebased, rebase
from lsmlake.commit.replay import Identity, replayed
from lsmlake.commit.requirements import Follows, Requirement, SameMeaning
from lsmlake.commit.snapshot_builder import SnapshotBuilder
from lsmlake.commit.snapshot_expiry import housekeep
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
from lsmlake.format.files import BucketEdit, BucketState, CommitMessage
from lsmlake.format.snapshot import Snapshot
from lsmlake.schema.schema import Schema
from lsmlake.store.version import Version

_HINT_EVERY = 10  # a reader probes that many snapshots past the hint at most; writing it costs a commit about a tenth


@dataclass(frozen=True)
class Succession:
    """A commit that puts `schema` into effect, and may only follow snapshot number `after` (0 = be the first). `remade`: rows may
    be others than before."""

    schema: Schema
    after: int
    remade: bool


def commit(
    version: Version,
    messages: Sequence[CommitMessage],
    identity: Identity,
    properties: Mapping[str, str] = {},
    succession: Succession | None = None,
) -> Committed:
    """Publish `messages` as one snapshot and remove the files it did not use.

    `version`: the one that the messages were made from, and for whose schema. Nothing to publish, or all of it overtaken: the
    result has no snapshot. Raises CommitConflict after `commit.max-retries`, or if the table has been altered so that the
    messages
    do not fit, and StorageFailed, the table being as before; CommitUnknown if the store fails in step 5 or 6 and cannot be asked,
    the table being as before or after; TableNotFound, nothing being published, if the table was dropped or renamed, even if
    another
    one has its name by now.
    """
    meta, options = version.meta, version.options
    retries = Retries(options.commit.retries, options.commit.wait_min_ms, options.commit.wait_max_ms)
    committed = publish(_Commit(version, messages, identity, properties, succession), retries, meta.env)
    if committed is None:
        raise CommitConflict(
            "other commits won every time",
            where=meta.paths.root,
            found=f"{1 + retries.count} attempts",
            cure="run it again; with many writers raise commit.max-retries",
        )
    if committed.snapshot is not None:
        housekeep(meta, committed.snapshot, options)
    return committed


class _Commit(Attempts):
    """Attempts to publish the same messages."""

    def __init__(
        self,
        version: Version,
        messages: Sequence[CommitMessage],
        identity: Identity,
        properties: Mapping[str, str],
        succession: Succession | None,
    ) -> None:
        self.meta, self.schema, self.messages, self.identity = version.meta, version.schema, messages, identity
        self.succession = succession
        self.requirements: Sequence[Requirement] = (
            [SameMeaning(version.schema)] if succession is None else [Follows(succession.after)]
        )
        remade = succession is not None and succession.remade
        self.builder = SnapshotBuilder(version.meta, version.schema, messages, identity, properties, remade)
        self.version: Version | None = version
        self.base: Snapshot | None = None  # the snapshot that `tried` follows
        self.tried: tuple[Snapshot, Rebased] | None = None
        self.publishing = False  # the store was asked to publish `tried`, and did not say that it refused

    def run(self) -> Committed | Conflict | Unknown:
        self.publishing = False
        version = self.version or Version.latest(self.meta)
        self.version = None  # the first attempt only: a conflict says that it is not the newest any more
        if done := replayed(version, self.identity):
            return Committed(done)
        try:
            with version.unless_expired():
                return self._onto(version)
        except SnapshotNotFound:
            return Conflict()  # with a commit that came after `version`

    def _onto(self, version: Version) -> Committed | Conflict | Unknown:
        meta, latest = self.meta, version.snapshot
        there = meta.schema(latest.schema_id if latest else 0)
        for requirement in self.requirements:
            requirement.check(version.number, there, meta.paths.root)
        compacted = [message.bucket for message in self.messages if message.compact is not None]
        states = Version(meta, latest, self.schema).states(compacted, statistics=False) if compacted else {}
        rebased = rebase(self.messages, states)
        if not rebased.edits and self.succession is None:
            return Committed(None, (), rebased.overtaken)
        empty = {edit.bucket: BucketState(edit.bucket, edit.total_buckets) for edit in rebased.edits if edit.base is not None}
        check_edits([(edit, (empty | states).get(edit.bucket)) for edit in rebased.edits], meta.paths.root)
        schema_id = there.id if self.succession is None else self.succession.schema.id
        snapshot = self.builder.build(latest, schema_id, rebased.edits, states)
        number = snapshot.id
        self.base, self.tried, self.publishing = latest, (snapshot, rebased), True
        try:
            if not meta.put_snapshot(snapshot):
                outcome = self._told(meta.snapshot(number)) if meta.is_kept(number) else Conflict()
                self.publishing = isinstance(outcome, Committed)
                return outcome
            outcome = self._confirmed()
        except (StorageFailed, Corrupt) as failed:
            return Unknown(failed)
        if isinstance(outcome, Committed):
            meta.note_latest(snapshot)
            self._hint(number)
        return outcome

    def _confirmed(self) -> Committed | Conflict:
        """Step 6, the snapshot being there. Raises TableNotFound, StorageFailed, CommitUnknown."""
        meta, (snapshot, rebased) = self.meta, self.tried
        follows = self.base is None or meta.is_in_place(self.base)
        try:
            meta.first_schema()  # after the other look: a table renamed in between has taken all snapshots along
        except TableNotFound as gone:
            self._take_back(gone)
            raise
        if not follows:
            self.publishing = False
            meta.delete_quietly([meta.paths.snapshot(snapshot.id)])
            return Conflict()
        return Committed(snapshot, rebased.edits, rebased.overtaken)

    def _take_back(self, gone: TableNotFound) -> None:
        """Remove the snapshot, the table being gone. Raises CommitUnknown if the snapshot is gone, too: it may have been
        published, and renamed along with the table."""
        meta, path = self.meta, self.meta.paths.snapshot(self.tried[0].id)
        if meta.env.storage.size(path) is None:
            raise CommitUnknown(
                "the table was dropped or renamed while the commit was published",
                where=path,
                found=gone,
                cure="if it was renamed, look at the snapshots of the table that has its new name",
            ) from gone
        self.publishing = False
        meta.delete_quietly([path])

    def settle(self, unknown: Unknown) -> Committed | Conflict:
        number = self.tried[0].id
        try:
            found = self._looked_up()
        except (SnapshotNotFound, TableNotFound, StorageFailed, Corrupt) as silent:
            raise CommitUnknown(
                "the store failed while publishing",
                where=self.meta.paths.snapshot(number),
                found=unknown.cause,
                cure=Wording(
                    "look at snapshots(); commit again with the same writer_id and commit_id, which is safe",
                    command="see `lsmlake snapshots TABLE` for a new snapshot before you run the command again",
                ),
            ) from silent
        if found is None:
            raise unknown.cause
        return found

    def _looked_up(self) -> Committed | Conflict | None:
        """What became of the attempt; None if it was certainly not published. Raises SnapshotNotFound if the snapshot that had
        the number has expired, whoever published it, StorageFailed, Corrupt, TableNotFound."""
        meta, number = self.meta, self.tried[0].id
        try:
            return self._told(meta.snapshot(number))
        except SnapshotNotFound:
            if meta.is_numbered(number) or (meta.latest_id() or 0) >= number:
                raise
            return None

    def _told(self, there: Snapshot) -> Committed | Conflict:
        """What the snapshot that has the number says. It may be ours even so: a store that repeats a request of its own accord
        answers "taken" to the one that took it."""
        return self._confirmed() if there == self.tried[0] else Conflict()

    def give_up(self) -> None:
        if self.publishing:
            try:
                outcome = self._looked_up()
            except LakeError:
                return
            if isinstance(outcome, Committed):
                self.finish(outcome)
                return
        self.builder.withdraw()
        self._clean(())

    def finish(self, committed: Committed) -> None:
        self._clean(committed.edits)

    def withdraw(self) -> None:
        self.builder.withdraw()

    def _clean(self, used: Sequence[BucketEdit]) -> None:
        paths = self.meta.paths
        kept = {paths.data(file) for edit in used for file in (*edit.added, *edit.changelog)}
        kept |= {paths.puffin(ref.puffin) for edit in used for ref in edit.vectors.values()}
        unused = [path for message in self.messages for path in message.written if path not in kept]
        self.meta.delete_quietly([*unused, *self.builder.unused(used)])

    def _hint(self, number: int) -> None:
        if number % _HINT_EVERY:
            return
        try:
            self.meta.hint_latest(number)
        except StorageFailed:  # a hint only: readers look further
            return
