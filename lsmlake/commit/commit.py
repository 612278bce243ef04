"""The commit: one optimistic conditional create of `snapshot-<n+1>`. It handles snapshots and edits. It reads rows only
if a bucket was split or merged since they were written (`commit.fitter`).

Writers on one machine go through the following steps one after another, if the storage is local (`Storage.turn`).

1. Start from the version that the caller has read; if it is out of date, from the newest one at once, before anything is written
   where a look costs no request. If it already holds this commit, return that snapshot (`commit.request`).
2. Check the commit's requirements (`commit.requirements`) and `rebase` its messages: a compaction whose bucket has changed falls
   back to a plain append, or is dropped; files for a bucket that was split are divided. An overwrite restates its messages: it
   replaces what its buckets hold at this version.
3. Check the invariants of the edited buckets (also there).
4. Write the manifest of the edits (reused by later attempts with the same edits), the manifest lists and, if vectors changed, the
   index manifest (`commit.snapshot_builder`); nothing if the number is seen to be taken (`Snapshots.is_seen`).
5. Create the snapshot file if it is absent. If it exists, wait and retry (`storage.concurrency`). The lists of this attempt are
   deleted at the end, so that the retry does not wait for it.
6. Check that the preceding snapshot, or its expiry mark, and schema 0 still exist; of snapshot 1, that no later snapshot has
   expired. A writer that was suspended for long may have reused a freed snapshot number, or written into a dropped table; such a
   snapshot does not count and is removed.

Files are deleted only if certainly no published snapshot references them. After success, failure or interruption, no attempt
leaves files behind that no published snapshot references.

The followers of a table's environment (`storage.env`) are called after a commit and before files are deleted. Commits, tags and
branches know none of them: expiry and the publication of Iceberg metadata subscribe (`maintain.followers`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import NamedTuple, TypeVar

from lsmlake import undo
from lsmlake.commit.fitter import Fitter, Fitting
from lsmlake.commit.request import Committed, Request, check_advance, replayed
from lsmlake.commit.requirements import Fits, Overtaken, Rebased, check_edits, rebase
from lsmlake.commit.snapshot_builder import SnapshotBuilder
from lsmlake.errors import CommitUnknown, Corrupt, LakeError, SnapshotNotFound, StorageFailed, TableNotFound, Wording
from lsmlake.format.data_files import BucketEdit
from lsmlake.format.snapshot import Snapshot
from lsmlake.format.tag import Tag
from lsmlake.options.table_options import Options
from lsmlake.storage.concurrency import Waits, attempts, side_by_side
from lsmlake.storage.env import span
from lsmlake.tables.snapshots import HINT_EVERY
from lsmlake.tables.version import Metadata, Version
from lsmlake.undo import pass_interruption

_log = logging.getLogger("lsmlake.commit")


def commit(version: Version, request: Request) -> Committed:
    """Publishes a request as one snapshot, and deletes the files of its messages that the snapshot does not use.

    Args:
        version: the version that the request was computed from; its schema is that of the messages.
        request: what to publish.

    Returns:
        The outcome; it has no snapshot if there was nothing to publish, or every message was overtaken.

    Raises:
        CommitConflict: after `commit.max-retries`, or if a requirement is not met. The table is unchanged.
        StorageFailed: the table is unchanged.
        CommitUnknown: the store failed in step 5 or 6 and does not answer; the commit may have been published.
        TableNotFound: the table was dropped or renamed, even if another table has its name by now. Nothing is published.
        Overtaken: from a requirement or `request.restate`. Nothing is published.
    """
    meta, options = version.meta, version.options.commit
    begin_ms = meta.env.clock() if _log.isEnabledFor(logging.INFO) else None
    tried = Attempts(version, request)
    undo.on_failure(tried.give_up)  # in case the call below is interrupted
    failed, cure = "other commits came first on every attempt", "run it again; with many writers raise commit.max-retries"
    waits = Waits(meta.env, options.wait_min_ms, options.wait_max_ms)
    with span("commit", meta.paths.root) as note:
        try:
            for number in attempts(1 + options.retries, failed, meta.paths.root, cure, waits):
                with meta.env.storage.turn(meta.paths.snapshots, meta.env.sleep):
                    old = number > 0 or meta.snapshots.is_seen(version.number + 1)
                    outcome = tried.on(Version.latest(meta) if old else version)
                    if not number and isinstance(outcome, Conflict):  # `version` was old: no sign of others now, so no wait
                        tried.builder.withdraw()
                        outcome = tried.on(Version.latest(meta))
                if isinstance(outcome, Committed):
                    tried.clean(outcome.edits)
                    break
                _log.info("%s: another commit came first, attempt %d of %d", meta.paths.root, number + 1, 1 + options.retries)
                tried.builder.withdraw()
        except BaseException:
            tried.give_up()
            raise
        finally:
            undo.done(tried.give_up)
        if (snapshot := outcome.snapshot) is not None:
            note(snapshot=snapshot.id, kind=snapshot.kind, rows=snapshot.delta_rows)
    if snapshot is not None:
        if begin_ms is not None:
            _tell(meta, outcome, meta.env.clock() - begin_ms)
        after_commit(version, snapshot)
    return outcome


def _tell(meta: Metadata, outcome: Committed, took_ms: int) -> None:
    snapshot = outcome.snapshot
    added, removed = (sum(len(getattr(edit, name)) for edit in outcome.edits) for name in ("added", "removed"))
    told = meta.paths.root, snapshot.id, snapshot.kind, snapshot.writer_id, snapshot.delta_rows, added, removed, took_ms
    _log.info("%s: snapshot %d, %s by %s, %d rows, %d files added, %d removed, %d ms", *told)


class Conflict:
    """The attempt was certainly not published: another commit took the snapshot number."""


class Unknown(NamedTuple):
    """The store failed during the attempt, which may have been published."""

    cause: LakeError


class Attempts:
    """Attempts to publish one request: each builds a snapshot on a version, creates it if absent and settles the outcome."""

    def __init__(self, version: Version, request: Request) -> None:
        self.meta, self.request = version.meta, request
        self.requires = (Fits(version.schema),) if request.requires is None else request.requires
        self.written = {path: None for message in request.messages for path in message.written}
        self.fitter = Fitter(version, request)
        self.builder = SnapshotBuilder(version.meta, version.schema, request)
        self.base: Snapshot | None = None  # the snapshot that `tried` follows
        self.tried: tuple[Snapshot, Rebased] | None = None
        self.publishing = False  # the store was asked to publish `tried` and has not refused

    def on(self, version: Version) -> Committed | Conflict:
        """Makes one attempt to follow `version`. Raises CommitUnknown, or the error of the store if nothing was published."""
        self.publishing = False
        if done := replayed(version, self.request.identity):
            return Committed(done)
        try:
            with version.unless_expired():
                outcome = self._onto(version)
            return self._settled(outcome) if isinstance(outcome, Unknown) else outcome
        except SnapshotNotFound:
            if self.meta.snapshots.is_kept(version.number):
                raise  # of another version, which the requirements read: no attempt can meet them any more
            return Conflict()  # only a commit after `version` can have expired it

    def _onto(self, version: Version) -> Committed | Conflict | Unknown:
        meta, latest, request = self.meta, version.snapshot, self.request
        now = Version(meta, latest, meta.schemas.get(latest.schema_id if latest else 0))
        check_advance(now, request)
        for requirement in self.requires:
            requirement.check(now, request.messages)
        if request.restate is not None:
            fitting = Fitting(request.restate(now))
        elif now.snapshot == self.fitter.version.snapshot:
            fitting = Fitting(request.messages)
        else:
            fitting = self.fitter.fit(now)
        messages = fitting.messages
        self.written |= {path: None for message in messages for path in message.written}
        compacted = [message.bucket for message in messages if message.compact is not None]
        states = now.states(compacted, statistics=False) if compacted else {}
        rebased = rebase(messages, states)
        rebased = replace(rebased, overtaken=(*rebased.overtaken, *fitting.dropped))
        if not rebased.edits and not request.acts_without_edits:
            return Committed(None, (), rebased.overtaken)
        check_edits([(edit, states.get(edit.bucket)) for edit in rebased.edits], meta.paths.root)
        schema = now.schema if request.schema is None else request.schema
        if request.restores is not None:
            snapshot = self.builder.restore(latest, schema.id, request.restores)
        else:
            snapshot = self.builder.build(latest, schema, rebased.edits, states)
        number = snapshot.id
        self.base, self.tried = latest, (snapshot, rebased)
        if meta.snapshots.is_seen(number):  # found in less time than it takes to write metadata for nothing
            return self._refused(number)
        self.builder.write()
        self.publishing = True
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

    def _refused(self, number: int) -> Committed | Conflict:
        """The outcome of an attempt whose number a snapshot or a mark has taken. Raises TableNotFound, StorageFailed."""
        self.builder.taken = 0
        try:
            stored = self.meta.snapshots.get(number)
        except SnapshotNotFound:
            self.builder.taken = self.meta.snapshots.last_cut(number)
            return Conflict()
        return self._outcome_given(stored)

    def _confirm(self) -> Committed | Conflict:
        """Checks, after the snapshot was created, that it counts (step 6). Raises TableNotFound, StorageFailed, CommitUnknown."""
        meta, (snapshot, rebased) = self.meta, self.tried
        try:
            # The schema last: renaming the table between the two checks moves all its snapshots. Storages whose calls are made
            # side by side do not rename.
            base, snapshots = self.base, meta.snapshots
            in_place = snapshots.is_first if base is None else partial(snapshots.is_in_place, base)
            follows, _ = side_by_side([in_place, meta.files.first_schema], meta.env.storage.at_once)
        except TableNotFound as missing:
            self._unpublish(missing)
            raise
        if not follows:
            self.publishing = False
            meta.files.delete_quietly([meta.paths.snapshot(snapshot.id)])
            with suppress(LakeError):
                before_deletion(meta)  # Iceberg metadata may name the snapshot, whose files are deleted
            return Conflict()
        return Committed(snapshot, rebased.edits, rebased.overtaken)

    def _unpublish(self, missing: TableNotFound) -> None:
        """Deletes the snapshot, because the table no longer exists. Raises CommitUnknown if the snapshot is missing, too: it may
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

    def _settled(self, unknown: Unknown) -> Committed | Conflict:
        number = self.tried[0].id
        try:
            outcome = self._look_up()
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
        if outcome is None:
            raise unknown.cause
        return outcome

    def _look_up(self) -> Committed | Conflict | None:
        """Finds the outcome of the attempt in the store; None if it was certainly not published. Raises SnapshotNotFound if the
        snapshot with the attempt's number has expired; StorageFailed, Corrupt, TableNotFound."""
        meta, number = self.meta, self.tried[0].id
        try:
            return self._outcome_given(meta.snapshots.get(number))
        except SnapshotNotFound:
            if meta.snapshots.is_numbered(number) or (meta.snapshots.latest_id() or 0) >= number:
                raise
            return None

    def _outcome_given(self, stored: Snapshot) -> Committed | Conflict:
        """The outcome, given the snapshot stored under the number. This can be the attempt's own snapshot although its creation
        was refused: a store that repeats a request by itself refuses the repetition."""
        return self._confirm() if stored == self.tried[0] else Conflict()

    def give_up(self) -> None:
        if self.publishing:
            try:
                outcome = self._look_up()
            except LakeError:
                self.meta.files.delete_quietly(self.builder.withdrawn)
                return
            if isinstance(outcome, Committed):
                self.clean(outcome.edits)
                return
        self.builder.withdraw()
        self.clean(())
        if self.request.statistics is not None:
            self.meta.files.delete_quietly([self.meta.paths.manifest(self.request.statistics.name)])

    def clean(self, used: Sequence[BucketEdit]) -> None:
        """Deletes the written files that no published edit references. `used`: the published edits."""
        paths = self.meta.paths
        kept = {path for edit in used for file in (*edit.added, *edit.changelog) for path in paths.with_index(file)}
        kept |= {paths.puffin(ref.puffin) for edit in used for ref in edit.vectors.values()}
        divided = self.fitter.paths() if self.fitter.written else []
        unused = [path for path in (*self.written, *divided) if path not in kept]
        self.meta.files.delete_quietly([*unused, *self.builder.unused(used)])

    def _hint(self, number: int) -> None:
        if number % HINT_EVERY:
            return
        try:
            self.meta.snapshots.hint(number)
        except StorageFailed:  # readers find the newest snapshot without the hint, too
            return


# -- work that a commit overtakes -------------------------------------------------------------------------------------


Result = TypeVar("Result")
_ROUNDS = 100
_FIRST_WAIT_MS, _LONGEST_WAIT_MS = 5, 500


def again(version: Version, work: Callable[[Version], Result], failed: str, cure: str) -> Result:
    """Does work on the version in hand and, after each commit that overtakes it, on the newest one, a bounded number of times.
    `work` raises Overtaken if another commit has changed what it depends on.

    Raises:
        CommitConflict: Other commits overtook the work on every attempt, as `failed` says. Nothing was committed.
    """
    meta = version.meta
    waits = Waits(meta.env, _FIRST_WAIT_MS, _LONGEST_WAIT_MS)
    for attempt in attempts(_ROUNDS, failed, meta.paths.root, cure, waits):
        if attempt:
            version = Version.latest(meta)
        try:
            with version.unless_expired():
                return work(version)
        except (Overtaken, SnapshotNotFound):  # the rows that it read have changed, or are gone
            continue


# -- followers --------------------------------------------------------------------------------------------------------


def after_commit(version: Version, snapshot: Snapshot) -> None:
    """Calls the followers after a verb that began with `version` has published `snapshot`. Errors are logged, never raised."""
    meta = version.meta
    for follower in meta.env.followers:
        try:
            follower.after_commit(version, snapshot)
        except Exception as failed:
            pass_interruption(failed)
            _log.warning("%s: %s after commit %d: %s", meta.paths.root, follower.failed, snapshot.id, failed)


def after_names(meta: Metadata) -> None:
    """Calls the followers after tags or branches changed, or snapshots changed without a commit. Errors are logged."""
    for follower in meta.env.followers:
        try:
            follower.after_names(meta)
        except Exception as failed:
            pass_interruption(failed)
            _log.warning("%s: %s: %s", meta.paths.root, follower.failed, failed)


def after_tag(meta: Metadata, tag: Tag, options: Options) -> None:
    """Calls the followers after a tag was created. Errors are logged. `options`: those of the table."""
    for follower in meta.env.followers:
        try:
            follower.after_tag(meta, tag, options)
        except Exception as failed:
            pass_interruption(failed)
            _log.warning("%s: %s of tag %r: %s", meta.paths.root, follower.failed, tag.name, failed)


def before_deletion(meta: Metadata) -> None:
    """Calls the followers before files of the table are deleted. If a follower raises an error, nothing may be deleted."""
    for follower in meta.env.followers:
        follower.before_deletion(meta)


def references(meta: Metadata) -> list[Callable[[], Iterable[str]]]:
    """Functions that return the files that followers reference and no snapshot does."""
    return [named for follower in meta.env.followers if (named := follower.references(meta)) is not None]
