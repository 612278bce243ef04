"""The commit: one optimistic conditional create of `snapshot-<n+1>`. It handles snapshots and edits and never reads rows.

1. Start from the version that the caller has read; if it is out of date, from the newest one at once. If it already holds this
   commit, return that snapshot (`commit.identity`).
2. Check the commit's requirements (`commit.requirements`) and `rebase` its messages: a compaction whose bucket has changed falls
   back to a plain append, or is dropped. An overwrite restates its messages: it replaces what its buckets hold at this version.
3. Check the invariants of the edited buckets (`commit.invariants`).
4. Write the manifest of the edits (reused by later attempts with the same edits), the manifest lists and, if vectors changed, the
   index manifest (`commit.snapshot_builder`).
5. Create the snapshot file if it is absent. If it exists, wait and retry (`storage.retries`). The lists of this attempt are
   deleted at the end, so that the retry does not wait for it.
6. Check that the preceding snapshot, or its expiry mark, and schema 0 still exist; of snapshot 1, that no later snapshot has
   expired. A writer that was suspended for long may have reused a freed snapshot number, or written into a dropped table; such a
   snapshot does not count and is removed.

Files are deleted only if certainly no published snapshot references them.
"""

from __future__ import annotations

from lsmlake import undo
from lsmlake.commit.attempt import Attempts
from lsmlake.commit.followers import after_commit
from lsmlake.commit.request import Committed, Request
from lsmlake.storage.retries import Waits, attempts
from lsmlake.tables.version import Version


def commit(version: Version, request: Request) -> Committed:
    """Publish a request as one snapshot, and delete the files of its messages that the snapshot does not use.

    Args:
        version: the version that the request was computed from; its messages follow the schema of it.
        request: what to publish.

    Returns:
        The outcome; without a snapshot if there was nothing to publish, or every message was overtaken.

    Raises:
        CommitConflict: after `commit.max-retries`, or if a requirement is not met. The table is unchanged.
        StorageFailed: the table is unchanged.
        CommitUnknown: the store failed in step 5 or 6 and does not answer; the commit may have been published.
        TableNotFound: the table was dropped or renamed, even if another table has its name by now. Nothing is published.
        Overtaken: from a requirement or `request.restate`. Nothing is published.
    """
    meta, options = version.meta, version.options.commit
    tried = Attempts(version, request)
    undo.on_failure(tried.give_up)  # lest the one below is interrupted
    failed, cure = "other commits came first on every attempt", "run it again; with many writers raise commit.max-retries"
    waits = Waits(meta.env, options.wait_min_ms, options.wait_max_ms)
    try:
        for _ in attempts(1 + options.retries, failed, meta.paths.root, cure, waits):
            outcome = tried.run()
            if isinstance(outcome, Committed):
                tried.finish(outcome)
                break
            tried.withdraw()
    except BaseException:
        tried.give_up()
        raise
    finally:
        undo.done(tried.give_up)
    if outcome.snapshot is not None:
        after_commit(version, outcome.snapshot)
    return outcome
