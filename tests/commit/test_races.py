"""Two programs on one table, in every order of their storage calls (within the limit on the number of switches).

In any order: the table equals the result of running them in the order of their snapshots; `verify` finds nothing; no unreferenced
file is left. `LSMLAKE_SWITCHES=2` allows one switch more than the default.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import cache
from typing import NamedTuple

import pyarrow as pa
import pytest
from effort import one_in, sampled
from faults import Interleaving, interleavings
from naive import naive, unreferenced
from strategies import (
    Shape,
    WithStates,
    contents,
    copied,
    fake_env,
    holding,
    lake_on,
    multiset,
    new_lake,
    rows_of,
    tiny_units,
)

from lsmlake import add_column, change_type
from lsmlake.api.runtime import Runtime
from lsmlake.api.table import Table
from lsmlake.commit.commit import commit
from lsmlake.commit.request import Identity, Request
from lsmlake.compact.bucket_compaction import compact_bucket
from lsmlake.errors import CommitConflict, SnapshotNotFound, TableExists
from lsmlake.files.bucket_files import BucketFiles
from lsmlake.format.data_files import CommitMessage
from lsmlake.lsm.cover import Covers
from lsmlake.lsm.pick.strategy import as_needed, in_full
from lsmlake.storage.memory import MemoryStorage
from lsmlake.storage.storage import Storage
from lsmlake.tables.version import Metadata
from lsmlake.write.bucket_writer import split, write_level0
from lsmlake.write.prepare import prepare

MORE = int(os.environ.get("LSMLAKE_SWITCHES", "1")) - 1
LIMIT = 200_000
SHAPE = Shape.of("bigint")
OPTIONS = {"bucket": 1, "compaction__tier_runs": 3, "manifest__merge_min_count": 2}

Program = Callable[[Table], object]


@pytest.fixture(autouse=True)
def small():
    with tiny_units(rows=8, window_bytes=1 << 16, lookup_rows=100):
        yield


def rows(start: int, stop: int, stamp: int) -> pa.Table:
    return SHAPE.table([SHAPE.row(code, code + stamp, stamp) for code in range(start, stop)], schema())


@cache
def schema() -> pa.Schema:
    return SHAPE.create(new_lake(), **OPTIONS).schema


@cache
def history(commits: int, waiting: int) -> MemoryStorage:
    """A table with so many commits, the last of them still at level 0."""
    storage = MemoryStorage()
    table = SHAPE.create(new_lake(storage), **OPTIONS)
    for number in range(commits):
        table.upsert(rows(3 * number, 3 * number + 9, number), compact=number < commits - waiting)
    return storage


def opened(storage: Storage, prefix: str) -> Table:
    """The table as somebody sees it who has opened it before the race began: no call of the storage."""
    table = lake_on(history(0, 0)).table("d.t")
    return Table("d.t", Metadata.of(fake_env(storage, prefix), table.meta.paths), Runtime())


def state(storage: Storage, **how: object) -> list[tuple]:
    return multiset(rows_of(lake_on(storage, "look-").table("d.t").scan(**how).to_arrow()))


def races(world: MemoryStorage, a: Program, b: Program, switches: int, most: int = LIMIT) -> Iterator[Interleaving]:
    """One order of three, of more on a short run up to `most`, and every order on a long run; of those that end in the same bytes
    and results, one is handed out."""

    def named(prefix: str, program: Program) -> Callable[[Storage], object]:
        return lambda storage: program(opened(storage, prefix))

    pair = named("a-", a), named("b-", b)
    seen = set()
    step = 1 if MORE else min(most, one_in(3))
    for done in interleavings(*pair, lambda: copied(world), LIMIT, switches_max=switches + MORE, one_in=step):
        end = (repr(done.results), frozenset(contents(done.world).items()))
        if end not in seen:
            seen.add(end)
            yield done


def is_in_order(race: Interleaving) -> None:
    table = lake_on(race.world).table("d.t")
    assert naive(table).missing() == set()
    assert unreferenced(table) == []
    if sampled(len(race.steps), 3):
        assert table.verify() == []


# --- verbs ---


def upsert(start: int, stop: int, stamp: int, **how: object) -> Program:
    return lambda table: table.upsert(rows(start, stop, stamp), **how).id


def overwrite(start: int, stop: int, stamp: int) -> Program:
    return lambda table: table.overwrite(rows(start, stop, stamp)).id


def truncate(table: Table) -> object:
    return table.truncate().id


def delete(start: int, stop: int, **how: object) -> Program:
    return lambda table: table.delete_keys(rows(start, stop, 0).select(["k0"]), **how).id


def compact(full: bool) -> Program:
    return lambda table: table.compact(full=full).snapshot_id


def rollback(to: int, **how: object) -> Program:
    return lambda table: table.rollback(to, **how).id


def alter(name: str) -> Program:
    """Adds a column and widens one, so that every batch still fits."""
    return lambda table: table.alter(add_column(name, "INT", default=3), change_type("n", "BIGINT")).id


def analyze(table: Table) -> object:
    return table.analyze().id


class Race(NamedTuple):
    world: tuple[int, int]
    a: Program
    b: Program


RACES = {
    "append, append": Race((2, 0), upsert(0, 9, 10, compact=False), upsert(5, 14, 20, compact=False)),
    "first commits": Race((0, 0), upsert(0, 9, 10), upsert(5, 14, 20)),
    "upserts of the same keys": Race((2, 0), upsert(0, 9, 10), upsert(0, 9, 20)),
    "upserts that both merge": Race((4, 1), upsert(0, 9, 10), upsert(5, 14, 20)),
    "upsert, delete": Race((3, 0), upsert(0, 9, 10), delete(4, 12)),
    "append, compaction": Race((3, 2), upsert(0, 9, 10, compact=False), compact(full=False)),
    "delete at level 0, compaction": Race((3, 1), delete(0, 9, compact=False), compact(full=True)),
    "upsert, compaction": Race((4, 1), upsert(0, 9, 10), compact(full=False)),
    "upsert, full compaction": Race((3, 1), upsert(0, 9, 10), compact(full=True)),
    "compaction, compaction": Race((4, 2), compact(full=False), compact(full=False)),
    "overwrite, append": Race((3, 1), overwrite(0, 4, 10), upsert(2, 9, 20, compact=False)),
    "overwrite, upsert": Race((3, 1), overwrite(0, 4, 10), upsert(2, 9, 20)),
    "overwrite, full compaction": Race((3, 1), overwrite(0, 4, 10), compact(full=True)),
    "overwrite, overwrite": Race((3, 1), overwrite(0, 4, 10), overwrite(2, 9, 20)),
    "truncate, upsert": Race((3, 1), truncate, upsert(2, 9, 20)),
    "alteration, append": Race((3, 1), alter("added"), upsert(2, 9, 20, compact=False)),
    "alteration, upsert": Race((3, 1), alter("added"), upsert(2, 9, 20)),
    "alteration, full compaction": Race((3, 1), alter("added"), compact(full=True)),
    "alteration, overwrite": Race((3, 1), alter("added"), overwrite(0, 4, 10)),
    "alteration, rollback": Race((3, 1), alter("added"), rollback(2)),
    "alterations": Race((3, 1), alter("added"), alter("other")),
    "analysis, upsert": Race((3, 1), analyze, upsert(2, 9, 20)),
    "analysis, full compaction": Race((3, 1), analyze, compact(full=True)),
    "analysis, alteration": Race((3, 1), analyze, alter("added")),
    "analysis, rollback": Race((3, 1), analyze, rollback(2)),
    "analyses": Race((3, 1), analyze, lambda table: analyze(table)),
    "rollback, upsert": Race((3, 0), rollback(2), upsert(0, 9, 10)),
    "rollback, compaction": Race((4, 2), rollback(3), compact(full=True)),
    "rollbacks": Race((4, 1), rollback(2), rollback(3)),
    "full compaction, compaction": Race((4, 2), compact(full=True), compact(full=False)),
}


@pytest.mark.parametrize("name", list(RACES))
def test_two_at_a_time_are_one_after_the_other(name):
    are_one_after_the_other(name, history(*RACES[name].world))


@pytest.mark.parametrize("name", ["append, append", "first commits", "upserts that both merge", "rollback, upsert"])
def test_so_are_those_that_see_early_that_a_number_is_taken(name):
    are_one_after_the_other(name, holding(contents(history(*RACES[name].world)), WithStates))


def are_one_after_the_other(name: str, world: MemoryStorage) -> None:
    race = RACES[name]
    serial = {}
    for order in ((race.a, race.b), (race.b, race.a)):
        one = copied(world)
        for number, program in enumerate(order):
            program(opened(one, f"{number}-"))
        serial[order[0] is race.a] = state(one)
    seen = set()
    for done in races(world, race.a, race.b, switches=1):
        a_first = done.results[1] is None or (done.results[0] is not None and done.results[0] < done.results[1])
        assert state(done.world) == serial[a_first], done.results
        is_in_order(done)
        seen.add(a_first)
    assert seen == {True, False} or "compaction, compaction" in name


# --- files that come back ---


def expire(table: Table) -> object:
    return table.expire_snapshots(retain_max=1).snapshots


def outcome(program: Program) -> Program:
    """The result, or the name of the error."""

    def run(table: Table) -> object:
        try:
            return program(table)
        except (SnapshotNotFound, CommitConflict) as failed:
            return type(failed).__name__

    return run


@pytest.mark.parametrize("how", ["snapshot", "tag"])
def test_a_rollback_meets_the_deletion_of_its_target(how):
    """The table is rolled back, and no file is missing; or the target has gone, and the table is as before."""
    world = copied(history(4, 1))
    table = lake_on(world).table("d.t")
    goal = state(world, snapshot=1)
    if how == "tag":
        table.create_tag("one", 1)
        expire(table)
    target = {"snapshot": 1} if how == "snapshot" else {"tag": "one"}
    delete = expire if how == "snapshot" else lambda table: table.delete_tag("one").files
    before, seen = state(world), set()
    for done in races(world, outcome(lambda table: table.rollback(**target).id), outcome(delete), switches=1, most=6):
        failed = done.results[0] == "SnapshotNotFound"
        seen.add(failed)
        assert state(done.world) == (before if failed else goal)
        left = lake_on(done.world).table("d.t")
        assert left.verify() == []
        assert failed or done.results[0] == left.meta.snapshots.latest_id()
        expire(left)
        assert left.verify() == []
        assert state(done.world) == (before if failed else goal)
    assert seen == {False, True}


@pytest.mark.parametrize("name", ["upsert", "compaction", "rollback", "expiry", "cut", "reader"])
def test_a_cut_meets_another_program(name):
    world = copied(history(4, 1))
    before = {number: state(world, snapshot=number) for number in range(1, 5)}
    other = {
        "upsert": upsert(0, 9, 10),
        "compaction": compact(full=True),
        "rollback": rollback(3),
        "expiry": expire,
        "cut": rollback(1, cut=True),
        "reader": lambda table: multiset(rows_of(table.scan().to_arrow())),
    }[name]
    for done in races(world, outcome(rollback(2, cut=True)), outcome(other), switches=1):
        is_in_order(done)
        cut, result = done.results
        if name == "reader":
            assert result in (before[4], before[2], "SnapshotNotFound")
        elif name == "upsert":
            rows_then = {row[0]: row for row in before[2]}
            new = {row[0]: row for row in rows_of(rows(0, 9, 10))} if result > cut else {}
            assert state(done.world) == multiset(list({**rows_then, **new}.values()))
        else:
            goals = {"rollback": before[3], "cut": before[1]}
            last = before[2] if cut != "SnapshotNotFound" else before[4]  # its target has expired
            if name in goals and isinstance(result, int) and (not isinstance(cut, int) or result > cut):
                last = goals[name]
            assert state(done.world) == last


def test_an_expiry_meanwhile_keeps_what_an_analysis_publishes():
    """Either the analysis is there with its file, or the snapshot that it read has gone before it was read."""
    world = copied(history(3, 1))
    for done in races(world, outcome(analyze), expire, switches=1):
        table = lake_on(done.world, "look-").table("d.t")
        assert table.verify() == [] == unreferenced(table)
        found = table.system_table("statistics")["mergedRecordCount"].to_pylist()
        assert found == ([] if done.results[0] == "SnapshotNotFound" else [table.scan().count()])


# --- commits alone: their calls are few, so more orders can be tried ---


def written(world: MemoryStorage, prefix: str, data: pa.Table, inline: bool) -> list[CommitMessage]:
    table = opened(world, prefix)
    choose = as_needed(table.version.schema.parsed_options.compaction, 0) if inline else None
    states = table.states()
    parts = split(prepare(data, table.version.schema)[0], table.version.schema, Covers(1))
    runs = [write_level0(BucketFiles.of(table.version, bucket), 1, [part], compacts=True) for bucket, part in parts]
    return [run.compacted(states.get(run.message.bucket), choose) if choose else run.message for run in runs]


def compacted(world: MemoryStorage, prefix: str, full: bool) -> list[CommitMessage]:
    table = opened(world, prefix)
    choose = in_full(table.version.schema, 0) if full else as_needed(table.version.schema.parsed_options.compaction, 0)
    return [m for s in table.states().values() if (m := compact_bucket(BucketFiles.of(table.version, s.bucket), s, choose))]


def committing(messages: list[CommitMessage], writer: str, number: int | None = None) -> Program:
    def program(table: Table) -> object:
        done = commit(table.version, Request(Identity(writer, number), messages))
        return done.snapshot.id if done.snapshot else None

    return program


@pytest.mark.parametrize("waiting", [0, 2])
@pytest.mark.parametrize("pair", ["append+append", "inline+inline", "inline+append", "inline+full", "append+full", "part+full"])
def test_commits_of_what_was_made_from_one_snapshot(pair, waiting):
    """Both began from the same snapshot, so one is always overtaken: an upsert is never lost, a compaction may be."""
    world = copied(history(3 + waiting, waiting))
    data = {"a": rows(0, 9, 10), "b": rows(5, 14, 20)}
    before, programs, upserts = state(world), [], []
    for name, kind in zip("ab", pair.split("+"), strict=True):
        is_upsert = kind in ("append", "inline")
        make = (
            written(world, f"w{name}-", data[name], kind == "inline")
            if is_upsert
            else compacted(world, f"w{name}-", kind == "full")
        )
        programs.append(committing(make, name))
        upserts.append(data[name] if is_upsert else None)
    for done in races(world, *programs, switches=1):
        assert all(result is not None for result, rows in zip(done.results, upserts, strict=True) if rows is not None)
        expected = {row[0]: row for row in before}
        made = sorted((result, name) for result, name in zip(done.results, "ab", strict=True) if result is not None)
        for _, name in made:
            if upserts["ab".index(name)] is not None:
                expected |= {row[0]: row for row in rows_of(data[name])}
        assert state(done.world) == multiset(list(expected.values()))
        is_in_order(done)


@pytest.mark.parametrize("inline", [True, False])
def test_a_commit_made_twice_at_once_is_applied_once(inline):
    """Two attempts at the same micro-batch: a stream that was restarted while its old driver still ran."""

    def program(table: Table) -> object:
        return table.upsert(rows(0, 9, 10), writer_id="stream", commit_id=7, compact=None if inline else False).id

    world = history(3, 1)
    latest = lake_on(world).table("d.t").meta.snapshots.latest_id()
    for done in races(world, program, program, switches=1):
        assert done.results == (latest + 1, latest + 1)
        table = lake_on(done.world).table("d.t")
        assert table.meta.snapshots.latest_id() == latest + 1
        assert table.meta.snapshots.latest().writers == {"stream": 7}
        is_in_order(done)


def test_a_reader_sees_one_state_during_concurrent_commits():
    world = history(3, 1)
    before = state(world)
    for program in (upsert(0, 9, 10), compact(full=True)):
        after = None
        for done in races(world, lambda table: multiset(rows_of(table.scan().to_arrow())), program, switches=1):
            after = after or state(done.world)
            assert done.results[0] in (before, after)


def test_a_table_is_created_once():
    def create(comment: str, **how: object) -> Callable[[Storage], object]:
        def program(storage: Storage) -> object:
            try:
                return lake_on(storage).create_table("d.t", SHAPE.ddl, primary_key=["k0"], comment=comment, **how).comment
            except TableExists:
                return None

        return program

    def world() -> MemoryStorage:
        storage = MemoryStorage()
        new_lake(storage)
        return storage

    for done in interleavings(create("a"), create("b"), world, switches_max=2):
        (made,) = [result for result in done.results if result is not None]
        assert lake_on(done.world).table("d.t").comment == made
    for done in interleavings(create("a", if_not_exists=True), create("b", if_not_exists=True), world, switches_max=2):
        assert done.results[0] == done.results[1] == lake_on(done.world).table("d.t").comment


# --- many, one after the other in all their attempts ---


def test_many_concurrent_writers_lose_no_rows():
    """Ten upserts from one snapshot: the first compacts, the others fall back to level 0."""
    world = copied(history(3, 0))
    expected = {row[0]: row for row in state(world)}
    made = [(number, rows(2 * number, 2 * number + 9, 100 + number)) for number in range(10)]
    messages = [(number, data, written(world, f"w{number}-", data, inline=True)) for number, data in made]
    for number, data, message in messages:
        commit(opened(world, f"c{number}-").version, Request(Identity(str(number)), message))
        expected |= {row[0]: row for row in rows_of(data)}
    table = lake_on(world, "end-").table("d.t")
    assert state(world) == multiset(list(expected.values()))
    (bucket,) = table.states().values()
    assert len({file.sequence for file in bucket.files if file.level == 0}) == 9
    assert unreferenced(table) == []
    table.compact(full=True)
    assert state(world, mode="raw") == multiset(list(expected.values()))
    assert table.verify() == []


def test_the_same_seeds_give_the_same_bytes():
    """Clock, names and chance come from outside: so does every byte."""
    worlds = []
    for _ in range(2):
        storage = MemoryStorage()
        table = SHAPE.create(new_lake(storage), **{**OPTIONS, "bucket": 3})
        for number in range(6):
            table.upsert(rows(3 * number, 3 * number + 30, number), compact=number % 3 != 0, writer_id="w", commit_id=number)
        table.delete_keys(rows(5, 20, 0).select(["k0"]))
        table.compact(full=True)
        worlds.append(contents(storage))
    assert worlds[0] == worlds[1]
    assert len(worlds[0]) > 40


def test_a_race_replayed_is_the_same_race():
    runs = [
        [contents(done.world) for done in races(history(2, 0), upsert(0, 9, 10), upsert(0, 9, 20), switches=0)] for _ in range(2)
    ]
    assert runs[0] == runs[1]
