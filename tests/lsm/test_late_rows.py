"""Late and erased rows at level 0 that meet pruning, lookups and compactions: the rows of one key, and what is left of them.

Each step is a commit of its own that stays at level 0 (`write-only`). A full compaction brings the first ones down.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from strategies import new_lake

from lsmlake.api.table import Table

Step = Callable[[Table], object]


def row(sequence: int, value: int) -> Step:
    return lambda table: table.upsert({"id": [1], "seq": [sequence], "v": [value]})


def delete(sequence: int) -> Step:
    return lambda table: table.delete_keys({"id": [1], "seq": [sequence]})


def erase(table: Table) -> object:
    return table.delete_keys({"id": [1]}, ignore_sequence=True)


CASES: dict[str, tuple[list[Step], int, list[int]]] = {
    # what: the commits, how many of them lie deeper, the values of v that are left
    "a newer row": ([row(1, 1), row(2, 100)], 1, [100]),
    "a late row": ([row(2, 100), row(1, 1)], 1, [100]),
    "a late row among several": ([row(5, 100), row(1, 1), row(3, 50)], 1, [100]),
    "an equal sequence": ([row(2, 1), row(2, 100)], 1, [100]),
    "a newer row, then a late one": ([row(2, 1), row(3, 100), row(1, 50)], 1, [100]),
    "a delete in order": ([row(1, 1), delete(2)], 1, []),
    "a late delete": ([row(2, 100), delete(1)], 1, [100]),
    "an erasure": ([row(10, 100), erase], 1, []),
    "an erasure, then a late row": ([row(10, 100), erase, row(5, 1)], 1, [1]),
    "an erasure between two late rows": ([row(10, 100), row(3, 50), erase, row(5, 1)], 1, [1]),
    "a late row, then an erasure": ([row(10, 100), row(5, 1), erase], 1, []),
    "an erasure that lies deeper": ([row(10, 100), erase, row(5, 1)], 2, [1]),
    "two erasures": ([row(10, 100), erase, row(5, 1), erase, row(3, 50)], 1, [50]),
}


def made(steps: list[Step], deep: int) -> Table:
    options = {"bucket": 1, "sequence.field": "seq", "write-only": "true"}
    table = new_lake().create_table("d.t", "id BIGINT NOT NULL, seq INT, v INT", primary_key=["id"], options=options)
    table.upsert({"id": range(2, 200), "seq": [0] * 198, "v": [1000] * 198})  # lies deeper, and is not merged with a few new rows
    for number, step in enumerate(steps):
        if number == deep:
            table.compact(full=True)
        step(table)
    return table


def values(table: Table, where: str) -> list[int]:
    return sorted(table.scan(where=where, columns=["v"]).to_arrow()["v"].to_pylist())


def check(name: str) -> None:
    steps, deep, left = CASES[name]
    table = made(steps, deep)
    for when in ("level 0", "compacted", "full"):
        if when != "level 0":
            table.compact(full=when == "full")
        assert values(table, "id = 1") == left, when
        for value in (1, 50, 100):
            assert values(table, f"v = {value}") == [one for one in left if one == value], (when, value)
        row = table.get({"id": 1})
        assert ([] if row is None else [row["v"]]) == left, when
        assert table.verify() == []


@pytest.mark.parametrize("name", CASES)
def test_the_rows_of_a_key_come_to_the_same_wherever_they_lie(name: str):
    check(name)
