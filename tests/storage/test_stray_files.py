"""Stray files that NFS, editors and users leave in a table's folders do not affect it and are not deleted."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import lsmlake
from lsmlake import set_option
from lsmlake.api.table import Table
from lsmlake.errors import CommitConflict, StorageFailed

FOLDERS = ("schema", "snapshot", "changelog", "consumer", "manifest", "index", "bucket-0")
NAMES = (".nfs0000000012", "{}-007", "{}-3~", "{}-3.bak", ".{}-1.swp", "#{}-2#", "{}-1 (copy)", "{}-", "{}--1", "{}-\u0663")


@pytest.fixture
def table(tmp_path: Path) -> Table:
    lake = lsmlake.connect(tmp_path)
    lake.create_database("d")
    options = {"changelog-producer": "input", "changelog.num-retained.max": 50, "snapshot.num-retained.min": 1}
    table = lake.create_table("d.t", "k INT NOT NULL, v INT", primary_key=["k"], options=options)
    for version in range(4):
        table.upsert({"k": [1, 2], "v": [version, version]})
    next(table.follow(consumer="c", snapshot=2))
    table.expire_snapshots(retain_max=3)
    table.alter(set_option("write-only", "true"))
    return table


def scatter(tmp_path: Path, table: Table, folder: str) -> list[Path]:
    """Stray files beside the real ones and in subfolders, ten years old.

    They hold the mark of an expired snapshot; one that could be named after a consumer is a copy of a consumer's file.
    """
    root = tmp_path / table.path / folder
    copy = next((tmp_path / table.path / "consumer").rglob("consumer-c")).read_bytes()
    homes = {root, *(path.parent for path in root.rglob("*") if path.is_file())}
    made = []
    for home in homes:
        for name in (*(name.format(folder) for name in NAMES), f"sub/{folder}-5", f".tmp-x/{folder}-6", "sub/deep/x"):
            path = home / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(copy if table.meta.paths.consumer_name(str(path.relative_to(tmp_path))) else b"expired\n")
            os.utime(path, (1_400_000_000, 1_400_000_000))
            made.append(path)
    return made


@pytest.mark.parametrize("folder", FOLDERS)
def test_stray_files_block_nothing_and_stay(tmp_path, table, folder):
    before = table.snapshots()
    strays = scatter(tmp_path, table, folder)
    lake = lsmlake.connect(tmp_path)
    table = lake.table("d.t")
    assert table.snapshots() == before
    assert [consumer["consumer_id"] for consumer in table.consumers().to_pylist()] == ["c"]
    table.upsert({"k": [2, 3], "v": [9, 9]})
    table.compact(full=True)
    table.alter(set_option("write-only", "false"))
    assert table.schemas()["schema_id"].to_pylist() == [0, 1, 2]
    assert len(list(table.follow(consumer="c"))) > 0
    assert sorted(row["v"] for row in table.scan().to_arrow().to_pylist()) == [3, 9, 9]
    assert table.changes(2, 4).to_arrow().num_rows
    table.expire_snapshots(retain_max=1)
    assert table.snapshots().num_rows == 1
    assert table.verify() == []
    assert all(stray.exists() for stray in strays)
    assert lake.tables("d") == ["t"]
    lake.drop_table("d.t")
    assert lake.tables("d") == []


def test_a_copy_of_a_consumers_file_is_not_a_consumer(tmp_path, table):
    (file,) = (tmp_path / table.path / "consumer").rglob("consumer-c")
    for name in ("consumer-c.bak", "consumer-c2"):
        (file.parent / name).write_bytes(file.read_bytes())
    assert [consumer["consumer_id"] for consumer in table.consumers().to_pylist()] == ["c"]
    next(table.follow(consumer="c.bak", snapshot=3))
    assert len(table.consumers()) == 2


def test_folders_that_no_table_or_database_can_be_are_not_listed(tmp_path, table):
    lake = lsmlake.connect(tmp_path)
    for name in ("t (copy)", ".tmp-t", "t.bak"):
        (tmp_path / "d.db" / name / "schema").mkdir(parents=True)
        (tmp_path / "d.db" / name / "schema" / "schema-0").write_bytes((tmp_path / table.path / "schema/schema-0").read_bytes())
    for name in (".db", ".tmp-x.db", "d (copy).db"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "database.json").write_bytes(b"{}")
    assert (lake.databases(), lake.tables("d")) == (["d"], ["t"])
    lake.drop_database("d", cascade=True)
    assert lake.databases() == []


def test_a_folder_with_the_name_of_the_next_snapshot_is_reported(tmp_path, table):
    latest = table.snapshots()["snapshot_id"].to_pylist()[-1]
    (snapshot,) = (tmp_path / table.path / "snapshot").rglob(f"snapshot-{latest}")
    (snapshot.parent / f"snapshot-{latest + 1}").mkdir()
    with pytest.raises((StorageFailed, CommitConflict), match=f"snapshot-{latest + 1}.*move the directory"):
        table.upsert({"k": [7], "v": [7]})
