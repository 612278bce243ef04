"""Does work on the version in hand and, after each commit that overtakes it, on the newest one, a bounded number of times."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from lsmlake.commit.requirements import Overtaken
from lsmlake.errors import SnapshotNotFound
from lsmlake.storage.concurrency import Waits, attempts
from lsmlake.tables.version import Version

Result = TypeVar("Result")
_ROUNDS = 100
_FIRST_WAIT_MS, _LONGEST_WAIT_MS = 5, 500


def again(version: Version, work: Callable[[Version], Result], failed: str, cure: str) -> Result:
    """Returns the result of `work`, which raises Overtaken if another commit has changed what it depends on.

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
