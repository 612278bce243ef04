"""`verify` compares the Iceberg metadata with the table: each kind of damage is a finding that names the file and the cure;
metadata that lags behind is none; a table without it is asked for one request."""

from __future__ import annotations

import io
import json
import logging
import re
from collections.abc import Callable
from unittest.mock import patch

import fastavro
import pytest
from effort import one_in
from faults import FaultStorage, every_fault, interleavings
from iceberg_reader import IcebergReader
from storage_clock import Clock, aged
from strategies import contents, copied
from test_iceberg_deletion import ROOT, TOMORROW, history, made, named_by, newest, opened, rows

from lsmlake import add_column, drop_column, set_option
from lsmlake.format import puffin
from lsmlake.format.deletion_vector import DeletionVector
from lsmlake.iceberg import published
from lsmlake.iceberg.avro import CURE
from lsmlake.iceberg.check import iceberg_findings
from lsmlake.storage.memory import MemoryStorage
from lsmlake.storage.storage import Storage, read_bytes


@pytest.fixture(autouse=True)
def addressed():
    with patch.object(MemoryStorage, "place", lambda self, path: f"{ROOT}{path}"):
        yield


@pytest.fixture(scope="module")
def sound() -> MemoryStorage:
    with patch.object(MemoryStorage, "place", lambda self, path: f"{ROOT}{path}"):
        clock = Clock()
        table = made(clock, **{"compaction.tier-runs": "9", "compaction.reclaim-dead-percent": "100"})
        for n in (2, 3, 4):
            table.upsert(rows(n))
        table.create_tag("one", snapshot=1)
        table.compact(full=True)
        table.delete("k = 3")
        table.delete_keys({"p": [0], "k": [1]}, compact=False)
        return clock.storage


@pytest.fixture
def world(sound) -> MemoryStorage:
    return copied(sound)


def write(storage: Storage, path: str, data: bytes) -> None:
    with storage.write(path) as sink:
        sink.write(data)


def metadata(storage: Storage, edit: Callable[[dict], object]) -> None:
    """Edit the newest metadata file."""
    (path,) = newest(storage)
    content = json.loads(read_bytes(storage, path))
    edit(content)
    write(storage, path, json.dumps(content).encode())


def avro(storage: Storage, path: str, edit: Callable[[list[dict]], object]) -> int:
    """Edit the records of an Avro file; returns its new length."""
    reader = fastavro.reader(io.BytesIO(read_bytes(storage, path)))
    records, sink = list(reader), io.BytesIO()
    header = {name: value for name, value in reader.metadata.items() if not name.startswith("avro.")}
    edit(records)
    if "lsmlake" in header:
        header["lsmlake"] = json.dumps((json.loads(header["lsmlake"]) * 2)[: len(records)])
    fastavro.writer(sink, reader.writer_schema, records, codec="deflate", metadata=header)
    write(storage, path, sink.getvalue())
    return len(sink.getvalue())


def lists(storage: Storage) -> list[str]:
    (path,) = newest(storage)
    return [one["manifest-list"].removeprefix(ROOT) for one in json.loads(read_bytes(storage, path))["snapshots"]]


def named(storage: Storage, content: int) -> tuple[str, str]:
    """A manifest list, and a manifest of it with a live entry of this content."""
    for path in reversed(lists(storage)):
        for one in fastavro.reader(io.BytesIO(read_bytes(storage, path))):
            manifest = one["manifest_path"].removeprefix(ROOT)
            entries = fastavro.reader(io.BytesIO(read_bytes(storage, manifest)))
            if any(entry["data_file"]["content"] == content and entry["status"] != 2 for entry in entries):
                return path, manifest
    raise AssertionError("there is none")


def entry(content: int, edit: Callable[[dict], object]) -> Callable[[Storage], str]:
    """Damage of one live entry, in all else consistent; returns the path of its manifest."""

    def damage(storage: Storage) -> str:
        _, manifest = named(storage, content)
        chosen = live(storage, manifest, content)

        def change(found: list[dict]) -> None:
            edit(next(one for one in found if one["data_file"]["file_path"] == chosen["data_file"]["file_path"]))

        length = avro(storage, manifest, change)
        for listed in lists(storage):
            avro(
                storage,
                listed,
                lambda found: [one.update(manifest_length=length) for one in found if one["manifest_path"] == ROOT + manifest],
            )
        return manifest

    return damage


def records(storage: Storage, path: str) -> list[dict]:
    return list(fastavro.reader(io.BytesIO(read_bytes(storage, path))))


def live(storage: Storage, manifest: str, content: int) -> dict:
    """The first live entry of this content."""
    return next(one for one in records(storage, manifest) if one["data_file"]["content"] == content and one["status"] != 2)


def without(content: int) -> Callable[[Storage], str]:
    """An entry is missing, in all else consistent."""

    def damage(storage: Storage) -> str:
        _, manifest = named(storage, content)
        dropped = live(storage, manifest, content)
        length = avro(storage, manifest, lambda found: found.remove(dropped))
        name = ("existing", "added")[dropped["status"]]

        def change(found: list[dict]) -> None:
            for one in found:
                if one["manifest_path"] == ROOT + manifest:
                    one["manifest_length"] = length
                    one[f"{name}_files_count"] -= 1
                    one[f"{name}_rows_count"] -= dropped["data_file"]["record_count"]

        for listed in lists(storage):
            avro(storage, listed, change)
        return ""

    return damage


def other_positions(storage: Storage) -> str:
    """A vector of the same size that marks another row."""
    _, manifest = named(storage, 1)
    file = live(storage, manifest, 1)["data_file"]
    path, of = file["file_path"].removeprefix(ROOT), file["referenced_data_file"]
    vector = puffin.decode(read_bytes(storage, path), path)[of]
    wrong = DeletionVector.of((vector.positions() + 1) % 3)
    assert len(wrong) == len(vector)
    write(storage, path, puffin.encode({of: wrong})[0])
    return path


def gone(which: Callable[[Storage], str]) -> Callable[[Storage], str]:
    def damage(storage: Storage) -> str:
        path = which(storage)
        storage.delete(path)
        return path

    return damage


def broken(which: Callable[[Storage], str]) -> Callable[[Storage], str]:
    def damage(storage: Storage) -> str:
        path = which(storage)
        data = bytearray(read_bytes(storage, path))
        data[len(data) // 2] ^= 255
        write(storage, path, bytes(data))
        return path

    return damage


def edited(edit: Callable[[dict], object]) -> Callable[[Storage], str]:
    def damage(storage: Storage) -> str:
        metadata(storage, edit)
        return newest(storage)[0]

    return damage


def a_vector(storage: Storage) -> str:
    _, manifest = named(storage, 1)
    return live(storage, manifest, 1)["data_file"]["file_path"].removeprefix(ROOT)


def bound(file: dict) -> None:
    file["data_file"]["upper_bounds"][1]["value"] = b"\0" * 8


def replaced(which: Callable[[Storage], str], old: bytes, new: bytes) -> Callable[[Storage], str]:
    """Damage of the header of an Avro file, which is not compressed, and has no checksum."""

    def damage(storage: Storage) -> str:
        path = which(storage)
        data = read_bytes(storage, path)
        assert data.count(old) == 1 and len(old) == len(new)
        write(storage, path, data.replace(old, new))
        return path

    return damage


DAMAGES = {
    "list gone": (gone(lambda storage: lists(storage)[-1]), "is missing"),
    "manifest gone": (gone(lambda storage: named(storage, 0)[1]), "is missing"),
    "vector gone": (gone(a_vector), "is missing"),
    "list broken": (broken(lambda storage: lists(storage)[-1]), "cannot be read|malformed"),
    "vector broken": (broken(a_vector), ""),
    "manifest cut": (lambda storage: write(storage, named(storage, 0)[1], b""), "another length"),
    "data entry lacks": (without(0), "a data file of the snapshot is not published"),
    "equality deletes lack": (without(2), "an equality-delete file of the snapshot is not published"),
    "vector lacks": (without(1), "the vector of .* is not published"),
    "sequence": (entry(0, lambda one: one.update(sequence_number=0)), "the entry of .* is wrong"),
    "sequence of deletes": (entry(2, lambda one: one.update(sequence_number=99)), "the entry of .* is wrong"),
    "equality ids": (entry(2, lambda one: one["data_file"].update(equality_ids=[3])), "the entry of .* is wrong"),
    "another file": (entry(0, lambda one: one["data_file"].update(file_path="x")), "that the snapshot has not|is not published"),
    "partition": (entry(0, lambda one: one["data_file"]["partition"].update(p=7)), "bounds|the entry of .* is wrong"),
    "bound": (entry(0, bound), "statistics of .* are wrong"),
    "row ids": (entry(0, lambda one: one["data_file"].update(first_row_id=1 << 40)), "row id"),
    "vector of other rows": (other_positions, "the vector marks other rows"),
    "place of a vector": (entry(1, lambda one: one["data_file"].update(content_offset=5)), "the entry of a vector is wrong"),
    "field of a list": (
        replaced(lambda storage: lists(storage)[-1], b'"field-id": 504', b'"field-id": 904'),
        "a field with another id",
    ),
    "field of a manifest": (
        replaced(lambda storage: named(storage, 0)[1], b'"field-id": 103', b'"field-id": 903'),
        "a field with another id",
    ),
    "content of a manifest": (
        replaced(lambda storage: named(storage, 0)[1], b"format-version\x023", b"format-version\x021"),
        "the header of a manifest is wrong",
    ),
    "schema": (edited(lambda content: content["schemas"][0]["fields"][0].update(name="q")), "another schema"),
    "spec": (edited(lambda content: content["partition-specs"][0]["fields"].clear()), "another partition spec"),
    "ref": (edited(lambda content: content["refs"]["one"].update({"snapshot-id": 99})), "'one' names no snapshot"),
    "current": (edited(lambda content: content.update({"current-snapshot-id": 1})), "that of the branch main"),
    "last sequence": (edited(lambda content: content.update({"last-sequence-number": 1})), "greater sequence number"),
    "next row": (edited(lambda content: content.update({"next-row-id": 1})), "next row id"),
    "malformed": (edited(lambda content: content["snapshots"][0].pop("summary")), "malformed"),
    "json": (broken(lambda storage: newest(storage)[0]), "cannot be read|malformed|.*"),
    "hint": (gone(lambda storage: "d.db/t/metadata/version-hint.text"), "the hint .* is missing"),
}


def test_sound_metadata_has_no_finding(world):
    assert opened(world).verify() == []
    assert {0, 1, 2} == {content for content in range(3) if named(world, content)}


@pytest.mark.parametrize(("damage", "what"), DAMAGES.values(), ids=DAMAGES)
def test_damage_is_a_finding(world, damage, what):
    where = damage(world)
    table = opened(world)
    found = iceberg_findings(table.meta, lambda what: None)
    assert found
    assert any(re.search(what, one.what) for one in found), found
    assert not where or where in {one.where for one in found}
    assert all(CURE in one.what for one in found)


@pytest.mark.parametrize("damage", ["vector of other rows", "bound", "sequence", "ref", "schema", "malformed", "hint"])
def test_the_cure_cures(world, damage):
    DAMAGES[damage][0](world)
    table = opened(world)
    found = table.repair_iceberg()
    assert found and all(CURE in one.what for one in found)
    assert opened(world, "again").verify() == []
    assert table.repair_iceberg() == []
    same(world)


def same(storage: Storage) -> None:
    """All snapshots, tags and branches, as a reader sees them that is written from the specification."""
    table, (path,) = opened(storage, "same"), newest(storage)
    found = IcebergReader(json.loads(read_bytes(storage, path)), lambda uri: read_bytes(storage, uri.removeprefix(ROOT)))
    refs, branches = found.metadata["refs"], table.branches()["branch_name"].to_pylist()
    scans = {refs[name]["snapshot-id"]: table.scan(branch=name) for name in branches}
    scans |= {number: table.scan(snapshot=number) for number in table.snapshots()["snapshot_id"].to_pylist()}
    assert found.metadata["current-snapshot-id"] == table.version.number
    assert scans.keys() <= found.snapshots.keys()
    for number, scan in scans.items():
        assert sorted(found.rows(number), key=repr) == sorted(scan.to_arrow().to_pylist(), key=repr)


HOW: dict[str, Callable[[bytes], bytes | None]] = {
    "gone": lambda data: None,
    "empty": lambda data: b"",
    "cut": lambda data: data[: len(data) // 2],
    "flipped": lambda data: data[: len(data) // 2] + bytes([data[len(data) // 2] ^ 255]) + data[len(data) // 2 + 1 :],
    "zeros": lambda data: bytes(len(data)),
    "other": lambda data: b"[1]",
}


def test_any_damage_of_any_file_is_found_and_repaired_and_commits_go_on(world):
    """Of older metadata files, no reader needs one, and nobody can tell whether one is missing."""
    table = opened(world, "branch")
    table.create_branch("b").upsert(rows(9))
    table.branch("b").create_tag("t")
    start = copied(world)
    newest_files = {newest(start)[0], "d.db/t/metadata/version-hint.text"}
    cases = [(path, how) for path in contents(start, "d.db/t/metadata") for how in HOW]
    for path, how in cases[:: one_in(29)]:
        damaged = copied(start)
        made = HOW[how](read_bytes(start, path))
        if made is None:
            damaged.delete(path)
        else:
            write(damaged, path, made)
        is_older = path.endswith(".json") and path not in newest_files
        findings = iceberg_findings(opened(damaged, "verify").meta, lambda what: None)
        unseen = (is_older and how == "gone") or (path.endswith("hint.text") and how == "cut")  # 10 -> 1 is a hint that lags
        assert findings or unseen, (path, how)
        later = copied(damaged)
        opened(later, "commit").upsert(rows(70))
        assert newest_id(later) == opened(later).version.number, "no damage stops publications"
        if path in newest_files:
            assert iceberg_findings(opened(later, "after").meta, lambda what: None) == []
            opened(damaged, "publish").publish_iceberg()
            assert iceberg_findings(opened(damaged, "after").meta, lambda what: None) == []
        opened(later, "expiry").expire_snapshots(retain_max=2, retain_min=1)
        opened(later, "repair").repair_iceberg()
        assert opened(later, "after").verify() == []
        same(later)
        opened(aged(later), "orphans").remove_orphan_files(TOMORROW)
        same(later)


@pytest.mark.parametrize("how", ["unreadable", "a list is gone"])
def test_a_repair_of_snapshots_is_published_at_once(world, how):
    table = opened(world)
    table.upsert(rows(20))
    number = table.version.number
    if how == "unreadable":
        write(world, table.meta.paths.snapshot(number), b"{")
        drop = [number]
    else:
        world.delete(table.meta.paths.manifest(table.version.snapshot.delta_manifest_list.name))
        drop = []
    repaired = opened(world, "repair")
    sound = repaired.repair_snapshots().newest_sound
    assert sound == number - 1
    repaired.repair_snapshots(roll_back_to=sound, drop=drop)
    (path,) = newest(world)
    found = IcebergReader(json.loads(read_bytes(world, path)), lambda uri: read_bytes(world, uri.removeprefix(ROOT)))
    assert found.metadata["current-snapshot-id"] == number + 1
    assert sorted(found.rows(), key=repr) == sorted(opened(world, "look").scan().to_arrow().to_pylist(), key=repr)
    assert iceberg_findings(opened(world, "look").meta, lambda what: None) == [] or not drop


def test_a_snapshot_that_cannot_be_read_is_left_out(world):
    """All metadata is made anew, with what is sound."""
    table = opened(world)
    number = table.version.number
    write(world, table.meta.paths.snapshot(number - 1), b"{")
    for path in contents(world, "d.db/t/metadata"):
        world.delete(path)
    opened(world, "later").upsert(rows(30))
    (path,) = newest(world)
    numbers = [one["snapshot-id"] for one in json.loads(read_bytes(world, path))["snapshots"]]
    assert numbers == [one for one in range(1, number + 2) if one != number - 1]


@pytest.mark.parametrize("content", [0, 1])
def test_a_commit_that_removes_a_file_whose_entry_is_missing_makes_the_metadata_anew(world, content, caplog):
    """Of a data file or a vector. Otherwise no later commit could be published."""
    without(content)(world)
    opened(world, "later").truncate()
    assert "is made anew" in caplog.text
    assert opened(world, "look").verify() == []
    assert newest_id(world) == opened(world, "look").version.number


def newest_id(storage: Storage) -> int:
    (path,) = newest(storage)
    return json.loads(read_bytes(storage, path))["current-snapshot-id"]


def test_a_missing_data_file_is_a_finding(world):
    """Of a snapshot that the table has, by the check of the table; of one that only lagging metadata has, by this one."""
    table = opened(world)
    table.alter(set_option("metadata.iceberg", "false"))
    with patch("lsmlake.refs.file_references.before_deletion"), patch("lsmlake.storage.memory.MemoryStorage.delete_all"):
        table.delete_tag("one")
        table.expire_snapshots(retain_max=1, retain_min=1)
    assert table.verify() == [], "metadata that lags behind is no damage"
    (manifest,) = (one["manifest_path"].removeprefix(ROOT) for one in records(world, lists(world)[0]))
    world.delete(records(world, manifest)[0]["data_file"]["file_path"].removeprefix(ROOT))
    assert any("names a file that is missing" in one.what and 1 in one.snapshots for one in table.verify())


def test_metadata_that_lags_behind_is_logged(world, caplog):
    table = opened(world)
    table.alter(set_option("metadata.iceberg", "false"))
    table.upsert(rows(8))
    table.create_tag("two")
    with caplog.at_level(logging.INFO, "lsmlake"):
        assert table.verify() == []
    assert "lags behind snapshot" in caplog.text and "the tags in its Iceberg metadata lag behind" in caplog.text


def test_a_table_without_iceberg_metadata_is_asked_for_one_request():
    clock = Clock()
    made(clock, **{"metadata.iceberg": "false"}).upsert(rows(2))
    storage = FaultStorage(clock.storage)
    assert opened(storage).verify() == []
    assert [verb for verb, path in storage.calls if path.startswith("d.db/t/metadata")] == ["list"]


def test_statistics_of_a_column_that_was_dropped_later_are_no_finding():
    table = made(Clock())
    table.alter(add_column("extra", "INT"))
    table.upsert([row | {"extra": 5} for row in rows(2).to_pylist()])
    table.compact(full=True)
    table.alter(drop_column("extra"))
    table.upsert(rows(3))
    assert table.verify() == []


def test_a_publication_during_the_check_is_no_finding(world):
    table, put = opened(world), published.current
    looks = []

    def publishing(meta):
        looks.append(1)
        found = put(meta)
        if len(looks) == 1:
            other = opened(world, "other")
            other.upsert(rows(9))
            other.expire_snapshots(retain_max=1, retain_min=1)
        return found

    with patch.object(published, "current", publishing):
        assert iceberg_findings(table.meta, lambda what: None) == []


def behind() -> MemoryStorage:
    """A published table, with commits, a tag and a branch since, whose publication was not possible."""
    world = copied(history())
    table = opened(world, "behind")
    table.alter(set_option("metadata.iceberg", "false"))
    table.upsert(rows(50), compact=False)
    table.create_tag("new")
    table.branch("b").upsert(rows(51))
    table.create_branch("c").upsert(rows(52))
    table.delete("k = 7")
    return world


@pytest.mark.parametrize(("mode", "few"), [("crash", 6), ("error", 30)])
def test_a_publication_that_fails_at_any_call_leaves_sound_metadata(mode, few):
    """Before the next publication, and after it."""
    start = behind()
    references = {"main", "b", "c", "old", "new"}

    def run(storage: Storage) -> None:
        opened(storage, "first").publish_iceberg()

    for found in every_fault(run, lambda: copied(start), mode, one_in=one_in(few)):
        table = opened(found.world, "second")
        assert iceberg_findings(table.meta, lambda what: None) == []
        table.publish_iceberg()
        assert iceberg_findings(table.meta, lambda what: None) == []
        content = published.current(table.meta).content
        assert content["refs"].keys() == references and content["current-snapshot-id"] == table.version.number


def test_two_publishers_in_any_order_leave_sound_metadata():
    start = behind()

    def publishing(name: str) -> Callable[[Storage], None]:
        return lambda storage: opened(storage, name).publish_iceberg()

    orders = interleavings(publishing("a"), publishing("b"), lambda: copied(start), switches_max=1, one_in=one_in(9))
    tried = 0
    for found in orders:
        tried += 1
        table = opened(found.world, "later")
        assert iceberg_findings(table.meta, lambda what: None) == []
        content = published.current(table.meta).content
        assert content["current-snapshot-id"] == table.version.number
        folder = {entry.path for entry in found.world.list("d.db/t/metadata") if not entry.path.endswith(("json", "text"))}
        assert folder <= named_by(found.world, *newest(found.world)), "the one who lost deletes what it wrote"
    assert tried > 1
