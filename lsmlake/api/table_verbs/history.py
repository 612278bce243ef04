"""The verbs of tags, branches and rollbacks."""

from __future__ import annotations

import datetime
from typing import Literal, overload

import pyarrow as pa

from lsmlake.api.table_verbs.handle import Handle, Handled
from lsmlake.border import verbs_of
from lsmlake.commit.commit import after_names
from lsmlake.format.snapshot import Snapshot
from lsmlake.format.tag import Tag
from lsmlake.maintain import named_files
from lsmlake.read.travel import Moment, milliseconds, resolve
from lsmlake.refs.branching import BranchReport, create_branch, delete_branch, rename_branch
from lsmlake.refs.forwarding import fast_forward
from lsmlake.refs.rollback import RollbackReport, rollback
from lsmlake.refs.tagging import TagReport, create_tag, delete_tag, rename_tag
from lsmlake.retention.tag_expiry import expire_tags


@verbs_of("Table")
class History(Handle):
    """The verbs of tags, branches and rollbacks."""

    @overload
    def rollback(
        self,
        snapshot: int | None = None,
        *,
        tag: str | None = None,
        timestamp: str | datetime.datetime | None = None,
        cut: bool = False,
        dry_run: Literal[False] = False,
    ) -> Snapshot: ...

    @overload
    def rollback(
        self,
        snapshot: int | None = None,
        *,
        tag: str | None = None,
        timestamp: str | datetime.datetime | None = None,
        cut: bool = False,
        dry_run: Literal[True],
    ) -> RollbackReport: ...

    def rollback(
        self,
        snapshot: int | None = None,
        *,
        tag: str | None = None,
        timestamp: str | datetime.datetime | None = None,
        cut: bool = False,
        dry_run: bool = False,
    ) -> Snapshot | RollbackReport:
        """Give the table the rows, the columns and the options that it had at an older snapshot, as one new commit.

        The newer snapshots stay and can be read. Streams out of the table see the reverse changes. Commit ids of writers go on
        from the newest: a batch that was rolled back is not applied again when it is repeated, so a stream that must write these
        batches again needs a new checkpoint, or another `writer_id`.

        Args:
            snapshot: the number of the snapshot to go back to. Exactly one of `snapshot`, `tag` and `timestamp` is needed.
            tag: the tag to go back to, even if its snapshot has expired.
            timestamp: go back to the snapshot that was the latest at this time, as in `scan`.
            cut: afterwards remove the snapshots after the target, their tags and changelogs, and the files that nothing else
                needs. The new snapshot has the next number all the same: numbers are never used twice. Streams that have read a
                removed snapshot, or have yet to read it, fail; they must start anew.
            dry_run: change nothing; report what would be done.

        Returns:
            The new snapshot; or the latest one, if it is the target. With `dry_run` the report.

        Raises:
            SnapshotNotFound: the target does not exist or has expired.
            InvalidQuery: not exactly one target is given; or, with `cut`, a consumer has read a snapshot to be removed; or
                options of the target name a branch with which the table could not be read.
            CommitConflict: other commits came first on every attempt. The table is unchanged.

        Example:
            >>> orders.rollback(snapshot=12)
        """
        moment = Moment(snapshot, timestamp, tag)
        published, report = rollback(self.meta, moment, self.runtime.zone, self.name, cut=cut, dry_run=dry_run)
        return report if dry_run else published

    def create_branch(self: Handled, name: str, *, tag: str | None = None, snapshot: int | None = None) -> Handled:
        """Create a branch: a line of commits, schemas, tags and consumers of its own that begins at a snapshot of the table.

        No data is copied. The files that the branch shares with the table stay as long as the branch.

        Args:
            name: letters, digits, '_' and '-', but not 'main'.
            tag: begin at the snapshot of this tag.
            snapshot: begin at this snapshot. Default, without `tag`: the latest one.

        Returns:
            The branch, as `branch(name)`.

        Raises:
            InvalidQuery: the name is not valid or taken, or this is a branch itself.
            SnapshotNotFound: there is no such snapshot or tag.

        Example:
            >>> test = orders.create_branch("test")
            >>> test.upsert(rows)
            >>> orders.fast_forward("test")
        """
        base = resolve(self.meta, Moment(snapshot, None, tag), self.runtime.zone)
        create_branch(self.meta, name, base, tag)
        after_names(self.meta)
        return self.branch(name)

    def branches(self) -> pa.Table:
        """One row per branch, by name."""
        return named_files.branches(self.meta.on(None))

    def rename_branch(self: Handled, name: str, new_name: str) -> Handled:
        """Give a branch another name. Handles with the old name, and commits that are not yet published, fail.

        Raises:
            InvalidQuery: the new name is not valid, or it is taken; or `scan.fallback-branch` or `scan.primary-branch` names the
                branch.
            TableNotFound: there is no branch of that name.
            CommitConflict: the table is being forwarded to the branch, or the branch is being deleted.
        """
        rename_branch(self.meta, name, new_name)
        after_names(self.meta)
        return self.branch(new_name)

    def delete_branch(self, name: str, *, dry_run: bool = False) -> BranchReport:
        """Delete a branch with its tags and consumers, and the files that only it needs.

        If the file of the branch is damaged, only its metadata is deleted; `remove_orphan_files` removes the rest.

        Args:
            name: the name of the branch.
            dry_run: delete nothing; report what would be deleted.

        Raises:
            TableNotFound: there is no branch of that name.
            InvalidQuery: `scan.fallback-branch` or `scan.primary-branch` of the table names the branch.
            CommitConflict: the table is being forwarded to the branch.
        """
        report = delete_branch(self.meta, name, dry_run=dry_run)
        after_names(self.meta)
        return report

    def fast_forward(self, name: str) -> Snapshot | None:
        """Make the commits of a branch the commits of the table, with their schemas and tags.

        Only if the table has no commit since the branch was created; otherwise the error names the commits that came. Streams out
        of the table see the commits one after the other, except those whose snapshots have expired on the branch. The branch
        remains, and begins at the latest snapshot from then on.
        After a crash, call it again: until then the table is at one of the snapshots of the branch, and nothing expires.

        Returns:
            The latest snapshot of the table; None: neither the table nor the branch has one.

        Raises:
            CommitConflict: the table has commits that the branch does not have, or another program works on the branch.
            TableNotFound: there is no branch of that name.
            InvalidQuery: the table has a tag of the same name for another snapshot; or it has consumers, and snapshots of the
                branch have expired; or a consumer of the branch has yet to read snapshots that become those of the table.
        """
        latest = fast_forward(self.meta, name)
        after_names(self.meta)
        return latest

    def create_tag(
        self,
        name: str,
        snapshot: int | None = None,
        *,
        timestamp: str | datetime.datetime | None = None,
        retain: str | datetime.timedelta | None = None,
        replace: bool = False,
    ) -> Tag:
        """Give a snapshot a name. The snapshot can be read by this name as long as the tag exists, also after it has expired.

        Args:
            name: letters, digits, '_', '-', '.' and single blanks, but not 'main'.
            snapshot: the number of the snapshot. Default: the latest snapshot.
            timestamp: the snapshot that was the latest at this time, as in `scan`.
            retain: how long the tag is kept, such as '7 d'. Default: option `tag.default-time-retained`, or until it is deleted.
            replace: replace the tag if there is one of that name. Files that only the old tag needs are deleted.

        Raises:
            InvalidQuery: the name is not valid, it is taken, or the table has no snapshot.
            SnapshotNotFound: the snapshot has expired.

        Example:
            >>> orders.create_tag("end-of-day", retain="30 d")
            >>> orders.scan(tag="end-of-day").to_arrow()
        """
        moment = Moment(snapshot, timestamp)
        tag = create_tag(self.meta, name, moment, self.runtime.zone, retain, replacing=replace)
        after_names(self.meta)
        return tag

    def rename_tag(self, name: str, new_name: str) -> Tag:
        """Give a tag another name.

        Raises:
            InvalidQuery: the new name is not valid, or it is taken.
            SnapshotNotFound: there is no tag of that name.
        """
        tag = rename_tag(self.meta, name, new_name)
        after_names(self.meta)
        return tag

    def delete_tag(self, name: str, *, dry_run: bool = False) -> TagReport:
        """Delete a tag. If its snapshot has expired, the files that no other tag and no snapshot needs are deleted, too.

        Args:
            name: the name of the tag.
            dry_run: delete nothing; report what would be deleted.

        Raises:
            SnapshotNotFound: there is no tag of that name.
        """
        report = delete_tag(self.meta, name, dry_run=dry_run)
        after_names(self.meta)
        return report

    def expire_tags(self, *, older_than: str | datetime.datetime | None = None, dry_run: bool = False) -> TagReport:
        """Delete the tags that have been kept for their retention, and the files that nothing else needs.

        Commits do so automatically, see option `snapshot.expire.on-commit`.

        Args:
            older_than: also delete all tags created before this time, even if their retention is longer. Text or a datetime, as
                in `scan`.
            dry_run: delete nothing; report what would be deleted.
        """
        time_ms = None if older_than is None else milliseconds(older_than, self.runtime.zone)
        report = expire_tags(self.meta, time_ms, dry_run=dry_run)
        after_names(self.meta)
        return report

    def tags(self) -> pa.Table:
        """One row per tag, ordered by snapshot, then by name."""
        return named_files.tags(self.meta)
