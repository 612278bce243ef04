"""Handles, commits and left-over files of a dropped or renamed table never affect another table of the same name."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from effort import one_in
from faults import Crash, Interleaving, every_fault, interleavings
from naive import unreferenced
from strategies import contents, copied, fake_env, lake_on, new_lake, tiny_units

import lsmlake
from lsmlake import set_option
from lsmlake.api.runtime import Runtime
from lsmlake.api.table import Table
from lsmlake.errors import CommitUnknown, InvalidQuery, SnapshotNotFound, StorageFailed, TableExists, TableNotFound
from lsmlake.storage.memory import MemoryStorage
from lsmlake.storage.storage import Storage
from lsmlake.tables.version import Metadata


@pytest.fixture(autouse=True)
def small():
    with tiny_units():
        yield


COLUMNS = "k BIGINT NOT NULL, v STRING"
LIMIT = 100_000


def rows(start: int, stop: int, value: str) -> dict:
    return {"k": list(range(start, stop)), "v": [value] * (stop - start)}


def old_table(storage: MemoryStorage | None = None, commits: int = 3) -> Table:
    """Four commits of every kind: an altered schema, a changelog, a consumer, level 0, expired snapshots."""
    options = {"bucket": 1, "changelog-producer": "lookup", "changelog.num-retained.min": 50}
    table = new_lake(storage).create_table("d.t", COLUMNS, primary_key=["k"], options=options)
    for number in range(commits):
        table.upsert(rows(0, 9, f"old {number}"), compact=number != 2)
    if commits:
        table.alter(set_option("snapshot.num-retained.min", 2))
        table.reset_consumer("c", 3)
        table.expire_snapshots(retain_max=2)
    return table


def create(storage: Storage, prefix: str = "new-", buckets: int = 4) -> Table:
    return lake_on(storage, prefix).create_table("d.t", COLUMNS, primary_key=["k"], options={"bucket": buckets})


def values(storage: Storage, name: str = "d.t") -> dict:
    found = lake_on(storage, "look-").table(name).scan().to_arrow().to_pylist()
    return {row["k"]: row["v"] for row in found}


def is_sound(storage: Storage, name: str = "d.t") -> None:
    table = lake_on(storage, "look-").table(name)
    assert table.verify() == []
    assert unreferenced(table) == []


# -- handles ----------------------------------------------------------------------------------------------------------

VERBS: dict[str, Callable[[Table], object]] = {
    "schema": lambda table: table.schema,
    "options": lambda table: table.options,
    "upsert": lambda table: table.upsert(rows(0, 20, "stale")),
    "upsert by number": lambda table: table.upsert(rows(0, 20, "stale"), writer_id="w", commit_id=1),
    "delete_keys": lambda table: table.delete_keys({"k": [1]}),
    "scan": lambda table: table.scan().to_arrow(),
    "scan a snapshot": lambda table: table.scan(snapshot=3).to_arrow(),
    "scan a time": lambda table: table.scan(timestamp="2026-01-01 00:00:00").to_arrow(),
    "count": lambda table: table.scan().count(),
    "plan": lambda table: table.scan().plan(),
    "explain": lambda table: table.scan().explain(),
    "changes": lambda table: table.changes(0).to_arrow(),
    "changelog": lambda table: table.changes(0, mode="changelog").count(),
    "follow": lambda table: list(table.follow()),
    "follow as a consumer": lambda table: list(table.follow(consumer="c")),
    "compact": lambda table: table.compact(full=True),
    "alter": lambda table: table.alter(set_option("snapshot.num-retained.min", 5)),
    "expire_snapshots": lambda table: table.expire_snapshots(retain_max=1),
    "consumers": lambda table: table.consumers(),
    "reset_consumer": lambda table: table.reset_consumer("c", 1),
    "remove a consumer": lambda table: table.reset_consumer("c"),
    "verify": lambda table: table.verify(),
    "snapshots": lambda table: table.snapshots(),
    "files": lambda table: table.files(),
    "files of a snapshot": lambda table: table.files(3),
    "buckets": lambda table: table.buckets(),
    "partitions": lambda table: table.partitions(),
    "manifests": lambda table: table.manifests(),
    "schemas": lambda table: table.schemas(),
    "states": lambda table: table.states(),
}


def dropped(table: Table) -> None:
    lake_on(table.meta.env.storage).drop_table("d.t")


def replaced(table: Table) -> None:
    dropped(table)
    create(table.meta.env.storage)


def replaced_and_filled(table: Table) -> None:
    dropped(table)
    new = create(table.meta.env.storage)
    for number in range(5):
        new.upsert(rows(0, 20, f"new {number}"))
    new.reset_consumer("c", 5)


def renamed(table: Table) -> None:
    lake_on(table.meta.env.storage).rename_table("d.t", "d.other")


@pytest.mark.parametrize("commits", [0, 3])
@pytest.mark.parametrize("fate", [dropped, replaced, replaced_and_filled, renamed])
def test_every_verb_of_a_handle_to_a_dropped_table_raises_table_not_found(fate, commits):
    """Whether it has read the table before or not; and it changes nothing."""
    table = old_table(commits=commits)
    if commits:
        table.scan().count()
    fate(table)
    before = contents(table.meta.env.storage)
    reason = "another one was created under its name" if "replaced" in fate.__name__ else "dropped or renamed"
    for name, verb in VERBS.items():
        for handle in (table, Table("d.t", table.meta.with_empty_cache(), Runtime())):
            with pytest.raises(TableNotFound, match=reason):
                print(name, verb(handle))
    assert contents(table.meta.env.storage) == before


# -- remains ----------------------------------------------------------------------------------------------------------


def worlds_of(world: MemoryStorage, program: Callable[[Storage], object]) -> Iterator[MemoryStorage]:
    """The world as it is after the program has died at each of its calls; every state once."""
    seen = []
    for done in every_fault(program, lambda: copied(world)):
        assert isinstance(done.outcome, Crash)
        if (left := contents(done.world)) not in seen:
            seen.append(left)
            yield done.world


def test_a_table_created_after_a_drop_that_died_anywhere_is_empty():
    """And if the creation dies as well, the next one makes up for it. No row, consumer, changelog or schema comes back."""
    world = MemoryStorage()
    old_table(world)
    old = values(world)
    states = 0
    for left in worlds_of(world, lambda storage: lake_on(storage).drop_table("d.t")):
        states += 1
        if lake_on(left).tables("d"):
            assert values(left) == old
            is_sound(left)
            continue
        for number, again in enumerate([left, *(worlds_of(left, create) if states % 16 == 0 else ())]):
            if not lake_on(again).tables("d"):
                create(again, f"again{number}-")
            table = lake_on(again, "user-").table("d.t")
            assert table.scan().count() == 0
            assert [entry.path for entry in again.list("d.db/t")] == ["d.db/t/schema/schema-0"]
            table.upsert(rows(0, 3, "new"))
            table.alter(set_option("snapshot.num-retained.min", 7))
            assert (table.consumers().num_rows, table.schemas().num_rows, table.meta.snapshots.recorded_ids()) == (0, 2, [])
            assert values(again) == {0: "new", 1: "new", 2: "new"}
            is_sound(again)
    assert states > 20


def test_a_folder_without_a_table_keeps_files_that_no_table_wrote():
    world = MemoryStorage()
    table = old_table(world)
    for path in ("d.db/t/notes.txt", "d.db/other/notes.txt", "d.db/other/bucket-0/mine.parquet"):
        world.put_if_absent(path, b"mine")
    world.delete(table.meta.paths.schema(0))
    create(world)
    lake_on(world).create_table("d.other", COLUMNS, primary_key=["k"])
    left = {path for path in contents(world, "d.db") if path.endswith(("notes.txt", "mine.parquet"))}
    assert len(left) == 3
    lake_on(world).drop_table("d.t")
    assert contents(world, "d.db/t") == {}, "what lies in the folder of a table goes with the table"
    with pytest.raises(InvalidQuery, match=r"the folder of 'd\.u' is not empty"):
        world.put_if_absent("d.db/u/notes.txt", b"mine")
        lake_on(world).rename_table("d.other", "d.u")


def test_dropping_a_database_leaves_no_remains_of_its_tables():
    world = MemoryStorage()
    table = old_table(world)
    world.delete(table.meta.paths.schema(0))
    lake_on(world).drop_database("d")
    assert contents(world) == {}


# -- renaming ---------------------------------------------------------------------------------------------------------


def test_a_renamed_table_is_the_same_table():
    world = MemoryStorage()
    table = old_table(world)
    lake = lake_on(world, "r-")
    lake.create_database("e")
    before, expected = contents(world, "d.db/t"), values(world)
    other = lake.rename_table("d.t", "e.u")
    assert (lake.tables("d"), lake.tables("e"), other.name, other.path) == ([], ["u"], "e.u", "e.db/u")
    assert {path.replace("e.db/u", "d.db/t"): data for path, data in contents(world, "e.db/u").items()} == before
    assert other.meta.paths.table_uuid == table.meta.paths.table_uuid
    assert values(world, "e.u") == expected
    other.upsert(rows(5, 12, "later"))
    assert [batch.snapshot for batch in other.follow(consumer="c")] == [5]
    is_sound(world, "e.u")
    create(world).upsert(rows(0, 1, "new"))
    lake.drop_table("d.t")
    assert lake.rename_table("e.u", "d.t").scan().count() == 12


def test_a_rename_that_cannot_be_is_refused_and_changes_nothing():
    world = MemoryStorage()
    old_table(world)
    lake = lake_on(world, "r-")
    lake.create_table("d.u", COLUMNS, primary_key=["k"])
    before = contents(world)
    for old, new, error in [
        ("d.t", "d.u", TableExists),
        ("d.t", "d.t", TableExists),
        ("d.t", "e.t", TableNotFound),
        ("d.x", "d.y", TableNotFound),
        ("d.t", "d.a/b", InvalidQuery),
        ("d.t", "t", InvalidQuery),
    ]:
        with pytest.raises(error):
            lake.rename_table(old, new)
    assert contents(world) == before


def test_a_rename_that_dies_has_happened_or_not():
    world = MemoryStorage()
    old_table(world)
    expected, seen = values(world), set()
    for left in worlds_of(world, lambda storage: lake_on(storage).rename_table("d.t", "d.u")):
        (name,) = lake_on(left).tables("d")
        seen.add(name)
        assert values(left, f"d.{name}") == expected
        is_sound(left, f"d.{name}")
    assert seen == {"t", "u"}


def test_files_under_the_new_name_of_a_rename_are_never_removed():
    """They may belong to a writer that works for this table, which had that name before."""
    world = MemoryStorage()
    table = old_table(world)
    lake_on(world).rename_table("d.t", "d.u")
    world.put_if_absent("d.db/t/bucket-0/data-of-a-writer.parquet", b"rows")
    before = contents(world)
    with pytest.raises(InvalidQuery, match=r"the folder of 'd\.t' is not empty, found d\.db/t/bucket-0/data-of-a-writer"):
        lake_on(world).rename_table("d.u", "d.t")
    assert contents(world) == before
    assert lake_on(world).table("d.u").meta.paths.table_uuid == table.meta.paths.table_uuid


# -- links ------------------------------------------------------------------------------------------------------------


def test_a_linked_folder_is_not_a_table_and_is_never_touched(tmp_path):
    lake, other = lsmlake.connect(tmp_path / "lake"), lsmlake.connect(tmp_path / "other")
    for one in (lake, other):
        one.create_database("d")
    for table in (lake.create_table("d.own", COLUMNS, primary_key=["k"]), other.create_table("d.t", COLUMNS, primary_key=["k"])):
        table.upsert(rows(0, 3, "precious"))
    folder = tmp_path / "lake" / "d.db"
    (folder / "t").symlink_to(tmp_path / "other/d.db/t")
    (folder / "itself").symlink_to(folder / "itself")
    (tmp_path / "lake" / "e.db").symlink_to(tmp_path / "other/d.db")
    (folder / "own/bucket-7").symlink_to(tmp_path / "other/d.db/t/bucket-0")
    (folder / "own/circle").symlink_to(folder / "own")
    (folder / "own/itself").symlink_to(folder / "own/itself")
    assert (lake.databases(), lake.tables("d")) == (["d"], ["own"])
    for verb in (lake.table, lake.drop_table, lambda name: lake.create_table(name, COLUMNS, primary_key=["k"])):
        with pytest.raises(StorageFailed, match="a symbolic link inside a warehouse is not followed"):
            verb("d.t")
    assert lake.table("d.own").verify() == []
    lake.drop_table("d.own")
    assert sorted(path.name for path in folder.iterdir()) == ["database.json", "itself", "t"]
    lake.drop_database("d")
    assert other.table("d.t").scan().count() == 3
    assert other.table("d.t").verify() == []


# -- races ------------------------------------------------------------------------------------------------------------


def opened(storage: Storage, like: Table, prefix: str) -> Table:
    """A handle from before the race: no call of the storage."""
    return Table("d.t", Metadata.of(fake_env(storage, prefix), like.meta.paths), Runtime())


def races(world: MemoryStorage, like: Table, program: Callable[[Table], object], other: Callable) -> Iterator[Interleaving]:
    def tried(storage: Storage) -> object:
        try:
            return repr(program(opened(storage, like, "a-")))
        except (TableNotFound, CommitUnknown, SnapshotNotFound) as error:
            return type(error)

    seen = set()
    for done in interleavings(tried, other, lambda: copied(world), LIMIT, switches_max=1, one_in=min(3, one_in(3))):
        end = (done.results, frozenset(contents(done.world).items()))
        if end not in seen:
            seen.add(end)
            yield done


PROGRAMS: dict[str, Callable[[Table], object]] = {
    "upsert": lambda table: table.upsert(rows(5, 14, "stale")).id,
    "compact": lambda table: table.compact(full=True).snapshot_id,
    "alter": lambda table: table.alter(set_option("changelog.num-retained.min", 60)).id,
    "expire": lambda table: table.expire_snapshots(retain_max=1).snapshots,
    "follow": lambda table: [batch.snapshot for batch in table.follow(consumer="c")],
}


@pytest.mark.parametrize("name", list(PROGRAMS))
def test_what_is_under_way_when_its_table_is_replaced_never_reaches_the_new_one(name):
    world = MemoryStorage()
    like = old_table(world)

    def replace(storage: Storage) -> str:
        lake_on(storage, "d-").drop_table("d.t")
        new = create(storage, buckets=1)
        new.upsert(rows(0, 3, "new"), compact=False)
        new.reset_consumer("c", 2)
        return new.meta.paths.table_uuid

    outcomes = set()
    for done in races(world, like, PROGRAMS[name], replace):
        outcomes.add(done.results[0])
        assert values(done.world) == dict.fromkeys(range(3), "new")
        table = lake_on(done.world).table("d.t")
        assert table.snapshots()["snapshot_id"].to_pylist() == [1]
        assert table.schemas().num_rows == 1
        assert table.consumers()["next_snapshot_id"].to_pylist() == [2]
        assert table.verify() == []
    assert TableNotFound in outcomes
    assert any(isinstance(outcome, str) for outcome in outcomes), "who comes first succeeds"


@pytest.mark.parametrize("name", ["upsert", "compact", "alter"])
def test_a_commit_during_a_rename_moves_with_the_table_or_fails(name):
    world = MemoryStorage()
    like = old_table(world)
    before, latest = values(world), like.meta.snapshots.latest_id()
    after = before | dict.fromkeys(range(5, 14), "stale") if name == "upsert" else before
    outcomes = set()
    for done in races(world, like, PROGRAMS[name], lambda storage: lake_on(storage, "r-").rename_table("d.t", "d.u").name):
        outcome = done.results[0]
        outcomes.add(outcome if isinstance(outcome, type) else str)
        published = lake_on(done.world).table("d.u").meta.snapshots.latest_id() > latest
        assert values(done.world, "d.u") == (after if published else before)
        assert published or not isinstance(outcome, str)
        assert outcome is not TableNotFound or not published
        assert lake_on(done.world).table("d.u").verify() == []
        assert lake_on(done.world).tables("d") == ["u"]
    assert outcomes >= {TableNotFound, str}


def test_a_commit_under_way_when_tables_are_swapped_is_not_said_to_have_failed():
    """The table goes to another name, and another table takes its name."""
    world = MemoryStorage()
    like = old_table(world)
    latest = like.meta.snapshots.latest_id()
    lake_on(world, "n-").create_table("d.new", COLUMNS, primary_key=["k"])

    def swap(storage: Storage) -> None:
        lake_on(storage, "r-").rename_table("d.t", "d.old")
        lake_on(storage, "r-").rename_table("d.new", "d.t")

    outcomes = set()
    for done in races(world, like, PROGRAMS["upsert"], swap):
        outcome = done.results[0]
        outcomes.add(outcome if isinstance(outcome, type) else str)
        published = lake_on(done.world).table("d.old").meta.snapshots.latest_id() > latest
        assert published or not isinstance(outcome, str)
        assert outcome is not TableNotFound or not published
        assert lake_on(done.world).table("d.old").verify() == []
        assert lake_on(done.world).table("d.t").scan().count() == 0
    assert outcomes >= {TableNotFound, CommitUnknown, str}


def test_a_drop_beside_a_drop_and_a_creation_never_leaves_half_a_table():
    world = MemoryStorage()
    like = old_table(world)

    def drop(table: Table) -> object:
        return lake_on(table.meta.env.storage, "x-").drop_table("d.t")

    def replace(storage: Storage) -> None:
        try:
            lake_on(storage, "d-").drop_table("d.t")
            create(storage).upsert(rows(0, 3, "new"))
        except (TableNotFound, CommitUnknown):
            return

    for done in races(world, like, drop, replace):
        if lake_on(done.world).tables("d"):
            assert values(done.world) == dict.fromkeys(range(3), "new")
            assert lake_on(done.world).table("d.t").verify() == []
