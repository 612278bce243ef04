"""The order of runs in a bucket by recency, and the checks of a tree."""

from __future__ import annotations

import pytest
from effort import examples
from hypothesis import given
from hypothesis import strategies as st

from lsmlake.format.data_files import APPEND, DataFile
from lsmlake.lsm.levels import Levels, SortedRun, overlaps, recency


def file(name, level=0, keys=(0, 9), sequence=1, min_sequence=1, rows=10, created_ms=0):
    return DataFile(
        name, "bucket-0", rows * 10, rows, 0, (keys[0],), (keys[1],), level, 0, APPEND, created_ms, sequence, min_sequence
    )  # fmt: skip


def names(files):
    return [file.name for file in files]


@pytest.mark.parametrize(("levels", "highest"), [((), -1), ((0,), 0), ((0, 1), 1), ((2,), 2), ((0, 1, 2), 2)])
def test_highest_level_is_that_of_the_oldest_run(levels, highest):
    assert Levels.of([file(f"f{level}", level) for level in levels]).highest_level == highest


def test_level0_is_newest_first_and_a_waiting_sequence_is_newest_of_all():
    files = [file("first", sequence=1), file("third", sequence=3), file("waiting", sequence=None, min_sequence=None)]
    assert names(Levels.of(files).level0) == ["waiting", "third", "first"]


def test_of_two_files_of_one_sequence_the_one_with_older_rows_comes_first_and_both_stay():
    late, deep = file("late", sequence=4, min_sequence=4), file("deep", sequence=4, min_sequence=2)
    levels = Levels.of([late, deep])
    assert names(levels.level0) == ["deep", "late"]
    assert [names(run.files) for run in levels.level0_runs] == [["deep"], ["late"]]


def test_files_of_one_commit_are_listed_by_creation_then_name():
    files = [file("b", created_ms=5, keys=(0, 1)), file("a", created_ms=5, keys=(2, 3)), file("c", created_ms=1, keys=(4, 5))]
    assert names(Levels.of(files).level0) == ["c", "a", "b"]


@pytest.mark.parametrize("sequence", [7, None])
def test_files_of_one_commit_are_one_run_in_key_order(sequence):
    parts = [file(name, keys=keys, sequence=sequence, min_sequence=sequence) for name, keys in [("y", (5, 9)), ("x", (0, 4))]]
    (run,) = Levels.of(parts).runs
    assert names(run.files) == ["x", "y"]


def test_runs_go_from_level_0_to_the_oldest_level_without_the_empty_ones():
    files = [file("old", 5), file("l2b", 2, (5, 9)), file("l2a", 2, (0, 4)), file("s1", sequence=1), file("s2", sequence=2)]
    runs = Levels.of(files).runs
    assert [(run.level, names(run.files)) for run in runs] == [
        (0, ["s2"]), (0, ["s1"]), (2, ["l2a", "l2b"]), (5, ["old"])
    ]  # fmt: skip
    assert names(Levels.of(files).files) == ["s2", "s1", "l2a", "l2b", "old"]
    assert [run.level for run in Levels.of(files).older_runs] == [2, 5]


def test_a_run_weighs_its_live_rows():
    levels = Levels.of([file("a", 3, (0, 4), rows=30), file("b", 3, (5, 9), rows=10)], {"a": 20, "gone": 7, "b": 0})
    assert levels.runs == (SortedRun(3, levels.runs[0].files, bytes=400, rows=40, live_rows=20),)
    assert (levels.rows, levels.live_rows, levels.dead_rows, levels.runs[0].live_bytes) == (40, 20, 20, 200)
    assert levels.dead == {"a": 20}, "only files of the bucket that have dead rows"


def test_a_run_without_rows_weighs_nothing():
    assert Levels.of([file("a", 1, rows=0)]).runs[0].live_bytes == 0


def test_ranges_that_share_a_border_key_are_not_disjoint():
    left, right, far = file("a", 1, (0, 5)), file("b", 1, (5, 9)), file("c", 1, (10, 12))
    assert overlaps([left, right, far]) == [(left, right)]
    assert overlaps([left, far]) == []


def test_check_names_the_files_of_a_run_that_overlap():
    allowed = [file("new", sequence=2), file("old", sequence=1), file("deep", 1)]
    assert Levels.of(allowed).check() == (), "different runs may overlap"
    (sentence,) = Levels.of([*allowed, file("other", 1, (3, 12))]).check()
    assert "level 1" in sentence
    assert "deep" in sentence
    assert "other" in sentence


files = st.builds(
    lambda level, sequence, back, low, name: file(
        f"f{name}", level, (low, low + 3), sequence, None if sequence is None else max(sequence - back, 1)
    ),
    st.integers(0, 4), st.none() | st.integers(1, 5), st.integers(0, 2), st.integers(0, 20), st.integers(0, 10**9),
)  # fmt: skip


@examples(100)
@given(st.lists(files, unique_by=lambda file: file.name), st.randoms())
def test_the_tree_does_not_depend_on_the_order_files_come_in(given_files, random):
    shuffled = random.sample(given_files, len(given_files))
    levels = Levels.of(given_files)
    assert Levels.of(shuffled) == levels
    assert sorted(names(levels.files)) == sorted(names(given_files))
    places = [recency(run.files[0]) for run in levels.runs]
    assert places == sorted(set(places)), "strictly from new to old"
