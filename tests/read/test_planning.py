"""Planning opens only the manifests that can match, and finds the same files as a plan over all of them."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from itertools import count

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from effort import examples
from faults import FaultStorage
from hypothesis import given
from hypothesis import strategies as st
from naive import EXACT, naive
from plans import SMALL, described
from strategies import (
    KEYS,
    KINDS,
    PARTITIONS,
    ColumnKind,
    Shape,
    conditions,
    copied,
    encoded_rows,
    lake_on,
    multiset,
    new_lake,
    rank,
    rows_of,
    tiny_units,
)

import lsmlake
from lsmlake.commit.snapshot_builder import full_tail
from lsmlake.errors import InvalidQuery
from lsmlake.storage.memory import MemoryStorage

NULLABLE = {
    name: ColumnKind(kind.ddl, (None, *kind.values, *([math.nan] if name in ("FLOAT", "DOUBLE") else [])))
    for name, kind in KINDS.items()
}
WIDER = {
    "TINYINT": ["SMALLINT", "INT"], "SMALLINT": ["INT", "DOUBLE"], "INT": ["BIGINT", "DOUBLE"], "BIGINT": ["DECIMAL(38,10)"],
    "FLOAT": ["DOUBLE"], "DECIMAL(9,2)": ["DECIMAL(38,10)"], "DATE": ["TIMESTAMP_NTZ"],
}  # fmt: skip


def widened(kind: ColumnKind, name: str) -> ColumnKind:
    """The kind of a column of `kind` whose type becomes `name`: with the values of both."""
    convert: dict[str, Callable[[object], object]] = {
        "DOUBLE": float,
        "TIMESTAMP_NTZ": lambda day: dt.datetime(day.year, day.month, day.day),
        "DECIMAL(38,10)": lambda number: EXACT.quantize(Decimal(number), Decimal("1e-10")),
    }
    old = [convert.get(name, lambda value: value)(value) for value in kind.values if value is not None]
    return ColumnKind(NULLABLE[name].ddl, (*NULLABLE[name].values, *old))


class Grown:
    """A table that is written and altered as `draw` says. `moments`: its shape at each snapshot with rows."""

    def __init__(self, draw: Callable, vectors: bool) -> None:
        self.draw, self.storage, self.moments, self.made = draw, MemoryStorage(), {}, count()
        values = draw(st.lists(st.sampled_from(list(NULLABLE)), min_size=4, max_size=4))
        columns = {f"c{i}": NULLABLE[name] for i, name in enumerate(values)}
        self.shape = Shape.of(draw(st.sampled_from(list(KEYS))), draw(st.sampled_from(list(PARTITIONS))), columns)
        options = {name.replace(".", "__").replace("-", "_"): str(value) for name, value in SMALL.items()}
        self.table = self.shape.create(new_lake(self.storage), **options, deletion_vectors__enabled=str(vectors).lower())

    def grow(self, steps: int) -> None:
        for _ in range(steps):
            self._upsert()
            match self.draw(st.integers(0, 7)):
                case 0 | 1 | 2:
                    self._alter()
                case 3:
                    self.table.compact(full=self.draw(st.booleans()))
        self._upsert()

    def _upsert(self) -> None:
        codes = self.draw(encoded_rows(14))
        rows = [self._row(key, value) for key, value in codes]
        self.table.upsert(self.shape.table(rows, self.table.schema), compact=self.draw(st.booleans()))
        if codes[0][1] % 4 == 0:
            keys = self.shape.table([self.shape.key_of(row) for row in rows[:2]], self.table.schema, self.shape.primary_key)
            self.table.delete_keys(keys, compact=codes[0][1] % 8 == 0)
        self.moments[self.table.meta.snapshots.latest_id()] = self.shape

    def _row(self, key: int, value: int) -> tuple:
        place = self.shape.key_values(key)
        others = [kind for _, kind in self.shape.columns[len(place) :]]
        return (*place, *(kind.values[(value * (i + 2) + 5 * i) % len(kind.values)] for i, kind in enumerate(others)))

    def _alter(self) -> None:
        """Renames any column, widens the type of another, drops it, or drops it and adds one with its name."""
        fresh, columns, part = (
            f"n{next(self.made)}",
            list(self.shape.columns),
            len(self.shape.key) + (self.shape.partition is not None),
        )
        place = self.draw(st.integers(0, len(columns) - 1))
        name, kind = columns[place]
        verb = self.draw(st.sampled_from(["rename", "widen", "widen", "drop", "again", "again"]))
        if verb == "widen" and place >= part and kind.ddl in WIDER:
            columns[place] = name, widened(kind, self.draw(st.sampled_from(WIDER[kind.ddl])))
            self.table.alter(lsmlake.change_type(name, columns[place][1].ddl))
        elif verb in ("drop", "again") and place >= part and len(columns) - part > 1:
            self.table.alter(lsmlake.drop_column(name))
            columns.pop(place)
            if verb == "again":
                added = NULLABLE[self.draw(st.sampled_from(list(NULLABLE)))]
                default = self.draw(st.sampled_from([value for value in added.values if value == value]))
                self.table.alter(lsmlake.add_column(name, added.ddl, default=default))
                columns.append((name, added))
        elif name != "p":
            self.table.alter(lsmlake.rename_column(name, fresh))
            columns[place] = fresh, kind
        self.shape = replace(self.shape, columns=tuple(columns), key=tuple(name for name, _ in columns[: len(self.shape.key)]))


def in_key_order(rows: pa.Table, shape: Shape, order: str) -> pa.Table:
    values = rows.to_pylist()
    keys = [[(row[name] is not None, rank(row[name])) for name in shape.primary_key] for row in values]
    return rows.take(pa.array(sorted(range(len(keys)), key=keys.__getitem__, reverse=order == "desc"), pa.int64()))


@pytest.mark.parametrize("vectors", [True, False])
def test_a_read_with_a_condition_is_a_filter_of_all_rows(vectors: bool):
    """Whatever is pruned: manifests, files or row groups. Keys, partitions and columns of all types, with values at the ends of
    their types, after deletes, compactions, merges of manifests and alterations; the newest snapshot and one before."""
    pruned = set()

    @examples(8)
    @given(st.data())
    def check(data: st.DataObject) -> None:
        with tiny_units(rows=3):
            writes = Grown(data.draw, vectors)
            writes.grow(data.draw(st.integers(2, 6)))
            cold = lake_on(writes.storage, "cold-").table("d.t")
        snapshot = data.draw(st.sampled_from(list(writes.moments)))
        for moment in {snapshot, max(writes.moments)}:
            shape = writes.moments[moment]
            for mode in ("fresh", "raw"):
                every = cold.scan(snapshot=moment, mode=mode).to_arrow()
                for _ in range(3):
                    condition = data.draw(conditions(shape, keys=1))
                    how = {"where": condition.sql, "snapshot": moment, "mode": mode}
                    matching = pa.array([condition.holds(row) is True for row in every.to_pylist()], pa.bool_())
                    wanted = multiset(rows_of(every.filter(matching)))
                    with tiny_units():
                        scan = lake_on(writes.storage, "cold-").table("d.t").scan(**how)
                    assert multiset(rows_of(scan.to_arrow())) == wanted, how
                    assert cold.scan(**how).count() == len(wanted), how
                    limit, order = data.draw(st.integers(0, 9)), data.draw(st.sampled_from(["asc", "desc"]))
                    with tiny_units():
                        top = lake_on(writes.storage, "cold-").table("d.t").scan(limit=limit, order_by_key=order, **how)
                    ordered = in_key_order(every.filter(matching), shape, order)
                    assert rows_of(top.to_arrow()) == rows_of(ordered.slice(0, limit)), (how, limit, order)
                    plan, warm = scan.plan(), writes.table.scan(**how).plan()
                    assert described(plan) == described(warm), how
                    assert plan.pruned == warm.pruned, how
                    pruned.update(
                        step for (step, files), (_, before) in zip(plan.pruned[1:], plan.pruned, strict=False) if files < before
                    )

    check()
    assert pruned


@pytest.fixture(scope="module")
def many_manifests() -> MemoryStorage:
    """A table of 16 partitions, written in 64 commits, its manifests merged into many. Only read."""
    storage = MemoryStorage()
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
    return storage


@pytest.mark.parametrize(
    ("where", "most"), [("p = 3 AND k = 12", 4), ("p = 3", 6), ("p IN (3, 4)", 8), ("k = 1000000", 0), ("p = 3 AND k < 0", 0)]
)
def test_a_cold_plan_opens_only_manifests_that_can_match(many_manifests: MemoryStorage, where: str, most: int):
    storage = FaultStorage(many_manifests)
    warm, cold = (lake_on(storage, prefix).table("d.t") for prefix in ("warm-", "cold-"))
    assert warm.manifests().num_rows > 20
    warm.scan().plan()
    storage.calls = []
    found = cold.scan(where=where).plan()
    opened = [path for name, path in storage.calls if name == "read" and "/manifest/manifest-0" in path]
    assert len(opened) <= most
    assert described(found) == described(warm.scan(where=where).plan())


def test_the_number_of_live_files_is_known_from_the_manifest_lists(many_manifests: MemoryStorage):
    table = lake_on(copied(many_manifests), "more-").table("d.t")
    table.compact(full=True)
    there = naive(table)
    for number, snapshot in there.snapshots().items():
        plan = table.scan(snapshot=number).plan()
        assert dict(plan.pruned)["snapshot"] == len(there.files(snapshot))


# --- the first rows by key ---


@pytest.fixture(scope="module")
def a_hundred_files() -> FaultStorage:
    """Ten days of ten files each; file i of a day has the keys 10 i to 10 i + 9. Nothing waits at level 0."""
    storage, options = FaultStorage(MemoryStorage()), {"bucket": "1", "compaction.tier-runs": "50"}
    table = new_lake(storage).create_table(
        "d.t", "day DATE, k BIGINT, v STRING", primary_key=["day", "k"], partition_by=["day"], options=options
    )
    for start in range(0, 100, 10):
        days = [dt.date(2026, 1, 1 + i // 10) for i in range(100)]
        table.upsert({"day": days, "k": [start + i % 10 for i in range(100)], "v": [f"{start} {i}" for i in range(100)]})
    table.delete_keys({"day": [dt.date(2026, 1, 1)] * 10, "k": list(range(10))})
    return storage


@pytest.mark.parametrize("limit", range(0, 25, 3))
def test_a_limit_is_reached_though_rows_at_level_0_delete_others(limit):
    table = new_lake().create_table("d.t", "k BIGINT", primary_key=["k"], options={"bucket": 4})
    table.upsert({"k": range(24)})
    table.delete_keys({"k": range(0, 24, 2)}, compact=False)
    assert table.scan(limit=limit).to_arrow().num_rows == min(limit, 12)


@pytest.mark.parametrize(
    ("limit", "order", "where", "first", "files"),
    [
        (3, "asc", None, (1, 10), 1),
        (15, "asc", None, (1, 10), 2),
        (15, "desc", None, (10, 99), 2),
        (95, "desc", None, (10, 99), 10),
        (3, "asc", "day > DATE '2026-01-04'", (5, 0), 1),
        (3, "desc", "day <= DATE '2026-01-04'", (4, 99), 1),
        (3, "asc", "v LIKE '%0 5%'", (1, 15), 3),
    ],
)
def test_only_the_files_of_the_first_rows_are_read(a_hundred_files, limit, order, where, first, files):
    table = lake_on(a_hundred_files, "cold-").table("d.t")
    scan = table.scan(where=where, limit=limit, order_by_key=order, columns=["v", "k"])
    every = table.scan(where=where).to_arrow()
    direction = {"asc": "ascending", "desc": "descending"}[order]
    wanted = every.sort_by([("day", direction), ("k", direction)]).slice(0, limit)
    assert (wanted["day"][0].as_py().day, wanted["k"][0].as_py()) == first
    a_hundred_files.calls = []
    assert scan.to_arrow().equals(wanted.select(["v", "k"]))
    read = {path for name, path in a_hundred_files.calls if name == "read" and "/data-" in path}
    assert len(read) == files
    if where is None:
        assert f"-> {files} (first {limit} by key)" in scan.explain()


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"order_by_key": "asc"}, "an order needs a limit"),
        ({"order_by_key": "up", "limit": 3}, "unknown order of keys"),
        ({"order_by_key": "asc", "limit": 3, "where": pc.field("k") > 3}, "a pyarrow expression prunes no file"),
    ],
)
def test_an_order_that_cannot_be_given_is_refused(a_hundred_files, how, message):
    with pytest.raises(InvalidQuery, match=message):
        lake_on(a_hundred_files, "cold-").table("d.t").scan(**how)


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
