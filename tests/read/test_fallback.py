"""`scan.fallback-branch` and `scan.primary-branch`: each partition is read from one of two branches, in every way to read."""

from __future__ import annotations

import pickle
import random
from pathlib import Path

import pytest
from effort import examples
from hypothesis import given
from hypothesis import strategies as st
from strategies import multiset, new_lake

import lsmlake
from lsmlake import add_column, drop_column, set_not_null, set_option, unset_option
from lsmlake.api.table import Table
from lsmlake.errors import InvalidOption, InvalidQuery, InvalidSchema, SnapshotNotFound, TableNotFound
from lsmlake.refs.branching import BranchReport

KEYED = {
    "vectors": {"bucket": "2"},
    "merged at read": {"bucket": "2", "deletion-vectors.enabled": False},
    "partial updates, kept at level 0": {
        "bucket": "1",
        "merge-engine": "partial-update",
        "partial-update.remove-record-on-delete": True,
        "write-only": True,
    },
}
State = dict[str, dict[int, str]]
"""Partition -> key -> value. A partition without rows is there: it has had rows that were deleted."""


def made(lake: lsmlake.Lake, options: dict[str, object] | None = None, option: str = "scan.fallback-branch") -> Table:
    table = lake.create_table(
        "d.t", "p STRING NOT NULL, k INT NOT NULL, v STRING", primary_key=["p", "k"], partition_by=["p"], options=options or {}
    )
    table.create_branch("b")
    table.alter(set_option(option, "b"))
    return table


def put(table: Table, partition: str, keys: list[int], value: str) -> None:
    table.upsert({"p": [partition] * len(keys), "k": keys, "v": [value] * len(keys)})


def tuples(rows) -> list[tuple]:
    return multiset([tuple(row.values()) for row in rows.to_pylist()])


def flat(first: State, second: State) -> list[tuple]:
    """The rows of two branches: the second counts for partitions that the first lacks."""
    merged = {**second, **first}
    return multiset([(p, k, v) for p, rows in merged.items() for k, v in rows.items()])


def change(draw: random.Random, table: Table, state: State, value: str) -> State:
    """Changes a branch and the model of it in the same way."""
    state = {p: dict(rows) for p, rows in state.items()}
    partition = draw.choice("abc")
    rows = state.get(partition, {})
    what = draw.choice(["upsert", "upsert", "delete", "drop", "compact"])
    if what == "upsert":
        keys = draw.sample(range(6), 3)
        put(table, partition, keys, value)
        state.setdefault(partition, {}).update(dict.fromkeys(keys, value))
    elif what == "delete" and len(rows) > 1:  # a partition without rows stays until a compaction
        key = draw.choice(sorted(rows))
        table.delete(f"p = '{partition}' AND k = {key}")
        del rows[key]
    elif what == "drop" and partition in state:
        table.overwrite({"p": [], "k": [], "v": []}, where=f"p = '{partition}'")
        del state[partition]
    elif what == "compact":
        table.compact(full=True)
    return state


def newest(table: Table) -> tuple[int, int]:
    """The number and the time of the newest snapshot; zeros before the first."""
    snapshot = table.version.snapshot
    return (0, 0) if snapshot is None else (snapshot.id, snapshot.time_ms)


@pytest.mark.parametrize("option", ["scan.fallback-branch", "scan.primary-branch"])
@pytest.mark.parametrize("options", KEYED.values(), ids=KEYED)
@given(seed=st.integers(0, 1 << 32))
@examples(6)
def test_partitions_come_from_the_branch_that_has_them(options: dict[str, object], option: str, seed: int):
    draw = random.Random(seed)
    table = made(new_lake(), options, option)
    branch = table.branch("b")
    states: dict[str, State] = {"main": {}, "b": {}}
    past: list[tuple[int, int, State]] = []
    of_branch: list[tuple[int, State]] = [(0, {})]
    for step in range(draw.randint(2, 9)):
        name = draw.choice(["main", "b"])
        states[name] = change(draw, branch if name == "b" else table, states[name], f"{name}{step}")
        past.append((*newest(table), states["main"]))
        of_branch.append((newest(branch)[1], states["b"]))

    def expected(ours: State, theirs: State) -> list[tuple]:
        return flat(ours, theirs) if option == "scan.fallback-branch" else flat(theirs, ours)

    rows = expected(states["main"], states["b"])
    scan = table.scan()
    assert tuples(scan.to_arrow()) == rows
    assert tuples(table.scan(columns=["v", "k", "p"]).to_arrow()) == multiset([(v, k, p) for p, k, v in rows])
    assert scan.count() == len(rows)
    assert (scan.max("k"), scan.min("v")) == (
        max((k for _, k, _ in rows), default=None),
        min((v for *_, v in rows), default=None),
    )
    parts = scan.splits()
    assert multiset([row for part in parts for row in tuples(part.to_arrow())]) == rows
    first, second = ("main", "b") if option == "scan.fallback-branch" else ("b", "main")
    for part in parts:
        in_part = {p for p, *_ in tuples(part.to_arrow())}  # of one partition; none if all rows of it were deleted
        assert all(part.branch == (first if p in states[first] else second) for p in in_part)
    for where, holds in (
        ("p = 'b'", lambda p, k, v: p == "b"),
        ("k = 3 AND p IN ('a', 'c')", lambda p, k, v: k == 3 and p != "b"),
        ("v > 'b3'", lambda p, k, v: v > "b3"),
    ):
        chosen = [row for row in rows if holds(*row)]
        assert tuples(table.scan(where=where).to_arrow()) == chosen
        assert table.scan(where=where).count() == len(chosen)
    keys = [{"p": p, "k": k} for p in "abc" for k in range(6)]
    assert tuples(table.get(keys)) == rows
    by_key = {(p, k): v for p, k, v in rows}
    assert all((table.get(key) or {}).get("v") == by_key.get(tuple(key.values())) for key in keys)
    assert tuples(table.scan(limit=4, order_by_key="desc").to_arrow()) == multiset(sorted(rows)[-4:])
    for number, time_ms, ours in past:
        if number:
            theirs = [state for time, state in of_branch if time <= time_ms][-1]
            assert tuples(table.scan(snapshot=number).to_arrow()) == expected(ours, theirs)
    assert tuples(table.branch("b").to_arrow()) == flat(states["b"], {})
    assert table.verify() == []


def test_every_engine_in_this_process_reads_the_branch(tmp_path: Path):
    lake = lsmlake.connect(tmp_path)
    lake.create_database("d")
    table = made(lake)
    branch = table.branch("b")
    branch.alter(set_option("bucket", 3), set_option("target-file-size", "1 kb"))
    put(branch, "x", [1, 2], "branch")
    put(branch, "y", [1, 2], "branch")
    branch.delete("p = 'y' AND k = 2")
    put(table, "x", [1], "table")
    rows = [("x", 1, "table"), ("y", 1, "branch")]
    parts = [pickle.loads(pickle.dumps(split)) for split in table.scan().splits()]
    assert [(part.branch, tuples(part.to_arrow())) for part in parts] == [("main", rows[:1]), ("b", rows[1:])]
    assert len({*table.scan().splits(), *table.scan().splits()}) == 2  # in a set, or as a key of a task
    assert tuples(table.scan().to_polars().collect().to_arrow()) == rows
    assert table.scan().to_duckdb().order("p").fetchall() == rows
    assert tuples(lake.sql("SELECT * FROM d.t")) == rows
    assert tuples(lake.sql("SELECT a.* FROM d.t a JOIN d.t b USING (p, k, v)")) == rows
    assert lake.sql("SELECT count(*) AS n FROM d.t VERSION AS OF 1").to_pylist() == [{"n": 0}]
    assert "1 files of 1 partitions from branch 'b', snapshot 4; branch 'main' lacks them" in table.scan().explain()
    assert any("from branch 'b'" in line["plan"] for line in lake.sql("EXPLAIN SELECT * FROM d.t").to_pylist())
    lake.sql("INSERT INTO d.t SELECT p, k + 10, v FROM d.t WHERE p = 'y'")  # a statement reads with the branch, writes without
    assert tuples(table.scan().to_arrow()) == [("x", 1, "table"), ("y", 11, "branch")]
    lake.sql("DELETE FROM d.t WHERE p IN (SELECT p FROM d.t WHERE k = 11)")
    branch.alter(add_column("n", "INT"))
    lake.sql("UPDATE d.t SET v = 'table' WHERE k < 9")  # needs nothing of the branch
    branch.alter(drop_column("n"))
    table.compact(full=True)
    assert tuples(table.scan().to_arrow()) == rows
    assert tuples(branch.to_arrow()) == [("x", 1, "branch"), ("x", 2, "branch"), ("y", 1, "branch")]
    assert [row["p"] for row in table.changes(0).to_pylist()] == ["x"]  # changes are those of the table


def test_a_table_without_partitions_is_read_from_the_branch_until_it_has_rows():
    lake = new_lake()
    table = lake.create_table("d.u", "k INT NOT NULL, v STRING", primary_key=["k"])
    branch = table.create_branch("b")
    table.alter(set_option("scan.fallback-branch", "b"))
    branch.upsert({"k": [1, 2], "v": ["b", "b"]})
    assert (table.count(), table.get({"k": 2})["v"], table.scan(where="k = 1").count()) == (2, "b", 1)
    table.upsert({"k": [2], "v": ["main"]})
    assert (table.count(), table.get({"k": 2})["v"], table.get({"k": 1})) == (1, "main", None)


def test_branches_fall_back_too_but_not_to_themselves():
    table = made(new_lake())
    put(table.branch("b"), "x", [1], "b")
    put(table, "y", [1], "main")
    other = table.create_branch("other")
    put(other, "z", [1], "other")
    assert [row["v"] for row in sorted(other.to_arrow().to_pylist(), key=lambda row: row["p"])] == ["b", "main", "other"]
    branch = table.branch("b")
    branch.alter(set_option("scan.fallback-branch", "main"))
    assert tuples(branch.to_arrow()) == [("x", 1, "b"), ("y", 1, "main")]
    with pytest.raises(InvalidOption, match="its own branch"):
        table.alter(set_option("scan.fallback-branch", "main"))
    with pytest.raises(InvalidOption, match="its own branch"):
        branch.alter(set_option("scan.fallback-branch", "b"))


@pytest.mark.parametrize("option", ["scan.fallback-branch", "scan.primary-branch"])
def test_files_written_under_schemas_of_the_branch_are_read_by_its_own_numbers(option: str):
    table = made(new_lake(), option=option)
    branch = table.branch("b")
    put(branch, "x", [1], "before")
    branch.alter(add_column("m", "INT"))
    branch.upsert({"p": ["y"], "k": [1], "v": ["between"], "m": [5]})
    with pytest.raises(InvalidSchema, match="other columns") as refused:
        table.count()
    assert "m INT" in str(refused.value)
    branch.alter(add_column("n", "INT", default=7))
    branch.upsert({"p": ["z"], "k": [1], "v": ["after"], "m": [6], "n": [8]})
    table.alter(add_column("m", "INT"))
    table.alter(add_column("n", "INT", default=7))
    expected = [("x", 1, "before", None, 7), ("y", 1, "between", 5, 7), ("z", 1, "after", 6, 8)]
    assert tuples(table.scan().to_arrow()) == expected
    assert table.get({"p": "y", "k": 1}) == {"p": "y", "k": 1, "v": "between", "m": 5, "n": 7}


def test_columns_that_are_null_in_one_branch_only_are_nullable():
    lake = new_lake()
    table = lake.create_table("d.n", "p INT NOT NULL, v STRING", partition_by=["p"])
    branch = table.create_branch("b")
    table.alter(set_option("scan.fallback-branch", "b"), set_not_null("v"))
    branch.append([{"p": 1, "v": None}])
    table.append([{"p": 2, "v": "x"}])
    assert tuples(table.to_arrow()) == [(1, None), (2, "x")]
    assert table.scan().schema.field("v").nullable
    table.alter(add_column("d", "INT", default=1))
    branch.alter(add_column("d", "INT", default=2))
    with pytest.raises(InvalidSchema, match="with another default"):
        table.count()
    table.delete("p = 2")  # reads the table alone
    table.append([{"p": 2, "v": "y", "d": 3}])


def test_the_past_of_a_branch_can_expire_and_a_tag_keeps_it():
    table = made(new_lake())
    branch = table.branch("b")
    put(branch, "x", [1], "one")
    put(table, "y", [1], "one")
    number = newest(table)[0]
    table.create_tag("day")
    branch.create_tag("day")
    put(branch, "x", [1], "two")
    put(branch, "x", [1], "three")
    branch.expire_snapshots(retain_max=1)
    with pytest.raises(SnapshotNotFound, match="branch 'b' at that time has expired"):
        table.scan(snapshot=number).count()
    assert tuples(table.scan(tag="day").to_arrow()) == [("x", 1, "one"), ("y", 1, "one")]
    assert tuples(table.scan().to_arrow()) == [("x", 1, "three"), ("y", 1, "one")]
    assert table.verify() == []


def test_what_cannot_be_read_together_is_refused():
    lake = new_lake()
    for option in ("scan.fallback-branch", "scan.primary-branch"):
        with pytest.raises(InvalidOption, match="a new table has no branch"):
            lake.create_table("d.n", "k INT NOT NULL", primary_key=["k"], options={option: "b"})
    table = made(lake)
    with pytest.raises(TableNotFound, match="no branch 'c'"):
        table.alter(set_option("scan.fallback-branch", "c"))
    with pytest.raises(InvalidOption, match="exclude each other"):
        table.alter(set_option("scan.primary-branch", "b"))
    for change_of_branch in (lambda: table.delete_branch("b"), lambda: table.rename_branch("b", "c")):
        with pytest.raises(InvalidQuery, match="a branch that the table is read with"):
            change_of_branch()
    table.branch("b").alter(set_option("merge-engine", "partial-update"))
    with pytest.raises(InvalidOption, match="merges rows by other rules") as refused:
        table.count()
    assert "merge-engine = partial-update" in str(refused.value)
    table.alter(unset_option("scan.fallback-branch"))
    assert isinstance(table.delete_branch("b"), BranchReport)
    moving = lake.create_table("d.m", "k INT NOT NULL, p STRING", primary_key=["k"], partition_by=["p"])
    moving.create_branch("b")
    with pytest.raises(InvalidOption, match="need all rows of a key in one partition"):
        moving.alter(set_option("scan.fallback-branch", "b"))


def test_a_view_table_does_not_follow_a_table_that_is_read_with_a_branch(tmp_path: Path):
    lake = lsmlake.connect(tmp_path)
    lake.create_database("d")
    made(lake)
    with pytest.raises(InvalidQuery, match="read with a branch"):
        lake.create_view_table("d.w", "SELECT p, count(*) AS n FROM d.t GROUP BY p")
