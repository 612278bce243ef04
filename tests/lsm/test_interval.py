"""Sections and the least number of runs in each."""

from __future__ import annotations

from itertools import pairwise

import pytest
from effort import examples
from hypothesis import given
from hypothesis import strategies as st

from lsmlake.format.data_files import APPEND, DataFile
from lsmlake.lsm.levels import overlaps, sections


def files_of(*ranges):
    return [
        DataFile(f"f{number}", "bucket-0", 1, 1, 0, (low,), (high,), 0, 0, APPEND, 0, number, number)
        for number, (low, high) in enumerate(ranges)
    ]


def ranges(found):
    return [[[(file.min_key[0], file.max_key[0]) for file in run] for run in section.runs] for section in found]


def test_nothing_has_no_section():
    assert sections([]) == []


@pytest.mark.parametrize(
    ("given_ranges", "expected"),
    [
        (
            [(100, 200), (100, 400), (100, 300), (100, 500)],
            [[[(100, 200)], [(100, 300)], [(100, 400)], [(100, 500)]]],
        ),
        (
            [(0, 9), (5, 7), (9, 15), (16, 22), (16, 28), (24, 32)],
            [[[(0, 9)], [(5, 7), (9, 15)]], [[(16, 22), (24, 32)], [(16, 28)]]],
        ),
        ([(0, 5), (5, 9)], [[[(0, 5)], [(5, 9)]]]),
        ([(0, 5), (6, 9)], [[[(0, 5)]], [[(6, 9)]]]),
        ([(0, 20), (3, 4), (10, 30)], [[[(0, 20)], [(3, 4), (10, 30)]]]),
    ],
    ids=["all share a key", "two sections", "a shared border key joins", "neighbours do not", "the widest file bounds"],
)
def test_files_become_sections_of_runs(given_ranges, expected):
    assert ranges(sections(files_of(*given_ranges))) == expected


def test_a_section_knows_its_range_and_files():
    (section,) = sections(files_of((5, 7), (0, 9), (9, 15)))
    assert (section.min_key, section.max_key) == ((0,), (15,))
    assert sorted(file.name for file in section.files) == ["f0", "f1", "f2"]


def naive_sections(files):
    """Components of the graph whose edges are overlaps, each as a set of names."""
    groups = []
    for file in files:
        met = [group for group in groups if any(file.min_key <= x.max_key and x.min_key <= file.max_key for x in group)]
        groups = [group for group in groups if group not in met] + [[file, *(x for group in met for x in group)]]
    return {frozenset(file.name for file in group) for group in groups}


def depth(files):
    """The greatest number of files on one key."""
    return max(sum(x.min_key <= file.min_key <= x.max_key for x in files) for file in files)


interval = st.tuples(st.integers(0, 40), st.integers(0, 12)).map(lambda pair: (pair[0], pair[0] + pair[1]))


@examples(200)
@given(st.lists(interval, max_size=25), st.randoms())
def test_sections_are_the_components_of_overlap_and_runs_are_as_few_as_can_be(given_ranges, random):
    files = files_of(*given_ranges)
    found = sections(random.sample(files, len(files)))
    assert {frozenset(file.name for file in section.files) for section in found} == naive_sections(files)
    assert sum(len(section.files) for section in found) == len(files)
    for left, right in pairwise(found):
        assert left.max_key < right.min_key
    for section in found:
        assert not any(map(overlaps, section.runs))
        assert len(section.runs) == depth(section.files)
        assert len(section.runs) > 1 or len(section.files) == 1
