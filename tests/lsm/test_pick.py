"""Which files a pick takes, and what the compaction does with each. Trees are written level:bytes, newest first."""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from importlib.util import module_from_spec, spec_from_file_location
from itertools import pairwise
from pathlib import Path

import pytest
from effort import examples
from hypothesis import given
from hypothesis import strategies as st

from lsmlake.format.data_files import APPEND, DataFile
from lsmlake.lsm.levels import Levels, recency
from lsmlake.lsm.pick import (
    Compaction,
    drops_deletes,
    last_level_of,
    pick,
    pick_full,
    pick_tiered,
    pick_universal,
    plan_task,
)
from lsmlake.lsm.pick.strategy import as_needed
from lsmlake.lsm.pick.tiered import full_tiers, tiers
from lsmlake.lsm.pick.universal import early_full, extend, offpeak_ratio, size_amplified, unit
from lsmlake.options.compaction_options import GENTLE, RADICAL, TIERED, UNIVERSAL, CompactionOptions
from lsmlake.options.table_options import Options


def file(name, level, size, sequence=None, keys=(0, 99), rows=100, delete_rows=0, created_ms=0):
    low, high = keys
    return DataFile(name, "bucket-0", size, rows, delete_rows, (low,), (high,), level, 0, APPEND, created_ms, sequence, sequence)


def tree(text, dead=None, created_ms=0):
    """`"0:1 0:2 3:50"`: two runs at level 0, the newer of one byte, and one at level 3; files f0, f1, ... in that order."""
    pairs = [part.split(":") for part in text.split()]
    files = [file(f"f{n}", int(level), int(size), 100 - n, created_ms=created_ms) for n, (level, size) in enumerate(pairs)]
    return Levels.of(files, dead)


def choice(compaction):
    """`"3 -> 2"`: three files to level 2."""
    return None if compaction is None else f"{len(compaction.inputs)} -> {compaction.output_level}"


def paimon(amplification=200, ratio=1, trigger=5, levels=None, **more):
    return CompactionOptions(
        UNIVERSAL,
        num_levels=levels or trigger + 1,
        max_size_amplification_percent=amplification,
        size_ratio=ratio,
        sorted_run_trigger=trigger,
        **{"lookup_compact": None, **more},
    )


def tiered(runs=4, **more):
    return CompactionOptions(TIERED, tier_runs=runs, **{"small_run_bytes": 1, **more})


PLAIN = Options.parse({"compaction.strategy": "universal"}).compaction


# universal


@pytest.mark.parametrize(("count", "output_level", "taken"), [(1, 1, 3), (2, 1, 3), (3, 2, 3), (4, 3, 4), (5, 5, 5)])
def test_output_is_just_newer_than_the_next_run_and_never_level_0(count, output_level, taken):
    runs, level = unit(tree("0:1 0:1 1:1 3:1 4:1").runs, count, 5)
    assert (level, len(runs)) == (output_level, taken)


def test_growing_past_level_0_takes_the_first_older_run_wherever_it_is():
    runs, level = unit(tree("0:1 0:1 3:1 4:1").runs, 1, 5)
    assert (level, len(runs)) == (3, 3)


@pytest.mark.parametrize(
    ("options", "standing", "expected", "reason"),
    [
        (paimon(25, 1, 3, levels=3), "0:1 0:2 0:3 0:3", "4 -> 2", "size amplification"),
        (paimon(25, 1, 3, levels=4), "0:1 1:1 2:1 3:50", "3 -> 2", "size ratio"),
        (paimon(25, 1, 3, levels=4), "0:1 1:2 2:3 3:50", "3 -> 2", "number of runs"),
        (paimon(25, 1, 3, levels=3), "0:1 0:1 1:1 2:50", "3 -> 1", "size ratio"),
        (paimon(25, 1, 3, levels=3), "0:1 0:2 1:3 2:50", "3 -> 1", "number of runs"),
        (paimon(200, 1, 5, levels=6), "0:1 0:1 0:1 0:1024 0:1048576", "5 -> 5", "size ratio"),
        (paimon(200, 1, 5), "0:1 1:1 2:1 3:1", None, None),
        (paimon(200, 1, 5), "", None, None),
        (paimon(200, 10, 2, levels=4), "1:8 2:9 3:10", "3 -> 3", "number of runs"),
        (paimon(200, 20, 2, levels=4), "1:8 2:9 3:10", "3 -> 3", "size ratio"),
    ],
)
def test_universal_picks(options, standing, expected, reason):
    found = pick_universal(tree(standing), options, now_ms=0)
    assert choice(found) == expected
    assert reason is None or found.reason == reason


@pytest.mark.parametrize(
    ("sizes", "ratio", "count"),
    [
        ((8, 9, 10), 10, 0),
        ((8, 9, 10), 20, 3),
        ((100, 101), 1, 2),
        ((100, 102), 1, 0),
        ((1, 1, 5), 1, 2),
        ((1, 1, 2), 1, 3),
        ((1,), 1, 0),
    ],
)
def test_the_next_older_run_joins_while_it_is_hardly_bigger(sizes, ratio, count):
    standing = " ".join(f"{level}:{size}" for level, size in enumerate(sizes, start=2))
    assert extend(tree(standing).runs, 1, ratio) == count


def test_once_a_merge_is_certain_level_1_joins_at_any_size():
    assert extend(tree("0:1 1:1000 2:5000").runs, 1, 1) == 0
    assert extend(tree("0:1 0:1 1:1000 2:5000").runs, 1, 1) == 3
    assert extend(tree("0:1 1:1000 2:5000").runs, 1, 1, forced=True) == 2


def test_size_amplification_waits_until_the_newer_runs_weigh_enough():
    """A byte is added to [1] again and again, at 25 percent."""
    sizes, seen = [1], []
    for _ in range(17):
        sizes = [1, *sizes]
        runs = tree(" ".join(f"{level}:{size}" for level, size in enumerate(sizes, start=1))).runs
        sizes = [sum(sizes)] if size_amplified(runs, 25) else sizes
        seen.append(sizes)
    assert seen == [
        [2], [3], [4], [1, 4], [6], [1, 6], [8], [1, 8], [1, 1, 8], [11], [1, 11], [1, 1, 11], [14],
        [1, 14], [1, 1, 14], [1, 1, 1, 14], [18],
    ]  # fmt: skip


def every_second(**more):
    return paimon(levels=5, optimization_interval_ms=1000, **more)


def full_since(created_ms):
    return Levels.of([file("new", 0, 100, 2), file("last", 4, 200, 1, created_ms=created_ms)])


@pytest.mark.parametrize(
    ("options", "levels", "now_ms", "expected"),
    [
        (every_second(), tree("0:100 0:200"), 10_000, "2 -> 4"),
        (every_second(), full_since(10_000), 10_500, None),
        (every_second(), full_since(10_000), 11_001, "2 -> 4"),
        (every_second(), full_since(9_500), 10_000, None),
        (every_second(), full_since(9_500), 10_500, None),
        (every_second(), full_since(9_500), 10_501, "2 -> 4"),
        (every_second(), tree("0:100"), 10**9, None),
        (paimon(levels=5), tree("0:100 0:200"), 10**9, None),
        (paimon(levels=5, total_size_threshold_bytes=1000), tree("0:100 0:200"), 0, "2 -> 4"),
        (paimon(levels=5, total_size_threshold_bytes=1000), tree("0:500 0:500"), 0, None),
        (paimon(levels=5, total_size_threshold_bytes=1000), tree("0:500 0:1000"), 0, None),
        (paimon(levels=5, incremental_size_threshold_bytes=500), tree("0:300 1:200 4:900"), 0, None),
        (paimon(levels=5, incremental_size_threshold_bytes=500), tree("0:300 1:201 4:900"), 0, "3 -> 4"),
    ],
)
def test_early_full_compaction(options, levels, now_ms, expected):
    assert early_full(levels.runs, 4, options, now_ms) == (expected is not None)
    assert choice(pick_universal(levels, options, now_ms=now_ms)) == expected


@pytest.mark.parametrize(
    ("options", "standing", "expected"),
    [
        (paimon(200, 1, 5, levels=3), "0:1 0:1", "2 -> 2"),
        (paimon(200, 1, 5, levels=3), "0:1 1:10", "2 -> 2"),
        (paimon(200, 1, 5, levels=3), "0:1 0:5 2:10", "2 -> 1"),
        (paimon(200, 1, 5, levels=3), "0:1 0:5 0:10 0:20", "4 -> 2"),
        (paimon(200, 1, 5, levels=3), "2:10", None),
        (paimon(25, 1, 3, levels=3), "0:1 0:2 0:2 0:2", "4 -> 2"),
        (paimon(25, 1, 3, levels=3), "0:1 1:2 2:2", "3 -> 2"),
        (paimon(25, 1, 3, levels=3), "0:1 2:2", "1 -> 1"),
    ],
)
def test_level_0_is_compacted_by_force(options, standing, expected):
    forced = replace(options, lookup_compact=RADICAL)
    assert choice(pick(tree(standing), forced, now_ms=0)) == expected


@pytest.mark.parametrize(("interval", "trigger", "attempts"), [(5, 5, 5), (7, 5, 7), (3, 5, 5), (8, 4, 8)])
def test_gentle_forces_level_0_at_the_nth_empty_pick(interval, trigger, attempts):
    options = paimon(200, 1, trigger, levels=3, lookup_compact=GENTLE, lookup_max_interval=interval)
    for standing, forced in [("0:1 0:2 0:2", "3 -> 2"), ("0:1 2:2", "1 -> 1")]:
        for past in range(attempts):
            found = pick_universal(tree(standing), options, now_ms=0, empty_picks=past)
            assert choice(found) == (forced if past == attempts - 1 else None)


def test_gentle_counts_the_waiting_runs_by_default():
    options = paimon(10**9, 0, 20, lookup_compact=GENTLE, lookup_max_interval=3)
    # below a trigger of 20 only the force rule is awake, and its n is the trigger
    assert pick_universal(tree("0:1 " * 19), options, now_ms=0) is None
    assert choice(pick_universal(tree("0:1 " * 20 + "9:1000000"), options, now_ms=0)) is not None


def test_one_file_already_at_its_level_needs_no_compaction():
    options = paimon(0, 1, 1, levels=3)
    assert pick_universal(tree("2:10"), options, now_ms=0) is None


@pytest.mark.parametrize(
    ("start", "end", "inside"),
    [(22, 6, {22, 23, 0, 1, 2, 3, 4, 5}), (2, 8, {2, 3, 4, 5, 6, 7}), (None, 6, set()), (22, None, set()), (5, 5, set())],
)
def test_off_peak_hours(start, end, inside):
    options = CompactionOptions(offpeak_start_hour=start, offpeak_end_hour=end, offpeak_ratio=10)
    assert {hour for hour in range(24) if offpeak_ratio(options, hour) == 10} == inside
    assert {offpeak_ratio(options, hour) for hour in range(24)} <= {0, 10}


def test_off_peak_lets_bigger_runs_join():
    options = paimon(10**9, 10, 3, levels=9, offpeak_start_hour=0, offpeak_end_hour=6, offpeak_ratio=10)
    standing = tree("2:8 3:9 4:10")
    assert pick_universal(standing, options, now_ms=0, hour=12) is None
    assert choice(pick_universal(standing, options, now_ms=0, hour=3)) == "3 -> 8"
    assert choice(pick_universal(standing, options, now_ms=3 * 3_600_000)) == "3 -> 8", "UTC unless told"


@pytest.mark.parametrize(("utc_hour", "expected"), [(3, "3 -> 8"), (12, None), (18, None)])
def test_off_peak_hours_are_in_utc_in_any_zone_of_the_machine(monkeypatch, utc_hour, expected):
    monkeypatch.setenv("TZ", "Asia/Tokyo")  # where 18:00 UTC is 03:00
    time.tzset()
    try:
        given = {"num-sorted-run.compaction-trigger": "3", "num-levels": "9", "compaction.size-ratio": "10", "write-only": "true"}
        given |= {"compaction.max-size-amplification-percent": "1000000000", "compaction.offpeak-ratio": "10"}
        given |= {"compaction.offpeak.start.hour": "0", "compaction.offpeak.end.hour": "6", "compaction.strategy": "universal"}
        options = Options.parse(given)
        assert choice(as_needed(options.compaction, utc_hour * 3_600_000)(tree("2:8 3:9 4:10"))) == expected
    finally:
        monkeypatch.undo()
        time.tzset()


# tiered


@pytest.mark.parametrize(
    ("weights", "ends"),
    [
        ([], []),
        ([10], [1]),
        ([10, 10, 20, 10], [4]),
        ([10, 10, 21], [2, 3]),
        ([10, 10, 40, 40, 160], [2, 4, 5]),
        ([40, 10, 10], [3]),
        ([1, 2, 100, 3], [2, 4]),
    ],
)
def test_a_tier_ends_before_a_run_twice_as_heavy_as_its_mean(weights, ends):
    assert tiers(weights, tiered(4)) == ends


def test_small_runs_are_alike():
    assert tiers([1, 5, 100, 150, 400], tiered(4, small_run_bytes=100)) == [4, 5]


@pytest.mark.parametrize(
    ("weights", "count"),
    [
        ([10, 10, 10], 0),
        ([10, 10, 10, 10], 4),
        ([10, 10, 10, 10, 40, 40], 4),
        ([10, 10, 10, 10, 40, 40, 40], 7),
        ([10, 10, 10, 10, 40, 40, 40, 160, 160, 160], 10),
        ([10, 40, 40, 40, 40], 5),
        ([10, 40, 160, 640], 0),
    ],
)
def test_a_full_tier_is_merged_with_all_that_is_newer_and_may_fill_the_next(weights, count):
    assert full_tiers(weights, tiered(4)) == count


@pytest.mark.parametrize(
    ("standing", "expected", "reason"),
    [
        ("", None, None),
        ("0:10", "1 -> 31", "level 0"),
        ("0:10 31:1000", "1 -> 30", "level 0"),
        ("0:10 0:10 31:1000", "2 -> 30", "level 0"),
        ("30:10 31:1000", None, None),
        ("0:10 28:10 29:10 30:10 31:1000", "4 -> 30", "full tier"),
        ("0:3 0:3 28:10 29:10 30:10 31:1000", "5 -> 30", "full tier"),
        ("0:10 9:10 10:10 11:10 31:1000", "4 -> 30", "full tier"),
        ("0:10 28:10 29:10 30:10", "4 -> 31", "full tier"),
        ("28:10 29:10 30:10 31:10", "4 -> 31", "full tier"),
    ],
)
def test_tiered_picks(standing, expected, reason):
    found = pick(tree(standing), tiered(4), now_ms=0)
    assert choice(found) == expected
    assert reason is None or found.reason == reason


@pytest.mark.parametrize(
    ("standing", "expected"),
    [
        ("0:10 1:100 2:1000 3:10000", "2 -> 1"),
        ("0:10 1:11 2:12 3:10000", "3 -> 2"),
        ("0:10 0:10 1:100 3:10000", "3 -> 2"),
        ("0:10 1:10000", "2 -> 3"),
    ],
)
def test_without_a_free_level_the_newest_runs_make_room(standing, expected):
    found = pick_tiered(tree(standing), tiered(4, num_levels=4))
    assert (choice(found), found.reason) == (expected, "no free level")


def test_the_weight_of_a_run_is_that_of_its_live_rows():
    standing = "0:10 28:10 29:10 30:1000 31:100000"
    assert choice(pick_tiered(tree(standing), tiered(4))) == "1 -> 27"
    assert choice(pick_tiered(tree(standing, {"f3": 99}), tiered(4))) == "4 -> 30"


def dirty_bucket(dead, count=6, more=()):
    files = [file(f"d{n}", 31, 100, 1, keys=(10 * n, 10 * n + 9)) for n in range(count)]
    return Levels.of([*files, *more], {f"d{n}": rows for n, rows in enumerate(dead)})


def in_place(found: Compaction) -> bool:
    """No file changes its level: the compaction only drops deleted rows."""
    return all(file.level == found.output_level for file in found.inputs)


@pytest.mark.parametrize(
    ("file_percent", "bucket_share", "dead", "rewritten"),
    [
        (50, 1.0, (50, 51, 0, 60, 70, 100), [["d1"], ["d3", "d4", "d5"]]),
        (100, 1.0, (99, 99, 99, 99, 99, 99), None),
        (100, 1.0, (99, 99, 100, 99, 99, 99), [["d2"]]),
        (50, 0.2, (20, 20, 20, 20, 20, 20), None),
        (50, 0.2, (20, 25, 20, 20, 20, 20), [["d1"]]),
        (50, 0.2, (45, 0, 0, 44, 43, 0), [["d0"]]),
        (50, 0.1, (45, 0, 0, 44, 43, 0), [["d0"], ["d3"]]),
        (50, 0.0, (1, 0, 1, 0, 0, 0), [["d0"], ["d2"]]),
        (90, 0.5, (55, 55, 55, 55, 55, 55), [["d0", "d1"]]),
    ],
)
def test_files_are_rewritten_in_place_for_their_dead_rows(file_percent, bucket_share, dead, rewritten):
    options = tiered(4, reclaim_dead_percent=file_percent, reclaim_bucket_share=bucket_share)
    found = pick_tiered(dirty_bucket(dead), options)
    assert (None if found is None else [[file.name for file in part] for part in found.parts]) == rewritten
    assert found is None or (found.output_level == 31 and in_place(found))


def test_dead_rows_wait_while_level_0_does_not_stand_empty_and_go_run_by_run():
    new, small = file("new", 0, 5, 9), file("small", 20, 30, 5)
    levels = Levels.of([*dirty_bucket((90,)).files, new, small], {"d0": 90, "small": 80})
    assert choice(pick_tiered(levels, tiered(8))) == "1 -> 19"
    rested = Levels.of([file for file in levels.files if file.level], levels.dead)
    assert [file.name for file in pick_tiered(rested, tiered(8)).inputs] == ["d0"]
    cleaned = Levels.of(rested.files, {"small": 80})
    assert pick_tiered(cleaned, tiered(8)).output_level == 20


def test_levels_grow_with_the_trigger_and_never_cut_a_deeper_tree():
    assert last_level_of(paimon(trigger=5), Levels()) == 5
    assert last_level_of(paimon(trigger=5), tree("0:1 9:1")) == 9
    assert last_level_of(tiered(), Levels()) == 31
    assert last_level_of(tiered(num_levels=4), Levels()) == 3


# full


@pytest.mark.parametrize(
    ("standing", "expected"), [("", None), ("0:1", "1 -> 5"), ("0:1 0:2 3:9", "3 -> 5"), ("4:9", "1 -> 5"), ("5:9", None)]
)
def test_full_takes_everything_to_the_last_level(standing, expected):
    assert choice(pick_full(tree(standing), PLAIN)) == expected


def test_full_leaves_no_dead_row_in_files_that_need_no_merge():
    levels = Levels.of([file("new", 1, 100, 2, (0, 9)), file("old", 5, 100, 1, (20, 29))], {"old": 1})
    steps = plan_task(pick_full(levels, PLAIN), levels, target_file_bytes=1, vectors=True)
    assert [rewrite.files[0].name for rewrite in steps.rewrites] == ["old"]
    assert [move.file.name for move in steps.upgrades] == ["new"]


def test_full_of_a_single_run_rewrites_only_the_files_with_dead_rows():
    found = pick_full(dirty_bucket((1, 2, 0, 3)), tiered())
    assert [[file.name for file in part] for part in found.parts] == [["d0", "d1"], ["d3"]]
    assert pick_full(dirty_bucket(()), tiered()) is None
    steps = plan_task(found, dirty_bucket((1, 2, 0, 3)), target_file_bytes=1, vectors=True)
    assert [[file.name for file in rewrite.files] for rewrite in steps.rewrites] == [["d0", "d1"], ["d3"]]


# upgrade or rewrite


def keyed(*specs, level=2):
    """Files "level:low-high", a byte a key; the whole tree and its full compaction to `level`. Small is below two bytes."""
    files = []
    for number, spec in enumerate(specs):
        own_level, (low, high) = int(spec[0]), map(int, spec[2:].split("-"))
        sequence = None if own_level else 100 - number
        files.append(file(spec, own_level, 7 * (high - low + 1), sequence, (low, high)))
    return Levels.of(files), level


def outcome(levels, level, **more):
    compaction = Compaction((levels.files,), level, max_level=2, reason="test", dead_share=more.pop("dead_share", 0.5))
    steps = plan_task(compaction, levels, **{"target_file_bytes": 20, "vectors": False, **more})
    return {
        "rewrites": [[file.name for file in rewrite.files] for rewrite in steps.rewrites],
        "upgrades": [move.file.name for move in steps.upgrades],
        "kept": [file.name for file in steps.kept],
        "dropped": [file.name for file in steps.dropped],
    }


@pytest.mark.parametrize(
    ("standing", "rewrites", "upgrades"),
    [
        (["0:1-3", "1:1-5", "1:6-7"], [["0:1-3", "1:1-5"]], ["1:6-7"]),
        (["0:1-1", "0:2-2"], [["0:1-1", "0:2-2"]], []),
        (["0:1-5", "0:6-6", "1:7-8", "1:9-10"], [], ["0:1-5", "0:6-6", "1:7-8", "1:9-10"]),
        (["0:1-5", "0:6-6", "1:7-7", "1:9-10"], [["0:6-6", "1:7-7"]], ["0:1-5", "1:9-10"]),
        (["0:1-1"], [], ["0:1-1"]),
    ],
    ids=["overlap", "two small", "nothing to join", "small neighbours", "alone"],
)
def test_files_that_need_no_merge_move_by_metadata(standing, rewrites, upgrades):
    levels, level = keyed(*standing)
    assert outcome(levels, level) == {"rewrites": rewrites, "upgrades": upgrades, "kept": [], "dropped": []}


def test_a_file_at_the_output_level_that_overlaps_nothing_stays():
    levels, _ = keyed("0:1-3", "1:2-5", "1:6-9")
    assert outcome(levels, 1) == {"rewrites": [["0:1-3", "1:2-5"]], "upgrades": [], "kept": ["1:6-9"], "dropped": []}


def test_a_big_file_between_small_ones_ends_a_rewrite():
    levels, level = keyed("1:1-1", "1:2-2", "1:3-9", "1:10-10", "1:11-11")
    assert outcome(levels, level)["rewrites"] == [["1:1-1", "1:2-2"], ["1:10-10", "1:11-11"]]


def test_small_files_of_one_new_run_move_unless_they_are_rewritten_for_another_reason():
    run = [file("a", 0, 7, 5, (1, 1)), file("b", 0, 7, 5, (2, 2))]
    assert outcome(Levels.of(run), 2) == {"rewrites": [], "upgrades": ["a", "b"], "kept": [], "dropped": []}
    assert outcome(Levels.of(run), 2, rewrite_level0=True)["rewrites"] == [["a", "b"]]
    beside = Levels.of([*run, file("c", 1, 7, None, (3, 3))])
    assert outcome(beside, 2)["rewrites"] == [["a", "b", "c"]]


def test_deletes_end_at_the_last_level_only_by_a_rewrite_unless_vectors_mask_them():
    deleting = file("deleting", 0, 70, 5, (1, 10), delete_rows=3)
    levels = Levels.of([deleting])
    assert outcome(levels, 2)["rewrites"] == [["deleting"]]
    assert outcome(levels, 1)["upgrades"] == ["deleting"]
    assert outcome(levels, 2, vectors=True)["upgrades"] == ["deleting"]


def test_files_are_rewritten_alone_when_forced_or_dirty_or_when_lookup_may_change_them():
    levels, level = keyed("0:1-5", "1:6-9")
    assert outcome(levels, level, forced={"1:6-9"}) == {
        "rewrites": [["1:6-9"]], "upgrades": ["0:1-5"], "kept": [], "dropped": []
    }  # fmt: skip
    assert outcome(levels, level, rewrite_level0=True)["rewrites"] == [["0:1-5"]]
    assert outcome(Levels.of(levels.files, {"1:6-9": 50}), level, vectors=True)["rewrites"] == []
    dirty = Levels.of(levels.files, {"1:6-9": 51})
    assert outcome(dirty, level, vectors=True)["rewrites"] == [["1:6-9"]]
    assert outcome(dirty, level, vectors=True, dead_share=0.6)["rewrites"] == []


def test_a_file_without_a_live_row_is_dropped_unread():
    levels, level = keyed("0:1-5", "1:3-4", "1:6-9")
    dead = Levels.of(levels.files, {"1:3-4": 100})
    assert outcome(dead, level, vectors=True) == {
        "rewrites": [], "upgrades": ["0:1-5", "1:6-9"], "kept": [], "dropped": ["1:3-4"]
    }  # fmt: skip


@pytest.mark.parametrize(
    ("output_level", "highest_level", "vectors", "expected"),
    [
        (0, 0, False, False),
        (0, 2, True, False),
        (1, 2, False, False),
        (2, 2, False, True),
        (2, 1, False, True),
        (1, 2, True, True),
    ],
)
def test_deletes_are_dropped_where_nothing_older_can_hold_their_key(output_level, highest_level, vectors, expected):
    assert drops_deletes(output_level, highest_level, vectors) is expected


# any tree, any pick


@st.composite
def trees(draw):
    files, dead = [], {}
    for sequence in range(draw(st.integers(0, 4)), 0, -1):
        files += draw(runs(0, f"s{sequence}", 50 + sequence))
    for level in draw(st.lists(st.integers(1, 12), unique=True, max_size=12)):
        files += draw(runs(level, f"l{level}", 50 - level))
    for each in files:
        if each.level and draw(st.booleans()):
            dead[each.name] = draw(st.integers(0, each.rows))
    return Levels.of(files, dead)


@st.composite
def runs(draw, level, name, sequence):
    cuts = sorted(draw(st.lists(st.integers(0, 60), min_size=2, max_size=8, unique=True)))
    pairs = list(zip(cuts[::2], cuts[1::2], strict=False))
    size = draw(st.sampled_from([1, 3, 10, 30, 100, 1000]))
    return [file(f"{name}-{n}", level, size, sequence, pair, rows=10 * size) for n, pair in enumerate(pairs)]


strategies = st.builds(
    tiered,
    st.integers(2, 6),
    num_levels=st.just(32) | st.integers(2, 14),
    small_run_bytes=st.sampled_from([1, 20]),
    reclaim_dead_percent=st.integers(0, 100),
    reclaim_bucket_share=st.floats(0, 1),
) | st.builds(
    paimon,
    st.integers(0, 300),
    st.integers(0, 100),
    st.integers(1, 8),
    levels=st.none() | st.integers(2, 14),
    lookup_compact=st.sampled_from([RADICAL, GENTLE, None]),
    total_size_threshold_bytes=st.none() | st.just(50),
)


@examples(100)
@given(trees(), strategies)
def test_any_pick_takes_all_of_level_0_without_a_gap_and_keeps_level_order_time_order(levels, options):
    for found in (pick(levels, options, now_ms=0), pick_full(levels, options)):
        if found is None:
            continue
        taken = {file.name for file in found.inputs}
        assert len(taken) == len(found.inputs) > 0
        assert 0 < found.output_level <= found.max_level
        if in_place(found):
            assert not levels.level0 or found.output_level == found.max_level
            for part in found.parts:
                between = [f for f in levels.files if f.level == found.output_level and part[0].min_key <= f.min_key]
                assert [f.name for f in between[: len(part)]] == [f.name for f in part], "neighbours"
            continue
        count = len({recency(file) for file in found.inputs})
        assert taken == {file.name for run in levels.runs[:count] for file in run.files}, "whole runs from the newest on"
        assert all(run.level > 0 for run in levels.runs[count:]), "all of level 0"
        assert all(run.level <= found.output_level for run in levels.runs[:count])
        assert all(run.level > found.output_level for run in levels.runs[count:])
        assert [recency(file) for file in found.inputs] == sorted(recency(file) for file in found.inputs)


@examples(100)
@given(trees(), strategies, st.integers(1, 200), st.booleans())
def test_every_input_is_in_one_step_and_no_output_reaches_across_a_file_that_stays(levels, options, target, rewrite_level0):
    found = pick(levels, options, now_ms=0)
    if found is None:
        return
    steps = plan_task(found, levels, target_file_bytes=target, vectors=True, rewrite_level0=rewrite_level0)
    rewritten = [file for rewrite in steps.rewrites for file in rewrite.files]
    moved = [move.file for move in steps.upgrades]
    together = [*rewritten, *moved, *steps.kept, *steps.dropped]
    assert sorted(file.name for file in together) == sorted(file.name for file in found.inputs)
    inputs = {file.name for file in found.inputs}
    staying = [f for f in levels.files if f.level == found.output_level and f.name not in inputs] + [*steps.kept, *moved]
    spans = [(rewrite.sections[0].min_key, rewrite.sections[-1].max_key) for rewrite in steps.rewrites]
    spans += [(file.min_key, file.max_key) for file in staying]
    spans.sort()
    assert all(left[1] < right[0] for left, right in pairwise(spans)), "one sorted run comes out"


# a bucket of dicts


class Bucket:
    """The naive twin of a table's bucket: `rows[name]` maps keys to values (`None` deletes), `dead[name]` are its masked keys."""

    def __init__(self, options, vectors, target_rows=4):
        self.options, self.vectors, self.target_rows = options, vectors, target_rows
        self.files, self.rows, self.dead, self.made, self.sequence = {}, {}, {}, 0, 0

    def write(self, rows, level, sequence):
        keys = sorted(rows)
        for start in range(0, len(keys), self.target_rows):
            own = {key: rows[key] for key in keys[start : start + self.target_rows]}
            name, self.made = f"f{self.made}", self.made + 1
            deletes = sum(value is None for value in own.values())
            self.files[name] = file(
                name, level, 10 * len(own), sequence, (min(own), max(own)), rows=len(own), delete_rows=deletes
            )  # fmt: skip
            self.rows[name], self.dead[name] = own, set()

    def commit(self, rows):
        self.sequence += 1
        self.write(rows, 0, self.sequence)

    def levels(self):
        return Levels.of(self.files.values(), {name: len(keys) for name, keys in self.dead.items()})

    def live(self, file):
        return {key: value for key, value in self.rows[file.name].items() if key not in self.dead[file.name]}

    def merged(self, files):
        rows = {}
        for each in sorted(files, key=recency, reverse=True):
            rows |= self.live(each)
        return rows

    def read(self):
        """With vectors nothing at level >= 1 is merged: what lies there is taken as it is, then level 0 on top."""
        older = [file for file in self.files.values() if file.level]
        if self.vectors:
            pairs = [pair for file in older for pair in self.live(file).items()]
            assert len(pairs) == len(dict(pairs)), "a key is live in two files at level >= 1"
            assert None not in dict(pairs).values(), "a delete row is live at level >= 1"
        waiting = [file for file in self.files.values() if not file.level]
        return {key: value for key, value in (self.merged(older) | self.merged(waiting)).items() if value is not None}

    def obey(self, compaction):
        levels = self.levels()
        steps = plan_task(
            compaction, levels, target_file_bytes=10 * self.target_rows, vectors=self.vectors, rewrite_level0=False
        )  # fmt: skip
        if self.vectors:
            self.mask(compaction)
        for gone in steps.dropped:
            self.forget(gone)
        for move in steps.upgrades:
            self.files[move.file.name] = move.file.at_level(move.level)
            if self.vectors:
                self.dead[move.file.name] |= {key for key, value in self.rows[move.file.name].items() if value is None}
        for rewrite in steps.rewrites:
            rows = self.merged(rewrite.files)
            for each in rewrite.files:
                self.forget(each)
            kept = {key: value for key, value in rows.items() if value is not None or not steps.drop_deletes}
            self.write(kept, compaction.output_level, max(each.sequence for each in rewrite.files))

    def mask(self, compaction):
        """The lookup: keys of level-0 inputs die in every file at level >= 1 that is no input."""
        inputs = {file.name for file in compaction.inputs}
        keys = {key for file in compaction.inputs if not file.level for key in self.rows[file.name]}
        for each in self.files.values():
            if each.level and each.name not in inputs:
                self.dead[each.name] |= keys & self.rows[each.name].keys()

    def forget(self, file):
        del self.files[file.name], self.rows[file.name], self.dead[file.name]

    def settle(self, model):
        """Pick until there is nothing left, checking the bucket against the model after each compaction."""
        for _ in range(60):
            found = pick(self.levels(), self.options, now_ms=0)
            if found is None:
                return
            self.obey(found)
            self.check(model)
        raise AssertionError("picking does not come to an end")

    def check(self, model):
        assert self.levels().check() == ()
        assert self.read() == model


batches = st.lists(
    st.tuples(st.dictionaries(st.integers(0, 30), st.none() | st.integers(0, 999), min_size=1, max_size=12), st.booleans()),
    min_size=1,
    max_size=25,
)


@pytest.mark.parametrize("vectors", [True, False], ids=["vectors", "merge on read"])
@examples(100)
@given(batches=batches, options=strategies)
def test_a_bucket_never_loses_or_doubles_a_key(vectors, batches, options):
    if not vectors and options.strategy == TIERED:
        options = paimon()
    bucket, model = Bucket(options, vectors), {}
    for number, (rows, settling) in enumerate(batches):
        stamped = {key: None if value is None else (number, value) for key, value in rows.items()}
        bucket.commit(stamped)
        model = {key: value for key, value in {**model, **stamped}.items() if value is not None}
        bucket.check(model)
        if settling:
            bucket.settle(model)
    bucket.settle(model)
    while found := pick_full(bucket.levels(), options):
        bucket.obey(found)
        bucket.check(model)
    assert len(bucket.levels().runs) == (1 if model else 0)
    assert bucket.levels().dead_rows == 0


@pytest.mark.parametrize("batch_rows", [1, 3, 20])
def test_tiered_never_lets_files_pile_up(batch_rows):
    options = tiered(4, reclaim_bucket_share=0.3)
    bucket, model, most = Bucket(options, vectors=True, target_rows=1000), {}, 0
    for number in range(300):
        rows = {(number * 37 + n * 101) % 600: number for n in range(batch_rows)}
        bucket.commit(rows)
        model |= rows
        bucket.settle(model)
        levels = bucket.levels()
        most = max(most, len(levels.files))
        assert levels.dead_rows <= 0.3 * levels.rows
        assert not levels.level0
    assert most <= 16, "three runs a tier, five tiers and the one filling up"


def test_an_upsert_into_a_free_level_writes_its_rows_once():
    bucket = Bucket(tiered(4), vectors=True)
    bucket.commit({1: "a", 2: "b"})
    bucket.obey(pick(bucket.levels(), bucket.options, now_ms=0))
    bucket.commit({2: "c", 3: None})
    bucket.obey(pick(bucket.levels(), bucket.options, now_ms=0))
    assert [(file.name, file.level) for file in bucket.levels().files] == [("f1", 30), ("f0", 31)]
    assert bucket.dead == {"f0": {2}, "f1": {3}}


def test_tiered_writes_less_than_universal_and_bounds_dead_rows_in_the_simulation(monkeypatch):
    spec = spec_from_file_location("tiers", Path(__file__).parents[2] / "bench" / "tiers.py")
    monkeypatch.setitem(sys.modules, "tiers", module_from_spec(spec))
    spec.loader.exec_module(sys.modules["tiers"])
    tiny = {"live_rows": 4000, "batch_rows": 100, "batches": 150, "update_share": 0.8, "skew": 1, "seed": 7, "target_rows": 9999}
    simulate = sys.modules["tiers"].simulate
    universal = simulate(PLAIN, **tiny)
    tiers8 = simulate(CompactionOptions(TIERED, small_run_bytes=4000), **tiny)
    lazy = simulate(CompactionOptions(TIERED, small_run_bytes=4000, reclaim_bucket_share=0.3), **tiny)
    assert tiers8.written < universal.written and lazy.written < 0.7 * universal.written
    assert tiers8.dead_max < 0.2 / 0.8 + 0.01
    assert universal.runs_max <= 5 < tiers8.runs_max < 24
    assert simulate(PLAIN, **tiny) == universal


def test_the_order_of_inputs_is_that_of_time():
    found = pick_tiered(tree("0:1 0:1 30:1 31:1"), tiered(3))
    assert [file.name for file in found.inputs] == ["f0", "f1", "f2", "f3"]
