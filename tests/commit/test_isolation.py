"""Statements that change rows by condition while other programs commit: none is lost, and none sees half of another.

`Meanwhile` lets another program commit right before a statement publishes.
"""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import product
from pathlib import Path

import pyarrow as pa
import pytest
from effort import one_in, sampled
from faults import Crash, HookedStorage, every_fault, interleavings
from naive import unreferenced
from strategies import Names, contents, copied, fake_env, new_lake, rows_of, tiny_units

import lsmlake
from lsmlake import add_column, drop_column, rename_column, set_option
from lsmlake.api.lake import Lake
from lsmlake.api.runtime import Runtime
from lsmlake.api.table import Table
from lsmlake.commit.commit import again
from lsmlake.errors import CommitConflict, InvalidOption, InvalidQuery
from lsmlake.read.plan import Plan
from lsmlake.read.positions import Matched, matched
from lsmlake.statements.attempts import DmlReport
from lsmlake.storage.memory import MemoryStorage
from lsmlake.storage.storage import Storage
from lsmlake.tables.version import Version
from lsmlake.warehouse import EmbeddedRuntime

SWITCHES = int(os.environ.get("LSMLAKE_SWITCHES", "1"))
DDL = "id INT NOT NULL, k INT, v BIGINT, s STRING"
COLUMNS = pa.schema([("id", pa.int32()), ("k", pa.int32()), ("v", pa.int64()), ("s", pa.string())])
KINDS: dict[str, dict] = {
    "vectors": {},
    "copy on write": {"options": {"deletion-vectors.enabled": "false"}},
    "key": {"primary_key": ["id"], "options": {"bucket": 2}},
    "key that moves": {"primary_key": ["id"], "partition_by": ["k"]},
}


def batch(given: list[tuple]) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(COLUMNS.names, row, strict=True)) for row in given], COLUMNS)


def created(storage: Storage, kind: str, given: list[tuple], **options: str) -> Table:
    """A table of a kind with these rows."""
    how = KINDS[kind] | {"options": KINDS[kind].get("options", {}) | options}
    table = new_lake(storage).create_table("d.t", DDL, **how)
    add(table, given)
    return table


def add(table: Table, given: list[tuple]) -> None:
    (table.upsert if table.primary_key else table.append)(batch(given))


def opened(storage: Storage, prefix: str) -> Table:
    return Lake(fake_env(storage, prefix), Runtime()).table("d.t")


class Meanwhile(HookedStorage):
    """Calls `other` with a table of another program before each of the first `times` snapshots is published."""

    def __init__(self, inner: Storage, other: Callable[[Table], object], times: int = 1) -> None:
        super().__init__(inner)
        self.other, self.left, self.names = other, times, Names("other-")

    @contextmanager
    def around(self, verb: str, path: str) -> Iterator[None]:
        if verb == "put_if_absent" and "/snapshot-" in path and self.left:
            self.left -= 1
            self.other(opened(self.inner, self.names()))
        yield


def ids(table: Table) -> list[tuple]:
    """(id, v) of all rows."""
    return sorted(rows_of(table.scan(columns=["id", "v"]).to_arrow()))


def in_order(table: Table) -> None:
    assert table.verify() == [] and unreferenced(table) == []


# --- drawn values ---

DRAWN: dict[str, Callable[[Table], object]] = {
    "update": lambda table: table.update({"s": "uuid()", "k": "v", "v": "CAST(rand() * 1000000 AS BIGINT)"}, "k = 1"),
    "sql update": lambda table: lake_of(table).sql("UPDATE d.t SET s = uuid(), v = CAST(rand() * 1000000 AS BIGINT) WHERE k = 1"),
    "merge": lambda table: lake_of(table).sql(
        "MERGE INTO d.t USING (SELECT 1 AS k, uuid() AS u) s ON t.k = s.k "
        "WHEN MATCHED THEN UPDATE SET s = s.u, v = CAST(substring(s.u, 1, 1) IS NOT NULL AS BIGINT)"
    ),
    "merge of its own rows": lambda table: lake_of(table).sql(
        "MERGE INTO d.t USING (SELECT id, uuid() AS u FROM d.t WHERE k = 1) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET s = s.u"
    ),
    "insert": lambda table: lake_of(table).sql("INSERT INTO d.t SELECT id + 100, k, v, uuid() FROM d.t WHERE k = 1"),
}


def lake_of(table: Table) -> Lake:
    return Lake(table.meta.env, EmbeddedRuntime(attach=lambda spark: Runtime()))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("verb", DRAWN)
def test_a_statement_that_lost_a_race_draws_one_value_for_each_row(verb, kind):
    inner = MemoryStorage()
    created(inner, kind, [(number, 1, 0, "-") for number in range(6)] + [(9, 2, 0, "other")])
    meanwhile = Meanwhile(inner, lambda table: table.update({"v": "7"}, "id = 2"))
    DRAWN[verb](opened(meanwhile, "own"))
    assert meanwhile.left == 0
    table = opened(inner, "reader")
    found = table.scan().to_arrow().to_pylist()
    drawn = [row["s"] for row in found if len(row["s"]) == 36]
    assert len(drawn) == 6
    assert len({*drawn}) == (1 if verb == "merge" else 6)  # its source has one row
    assert sorted(row["id"] for row in found) == [*range(6), 9, *(range(100, 106) if verb == "insert" else ())]
    assert [row["s"] for row in found if row["id"] == 9] == ["other"]
    in_order(table)


@pytest.mark.parametrize("kind", KINDS)
def test_two_columns_show_the_same_drawn_value_after_a_lost_race(kind):
    inner = MemoryStorage()
    created(inner, kind, [(number, 1, 0, "-") for number in range(6)])
    statement = (
        "MERGE INTO d.t USING (SELECT id, rand() AS r FROM d.t) s ON t.id = s.id WHEN MATCHED AND t.id < 3 THEN "
        "UPDATE SET v = CAST(s.r * 1000000 AS BIGINT), s = CAST(CAST(s.r * 1000000 AS BIGINT) AS STRING) "
        "WHEN MATCHED THEN UPDATE SET v = CAST(s.r * 1000000 AS BIGINT) + 1, "
        "s = CAST(CAST(s.r * 1000000 AS BIGINT) + 1 AS STRING)"
    )
    meanwhile = Meanwhile(inner, lambda table: table.update({"v": "7"}, "id = 2"))
    lake_of(opened(meanwhile, "own")).sql(statement)
    assert meanwhile.left == 0
    found = opened(inner, "reader").scan().to_arrow().to_pylist()
    assert [row["s"] for row in found] == [str(row["v"]) for row in found]
    assert len({row["v"] for row in found}) == 6


# --- levels ---

NEW = (9, 1, 0, "a")  # satisfies the condition of each statement
LEVELS: dict[str, tuple[Callable[..., object], list[tuple], list[tuple]]] = {
    # verb: the statement, and what it leaves if it is serializable, or not
    "delete": (lambda table, **how: table.delete("k = 1", **how), [(2, 20)], [(2, 20), (9, 0)]),
    "update": (
        lambda table, **how: table.update({"v": "v + 1"}, "k = 1", **how),
        [(1, 1), (2, 20), (9, 1)],
        [(1, 1), (2, 20), (9, 0)],
    ),
    "merge": (
        lambda table, **how: table.merge({"k": [1]}, "t.k = s.k", **how).when_matched_update({"v": "t.v + 1"}).execute(),
        [(1, 1), (2, 20), (9, 1)],
        [(1, 1), (2, 20), (9, 0)],
    ),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("verb", LEVELS)
def test_the_level_of_the_call_or_of_the_table_decides_about_rows_that_were_added(verb, kind):
    run, serial, kept = LEVELS[verb]
    for option, call, expected in (
        (None, None, serial),
        ("snapshot", None, kept),
        ("snapshot", "serializable", serial),
    ):
        storage = MemoryStorage()
        options = {} if option is None else {f"write.{verb}.isolation-level": option}
        table = created(storage, kind, [(1, 1, 0, "a"), (2, 2, 20, "b")], **options)
        run(opened(Meanwhile(storage, lambda other: add(other, [NEW])), "b-"), **({} if call is None else {"isolation": call}))
        assert ids(table) == expected, (option, call)
        in_order(table)


def test_a_level_has_a_known_name():
    table = created(MemoryStorage(), "vectors", [NEW])
    with pytest.raises(InvalidQuery, match="unknown isolation"):
        table.delete("k = 1", isolation="none")
    for verb in LEVELS:
        with pytest.raises(InvalidOption, match="'serializable' or 'snapshot'"):
            table.alter(set_option(f"write.{verb}.isolation-level", "none"))


# --- statements on other rows ---


def put(number: int, value: int) -> Callable[[Table], object]:
    """A MERGE that adds to the row of an id, or inserts it."""

    def run(table: Table) -> object:
        source = {"id": pa.array([number], pa.int32()), "v": [value]}
        merge = table.merge(source, "t.id = s.id").when_matched_update({"v": "t.v + s.v"})
        return merge.when_not_matched_insert({"id": "s.id", "k": "1", "v": "s.v"}).execute()

    return run


OTHERS: dict[str, Callable[[Table], object]] = {
    "update": lambda table: table.update({"v": "v + 1"}, "id = 2"),
    "delete": lambda table: table.delete("id = 2"),
    "merge": put(8, 8),
    "new rows": lambda table: add(table, [(7, 7, 7, "g")]),
}
OWN: dict[str, Callable[[Table], object]] = {
    "update": lambda table: table.update({"v": "v + 1"}, "id = 1"),
    "delete": lambda table: table.delete("id = 1"),
    "merge of a row": put(1, 5),
    "merge of a new row": put(9, 9),
}


@pytest.mark.parametrize("kind", KINDS)
def test_statements_on_other_rows_never_overtake_one(kind, monkeypatch):
    """With vectors and under a primary key; a copy on write depends on its files."""
    rounds: list[str] = []

    def counted(first: Version, evaluate: Callable[[Version], DmlReport], *told: str) -> DmlReport:
        def noted(version: Version) -> DmlReport:
            rounds.append(version.meta.env.ids.prefix)
            return evaluate(version)

        return again(first, noted, *told)

    for module in ("lsmlake.api.table_verbs.statements", "lsmlake.api.merging"):
        monkeypatch.setattr(f"{module}.again", counted)
    for own, other in (pair for number, pair in enumerate(product(OWN, OTHERS)) if sampled(number, 3)):
        storage = MemoryStorage()
        table = created(storage, kind, [(1, 1, 0, "a"), (2, 2, 20, "b"), (3, 3, 30, "c")])
        expected = copied(storage)
        OWN[own](opened(expected, "own-"))
        OTHERS[other](opened(expected, "other-"))
        rounds.clear()
        OWN[own](opened(Meanwhile(storage, OTHERS[other]), "b-"))
        assert rounds.count("b-") == 1 or kind == "copy on write", (own, other)
        assert ids(table) == ids(opened(expected, "look-"))
        in_order(table)


# --- statements on the same rows ---


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("own", OWN)
def test_a_statement_is_evaluated_again_if_a_snapshot_since_its_version_has_expired(own, kind, monkeypatch):
    """Nobody can tell what the expired commit changed; with nobody competing any more, the second evaluation commits."""
    monkeypatch.setattr("lsmlake.storage.env.Env.sleep", lambda env, seconds: None)
    storage, evaluations = MemoryStorage(), []
    created(storage, kind, [(1, 1, 10, "a"), (2, 2, 20, "b")])
    latest = Version.latest
    monkeypatch.setattr(Version, "latest", staticmethod(lambda meta: evaluations.append(1) or latest(meta)))

    def commits_and_expires(other: Table) -> None:
        for number in (7, 8):
            add(other, [(number, number, number, "g")])
        other.expire_snapshots(retain_max=1)
        evaluations.clear()

    OWN[own](opened(Meanwhile(storage, commits_and_expires), "b-"))
    assert len(evaluations) <= 3  # of the attempt that finds out, of the second evaluation and of its look back
    table = opened(storage, "c-")
    expected = {"update": [(1, 11), (2, 20)], "delete": [(2, 20)], "merge of a row": [(1, 15), (2, 20)]}
    before = expected.get(own, [(1, 10), (2, 20), (9, 9)])
    assert ids(table) == sorted([*before, (7, 7), (8, 8)])
    in_order(table)


@pytest.mark.parametrize("kind", KINDS)
def test_concurrent_updates_of_one_row_lose_none(kind):
    """A second program updates the row right before the first one publishes, in each of its attempts but the last."""
    storage = MemoryStorage()
    table = created(storage, kind, [(1, 1, 0, "a"), (2, 2, 0, "b")])
    other = Meanwhile(storage, lambda other: other.update({"v": "v + 100"}, "id = 1"), times=3)
    assert opened(other, "b-").update({"v": "v + 1"}, "id = 1").updated == 1
    assert ids(table) == [(1, 301), (2, 0)]
    in_order(table)


# what another program does while a statement is evaluated, and the rows (id, v) that both leave, one after the other
MEANWHILE: dict[str, tuple[Callable[[Table], object], list[tuple]]] = {
    "add a column": (lambda table: table.alter(add_column("z", "INT")), [(1, 1), (2, 20)]),
    "drop a column": (lambda table: table.alter(drop_column("s")), [(1, 1), (2, 20)]),
    "rename a column": (lambda table: table.alter(rename_column("s", "text")), [(1, 1), (2, 20)]),
    "switch vectors": (lambda table: table.alter(set_option("deletion-vectors.enabled", "false")), [(1, 1), (2, 20)]),
    "roll back": (lambda table: table.rollback(1), [(1, 1), (2, 20), (3, 1)]),
}
STATEMENTS: dict[str, Callable[[Table], object]] = {
    "update": lambda table: table.update({"v": "v + 1"}, "k = 1"),
    "merge": lambda table: table.merge({"k": [1]}, "t.k = s.k").when_matched_update({"v": "t.v + 1"}).execute(),
}


@pytest.mark.parametrize("what", MEANWHILE)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("statement", STATEMENTS)
def test_a_statement_is_evaluated_again_on_an_altered_table(statement, kind, what):
    storage = MemoryStorage()
    table = created(storage, kind, [(1, 1, 0, "a"), (2, 2, 20, "b"), (3, 1, 0, "a")])
    table.delete("id = 3")
    other, expected = MEANWHILE[what]
    STATEMENTS[statement](opened(Meanwhile(storage, other), "b-"))
    assert ids(table) == expected
    in_order(table)


PROCESSES = multiprocessing.get_context("forkserver")
"""Processes that start with all modules loaded, which takes each of them a second otherwise."""
PROCESSES.set_forkserver_preload(["duckdb", "hypothesis", "pytest", "lsmlake.api.lake", "lsmlake.statements.change"])


def two_rows(folder: Path, kind: str) -> Table:
    """A table that other processes can open, with the rows 1 and 2, whose v is 0."""
    lake = lsmlake.connect(folder)
    lake.create_database("d")
    table = lake.create_table("d.t", DDL, **KINDS[kind])
    add(table, [(1, 1, 0, "a"), (2, 2, 0, "b")])
    return table


def _bump(folder: str, count: int) -> None:
    for _ in range(count):
        lsmlake.connect(folder).table("d.t").update({"v": "v + 1"}, where="id = 1")


@pytest.mark.parametrize("kind", KINDS)
def test_counters_of_many_processes(kind, tmp_path):
    table = two_rows(tmp_path, kind)
    with PROCESSES.Pool(2) as pool:
        pool.starmap(_bump, [(str(tmp_path), 4)] * 2)
    assert table.scan(where="id = 1").to_arrow()["v"].to_pylist() == [8]
    assert table.verify() == []


def test_a_statement_that_is_overtaken_for_ever_gives_up(monkeypatch):
    table = new_lake().create_table("d.t", DDL)
    table.append([{"id": 1, "k": 1, "v": 0, "s": "a"}])
    monkeypatch.setattr("lsmlake.commit.commit._ROUNDS", 3)

    def overtaken(planned: Plan) -> list[Matched]:
        found = matched(planned)
        table.append([{"id": 1, "k": 1, "v": 0, "s": "a"}])
        return found

    monkeypatch.setattr("lsmlake.statements.change.matched", overtaken)
    with pytest.raises(CommitConflict, match="on every attempt"):
        table.delete("id = 1")
    assert table.scan().count() == 4


@pytest.mark.parametrize("kind", KINDS)
def test_a_table_that_is_merged_with_itself_is_read_at_one_version(kind):
    storage = MemoryStorage()
    table = created(storage, kind, [(1, 1, 10, "a"), (2, 2, 20, "b")])
    target = opened(Meanwhile(storage, lambda other: other.update({"v": "100"}, "id = 1")), "b-")
    assert target.merge(target, "t.id = s.id").when_matched_update({"v": "s.v + 1"}).execute().updated == 2
    assert ids(table) == [(1, 101), (2, 21)]
    in_order(table)


# --- two statements in every order of their storage calls ---


PAIRS: dict[str, tuple[Callable[[Table], object], Callable[[Table], object]]] = {
    "updates of a row": (
        lambda table: table.update({"v": "v + 1"}, "k = 1"),
        lambda table: table.update({"v": "v * 2 + 5"}, "v < 10"),
    ),
    "updates that move rows to the other condition": (
        lambda table: table.update({"k": "2"}, "k = 1"),
        lambda table: table.update({"k": "1"}, "k = 2"),
    ),
    "update, delete": (lambda table: table.update({"v": "v + 1"}, "k = 1"), lambda table: table.delete("id = 1")),
    "merges that insert the same": (put(9, 1), put(9, 2)),
    "merge, delete": (put(9, 1), lambda table: table.delete("k = 1")),
    "merge, compaction": (put(1, 1), lambda table: table.compact(full=True)),
    "delete, new rows": (lambda table: table.delete("k = 1"), lambda table: add(table, [NEW])),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("pair", PAIRS)
def test_two_statements_are_one_after_the_other(pair, kind):
    with tiny_units(rows=8, window_bytes=1 << 16, lookup_rows=100):
        _in_every_order(PAIRS[pair], kind)


def _in_every_order(pair: tuple[Callable[[Table], object], Callable[[Table], object]], kind: str) -> None:
    world = MemoryStorage()
    table = created(world, kind, [(1, 1, 0, "a"), (2, 2, 20, "b")])
    add(table, [(3, 2, 30, "c")])
    serial = []
    for order in (pair, pair[::-1]):
        one = copied(world)
        for number, statement in enumerate(order):
            statement(opened(one, f"{number}-"))
        serial.append(sorted(rows_of(opened(one, "look-").scan().to_arrow())))

    def program(number: int) -> Callable[[Storage], object]:
        return lambda storage: pair[number](opened(storage, f"{'ab'[number]}-")) and None

    seen = set()
    for done in interleavings(program(0), program(1), lambda: copied(world), switches_max=SWITCHES, one_in=one_in(7)):
        end = frozenset(contents(done.world).items())
        if end not in seen:
            seen.add(end)
            left = opened(done.world, "look-")
            assert sorted(rows_of(left.scan().to_arrow())) in serial, done.steps
            assert unreferenced(left) == []


READING: dict[str, tuple[str, list[tuple]]] = {
    # a statement that also reads the row 2, which another program deletes meanwhile, and what is left
    "delete": ("DELETE FROM d.t WHERE v < (SELECT max(v) FROM d.t)", [(1, 10)]),
    "update": ("UPDATE d.t SET v = (SELECT sum(v) FROM d.t) WHERE id = 1", [(1, 10)]),
    "merge": (
        "MERGE INTO d.t USING (SELECT 1 AS id, count(*) AS n FROM d.t) AS s ON t.id = s.id WHEN MATCHED THEN UPDATE SET v = s.n",
        [(1, 1)],
    ),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("verb", READING)
def test_a_deleted_row_that_only_a_subquery_read_overtakes_a_statement(verb, kind):
    text, left = READING[verb]
    storage = MemoryStorage()
    table = created(storage, kind, [(1, 1, 10, "a")])
    add(table, [(2, 2, 20, "b")])
    meanwhile = Meanwhile(storage, lambda other: other.delete("id = 2"))
    Lake(fake_env(meanwhile, "b-"), EmbeddedRuntime(attach=lambda spark: Runtime())).sql(text)
    assert ids(table) == left
    in_order(table)


# --- a process that dies ---

DYING: dict[str, Callable[[Table], object]] = {
    "delete": lambda table: table.delete("k = 2"),
    "update": lambda table: table.update({"v": "v + 1", "k": "k + 1"}, "k = 2"),
    "merge": lambda table: table.merge({"k": [2], "v": [7]}, "t.k = s.k").when_matched_update({"v": "s.v"}).execute(),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("statement", DYING)
def test_a_statement_that_dies_at_any_call_leaves_the_old_rows_or_the_new(statement, kind):
    with tiny_units(rows=8, window_bytes=1 << 16, lookup_rows=100):
        world = MemoryStorage()
        add(created(world, kind, [(1, 1, 10, "a"), (2, 2, 20, "b")]), [(3, 2, 30, "c")])
        after = copied(world)
        DYING[statement](opened(after, "run-"))
        old, new = (ids(opened(storage, "look-")) for storage in (world, after))
        seen = []
        for done in every_fault(
            lambda storage: DYING[statement](opened(storage, "run-")), lambda: copied(world), one_in=one_in(2)
        ):
            assert isinstance(done.outcome, Crash)
            left = opened(done.world, "look-")
            seen.append(ids(left))
            assert seen[-1] in (old, new), done.call
            assert left.verify() == []
        assert old in seen and old != new


def _for_ever(folder: str) -> None:
    table = lsmlake.connect(folder).table("d.t")
    while True:
        table.update({"v": "v + 1"}, where="id = 1")


@pytest.mark.parametrize("kind", KINDS)
def test_a_killed_process_leaves_each_statement_whole(kind, tmp_path):
    table = two_rows(tmp_path, kind)
    process = PROCESSES.Process(target=_for_ever, args=(str(tmp_path),))
    process.start()
    while table.meta.snapshots.latest_id() < 4:
        assert process.is_alive()
        time.sleep(0.01)
    process.kill()
    process.join()
    commits = table.meta.snapshots.latest_id()
    assert commits >= 4 and ids(table) == [(1, commits - 1), (2, 0)] and table.verify() == []
    assert table.update({"v": "v + 1"}, where="id = 1").updated == 1
