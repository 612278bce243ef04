"""The result of a refresh of a view table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from lsmlake.format.snapshot import Snapshot
from lsmlake.notebook import Shown

NOTHING = "nothing"
"""The way of a refresh that finds no new snapshot."""


@dataclass(frozen=True)
class RefreshReport(Shown):
    """The result of a refresh.

    Attributes:
        snapshot: the snapshot that it published; None if there was nothing to do.
        way: 'changes': the changes of the tables were added to the groups; 'keys': the query was evaluated for the keys that
            changed; 'whole': the query was evaluated for all rows; 'nothing': the tables have no new snapshot.
        reason: why a way that reads less was not possible.
        changes: how many changes of the tables were read; 0 for 'whole'.
        written: how many rows were written.
        deleted: how many rows were deleted; None for 'whole', which replaces all rows.
        covered: the tables of the query -> the snapshots, from (exclusive) and to, whose changes the rows now show.
    """

    snapshot: Snapshot | None
    way: str
    reason: str = ""
    changes: int = 0
    written: int = 0
    deleted: int | None = 0
    covered: Mapping[str, tuple[int, int]] = field(default_factory=dict)
