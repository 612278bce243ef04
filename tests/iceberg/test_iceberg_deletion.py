"""No file vanishes while Iceberg metadata names it: every program that deletes files, with a storage that looks at each deletion
what the newest metadata file names, as a reader that is written from the specification (`iceberg_reader`) reads it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from unittest.mock import patch

import pyarrow as pa
import pytest
from effort import one_in
from faults import Crash, FaultStorage, HookedStorage, every_fault
from iceberg_reader import IcebergReader
from storage_clock import Clock, aged
from strategies import lake_on, new_lake

from lsmlake import set_option
from lsmlake.api.table import Table
from lsmlake.errors import Corrupt, StorageFailed
from lsmlake.iceberg import mirror, published, table_metadata
from lsmlake.storage.memory import MemoryStorage
from lsmlake.storage.storage import Storage, read_bytes

ROOT = "memory://warehouse/"
FILE = re.compile(r".*/metadata/v([0-9]+)\.metadata\.json")
ON = {"metadata.iceberg": "true", "snapshot.expire.on-commit": "false", "bucket": "1", "changelog-producer": "input"}
TOMORROW = "2100-01-01"


@pytest.fixture(autouse=True)
def addressed():
    with patch.object(MemoryStorage, "place", lambda self, path: f"{ROOT}{path}"):
        yield


class Guard(HookedStorage):
    """Refuses to delete a data file or a file of Iceberg metadata that the newest metadata file names."""

    def __init__(self, inner: Storage) -> None:
        super().__init__(inner)
        self.known: dict[str, set[str]] = {}
        self.deleted: list[str] = []

    @contextmanager
    def around(self, verb: str, path: str) -> Iterator[None]:
        if verb == "delete":
            assert path not in self.named() - set(newest(self.inner)), f"{path} is deleted while the newest metadata names it"
            self.deleted.append(path)
        yield

    def named(self) -> set[str]:
        return next((self.known.setdefault(path, named_by(self.inner, path)) for path in newest(self.inner)), set())


def newest(storage: Storage) -> list[str]:
    """The newest metadata file, if there is one."""
    found = {int(match[1]): entry.path for entry in storage.list("") if (match := FILE.fullmatch(entry.path))}
    return [found[max(found)]] if found else []


def named_by(storage: Storage, path: str) -> set[str]:
    def read(uri: str) -> bytes:
        return read_bytes(storage, uri.removeprefix(ROOT))

    return {path, *(uri.removeprefix(ROOT) for uri in IcebergReader(json.loads(read_bytes(storage, path)), read).named())}


def rows(n: int) -> pa.Table:
    return pa.table({"p": pa.array([0, 0, 1], pa.int32()), "k": [1, n, n + 1], "v": [n] * 3})


def world() -> MemoryStorage:
    """A copy of `history` whose files are two days old."""
    return aged(history())


@cache
def history() -> MemoryStorage:
    """A published table with vectors, level 0, a tag whose snapshot has expired, and a branch."""
    clock = Clock()
    table = made(clock, **{"changelog.num-retained.max": "50"})
    table.upsert(rows(2))
    table.create_branch("b").upsert(rows(9))
    table.upsert(rows(3))
    table.create_tag("old")
    for n in (4, 5):
        table.upsert(rows(n))
        table.compact(full=True)
    table.expire_snapshots(retain_max=2, retain_min=1)
    table.upsert(rows(6))
    table.compact(full=True)
    table.delete("p = 0 AND k = 4")
    table.upsert(rows(7), compact=False)
    table.publish_iceberg()
    return clock.storage


def made(clock: Clock, **options: str) -> Table:
    columns = "p INT, k BIGINT, v BIGINT"
    return new_lake(clock.storage).create_table("d.t", columns, primary_key=["p", "k"], partition_by=["p"], options=ON | options)


def opened(storage: Storage, prefix: str = "later") -> Table:
    return lake_on(storage, prefix).table("d.t")


def expire(table: Table) -> None:
    table.expire_snapshots(retain_max=1, retain_min=1)


def housekeeping(table: Table) -> None:
    retained = [set_option(f"snapshot.num-retained.{side}", "1") for side in ("min", "max")]
    table.alter(set_option("snapshot.expire.on-commit", "true"), *retained)
    for n in range(60, 71):
        table.upsert(rows(n))


def rollback(table: Table) -> None:
    table.upsert(rows(20))
    table.compact(full=True)
    table.rollback(tag="old", cut=True)


def replace_tag(table: Table) -> None:
    table.create_tag("old", replace=True)


def truncate(table: Table) -> None:
    table.truncate()
    expire(table)


def drop_partition(table: Table) -> None:
    table.delete("p = 1")
    expire(table)


def compaction(table: Table) -> None:
    table.upsert(rows(30), compact=False)
    table.compact(full=True)
    expire(table)


def changelogs(table: Table) -> None:
    table.alter(set_option("changelog.num-retained.max", "1"), set_option("changelog.num-retained.min", "1"))
    expire(table)


def forward(table: Table) -> None:
    table.rollback(snapshot=min(table.version.number, 5), cut=False)
    table.create_branch("c").upsert(rows(40))
    table.fast_forward("c")
    table.delete_branch("c")
    expire(table)


def orphans(table: Table) -> None:
    with patch.object(mirror, "bring_up_to_date", refuse), pytest.raises(StorageFailed):
        expire(table)
    assert table.remove_orphan_files(TOMORROW).kinds["data"]


def refuse(meta) -> None:
    raise StorageFailed("not now")


def drop(table: Table) -> None:
    lake_on(table.meta.env.storage).drop_table("d.t")


def copy(table: Table) -> None:
    with patch("lsmlake.api.table_verbs.sharing.storage_at", lambda url, options: table.meta.env.storage):
        table.copy("", name="d.u")
        table.copy("", name="d.u")


PROGRAMS = {
    "expire": expire,
    "housekeeping": housekeeping,
    "rollback": rollback,
    "replace a tag": replace_tag,
    "delete a tag": lambda table: table.delete_tag("old"),
    "delete a branch": lambda table: table.delete_branch("b"),
    "truncate": truncate,
    "drop a partition": drop_partition,
    "compaction": compaction,
    "changelogs": changelogs,
    "forward": forward,
    "orphans": orphans,
    "drop": drop,
    "copy": copy,
}


@pytest.mark.parametrize("lags", [False, True], ids=["up to date", "lags behind"])
@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_no_file_is_deleted_that_the_newest_metadata_names(program: Callable[[Table], object], lags: bool):
    guard = Guard(world())
    table = opened(guard)
    if lags:
        table.alter(set_option("metadata.iceberg", "false"))
        table.upsert(rows(50), compact=False)
    program(table)
    deleted_data = [path for path in guard.deleted if path.endswith(".parquet")]
    assert deleted_data or program is copy, "the test deletes nothing"
    there = {entry.path for entry in guard.inner.list("")}
    assert guard.named() <= there


def test_a_crash_leaves_no_metadata_that_names_a_missing_file():
    def run(storage: Storage) -> None:
        expire(opened(storage))

    for found in every_fault(run, world, one_in=one_in(16)):
        guard = Guard(found.world)
        assert guard.named() <= {entry.path for entry in found.world.list("")}
        table = opened(guard)
        table.remove_orphan_files(TOMORROW)
        assert guard.named() <= {entry.path for entry in found.world.list("")}


def test_files_of_a_killed_publisher_are_orphans_after_a_day():
    clock = Clock()
    table = made(clock, **{"metadata.iceberg": "false"})
    table.upsert(rows(2))
    table.publish_iceberg()
    table.delete_keys({"p": [0], "k": [1]}, compact=False)
    expected = {entry.path for entry in clock.storage.list("")}
    for call in range(1, 200):
        dying = FaultStorage(clock.storage).fail_at(call)
        try:
            opened(dying, f"killed{call}x").publish_iceberg()
            break
        except Crash:
            continue
    left = {entry.path for entry in clock.storage.list("")} - expected
    folder = table.meta.paths.iceberg("")
    named = named_by(clock.storage, *newest(clock.storage))
    orphans = {path for path in left if path.startswith(folder) and path not in named}
    assert {re.sub("-.*", "", path.removeprefix(folder)) for path in orphans} == {"snap", "manifest", "dv"}
    assert not table.remove_orphan_files().files
    clock.pass_days(2)
    foreign = f"{folder}snap-7-1-0c0c-1d1d.avro"
    clock.storage.put_if_absent(foreign, b"of another program")
    clock.pass_days(2)
    report = table.remove_orphan_files()
    assert clock.storage.size(foreign) is not None
    assert (set(report.paths), report.kinds) == (orphans, {"Iceberg metadata": len(orphans)})
    assert named <= {entry.path for entry in clock.storage.list("")}


def test_metadata_files_that_are_kept_keep_theirs_and_older_ones_are_orphans():
    clock = Clock()
    table = made(clock)
    with patch.object(table_metadata, "KEPT", 1 << 30):
        for n in range(22):
            table.upsert(rows(n))
    clock.pass_days(2)
    assert set(table.remove_orphan_files().paths) == {table.meta.paths.iceberg(f"v{n}.metadata.json") for n in (1, 2)}
    table.expire_snapshots(retain_max=1, retain_min=1)
    clock.pass_days(2)
    report = table.remove_orphan_files()
    assert [published.name_of(n) for n in published.numbers(table.meta)] == [f"v{n}.metadata.json" for n in range(4, 24)]
    assert set(report.kinds) <= {"Iceberg metadata"}


def test_without_readable_metadata_of_iceberg_no_orphan_is_deleted():
    clock = Clock()
    table = made(clock)
    table.upsert(rows(2))
    folder = table.meta.paths.iceberg("")[:-1]
    listed = next(entry.path for entry in clock.storage.list(folder) if "/snap-1-" in entry.path)
    with clock.storage.write(listed) as sink:
        sink.write(b"broken")
    clock.pass_days(2)
    with pytest.raises(Corrupt, match="none is deleted"):
        table.remove_orphan_files()


def test_the_first_publication_is_seen_by_those_who_delete_files():
    """It is suspended after it has read the snapshots; meanwhile they expire."""
    guard = Guard(MemoryStorage())
    table = new_lake(guard).create_table(
        "d.t", "p INT, k BIGINT, v BIGINT", primary_key=["p", "k"], options=ON | {"metadata.iceberg": "false"}
    )
    for n in (2, 3):
        table.upsert(rows(n))
    table.compact(full=True)
    put, done = type(guard).put_if_absent, []

    def suspended(self, path: str, data: bytes) -> bool:
        if path.endswith("v1.metadata.json") and not done:
            done.append(path)
            expire(opened(guard))
        return put(self, path, data)

    with patch.object(Guard, "put_if_absent", suspended):
        table.publish_iceberg()
    assert done and guard.named() <= {entry.path for entry in guard.inner.list("")}
    assert [one["snapshot-id"] for one in published.current(table.meta).content["snapshots"]] == [table.version.number]
