"""A writer that loses the race for a snapshot writes two manifest lists and the snapshot again, and no data."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import NamedTuple

import pytest
from faults import HookedStorage
from naive import unreferenced
from strategies import WithStates, fake_env, new_lake

from lsmlake.api.lake import Lake
from lsmlake.api.runtime import Runtime
from lsmlake.api.table import Table
from lsmlake.storage.memory import MemoryStorage
from lsmlake.storage.storage import Storage

RACES = 3
LISTS = ["manifest-list", "manifest-list", "snapshot"]


class Overtaken(HookedStorage):
    """Another program commits right before each of the first snapshots. For each: `written`, the kinds of the files that were
    written since, and `looked`, the other calls up to the next snapshot."""

    def __init__(self, inner: Storage, other: Callable[[Table], object]) -> None:
        super().__init__(inner)
        self.other, self.written, self.looked = other, [], []

    @contextmanager
    def around(self, verb: str, path: str) -> Iterator[None]:
        kind = path.rpartition("/")[2].rpartition("-")[0]
        if verb in ("write-publish", "put_if_absent") and self.written:
            self.written[-1].append(kind)
        elif self.looked and "snapshot" not in self.written[-1]:
            self.looked[-1].append(f"{verb} {kind}")
        if verb == "put_if_absent" and kind == "snapshot" and len(self.written) < RACES:
            self.written.append([])
            self.looked.append([])
            self.other(opened(self.inner, f"other{len(self.written)}x"))
        yield


def opened(storage: Storage, prefix: str) -> Table:
    return Lake(fake_env(storage, prefix), Runtime()).table("d.t")


class Case(NamedTuple):
    """`kind`: the arguments of `create_table`. `run`, `other`: what the writer and the others do. `first`, `later`: what is
    written after the first race and after each later one."""

    kind: dict
    run: Callable[[Table], object]
    other: Callable[[Table], object]
    first: list[str]
    later: list[str]


def upsert(keys: range, table: Table, **how: object) -> None:
    table.upsert([{"k": k, "v": table.meta.snapshots.latest_id()} for k in keys], **how)


def append(table: Table) -> None:
    table.append([{"k": k, "v": 0} for k in range(9)])


def partitioned(p: int, table: Table) -> None:
    """Many rows at first; later a few other ones of them each time, which masks the older rows."""
    latest = table.meta.snapshots.latest_id() or 0
    table.upsert([{"k": k, "p": p, "v": latest} for k in (range(100) if latest < 2 else range(2 * latest, 2 * latest + 2))])


KEYED = {"schema": "k BIGINT NOT NULL, v BIGINT", "primary_key": ["k"], "options": {"bucket": 1}}
PARTS = {"schema": "k BIGINT NOT NULL, p INT, v BIGINT", "primary_key": ["p", "k"], "partition_by": ["p"]}
CASES = {
    "append": Case({"schema": "k BIGINT, v BIGINT"}, append, append, LISTS, LISTS),
    "level 0": Case(KEYED, partial(upsert, range(9), compact=False), partial(upsert, range(9), compact=False), LISTS, LISTS),
    # the vectors of the new snapshot are listed beside those of the other
    "compacted, in another partition": Case(
        PARTS, partial(partitioned, 1), partial(partitioned, 2), ["index-manifest", *LISTS], ["index-manifest", *LISTS]
    ),
    # the compaction was overtaken: a manifest without it
    "compacted, in the same bucket": Case(
        KEYED, partial(upsert, range(9)), partial(upsert, range(9)), ["manifest", *LISTS], LISTS
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_lost_race_rewrites_two_lists_and_no_data(name):
    case, storage = CASES[name], MemoryStorage()
    table = new_lake(storage).create_table("d.t", **case.kind)
    for _ in range(2):
        case.run(table)
        case.other(table)
    overtaken = Overtaken(storage, case.other)
    case.run(opened(overtaken, "own"))
    found = [sorted(kinds) for kinds in overtaken.written]
    assert found == [sorted(case.first), *[sorted(case.later)] * (RACES - 1)]
    for calls in overtaken.looked[1:]:
        assert calls.count("read snapshot") == 4, "the faster one, the one before, and the newest"
        assert not any(call.startswith("delete") for call in calls), "what was written in vain is deleted in the end"
    assert table.verify() == [] and unreferenced(table) == []


class EarlyOvertaken(HookedStorage):
    """Another program commits right before one of the looks of a writer at the number that it would take. `written`: the kinds
    of the files that the writer writes."""

    def __init__(self, inner: Storage, look: int, other: Callable[[Table], object]) -> None:
        super().__init__(inner)
        self.look, self.other, self.looks, self.written = look, other, 0, []

    @contextmanager
    def around(self, verb: str, path: str) -> Iterator[None]:
        if verb == "states" and self.inner.size(path) is None:
            self.looks += 1
            if self.looks == self.look:
                self.other(opened(self.inner, "other"))
        if verb in ("write-publish", "put_if_absent"):
            self.written.append(path.rpartition("/")[2].rpartition("-")[0])
        yield


@pytest.mark.parametrize("look", [1, 2], ids=["at the begin of the commit", "before its lists"])
@pytest.mark.parametrize("name", CASES)
def test_a_race_that_is_seen_to_be_lost_writes_no_list(name, look):
    """Where a look costs no request, a commit that came before the lists were written costs no file."""
    case, storage = CASES[name], WithStates()
    table = new_lake(storage).create_table("d.t", **case.kind)
    for _ in range(2):
        case.run(table)
        case.other(table)
    overtaken = EarlyOvertaken(storage, look, case.other)
    case.run(opened(overtaken, "own"))
    assert overtaken.looks > look
    assert sorted(kind for kind in overtaken.written if "manifest" in kind or kind == "snapshot") == sorted(
        ["manifest", *(kind for kind in case.later if kind != "manifest")]
    )
    assert table.verify() == [] and unreferenced(table) == []
