"""Partition expiry: which partitions go, when commits look for them, and what others keep."""

from __future__ import annotations

import datetime as dt
import logging
from dataclasses import replace

import pyarrow as pa
import pytest
from direct_writes import upsert_rows
from naive import unreferenced
from strategies import fake_env, new_lake

import lsmlake
from lsmlake.api.lake import Lake
from lsmlake.api.runtime import Runtime
from lsmlake.api.table import Table
from lsmlake.commit.request import Identity
from lsmlake.errors import InvalidOption, InvalidQuery
from lsmlake.maintain import followers
from lsmlake.options.partition_options import PartitionOptions
from lsmlake.retention.partition_expiry import expire_partitions, time_of_partition
from lsmlake.schema.partitioning import PartitionColumn
from lsmlake.schema.transform import Transform
from lsmlake.storage.memory import MemoryStorage

UTC = dt.timezone.utc
NOW = dt.datetime(2026, 1, 31, 12, tzinfo=UTC)
HOUR = 3_600_000
DAY = 24 * HOUR
WEEK = {"partition.expiration-time": "7 d"}


def milliseconds(moment: dt.datetime) -> int:
    return int(moment.timestamp() * 1000)


class World:
    """A table by day, and the clock of its writers. Rows are (day, k)."""

    def __init__(self, columns: str = "day DATE, k INT", partition_by: tuple[str, ...] = ("day",), **options: object) -> None:
        self.now, self.storage, self.opened = milliseconds(NOW), MemoryStorage(), 0
        lake = new_lake(self.storage)
        key = [*partition_by, "k"]
        lake.create_table("d.t", columns, primary_key=key, partition_by=list(partition_by), options={"bucket": 2, **options})

    def table(self, prefix: str = "w-") -> Table:
        self.opened += 1
        env = replace(fake_env(self.storage, f"{prefix}{self.opened}-"), clock=lambda: self.now)
        return Lake(env, Runtime()).table("d.t")

    def upsert(self, *days: int | None) -> object:
        """A row for each day ago; None: without a day."""
        values = [None if ago is None else NOW.date() - dt.timedelta(days=ago) for ago in days]
        return self.table().upsert({"day": pa.array(values, pa.date32()), "k": range(len(days))}, cast=True)

    def days(self) -> list[int | None]:
        found = self.table().scan().to_arrow()["day"].to_pylist()
        return sorted(-1 if day is None else (NOW.date() - day).days for day in found)


def test_values_time_drops_what_is_older_and_keeps_null():
    world = World(**{"write-only": True}, **WEEK)
    world.upsert(0, 6, 7, 8, 30, None)
    assert world.days() == [-1, 0, 6, 7, 8, 30]
    report = world.table().expire_partitions(dry_run=True)
    assert (report.snapshot_id, report.rows, report.files) == (None, 3, 3)
    assert report.partitions == tuple((NOW.date() - dt.timedelta(days=ago),) for ago in (30, 8, 7))
    assert world.days() == [-1, 0, 6, 7, 8, 30]
    assert world.table().expire_partitions() == replace(report, snapshot_id=2)
    assert world.days() == [-1, 0, 6]
    assert world.table().meta.snapshots.latest().kind == "OVERWRITE"
    assert world.table().expire_partitions() == type(report)()
    assert world.table().verify() == []
    changes = world.table().changes(1, 2).to_arrow()
    assert changes["_row_kind"].to_pylist() == ["-D"] * 3


def test_update_time_goes_by_the_newest_file():
    world = World(**{"write-only": True, "partition.expiration-strategy": "update-time"}, **WEEK)
    world.upsert(100, 1)
    world.now += 5 * DAY
    world.upsert(1)
    world.now += 3 * DAY
    assert world.table().expire_partitions().partitions == ((NOW.date() - dt.timedelta(days=100),),)
    assert world.days() == [1, 1]


def test_a_partition_that_gets_rows_meanwhile_does_not_expire_by_update_time():
    world = World(**{"write-only": True, "partition.expiration-strategy": "update-time"}, **WEEK)
    world.upsert(1, 2)
    world.now += 8 * DAY
    stale = world.table()
    version = stale.version
    world.upsert(1)

    report = expire_partitions(version)
    assert report.partitions == ((NOW.date() - dt.timedelta(days=2),),)
    assert world.days() == [1]


def test_at_most_so_many_expire_at_a_time_the_oldest_first():
    world = World(**{"write-only": True, "partition.expiration-max-num": 2}, **WEEK)
    world.upsert(10, 20, 30, 40, 50)
    world.table().expire_partitions()
    assert world.days() == [10, 20, 30]


def test_the_first_commit_of_an_interval_looks():
    world = World(**{"partition.expiration-check-interval": "1 d"}, **WEEK)
    world.upsert(0)
    world.upsert(6)
    world.upsert(9)
    assert world.days() == [0, 6, 9], "the interval has been looked at"
    world.now += DAY
    world.upsert(1)
    assert world.days() == [0, 1], "the partition of six days ago is seven days old now"
    kinds = world.table().snapshots()["commit_kind"].to_pylist()
    assert kinds == ["APPEND"] * 4 + ["OVERWRITE"]


def test_every_commit_looks_without_an_interval():
    world = World(**{"partition.expiration-check-interval": "0 s"}, **WEEK)
    world.upsert(0, 9)
    assert world.days() == [0]
    world.upsert(10)
    assert world.days() == [0]


def test_an_error_of_the_expiry_is_no_error_of_the_commit(caplog, monkeypatch):
    def refuse(*args: object) -> None:
        raise RuntimeError("no")

    world = World(**WEEK)
    monkeypatch.setattr(followers, "expire_partitions", refuse)
    with caplog.at_level(logging.WARNING, "lsmlake"):
        world.upsert(0, 9)
    assert world.days() == [0, 9]
    assert "partitions were not expired after commit 1: no" in caplog.text


def test_expiry_and_a_writer_of_another_partition():
    """A writer that began before the expiry keeps its rows, in the expired partition as well: its commit came later."""
    world = World(**{"write-only": True}, **WEEK)
    world.upsert(0, 9)
    late = world.table("late-")
    version = late.version
    world.table().expire_partitions()

    day = NOW.date() - dt.timedelta(days=9)
    rows = pa.table({"day": pa.array([day], pa.date32()), "k": pa.array([5], pa.int32())}).cast(version.schema.row_columns)
    upsert_rows(version, rows, Identity("late"), None)
    assert world.days() == [0, 9]
    assert world.table().verify() == []
    assert unreferenced(world.table()) == []


# --- the time of a partition ---

CASES: list[tuple[dict[str, str], dict[str, object], str | None]] = [
    ({}, {"day": "2026-01-02"}, "2026-01-02 00:00"),
    ({}, {"day": "2026-1-2"}, "2026-01-02 00:00"),
    ({}, {"day": "2026-01-02 13:05:06"}, "2026-01-02 13:05:06"),
    ({}, {"day": "2026-01-02 13:05:06.5"}, "2026-01-02 13:05:06.500"),
    ({}, {"day": dt.date(2026, 1, 2)}, "2026-01-02 00:00"),
    ({}, {"day": dt.datetime(2026, 1, 2, 3, 4, 5, 678000)}, "2026-01-02 03:04:05.678"),
    ({}, {"day": dt.datetime(2026, 1, 2, 3, tzinfo=UTC)}, "2026-01-02 03:00"),
    ({}, {"day": "2026-02-30"}, None),
    ({}, {"day": "20260102"}, None),
    ({}, {"day": ""}, None),
    ({}, {"day": None}, None),
    ({}, {"day": 20260102}, None),
    ({"formatter": "yyyyMMdd"}, {"day": "20260102"}, "2026-01-02 00:00"),
    ({"formatter": "yyyyMMdd"}, {"day": 20260102}, "2026-01-02 00:00"),
    ({"formatter": "yyyyMMdd"}, {"day": "2026-01-02"}, None),
    ({"formatter": "dd/MM/yy HH'h'"}, {"day": "02/01/26 13h"}, "2026-01-02 13:00"),
    ({"pattern": "$day $hour:00:00"}, {"day": "2026-01-02", "hour": 7}, "2026-01-02 07:00"),
    ({"pattern": "$day $hour:00:00"}, {"day": "2026-01-02", "hour": None}, None),
    ({"pattern": "$day"}, {"region": "eu", "day": "2026-01-02"}, "2026-01-02 00:00"),
    ({"pattern": "$d$day", "formatter": "yyyyMMdd"}, {"d": "2026", "day": "0102"}, "2026-01-02 00:00"),
]


@pytest.mark.parametrize(("options", "partition", "expected"), CASES)
def test_the_time_of_a_partition(options, partition, expected):
    fields = [PartitionColumn(0, name, Transform("identity"), name, pa.string(), pa.string()) for name in partition]
    found = time_of_partition(fields, tuple(partition.values()), PartitionOptions(expiration_ms=DAY, **options))
    moment = None if expected is None else dt.datetime.fromisoformat(expected).replace(tzinfo=UTC)
    assert found == (None if moment is None else milliseconds(moment))


def test_a_partition_by_day_and_hour():
    pattern = {"partition.timestamp-pattern": "$day $hour:00:00", "partition.expiration-time": "2 h"}
    world = World("day STRING, hour INT, k INT", ("day", "hour"), **{"write-only": True}, **pattern)
    world.table().upsert({"day": ["2026-01-31"] * 3, "hour": [9, 10, 11], "k": [1, 1, 1]}, cast=True)
    world.table().expire_partitions()
    assert sorted(world.table().scan().to_arrow()["hour"].to_pylist()) == [10, 11]


REFUSED: list[tuple[dict[str, object], str]] = [
    ({"partition.timestamp-formatter": "yyyy-QQ"}, "partition.timestamp-formatter"),
    ({"partition.timestamp-formatter": "yyyy'"}, "partition.timestamp-formatter"),
    ({"partition.timestamp-pattern": "$dt"}, "names no partition column"),
    ({"partition.expiration-strategy": "update-time", "partition.timestamp-pattern": "$day"}, "has no effect unless"),
    ({"partition.expiration-strategy": "never"}, "partition.expiration-strategy"),
]


@pytest.mark.parametrize(("options", "message"), REFUSED)
def test_options_that_do_not_fit_are_refused(options, message):
    with pytest.raises(InvalidOption, match=message):
        World(**options, **WEEK)


def test_expiry_needs_partitions_and_the_option():
    with pytest.raises(InvalidOption, match="the table has no partitions"):
        new_lake().create_table("d.t", "k INT", primary_key=["k"], options=WEEK)
    with pytest.raises(InvalidOption, match=r"no partition field tells a time.*found bucket\(2, k\)"):
        new_lake().create_table("d.t", "k INT", partition_by=["bucket(2, k)"], options=WEEK)
    world = World()
    with pytest.raises(InvalidQuery, match="does not say when"):
        world.table().expire_partitions()
    world.table().alter(lsmlake.set_option("partition.expiration-time", "1 d"))
    assert world.table().expire_partitions().partitions == ()


def test_a_renamed_column_is_renamed_in_the_pattern():
    pattern = {"partition.timestamp-pattern": "$day $hour:00:00", "partition.expiration-time": "2 h"}
    world = World("day STRING, hour INT, k INT", ("day", "hour"), **{"write-only": True}, **pattern)
    world.table().upsert({"day": ["2026-01-31"] * 3, "hour": [9, 10, 11], "k": [1, 1, 1]}, cast=True)
    world.table().alter(lsmlake.rename_column("hour", "h"), lsmlake.rename_column("day", "hour"))
    assert world.table().options["partition.timestamp-pattern"] == "$hour $h:00:00"
    assert world.table().expire_partitions().partitions == (("2026-01-31", 9),)
    assert sorted(world.table().scan().to_arrow()["h"].to_pylist()) == [10, 11]
