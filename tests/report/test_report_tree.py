"""The picture of a bucket: its content, its layout, and that it shows all live and dead rows."""

from __future__ import annotations

import io

import pytest
from effort import examples
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

from lsmlake.report.listing import end_elided, middle_elided
from lsmlake.report.text import human_bytes, human_count, human_share
from lsmlake.report.tree_picture import bar_cells, common_prefix, tree_picture
from lsmlake.report.tree_rows import TreeRow

RUNS = [
    TreeRow(5, 4, 1_027_004, 153_300, 34_000_000, "2013-01-01, 9E, 3286, JFK", "2013-01-31, YV, 3771, LGA"),
    TreeRow(0, 1, 2_310, 0, 98_000, "2013-01-09, 9E, 3286, JFK", "2013-01-18, YV, 3771, LGA"),
    TreeRow(0, 1, 9_999, 120, 198_000, "2013-01-01, 9E, 3286, JFK", "2013-01-12, YV, 3771, LGA"),
    TreeRow(3, 1, 261_000, 2_400, 9_980_000, "2013-01-01, 9E, 3286, JFK", "2013-01-21, YV, 3771, LGA"),
]


def drawn(runs: list[TreeRow], width: int, title: str = "", encoding: str = "utf-8") -> str:
    page = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    Console(file=page, width=width, color_system=None, _environ={}).print(tree_picture(runs, title=title))
    page.seek(0)
    return page.read().rstrip("\n")


def test_80_columns():
    assert drawn(RUNS, 80, "month=2013-01, bucket 0") == (
        """\
╭─ month=2013-01, bucket 0 ────────────────────────────────────────────────────╮
│     newest first       rows         dead  files      size  keys              │
│ L0  █                 2,310            -      1  95.7 KiB  …09, 9… → …18, Y… │
│     █░                9,999    120   1 %      1   193 KiB  …01, 9… → …12, Y… │
│ L3  ███░              261 k  2,400  <1 %      1  9.52 MiB  …01, 9… → …21, Y… │
│ L5  █████████████░░  1.03 M  153 k  15 %      4  32.4 MiB  …01, 9… → …31, Y… │
│                                                                              │
│ ██ 1.14 M live   ░░ 156 k dead (12 %)   4 runs, 7 files, 42.2 MiB            │
╰──────────────────────────────────────────────────────────────────────────────╯"""
    )


def test_120_columns():
    assert drawn(RUNS, 120, "month=2013-01, bucket 0") == (
        """\
╭─ month=2013-01, bucket 0 ────────────────────────────────────────────────────────────────────────────────────────────╮
│     newest first                           rows         dead  files      size  keys                                  │
│ L0  █                                     2,310            -      1  95.7 KiB  …09, 9E, 3286, J… → …18, YV, 3771, L… │
│     █░                                    9,999    120   1 %      1   193 KiB  …01, 9E, 3286, J… → …12, YV, 3771, L… │
│ L3  ████████░                             261 k  2,400  <1 %      1  9.52 MiB  …01, 9E, 3286, J… → …21, YV, 3771, L… │
│ L5  ██████████████████████████████░░░░░  1.03 M  153 k  15 %      4  32.4 MiB  …01, 9E, 3286, J… → …31, YV, 3771, L… │
│                                                                                                                      │
│ ██ 1.14 M live   ░░ 156 k dead (12 %)   4 runs, 7 files, 42.2 MiB                                                    │
╰──────────────────────────────────────────────────────────────────────────────────────────────────────────────────────╯"""
    )


def test_a_narrow_console_leaves_the_keys_out():
    assert drawn(RUNS, 60) == (
        """\
╭──────────────────────────────────────────────────────────╮
│     newest first      rows         dead  files      size │
│ L0  █                2,310            -      1  95.7 KiB │
│     █░               9,999    120   1 %      1   193 KiB │
│ L3  ███░             261 k  2,400  <1 %      1  9.52 MiB │
│ L5  ████████████░░  1.03 M  153 k  15 %      4  32.4 MiB │
│                                                          │
│ ██ 1.14 M live   ░░ 156 k dead (12 %)   4 runs, 7 files, │
│ 42.2 MiB                                                 │
╰──────────────────────────────────────────────────────────╯"""
    )


def test_a_console_without_unicode_gets_ascii():
    assert drawn(RUNS, 80, encoding="ascii") == (
        """\
+------------------------------------------------------------------------------+
|     newest first       rows         dead  files      size  keys              |
| L0  #                 2,310            -      1  95.7 KiB  ~09, 9~ - ~18, Y~ |
|     #.                9,999    120   1 %      1   193 KiB  ~01, 9~ - ~12, Y~ |
| L3  ###.              261 k  2,400  <1 %      1  9.52 MiB  ~01, 9~ - ~21, Y~ |
| L5  #############..  1.03 M  153 k  15 %      4  32.4 MiB  ~01, 9~ - ~31, Y~ |
|                                                                              |
| ## 1.14 M live   .. 156 k dead (12 %)   4 runs, 7 files, 42.2 MiB            |
+------------------------------------------------------------------------------+"""
    )


def test_an_empty_bucket_is_shown_as_empty():
    assert drawn([], 40, "bucket 3") == (
        """\
╭─ bucket 3 ───────────────────────────╮
│ no files yet                         │
╰──────────────────────────────────────╯"""
    )


def test_colour_is_never_the_only_difference():
    plain = drawn([TreeRow(1, 1, 10, 5, 1, "a", "b")], 80)
    assert plain.count("█") == plain.count("░")


SOME_RUNS = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 10**9), st.integers(0, 10**9), st.text()), max_size=6)


@given(st.integers(56, 200), SOME_RUNS)
@examples(100)
def test_every_line_has_the_width_of_the_console(width, runs):
    rows = [TreeRow(level, 1, live + dead, dead, live * 9, key, key + "z") for level, live, dead, key in runs]
    lines = drawn(rows, width, "t").split("\n")
    assert {cell_len(line) for line in lines} == {width}


def test_bars_compare_rows_on_one_scale():
    assert bar_cells(50, 50, 100, 20) == (10, 10)
    assert bar_cells(25, 0, 100, 20) == (5, 0)
    assert bar_cells(0, 100, 100, 20) == (0, 20)
    assert bar_cells(0, 0, 0, 20) == (0, 0)


@given(st.integers(0, 10**12), st.integers(0, 10**12), st.integers(0, 10**12), st.integers(2, 300))
def test_every_nonzero_part_has_a_cell_and_no_bar_overflows(live, dead, other, width):
    solid, hatched = bar_cells(live, dead, max(live + dead, other), width)
    assert (solid > 0, hatched > 0) == (live > 0, dead > 0)
    assert solid + hatched <= width


def test_what_all_keys_begin_with_is_found():
    assert common_prefix(["2013-01-09", "2013-01-31", "2013-02-01"]) == "2013-0"
    assert common_prefix(["same key", "same key"]) == "same key"
    assert common_prefix(["abcd", "abcdef"]) == "abcd"
    assert common_prefix(["abc1", "abc2"]) == ""


@given(st.text(), st.integers(1, 30))
def test_a_shortened_key_fits(text, width):
    for short in (end_elided(text, width), middle_elided(text, width)):
        assert cell_len(short) <= width
        assert short == text or "…" in short


def test_keys_are_cut_only_if_they_must_be():
    assert end_elided("12345", 5) == "12345"
    assert end_elided("123456", 5) == "1234…"
    assert end_elided("日本語", 5) == "日本…"
    assert middle_elided("data-465a4cd0ca72.parquet", 13) == "data-4…arquet"
    assert middle_elided("日本語日本語", 7) == "日本…語"


def test_keys_cannot_break_the_picture():
    runs = [TreeRow(1, 1, 10, 5, 1, "a\nb\x1b[31m", "ü")]
    assert r"a\nb\x1b[31m → ü " in drawn(runs, 120)
    assert r"a\nb\x1b[31m - \xfc " in drawn(runs, 120, encoding="ascii")


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0"), (9_999, "9,999"), (10_000, "10.0 k"), (336_776, "337 k"), (999_499, "999 k"), (999_500, "1.00 M")],
)
def test_counts(count, text):
    assert human_count(count) == text


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (999, "999 B"), (1_023, "1.00 KiB"), (1_536, "1.50 KiB"), (128 << 20, "128 MiB"), (5 << 60, "5120 PiB")],
)
def test_bytes(count, text):
    assert human_bytes(count) == text


@pytest.mark.parametrize(
    ("part", "whole", "text"),
    [(0, 0, "0 %"), (0, 9, "0 %"), (1, 1_000, "<1 %"), (37, 100, "37 %"), (999, 1_000, ">99 %"), (5, 5, "100 %")],
)
def test_shares(part, whole, text):
    assert human_share(part, whole) == text
