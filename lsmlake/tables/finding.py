"""A violation that `maintain.verify` finds, with the snapshots, tags and branches that it affects."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from lsmlake.errors import Corrupt, LakeError


class Finding(NamedTuple):
    """A violation of an invariant of the table format.

    Attributes:
        where: the path of the file, or the bucket.
        what: a description, in one sentence.
        snapshots: the retained snapshots of the table that need the file, ascending.
        tags: the tags of the table that need it.
        branches: the branches with a snapshot or a tag that needs it.
    """

    where: str
    what: str
    snapshots: tuple[int, ...] = ()
    tags: tuple[str, ...] = ()
    branches: tuple[str, ...] = ()


def finding(where: str, broken: LakeError) -> Finding:
    """An error as a finding. `where`: the place, if the error names no damaged file."""
    if isinstance(broken, Corrupt) and broken.where:
        where = str(broken.where)
    return Finding(where, str(broken))


def merged(findings: Iterable[Finding]) -> list[Finding]:
    """Each violation once, with all snapshots, tags and branches that it affects: many snapshots reference the same broken
    file."""
    touched: dict[tuple[str, str], tuple[set, set, set]] = {}
    for one in findings:
        sides = touched.setdefault((one.where, one.what), (set(), set(), set()))
        for side, names in zip(sides, one[2:], strict=True):
            side.update(names)
    return [Finding(*key, *(tuple(sorted(side)) for side in sides)) for key, sides in touched.items()]
