"""Orphan files: exactly those that nothing names are removed, by the judgement of a reader written from FORMAT.md (`naive`)."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import pyarrow as pa
import pytest
from effort import one_in
from faults import Crash, FaultStorage, HookedStorage
from naive import naive, unreferenced
from storage_clock import DAY, Clock, aged
from strategies import Names, contents, copied, fake_env, lake_on, new_lake

from lsmlake import connect, set_option
from lsmlake.api.lake import Lake
from lsmlake.api.runtime import Runtime
from lsmlake.api.table import Table
from lsmlake.commit.commit import commit
from lsmlake.commit.request import Identity, Request
from lsmlake.errors import Corrupt, LakeError, TableNotFound, UnsupportedFormat
from lsmlake.files.bucket_files import BucketFiles
from lsmlake.format.data_files import CommitMessage
from lsmlake.lsm.cover import Covers
from lsmlake.retention import orphans
from lsmlake.schema.conform import Cast
from lsmlake.storage.local import LocalStorage
from lsmlake.storage.memory import MemoryStorage
from lsmlake.storage.storage import Storage, read_bytes
from lsmlake.tables.version import Metadata, Version
from lsmlake.write.bucket_writer import split, write_level0
from lsmlake.write.prepare import prepare
from lsmlake.write.write_request import WriteRequest


def made(clock: Clock, **options: object) -> Table:
    given = {"bucket": 2, "snapshot.expire.on-commit": False, "manifest.merge-min-count": 3, **options}
    lake = new_lake(clock.storage)
    columns = "p INT, k INT, v INT"
    return lake.create_table("d.t", columns, primary_key=["p", "k"], partition_by=["p"], options=given)


def rows(seed: int, count: int = 12) -> pa.Table:
    chance = random.Random(seed)
    found = [(chance.randrange(3), chance.randrange(20), seed) for _ in range(count)]
    return pa.table(
        dict(zip("pkv", ([pa.scalar(v, pa.int32()).as_py() for v in c] for c in zip(*found, strict=True)), strict=True))
    )


def upsert(table: Table, seed: int, **how: object) -> None:
    table.upsert(rows(seed), cast=True, **how)


def killed(clock: Clock, call: int, run: Callable[[Table], object]) -> bool:
    """Whether a process that runs the verb dies at this storage call."""
    storage = FaultStorage(clock.storage).fail_at(call, after=True)
    try:
        run(lake_on(storage, f"dead{clock.now}-{call}-").table("d.t"))
    except Crash:
        return True
    except LakeError:
        return False
    return False


def leave(clock: Clock) -> None:
    """A process writes all files of an upsert and dies right before it publishes."""
    watched = FaultStorage(copied(clock.storage))
    upsert(lake_on(watched, "dead-").table("d.t"), 50)
    publication = next(place for place, (verb, path) in enumerate(watched.calls, 1) if verb == "put_if_absent")
    storage = FaultStorage(clock.storage).fail_at(publication)
    with pytest.raises(Crash):
        upsert(lake_on(storage, "dead-").table("d.t"), 50)


def later(clock: Clock) -> Table:
    return lake_on(clock.storage, f"late{clock.now}-").table("d.t")


def test_what_killed_writers_left_is_removed_after_a_day():
    clock = Clock()
    table = made(clock)
    for seed in range(3):
        upsert(table, seed)
    for call in range(8, 30, 2):
        killed(clock, call, lambda table: upsert(table, 50))
    upsert(table, 4)
    left, before = unreferenced(table), contents(clock.storage)
    assert len({path.rsplit("/", 1)[1].rsplit("-", 1)[0] for path in left}) >= 3, "data, manifests and lists"
    clock.pass_days(0.9)
    assert later(clock).remove_orphan_files().files == 0, "they may belong to a commit under way"
    clock.pass_days(0.2)
    report = later(clock).remove_orphan_files()
    assert (report.files, report.bytes) == (len(left), sum(len(before[path]) for path in left))
    assert sorted(report.paths) == sorted(left)
    assert sum(report.kinds.values()) == report.files
    assert unreferenced(table) == []
    assert {path for path in before if path not in left} <= contents(clock.storage).keys()
    assert table.verify() == []
    assert later(clock).remove_orphan_files().files == 0


def test_a_dry_run_deletes_and_writes_nothing():
    clock = Clock()
    table = made(clock)
    upsert(table, 1)
    leave(clock)
    left, before = unreferenced(table), contents(clock.storage)
    clock.pass_days(2)
    opened = Lake(replace(fake_env(clock.storage, "x-"), clock=lambda: clock.now), Runtime()).table("d.t")
    report = opened.remove_orphan_files(dry_run=True)
    assert report.dry_run
    assert sorted(report.paths) == sorted(left) != []
    assert contents(clock.storage) == before


def test_the_limits_of_age_and_number():
    clock = Clock()
    table = made(clock)
    upsert(table, 1)
    leave(clock)
    count = len(unreferenced(table))
    assert count > 2
    assert table.remove_orphan_files(older_than="2001-01-01").files == 0
    clock.pass_days(0.1)
    assert later(clock).remove_orphan_files("2100-01-01", limit=2).files == 2
    assert later(clock).remove_orphan_files("2100-01-01").files == count - 2
    assert unreferenced(table) == []


def test_the_clock_of_the_storage_counts():
    """The program believes that it is ten years later."""
    clock = Clock()
    table = made(clock)
    upsert(table, 1)
    leave(clock)
    ahead = Lake(replace(fake_env(clock.storage, "x-"), clock=lambda: clock.now + 3_650 * DAY), Runtime()).table("d.t")
    assert ahead.remove_orphan_files().files == 0
    assert ahead.remove_orphan_files("2100-01-01").files == 0, "files of this moment are younger than the moment"


def test_files_of_others_stay():
    clock = Clock()
    table = made(clock)
    upsert(table, 1)
    foreign = ["notes.txt", "p=1/bucket-0/part-1.parquet", "manifest/readme", "snapshot/0000/snapshot-007", "_SUCCESS", "x/y/z"]
    for name in foreign:
        clock.storage.put_if_absent(f"{table.path}/{name}", b"mine")
    clock.pass_days(9)
    assert later(clock).remove_orphan_files().files == 0
    assert {f"{table.path}/{name}" for name in foreign} <= contents(clock.storage).keys()


def test_remains_of_a_dropped_table_of_the_name_go():
    clock = Clock()
    table = made(clock)
    upsert(table, 1)
    clock.storage.put_if_absent(f"{table.path}/snapshot/another/snapshot-1", b"of a writer that was late")
    clock.pass_days(2)
    report = later(clock).remove_orphan_files()
    assert report.kinds == {"dropped table": 1}
    assert table.verify() == []


def test_tags_changelogs_and_consumers_keep_their_files():
    clock = Clock()
    table = made(clock, **{"changelog-producer": "lookup", "changelog.num-retained.min": 20, "changelog.num-retained.max": 20})
    for seed in range(8):
        upsert(table, seed, compact=seed % 3 != 1)
        if seed in (1, 3):
            table.create_tag(f"t{seed}")
    table.expire_snapshots(retain_max=2)
    assert unreferenced(table) == []
    before = contents(clock.storage)
    clock.pass_days(3)
    assert later(clock).remove_orphan_files().files == 0
    assert contents(clock.storage).keys() - before.keys() <= {table.meta.paths.latest}
    assert table.scan(tag="t1").count() > 0
    assert table.changes(2, 7, mode="changelog").count() > 0
    table.delete_tag("t1")
    assert later(clock).remove_orphan_files().files == 0, "the tag has taken its files along"


def metadata_paths(table: Table) -> list[str]:
    folders = ("manifest/", "snapshot/", "tag/", "changelog/", "schema/")
    used = naive(table).referenced()
    listed = [entry.path for entry in table.meta.env.storage.list(table.path)]
    inside = [path for path in listed if path.removeprefix(f"{table.path}/").startswith(folders)]
    return [path for path in inside if (path in used or "/manifest/" not in path) and not path.endswith("LATEST")]


@pytest.mark.parametrize("how", ["flipped", "missing", "empty"])
def test_nothing_is_deleted_while_metadata_is_damaged(how):
    """Each manifest, list, index, snapshot, tag and changelog in turn; a file that is missing counts if others name it."""
    clock = Clock()
    table = made(clock, **{"changelog-producer": "lookup", "changelog.num-retained.min": 20, "changelog.num-retained.max": 20})
    for seed in range(5):
        upsert(table, seed)
    table.create_tag("t")
    table.alter(set_option("file.compression", "lz4"))
    upsert(table, 7)
    table.expire_snapshots(retain_max=3)
    leave(clock)
    orphan = unreferenced(table)
    assert orphan
    clock.pass_days(2)
    for path in metadata_paths(table):
        storage = aged(clock.storage)
        data = bytearray(contents(storage)[path])
        if data == b"expired\n" or (how == "missing" and "/manifest/" not in path):
            continue
        storage.delete(path)
        if how != "missing":
            middle = len(data) // 2
            storage.put_if_absent(
                path, bytes(data[:middle] + bytes([data[middle] ^ 64]) + data[middle + 1 :]) if how == "flipped" else b""
            )
        before = contents(storage)
        try:
            report = lake_on(storage, "x-").table("d.t").remove_orphan_files("2100-01-01")
        except LakeError as refused:
            assert isinstance(refused, (Corrupt, UnsupportedFormat, TableNotFound)), path
        else:
            assert path.endswith("/schema-1") or how == "flipped", f"{path}: {report}"
            assert set(report.paths) <= set(orphan), path
            continue
        after = contents(storage)
        assert {p for p in before if p not in after} == set(), path


def test_a_folder_of_an_unknown_kind_stops_it():
    clock = Clock()
    table = made(clock)
    upsert(table, 1)
    leave(clock)
    clock.storage.put_if_absent(f"{table.path}/future/{table.meta.paths.table_uuid}/thing-1", b"{}")
    clock.pass_days(2)
    before = contents(clock.storage)
    with pytest.raises(UnsupportedFormat, match=r"does not know.*future"):
        later(clock).remove_orphan_files()
    assert contents(clock.storage).keys() - before.keys() <= {table.meta.paths.latest}


class AtCall(HookedStorage):
    """Logs its calls, and calls `act` before the one with this number (from 0)."""

    def __init__(self, inner: Storage, number: int, act: Callable[[], object]) -> None:
        super().__init__(inner)
        self.number, self.act, self.calls = number, act, []

    @contextmanager
    def around(self, verb: str, path: str) -> Iterator[None]:
        if len(self.calls) == self.number:
            self.act()
        self.calls.append((verb, path))
        yield


def written(table: Table, seed: int) -> list[CommitMessage]:
    """The files of an upsert that has not committed yet."""
    schema, version = table.version.schema, table.version
    parts = split(prepare(rows(seed), schema, WriteRequest(cast=Cast("UTC")))[0], schema, Covers(2))
    return [write_level0(BucketFiles.of(version, bucket), 2, [part], compacts=False).message for bucket, part in parts]


def test_a_writer_that_publishes_files_older_than_the_limit_keeps_them():
    """If it publishes before the last look, whatever the removal is doing; else its files are gone, as documented."""
    clock = Clock()
    table = made(clock)
    for seed in range(3):
        upsert(table, seed)
    leave(clock)
    messages, version = written(table, 9), table.version
    clock.pass_days(2)
    orphan = set(unreferenced(table))
    slow = {path for message in messages for path in message.written}
    assert slow < orphan

    def remove(world: MemoryStorage, call: int, act: Callable[[], object] = lambda: None) -> tuple[list, set[str]]:
        storage = AtCall(world, call, act)
        report = lake_on(storage, "late-").table("d.t").remove_orphan_files("2100-01-01")
        return storage.calls, set(report.paths)

    calls, removed = remove(aged(clock.storage), -1)
    assert removed == orphan
    first_delete = calls.index(next(call for call in calls if call[0] == "delete"))
    last_look = max(place for place in range(first_delete) if calls[place] == ("list", table.meta.paths.snapshots))
    for place in range(last_look + 1):
        world = aged(clock.storage)
        late = lake_on(world, "slow-").table("d.t")
        _, removed = remove(
            world, place, lambda late=late: commit(Version.at(late.meta, version.snapshot), Request(Identity("s"), messages))
        )
        assert removed == orphan - slow, calls[place]
        assert late.verify() == []
        assert unreferenced(late) == []


def test_a_tag_that_takes_over_a_snapshot_meanwhile_keeps_its_files():
    """At each call of the removal, another process tags a snapshot and then lets it expire."""
    clock = Clock()
    table = made(clock)
    for seed in range(4):
        upsert(table, seed, compact=seed > 1)
    leave(clock)
    clock.pass_days(2)
    storage = AtCall(aged(clock.storage), -1, lambda: None)
    lake_on(storage, "late-").table("d.t").remove_orphan_files("2100-01-01")
    for place in range(0, len(storage.calls), one_in(1)):
        world = aged(clock.storage)
        other = lake_on(world, "other-").table("d.t")

        def tag(other: Table = other) -> None:
            other.create_tag("t", snapshot=2)
            other.expire_snapshots(retain_max=1)

        lake_on(AtCall(world, place, tag), "late-").table("d.t").remove_orphan_files("2100-01-01")
        assert other.verify() == []
        assert other.scan(tag="t").count() == table.scan(snapshot=2).count()
        assert unreferenced(other) == []


def test_a_table_made_anew_under_the_name_keeps_its_files():
    clock = Clock()
    table = made(clock)
    upsert(table, 1)
    leave(clock)
    clock.pass_days(2)
    old = later(clock)

    def anew() -> None:
        lake = lake_on(clock.storage, "new-")
        lake.drop_table("d.t")
        fresh = lake.create_table("d.t", "k INT", primary_key=["k"])
        fresh.upsert({"k": [1]}, cast=True)

    storage = AtCall(clock.storage, 6, anew)
    with pytest.raises(TableNotFound):
        Table("d.t", Metadata.of(fake_env(storage, "y-"), old.meta.paths), Runtime()).remove_orphan_files("2100-01-01")
    assert later(clock).verify() == []
    assert later(clock).scan().count() == 1


def rolled_back(table: Table, chance: random.Random, *, cut: bool) -> None:
    numbers = table.meta.snapshots.ids()
    if numbers:
        table.rollback(snapshot=chance.choice(numbers), cut=cut)


@pytest.mark.parametrize("seed", range(16))
def test_random_histories_with_kills_leak_nothing_and_lose_nothing(seed):
    chance = random.Random(seed)
    clock = Clock()
    producer = chance.choice(["none", "input", "lookup"])
    kept = (
        {}
        if producer == "none"
        else {"changelog-producer": producer, "changelog.num-retained.max": 30, "changelog.num-retained.min": 1}
    )
    table = made(clock, **kept)
    names = Names(f"h{seed}-")
    verbs: dict[str, Callable[[Table], object]] = {
        "upsert": lambda t: upsert(t, chance.randrange(1000)),
        "append": lambda t: upsert(t, chance.randrange(1000), compact=False),
        "compact": lambda t: t.compact(full=chance.random() < 0.5),
        "expire": lambda t: t.expire_snapshots(retain_max=chance.randrange(1, 5)),
        "tag": lambda t: t.create_tag(f"tag{chance.randrange(4)}", replace=True) if t.meta.snapshots.latest_id() else None,
        "rollback": lambda t: rolled_back(t, chance, cut=False),
        "cut": lambda t: rolled_back(t, chance, cut=True),
        "overwrite": lambda t: t.overwrite(rows(chance.randrange(1000), 4), cast=True),
        "truncate": lambda t: t.truncate(),
        "orphans": lambda t: t.remove_orphan_files(),
    }
    for _ in range(30):
        name = chance.choice(list(verbs))
        clock.pass_days(chance.choice([0, 0, 0.01, 0.6, 1.5]))
        storage: Storage = clock.storage
        if chance.random() < 0.4:
            storage = FaultStorage(storage).fail_at(chance.randrange(1, 40), after=chance.random() < 0.5)
        lake = Lake(replace(fake_env(storage, "x-"), ids=names, clock=lambda: clock.now), Runtime())
        try:
            verbs[name](lake.table("d.t"))
        except (Crash, LakeError) as ended:
            assert isinstance(ended, Crash) or name == "tag", f"{name}: {ended}"
    rows_before = later(clock).scan().to_arrow()
    clock.pass_days(2)
    leaked = unreferenced(table)
    report = later(clock).remove_orphan_files()
    assert sorted(report.paths) == sorted(leaked)
    assert unreferenced(table) == []
    assert later(clock).verify() == []
    assert later(clock).scan().to_arrow().equals(rows_before)
    assert Counter(report.kinds).total() == len(leaked)


def test_temporary_files_of_dead_local_writers_are_removed(tmp_path):
    """The file of a suspended writer stays, however old it is."""
    storage = LocalStorage(tmp_path)
    lake = connect(tmp_path)
    lake.create_database("d")
    table = lake.create_table("d.t", "k INT", primary_key=["k"], options={"bucket": 1})
    table.upsert({"k": [1]})
    dead = tmp_path / "d.db/t/bucket-0/.tmp-dead"
    dead.write_bytes(b"12345")
    (tmp_path / "d.db/.tmp-beside").write_bytes(b"of another table")
    with storage.write("d.db/t/bucket-0/data-x.parquet") as sink:
        sink.write(b"half")
        time.sleep(0.01)  # the storage dates files in milliseconds
        assert table.remove_orphan_files(older_than="2001-01-01").files == 0
        for dry_run in (True, False):
            report = table.remove_orphan_files(older_than="2100-01-01", dry_run=dry_run)
            assert (report.paths, report.bytes, report.kinds) == (("d.db/t/bucket-0/.tmp-dead",), 5, {"temporary": 1})
        assert not dead.exists()
    assert read_bytes(storage, "d.db/t/bucket-0/data-x.parquet") == b"half"
    assert (tmp_path / "d.db/.tmp-beside").exists()


def test_pins_of_dead_processes_are_removed_on_every_branch():
    clock = Clock()
    table = made(clock)
    upsert(table, 1)
    branch = table.create_branch("b")
    for line in (table, branch):
        line.meta.tags.pin(line.meta.snapshots.latest())
    late = Lake(replace(fake_env(clock.storage, "x-"), clock=lambda: clock.now), Runtime()).table("d.t")
    clock.pass_days(0.9)
    late.remove_orphan_files()
    assert len(table.meta.tags.pins()) == len(branch.meta.tags.pins()) == 1
    clock.pass_days(0.2)
    late.remove_orphan_files()
    assert table.meta.tags.pins() == branch.meta.tags.pins() == []


def test_orphans_are_those_of_the_table_if_it_is_asked_through_a_branch():
    clock = Clock()
    table = made(clock)
    upsert(table, 1)
    branch = table.create_branch("b")
    upsert(table, 2)
    clock.pass_days(2)
    for line in (branch.meta, table.meta):
        assert orphans.remove_orphan_files(line, None, dry_run=True, limit=None).files == 0
