"""Every planted bug on one page: what it stands for, and what must fail where it is planted.

A test that cannot fail proves nothing. Each bug of `PLANTED` is put into the library; then `killed_by`, which names the file of
tests that it stands for, must find it. Whoever finds a bug that the tests did not see adds it here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import NamedTuple
from unittest.mock import patch

import pytest
import test_engine_cases
import test_late_rows
from history import Plan, Player, Step, World, histories, play, played
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from lsmlake.commit import commit
from lsmlake.commit.requirements import BucketAsRead
from lsmlake.compact import bucket_compaction, changelog, supersede
from lsmlake.compact.compaction_state import CompactionState
from lsmlake.compact.supersede import OldRows
from lsmlake.errors import LakeError
from lsmlake.format.deletion_vector import EMPTY, DeletionVector
from lsmlake.lsm import cover
from lsmlake.lsm.merge.rule import OldRow
from lsmlake.lsm.pick import Compaction, strategy, task
from lsmlake.maintain import alter
from lsmlake.read import arrow_scan, plan
from lsmlake.tables.table_files import TableFiles
from lsmlake.write import write


def changed(module: object, name: str, change: Callable) -> AbstractContextManager:
    """The function `name` of a module gives what `change` makes of its result."""
    function = getattr(module, name)
    return patch.object(module, name, lambda *args, **how: change(function(*args, **how)))


@contextmanager
def never_replayed() -> Iterator[None]:
    with ExitStack() as stack:
        for module in (commit, write):
            stack.enter_context(patch.object(module, "replayed", lambda *args: None))
        yield


def without_oldest(picked: Compaction | None) -> Compaction | None:
    """The oldest of several runs at level 0 is left behind."""
    waiting = {file.sequence for file in picked.inputs if file.level == 0} if picked else ()
    if len(waiting) < 2 or None in waiting:
        return picked
    parts = (tuple(file for file in part if file.level > 0 or file.sequence != min(waiting)) for part in picked.parts)
    return replace(picked, parts=tuple(part for part in parts if part))


def forgetful_mark(work: CompactionState, name: str, positions: object) -> None:
    work.vectors[name] = DeletionVector.of(positions)
    work.changed.add(name)


# -- what must fail ----------------------------------------------------------------------------------------------------


def a_history(rule: str = "deduplicate", **narrowed: object) -> Callable[[], bool]:
    """Whether one of a few hundred random histories of test_histories.py shows the bug, of this rule and in this world."""

    def caught(number: int) -> bool:
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

        return fails(check)

    return lambda: caught(40) or caught(400)


def fails(test: Callable[[], object]) -> bool:
    try:
        test()
    except (AssertionError, LakeError):
        return True
    return False


def a_late_row() -> bool:
    """Whether a case of test_late_rows.py fails."""
    return any(fails(partial(test_late_rows.check, name)) for name in test_late_rows.CASES)


def two_rows_at_level_0() -> bool:
    """Whether two rows of one key that wait at level 0 are compacted to anything but the newer one."""
    world = World("deduplicate", "vectors, lazy", buckets=1)
    steps = [Step("upsert", bytes([0, value, value]), False, 0) for value in (0, 40, 80)]
    return fails(lambda: played(Plan(world, (*steps, Step("compact", b"", None, 0))), Player.check))


def an_erasure() -> bool:
    """A case of test_engine_cases.py: a large old file and small newer runs, which random histories of CI's size rarely have."""
    return fails(test_engine_cases.test_an_erasure_survives_a_compaction_that_does_not_reach_the_oldest_file)


# -- the bugs ----------------------------------------------------------------------------------------------------------


class Planted(NamedTuple):
    """`stands_for`: the mistake that has the same effect. `killed_by`: tells whether a test fails."""

    stands_for: str
    plant: Callable[[], AbstractContextManager]
    killed_by: Callable[[], bool]


def _merged_too(found):
    """A rule whose superseded rows are pruned as if they were merged."""
    return found if found.old_row is OldRow.MERGED else SimpleNamespace(old_row=OldRow.REPLACED, retains=found.retains)


merge_runs, wanted = bucket_compaction.merge_runs, arrow_scan._wanted
UPSERTS = {"mode": "vectors, lazy", "loaded": True, "buckets": 1, "verbs": ("upsert", "compact")}
PLANTED: dict[str, Planted] = {
    "the lookup is skipped": Planted(
        "a compaction does not look for older rows of its keys in files that it leaves alone",
        lambda: patch.object(bucket_compaction, "supersede", lambda work, picked: OldRows()),
        a_history(**UPSERTS),
    ),
    "dead rows are not marked": Planted(
        "a row that was found superseded gets into no deletion vector",
        lambda: patch.object(CompactionState, "mark", lambda work, name, positions: None),
        a_history(mode="vectors, lazy", buckets=1, verbs=("upsert", "compact")),
    ),
    "a vector forgets what it held": Planted(
        "a new vector has the new positions only, instead of the union with the old one",
        lambda: patch.object(CompactionState, "mark", forgetful_mark),
        a_history(**UPSERTS),
    ),
    "a raw read ignores vectors": Planted(
        "dead rows are read",
        lambda: patch.object(arrow_scan, "_wanted", lambda chunk, dead, plan: wanted(chunk, EMPTY, plan)),
        a_history(**UPSERTS),
    ),
    "runs are merged in the wrong order": Planted(
        "the older of two rows with one key wins a merge",
        lambda: patch.object(bucket_compaction, "merge_runs", lambda runs, *args, **how: merge_runs(runs[::-1], *args, **how)),
        a_history(mode="merge on read", buckets=1, verbs=("upsert", "full")),
    ),
    "a requirement of a commit is forgotten": Planted(
        "a compaction is published although its bucket has changed since it was read",
        lambda: patch.object(BucketAsRead, "met", lambda needed, now: True),
        a_history(mode="vectors", buckets=1, verbs=("upsert", "delete")),
    ),
    "a batch is applied again": Planted(
        "a writer does not recognise its own commit",
        never_replayed,
        a_history("first-row", verbs=("once", "replay")),
    ),
    "a change is missing from the changelog": Planted(
        "a compaction loses a row of the changelog that it produces",
        lambda: changed(changelog, "difference", lambda changes: changes.slice(0, max(changes.num_rows - 1, 0))),
        a_history(mode="vectors", producer="lookup", verbs=("upsert", "upsert", "compact")),
    ),
    "rows go to another bucket": Planted(
        "a row is written to a bucket that its key does not belong to",
        lambda: changed(cover.Covers, "number_of", lambda numbers: numbers[::-1]),
        a_history(),
    ),
    "an alteration settles nothing": Planted(
        "the meaning of rows at level 0 changes with an option",
        lambda: patch.object(alter, "must_settle", lambda old, new: False),
        a_history(verbs=("upsert", "upsert", "alter")),
    ),
    "statistics prune too much": Planted(
        "a file is left out that has rows of the condition",
        lambda: changed(plan, "by_statistics", lambda matches: matches & False),
        a_history(),
    ),
    "files of a lost race stay": Planted(
        "a writer leaves files that nothing names",
        lambda: patch.object(TableFiles, "delete_quietly", lambda files, paths: None),
        a_history(),
    ),
    "a part of level 0 is left behind": Planted(
        "a compaction takes newer runs of level 0 without the oldest one, which seems newer from then on",
        lambda: changed(strategy, "pick", without_oldest),
        two_rows_at_level_0,
    ),
    "deletes are dropped too early": Planted(
        "a compaction drops a delete although an older file may hold its key",
        lambda: patch.object(task, "drops_deletes", lambda level, highest, vectors: level > 0),
        an_erasure,
    ),
    "rows of level 0 are looked up newest first": Planted(
        "a row that came late supersedes the newer one, after an erasure",
        lambda: patch.object(supersede, "sorted", lambda files, key, reverse=False: sorted(files, key=key), create=True),
        a_late_row,
    ),
    "files of level 0 with late rows are pruned": Planted(
        "a filter returns a superseded row, since the file with the newer one does not match",
        lambda: patch.object(plan, "rule_of", lambda *given, real=plan.rule_of: _merged_too(real(*given))),
        a_late_row,
    ),
}


@pytest.mark.parametrize("bug", PLANTED)
def test_a_planted_bug_is_caught(bug: str):
    with PLANTED[bug].plant():
        assert PLANTED[bug].killed_by(), f"not caught: {PLANTED[bug].stands_for}"


def test_without_a_bug_nothing_fails():
    """Of the histories, test_histories.py says so."""
    assert not any(killer() for killer in (a_late_row, two_rows_at_level_0, an_erasure))
