"""Copies of tables, and warehouses that move: what is read there equals what was written here, whatever was interrupted."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pyarrow as pa
import pytest
from command_line import call, complaint
from effort import one_in
from faults import Crash, FaultStorage, every_fault
from golden.make import answer
from naive import naive
from object_servers import Server
from storage_contract import put
from strategies import contents, copied, filled, lake_on, multiset, new_lake, rows_of, tiny_units

import lsmlake
from lsmlake.api.table import Table
from lsmlake.errors import Corrupt, InvalidQuery, SnapshotNotFound, StorageFailed, TableExists
from lsmlake.maintain.copy import CopyReport, copy
from lsmlake.read.travel import Moment
from lsmlake.schema.envelope import unwrap
from lsmlake.storage.local import LocalStorage
from lsmlake.storage.memory import MemoryStorage
from lsmlake.storage.storage import Storage

GOLDEN = Path(__file__).parents[1] / "golden" / "v1" / "warehouse"
KEYED = {"bucket": 2, "file-index.bloom-filter.columns": "v", "file-index.in-manifest-threshold": "1 b"}


def rows(start: int, stop: int, value: str) -> pa.Table:
    return pa.table({"k": range(start, stop), "v": [value] * (stop - start)})


@cache
def world() -> MemoryStorage:
    """Vectors, rows at level 0, deletes, file indexes, statistics, a changelog, two schemas, a tag and a branch."""
    storage = MemoryStorage()
    made = new_lake(storage).create_table(
        "d.t", "k BIGINT, v STRING", primary_key=["k"], options={**KEYED, "changelog-producer": "lookup"}
    )
    made.upsert(rows(0, 60, "a"), writer_id="w", commit_id=7)
    made.upsert(rows(5, 20, "b"))
    made.create_tag("early")
    made.create_branch("side").upsert(rows(100, 110, "s"))
    made.alter(lsmlake.add_column("note", "STRING", default="none"))
    made.analyze()
    made.delete_keys(rows(0, 3, "").select(["k"]), compact=False)
    made.upsert({"k": [1, 50], "v": ["c", "c"], "note": ["n", None]}, compact=False)
    made.expire_snapshots(retain_max=2, retain_min=1)
    assert {"index", "puffin", "parquet"} <= {path.rpartition(".")[2] for path in contents(storage)}
    return storage


def table(storage: Storage | None = None) -> Table:
    return lake_on(copied(world()) if storage is None else storage, "look-").table("d.t")


def everything(found: Table, **how: object) -> list[tuple]:
    return multiset(rows_of(found.scan(**how).to_arrow()))


def copy_to(target: Storage, source: Storage | None = None, name: str = "d.t", **moment: object) -> CopyReport:
    return copy(table(source).meta, name, Moment(**moment), "UTC", target, None)


def files_of(storage: Storage) -> dict[str, bytes]:
    """All files of a copy but those that are made anew: schemas, snapshots and the mark of the database."""
    return {path: data for path, data in contents(storage, "d.db/t").items() if path.split("/")[2] not in ("schema", "snapshot")}


# -- copies -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["file", "s3", "memory"])
def test_a_copy_is_a_table_of_its_own(kind, tmp_path, request):
    source = table()
    before = contents(source.meta.env.storage)
    server: Server | None = request.getfixturevalue("s3") if kind == "s3" else None
    url = {"file": str(tmp_path / "there"), "memory": f"memory://{tmp_path.name}"}.get(kind) or server.warehouse()
    options = server.options if server else None
    report = source.copy(url, storage_options=options)
    made = lsmlake.connect(url, storage_options=options).table("d.t")
    assert everything(made) == everything(source)
    assert made.snapshots()["snapshot_id"].to_pylist() == [source.meta.snapshots.latest_id()] == [report.snapshot]
    assert made.schemas()["schema_id"].to_pylist() == [0, 1]
    assert (made.options, made.comment, made.primary_key) == (source.options, source.comment, source.primary_key)
    assert made.tags().num_rows == made.branches().num_rows == 0
    assert made.system_table("statistics").num_rows == 1
    assert made.verify() == []
    files = files_of(made.meta.env.storage)
    assert {path: before.get(path) for path in files} == files, "byte for byte"
    assert (report.files, report.bytes, report.reused) == (len(files), sum(map(len, files.values())), 0)
    assert made.meta.paths.table_uuid != source.meta.paths.table_uuid

    replayed = made.upsert(rows(0, 60, "a"), writer_id="w", commit_id=7, evolve=True)
    assert replayed.id == report.snapshot, "the commit ids of writers go along"
    for number in range(3):
        made.upsert({"k": [number], "v": ["new"], "note": [None]})
    made.compact(full=True)
    made.expire_snapshots(retain_max=1, retain_min=1, older_than="2100-01-01")
    made.remove_orphan_files("2100-01-01")
    assert made.verify() == [] and made.get({"k": 2})["v"] == "new"
    assert contents(source.meta.env.storage) == before, "neither concerns the other"


@pytest.mark.parametrize(
    ("moment", "count"), [({}, 58), ({"tag": "early"}, 60), ({"snapshot": 5}, 57), ({"timestamp": "2100-01-01"}, 58)]
)
def test_any_snapshot_can_be_copied(moment, count):
    target = MemoryStorage()
    copy_to(target, **moment)
    assert everything(table(target)) == everything(table(), **moment)
    assert table(target).scan().count() == count
    assert table(target).verify() == []


def test_a_branch_a_rolled_back_table_and_one_without_rows():
    lake = lake_on(copied(world()), "more-")
    lake.table("d.t").rollback(tag="early")
    lake.create_table("d.empty", "k BIGINT", primary_key=["k"])
    lake.create_table("d.log", "k BIGINT", options={"bucket": 2, "bucket-key": "k"}).append({"k": [1, 2]})
    for name in ("d.t", "d.t$branch_side", "d.empty", "d.log"):
        source, target = lake.table(name), MemoryStorage()
        copy(source.meta, name, Moment(), "UTC", target, None)
        made = lake_on(target, "look-").table(name.partition("$")[0])
        assert everything(made) == everything(source)
        assert made.schema == source.schema
        assert made.verify() == []
        (made.append if made.version.schema.append_only else made.upsert)(source.scan().to_arrow())
        made.expire_snapshots(retain_max=1, retain_min=1, older_than="2100-01-01")
        assert made.verify() == []


def test_a_copy_in_the_same_warehouse_has_another_name():
    source = table()
    storage = source.meta.env.storage
    with pytest.raises(TableExists, match=r"no copy of this one at snapshot 6.*another name"):
        copy(source.meta, "d.t", Moment(), "UTC", storage)
    copy(source.meta, "d.t", Moment(), "UTC", storage, "e.u")
    made = lake_on(storage, "look-").table("e.u")
    assert everything(made) == everything(source)
    lake_on(storage).drop_table("d.t")
    assert made.verify() == []


def test_another_table_is_not_overwritten():
    target = MemoryStorage()
    new_lake(target).create_table("d.t", "k BIGINT", primary_key=["k"]).upsert({"k": [1]})
    before = contents(target)
    with pytest.raises(TableExists):
        copy_to(target)
    assert contents(target) == before

    other = MemoryStorage()
    copy_to(other, tag="early")
    with pytest.raises(TableExists, match="no copy of this one at snapshot 6"):
        copy_to(other)
    path = next(path for path in contents(other) if path.endswith("schema-0"))
    put(other, path, b"{}")
    with pytest.raises(TableExists, match="cannot be read"):
        copy_to(other)


@pytest.mark.parametrize("name", ["t", "a/b.t", "../d.t", "d..", "d.t$branch_b", ""])
def test_a_name_of_the_copy_is_that_of_a_table(name):
    if name:
        with pytest.raises(InvalidQuery):
            copy(table().meta, "d.t", Moment(), "UTC", MemoryStorage(), name)


@pytest.mark.parametrize("mode", ["crash", "error"])
def test_a_copy_that_fails_is_no_table_and_the_next_one_goes_on(mode):
    """Wherever it ends: at each call to the target, before and after its effect."""
    with tiny_units():
        whole = MemoryStorage()
        report = copy_to(whole)
    expected, seen = everything(table(whole)), set()
    source = copied(world())

    def run(storage: Storage) -> object:
        return copy_to(storage, source)

    for done in every_fault(run, MemoryStorage, mode, one_in=one_in(5 if mode == "error" else 2)):
        assert isinstance(done.outcome, (Crash, StorageFailed)) or mode == "error"
        there = "t" in (lake_on(done.world).tables("d") if lake_on(done.world).databases() else [])
        assert there or isinstance(done.outcome, BaseException)
        if there:
            assert everything(table(done.world)) == expected
        again = copy_to(done.world, source)
        seen.add((there, again.reused > 0))
        assert (again.files, again.bytes) == (report.files, report.bytes)
        assert everything(table(done.world)) == expected
        assert naive(table(done.world)).missing() == set()
        assert copy_to(done.world, source).reused == report.files
    assert (False, True) in seen
    assert contents(source) == contents(world()), "no pin stays"


def test_lost_and_damaged_files_of_a_copy_are_mended():
    target = MemoryStorage()
    report = copy_to(target)
    before = contents(target)
    for number, (path, data) in enumerate(files_of(target).items()):
        target.delete(path)
        if number % 3:
            put(target, path, bytes([data[0] ^ 1]) + data[1:] if number % 3 == 1 else data[:-1])
    assert copy_to(target) == report, "which reused none"
    assert contents(target) == before


@pytest.mark.parametrize("suffix", [".parquet", ".puffin", ".index"])
def test_damage_of_the_source_is_not_copied(suffix):
    """Nor is it where a manifest has been read before: the copy reads everything anew."""
    source = copied(world())
    handle, unharmed = table(source), MemoryStorage()
    copy_to(unharmed)
    handle.scan().to_arrow()
    path = next(path for path in files_of(unharmed) if path.endswith(suffix))
    data = contents(source)[path]
    for damaged in (data[:-1] + bytes([data[-1] ^ 1]), data[:-1], None):
        target = MemoryStorage()
        source.delete(path) if damaged is None else put(source, path, damaged)
        with pytest.raises(Corrupt, match=path.rpartition("/")[2].replace(".", r"\.")):
            copy(handle.meta, "d.t", Moment(), "UTC", target)
        assert lake_on(target).databases() == []
        put(source, path, data)


def test_a_target_that_returns_other_bytes_is_found_out():
    class Forgetful(MemoryStorage):
        def read(self, path: str) -> pa.NativeFile:
            found = super().read(path)
            return pa.BufferReader(bytes(found.size())) if path.endswith(".parquet") else found

    target = Forgetful()
    with pytest.raises(StorageFailed, match="does not return what was written"):
        copy_to(target)
    assert lake_on(target).databases() == []


def test_a_snapshot_that_expires_meanwhile_keeps_its_files_until_it_is_copied():
    source, target = copied(world()), MemoryStorage()
    expected, expired = everything(table(source)), []

    class Slow(MemoryStorage):
        def list(self, prefix: str) -> Iterator:
            if not expired:  # after the pin, before the first file
                busy = lake_on(source, "busy-").table("d.t")
                busy.upsert({"k": [1], "v": ["later"], "note": [None]})
                busy.compact(full=True)
                expired.append(busy.expire_snapshots(retain_max=1, retain_min=1, older_than="2100-01-01"))
            return super().list(prefix)

    target = Slow()
    copy_to(target, source)
    assert expired[0].snapshots == 3
    assert everything(table(target)) == expected
    left = table(source)
    assert left.verify() == [] and naive(left).unreferenced() == [], "the pin is gone, and what it held"


def test_a_source_that_cannot_be_written_is_copied_without_a_pin(tmp_path):
    class ReadOnly(MemoryStorage):
        def put_if_absent(self, path: str, data: bytes) -> bool:
            raise StorageFailed("cannot create", where=path, cure="get the permission")

        def write(self, path: str) -> object:
            raise StorageFailed("cannot write", where=path, cure="get the permission")

    source, target = filled(ReadOnly(), contents(world())), MemoryStorage()
    copy_to(target, source)
    assert everything(table(target)) == everything(table())
    gone = next(path for path in contents(target) if path.endswith(".parquet"))
    source.delete(gone)
    with pytest.raises(Corrupt, match="missing"):
        copy_to(MemoryStorage(), source)
    expired = table().meta.paths.snapshot(6)
    source.delete(expired)
    filled(source, {expired: contents(world())[table().meta.paths.snapshot(1)]})  # a mark
    with pytest.raises(SnapshotNotFound):
        copy_to(MemoryStorage(), source, snapshot=6)


def test_each_file_takes_one_write_and_one_read(tmp_path):
    target = FaultStorage(MemoryStorage())
    report = copy_to(target)
    verbs = [verb for verb, path in target.calls if path.split("/")[2:3] not in (["schema"], ["snapshot"])]
    assert verbs.count("write-publish") == verbs.count("read") == report.files
    assert verbs.count("list") == 1 and verbs.count("size") == 0
    again = FaultStorage(target.inner)
    copy_to(again)
    assert "write-begin" not in {verb for verb, _ in again.calls}


def test_copy_on_the_command_line(tmp_path):
    here, there = str(tmp_path / "here"), str(tmp_path / "there")
    for path, data in contents(world()).items():
        put(LocalStorage(here), path, data)
    first = call("copy", "d.t", there, "-w", here)
    assert re.fullmatch(rf"d\.t: snapshot 6 copied to d\.t in {there}: \d+ files, \S+ \S+\n", first)
    assert re.search(r": (\d+) files, .*, \1 of them were there already\n", call("copy", "d.t", there, "-w", here))
    assert complaint("copy", "d.t", there, "--tag", "early", "-w", here) == (
        "d.db/t: the target holds a table d.t that is no copy of this one at snapshot 2; "
        "add --name DATABASE.TABLE, or drop that table there first"
    )
    assert '"reused": 0' in call("copy", "d.t", there, "--tag", "early", "--name", "d.old", "--json", "-w", here)
    assert everything(lsmlake.connect(there).table("d.old")) == everything(table(), tag="early")


# -- warehouses that move ---------------------------------------------------------------------------------------------


def moved_to_s3(here: Path, server: Server) -> lsmlake.Lake:
    """As any tool that copies files does."""
    lake = lsmlake.connect(server.warehouse(), storage_options=server.options)
    for path, data in contents(LocalStorage(here)).items():
        put(lake.env.storage, path, data)
    return lake


def test_a_warehouse_moves_to_another_folder_and_to_a_store(tmp_path, s3):
    """With its branches, tags, streams and rollbacks; and work goes on there."""
    shutil.copytree(GOLDEN, tmp_path / "first")
    before = lsmlake.connect(tmp_path / "first").table("golden.all")
    before.create_tag("moved")
    expected, side = answer(before), everything(before.branch("side"))
    before.reset_consumer("reader", 3)
    lsmlake.connect(tmp_path / "first").rename_table("golden.all", "golden.renamed")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "first").rename(tmp_path / "elsewhere" / "second")
    for lake in (lsmlake.connect(tmp_path / "elsewhere" / "second"), moved_to_s3(tmp_path / "elsewhere" / "second", s3)):
        found = lake.table("golden.renamed")
        assert answer(found) == expected
        assert everything(found.branch("side")) == side
        assert set(found.tags()["tag_name"].to_pylist()) == {"before", "moved"}
        assert found.consumers()["next_snapshot_id"].to_pylist() == [3]
        assert found.verify() == []
        found.branch("side").upsert(found.branch("side").scan(limit=1).to_arrow())
        assert everything(found.branch("side")) == side


def test_no_file_of_a_table_names_its_place(tmp_path):
    """Neither its folder nor its name, in whatever is compressed."""
    place = tmp_path / "a-very-special-place"
    lake = lsmlake.connect(place)
    lake.create_database("curious")
    made = lake.create_table(
        "curious.sights", "k BIGINT, v STRING", primary_key=["k"], options={**KEYED, "changelog-producer": "input"}
    )
    made.upsert(rows(0, 50, "a"))
    made.upsert(rows(5, 20, "b"))
    made.analyze()
    made.create_tag("here")
    made.create_branch("there").delete_keys(rows(0, 3, "").select(["k"]))
    list(made.follow(start="latest-full", consumer="reader"))
    for path, data in contents(LocalStorage(place)).items():
        kind = data[4:8].decode() if data.startswith(b"LSMK") else None
        if kind:
            payload = unwrap(kind, data, path)
            data = pa.Codec("zstd").decompress(payload[8:], int.from_bytes(payload[:8], "big"), asbytes=True)
        for word in (b"special-place", str(tmp_path).encode(), b"curious", b"sights", b"file:"):
            assert word not in data, path
