"""A failure at every storage call of every verb: the process dies there, or the storage fails, before or after the effect.

Afterwards a new connection sees either the old or the new state, all earlier files are unchanged, `verify` finds nothing, and
the same verb, run again, leads to the new state. If the storage only failed once, the verb has succeeded or raised the right
error, and left no unreferenced file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from types import MappingProxyType
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from effort import one_in, sampled
from faults import Crash, Faulted, FaultStorage, Interrupt, every_fault
from naive import naive, unreferenced
from strategies import Shape, contents, copied, holding, lake_on, multiset, new_lake, rows_of, tiny_units

from lsmlake import add_column, change_type, drop_column, set_option, unset_option
from lsmlake.api.table import Table
from lsmlake.commit.request import Identity
from lsmlake.compact.reshape import reshaped_as_needed
from lsmlake.errors import LakeError, StorageFailed
from lsmlake.maintain.alter import replace_table
from lsmlake.schema.schema import Schema
from lsmlake.storage.memory import MemoryStorage
from lsmlake.storage.storage import Storage
from lsmlake.tables.version import Version
from lsmlake.write.write import write_tables
from lsmlake.write.write_request import WriteRequest

PLAIN, PARTITIONED = Shape.of("bigint"), Shape.of("bigint", "boolean")
MOVING = Shape.of("bigint", "boolean", moves=True)
OPTIONS = {
    "bucket": 1,
    "manifest__merge_min_count": 2,
    "compaction__tier_runs": 3,
    "target_file_size": "1 kb",
    "file__block_size": "200 b",
}


NO_TIERS = unset_option("compaction.tier-runs")
HINT = ("read", "d.db/t/snapshot/0000/LATEST")  # which is not there: a call without an effect to fail after


class Verb(NamedTuple):
    """`prepare` makes the world it starts from, `run` is what fails."""

    prepare: Callable[[Table], object]
    run: Callable[[Table], object]
    shape: Shape = PLAIN
    options: Mapping[str, str] = MappingProxyType({})


def rows(table: Table, start: int, stop: int, stamp: int) -> pa.Table:
    shape = PARTITIONED if table.partition_by else PLAIN
    return shape.table([shape.row(code, code + stamp, stamp) for code in range(start, stop)], table.schema)


def keys(table: Table, start: int, stop: int) -> pa.Table:
    return rows(table, start, stop, 0).select(list(table.primary_key))


def some_history(table: Table) -> None:
    table.upsert(rows(table, 0, 20, 1))
    table.upsert(rows(table, 5, 12, 2))


def some_at_level_0(table: Table) -> None:
    some_history(table)
    table.upsert(rows(table, 8, 16, 3), compact=False)
    table.delete_keys(keys(table, 0, 4), compact=False)


def a_large_bucket(table: Table) -> None:
    some_history(table)
    table.compact(full=True)
    table.alter(set_option("bucket.target-size", "100 b"))


def split_as_needed(table: Table) -> object:
    """The first commit of a compaction."""
    return reshaped_as_needed(table.version, lambda bucket: True)


def rescaled(table: Table, number: int = 3) -> None:
    some_history(table)
    table.rescale(number)


def upsert_late(table: Table) -> object:
    """By a writer that has read the table before it was rescaled."""
    before = Version.at(table.meta, table.meta.snapshots.get(2))
    return write_tables(before, [rows(table, 9, 18, 9)], WriteRequest(Identity("w", 1)))


def upsert_elsewhere(table: Table) -> object:
    """Into other partitions than those in which the keys lie."""
    moved = rows(table, 9, 18, 9)
    place = moved.column_names.index("p")
    return table.upsert(moved.set_column(place, "p", pc.invert(moved["p"])))


def nine_commits(table: Table) -> None:
    for number in range(9):
        table.upsert(rows(table, number, number + 2, number), compact=False)


def options_and_rows(table: Table) -> None:
    some_history(table)
    table.alter(set_option("deletion-vectors.enabled", False), NO_TIERS)
    table.upsert(rows(table, 0, 3, 4))


def upsert(table: Table) -> object:
    return table.upsert(rows(table, 9, 18, 9))


def alter_columns(table: Table) -> object:
    """Alters the table unless that is done: an addition cannot be repeated."""
    if "added" in table.schema.names:
        return None
    return table.alter(add_column("added", "INT", default=3), change_type("n", "BIGINT"), drop_column("s"))


def replace_columns_and_rows(table: Table) -> object:
    """As CREATE OR REPLACE TABLE: other columns, options and rows."""
    (key,) = table.primary_key
    made = pa.table({key: pa.array(range(3, 9), table.schema.field(key).type), "fresh": pa.array(range(6), pa.int32())})

    def wanted(time_ms: int, table_uuid: str) -> Schema:
        return Schema.create(made.schema, table.primary_key, (), {"bucket": 2}, None, time_ms, table_uuid, table.name)

    return replace_table(table.meta, table.name, wanted, [made])


def upsert_two_days_later(table: Table) -> object:
    table.meta.env.clock.now_ms += 2 * 86_400_000
    return upsert(table)


VERBS = {
    "first upsert": Verb(lambda table: None, upsert),
    "upsert that moves its run up": Verb(lambda table: table.upsert(rows(table, 0, 20, 1)), upsert),
    "upsert that merges runs": Verb(some_history, upsert),
    "upsert into partitions": Verb(some_history, upsert, PARTITIONED),
    "upsert that moves keys": Verb(some_history, upsert_elsewhere, MOVING),
    "upsert that moves keys and tells it": Verb(some_history, upsert_elsewhere, MOVING, {"changelog_producer": "lookup"}),
    "upsert to level 0": Verb(some_history, lambda table: table.upsert(rows(table, 9, 18, 9), compact=False)),
    "upsert by number": Verb(some_history, lambda table: table.upsert(rows(table, 9, 18, 9), writer_id="w", commit_id=3)),
    "delete_keys": Verb(some_history, lambda table: table.delete_keys(keys(table, 2, 9))),
    "rescale": Verb(some_at_level_0, lambda table: table.rescale(3)),
    "rescale to fewer": Verb(some_at_level_0, lambda table: table.rescale(1), options={"bucket": 3}),
    "a split that is due": Verb(a_large_bucket, split_as_needed, options={"bucket": "auto"}),
    "upsert for buckets that were split": Verb(rescaled, upsert_late),
    "upsert for buckets that were merged": Verb(lambda table: rescaled(table, 1), upsert_late, options={"bucket": 3}),
    "compact": Verb(some_at_level_0, lambda table: table.compact()),
    "compact in full": Verb(some_at_level_0, lambda table: table.compact(full=True)),
    "upsert that tells what it was given": Verb(some_history, upsert, PLAIN, {"changelog_producer": "input"}),
    "upsert that tells its changes": Verb(some_history, upsert, PLAIN, {"changelog_producer": "lookup"}),
    "overwrite": Verb(some_at_level_0, lambda table: table.overwrite(rows(table, 9, 18, 9))),
    "overwrite of partitions": Verb(some_history, lambda table: table.overwrite(rows(table, 9, 10, 9)), PARTITIONED),
    "truncate": Verb(some_at_level_0, lambda table: table.truncate()),
    "alter": Verb(some_at_level_0, lambda table: table.alter(set_option("deletion-vectors.enabled", False), NO_TIERS)),
    "alter columns": Verb(some_at_level_0, alter_columns),
    "alter columns that are combined": Verb(some_history, alter_columns, PLAIN, {"merge_engine": "partial-update"}),
    "replace the table": Verb(some_at_level_0, replace_columns_and_rows),
    "analyze": Verb(some_at_level_0, lambda table: table.analyze()),
    "rollback": Verb(some_at_level_0, lambda table: table.rollback(1)),
    "rollback of options": Verb(options_and_rows, lambda table: table.rollback(2)),
    "upsert that creates a tag": Verb(some_history, upsert_two_days_later, PLAIN, {"tag__automatic_creation": "process-time"}),
    "tenth commit": Verb(nine_commits, lambda table: table.upsert(rows(table, 9, 18, 9), compact=False)),
}


@pytest.fixture(autouse=True)
def small():
    with tiny_units(rows=8, window_bytes=1 << 16, lookup_rows=100):
        yield


@cache
def start(name: str) -> MemoryStorage:
    storage = MemoryStorage()
    VERBS[name].prepare(VERBS[name].shape.create(new_lake(storage), **{**OPTIONS, **VERBS[name].options}))
    return storage


def state(storage: Storage) -> list[tuple]:
    return multiset(rows_of(lake_on(storage, "look-").table("d.t").scan().to_arrow()))


def run(name: str, storage: Storage, prefix: str = "run-") -> object:
    return VERBS[name].run(lake_on(storage, prefix).table("d.t"))


@cache
def goal(name: str) -> tuple[list[tuple], list[tuple]]:
    """(the state before, the state after)."""
    storage = copied(start(name))
    run(name, storage)
    return state(start(name)), state(storage)


def is_published(name: str, storage: MemoryStorage) -> bool:
    """Whether the new state is there; it or the old one must be, and everything in order."""
    return _is_published(name, frozenset(contents(storage).items()))


@cache
def _is_published(name: str, files: frozenset[tuple[str, bytes]]) -> bool:
    """Many faults end in the same files: these are looked at once."""
    old, new = goal(name)
    before, now = contents(start(name)), dict(files)
    storage = holding(now)
    if now == before:
        return False
    assert {path: now.get(path) for path in before} == before, "a file of the past has changed"
    table = lake_on(storage).table("d.t")
    commits = table.meta.snapshots.latest_id() or 0
    more = commits - (lake_on(start(name)).table("d.t").meta.snapshots.latest_id() or 0)
    assert more in (0, 1)
    assert state(storage) == (new if more else old)
    assert naive(table).missing() == set()
    if sampled(len(now), 4):
        assert table.verify() == []
    return bool(more)


def leads_to_the_goal(name: str, storage: MemoryStorage) -> None:
    """The verb, run once more by somebody new."""
    _leads_to_the_goal(name, frozenset(contents(storage).items()))


@cache
def _leads_to_the_goal(name: str, files: frozenset[tuple[str, bytes]]) -> None:
    storage = holding(dict(files))
    run(name, storage, "again-")
    assert state(storage) == goal(name)[1]


def faults(name: str, mode: str) -> Iterator[Faulted]:
    tried = {"error": one_in(3), "interrupt": one_in(5)}.get(mode, 1)
    return every_fault(lambda storage: run(name, storage), lambda: copied(start(name)), mode=mode, one_in=tried)


@pytest.mark.parametrize("name", list(VERBS))
def test_a_process_that_dies_leaves_the_old_state_or_the_new(name):
    seen = set()
    for done in faults(name, "crash"):
        assert isinstance(done.outcome, Crash)
        published = is_published(name, done.world)
        seen.add(published)
        leads_to_the_goal(name, done.world)
    assert seen == {False, True}


@pytest.mark.parametrize("name", list(VERBS))
def test_a_store_that_refuses_once_costs_at_most_an_error(name):
    """No error: the commit is there. StorageFailed: it is not. One failure never leaves it unknown."""
    for done in faults(name, "error"):
        published = is_published(name, done.world)
        where = f"{done.call} {'after' if done.fault.after else 'before'}"
        if isinstance(done.outcome, LakeError):
            assert type(done.outcome) is StorageFailed, where
            assert not published, f"{where}: committed, but {done.outcome}"
        else:
            assert published, where
        left = unreferenced(lake_on(done.world).table("d.t"))
        assert left == [] or (done.call[0] == "delete" and left == [done.call[1]]), f"{where} ({done.outcome}): {left}"
        if not published:
            leads_to_the_goal(name, done.world)


@pytest.mark.parametrize("name", list(VERBS))
def test_an_interruption_leaves_no_file_behind(name):
    """Wherever Ctrl-C strikes, the old or the new state is there, and no file that nothing names."""
    for done in faults(name, "interrupt"):
        assert isinstance(done.outcome, Interrupt), done.call
        is_published(name, done.world)
        left = unreferenced(lake_on(done.world).table("d.t"))
        where = f"{done.call} {'after' if done.fault.after else 'before'}"
        assert left == [], f"{where}: {left}"


@pytest.mark.parametrize("name", ["upsert that merges runs", "compact in full", "delete_keys"])
def test_a_disk_that_fills_up_leaves_the_old_state_or_the_new(name):
    """However many bytes there are left. What can be removed then is removed."""
    unlimited = FaultStorage(copied(start(name)), full_after_bytes=1 << 40)
    run(name, unlimited)
    needed = (1 << 40) - unlimited.free_bytes
    outcomes = set()
    for room in spread(needed):
        storage = FaultStorage(copied(start(name)), full_after_bytes=room)
        try:
            run(name, storage)
            outcome = "done"
        except StorageFailed as full:
            assert "no space left" in str(full)
            assert "free space" in str(full)
            outcome = "full"
        outcomes.add(outcome)
        assert is_published(name, storage.inner) == (outcome == "done")
        assert unreferenced(lake_on(storage.inner).table("d.t")) == []
    assert outcomes == {"done", "full"}


def spread(needed: int) -> Iterator[int]:
    yield from range(0, needed, max(1, needed // 25))
    yield from (needed - 1, needed)


def test_creating_a_table_is_all_or_nothing():
    def create(storage: Storage) -> object:
        return PLAIN.create(lake_on(storage, "run-"), **OPTIONS)

    def world() -> MemoryStorage:
        storage = MemoryStorage()
        new_lake(storage)
        return storage

    for mode in ("crash", "error"):
        for done in every_fault(create, world, mode=mode):
            lake = lake_on(done.world)
            there = lake.tables("d") == ["t"]
            if there:
                assert lake.table("d.t").scan().count() == 0
            else:
                assert contents(done.world, "d.db/t") == {}
                PLAIN.create(lake, **OPTIONS)
            assert lake.table("d.t").upsert(rows(lake.table("d.t"), 0, 5, 1)).id == 1


def test_dropping_a_table_leaves_no_half_table():
    def world() -> MemoryStorage:
        return copied(start("compact"))

    for mode in ("crash", "error"):
        for done in every_fault(lambda storage: lake_on(storage).drop_table("d.t"), world, mode=mode):
            lake = lake_on(done.world)
            if lake.tables("d"):
                assert state(done.world) == goal("compact")[0]
                assert lake.table("d.t").verify() == []


@pytest.mark.parametrize("mode", ["crash", "error"])
def test_a_cut_leaves_whole_snapshots(mode):
    """Wherever it ends, what is retained is as before, and the same cut leads to the goal."""
    world = MemoryStorage()
    table = PLAIN.create(new_lake(world), **OPTIONS)
    some_at_level_0(table)
    table.create_tag("early", 1)
    table.create_tag("late", 4)
    before = {number: rows_at(table, number) for number in range(1, 5)}

    def cut(storage: Storage, prefix: str = "run-") -> object:
        return lake_on(storage, prefix).table("d.t").rollback(2, cut=True)

    seen, worlds = set(), set()
    for done in every_fault(cut, lambda: copied(world), mode=mode, one_in=one_in(3) if mode == "error" else 1):
        if (files := frozenset(contents(done.world).items())) in worlds:
            continue
        worlds.add(files)
        left = lake_on(done.world, "look-").table("d.t")
        kept = left.snapshots()["snapshot_id"].to_pylist()
        seen.add(len(kept))
        assert kept in ([1, 2, 3, 4], [1, 2, 3, 4, 5], [1, 2, 3, 5], [1, 2, 5])
        assert naive(left).missing() == set()
        if sampled(len(worlds), 4):
            assert {n: rows_at(left, n) for n in kept} == {n: before[n if n < 5 else 2] for n in kept}
            assert left.verify() == []
        cut(done.world, "again-")
        last = left.meta.snapshots.latest_id()
        assert left.snapshots()["snapshot_id"].to_pylist() == [1, 2, last]
        assert rows_at(left, last) == before[2]
        assert left.tags()["tag_name"].to_pylist() == ["early"]
        assert naive(left).missing() == set()
    assert seen == {3, 4, 5}


def rows_at(table: Table, number: int) -> list[tuple]:
    return multiset(rows_of(table.scan(snapshot=number).to_arrow()))


@pytest.mark.parametrize("mode", ["crash", "error"])
def test_a_reader_is_hurt_by_nothing_but_its_own_call(mode):
    for done in every_fault(lambda storage: state(storage), lambda: copied(start("compact")), mode=mode):
        if mode == "error" and type(done.outcome) is not StorageFailed:
            assert done.call == HINT
            assert done.outcome == goal("compact")[0]
        assert contents(done.world) == contents(start("compact"))
