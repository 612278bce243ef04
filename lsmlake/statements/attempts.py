"""Evaluates statements that change rows by condition: on one version, and again on a newer version if another commit changed
rows that the statement read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from lsmlake.commit.requirements import Overtaken
from lsmlake.errors import InvalidQuery, SnapshotNotFound
from lsmlake.format.snapshot import Snapshot
from lsmlake.notebook import Shown
from lsmlake.options.write_options import ISOLATIONS
from lsmlake.storage.concurrency import Waits, attempts
from lsmlake.tables.version import Version

_ROUNDS = 100
_FIRST_WAIT_MS, _LONGEST_WAIT_MS = 5, 500


@dataclass(frozen=True)
class DmlReport(Shown):
    """The result of a statement that changes rows.

    Attributes:
        snapshot: the snapshot that the statement published; None if it changed no row.
        inserted: the number of new rows.
        updated: the number of rows with new values.
        deleted: the number of removed rows.
    """

    snapshot: Snapshot | None = None
    inserted: int = 0
    updated: int = 0
    deleted: int = 0


def check_isolation(isolation: str | None) -> None:
    """Raises InvalidQuery for an unknown isolation level. `isolation`: the level that a call asks for; None: the level of the
    table's options."""
    if isolation is not None and isolation not in ISOLATIONS:
        raise InvalidQuery(
            "unknown isolation", expected=" or ".join(map(repr, ISOLATIONS)), found=repr(isolation), cure="pass one of them"
        )


def evaluated(version: Version, evaluate: Callable[[Version], DmlReport]) -> DmlReport:
    """Evaluates a statement on `version` and, after each commit that overtakes it, on the newest version, a bounded number of
    times.

    Raises:
        CommitConflict: Other commits overtook the statement on every attempt. Nothing was committed.
    """
    meta = version.meta
    waits = Waits(meta.env, _FIRST_WAIT_MS, _LONGEST_WAIT_MS)
    failed, cure = (
        "other commits changed the rows of the statement on every attempt",
        "run it again, or run fewer statements on the same rows at a time",
    )
    for attempt in attempts(_ROUNDS, failed, meta.paths.root, cure, waits):
        if attempt:
            version = Version.latest(meta)
        try:
            with version.unless_expired():
                return evaluate(version)
        except (Overtaken, SnapshotNotFound):  # rows that the statement read have changed, or their snapshot has expired
            continue
