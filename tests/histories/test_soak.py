"""The soak (`tests/soak`) in short, and its oracle: it must find what the long one looks for."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from effort import SCALE
from soak.judge import History, Published
from soak.run import Settings, soak
from soak.tables import TABLES, digest

SECONDS, COMMITS = (8, 20) if SCALE <= 1 else (60, 200)


@pytest.mark.in_turn
def test_processes_that_are_killed_and_suspended_lose_no_row_and_double_none(tmp_path):
    settings = Settings(SECONDS, processes=3, commits=COMMITS, kill_every_s=1.5, pause_every_s=2, long_pause_s=2)
    report = soak(settings, tmp_path)
    assert not report.faults, str(report)
    assert report.figures["commits of rows"] and report.figures["reads compared"] and report.figures["processes killed"]


# --- the oracle ---


def row(k: int, v: int) -> list:
    return [k, k % 3, v, 0, "w"]


def upsert(number: int, *rows: list) -> dict:
    return {"op": number, "verb": "upsert", "table": "rows", "rows": list(rows), "kinds": ["+I"] * len(rows)}


def ended(number: int, how: str, **more: object) -> dict:
    return {"op": number, "ended": how, "again": False, "races": 0, **more}


def faults(published: Mapping[int, Published], *lines: dict) -> list[str]:
    """What the oracle says of one process that worked on the table `rows`."""
    history = History({name: published if name == "rows" else {} for name in TABLES}, {"w": lines})
    history.judge()
    return history.faults


FIRST, SECOND = Published("w", 1), Published("w", 2)
WRITTEN = (
    upsert(1, row(1, 10), row(2, 20)),
    ended(1, "committed", snapshot=1),
    upsert(2, row(1, 11)),
    ended(2, "committed", snapshot=2),
)
BOTH = {1: FIRST, 2: SECOND}
AFTER = [tuple(row(1, 11)), tuple(row(2, 20))]


def test_what_was_written_and_read_in_order_is_right():
    scan = {"op": 3, "verb": "scan", "table": "rows"}
    assert not faults(BOTH, *WRITTEN, scan, ended(3, "read", snapshot=2, count=2, digest=digest(AFTER)))


@pytest.mark.parametrize(
    ("published", "found"),
    [
        ({1: FIRST}, "is lost"),
        ({1: FIRST, 2: SECOND, 3: SECOND}, "both hold"),
        ({2: SECOND, 1: Published("x", 7)}, "nobody intended"),
        ({2: SECOND}, "was never there"),
        ({1: SECOND, 2: FIRST}, "noted snapshot"),
    ],
)
def test_a_commit_that_is_lost_doubled_or_out_of_order_is_found(published, found):
    assert any(found in fault for fault in faults(published, *WRITTEN))


def test_an_operation_of_a_killed_process_took_place_if_a_snapshot_has_it():
    killed = (*WRITTEN[:2], upsert(2, row(1, 11)))
    scan = {"op": 3, "verb": "scan", "table": "rows"}
    first = [tuple(row(1, 10)), tuple(row(2, 20))]
    assert not faults(BOTH, *killed, scan, ended(3, "read", snapshot=2, count=2, digest=digest(AFTER)))
    assert not faults({1: FIRST}, *killed, scan, ended(3, "read", snapshot=1, count=2, digest=digest(first)))
    assert faults({1: FIRST}, *killed, scan, ended(3, "read", snapshot=1, count=2, digest=digest(AFTER)))


UPDATE = {"op": 3, "verb": "update", "table": "rows", "where": ["k", 7, 1], "add": 5}


@pytest.mark.parametrize("counts", [[0, 1, 0], [0, 0, 0], [0, 2, 0]])
def test_a_statement_reports_the_rows_that_it_changed(counts):
    found = faults({**BOTH, 3: Published("wi1o3n9", None)}, *WRITTEN, UPDATE, ended(3, "committed", snapshot=3, counts=counts))
    assert bool(found) == (counts != [0, 1, 0])


def test_a_statement_that_overlooks_rows_is_found():
    nothing = ended(3, "nothing", counts=[0, 0, 0], between=[1, 2])
    assert faults(BOTH, *WRITTEN, UPDATE, nothing)
    assert not faults(BOTH, *WRITTEN, {**UPDATE, "where": ["k", 7, 3]}, nothing)


def test_rows_of_two_snapshots_at_once_are_found():
    get = {"op": 3, "verb": "get", "table": "rows", "keys": [1, 2]}
    later = (upsert(4, row(2, 21)), ended(4, "committed", snapshot=3))
    published = {**BOTH, 3: Published("w", 4)}
    whole = [row(1, 11), row(2, 20)]
    torn = [row(1, 10), row(2, 21)]
    assert not faults(published, *WRITTEN, get, ended(3, "got", between=[1, 3], rows=whole), *later)
    assert faults(published, *WRITTEN, get, ended(3, "got", between=[1, 3], rows=torn), *later)


def batch(number: int, *changes: list) -> dict:
    return {"followed": "rows", "snapshot": number, "changes": list(changes)}


BEGIN = batch(1, ["+I", *row(1, 10)], ["+I", *row(2, 20)])
NEXT = batch(2, ["-U", *row(1, 10)], ["+U", *row(1, 11)])


@pytest.mark.parametrize(
    ("batches", "right"),
    [
        ((BEGIN, NEXT), True),
        ((BEGIN, BEGIN, NEXT), True),  # killed before it had noted its progress
        ((BEGIN,), False),
        ((NEXT,), False),
        ((BEGIN, NEXT, BEGIN), False),
        ((BEGIN, NEXT, {**NEXT, "snapshot": 3}), False),
    ],
)
def test_changes_that_are_lost_or_come_twice_are_found(batches, right):
    assert (not faults(BOTH, *WRITTEN, *batches)) == right
