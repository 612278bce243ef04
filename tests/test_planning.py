"""Planning opens only the manifests that can match, and finds the same files as a plan over all of them."""

from __future__ import annotations

import pyarrow as pa
import pytest
from effort import examples
from faults import FaultStorage
from hypothesis import given
from hypothesis import strategies as st
from naive import naive
from strategies import KEYS, PARTITIONS, Shape, conditions, encoded_rows, lake_on, multiset, new_lake, rows_of

from lsmlake.api.table import Table
from lsmlake.commit.tiers import full_tail
from lsmlake.read.plan import Plan
from lsmlake.store.memory import MemoryStorage

SMALL = {"manifest.merge-min-count": 3, "manifest.target-file-size": "300 b", "bucket": 3}


def described(plan: Plan) -> list[object]:
    """What a plan reads, whatever the order of its splits."""
    return sorted(
        str((split.bucket, sorted(f.name for f in split.files), sorted(split.vectors.items()), split.level0, split.lookup_files))
        + str(split.merged)
        for split in plan.splits
    )


@pytest.mark.parametrize("vectors", [True, False])
@examples(8)
@given(data=st.data())
def test_a_pruned_plan_reads_what_an_unpruned_one_reads(vectors: bool, data: st.DataObject):
    """With keys and partitions of all types, values at the ends of their types, and after upgrades, deletes and merges."""
    shape = Shape.of(data.draw(st.sampled_from(list(KEYS))), data.draw(st.sampled_from(list(PARTITIONS))))
    storage = MemoryStorage()
    options = {name: str(value) for name, value in SMALL.items()} | {"deletion-vectors.enabled": str(vectors).lower()}
    table = new_lake(storage).create_table(
        "d.t", shape.ddl, primary_key=list(shape.primary_key), partition_by=["p"] if shape.partition else [], options=options
    )
    stamp = 0
    for drawn in data.draw(st.lists(encoded_rows(12), min_size=3, max_size=9)):
        rows = [shape.row(code, value, stamp + i) for i, (code, value) in enumerate(drawn)]
        stamp += len(rows)
        table.upsert(shape.table(rows, table.schema), compact=data.draw(st.booleans()))
        if data.draw(st.integers(0, 3)) == 0:
            keys = shape.table([shape.key_of(row) for row in rows[:2]], table.schema, shape.primary_key)
            table.delete_keys(keys, compact=data.draw(st.booleans()))
    if data.draw(st.booleans()):
        table.compact()
    every = table.scan().to_arrow()
    for _ in range(4):
        condition = data.draw(conditions(shape))
        for mode in ("fresh", "raw"):
            warm = table.scan(where=condition.sql, mode=mode)
            cold = lake_on(storage, "cold-").table("d.t").scan(where=condition.sql, mode=mode)
            assert described(cold.plan()) == described(warm.plan()), condition.sql
            assert cold.plan().pruned == warm.plan().pruned
        found = lake_on(storage, "cold-").table("d.t").scan(where=condition.sql).to_arrow()
        matching = pa.array([condition.holds(row) is True for row in every.to_pylist()], pa.bool_())
        assert multiset(rows_of(found)) == multiset(rows_of(every.filter(matching)))


def many_manifests(storage: MemoryStorage) -> Table:
    """A table of 16 partitions, written in 64 commits, its manifests merged into many."""
    table = new_lake(storage).create_table(
        "d.t",
        "p INT NOT NULL, k BIGINT, v STRING",
        primary_key=["p", "k"],
        partition_by=["p"],
        options={name: str(value) for name, value in SMALL.items()},
    )
    for number in range(64):
        keys = range(number, number + 60, 3)
        table.upsert({"p": [number % 16] * len(keys), "k": list(keys), "v": [f"{number}"] * len(keys)})
    return table


@pytest.mark.parametrize(
    ("where", "most"), [("p = 3 AND k = 12", 4), ("p = 3", 6), ("p IN (3, 4)", 8), ("k = 1000000", 0), ("p = 3 AND k < 0", 0)]
)
def test_a_cold_plan_opens_only_manifests_that_can_match(where: str, most: int):
    storage = FaultStorage(MemoryStorage())
    table = many_manifests(storage)
    assert table.manifests().num_rows > 20
    cold = lake_on(storage, "cold-").table("d.t")
    storage.calls = []
    found = cold.scan(where=where).plan()
    opened = [path for name, path in storage.calls if name == "read" and "/manifest/manifest-0" in path]
    assert len(opened) <= most
    assert described(found) == described(table.scan(where=where).plan())


def test_the_number_of_live_files_is_known_from_the_manifest_lists():
    storage = MemoryStorage()
    table = many_manifests(storage)
    table.compact(full=True)
    there = naive(table)
    for number, snapshot in there.snapshots().items():
        plan = table.scan(snapshot=number).plan()
        assert dict(plan.pruned)["snapshot"] == len(there.files(snapshot))


# --- merging ---


def grown(commits: int, each: int, most: int) -> tuple[list[int], int]:
    """The parts of a log of `commits` parts of `each` entries, and how many entries were written in all."""
    parts, written = [], 0
    for _ in range(commits):
        if tail := full_tail(parts, most):
            parts = [*parts[: len(parts) - tail], sum(parts[len(parts) - tail :])]
            written += parts[-1]
        parts.append(each)
        written += each
    return parts, written


@pytest.mark.parametrize("each", [1, 8, 300, 5_000])
@pytest.mark.parametrize("most", [2, 30])
def test_a_log_stays_short_and_each_entry_is_written_a_few_times(each: int, most: int):
    for commits in (100, 1_000, 30_000):
        parts, written = grown(commits, each, most)
        assert sum(parts) == commits * each
        assert len(parts) <= most + 8 * 8
        assert written <= commits * (1_000 + 8 * each), "a merge of the first tier writes a thousand entries at most"


def test_few_parts_are_not_merged():
    assert full_tail([], 2) == 0
    assert full_tail([1] * 29, 30) == 0
    assert full_tail([1] * 30, 30) == 30
    assert full_tail([10_000, *[1] * 30], 30) == 30, "a large part is not written again for small ones"
    assert full_tail([1_000] * 8, 30) == 8
    assert full_tail([1_000] * 7 + [1] * 30, 30) == 30
    assert full_tail([1_000] * 8 + [1] * 5, 30) == 13
