"""Writers that share buckets: one that has lost its inline compaction to another commit compacts apart from its next commits.

An inline compaction takes up the rows of its own commit, so any other commit to the bucket makes it void, and its work is lost. A
compaction of committed files allows newer files at level 0. So after a lost one, a writer commits its next batches without
compaction and then, once some runs wait at level 0, compacts the buckets in a commit of its own. It compacts inline again after
some commits, sooner if it was alone in the meantime.
"""

from __future__ import annotations

import logging
from collections.abc import Collection

from lsmlake.commit.commit import commit
from lsmlake.commit.request import Identity, Request
from lsmlake.compact.job import Goal, compact_one
from lsmlake.errors import LakeError
from lsmlake.format.data_files import Bucket
from lsmlake.format.snapshot import Snapshot
from lsmlake.lsm.levels import Levels
from lsmlake.storage.concurrency import together
from lsmlake.tables.live import Contention
from lsmlake.tables.version import Version

_COMMITS = 16  # without inline compaction, after one was lost
_ALONE = 4  # as many of these count as commits that nobody else came between
_RUNS, _RUNS_MAX = 4, 32

_log = logging.getLogger("lsmlake.write")


def note(version: Version, snapshot: Snapshot, *, lost: bool) -> None:
    """Notes a commit that began at `version`. `lost`: whether another commit made an inline compaction void."""
    known = version.meta.files.cache.contention
    if lost:
        _keep(version, Contention(_COMMITS, snapshot.id, _RUNS if known is None else known.runs))
    elif known is not None:
        alone = known.last == version.number == snapshot.id - 1
        _keep(version, known._replace(left=known.left - (_ALONE if alone else 1), last=snapshot.id))


def compact_apart(version: Version, snapshot: Snapshot, buckets: Collection[Bucket], known: Contention) -> None:
    """Compacts those of `buckets` where enough runs wait at level 0. Errors are logged, not raised, since the write has
    succeeded."""
    meta = version.meta
    try:
        now = Version.at(meta, snapshot)
        with now.unless_expired():
            states = now.states(list(buckets)).values()
            due = [state for state in states if len(Levels.of(state.files).level0_runs) >= known.runs]
            messages = together(lambda state: compact_one(meta, now.schema, Goal(), state), due, 1, meta.files.discard)
        if not messages:
            return
        committed = commit(now, Request(Identity(meta.env.ids()), messages))
    except LakeError as error:
        _log.warning("%s: no compaction after snapshot %d: %s", meta.paths.root, snapshot.id, error)
        return
    runs = min(2 * known.runs, _RUNS_MAX) if committed.overtaken else _RUNS
    last = snapshot.id if committed.snapshot is None else committed.snapshot.id
    if (noted := meta.files.cache.contention) is not None:
        _keep(version, noted._replace(runs=runs, last=last))


def _keep(version: Version, state: Contention) -> None:
    version.meta.files.cache.contention = state if state.left > 0 else None
