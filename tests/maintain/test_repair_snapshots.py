"""Repair of snapshots: the state of each is told, and nothing changes without consent to exactly that."""

from __future__ import annotations

import pytest
from faults import Crash, every_fault
from strategies import contents, copied, lake_on, multiset, new_lake, rows_of

from lsmlake.api.table import Table
from lsmlake.errors import Corrupt, InvalidQuery, LakeError
from lsmlake.storage.memory import MemoryStorage
from lsmlake.storage.storage import Storage

COMMITS = 5


def made() -> MemoryStorage:
    storage = MemoryStorage()
    table = new_lake(storage).create_table("d.t", "k INT, v INT", primary_key=["k"], options={"bucket": 2})
    for number in range(1, COMMITS + 1):
        table.upsert({"k": range(number, number + 6), "v": [number] * 6}, cast=True, writer_id="w", commit_id=number)
    return storage


def opened(storage: Storage, prefix: str = "x-") -> Table:
    return lake_on(storage, prefix).table("d.t")


def rows(storage: Storage, **how: object) -> list[tuple]:
    return multiset(rows_of(opened(storage, "look-").scan(**how).to_arrow()))


def damage(storage: MemoryStorage, path: str) -> None:
    data = bytearray(contents(storage)[path])
    data[len(data) // 2] ^= 64
    storage.delete(path)
    storage.put_if_absent(path, bytes(data))


def unreadable(storage: MemoryStorage, *numbers: int) -> MemoryStorage:
    table = opened(storage)
    for number in numbers:
        damage(storage, table.meta.paths.snapshot(number))
    return storage


def newest_file(storage: MemoryStorage) -> str:
    """A data file that snapshot 5 has and snapshot 4 has not."""
    table = opened(storage)
    return min({*table.files()["file_path"].to_pylist()} - {*table.files(4)["file_path"].to_pylist()})


def states(storage: Storage) -> list[tuple[int, str]]:
    report = opened(storage).repair_snapshots()
    return [(row["snapshot_id"], row["state"]) for row in report.snapshots.to_pylist()]


def test_a_sound_table_needs_no_repair():
    storage = made()
    before = contents(storage)
    report = opened(storage).repair_snapshots()
    assert report.snapshots.to_pylist() == [{"snapshot_id": 5, "state": "sound", "finding": None}]
    assert (report.newest_sound, report.snapshot_id, report.dropped) == (5, None, ())
    assert opened(storage).repair_snapshots(roll_back_to=5).snapshot_id is None
    assert contents(storage) == before


def test_unreadable_newest_snapshots_are_replaced_by_the_newest_sound_one():
    storage = made()
    expected = rows(storage, snapshot=3)
    unreadable(storage, 4, 5)
    with pytest.raises(Corrupt):
        opened(storage).scan().to_arrow()
    assert states(storage) == [(5, "unreadable"), (4, "unreadable"), (3, "sound")]
    with pytest.raises(Corrupt):
        opened(storage).scan().to_arrow()
    report = opened(storage).repair_snapshots(roll_back_to=3, drop=[4, 5])
    assert (report.newest_sound, report.snapshot_id, report.dropped) == (3, 6, (4, 5))
    assert rows(storage) == expected
    table = opened(storage)
    assert table.verify() == []
    assert table.meta.snapshots.ids() == [1, 2, 3, 6]
    assert table.snapshots()["commit_kind"].to_pylist()[-1] == "OVERWRITE"
    again = table.upsert({"k": [99], "v": [4]}, cast=True, writer_id="w", commit_id=4)
    assert again.id == 7, "the commit was lost, so its writer repeats it"
    table.compact(full=True)
    table.expire_snapshots(retain_max=1)
    table.remove_orphan_files("2100-01-01")
    assert table.verify() == []
    assert rows(storage) == multiset([*expected, (99, 4)])


def test_a_damaged_newest_snapshot_is_rolled_back():
    """A data file, a manifest and a list of its own."""
    for part in ("data", "manifest-0", "manifest-list"):
        storage = made()
        expected = rows(storage, snapshot=4)
        table = opened(storage)
        (delta,) = table.meta.manifests.listed(table.meta.snapshots.latest().delta_manifest_list)
        listed = table.meta.snapshots.latest().delta_manifest_list.name
        paths = {
            "data": newest_file(storage),
            "manifest-0": table.meta.paths.manifest(delta.name),
            "manifest-list": table.meta.paths.manifest(listed),
        }
        damage(storage, paths[part])
        assert states(storage) == [(5, "damaged"), (4, "sound")], part
        report = opened(storage).repair_snapshots(roll_back_to=4)
        assert (report.snapshot_id, report.dropped) == (6, ())
        assert rows(storage) == expected
        opened(storage).upsert({"k": [1], "v": [1]}, cast=True)


def test_an_unreadable_snapshot_between_others_can_be_dropped():
    storage = made()
    expected = rows(storage)
    unreadable(storage, 3)
    damage(storage, newest_file(storage))
    assert states(storage) == [(5, "damaged"), (4, "sound")]
    assert opened(storage).repair_snapshots(roll_back_to=4).snapshot_id == 6
    storage = unreadable(made(), 5, 3)
    report = opened(storage).repair_snapshots(roll_back_to=4, drop=[5])
    assert report.dropped == (5,)
    assert rows(storage) != expected
    assert any("snapshot-3" in finding.where for finding in opened(storage).verify())


REFUSED = [
    ({"roll_back_to": 3}, "snapshot 3 is not the newest sound one.*expected snapshot 4"),
    ({"roll_back_to": 5}, "snapshot 5 is not the newest sound one"),
    ({"roll_back_to": 4, "drop": [4]}, "only unreadable snapshots can be dropped"),
    ({"roll_back_to": 4, "drop": [7]}, "only unreadable snapshots can be dropped"),
    ({"drop": [5]}, "needs a snapshot to continue from"),
]


@pytest.mark.parametrize(("arguments", "message"), REFUSED)
def test_consent_to_something_else_changes_nothing(arguments, message):
    storage = unreadable(made(), 5)
    before = contents(storage)
    with pytest.raises(InvalidQuery, match=message):
        opened(storage).repair_snapshots(**arguments)
    assert contents(storage) == before


@pytest.mark.parametrize("mode", ["crash", "error"])
def test_a_repair_that_is_interrupted_can_be_repeated(mode):
    start = unreadable(made(), 4, 5)
    expected = rows(made(), snapshot=3)

    def repaired(storage: Storage) -> object:
        return opened(storage, "run-").repair_snapshots(roll_back_to=3, drop=[4, 5])

    worlds = set()
    for done in every_fault(repaired, lambda: copied(start), mode=mode):
        assert isinstance(done.outcome, (Crash, LakeError)) or done.outcome.dropped == (4, 5)
        if (files := frozenset(contents(done.world).items())) in worlds:
            continue
        worlds.add(files)
        left = dict(states(done.world))
        sound = max((number for number, state in left.items() if state == "sound"), default=None)
        assert sound in (3, 6)
        broken = [number for number, state in left.items() if state == "unreadable"]
        if broken:
            opened(done.world, "again-").repair_snapshots(roll_back_to=sound, drop=broken)
        assert rows(done.world) == expected
        opened(done.world, "then-").upsert({"k": [1], "v": [1]}, cast=True)
