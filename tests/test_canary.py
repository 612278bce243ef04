"""Planted bugs: the history harness must catch each of them within a few examples."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace
from unittest.mock import patch

import pytest
import test_engine_cases
from history import Plan, Player, Step, World, histories, play, played
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from lsmlake.commit import attempt
from lsmlake.commit.requirements import BucketAsRead
from lsmlake.compact import bucket, changelog
from lsmlake.compact.compaction_state import Work
from lsmlake.compact.supersede import OldRows
from lsmlake.errors import LakeError
from lsmlake.format.deletion_vector import EMPTY, DeletionVector
from lsmlake.lsm.pick import Compaction, strategy, task
from lsmlake.maintain import alter
from lsmlake.read import plan, scan
from lsmlake.tables.table_files import TableFiles
from lsmlake.write import bucket as write_bucket
from lsmlake.write import write


def changed(module: object, name: str, change: Callable) -> AbstractContextManager:
    """The function `name` of a module gives what `change` makes of its result."""
    function = getattr(module, name)
    return patch.object(module, name, lambda *args, **how: change(function(*args, **how)))


@contextmanager
def never_replayed() -> Iterator[None]:
    with ExitStack() as stack:
        for module in (attempt, write):
            stack.enter_context(patch.object(module, "replayed", lambda *args: None))
        yield


def without_oldest(picked: Compaction | None) -> Compaction | None:
    """The oldest of several runs at level 0 is left behind."""
    waiting = {file.sequence for file in picked.inputs if file.level == 0} if picked else ()
    if len(waiting) < 2 or None in waiting:
        return picked
    parts = (tuple(file for file in part if file.level > 0 or file.sequence != min(waiting)) for part in picked.parts)
    return replace(picked, parts=tuple(part for part in parts if part))


def forgetful_mark(work: Work, name: str, positions: object) -> None:
    work.vectors[name] = DeletionVector.of(positions)
    work.changed.add(name)


merge_runs, live_rows = bucket.merge_runs, scan.live_rows
BUGS: dict[str, Callable[[], AbstractContextManager]] = {
    "the lookup is skipped": lambda: patch.object(bucket, "supersede", lambda work, picked: OldRows()),
    "dead rows are not marked": lambda: patch.object(Work, "mark", lambda work, name, positions: None),
    "a vector forgets what it held": lambda: patch.object(Work, "mark", forgetful_mark),
    "a raw read ignores vectors": lambda: patch.object(
        scan, "live_rows", lambda chunk, dead, *more: live_rows(chunk, EMPTY, *more)
    ),
    "runs are merged in the wrong order": lambda: patch.object(
        bucket, "merge_runs", lambda runs, *args, **how: merge_runs(runs[::-1], *args, **how)
    ),
    "a requirement of a commit is forgotten": lambda: patch.object(BucketAsRead, "met", lambda needed, now: True),
    "a batch is applied again": never_replayed,
    "a change is missing from the changelog": lambda: changed(
        changelog, "difference", lambda changes: changes.slice(0, max(changes.num_rows - 1, 0))
    ),
    "rows go to another bucket": lambda: changed(write_bucket, "bucket_of", lambda numbers: numbers[::-1]),
    "an alteration settles nothing": lambda: patch.object(alter, "must_settle", lambda old, new: False),
    "statistics prune too much": lambda: changed(plan, "by_statistics", lambda matches: matches & False),
    "files of a lost race stay": lambda: patch.object(TableFiles, "delete_quietly", lambda files, paths: None),
}


HISTORIES: dict[str, dict[str, object]] = {
    "dead rows are not marked": {"mode": "vectors, lazy", "buckets": 1, "verbs": ("upsert", "compact")},
    "the lookup is skipped": {"mode": "vectors, lazy", "loaded": True, "buckets": 1, "verbs": ("upsert", "compact")},
    "runs are merged in the wrong order": {"mode": "merge on read", "buckets": 1, "verbs": ("upsert", "full")},
    "a vector forgets what it held": {"mode": "vectors, lazy", "loaded": True, "buckets": 1, "verbs": ("upsert", "compact")},
    "an alteration settles nothing": {"verbs": ("upsert", "upsert", "alter")},
    "a change is missing from the changelog": {"mode": "vectors", "producer": "lookup", "verbs": ("upsert", "upsert", "compact")},
    "a requirement of a commit is forgotten": {"mode": "vectors", "buckets": 1, "verbs": ("upsert", "delete")},
    "a batch is applied again": {"rule": "first-row", "verbs": ("once", "replay")},
}
"""The histories that show a bug: their merge rule (`deduplicate` unless one is named), world and verbs. Random without a name."""


def caught(number: int, rule: str = "deduplicate", **narrowed: object) -> bool:
    """Whether one of so many histories shows the bug."""

    @settings(
        max_examples=number,
        deadline=None,
        derandomize=True,
        database=None,
        phases=[Phase.generate],
        report_multiple_bugs=False,
        suppress_health_check=list(HealthCheck),
    )
    @given(st.data())
    def check(data):
        play(data.draw(histories(rule, **narrowed)), data.draw)

    try:
        check()
    except (AssertionError, LakeError):
        return True
    return False


@pytest.mark.parametrize("bug", BUGS)
def test_a_planted_bug_is_caught(bug):
    with BUGS[bug]():
        how = HISTORIES.get(bug, {})
        assert caught(40, **how) or caught(400, **how), "no history shows the bug"


def test_a_part_of_level_0_that_is_left_behind_is_caught():
    """Two rows of one key wait at level 0, and the older one stays there: then it seems newer."""
    world = World("deduplicate", "vectors, lazy", buckets=1)
    steps = [Step("upsert", bytes([0, value, value]), False, 0) for value in (0, 40, 80)]
    with changed(strategy, "pick", without_oldest), pytest.raises((AssertionError, LakeError)):
        played(Plan(world, (*steps, Step("compact", b"", None, 0))), Player.check)
    played(Plan(world, (*steps, Step("compact", b"", None, 0))), Player.check)


def test_deletes_that_are_dropped_too_early_are_caught():
    """Takes a large old file and small newer runs with deletes, which random histories of CI's size rarely have."""
    too_early = patch.object(task, "drops_deletes", lambda level, highest, vectors: level > 0)
    with too_early, pytest.raises(AssertionError):
        test_engine_cases.test_an_erasure_survives_a_compaction_that_does_not_reach_the_oldest_file()
