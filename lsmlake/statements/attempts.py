"""The result of statements that change rows by condition. They are evaluated on one version, and again on a newer version if
another commit changed rows that the statement read."""

from __future__ import annotations

from dataclasses import dataclass

from lsmlake.errors import InvalidQuery
from lsmlake.format.snapshot import Snapshot
from lsmlake.notebook import Shown
from lsmlake.options.write_options import ISOLATIONS


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


class TooManyChanges(Exception):
    """A statement changes more rows than this process should write. Nothing was written."""


def check_isolation(isolation: str | None) -> None:
    """Raises InvalidQuery for an unknown isolation level. `isolation`: the level that a call asks for; None: the level of the
    table's options."""
    if isolation is not None and isolation not in ISOLATIONS:
        raise InvalidQuery(
            "unknown isolation", expected=" or ".join(map(repr, ISOLATIONS)), found=repr(isolation), cure="pass one of them"
        )


OVERTAKEN = (
    "other commits changed the rows of the statement on every attempt",
    "run it again, or run fewer statements on the same rows at a time",
)
"""What has happened, and the cure, if commits of others overtook a statement on every attempt (`commit.commit.again`)."""
