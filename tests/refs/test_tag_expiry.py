"""Automatic tags and the retention of tags: names, times and limits as in Apache Paimon's tests."""

from __future__ import annotations

import datetime as dt
import logging

import pytest
from effort import one_in
from faults import Crash, FaultStorage, every_fault
from hypothesis import given
from hypothesis import strategies as st
from strategies import contents, copied, lake_on
from test_tags import expire, is_exact, made, names, rows, write

from lsmlake import set_option
from lsmlake.api.table import Table
from lsmlake.errors import InvalidOption
from lsmlake.options.retention_options import TagOptions
from lsmlake.refs.tagging import TagCalendar
from lsmlake.storage.memory import MemoryStorage

HOURLY = {"tag__automatic_creation": "process-time", "tag__creation_period": "hourly"}
DAILY = {"tag__automatic_creation": "process-time"}


def commit(table: Table, time: str) -> list[str]:
    """A commit at a time in UTC; returns the names of all tags."""
    commit_only(table, time)
    return names(table)


def commit_only(table: Table, time: str) -> None:
    moment = dt.datetime.fromisoformat(time).replace(tzinfo=dt.timezone.utc)
    table.meta.env.clock.now_ms = int(moment.timestamp() * 1000)
    write(table, range(3), time, compact=False)


def test_the_first_commit_after_an_hour_tags_it():
    table = made(**HOURLY, tag__num_retained_max="3")
    assert commit(table, "2023-07-18T12:12:00") == ["2023-07-18 11"]
    assert commit(table, "2023-07-18T12:59:00") == ["2023-07-18 11"]
    assert commit(table, "2023-07-18T13:00:00") == ["2023-07-18 11", "2023-07-18 12"]
    commit(table, "2023-07-18T14:00:00")
    assert commit(table, "2023-07-18T15:00:00") == ["2023-07-18 12", "2023-07-18 13", "2023-07-18 14"]
    expire(table, 1)
    assert commit(table, "2023-07-18T16:00:00") == ["2023-07-18 13", "2023-07-18 14", "2023-07-18 15"]
    expire(table, 1)
    assert is_exact(table)
    assert rows(table, tag="2023-07-18 14") == [(k, "2023-07-18T15:00:00") for k in range(3)]


def test_a_day_is_tagged_after_it_ends():
    table = made(**DAILY)
    assert commit(table, "2026-01-01T12:00:00") == ["2025-12-31"]
    assert commit(table, "2026-01-01T23:59:59") == ["2025-12-31"]
    assert commit(table, "2026-01-02T00:00:00") == ["2025-12-31", "2026-01-01"]
    assert table.meta.tags.get("2026-01-01").snapshot.id == 3
    assert commit(table, "2026-01-05T09:00:00") == ["2025-12-31", "2026-01-01", "2026-01-04"]


def test_a_delay_waits_for_late_rows():
    table = made(**HOURLY, tag__creation_delay="10 s")
    assert commit(table, "2023-07-18T12:00:09") == ["2023-07-18 11"]
    assert commit(table, "2023-07-18T13:00:09") == ["2023-07-18 11"]
    assert commit(table, "2023-07-18T13:00:10") == ["2023-07-18 11", "2023-07-18 12"]


def test_two_hours():
    table = made(**HOURLY | {"tag__creation_period": "two-hours"})
    assert commit(table, "2023-07-18T12:00:01") == ["2023-07-18 10"]
    assert commit(table, "2023-07-18T13:00:01") == ["2023-07-18 10"]
    assert commit(table, "2023-07-18T14:00:09") == ["2023-07-18 10", "2023-07-18 12"]


@pytest.mark.parametrize(
    ("period", "formatter", "name"),
    [
        ("daily", "with_dashes", "2023-07-17"),
        ("daily", "without_dashes", "20230717"),
        ("daily", "without_dashes_and_spaces", "20230717"),
        ("hourly", "with_dashes", "2023-07-18 11"),
        ("hourly", "without_dashes", "20230718 11"),
        ("hourly", "without_dashes_and_spaces", "2023071811"),
    ],
)
def test_the_forms_of_names(period, formatter, name):
    table = made(**HOURLY | {"tag__creation_period": period, "tag__period_formatter": formatter})
    assert commit(table, "2023-07-18T12:12:00") == [name]
    assert rows(table, tag=name) == rows(table)


def test_missed_tags_are_completed_one_a_commit():
    table = made(**HOURLY, tag__automatic_completion="true")
    assert commit(table, "2024-06-26T16:12:00") == ["2024-06-26 15"]
    assert commit(table, "2024-06-26T18:05:00") == ["2024-06-26 15", "2024-06-26 16"]
    assert commit(table, "2024-06-26T18:10:00") == ["2024-06-26 15", "2024-06-26 16", "2024-06-26 17"]
    assert commit(table, "2024-06-26T18:20:00") == ["2024-06-26 15", "2024-06-26 16", "2024-06-26 17"]


def test_only_automatic_tags_count_and_go():
    table = made(**HOURLY, tag__num_retained_max="1")
    commit(table, "2023-07-18T12:12:00")
    table.create_tag("mine")
    table.create_tag("2023-07-18")  # of another form than the hourly ones
    assert commit(table, "2023-07-18T13:13:00") == ["2023-07-18", "2023-07-18 12", "mine"]


def test_a_tag_of_a_user_is_never_an_automatic_one_whatever_its_name():
    table = made(**HOURLY, tag__num_retained_max="2")
    commit(table, "2023-07-18T12:12:00")
    mine = ["2020-01-01 00", "2023-07-18 13", "2030-01-01 00"]
    for name in mine[:2]:
        table.create_tag(name)
    table.create_tag("coming")
    table.rename_tag("coming", mine[2])
    expected = {name: rows(table, tag=name) for name in mine}
    for hour in range(13, 20):
        commit(table, f"2023-07-18T{hour}:13:00")
    assert names(table) == ["2020-01-01 00", "2023-07-18 13", "2023-07-18 17", "2023-07-18 18", "2030-01-01 00"]
    assert {name: rows(table, tag=name) for name in mine} == expected
    table.rename_tag("2023-07-18 17", "kept")
    table.create_tag("2023-07-18 18", replace=True)
    for hour in range(20, 24):
        commit(table, f"2023-07-18T{hour}:13:00")
    assert {"kept", "2023-07-18 18", *mine} < {*names(table)} and len(names(table)) == 7


def test_a_period_whose_name_a_user_has_taken_is_skipped_by_completion():
    table = made(**HOURLY, tag__automatic_completion="true")
    commit(table, "2024-06-26T16:12:00")
    table.create_tag("2024-06-26 16")
    for minute in range(10, 40, 10):
        commit(table, f"2024-06-26T19:{minute}:00")
    assert names(table) == ["2024-06-26 15", "2024-06-26 16", "2024-06-26 17", "2024-06-26 18"]


def test_another_period_begins_with_the_next_commit():
    table = made(**HOURLY)
    commit(table, "2023-07-18T12:00:09")
    table.alter(set_option("tag.creation-period", "daily"))
    assert commit(table, "2023-07-20T12:00:09") == ["2023-07-18 11", "2023-07-19"]


def test_a_write_only_table_is_tagged_by_its_compactions():
    table = made(**DAILY, write_only="true")
    assert commit(table, "2026-01-02T00:00:00") == []
    commit(table, "2026-01-02T00:00:10")
    table.compact(full=True)
    assert names(table) == ["2026-01-01"]


def test_several_writers_create_one_tag():
    world = MemoryStorage()
    commit(made(world, **HOURLY), "2023-07-18T12:12:00")
    one, other = lake_on(world, "a-").table("d.t"), lake_on(world, "b-").table("d.t")
    commit(one, "2023-07-18T13:01:00")
    assert commit(other, "2023-07-18T13:02:00") == ["2023-07-18 11", "2023-07-18 12"]
    assert commit(one, "2023-07-18T14:02:00") == ["2023-07-18 11", "2023-07-18 12", "2023-07-18 13"]
    assert one.meta.tags.get("2023-07-18 12").snapshot.id == 2


def test_a_commit_that_creates_no_tag_costs_no_call():
    """After the first commit of a period, a handle knows when the next tag is due."""
    calls = []
    for options in ({}, HOURLY):
        storage = FaultStorage(MemoryStorage())
        table = made(storage, **options)
        commit_only(table, "2023-07-18T12:00:00")
        commit_only(table, "2023-07-18T12:00:10")
        storage.calls = []
        commit_only(table, "2023-07-18T12:00:20")
        calls.append([name for name, _ in storage.calls])
    assert calls[0] == calls[1]


@pytest.mark.parametrize(
    "options",
    [
        {"tag__automatic_creation": "watermark"},
        {"tag__creation_period": "hourly"},
        {**HOURLY, "tag__creation_delay": "1 h"},
        {**HOURLY, "tag__num_retained_max": "0"},
        {**HOURLY, "tag__period_formatter": "slashes"},
        {"tag__default_time_retained": "long"},
    ],
)
def test_options_that_make_no_sense_are_refused(options):
    with pytest.raises(InvalidOption) as refused:
        made(**options)
    assert "watermark" not in options.values() or "set watermark.column" in str(refused.value)


# -- retention --------------------------------------------------------------------------------------------------------


def test_a_tag_expires_after_its_retention():
    table = made(tag__default_time_retained="1 h")
    commit(table, "2026-01-01T00:00:00")
    table.create_tag("default")
    table.create_tag("long", retain="2 d")
    start = table.meta.tags.get("default").create_time_ms
    table.meta.env.clock.now_ms = start + 3_600_000 - 1
    assert table.expire_tags().tags == ()  # the clock stands at the end of the hour
    before = contents(table.meta.env.storage)
    assert table.expire_tags(dry_run=True).tags == ("default",)
    assert contents(table.meta.env.storage) == before
    assert table.expire_tags().tags == ("default",)
    assert table.expire_tags(older_than="2027-01-01").tags == ("long",)
    assert names(table) == []


def test_commits_expire_tags_and_their_files():
    table = made(snapshot__expire__on_commit="true", snapshot__num_retained__min="1", snapshot__time_retained="1 ms")
    commit(table, "2026-01-01T00:00:00")
    table.create_tag("short", retain="1 min")
    table.create_tag("long", retain="1 d")
    for minute in range(1, 20):
        commit(table, f"2026-01-01T00:{minute:02}:00")
        table.compact(full=True)
    assert names(table) == ["long"]
    assert table.snapshots().num_rows < 20
    expire(table, 1)
    assert is_exact(table)
    assert rows(table, tag="long") == [(k, "2026-01-01T00:00:00") for k in range(3)]


def test_housekeeping_never_fails_a_commit(caplog):
    world = MemoryStorage()
    table = made(world, **HOURLY, tag__num_retained_max="1", snapshot__expire__on_commit="true")
    commit(table, "2023-07-18T12:12:00")
    for minute in range(8):
        commit(table, f"2023-07-18T12:{minute + 20}:00")
    table.create_tag("old", 1, retain="1 s")
    caplog.set_level(logging.CRITICAL)
    seen = set()

    def run(storage):
        commit_only(lake_on(storage, "run-").table("d.t"), "2023-07-18T13:12:00")

    for mode in ("error", "crash"):
        for done in every_fault(run, lambda: copied(world), mode=mode, one_in=one_in(3)):
            if done.fault.after and done.call[0] in ("read", "size", "list"):
                continue  # it only looked
            left = lake_on(done.world, "look-").table("d.t")
            published = left.meta.snapshots.latest_id() == 10
            if mode == "error":
                assert published == (done.outcome is None)
            else:
                assert isinstance(done.outcome, Crash)
            found = {tag.name: tag.snapshot.id for tag in left.meta.tags.all()}
            for name, number in found.items():
                assert len(rows(left, tag=name)) == 3, (name, number)
            seen.add((published, tuple(found)))
    assert (True, ("2023-07-18 12",)) in seen
    assert (False, ("2023-07-18 11", "old")) in seen


def test_a_damaged_tag_is_logged_by_housekeeping(caplog):
    table = made(snapshot__expire__on_commit="true", snapshot__num_retained__min="1", snapshot__time_retained="1 ms")
    commit(table, "2026-01-01T00:00:00")
    table.create_tag("bad")
    with table.meta.env.storage.write(table.meta.paths.tag("bad")) as sink:
        sink.write(b"{}")
    for minute in range(1, 10):
        commit_only(table, f"2026-01-01T00:{minute:02}:00")
    assert table.snapshots().num_rows == 10
    assert sum("bad" in record.getMessage() for record in caplog.records) == 2


def test_a_month_of_daily_tags():
    """Six commits a day with expiry by the options: every tag holds the rows of its day's end, and no file is left over."""
    table = made(
        **DAILY,
        tag__num_retained_max="7",
        snapshot__expire__on_commit="true",
        snapshot__num_retained__min="3",
        snapshot__time_retained="5 h",
    )
    first, expected, number = dt.datetime(2026, 1, 1, tzinfo=dt.timezone.utc), {}, 0
    for day in range(30):
        for hour in (1, 2, 8, 13, 19, 23):
            moment = first + dt.timedelta(days=day, hours=hour)
            table.meta.env.clock.now_ms, number = int(moment.timestamp() * 1000), number + 1
            write(table, range(number % 5, number % 5 + 4), number, compact=hour != 2)
            if hour == 1:  # the first commit after midnight
                expected[f"{first + dt.timedelta(days=day - 1):%Y-%m-%d}"] = rows(table)
        if day % 10 == 9:
            table.compact(full=True)
            assert names(table) == sorted(expected)[-7:]
            for name in names(table):
                assert rows(table, tag=name) == expected[name]
            assert table.snapshots().num_rows < 25
    assert table.verify() == []
    assert is_exact(table)


# -- the calendar -----------------------------------------------------------------------------------------------------

CALENDARS = [
    TagCalendar.of(TagOptions(period=period, formatter=formatter, delay_ms=delay))
    for period in ("daily", "hourly", "two-hours")
    for formatter in ("with_dashes", "without_dashes", "without_dashes_and_spaces")
    for delay in (0, 60_000)
]


@given(calendar=st.sampled_from(CALENDARS), times=st.lists(st.integers(0, 60 * 86_400), max_size=30))
def test_every_period_between_two_commits_of_its_neighbours_is_tagged(calendar, times):
    """Against the rule, stated for one period: its tag is the first commit after its end, unless a later period is tagged."""
    tags: list[str] = []
    for time in sorted(times):
        time_ms = 1_767_225_600_000 + time * 1000
        last = tags[-1] if tags else None
        made_now = calendar.due(last, tags, time_ms)
        assert (made_now is None) == (time_ms < calendar.next_due_ms(last))
        if made_now is not None:
            assert made_now not in tags
            start = calendar.start(made_now)
            assert start + calendar.period_ms <= time_ms < start + 2 * calendar.period_ms
            assert calendar.name(start) == made_now
            tags.append(made_now)
    assert calendar.of_form(reversed(tags)) == tags
    assert calendar.of_form(["eod", "2026-1-1", "2026-01-01 ", "20260101 1"]) == []
