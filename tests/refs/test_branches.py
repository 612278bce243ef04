"""Branches: own commits, schemas, tags and consumers; shared files are never deleted while anything names them."""

from __future__ import annotations

import pickle

import pytest
from effort import one_in, sampled
from faults import Crash, every_fault, interleavings
from naive import naive, unreferenced
from strategies import contents, copied, lake_on, multiset, new_lake, rows_of, tiny_units, view

from lsmlake import add_column, drop_column, set_option
from lsmlake.api.table import Table
from lsmlake.errors import CommitConflict, CommitUnknown, Corrupt, InvalidQuery, LakeError, SnapshotNotFound, TableNotFound
from lsmlake.storage.memory import MemoryStorage
from lsmlake.storage.storage import Storage


def made(storage: MemoryStorage | None = None, **options: str) -> Table:
    named = {name.replace("__", ".").replace("_", "-"): value for name, value in options.items()}
    return new_lake(storage).create_table("d.t", "k INT NOT NULL, v STRING", primary_key=["k"], options={"bucket": "2", **named})


def write(table: Table, keys: range, value: object, **how: object) -> None:
    table.upsert({"k": list(keys), "v": [str(value)] * len(keys)}, **how)


def rows(table: Table, mode: str = "fresh", **how: object) -> list[tuple]:
    return multiset(rows_of(view(table, mode, **how).to_arrow()))


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


@pytest.mark.parametrize("producer", ["input", "lookup"])
def test_the_changelog_of_the_snapshot_that_a_branch_begins_at_goes_with_the_table(producer):
    table = two_commits(changelog_producer=producer)
    branch = table.create_branch("b1")
    write(table, range(3), 3)
    write(branch, range(3), "b")
    table.expire_snapshots(retain_max=1)
    assert (table.verify(), branch.verify()) == ([], [])
    assert branch.changes(2, mode="changelog").count() > 0
    with pytest.raises(SnapshotNotFound):
        branch.changes(1, mode="changelog").count()
    assert branch.remove_orphan_files("2100-01-01").files == 0
    assert branch.expire_snapshots(retain_max=1).snapshots == 1
    assert naive(table).missing() == set()
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


def test_commits_on_a_branch_expire_its_snapshots_and_tags_by_its_options():
    """As on the table; nothing is deleted that the table, another branch or a tag names."""
    table = two_commits(changelog_producer="input")
    other = table.create_branch("other")
    branch = table.create_branch("b1")
    branch.alter(
        set_option("snapshot.num-retained.min", 1),
        set_option("snapshot.num-retained.max", 3),
        set_option("tag.automatic-creation", "process-time"),
    )
    branch.create_tag("short", 2, retain="1 ms")
    before, changes = history(table), table.changes(0, 2, mode="changelog").to_arrow()
    for number in range(20):
        write(branch, range(number, number + 3), number)
    assert len(numbers(branch)) <= 12
    assert [name for name in branch.tags()["tag_name"].to_pylist() if name != "short"] != []
    assert "short" not in branch.tags()["tag_name"].to_pylist()
    assert history(table) == before
    assert table.changes(0, 2, mode="changelog").to_arrow() == changes
    assert rows(other) == before[2]
    is_in_order(table)


def test_partitions_of_a_branch_expire_by_the_options_of_the_branch():
    lake = new_lake()
    table = lake.create_table("d.t", "p STRING, k INT", primary_key=["p", "k"], partition_by=["p"])
    table.upsert({"p": ["2020-01-01"], "k": [1]})
    branch = table.create_branch("b1")
    branch.alter(set_option("partition.expiration-time", "30 d"), set_option("partition.timestamp-formatter", "yyyy-MM-dd"))
    branch.meta.env.clock.now_ms += 2 * 86_400_000
    branch.upsert({"p": ["2026-01-01"], "k": [2]})
    assert rows(branch) == [("2026-01-01", 2)]
    assert rows(table) == [("2020-01-01", 1)]
    is_in_order(table)


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


def test_the_table_is_forwarded_over_snapshots_that_have_expired_on_the_branch():
    table = two_commits()
    branch = worked(table)
    before, last = history(table), rows(branch)
    latest = branch.meta.snapshots.latest_id()
    branch.delete_tag("good")
    branch.expire_snapshots(retain_max=1)
    table.reset_consumer("daily", 3)
    with pytest.raises(InvalidQuery, match="daily"):
        table.fast_forward("b1")
    table.reset_consumer("daily")
    assert table.fast_forward("b1").id == latest
    assert history(table) == {**before, latest: last}
    is_in_order(table)
    with pytest.raises(SnapshotNotFound, match="had expired on the branch"):
        rows(table, snapshot=latest - 1)
    write(table, range(3), "main")
    assert numbers(table)[-2:] == [latest, latest + 1]
    table.expire_snapshots(retain_max=1)
    is_in_order(table)


def test_the_table_is_forwarded_only_once_consumers_have_read_the_branch():
    """The branch forgets the snapshots that the table gets."""
    table = two_commits()
    branch = table.create_branch("b1")
    list(branch.follow(consumer="daily"))
    write(branch, range(20, 22), "b")
    with pytest.raises(InvalidQuery, match=r"'daily' of the branch 'b1'.*it reads snapshot 3 next"):
        table.fast_forward("b1")
    assert numbers(table) == [1, 2]
    assert [batch.snapshot for batch in branch.follow(consumer="daily")] == [3]
    assert table.fast_forward("b1").id == 3
    write(branch, range(22, 23), "b")
    assert [batch.snapshot for batch in branch.follow(consumer="daily")] == [4]
    is_in_order(table)


def test_a_table_whose_forwarding_died_between_marks_can_be_written():
    table = two_commits()
    worked(table)
    table.meta.snapshots.put_cut(3)
    table.meta.snapshots.put_cut(4)
    write(table, range(3), "main")
    assert numbers(table) == [1, 2, 5]
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


def is_known(world: MemoryStorage, seen: set[frozenset]) -> bool:
    """Whether the same files were seen before: many failures and many orders end alike."""
    files = frozenset(contents(world).items())
    known = files in seen
    seen.add(files)
    return known


@pytest.mark.parametrize("mode", ["crash", "error"])
@pytest.mark.parametrize("verb", list(VERBS))
def test_a_failure_leaves_the_table_and_its_branches_whole(verb, mode):
    """Wherever it strikes, every snapshot can be read; the verb, run again, leads to the goal."""
    world = start()
    table = opened(world, "look-")
    before = history(table) | history(table.branch("b1"))
    snapshots = {n: line.meta.snapshots.get(n) for line in (table, table.branch("b1")) for n in numbers(line)}
    tried, seen = one_in(3) if mode == "error" else 1, set()
    for done in every_fault(lambda storage: VERBS[verb](opened(storage, "run-")), lambda: copied(world), mode, one_in=tried):
        assert isinstance(done.outcome, (Crash, LakeError)) or mode == "error"
        if is_known(done.world, seen):
            continue
        left = opened(done.world, "look-")
        assert naive(left).missing() == set(), done.call
        lines = [left, *map(left.branch, left.branches()["branch_name"].to_pylist())]
        for line in lines:
            assert {number: line.meta.snapshots.get(number) for number in numbers(line)}.items() <= snapshots.items()
        if verb == "rename":  # the branch has one name, which works, also between the two steps
            (name,) = left.branches()["branch_name"].to_pylist()
            left.remove_orphan_files(dry_run=True)
            left.delete_branch(name, dry_run=True)
        if sampled(len(seen), 5):
            assert left.verify() == [], done.call
            for line in lines:
                assert history(line) == {number: before[number] for number in numbers(line)}
        try:
            VERBS[verb](opened(done.world, "again-"))
        except (InvalidQuery, TableNotFound):
            assert verb != "forward"  # it was done
        names = left.branches()["branch_name"].to_pylist()
        assert names == {"create": ["b1", "b2"], "rename": ["b9"], "delete": [], "forward": ["b1"]}[verb]
        if verb == "forward":
            assert {number: left.meta.snapshots.get(number) for number in numbers(left)} == snapshots
            assert left.fast_forward("b1").id == max(before)
        if mode == "error" and verb != "delete":
            assert unreferenced(left) == [], (done.call, done.fault)
        if is_known(done.world, seen):
            continue
        write(left, range(2), "after")
        left.expire_snapshots(retain_max=1)
        assert naive(left).missing() == set(), done.call


def expire(table: Table) -> object:
    return table.expire_snapshots(retain_max=1).snapshots


def forward_and_on(table: Table) -> object:
    """Forwards the table; then the table goes on, and loses its older snapshots."""
    VERBS["forward"](table)
    write(table, range(9), "main")
    table.compact(full=True)
    return expire(table)


RACES = {
    "create, expire": (lambda table: table.create_branch("b2", snapshot=1).name, expire),
    "create, create": (lambda table: table.create_branch("b2", snapshot=1).name, lambda table: table.create_branch("b2").name),
    "forward, write": (VERBS["forward"], lambda table: write(table, range(2), "main")),
    "forward, write to the branch": (VERBS["forward"], lambda table: write(table.branch("b1"), range(2), "main")),
    "forward, expire": (VERBS["forward"], expire),
    "forward, forward": (VERBS["forward"], VERBS["forward"]),
    "forward, delete": (VERBS["forward"], VERBS["delete"]),
    "delete, write to the branch": (VERBS["delete"], lambda table: write(table.branch("b1"), range(2), "main")),
    "forward, expire the branch": (VERBS["forward"], lambda table: expire(table.branch("b1"))),
    "forward, delete a tag of the branch": (VERBS["forward"], lambda table: table.branch("b1").delete_tag("old").files),
    "forward, cut the branch": (VERBS["forward"], lambda table: table.branch("b1").rollback(2, cut=True).id),
    "forward, cut the table": (VERBS["forward"], lambda table: table.rollback(1, cut=True).id),
    "forward, forward and on": (VERBS["forward"], forward_and_on),
    "forward, forward and delete": (VERBS["forward"], lambda table: (VERBS["forward"](table), VERBS["delete"](table))),
    "rename, expire": (VERBS["rename"], expire),
    "rename, forward": (VERBS["rename"], VERBS["forward"]),
    "rename, delete": (VERBS["rename"], VERBS["delete"]),
    "rename, rename": (VERBS["rename"], lambda table: table.rename_branch("b1", "b7").name),
    "rename, rename back": (VERBS["rename"], lambda table: (VERBS["rename"](table), table.rename_branch("b9", "b1").name)),
}


@pytest.mark.parametrize("name", list(RACES))
def test_two_at_a_time(name):
    """In any order every snapshot of the table and of its branches can be read."""
    with tiny_units(rows=8, window_bytes=1 << 16, lookup_rows=100):
        _two_at_a_time(name)


def _two_at_a_time(name: str) -> None:
    world = MemoryStorage()
    table = made(world)
    write(table, range(9), 1)
    branch = table.create_branch("b1")
    write(branch, range(3), "b")
    branch.create_tag("good")
    branch.alter(set_option("snapshot.num-retained.min", 3))
    write(branch, range(9), "last")
    if "tag" in name:
        branch.create_tag("old", 2)
        branch.compact(full=True)
        branch.expire_snapshots(retain_max=1)

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
    for done in interleavings(*pair, lambda: copied(world), 200_000, switches_max=1, one_in=one_in(4)):
        if is_known(done.world, seen):
            continue
        left = opened(done.world, "end-")
        assert naive(left).missing() == set(), done.results
        if sampled(len(seen), 8):
            assert left.verify() == [], done.results
            for line in (left, *map(left.branch, left.branches()["branch_name"].to_pylist())):
                history(line)
        for branch in left.branches()["branch_name"].to_pylist():
            left.branch(branch).expire_snapshots(retain_max=1)
        write(left, range(2), "after")
        left.compact(full=True)
        left.expire_snapshots(retain_max=1)
        assert naive(left).missing() == set(), done.results


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
