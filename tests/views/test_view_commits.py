"""A refresh that dies at any call of the storage, two refreshes at once, a writer beside one: each change counts once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from effort import one_in
from faults import Crash, HookedStorage, every_fault
from naive import unreferenced
from strategies import copied, fake_env

from lsmlake import Lake
from lsmlake.errors import CommitConflict, LakeError
from lsmlake.storage.memory import MemoryStorage
from lsmlake.storage.storage import Storage
from lsmlake.warehouse import EmbeddedRuntime

QUERY = "SELECT g, sum(n) AS s, count(*) AS c, min(n) AS m FROM d.a GROUP BY g"
RESULT = {("x", 12, 2, 5), (None, 3, 1, 3)}
KEYS = "SELECT g, count(DISTINCT n) AS c FROM d.a GROUP BY g"
WHOLE = "SELECT g, n, row_number() OVER (ORDER BY n) AS r FROM d.a"


def lake_on(storage: Storage, prefix: str = "") -> Lake:
    """`prefix`: of the names of files that this program writes."""
    return Lake(fake_env(storage, prefix), EmbeddedRuntime(lambda spark: None))


def world(query: str = QUERY) -> Storage:
    """A view table that is behind its table: a group appeared, one lost its minimum, one went."""
    storage = MemoryStorage()
    lake = lake_on(storage)
    lake.create_database("d")
    table = lake.create_table("d.a", "id BIGINT NOT NULL, g STRING, n INT", primary_key=["id"], options={"bucket": 1})
    table.upsert([{"id": 1, "g": "x", "n": 1}, {"id": 2, "g": "x", "n": 7}, {"id": 3, "g": "y", "n": 2}])
    lake.create_view_table("d.v", query, options={"bucket": 1})
    table.upsert([{"id": 1, "g": "x", "n": 5}, {"id": 4, "g": None, "n": 3}])
    table.delete_keys([{"id": 3}])
    return storage


def rows(lake: Lake, name: str = "d.v") -> set[tuple]:
    found = [tuple(one.values()) for one in lake.table(name).to_arrow().to_pylist()]
    assert len(set(found)) == len(found)
    return set(found)


def answer(lake: Lake, query: str) -> set[tuple]:
    return {tuple(one.values()) for one in lake.sql(query).to_arrow().to_pylist()}


def refreshed(storage: Storage, prefix: str = "") -> str:
    try:
        return lake_on(storage, prefix).refresh("d.v").way
    except CommitConflict:
        return "conflict"


@pytest.mark.parametrize("query", [QUERY, WHOLE], ids=["changes", "whole"])
@pytest.mark.parametrize("mode", ["crash", "error"])
def test_a_refresh_that_fails_anywhere_leaves_the_old_or_the_new_rows(query: str, mode: str):
    made = world(query)
    before, expected = rows(lake_on(copied(made))), answer(lake_on(made), query)
    for fault in every_fault(refreshed, lambda: copied(made), mode, one_in=one_in(3)):
        lake = lake_on(fault.world, "later-")
        assert isinstance(fault.outcome, (Crash, LakeError, str)), fault
        assert rows(lake) in (before, expected), fault.call
        lake.refresh("d.v")
        assert rows(lake) == expected, fault.call
        assert lake.table("d.v").verify() == [], fault.call
        if mode == "error" and fault.call[0] != "delete":
            assert unreferenced(lake.table("d.v")) == [], fault.call


def other(storage: Storage) -> str:
    """A refresh of another program."""
    return refreshed(storage, "other-")


class Meanwhile(HookedStorage):
    """Before call `number`, another program does `work` with the storage."""

    def __init__(self, inner: Storage, number: int, work: Callable[[Storage], object]) -> None:
        super().__init__(inner)
        self.calls, self.number, self.work = 0, number, work

    @contextmanager
    def around(self, verb: str, path: str) -> Iterator[None]:
        self.calls += 1
        if self.calls == self.number:
            self.work(self.inner)
        yield


def met_by(made: MemoryStorage, work: Callable[[Storage], object], few: int) -> Iterator[tuple[Lake, str]]:
    """The lake after a refresh during which other work was done before one of its calls, for calls in turn; and its way."""
    counted = Meanwhile(copied(made), 0, work)
    refreshed(counted)
    for number in range(1, counted.calls + 1, one_in(few)):
        storage = Meanwhile(copied(made), number, work)
        way = refreshed(storage)
        yield lake_on(storage.inner, "later-"), way


@pytest.mark.parametrize("query", [QUERY, KEYS, WHOLE], ids=["changes", "keys", "whole"])
def test_two_refreshes_at_once_count_each_change_once(query: str):
    made = world(query)
    expected = answer(lake_on(made), query)
    ways = set()
    for lake, way in met_by(made, other, 3):
        ways.add(way)
        assert rows(lake) == expected
        assert lake.refresh("d.v").way == "nothing"
    assert "nothing" in ways, "one of them came late"


@pytest.mark.parametrize("query", [QUERY, WHOLE], ids=["changes", "whole"])
def test_a_writer_beside_a_refresh_is_counted_by_this_refresh_or_the_next(query: str):
    made = world(query)

    def write(storage: Storage) -> None:
        lake_on(storage, "other-").table("d.a").upsert([{"id": 9, "g": "x", "n": 100}])

    for lake, _ in met_by(made, write, 3):
        lake.refresh("d.v")
        assert rows(lake) == answer(lake, query)


def test_a_compaction_of_the_view_table_beside_a_refresh():
    made = world()

    def compact(storage: Storage) -> None:
        lake_on(storage, "other-").table("d.v").compact(full=True)

    for lake, _ in met_by(made, compact, 3):
        assert rows(lake) == RESULT
        assert lake.refresh("d.v").way == "nothing"


def test_a_creation_that_dies_leaves_no_table_or_one_that_a_refresh_fills():
    def create(storage: Storage, prefix: str = "") -> None:
        lake_on(storage, prefix).create_view_table("d.w", QUERY, options={"bucket": 1})

    made = world()
    for fault in every_fault(create, lambda: copied(made), one_in=one_in(3)):
        lake = lake_on(fault.world, "later-")
        if "w" not in lake.tables("d"):
            create(fault.world, "again-")
        lake.refresh("d.w")
        assert rows(lake, "d.w") == RESULT


def test_a_replacement_that_dies_leaves_the_old_or_the_new_query():
    def replace(storage: Storage, prefix: str = "") -> None:
        lake_on(storage, prefix).create_view_table("d.v", f"{QUERY} HAVING count(*) > 0", replace=True, options={"bucket": 1})

    made = world()
    for fault in every_fault(replace, lambda: copied(made), one_in=one_in(3)):
        lake = lake_on(fault.world, "later-")
        lake.refresh("d.v")
        assert rows(lake) == RESULT
        replace(fault.world, "again-")
        assert rows(lake) == RESULT
