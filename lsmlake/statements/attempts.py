"""Evaluates statements that change rows by condition: on one version, and again on a newer version if another commit changed
rows that the statement read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from lsmlake.commit.again import again
from lsmlake.errors import InvalidQuery
from lsmlake.format.snapshot import Snapshot
from lsmlake.notebook import Shown
from lsmlake.options.write_options import ISOLATIONS
from lsmlake.tables.version import Version


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
    failed = "other commits changed the rows of the statement on every attempt"
    return again(version, evaluate, failed, "run it again, or run fewer statements on the same rows at a time")
