"""Snapshot expiry: retained snapshots stay readable, expired ones leave no file, consumers and changelogs are protected."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import count

import pyarrow as pa
import pytest
from effort import SCALE, examples, one_in
from faults import Crash, FaultStorage, every_fault, interleavings
from hypothesis import given
from hypothesis import strategies as st
from naive import unreferenced
from strategies import START_MS, Ticks, contents, copied, fake_env, lake_on, multiset, new_lake, rows_of, tiny_units

from lsmlake import set_option, unset_option
from lsmlake.api.lake import Lake
from lsmlake.api.runtime import Runtime
from lsmlake.api.table import Table
from lsmlake.errors import CommitConflict, InvalidOption, InvalidQuery, SnapshotNotFound
from lsmlake.retention.retention import Retention, first_kept
from lsmlake.retention.snapshot_expiry import ExpireReport
from lsmlake.storage.env import Limits
from lsmlake.storage.memory import MemoryStorage
from lsmlake.tables.snapshots import Snapshots

DAY = dict.fromkeys(range(1, 11), 0) | {8: 80, 9: 90, 10: 100}


@pytest.mark.parametrize(
    ("retention", "protected", "kept"),
    [
        (Retention(1, None, 1000), None, 10),
        (Retention(1, None, 95), None, 9),  # snapshot 9 was the latest at 95
        (Retention(1, None, 90), None, 8),
        (Retention(1, None, 0), None, 1),
        (Retention(5, None, 1000), None, 6),
        (Retention(20, None, 1000), None, 1),
        (Retention(1, 2, 0), None, 9),  # more than two go however young
        (Retention(1, 100, 0), None, 1),
        (Retention(1, 2, 0), 4, 4),
        (Retention(1, None, 1000), 1, 1),
        (Retention(1, None, 1000, limit=3), None, 4),
        (Retention(1, 2, 0, limit=3), None, 4),
    ],
)
def test_which_snapshot_is_the_first_to_stay(retention, protected, kept):
    assert first_kept(list(DAY), DAY.__getitem__, retention, protected) == kept


def made(storage: MemoryStorage | None = None, **options: str) -> Table:
    named = {name.replace("__", ".").replace("_", "-"): value for name, value in options.items()}
    lake = new_lake(storage)
    return lake.create_table("d.t", "k INT NOT NULL, v STRING", primary_key=["k"], options={"bucket": "2", **named})


def write(table: Table, keys: range, value: object, **how: object) -> None:
    table.upsert({"k": list(keys), "v": [str(value)] * len(keys)}, **how)


def filled(table: Table, commits: int = 8) -> Table:
    for number in range(commits):
        write(table, range(number, 3 * number + 4), number, compact=number % 3 != 1)
        if number % 4 == 3:
            table.compact(full=number % 8 == 7)
    return table


def rows(table: Table, snapshot: int) -> list[tuple]:
    return multiset(rows_of(table.scan(snapshot=snapshot).to_arrow()))


@examples(10)
@given(data=st.data())
def test_what_is_kept_is_as_before_and_nothing_else_is_left(data):
    producer = data.draw(st.sampled_from([{}, {"changelog_producer": "lookup"}, {"changelog_producer": "input"}]))
    vectors = data.draw(st.sampled_from([{}, {"deletion_vectors__enabled": "false"}]))
    merging = data.draw(st.sampled_from([{}, {"manifest__merge_min_count": "2"}]))
    table = filled(made(**producer, **vectors, **merging), data.draw(st.integers(1, 12)))
    last = table.snapshots().num_rows
    before = {number: rows(table, number) for number in range(1, last + 1)}
    diff = {number: table.changes(number).to_arrow() for number in range(1, last + 1)}
    while table.snapshots().num_rows > 1:
        first = table.snapshots()["snapshot_id"][0].as_py()
        left = data.draw(st.integers(1, last - first))
        report = table.expire_snapshots(retain_max=left, retain_min=left)
        kept = table.snapshots()["snapshot_id"].to_pylist()
        assert kept == list(range(last - left + 1, last + 1))
        assert report.snapshots == kept[0] - first
        assert {number: rows(table, number) for number in kept} == {number: before[number] for number in kept}
        assert all(table.changes(number).to_arrow() == diff[number] for number in kept)
        assert table.verify() == []
        assert unreferenced(table) == []
        with pytest.raises(SnapshotNotFound):
            table.scan(snapshot=kept[0] - 1).count()
    write(table, range(5), "after")
    assert table.verify() == []


def test_a_process_that_dies_while_it_expires_leaves_snapshots_that_can_be_read():
    world = MemoryStorage()
    table = filled(made(world, changelog_producer="lookup", changelog__num_retained__min="100"), 5)
    last = table.snapshots().num_rows
    before = {number: rows(table, number) for number in range(1, last + 1)}
    seen = set()

    def run(storage):
        lake_on(storage, "run-").table("d.t").expire_snapshots(retain_max=2, retain_min=2)

    for done in every_fault(run, lambda: copied(world)):
        if done.fault.after and done.call[0] in ("read", "size", "list"):
            continue  # it only looked
        assert isinstance(done.outcome, Crash)
        left = lake_on(done.world, "look-").table("d.t")
        kept = left.snapshots()["snapshot_id"].to_pylist()
        seen.add(len(kept))
        assert {number: rows(left, number) for number in kept} == {number: before[number] for number in kept}
        assert left.verify() == []
        assert left.changes(0, mode="changelog").count() == sum(s["changelog_record_count"] for s in history(table))
    assert seen == set(range(2, last + 1))


def history(table: Table) -> list[dict]:
    return table.snapshots().to_pylist()


def test_by_age_with_the_options_of_the_table():
    table = made(snapshot__num_retained__min="2", snapshot__time_retained="5 s", snapshot__expire__limit="3")
    for number in range(8):
        table.meta.env.clock.now_ms = START_MS + 1000 * number
        write(table, range(3), number)
    table.meta.env.clock.now_ms = START_MS + 6_500
    assert table.expire_snapshots().snapshots == 1  # the first was replaced more than 5 seconds ago, the second was not
    table.meta.env.clock.now_ms = START_MS + 3_600_000
    assert table.expire_snapshots().snapshots == 3
    assert table.expire_snapshots().snapshots == 2
    assert table.snapshots().num_rows == 2
    moment = dt.datetime.fromtimestamp(START_MS / 1000 + 6, dt.timezone.utc)
    assert table.expire_snapshots(older_than=moment, retain_min=1).snapshots == 0


def test_a_consumer_keeps_what_it_has_not_read_and_the_snapshot_before():
    table = made(consumer__expiration_time="1 h")
    for number in range(6):
        write(table, range(3), number)
    table.reset_consumer("daily", 4)
    table.expire_snapshots(retain_max=1)
    assert table.snapshots()["snapshot_id"].to_pylist() == [3, 4, 5, 6]
    assert table.consumers().select(["consumer_id", "next_snapshot_id"]).to_pylist() == [
        {"consumer_id": "daily", "next_snapshot_id": 4}
    ]
    table.reset_consumer("daily", 6)
    table.expire_snapshots(retain_max=1)
    assert table.snapshots()["snapshot_id"].to_pylist() == [5, 6]
    (consumer,) = table.consumers().to_pylist()
    table.meta.env.clock.now_ms = int(consumer["last_progress"].timestamp() * 1000) + 3_600_001
    table.expire_snapshots(retain_max=1)
    assert table.snapshots()["snapshot_id"].to_pylist() == [6]
    assert table.consumers().num_rows == 0
    table.reset_consumer("daily", 6)
    table.reset_consumer("daily")
    assert table.consumers().num_rows == 0
    with pytest.raises(InvalidQuery, match="no such consumer, found 'daly'; "):
        table.reset_consumer("daly")
    with pytest.raises(SnapshotNotFound, match="snapshot 5 has expired"):
        table.reset_consumer("daily", 5)
    assert table.consumers().num_rows == 0


def test_a_changelog_with_its_own_retention_outlives_its_snapshot():
    table = made(changelog_producer="lookup", changelog__num_retained__min="5", changelog__time_retained="1 ms")
    for number in range(8):
        write(table, range(2), number)
    table.expire_snapshots(retain_max=1)
    assert table.snapshots()["snapshot_id"].to_pylist() == [8]
    assert table.meta.snapshots.recorded_ids() == [4, 5, 6, 7]
    found = table.changes(3, mode="changelog", where="k = 0").to_arrow()
    assert found["v"].to_pylist()[:4] == ["2", "3", "3", "4"]
    assert table.verify() == []
    with pytest.raises(SnapshotNotFound):
        table.changes(2, mode="changelog").count()
    with pytest.raises(SnapshotNotFound):
        table.changes(4).count()
    before = contents(table.meta.env.storage)
    assert table.expire_snapshots(retain_max=1) == ExpireReport()
    assert contents(table.meta.env.storage) == before


@pytest.mark.parametrize("how", [{"retain_max": 0}, {"retain_min": True}, {"retain_max": 2, "retain_min": 3}, {"limit": -1}])
def test_invalid_limits_are_refused_before_anything_expires(how):
    table = filled(made())
    before = contents(table.meta.env.storage)
    with pytest.raises(InvalidQuery):
        table.expire_snapshots(**how)
    assert contents(table.meta.env.storage) == before


def test_an_empty_table_has_nothing_to_expire():
    assert made().expire_snapshots(retain_max=1) == ExpireReport()


@pytest.mark.parametrize("name", ["", "a/b", "..", ".x", "a b", None])
def test_a_consumer_has_a_plain_name(name):
    with pytest.raises(InvalidQuery, match="consumer"):
        made().reset_consumer(name, 1)


@pytest.mark.parametrize(
    "options",
    [
        {"snapshot__num_retained__max": "3", "snapshot__num_retained__min": "5"},
        {"changelog__time_retained": "1 d"},
        {"snapshot__expire__limit": "0"},
    ],
)
def test_retention_that_contradicts_is_refused(options):
    with pytest.raises(InvalidOption):
        made(**options)


# -- by itself --------------------------------------------------------------------------------------------------------


def test_snapshots_expire_as_commits_go_on():
    """Every tenth commit lets go of what is old by then; what is kept can be read."""
    table = made(snapshot__time_retained="20 s", snapshot__num_retained__min="3")
    for number in range(61):
        table.meta.env.clock.now_ms = START_MS + 1000 * number
        write(table, range(number, number + 3), number)
        kept = table.snapshots().num_rows
        assert kept <= 20 + 1 + 10, number
        assert kept >= min(number + 1, 20), number
    assert table.scan().count() == 63
    assert table.scan(snapshot=table.snapshots()["snapshot_id"][0].as_py()).count() > 30
    assert table.verify() == []
    assert unreferenced(table) == []


@pytest.mark.parametrize(
    ("options", "expires"),
    [
        ({}, True),
        ({"snapshot__expire__on_commit": "false"}, False),
        ({"write_only": "true"}, False),
        ({"snapshot__expire__limit": "4"}, True),
    ],
)
def test_there_is_an_off_switch_and_a_limit(options, expires):
    table = made(snapshot__num_retained__max="2", snapshot__num_retained__min="1", **options)
    for number in range(10):
        write(table, range(3), number)
    limit = int(options.get("snapshot__expire__limit", 50))
    assert table.snapshots().num_rows == (10 - min(8, limit) if expires else 10)


def test_a_write_only_table_is_looked_after_by_its_compactions():
    table = made(snapshot__num_retained__max="2", snapshot__num_retained__min="1", write_only="true")
    for number in range(9):
        write(table, range(3), number)
    table.compact(full=True)
    assert table.snapshots()["snapshot_id"].to_pylist() == [9, 10]


def test_a_commit_that_expires_snapshots_never_fails_for_it():
    world = MemoryStorage()
    table = made(world, snapshot__num_retained__max="6", snapshot__num_retained__min="6", bucket="1")
    for number in range(9):
        write(table, range(4), number, compact=False)
    old, new, seen = rows(table, 9), multiset([(number, "9") for number in range(4)]), set()

    def run(storage):
        write(lake_on(storage, "run-").table("d.t"), range(4), 9, compact=False)

    for done in every_fault(run, lambda: copied(world), mode="error", one_in=one_in(3)):
        if done.fault.after and done.call[0] in ("read", "size", "list"):
            continue  # it only looked
        left = lake_on(done.world, "look-").table("d.t")
        latest = left.meta.snapshots.latest_id()
        seen.add((latest, left.snapshots().num_rows))
        assert multiset(rows_of(left.scan().to_arrow())) == (new if latest == 10 else old)
        if done.fault.call % 3 == 0:
            assert left.verify() == []
        if latest == 10:
            assert done.outcome is None, f"{done.call} failed after the commit"
    assert {(9, 9), (10, 6)} <= seen


def test_many_writers_and_expirers_do_not_hinder_each_other():
    world = MemoryStorage()
    table = made(world, snapshot__num_retained__max="8", snapshot__num_retained__min="8", bucket="1")
    for number in range(9):
        write(table, range(2), number, compact=False)

    def commits(storage):
        return lake_on(storage, "a-").table("d.t").upsert({"k": [5], "v": ["a"]}, compact=False).id

    def expires(storage):
        return lake_on(storage, "b-").table("d.t").expire_snapshots(retain_max=7).snapshots

    for one, other in ((commits, expires), (expires, expires)):
        seen: list[dict] = []
        for done in interleavings(one, other, lambda: copied(world), switches_max=1, one_in=one_in(3)):
            if (end := contents(done.world)) in seen:
                continue
            seen.append(end)
            left = lake_on(done.world, "look-").table("d.t")
            assert left.verify() == []
            assert left.scan().count() == (3 if one is commits else 2)
            assert done.results[0] == 10 or one is expires


# -- limits and reasons -----------------------------------------------------------------------------------------------


def test_explicit_limits_expire_everything_due_and_the_report_explains_what_is_kept():
    table = made(snapshot__expire__limit="3", snapshot__expire__on_commit="false", snapshot__num_retained__min="4")
    for number in range(20):
        write(table, range(3), number)
    table.meta.env.clock.now_ms = START_MS + 7_200_000
    report = table.expire_snapshots()
    held = {"at most 3 snapshots expire in one run": 13, "at least 4 snapshots are kept": 3}
    assert (report.snapshots, report.held) == (3, held)
    table.reset_consumer("daily", 9)
    report = table.expire_snapshots(retain_min=2, older_than="2100-01-01")
    assert (report.snapshots, table.snapshots()["snapshot_id"][0].as_py()) == (4, 8)
    assert report.held == {"consumer 'daily' reads snapshot 9 next": 11, "at least 2 snapshots are kept": 1}
    table.reset_consumer("daily")
    report = table.expire_snapshots(retain_max=1)
    assert (report.snapshots, report.held) == (12, {})
    assert table.expire_snapshots(retain_max=1) == ExpireReport()


# -- clocks and sleepers ----------------------------------------------------------------------------------------------


def slow_world(storage: MemoryStorage, marks: int = 2) -> tuple[Table, dict]:
    """A table, and what happens while a commit that wants to be snapshot 3 sleeps: 3 has expired, and its number is free."""
    table = made(storage, bucket="1")
    write(table, range(3), 1)
    write(table, range(3), 2)

    def others() -> None:
        env = replace(fake_env(storage, "other-"), limits=Limits(marks=marks))
        ahead = Lake(env, Runtime()).table("d.t")
        env.clock.now_ms += 2 * 86_400_000
        for number in range(8):
            write(ahead, range(3 + number, 4 + number), number)
        ahead.expire_snapshots(retain_max=2)
        assert storage.size(table.meta.paths.snapshot(3)) is (None if marks < 6 else 8)

    storage.then = others
    return table


@pytest.mark.parametrize("marks", [0, 1, 2, 500])
def test_a_commit_that_slept_until_its_number_was_free_is_not_lost(marks):
    """However few marks are kept: found out after publishing, it is published again under the next number."""
    storage = Meanwhile("put", "snapshot-3")
    table = slow_world(storage, marks=max(1, marks))
    assert table.upsert({"k": [99], "v": ["slow"]}).id == 11
    assert 99 in table.scan().to_arrow()["k"].to_pylist()
    assert table.scan().count() == 12
    assert table.snapshots()["snapshot_id"].to_pylist() == [9, 10, 11]
    assert table.verify() == []
    assert unreferenced(table) == []


def test_the_first_commit_that_slept_until_its_number_was_free_is_not_lost():
    """It follows no snapshot that could be missing: snapshot 1 counts only if no later one has expired."""
    storage = MemoryStorage()
    table = made(storage, bucket="1", snapshot__num_retained__max="1", snapshot__num_retained__min="1")

    def slowly() -> Iterator[pa.RecordBatch]:
        ahead = Lake(replace(fake_env(storage, "other-"), limits=Limits(marks=2)), Runtime()).table("d.t")
        for number in range(20):
            write(ahead, range(3), number)
        assert storage.size(table.meta.paths.snapshot(1)) is None
        yield from pa.table({"k": pa.array([99], pa.int32()), "v": ["slow"]}).to_batches()

    assert table.upsert(slowly()).id == 21
    assert table.get({"k": 99}) == {"k": 99, "v": "slow"}
    assert (table.snapshots()["snapshot_id"].to_pylist(), table.verify(), unreferenced(table)) == ([20, 21], [], [])


def test_a_snapshot_of_a_suspended_and_then_killed_commit_does_not_count():
    storage = Meanwhile("put", "snapshot-3")
    table = slow_world(storage)
    others = storage.then

    def dies(*ignored: object) -> None:
        raise Crash

    with pytest.MonkeyPatch.context() as patch:
        storage.then = lambda: (others(), patch.setattr(Snapshots, "is_in_place", dies), patch.setattr(storage, "delete", dies))
        with pytest.raises(Crash):
            table.upsert({"k": [99], "v": ["slow"]})
    assert storage.size(table.meta.paths.snapshot(3)) > 8, "it stands there"
    for hint in (None, 3, 2, 10):
        fresh = lake_on(storage, f"fresh{hint}-").table("d.t")
        if hint is not None:
            fresh.meta.snapshots.hint(hint)
        assert fresh.meta.snapshots.latest_id() == 10
        assert fresh.snapshots()["snapshot_id"].to_pylist() == [9, 10]
        with pytest.raises(SnapshotNotFound):
            fresh.scan(snapshot=3).count()
        assert fresh.scan().count() == 11
        assert fresh.verify() == []
    assert fresh.expire_snapshots(retain_max=1).snapshots == 1
    write(fresh, range(2), "on")
    assert fresh.snapshots()["snapshot_id"].to_pylist() == [10, 11]


def test_one_commit_dated_in_the_future_does_not_keep_all_that_follow():
    clock = Ticks()
    storage = MemoryStorage(clock)
    lake = Lake(replace(fake_env(storage), clock=clock), Runtime())
    lake.create_database("d")
    options = {"bucket": "1", "snapshot.num-retained.min": "1", "snapshot.expire.on-commit": "false"}
    table = lake.create_table("d.t", "k INT NOT NULL, v STRING", primary_key=["k"], options=options)
    ahead = Lake(replace(fake_env(storage, "ahead-"), clock=lambda: clock() + 63_072_000_000), Runtime()).table("d.t")
    behind = Lake(replace(fake_env(storage, "behind-"), clock=lambda: clock() - 63_072_000_000), Runtime()).table("d.t")
    for number, writer in enumerate([table, ahead, table, table, behind, table]):
        clock.now_ms = START_MS + number * 3_600_000
        write(writer, range(number + 1), number)
    hours = [round((table.meta.snapshots.get(number).time_ms - START_MS) / 3_600_000) for number in range(1, 7)]
    assert hours == [0, 1 + 2 * 8760, 2, 3, 3, 5]
    for hour, keys in [(0.5, 1), (2.5, 3), (3.5, 5), (5.5, 6)]:
        moment = dt.datetime.fromtimestamp(START_MS / 1000 + 3600 * hour, dt.timezone.utc)
        assert table.scan(timestamp=moment).count() == keys
    with pytest.raises(SnapshotNotFound):
        table.scan(timestamp=dt.datetime(2025, 1, 1, tzinfo=dt.timezone.utc)).count()
    clock.now_ms = START_MS + 5 * 3_600_000 + 1_800_000
    assert table.expire_snapshots().snapshots == 4, "an hour back snapshot 5 was the latest"
    assert table.snapshots()["snapshot_id"].to_pylist() == [5, 6]


# -- beside an expirer ------------------------------------------------------------------------------------------------

EVERY_CALL = 1 if SCALE > 1 else 2
READERS = {
    "count": lambda table: table.scan().count(),
    "to_arrow": lambda table: table.scan().to_arrow(),
    "a batch late": lambda table: list(table.scan().to_batches()),
    "explain": lambda table: table.scan().explain(),
    "get": lambda table: table.get({"k": 1}),
    "get of several keys": lambda table: table.get([{"k": 1}, {"k": 4}]),
    "a scan of one key": lambda table: table.scan(where="k = 1").to_arrow(),
    "diff": lambda table: table.changes(2).count(),
    "changelog": lambda table: table.changes(2, mode="changelog").count(),
    "delta": lambda table: table.changes(2, mode="delta").count(),
    "follow": lambda table: [batch.to_arrow() for batch in table.follow()],
    "follow from a snapshot": lambda table: [batch.to_arrow() for batch in table.follow(snapshot=2, mode="diff")],
    "files": lambda table: table.files(),
    "manifests": lambda table: table.manifests(),
    "snapshots": lambda table: table.snapshots(),
    "compact": lambda table: table.compact(full=True),
    "alter": lambda table: table.alter(set_option("deletion-vectors.enabled", False), unset_option("compaction.tier-runs")),
    "verify": lambda table: table.verify(),
}


class At(FaultStorage):
    """Does something before its call number `call`."""

    def __init__(self, inner: MemoryStorage, call: int, then: Callable[[], object]) -> None:
        super().__init__(inner)
        self.call, self.then = call, then

    @contextmanager
    def around(self, verb: str, path: str) -> Iterator[None]:
        if len(self.calls) + 1 == self.call:
            self.then()
        with super().around(verb, path):
            yield


@pytest.mark.parametrize("name", list(READERS))
def test_nothing_is_called_damaged_because_an_expirer_was_faster(name):
    """Wherever it comes in: the answer, or SnapshotNotFound with a cure."""
    world = MemoryStorage()
    options = {"changelog_producer": "lookup"} if name == "changelog" else {}
    table = made(world, bucket="1", snapshot__expire__on_commit="false", **options)
    for number in range(4):
        write(table, range(number, 6), number, compact=number != 3)
    outcomes = set()
    with tiny_units():
        for call in count(1, EVERY_CALL):
            inner = copied(world)

            def others(storage: MemoryStorage = inner) -> None:
                other = lake_on(storage, "other-").table("d.t")
                write(other, range(6), "later")
                other.compact(full=True)
                other.expire_snapshots(retain_max=1)

            storage = At(inner, call, others)
            try:
                found = READERS[name](lake_on(storage, "run-").table("d.t"))
                assert name != "verify" or found == []
                outcomes.add("answered")
            except (SnapshotNotFound, CommitConflict) as gone:
                assert gone.cure, gone
                outcomes.add(type(gone))
            if len(storage.calls) < call:
                break
    assert "answered" in outcomes
    assert SnapshotNotFound in outcomes or name in ("snapshots", "compact", "alter", "verify")


class Meanwhile(MemoryStorage):
    """Does something just before a path is created or read, once."""

    def __init__(self, verb: str, part: str) -> None:
        super().__init__()
        self.verb, self.part, self.then = verb, part, None

    def _meet(self, verb: str, path: str) -> None:
        if self.then and verb == self.verb and self.part in path:
            then, self.then = self.then, None
            then()

    def put_if_absent(self, path: str, data: bytes) -> bool:
        self._meet("put", path)
        return super().put_if_absent(path, data)

    def read(self, path: str):
        self._meet("read", path)
        return super().read(path)


def test_a_slow_commit_does_not_take_the_number_of_a_snapshot_that_has_expired():
    storage = Meanwhile("put", "snapshot-3")
    table = made(storage)
    write(table, range(3), 1)
    write(table, range(3), 2)

    def others() -> None:
        other = lake_on(storage, "other-").table("d.t")
        write(other, range(3, 5), 3)
        write(other, range(5, 7), 4)
        other.expire_snapshots(retain_max=1)

    storage.then = others
    assert table.upsert({"k": [9], "v": ["slow"]}).id == 5
    assert sorted(table.scan().to_arrow()["k"].to_pylist()) == [0, 1, 2, 3, 4, 5, 6, 9]
    assert table.snapshots()["snapshot_id"].to_pylist() == [4, 5]
    assert table.expire_snapshots(retain_max=1).snapshots == 1
    assert table.verify() == []


@pytest.mark.parametrize("part", ["data-", "manifest-list", "index-manifest", "/snapshot-"])
def test_a_writer_whose_base_expires_under_it_does_not_fail(part):
    storage = Meanwhile("read", part)
    table = made(storage, bucket="1")
    for number in range(3):
        write(table, range(number, 20 - 8 * number), number)

    def others() -> None:
        other = lake_on(storage, "other-").table("d.t")
        write(other, range(4), "other")
        other.compact(full=True)
        other.expire_snapshots(retain_max=1)

    storage.then = others
    write(Table("d.t", table.meta.with_empty_cache(), table.runtime), range(2, 5), "mine")
    assert storage.then is None
    expected = {k: "other" if k < 2 else "mine" if k < 5 else "1" if k < 12 else "0" for k in range(20)}
    assert {row["k"]: row["v"] for row in table.scan().to_arrow().to_pylist()} == expected
    assert table.verify() == []


def test_a_compaction_whose_base_expires_restarts_from_the_latest_snapshot():
    storage = Meanwhile("read", "data-")
    table = made(storage, bucket="1", write_only="true")
    for number in range(3):
        write(table, range(6), number)

    def others() -> None:
        other = lake_on(storage, "other-").table("d.t")
        other.compact(full=True)
        write(other, range(1), "later")
        other.expire_snapshots(retain_max=1)

    storage.then = others
    table.compact(full=True)
    assert table.scan(mode="raw").to_arrow().sort_by("k")["v"].to_pylist() == ["later", *["2"] * 5]


def test_a_reader_whose_snapshot_expires_gets_snapshot_not_found():
    storage = Meanwhile("read", "data-")
    table = made(storage, bucket="1")
    write(table, range(6), 1)

    def others() -> None:
        write(table, range(6), 2)
        table.compact(full=True)
        table.expire_snapshots(retain_max=1)

    storage.then = others
    with pytest.raises(SnapshotNotFound, match=r"snapshot 1 has expired while it was read.*read the latest snapshot"):
        table.scan().to_arrow()


def test_a_changelog_that_a_consumer_needs_stays_though_it_is_kept_no_longer():
    table = made(changelog_producer="lookup", changelog__num_retained__min="100")
    for number in range(6):
        write(table, range(2), number)
    table.expire_snapshots(retain_max=2)
    table.reset_consumer("c", 3)
    table.alter(unset_option("changelog.num-retained.min"))
    table.expire_snapshots(retain_max=2)
    assert [batch.snapshot for batch in table.follow(consumer="c")] == [3, 4, 5, 6]
    table.expire_snapshots(retain_max=1)
    assert table.meta.snapshots.recorded_ids() == []


def test_from_a_time_on_means_changelogs_that_outlived_their_snapshots_too():
    table = made(changelog_producer="lookup", changelog__num_retained__min="100")
    for number in range(6):
        write(table, range(2), number)
    table.expire_snapshots(retain_max=2)
    moment = dt.datetime.fromtimestamp(START_MS / 1000 - 1, dt.timezone.utc)
    assert [batch.snapshot for batch in table.follow(timestamp=moment)] == [1, 2, 3, 4, 5, 6]
    with pytest.raises(SnapshotNotFound, match="snapshot 2 has expired"):
        table.changes(1, mode="delta").count()


@pytest.mark.parametrize("producer", ["input", "lookup"])
def test_an_overwrite_stays_as_long_as_changelogs(producer):
    """No changelog file holds its changes: they are its difference to the snapshot before."""
    table = made(changelog_producer=producer, changelog__num_retained__min="6", changelog__time_retained="1 ms")
    write(table, range(3), 1)
    write(table, range(2), 2)
    table.overwrite({"k": [1, 7], "v": ["new"] * 2})
    write(table, range(2), 4)
    before = table.changes(2, mode="changelog").to_arrow()
    why = "the changes of snapshot 3, an overwrite, need snapshot 2"
    report = table.expire_snapshots(retain_max=1, dry_run=True)
    assert (report.snapshots, report.held) == (1, {why: 2})
    assert table.expire_snapshots(retain_max=1) == report
    assert table.changes(2, mode="changelog").to_arrow() == before
    assert [batch.snapshot for batch in table.follow(start="from-snapshot", snapshot=2)] == [2, 3, 4]
    for number in range(5, 9):  # now six newer ones have a changelog
        write(table, range(2), number)
    assert table.expire_snapshots(retain_max=1).held == {why: 6}
    write(table, range(2), 9)
    assert table.expire_snapshots(retain_max=1).held == {}
    assert table.snapshots()["snapshot_id"].to_pylist() == [9]
    assert table.meta.snapshots.recorded_ids() == [4, 5, 6, 7, 8]
    assert table.verify() == []
    assert unreferenced(table) == []


def test_changes_of_an_overwrite_that_expired_before_changelogs_were_kept_longer():
    table = made(changelog_producer="lookup")
    write(table, range(3), 1)
    table.overwrite({"k": [1, 7], "v": ["new"] * 2})
    table.expire_snapshots(retain_max=1)
    table.alter(set_option("changelog.num-retained.min", 9))
    for number in range(2):
        if number:
            table.expire_snapshots(retain_max=1)
        with pytest.raises(SnapshotNotFound, match=r"changes of snapshot 2 need snapshot 1.*start later"):
            table.changes(1, mode="changelog").count()


@pytest.mark.parametrize("producer", ["none", "lookup"])
def test_a_dry_run_reports_what_the_expiry_does_and_changes_nothing(producer):
    more = {} if producer == "none" else {"changelog_producer": producer, "changelog__num_retained__max": "6"}
    table = filled(made(snapshot__expire__on_commit="false", consumer__expiration_time="1 ms", **more))
    assert [batch.snapshot for batch in table.follow(consumer="late")]
    table.create_tag("t", snapshot=3)
    for arguments in ({"retain_max": 7}, {"retain_max": 2}):
        before = contents(table.meta.env.storage)
        report = table.expire_snapshots(**arguments, dry_run=True)
        assert contents(table.meta.env.storage) == before
        assert table.expire_snapshots(**arguments) == report
        assert report.files > report.snapshots > 0
