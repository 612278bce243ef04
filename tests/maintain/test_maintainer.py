"""What is due, in which order it is done, within which limits, and what maintainers that share a warehouse do to each other."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pytest
from effort import examples
from faults import HookedStorage
from hypothesis import given
from hypothesis import strategies as st
from maintenance_day import MINUTE_MS, day, runs
from naive import unreferenced
from object_servers import Server
from storage_clock import DAY, Clock
from strategies import contents, lake_on
from typer.testing import CliRunner

import lsmlake
from lsmlake import set_option
from lsmlake.api.lake import Lake
from lsmlake.api.maintenance_run import MaintenanceOrder
from lsmlake.api.table import Table
from lsmlake.beside import Signal
from lsmlake.cli.app import app
from lsmlake.compact.job import Goal, needs_compaction
from lsmlake.errors import InvalidOption, InvalidQuery, TableNotFound
from lsmlake.maintain import due as kinds
from lsmlake.maintain.due import Due, due
from lsmlake.maintain.leases import Leases
from lsmlake.maintain.maintainer import Backoff, Maintainer, StoppableIds, Stopped
from lsmlake.maintain.table_facts import Looks
from lsmlake.maintain.work_history import RECORDS_MAX, WorkHistory, WorkRecord, WorkSummary

HOUR_MS = 3_600_000


class Reads(HookedStorage):
    """Notes the paths that are read."""

    def __init__(self, inner: object) -> None:
        super().__init__(inner)
        self.paths: list[str] = []

    def around(self, verb: str, path: str) -> AbstractContextManager:
        if verb == "read":
            self.paths.append(path)
        return nullcontext()


class World:
    """A warehouse in memory with a clock of its own, which also dates the files."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.lake = self.handle("w")
        self.lake.create_database("d")

    def handle(self, prefix: str, storage: object = None) -> Lake:
        made = lake_on(storage or self.clock.storage, prefix)
        return Lake(replace(made.env, clock=lambda: self.clock.now, sleep=self.sleep), made.runtime)

    def sleep(self, seconds: float) -> None:
        self.clock.now += max(1, int(seconds * 1000))

    def table(self, name: str = "d.t", **options: object) -> Table:
        options = {option.replace("__", ".").replace("_", "-"): value for option, value in options.items()}
        given = {"bucket": 1, "write-only": True, **options}
        return self.lake.create_table(name, "k INT NOT NULL, v STRING", primary_key=["k"], options=given)

    def maintainer(self, prefix: str, storage: object = None, **order: object) -> Maintainer:
        lake = self.handle(prefix, storage)
        return MaintenanceOrder(**order).maintainer(lake.env, lake.runtime, Signal())

    def plan(self, lake: Lake | None = None) -> list[tuple[str, str]]:
        """(table, kind of work), in order of rank."""
        planned = (lake or self.lake).maintain(plan=True)
        return list(zip(planned["table_name"].to_pylist(), planned["kind"].to_pylist(), strict=True))


@pytest.fixture
def world() -> World:
    return World()


def upsert(table: Table, first: int, rows: int = 10, text: str = "x") -> None:
    table.upsert(pa.table({"k": pa.array(range(first, first + rows), pa.int32()), "v": [text] * rows}))


# -- what is due ------------------------------------------------------------------------------------------------------


def test_nothing_is_due_in_new_and_in_maintained_tables(world: World):
    empty, full = world.table("d.empty"), world.table("d.full")
    assert world.plan() == []
    upsert(full, 0)
    upsert(full, 5)
    before = contents(world.clock.storage)
    assert world.plan() == [("d.full", "compact")]
    assert contents(world.clock.storage) == before, "a plan writes nothing"
    done = world.lake.maintain(once=True)
    assert done["kind"].to_pylist() == ["compact"] and done["rows"].to_pylist() == [15]
    assert (runs(full), full.count(), empty.count(), world.plan()) == (0, 15, 0, [])


@examples(25)
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 40), st.integers(1, 30), st.booleans()), max_size=12), st.booleans())
def test_a_compaction_is_due_where_the_engine_would_do_one(steps: list, vectors: bool):
    """And one run of a maintainer leaves none due, and the rows as they were."""
    world = World()
    options = {"deletion_vectors__enabled": vectors, "bucket": 2, "snapshot__expire__on_commit": False}
    tables = [world.table(f"d.t{number}", **options) for number in range(4)]
    for number, first, rows, compacts in steps:
        upsert(tables[number], first, rows)
        if compacts:
            tables[number].compact()
    for table in tables:
        meta, schema = table.meta, table.version.schema
        wanted = {bucket for bucket, state in table.states().items() if needs_compaction(meta, schema, Goal(), state)}
        planned = [work for work in due(Looks(world.lake.env).look(table.name), {}) if work.kind == kinds.COMPACT]
        assert {bucket for work in planned for bucket in work.buckets} == wanted
        assert all(work.cost > 0 and work.benefit > 0 for work in planned)
    rows = [table.to_arrow().sort_by("k") for table in tables]
    world.lake.maintain()
    assert "compact" not in dict(world.plan()).values()
    assert [table.to_arrow().sort_by("k") for table in tables] == rows


def test_the_most_useful_work_per_byte_comes_first(world: World):
    """Of two tables, the one with many runs at level 0 before one whose few rows cost as much; tiny works come late."""
    many, few, tiny = (world.table(f"d.{name}") for name in ("many", "few", "tiny"))
    for _ in range(12):
        upsert(many, 0, 50, "y" * 20)
    upsert(few, 0, 4000, "".join(map(str, range(40))))
    upsert(few, 0, 10)
    upsert(tiny, 0, 1)
    assert [name for name, _ in world.plan()] == ["d.many", "d.few", "d.tiny"]
    big, small = Due("t", "compact", "", 8 << 20, 4 << 20), Due("t", "compact", "", 8 << 20, 400 << 20)
    assert big.rank > small.rank > 0


def test_a_large_compaction_becomes_several_works(world: World, monkeypatch: pytest.MonkeyPatch):
    table = world.table(bucket=4)
    for first in range(3):
        upsert(table, first, 400)
    monkeypatch.setattr(kinds, "CHUNK_BYTES", 2 * max(f.bytes for s in table.states().values() for f in s.files))
    works = due(Looks(world.lake.env).look("d.t"), {})
    assert len(works) > 1 and sum(len(work.buckets) for work in works) == len(table.states()) == 4
    assert len({bucket for work in works for bucket in work.buckets}) == 4
    world.lake.maintain()
    assert (runs(table), table.count()) == (0, 402)


def test_expiry_waits_for_ten_snapshots_or_for_a_quiet_table(world: World):
    table = world.table(snapshot__num_retained__min=1, snapshot__time_retained="1 min", snapshot__expire__on_commit=False)
    for number in range(4):
        upsert(table, number)
    table.compact()
    world.clock.now += 2 * MINUTE_MS
    upsert(table, 7)
    table.compact()
    assert world.plan() == [], "six are due, but the table is in use"
    world.clock.now += 20 * MINUTE_MS
    assert ("d.t", "expire_snapshots") in world.plan()
    world.lake.maintain()
    assert table.snapshots().num_rows == 1 and unreferenced(table) == []


def test_tags_partitions_and_consumers_expire(world: World):
    options = {"write-only": True, "partition.expiration-time": "7 d", "consumer.expiration-time": "1 d"}
    table = world.lake.create_table("d.p", "dt DATE, k INT", primary_key=["dt", "k"], partition_by=["dt"], options=options)
    days = [(world.clock.now - back * DAY) // DAY for back in (30, 0)]
    table.upsert(pa.table({"dt": pa.array(days, pa.int32()).cast(pa.date32()), "k": pa.array([1, 2], pa.int32())}), compact=True)
    table.create_tag("old", retain="1 h")
    table.reset_consumer("gone", 1)
    assert world.plan() == [("d.p", "expire_partitions")]
    world.clock.pass_days(2)
    assert {kind for _, kind in world.plan()} == {"expire_partitions", "expire_tags", "expire_snapshots"}
    done = world.lake.maintain()
    assert {"expire_partitions", "expire_tags", "expire_snapshots"} <= set(done["kind"].to_pylist())
    assert (table.count(), table.tags().num_rows, table.consumers().num_rows, world.plan()) == (1, 0, 0, [])


def test_orphans_are_looked_for_once_in_an_interval(world: World):
    table = world.table(maintain__orphan_interval="2 d")
    world.table("d.never", maintain__orphan_interval=0)
    upsert(table, 0)
    table.compact()
    orphan = f"{table.path}/bucket-0/data-lost.parquet"
    world.clock.storage.put_if_absent(orphan, b"lost")
    world.clock.pass_days(3)
    assert ("d.t", "remove_orphan_files") in world.plan() and "d.never" not in dict(world.plan())
    world.lake.maintain()
    assert world.clock.storage.size(orphan) is None
    world.clock.pass_days(1)
    assert ("d.t", "remove_orphan_files") not in world.plan()
    world.clock.pass_days(1.5)
    assert ("d.t", "remove_orphan_files") in world.plan()


def test_buckets_that_have_grown_are_split(world: World):
    table = world.table(bucket="auto", bucket__target_size="2 kb")
    table.upsert(pa.table({"k": pa.array(range(2000), pa.int32()), "v": [f"{number * 7919 % 10007}" for number in range(2000)]}))
    assert {("d.t", "split"), ("d.t", "compact")} == set(world.plan())
    world.lake.maintain()
    assert len(table.states()) >= 4 and (table.count(), table.verify(), world.plan()) == (2000, [], [])


def test_metadata_is_brought_up_to_date(world: World):
    """Manifests of a quiet table, and statistics that were made once."""
    table = world.table(manifest__merge_min_count=100, snapshot__time_retained="9 d")
    for number in range(12):
        upsert(table, 100 * number, 100)
    table.analyze()
    upsert(table, 5000, 5)
    assert {kind for _, kind in world.plan()} == {"compact"}
    upsert(table, 6000, 600)
    world.lake.maintain()
    world.clock.now += HOUR_MS
    assert [kind for _, kind in world.plan()] == ["merge_manifests"]
    rows = table.to_arrow().sort_by("k")
    world.lake.maintain()
    (statistics,) = table.system_table("statistics").to_pylist()
    assert (statistics["mergedRecordCount"], table.manifests().num_rows, table.verify()) == (1805, 1, [])
    assert table.to_arrow().sort_by("k") == rows and world.plan() == []


def test_iceberg_metadata_that_lags_is_published(tmp_path: Path):
    lake = lsmlake.connect(tmp_path)
    lake.create_database("d")
    table = lake.create_table("d.t", "k INT NOT NULL", primary_key=["k"], options={"metadata.iceberg": True})
    table.upsert([{"k": 1}])
    silent = Lake(replace(lake.env, followers=()), lake.runtime).table("d.t")  # as if publication failed after these commits
    silent.upsert([{"k": 2}])
    silent.upsert([{"k": 3}])
    assert lake.health()["publication_lag"].to_pylist() == [2]
    assert lake.maintain(plan=True)["kind"].to_pylist() == ["publish_iceberg"]
    lake.maintain()
    assert lake.health()["publication_lag"].to_pylist() == [0] and lake.maintain(plan=True).num_rows == 0


def test_branches_are_looked_after(world: World):
    table = world.table()
    upsert(table, 0)
    table.create_branch("b", snapshot=1)
    upsert(table.branch("b"), 5)
    assert {name for name, _ in world.plan()} == {"d.t", "d.t$branch_b"}
    world.lake.maintain(tables=["d.t$branch_b"])
    assert (runs(table), runs(table.branch("b"))) == (1, 0)
    world.lake.maintain()
    assert (runs(table), world.plan()) == (0, [])


# -- policy and limits ------------------------------------------------------------------------------------------------


def test_policy_of_tables_and_databases(world: World):
    off, night, poor = (world.table(f"d.{name}", **{f"maintain__{option}": value}) for name, option, value in
                        (("off", "enabled", False), ("night", "window", "22-6"), ("poor", "bytes_per_day", "1 kb")))  # fmt: skip
    for table in (off, night, poor):
        upsert(table, 0, 200)
        upsert(table, 100, 200)
    world.clock.now += 12 * HOUR_MS - world.clock.now % DAY  # noon
    waits = {row["table_name"]: row["waits"] for row in world.lake.maintain(plan=True).to_pylist()}
    assert waits == {"d.night": "outside of maintain.window = 22-6", "d.poor": None}
    world.lake.maintain()
    upsert(poor, 200, 200)
    (planned,) = [row for row in world.lake.maintain(plan=True).to_pylist() if row["table_name"] == "d.poor"]
    assert planned["waits"].startswith("maintain.bytes-per-day: ")
    assert (runs(off), runs(night), runs(poor)) == (2, 2, 1)
    world.clock.now += 11 * HOUR_MS  # 23 h
    world.lake.maintain()
    assert (runs(off), runs(night), runs(poor)) == (2, 0, 1)
    world.clock.now += 14 * HOUR_MS
    world.lake.maintain()
    assert runs(poor) == 0
    off.alter(set_option("maintain.enabled", True))
    world.lake.maintain()
    assert runs(off) == 0


def test_a_database_holds_options_for_its_tables(tmp_path: Path):
    lake = lsmlake.connect(tmp_path)
    lake.sql("CREATE DATABASE d WITH DBPROPERTIES ('maintain.enabled' = 'false', 'owner' = 'me')")
    lake.sql("CREATE DATABASE e WITH DBPROPERTIES ('maintain.windw' = '1-2')")
    for name, options in (("d.a", {}), ("d.b", {"maintain.enabled": True}), ("e.c", {})):
        lake.create_table(name, "k INT NOT NULL", primary_key=["k"], options={"write-only": True, **options}).upsert([{"k": 1}])
    planned = {row["table_name"]: row["error"] for row in lake.maintain(plan=True).to_pylist()}
    assert planned.keys() == {"d.b", "e.c"} and "unknown option 'maintain.windw'" in planned["e.c"]


@pytest.mark.parametrize("window", ["22", "22-22", "25-3", "-1-3", "6 - 25", "a-b"])
def test_a_window_is_two_hours(world: World, window: str):
    with pytest.raises(InvalidOption, match="such as 22-6"):
        world.table(maintain__window=window)


def test_arguments_are_checked(world: World):
    world.table()
    for wrong in ({"workers": 0}, {"once": True, "every": "1 s"}, {"tables": ["d.missing"]}):
        with pytest.raises((InvalidQuery, TableNotFound)):
            world.lake.maintain(**wrong)
    for wrong in ({"memory": "much"}, {"every": "soon"}, {"bytes_per_second": 0}):
        with pytest.raises(InvalidOption):
            world.lake.maintain(**wrong)


@pytest.mark.parametrize(
    "given", [{"once": True}, {"every": "30 s"}, {"workers": 2}, {"memory": "1 gb"}, {"bytes_per_second": "1 mb"}]
)
def test_a_plan_refuses_what_it_does_not_obey(world: World, given: dict):
    world.table()
    with pytest.raises(InvalidQuery, match=f"a plan does no work.*{next(iter(given))}"):
        world.lake.maintain(plan=True, **given)
    assert world.lake.maintain(plan=True, tables=["d.t"]).num_rows == 0


@pytest.mark.parametrize("flag", [["--once"], ["--every", "30s"], ["--metrics-port", "9464"], ["--spark"]])
def test_a_plan_of_the_command_refuses_what_it_does_not_obey(tmp_path: Path, flag: list[str]):
    lsmlake.connect(tmp_path)
    told = CliRunner().invoke(app, ["maintain", str(tmp_path), "--plan", *flag])
    assert told.exit_code == 2 and "a plan does no work" in told.output


@pytest.mark.parametrize("command", ["maintain", "health", "serve"])
def test_two_warehouses_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str):
    first, second = (str(tmp_path / name) for name in ("first", "second"))
    for place in (first, second):
        lsmlake.connect(place).create_database("d")
    for before, after in (([], ["--warehouse", second]), (["-w", second], [])):
        told = CliRunner().invoke(app, [*before, command, first, *after])
        assert told.exit_code == 2 and f"two warehouses are named, found {first} and --warehouse {second}" in told.output
    if command != "serve":
        monkeypatch.setenv("LSMLAKE_WAREHOUSE", second)
        for after in ([], ["--warehouse", first]):
            assert CliRunner().invoke(app, [command, first, *after]).exit_code == 0


def test_workers_memory_and_bytes_per_second_bound_the_sessions(world: World):
    maintainer = world.maintainer("m", workers=3, memory="1 gb", bytes_per_second="1 mb")
    assert maintainer._may_begin(2 << 30, []), "a work that needs more than all runs alone"
    assert maintainer._may_begin(512 << 20, [512 << 20]) and not maintainer._may_begin(513 << 20, [512 << 20])
    assert not maintainer._may_begin(1, [1, 1, 1])
    maintainer._debt += 10 << 20
    world.clock.now += 9_000
    assert not maintainer._may_begin(1, [])
    world.clock.now += 1_100
    assert maintainer._may_begin(1, [])


def test_bytes_per_second_slows_down_but_ends(world: World):
    tables = [world.table(f"d.t{number}") for number in range(3)]
    for table in tables:
        upsert(table, 0, 1000)
    begin = world.clock.now
    cost = sum(world.lake.maintain(plan=True)["cost_in_bytes"].to_pylist())
    world.lake.maintain(bytes_per_second=cost // 30)
    assert [runs(table) for table in tables] == [0, 0, 0]
    assert 15_000 < world.clock.now - begin < 60_000


# -- failures ---------------------------------------------------------------------------------------------------------


def damage(table: Table) -> str:
    """Destroys the newest manifest of a table."""
    path = table.meta.paths.manifest(table.meta.manifests.metas(table.version.snapshot)[-1].name)
    with table.meta.env.storage.write(path) as sink:
        sink.write(b"no manifest")
    return path


def test_a_table_that_fails_is_reported_and_stops_no_other(world: World):
    good, bad = world.table("d.good"), world.table("d.bad")
    for table in (good, bad):
        upsert(table, 0)
    path = damage(bad)
    done = {row["table_name"]: row for row in world.handle("x").maintain().to_pylist()}
    assert done["d.good"]["error"] is None and path in done["d.bad"]["error"] and runs(good) == 0
    planned = {row["table_name"]: row["error"] for row in world.handle("y").maintain(plan=True).to_pylist()}
    assert planned.keys() == {"d.bad"} and path in planned["d.bad"]


def test_a_failed_table_waits_twice_as_long_each_time_at_most_an_hour(world: World):
    waits, backoff = [], Backoff(0, 0)
    for _ in range(9):
        backoff = backoff.again(0)
        waits.append(backoff.until_ms // 60_000)
    assert waits == [1, 2, 4, 8, 16, 32, 60, 60, 60]
    table = world.table()
    upsert(table, 0)
    damage(table)
    maintainer = world.maintainer("m")
    tried = []
    for session in maintainer.every(10):
        tried.append(world.clock.now)
        assert session.error is not None
        if len(tried) == 5:
            maintainer.stop.give()
    between = [(later - earlier) // 1000 for earlier, later in pairwise(tried)]
    assert all(wait <= took <= wait + 15 for wait, took in zip((60, 120, 240, 480), between, strict=True)), between


def test_a_table_that_was_dropped_or_made_anew_meanwhile_is_no_failure(world: World):
    table, other = world.table(), world.table("d.other")
    for each in (table, other):
        upsert(each, 0)
    maintainer = world.maintainer("m")
    maintainer.plan()
    world.lake.drop_table("d.t")
    world.lake.drop_table("d.other")
    again = world.table("d.other")
    upsert(again, 3)
    sessions = list(maintainer.once())
    assert [(session.table, session.error) for session in sessions] == [("d.other", None)] and runs(again) == 0


def test_a_named_table_that_was_dropped_is_reported_and_stops_no_other(world: World):
    gone, other = world.table("d.gone"), world.table("d.other")
    maintainer = world.maintainer("m", tables=[gone.name, other.name])
    world.lake.drop_table(gone.name)
    upsert(other, 0)
    upsert(other, 5)
    found = {}
    for session in maintainer.every(10):
        found[session.table] = session.error
        if len(found) == 2:
            maintainer.stop.give()
    assert isinstance(found["d.gone"], TableNotFound) and found["d.other"] is None and runs(other) == 0


def test_work_in_progress_ends_at_its_next_file_and_leaves_nothing(world: World):
    table = world.table()
    for number in range(3):
        upsert(table, number)
    before = contents(world.clock.storage)
    stop = Signal()
    ids = StoppableIds(world.lake.env.ids, stop)
    lake = Lake(replace(world.lake.env, ids=ids), world.lake.runtime)
    maintainer = MaintenanceOrder().maintainer(lake.env, lake.runtime, stop)
    maintainer.do = stopping(maintainer.do, stop)
    assert not any(session.records for session in maintainer.once())
    assert contents(world.clock.storage) == before
    with pytest.raises(Stopped):
        ids()


def stopping(do, stop: Signal):
    def stopped(facts, work):
        stop.give()
        return do(facts, work)

    return stopped


# -- several maintainers ----------------------------------------------------------------------------------------------


def test_a_lease_is_held_by_one_and_outlives_only_a_live_maintainer(world: World):
    first, second, third = (Leases(world.handle(name).env, name, name) for name in "abc")
    lease = first.take("line")
    assert lease is not None and second.take("line") is None and second.holders() == {"line": "a"}
    world.clock.now += 59_000
    assert second.take("line") is None, "its heartbeat is young"
    first.beat()
    world.clock.now += 59_000
    assert second.take("line") is None, "it was written again"
    world.clock.now += 20_000  # now the first one is dead
    taken = second.take("line")
    assert taken is not None and third.take("line") is None and third.holders() == {"line": "b"}
    first.release(lease)
    assert third.take("line") is None, "what a dead one releases is not the lease of the next"
    second.release(taken)
    assert third.take("line") is not None
    world.clock.now += 61_000
    second.sweep()
    assert [entry.path for entry in world.clock.storage.list("maintenance")] == ["maintenance/leases/maintainer-b"]
    second.leave()
    assert list(world.clock.storage.list("maintenance")) == []


def test_leases_go_by_the_clock_of_the_storage(world: World):
    """The clocks of two machines differ by a year; their heartbeats are dated by the storage."""
    lake = world.handle("a")
    ahead = Leases(replace(lake.env, clock=lambda: world.clock.now + 365 * DAY), "a", "a")
    behind = Leases(replace(lake.env, clock=lambda: world.clock.now - 365 * DAY), "b", "b")
    assert ahead.take("line") is not None and behind.take("line") is None
    world.clock.now += 30_000
    ahead.beat()
    behind.beat()
    assert behind.take("line") is None
    world.clock.now += 61_000
    assert behind.take("line") is not None


def test_two_maintainers_share_the_tables(world: World):
    """The second one works while a session of the first one is open, and leaves its table alone."""
    tables = [world.table(f"d.t{number}") for number in range(3)]
    for table in tables:
        upsert(table, 0)
    held = Leases(world.handle("a").env, "a", "a")
    held.take(tables[0].meta.paths.line)
    done = world.maintainer("b").once()
    assert {session.table for session in done if session.records} == {"d.t1", "d.t2"}
    waits = world.lake.maintain(plan=True).to_pylist()
    assert [(row["table_name"], row["waits"]) for row in waits] == [("d.t0", "maintainer a works on the table")]
    held.leave()
    assert [session.table for session in world.maintainer("c").once() if session.records] == ["d.t0"]


def test_maintainers_share_a_warehouse_in_an_object_store(s3: Server):
    url = s3.warehouse()
    lake = lsmlake.connect(url, storage_options=s3.options)
    lake.create_database("d")
    tables = [lake.create_table(f"d.t{n}", "k INT NOT NULL", primary_key=["k"], options={"write-only": True}) for n in range(2)]
    for table in tables:
        table.upsert([{"k": 1}])
    held = Leases(lsmlake.connect(url, storage_options=s3.options).env, "a", "a")
    held.take(tables[0].meta.paths.line)
    assert lake.maintain()["table_name"].to_pylist() == ["d.t1"]
    assert lake.maintain(plan=True)["waits"].to_pylist() == ["maintainer a works on the table"]
    held.leave()
    assert lake.maintain()["table_name"].to_pylist() == ["d.t0"]
    assert [entry.path for entry in lake.env.storage.list("maintenance/leases")] == []
    assert lake.maintenance()["table_name"].to_pylist() == ["d.t1", "d.t0"]


def test_lost_races_cost_work_and_never_rows(world: World):
    """Writers commit into the bucket at each call of the maintainer's storage, and another maintainer steals its lease."""
    table = world.table()
    upsert(table, 0, 20)
    upsert(table, 10, 20)

    class Disturbed(HookedStorage):
        writes = 0

        def around(self, verb: str, path: str) -> AbstractContextManager[None]:
            return nullcontext()

        def put_if_absent(self, path: str, data: bytes) -> bool:
            if "snapshot-" in path and Disturbed.writes < 3:
                Disturbed.writes += 1
                upsert(table, 100 * Disturbed.writes, 5)
            return super().put_if_absent(path, data)

    sessions = list(world.maintainer("m", Disturbed(world.clock.storage)).once())
    assert Disturbed.writes == 3 and not any(session.error for session in sessions)
    assert (table.count(), runs(table), table.verify(), unreferenced(table)) == (45, 0, [], [])


def test_a_day_with_a_maintainer_that_dies():
    outcome = day(3, 60, 7)
    assert outcome.died and outcome.commits > 20 and outcome.works > 20
    assert outcome.left_runs == 0 and max(outcome.backlog) <= 8, "the backlog is bounded"
    assert (outcome.unreferenced, outcome.leases) == ([], []), "storage reaches its floor"
    assert outcome.snapshots == [2, 2, 2]


PROGRAM = """
import sys, lsmlake
from dataclasses import replace
from lsmlake.api.maintenance_run import MaintenanceOrder
from lsmlake.beside import Signal
lake = lsmlake.connect(sys.argv[1])
maintainer = MaintenanceOrder(workers=1).maintainer(lake.env, lake.runtime, Signal())
maintainer.leases.time_ms = 1500
for session in maintainer.every(0.2):
    if session.records:
        print(session.table, flush=True)
"""


def test_a_killed_process_keeps_nothing_from_a_second_one(tmp_path: Path):
    """Two real processes. The first one is killed in the middle of its work, at whatever instant that is."""
    lake = lsmlake.connect(tmp_path / "lake")
    lake.create_database("d")
    tables = [
        lake.create_table(f"d.t{n}", "k INT NOT NULL, v INT", primary_key=["k"], options={"write-only": True}) for n in range(6)
    ]

    def write(value: int) -> None:
        for table in tables:
            for first in (0, 50):
                table.upsert(
                    pa.table({"k": pa.array(range(first, first + 100), pa.int32()), "v": pa.array([value] * 100, pa.int32())})
                )

    write(1)
    start = [sys.executable, "-c", PROGRAM, str(tmp_path / "lake")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    first = subprocess.Popen(start, stdout=subprocess.PIPE, text=True, env=environment)
    assert first.stdout.readline(), "it has done one of the six tables"
    second = subprocess.Popen(start, stdout=subprocess.PIPE, text=True, env=environment)
    try:
        first.kill()
        write(2)
        deadline = time.monotonic() + 300
        while any(map(runs, tables)) and time.monotonic() < deadline:
            time.sleep(0.1)
        assert not any(map(runs, tables))
    finally:
        first.kill()
        second.send_signal(signal.SIGINT)
        second.communicate(timeout=600)
        first.communicate()
    for table in tables:
        assert (table.count(), set(table.to_arrow()["v"].to_pylist()), table.verify()) == (150, {2}, [])


def test_sigterm_ends_the_command_within_seconds_and_leaves_nothing(tmp_path: Path):
    lake = lsmlake.connect(tmp_path)
    lake.create_database("d")
    table = lake.create_table("d.t", "k INT NOT NULL", primary_key=["k"], options={"write-only": True})
    table.upsert([{"k": 1}])
    words = ["maintain", str(tmp_path), "--every", "1s", "--json"]
    program = [sys.executable, "-c", "from lsmlake.cli.main import run; run()", *words]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    process = subprocess.Popen(program, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
    assert '"kind": "compact"' in process.stdout.readline()
    process.terminate()
    begin = time.monotonic()
    rest, errors = process.communicate(timeout=600)
    assert time.monotonic() - begin < 20
    assert (process.returncode, rest, errors) == (0, "", "")
    assert list(lake.env.storage.list("maintenance/leases")) == [] and unreferenced(table) == []


# -- history ----------------------------------------------------------------------------------------------------------


def test_the_history_says_what_was_done_by_maintainers_and_by_writers(world: World):
    table = world.table(write_only=False)
    upsert(table, 0)
    upsert(table, 5)  # compacts inline
    upsert(table, 20, 3)
    before = [file for state in table.states().values() for file in state.files]
    table.compact(full=True)
    rows, writers = table.system_table("maintenance").to_pylist(), table.snapshots().to_pylist()
    assert {row["who"] for row in rows} <= {row["writer_id"] for row in writers}
    (last,) = [row for row in rows if row["kind"] == "compact"]
    assert (last["files_in"], last["files_out"], last["rows"]) == (len(before), 1, 18)
    (after,) = [file for state in table.states().values() for file in state.files]
    assert (last["bytes_in"], last["bytes_out"]) == (sum(file.bytes for file in before), after.bytes)
    table.alter(set_option("write-only", True))
    upsert(table, 0, 7)
    upsert(table, 0, 7)
    (done,) = world.lake.maintain().to_pylist()
    assert world.lake.maintenance().to_pylist()[-1] == done == table.system_table("maintenance").to_pylist()[-1]
    assert done["write_amplification"] == done["bytes_out"] / done["bytes_level0"] and done["start_time"] <= done["end_time"]
    assert Counter(row["snapshot_id"] for row in table.system_table("maintenance").to_pylist()).most_common(1)[0][1] == 1


def test_the_history_is_bounded_and_survives_damage(world: World):
    history = WorkHistory(world.lake.env)
    for number in range(RECORDS_MAX + 30):
        history.add("line", [WorkRecord("d.t", "compact", "why", number, number + 1, number)])
    kept = history.of("line")
    assert [one.snapshot_id for one in kept] == list(range(30, RECORDS_MAX + 30))
    (entry,) = world.clock.storage.list("maintenance/history")
    with world.clock.storage.write(entry.path) as sink:
        sink.write(b"{")
    assert history.of("line") == []
    history.add("line", kept[:1])
    assert history.of("line") == kept[:1]
    history.forget(["other"])
    assert list(world.clock.storage.list("maintenance/history")) == []


def test_a_round_reads_no_record_twice(world: World):
    """Records of other maintainers are seen nevertheless, by a session too."""
    watched = Reads(world.clock.storage)
    mine, other = WorkHistory(replace(world.lake.env, storage=watched)), WorkHistory(world.lake.env)
    record = WorkRecord("d.t", "compact", "why", 1, 2, 1, bytes_in=70, bytes_out=30)
    for line in ("a", "b", "c"):
        other.add(line, [record])
    first = mine.summaries()
    assert first == dict.fromkeys("abc", WorkSummary({"compact": 2}, ((2, "compact", 100),)))
    assert len(watched.paths) == 3
    assert mine.summaries() == first and mine.summary("a") == first["a"] and len(watched.paths) == 3
    other.add("a", [replace(record, kind="analyze", end_ms=5)])
    other.add("c", [replace(record, kind="analyze", end_ms=6)])
    assert mine.summary("a").last_ms == {"compact": 2, "analyze": 5}
    assert mine.summaries()["c"].last_ms == {"compact": 2, "analyze": 6}
    assert len(watched.paths) == 5
    mine.add("a", [replace(record, end_ms=9)])
    assert other.summary("a").last_ms == mine.summary("a").last_ms == {"compact": 9, "analyze": 5}
    other.forget(["b"])
    assert mine.summaries().keys() == {"b"}


def test_bytes_of_the_last_day_are_spent():
    day = 24 * HOUR_MS
    sizes = [(0, "compact", None), (5, "compact", 10), (day, "split", 20), (day + 5, "expire_tags", 40), (day + 6, "split", 80)]
    records = [WorkRecord("d.t", kind, None, None, end_ms, bytes_out=size) for end_ms, kind, size in sizes]
    summary = WorkSummary.of(records)
    assert [size for _, _, size in summary.moved] == [20, 40, 80]
    assert summary.spent(kinds.HEAVY, day + 6) == 100 and summary.spent(kinds.HEAVY, 2 * day + 1) == 80


def test_records_of_dropped_tables_go(world: World):
    table = world.table()
    upsert(table, 0)
    world.lake.maintain()
    assert len(list(world.clock.storage.list("maintenance/history"))) == 1
    world.lake.drop_table("d.t")
    world.lake.maintain()
    assert list(world.clock.storage.list("maintenance")) == []
