"""Branches: own commits, schemas, tags and consumers; shared files are never deleted while anything names them."""

from __future__ import annotations

import pickle

import pytest
from effort import examples, sampled
from faults import Crash, every_fault, interleavings
from hypothesis import given
from hypothesis import strategies as st
from naive import unreferenced
from strategies import contents, copied, lake_on, multiset, new_lake, rows_of, tiny_units

from lsmlake import add_column, drop_column, set_option
from lsmlake.api.table import Table
from lsmlake.errors import CommitConflict, CommitUnknown, Corrupt, InvalidQuery, LakeError, SnapshotNotFound, TableNotFound
from lsmlake.store.memory import MemoryStorage
from lsmlake.store.storage import Storage


def made(storage: MemoryStorage | None = None, **options: str) -> Table:
    named = {name.replace("__", ".").replace("_", "-"): value for name, value in options.items()}
    return new_lake(storage).create_table("d.t", "k INT NOT NULL, v STRING", primary_key=["k"], options={"bucket": "2", **named})


def write(table: Table, keys: range, value: object, **how: object) -> None:
    table.upsert({"k": list(keys), "v": [str(value)] * len(keys)}, **how)


def rows(table: Table, **how: object) -> list[tuple]:
    return multiset(rows_of(table.scan(**how).to_arrow()))


def numbers(table: Table) -> list[int]:
    return table.snapshots()["snapshot_id"].to_pylist()


def history(table: Table) -> dict[int, list[tuple]]:
    return {number: rows(table, snapshot=number) for number in numbers(table)}


def is_in_order(table: Table) -> None:
    assert table.verify() == []
    assert unreferenced(table) == []


def two_commits(**options: str) -> Table:
    table = made(**options)
    write(table, range(9), 1)
    write(table, range(4, 7), 2)
    return table


def test_a_branch_has_commits_of_its_own():
    table = two_commits()
    branch = table.create_branch("b1")
    assert branch.name == "d.t$branch_b1"
    before = rows(table)
    assert rows(branch) == before
    write(branch, range(3), "b")
    branch.delete_keys({"k": [8]})
    branch.compact(full=True)
    write(table, range(2), "main")
    assert rows(table, branch="b1") == rows(branch) != rows(table)
    assert dict(rows(branch))[0] == "b"
    assert 8 not in dict(rows(branch))
    assert dict(rows(table))[0] == "main"
    assert numbers(branch) == [2, 3, 4, 5]
    assert numbers(table) == [1, 2, 3]
    assert rows(branch, snapshot=2) == before
    other = lake_on(table.meta.env.storage, "x-").table("d.t$branch_b1")
    assert rows(other) == rows(branch)
    assert rows(table.branch("b1")) == rows(branch)
    is_in_order(table)


def test_a_branch_has_schemas_tags_consumers_and_rollbacks_of_its_own():
    table = two_commits()
    branch = table.create_branch("b1")
    branch.alter(set_option("deletion-vectors.enabled", False))
    write(branch, range(20, 22), "b")
    branch.create_tag("mine")
    branch.reset_consumer("daily", 3)
    assert "deletion-vectors.enabled" not in table.options
    assert table.tags().num_rows == table.consumers().num_rows == 0
    tagged = rows(branch)
    branch.rollback(2)
    assert rows(branch) == rows(table)
    assert "deletion-vectors.enabled" not in branch.options
    branch.rollback(tag="mine")
    assert rows(branch) == tagged
    (first, *_) = branch.follow(consumer="daily")
    assert first.snapshot == 4
    is_in_order(table)


def test_branches_are_listed_renamed_and_deleted():
    table = two_commits()
    table.create_tag("one", 1)
    table.create_branch("b1", tag="one")
    table.create_branch("b2", snapshot=2)
    listed = table.branches().select(["branch_name", "created_from_snapshot", "created_from_tag"]).to_pylist()
    assert listed == [
        {"branch_name": "b1", "created_from_snapshot": 1, "created_from_tag": "one"},
        {"branch_name": "b2", "created_from_snapshot": 2, "created_from_tag": None},
    ]
    old = table.branch("b1")
    renamed = table.rename_branch("b1", "b3")
    write(renamed, range(2), "x")
    with pytest.raises(TableNotFound, match="b1"):
        write(old, range(2), "y")
    for wrong in ("b2", "main", "a/b", "", "a b"):
        with pytest.raises(InvalidQuery):
            table.rename_branch("b3", wrong)
        with pytest.raises(InvalidQuery):
            table.create_branch(wrong)
    with pytest.raises(TableNotFound, match="b4"):
        table.branch("b4")
    with pytest.raises(InvalidQuery):
        renamed.create_branch("nested")
    assert table.delete_branch("b3", dry_run=True).files > 0
    is_in_order(table)
    table.delete_branch("b3")
    assert table.branches()["branch_name"].to_pylist() == ["b2"]
    with pytest.raises(TableNotFound):
        write(renamed, range(2), "z")
    assert not [path for path in contents(table.meta.env.storage) if "/b3/" in path]
    again = table.create_branch("b3", snapshot=1)
    with pytest.raises(TableNotFound, match="another"):
        write(renamed, range(2), "z")
    assert rows(again) == rows(table, snapshot=1)
    assert table.verify() == []


def test_a_branch_of_an_empty_table():
    table = made()
    branch = table.create_branch("b1")
    write(branch, range(3), 1)
    assert rows(table) == []
    assert table.fast_forward("b1").id == 1
    assert rows(table) == rows(branch)
    is_in_order(table)


def test_dropping_and_renaming_the_table_carries_its_branches_along():
    lake = new_lake()
    table = lake.create_table("d.t", "k INT NOT NULL, v STRING", primary_key=["k"])
    write(table, range(3), 1)
    write(table.create_branch("b1"), range(3), 2)
    for verb in (lake.drop_table, lambda name: lake.rename_table(name, "d.other")):
        with pytest.raises(InvalidQuery):
            verb("d.t$branch_b1")
    renamed = lake.rename_table("d.t", "d.t2")
    assert rows(renamed.branch("b1")) == [(0, "2"), (1, "2"), (2, "2")]
    lake.drop_table("d.t2")
    assert contents(lake.env.storage, "d.db/t2") == {}


def test_a_handle_on_a_branch_can_be_pickled():
    table = two_commits()
    branch = table.create_branch("b1")
    version = pickle.loads(pickle.dumps(branch.version.meta.paths))
    assert version == branch.meta.paths


# -- expiry -----------------------------------------------------------------------------------------------------------


def test_the_table_keeps_the_snapshot_that_a_branch_begins_at():
    table = two_commits()
    branch = table.create_branch("b1", snapshot=1)
    before = rows(branch)
    table.compact(full=True)
    write(table, range(9), 3)
    table.compact(full=True)
    table.expire_snapshots(retain_max=1)
    assert rows(branch) == before
    is_in_order(table)
    write(branch, range(30, 33), 4)
    branch.compact(full=True)
    branch.expire_snapshots(retain_max=1)
    assert dict(rows(branch)) == dict(before) | {30: "4", 31: "4", 32: "4"}
    is_in_order(table)
    table.delete_branch("b1")
    is_in_order(table)


def test_files_of_branches_are_no_orphans():
    table = two_commits()
    branch = table.create_branch("b1")
    write(branch, range(30, 33), 4)
    branch.create_tag("t")
    branch.compact(full=True)
    table.meta.env.clock.now_ms += 10**9
    assert table.remove_orphan_files("2100-01-01").files == 0
    assert branch.remove_orphan_files("2100-01-01").files == 0
    is_in_order(table)
    assert len(rows(branch)) == 12


# -- forwarding -------------------------------------------------------------------------------------------------------


def worked(table: Table) -> Table:
    """A branch with an alteration, a tag and a rollback."""
    branch = table.create_branch("b1")
    write(branch, range(3), "b")
    branch.create_tag("good")
    branch.alter(set_option("snapshot.num-retained.min", 3))
    write(branch, range(40, 42), "c")
    branch.rollback(tag="good")
    write(branch, range(50, 52), "d")
    return branch


@pytest.mark.parametrize("producer", ["none", "input", "lookup"])
def test_the_table_is_forwarded_to_a_branch(producer):
    table = two_commits(**({} if producer == "none" else {"changelog_producer": producer}))
    before = history(table)
    branch = worked(table)
    there = history(branch)
    assert table.fast_forward("b1") == branch.meta.snapshots.latest() == table.meta.snapshots.latest()
    assert history(table) == before | there
    assert rows(table, tag="good") == there[3]
    assert table.options == branch.options
    is_in_order(table)
    write(table, range(60, 61), "main")
    write(branch, range(70, 71), "branch")
    table.compact(full=True)
    table.expire_snapshots(retain_max=1)
    branch.compact(full=True)
    branch.expire_snapshots(retain_max=1)
    table.delete_tag("good")
    last = dict(there[max(there)])
    assert dict(rows(table)) == last | {60: "main"}
    assert dict(rows(branch)) == last | {70: "branch"}
    is_in_order(table)
    with pytest.raises(CommitConflict):
        table.fast_forward("b1")
    table.delete_branch("b1")
    assert dict(rows(table)) == last | {60: "main"}
    is_in_order(table)


def test_forwarding_again_takes_what_came_since():
    table = two_commits()
    branch = worked(table)
    table.fast_forward("b1")
    latest = table.meta.snapshots.latest()
    assert table.fast_forward("b1") == latest
    write(branch, range(5), "e")
    assert table.fast_forward("b1").id == latest.id + 1
    assert rows(table) == rows(branch)
    is_in_order(table)


def test_forwarding_is_refused_once_the_table_has_commits_of_its_own():
    table = two_commits()
    branch = worked(table)
    write(table, range(2), "main")
    before = contents(table.meta.env.storage)
    with pytest.raises(CommitConflict, match="snapshot 3"):
        table.fast_forward("b1")
    assert contents(table.meta.env.storage) == before
    assert len(rows(branch)) == 11


def test_streams_out_of_the_table_see_the_commits_of_the_branch():
    table = two_commits(changelog_producer="lookup")
    worked(table)
    table.fast_forward("b1")
    state: dict = {}
    for batch in table.follow(start="from-snapshot", snapshot=1):
        for change in batch.to_arrow().to_pylist():
            if change["_row_kind"] in ("-U", "-D"):
                assert state.pop(change["k"]) == change["v"]
            else:
                state[change["k"]] = change["v"]
        assert multiset(list(state.items())) == rows(table, snapshot=batch.snapshot, mode="compacted")
    assert multiset(list(state.items())) == rows(table)


# -- crashes and races ------------------------------------------------------------------------------------------------


def start() -> MemoryStorage:
    storage = MemoryStorage()
    table = made(storage)
    write(table, range(9), 1)
    write(table, range(4, 7), 2)
    worked(table)
    return storage


VERBS = {
    "create": lambda table: table.create_branch("b2", snapshot=1),
    "rename": lambda table: table.rename_branch("b1", "b9"),
    "delete": lambda table: table.delete_branch("b1"),
    "forward": lambda table: table.fast_forward("b1"),
}


def opened(storage: Storage, prefix: str) -> Table:
    return lake_on(storage, prefix).table("d.t")


@pytest.mark.parametrize("mode", ["crash", "error"])
@pytest.mark.parametrize("verb", list(VERBS))
def test_a_failure_leaves_the_table_and_its_branches_whole(verb, mode):
    """Wherever it strikes, every snapshot can be read; the verb, run again, leads to the goal."""
    world = start()
    table = opened(world, "look-")
    before = history(table) | history(table.branch("b1"))
    faults = every_fault(lambda storage: VERBS[verb](opened(storage, "run-")), lambda: copied(world), mode=mode)
    for done in (done for number, done in enumerate(faults) if mode == "crash" or sampled(number, 3)):
        assert isinstance(done.outcome, (Crash, LakeError)) or mode == "error"
        left = opened(done.world, "look-")
        assert left.verify() == [], done.call
        assert history(left) == {number: before[number] for number in numbers(left)}
        for name in left.branches()["branch_name"].to_pylist():
            branch = left.branch(name)
            assert history(branch) == {number: before[number] for number in numbers(branch)}
        try:
            VERBS[verb](opened(done.world, "again-"))
        except (InvalidQuery, TableNotFound):
            assert verb != "forward"  # it was done
        names = left.branches()["branch_name"].to_pylist()
        assert names == {"create": ["b1", "b2"], "rename": ["b9"], "delete": [], "forward": ["b1"]}[verb]
        if verb == "forward":
            assert history(left) == before
            assert left.fast_forward("b1").id == max(before)
        if mode == "error" and verb != "delete":
            assert unreferenced(left) == [], (done.call, done.fault)
        write(left, range(2), "after")
        left.expire_snapshots(retain_max=1)
        assert left.verify() == []


def expire(table: Table) -> object:
    return table.expire_snapshots(retain_max=1).snapshots


RACES = {
    "create, expire": (lambda table: table.create_branch("b2", snapshot=1).name, expire),
    "create, create": (lambda table: table.create_branch("b2", snapshot=1).name, lambda table: table.create_branch("b2").name),
    "forward, write": (VERBS["forward"], lambda table: write(table, range(2), "main")),
    "forward, write to the branch": (VERBS["forward"], lambda table: write(table.branch("b1"), range(2), "main")),
    "forward, expire": (VERBS["forward"], expire),
    "forward, forward": (VERBS["forward"], VERBS["forward"]),
    "forward, delete": (VERBS["forward"], VERBS["delete"]),
    "delete, write to the branch": (VERBS["delete"], lambda table: write(table.branch("b1"), range(2), "main")),
    "rename, expire": (VERBS["rename"], expire),
}


@pytest.mark.parametrize("name", list(RACES))
def test_two_at_a_time(name):
    """In any order every snapshot of the table and of its branches can be read."""
    with tiny_units(rows=8, window_bytes=1 << 16, lookup_rows=100):
        _two_at_a_time(name)


def _two_at_a_time(name: str) -> None:
    world = start()
    table = opened(world, "look-")
    write(table.branch("b1"), range(9), "last")

    def tried(program, prefix):
        def run(storage):
            try:
                return repr(program(opened(storage, prefix)))
            except (CommitConflict, CommitUnknown, SnapshotNotFound, TableNotFound, InvalidQuery) as failed:
                return type(failed).__name__

        return run

    seen = set()
    one, other = RACES[name]
    pair = tried(one, "a-"), tried(other, "b-")
    for done in interleavings(*pair, lambda: copied(world), 200_000, switches_max=1):
        if (end := frozenset(contents(done.world).items())) in seen:
            continue
        seen.add(end)
        left = opened(done.world, "end-")
        assert left.verify() == [], done.results
        history(left)
        for branch in left.branches()["branch_name"].to_pylist():
            history(left.branch(branch))
            left.branch(branch).expire_snapshots(retain_max=1)
        write(left, range(2), "after")
        left.compact(full=True)
        left.expire_snapshots(retain_max=1)
        assert left.verify() == [], done.results


# -- an oracle --------------------------------------------------------------------------------------------------------

STEPS = ("write", "write", "full", "rollback", "expire", "tag", "untag", "branch", "branch", "forward", "drop branch", "alter")
STEPS += ("analyze",)


@examples(15)
@given(data=st.data())
def test_what_is_retained_can_be_read_and_no_file_is_left(data):
    """Any steps on a table and two branches: every snapshot and tag has its rows, and no file is left that none names."""
    merging = data.draw(st.sampled_from([{}, {"manifest__merge_min_count": "2"}]))
    table = made(snapshot__expire__on_commit="false", **merging)
    write(table, range(5), 0)
    known: dict[str, dict[int, list]] = {"": {1: rows(table)}}
    tags: dict[str, dict[str, list]] = {"": {}}
    for step in range(data.draw(st.integers(3, 22))):
        verb = data.draw(st.sampled_from(STEPS))
        on = data.draw(st.sampled_from(sorted(known)))
        line = table.branch(on) if on else table
        kept = numbers(line)
        if verb == "write":
            first = data.draw(st.integers(0, 8))
            write(line, range(first, first + 3), step, compact=data.draw(st.sampled_from([None, False])))
        elif verb == "full":
            line.compact(full=True)
        elif verb == "analyze":
            line.analyze()
        elif verb == "alter":
            line.alter(set_option("snapshot.num-retained.min", step + 1))
        elif verb == "rollback":
            line.rollback(data.draw(st.sampled_from(kept)), cut=data.draw(st.booleans()))
            tags[on] = {name: tags[on][name] for name in line.tags()["tag_name"].to_pylist()}
        elif verb == "expire":
            line.expire_snapshots(retain_max=data.draw(st.integers(1, len(kept))), retain_min=1)
        elif verb == "tag":
            number = data.draw(st.sampled_from(kept))
            line.create_tag(f"t{step}", number)
            tags[on][f"t{step}"] = known[on][number]
        elif verb == "untag" and tags[on]:
            name = data.draw(st.sampled_from(sorted(tags[on])))
            line.delete_tag(name)
            del tags[on][name]
        elif verb == "branch" and len(known) < 3:
            name, number = f"b{step}", data.draw(st.sampled_from(numbers(table)))
            table.create_branch(name, snapshot=number)
            known[name], tags[name] = {number: known[""][number]}, {}
        elif verb == "forward" and on:
            try:
                table.fast_forward(on)
                known[""] |= known[on]
                tags[""] |= {name: tags[on][name] for name in table.tags()["tag_name"].to_pylist() if name in tags[on]}
                tags[on] = {name: tags[on][name] for name in line.tags()["tag_name"].to_pylist()}
            except (CommitConflict, SnapshotNotFound):
                pass
        elif verb == "drop branch" and on:
            table.delete_branch(on)
            del known[on], tags[on]
        for name in known:
            line = table.branch(name) if name else table
            for number in numbers(line):
                if number not in known[name]:
                    known[name][number] = rows(line)
            assert history(line) == {number: known[name][number] for number in numbers(line)}
            assert {tag: rows(line, tag=tag) for tag in line.tags()["tag_name"].to_pylist()} == tags[name]
        assert unreferenced(table) == []
    assert table.verify() == []


# -- columns ----------------------------------------------------------------------------------------------------------


def test_a_branch_has_columns_of_its_own_until_the_table_is_forwarded():
    table = two_commits()
    branch = table.create_branch("b1")
    branch.alter(add_column("n", "INT"), drop_column("v"))
    branch.upsert({"k": [0, 20], "n": [5, 6]})
    assert table.schema.names == ["k", "v"]
    assert branch.schema.names == ["k", "n"]
    expected = rows(branch)
    table.fast_forward("b1")
    assert table.schema.names == ["k", "n"]
    assert rows(table) == expected
    table.alter(add_column("m", "INT"))
    table.compact(full=True)
    assert rows(branch) == expected
    is_in_order(table)


# -- damage -----------------------------------------------------------------------------------------------------------


def test_a_branch_whose_file_is_damaged_can_be_given_up():
    """Until then nothing expires, because it is not known which files the branch needs. No other snapshot loses a file."""
    table = made()
    write(table, range(5), 0)
    for name in ("bad", "good"):
        branch = table.create_branch(name)
        write(branch, range(9), 1)
        branch.create_tag("t")
    write(table, range(7), 2)
    storage, path = table.meta.env.storage, table.meta.paths.branch_file("bad")
    expected = rows(table.branch("good"))
    with storage.write(path) as sink:
        sink.write(b"{}")
    table = lake_on(storage, "x-").table("d.t")
    before = contents(storage)
    for refused in (lambda: table.expire_snapshots(retain_max=1, retain_min=1), lambda: table.branch("bad")):
        with pytest.raises(Corrupt, match=r"give the branch up with delete_branch\(\)"):
            refused()
    assert table.delete_branch("bad", dry_run=True).files == 0
    assert contents(storage) == before
    assert table.delete_branch("bad").branch == "bad"
    assert table.branches()["branch_name"].to_pylist() == ["good"]
    assert not [one for one in contents(storage) if "/bad/" in one]
    table.expire_snapshots(retain_max=1, retain_min=1)
    assert table.verify() == []
    assert unreferenced(table) != [], "the files of its rows"
    table.remove_orphan_files("2100-01-01")
    assert rows(table.branch("good")) == expected
    assert table.create_branch("bad").scan().count() == 7
