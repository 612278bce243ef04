"""`verify` finds violations that no commit can produce: tables damaged by hand in ways that each file alone does not show."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from command_line import call
from naive import NaiveTable
from storage_contract import put
from strategies import contents, new_lake

import lsmlake
from lsmlake.api.lake import Lake
from lsmlake.api.table import Table
from lsmlake.commit.commit import commit
from lsmlake.commit.request import Identity, Request
from lsmlake.files.bucket_files import BucketFiles
from lsmlake.files.data_writer import Origin
from lsmlake.format.data_files import Bucket, BucketEdit, BucketState, CommitMessage, DataFile
from lsmlake.format.deletion_vector import DeletionVector, IndexManifest, VectorChanges
from lsmlake.kernels.bucket_hash import bucket_of
from lsmlake.maintain.verify import verify
from lsmlake.storage.local import LocalStorage
from lsmlake.storage.memory import MemoryStorage
from lsmlake.write.write import Intake, Part, bucket_messages, publish
from lsmlake.write.write_request import WriteRequest

APPEND = Origin(5, "APPEND", 1, 1)


@pytest.fixture
def table() -> Table:
    made = new_lake().create_table("d.t", "k BIGINT, v STRING", primary_key=["k"], options={"bucket": 2})
    made.upsert(pa.table({"k": range(40), "v": ["x"] * 40}))
    made.upsert(pa.table({"k": range(5, 15), "v": ["y"] * 10}))
    assert made.verify() == []
    return made


def only(table: Table) -> BucketState:
    return table.states()[Bucket((), 0)]


def published(table: Table, change: BucketEdit) -> list[str]:
    """Commit this change as if it were a compaction; what `verify` then finds."""
    commit(table.version, Request(Identity("vandal"), [CommitMessage(change.bucket, compact=change)]))
    return [f"{one.where}: {one.what}" for one in table.verify()]


def added(table: Table, state: BucketState, file: DataFile, **more: object) -> list[str]:
    return published(table, BucketEdit(state.bucket, state.total_buckets, added=(file,), base=state, **more))


def written(table: Table, keys: list[int], bucket: Bucket = Bucket((), 0), origin: Origin = APPEND) -> DataFile:
    rows = pa.table({"k": pa.array(keys, pa.int64()), "v": ["z"] * len(keys)}).cast(table.version.schema.row_columns)
    (file,) = BucketFiles.of(table.version, bucket).write([rows], origin)
    return file


def keys_in(number: int, start: int, stop: int) -> list[int]:
    """The numbers of the range that fall into this bucket of two."""
    keys = np.arange(start, stop)
    return keys[bucket_of([pa.array(keys)], 2) == number].tolist()


def test_a_key_that_is_live_in_two_files(table):
    state = only(table)
    found = added(table, state, written(table, keys_in(0, 0, 40)[:1]))
    assert found == ["d.db/t/bucket-0: I2: 1 keys are live in more than one file at deeper levels"]


def test_a_key_in_the_wrong_bucket(table):
    state = only(table)
    found = added(table, state, written(table, keys_in(1, 500, 600)[:1]))
    assert [text.split(": ")[1] for text in found] == ["data file holds keys of another bucket"]


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"min_key": (-5,), "stats": {}}, "the first key differs from the manifest's (-5,)"),
        ({"max_key": (10**6,), "stats": {}}, "the last key differs from the manifest's (1000000,)"),
        ({"rows": 3}, "another number of rows"),
        ({"bytes": 10**6}, "1000000 were written"),
        ({"checksum": 3}, "0x00000003 was written"),
        ({"footer_checksum": 3}, "damaged footer"),
    ],
)
def test_a_manifest_that_differs_from_the_file(table, wrong, words):
    state = only(table)
    file = written(table, keys_in(0, 500, 600)[:4])._replace(**wrong)
    found = added(table, state, file)
    assert any(words in text and file.name in text for text in found), found


def test_a_vector_beyond_the_rows_of_its_file(table):
    state = only(table)
    file = written(table, keys_in(0, 500, 600)[:4])
    refs = table.meta.vectors.put({file.name: DeletionVector.of(np.array([1, 4]))})
    found = added(table, state, file, vectors=refs)
    assert any("positions below 4, found 4" in text and file.name in text for text in found), found


def test_rows_that_are_not_in_order(table):
    state = only(table)
    keys = keys_in(0, 500, 600)[:3]
    found = added(table, state, written(table, [keys[0], keys[2], keys[1]]))
    assert any("I1: the keys are not ascending and unique" in text for text in found), found


def rewritten(table: Table, **changes: object) -> list[str]:
    storage, latest = table.meta.env.storage, table.meta.snapshots.latest()
    storage.delete(table.meta.paths.snapshot(latest.id))
    storage.put_if_absent(table.meta.paths.snapshot(latest.id), replace(latest, **changes).encode())
    return [f"{one.where}: {one.what}" for one in table.verify()]


def test_a_snapshot_that_counts_wrongly(table):
    assert rewritten(table, total_rows=7) == [f"{table.meta.paths.snapshot(2)}: total_rows is 7, the files hold 40"]


def test_a_vector_of_a_missing_file(table):
    state = only(table)
    gone = [file for file in state.files if file.name in state.vectors]
    assert gone
    refs = VectorChanges({**table.version.vector_refs(), "data-gone.parquet": next(iter(state.vectors.values()))})
    found = rewritten(table, index_manifest=table.meta.manifests.put_index(IndexManifest((), None, refs)))
    assert any("I3: a vector names data-gone.parquet, which is not live" in text for text in found), found


def test_all_snapshots_are_looked_at_not_only_the_last(table):
    first = table.meta.snapshots.get(1)
    table.compact(full=True)
    storage = table.meta.env.storage
    (meta,) = table.meta.manifests.listed(first.delta_manifest_list)
    (path,) = [path for path in contents(storage) if path.endswith(f"/{meta.name}")]
    storage.delete(path)
    fresh = Table("d.t", table.meta.with_empty_cache(), table.runtime).verify()
    assert any(path in finding.where + finding.what for finding in fresh)


def test_progress_reports_each_file_read(table):
    emitted: list[str] = []
    assert verify(table.meta, emitted.append) == []
    written = [path.rsplit("/", 1)[1] for path in contents(table.meta.env.storage) if path.endswith(".parquet")]
    assert sorted(name for name in emitted if name.endswith(".parquet")) == sorted(written)  # of every kept snapshot, once


def test_a_manifest_that_many_snapshots_name_is_found_once(table):
    table.upsert({"k": [1], "v": ["w"]}, compact=False)
    first = table.meta.snapshots.get(1)
    (meta,) = table.meta.manifests.listed(first.delta_manifest_list)
    table.meta.env.storage.delete(table.meta.paths.manifest(meta.name))
    fresh = Table("d.t", table.meta.with_empty_cache(), table.runtime)
    assert len([finding for finding in fresh.verify() if meta.name in f"{finding.where} {finding.what}"]) == 1


# -- what a damaged file touches --------------------------------------------------------------------------------------


@pytest.fixture(params=["memory", "file", "s3"])
def lake(request, tmp_path) -> Lake:
    if request.param == "s3":
        server = request.getfixturevalue("s3")
        made = lsmlake.connect(server.warehouse(), storage_options=server.options)
        made.create_database("d")
        return made
    return new_lake(LocalStorage(tmp_path) if request.param == "file" else MemoryStorage())


def naming(lake: Lake) -> dict[str, tuple[set[int], set[str], set[str]]]:
    """Path of each file -> the snapshots, tags and branches that need it, by a reader that shares no code with the library."""
    found: dict[str, tuple[set[int], set[str], set[str]]] = defaultdict(lambda: (set(), set(), set()))
    storage = lake.env.storage
    main = NaiveTable(storage, "d.db/t")
    for number, snapshot in main.snapshots().items():
        for path in main.files_of(snapshot):
            found[path][0].add(number)
    for name, tag in main.tags().items():
        for path in main.files_of(tag):
            found[path][1].add(name)
    for name in main.branches():
        for snapshot in NaiveTable(storage, "d.db/t", name).snapshots().values():
            for path in main.files_of(snapshot):
                found[path][2].add(name)
    return found


def test_each_damaged_file_is_named_with_all_that_needs_it(lake):
    """On every store; one file of each kind at a time."""
    made = lake.create_table("d.t", "k BIGINT, v STRING", primary_key=["k"], options={"bucket": 1, "manifest.merge-min-count": 3})
    made.upsert(pa.table({"k": range(40), "v": ["x"] * 40}))
    made.create_tag("first")
    made.create_branch("side").upsert(pa.table({"k": range(3), "v": ["s"] * 3}))
    for number in range(3):
        made.upsert(pa.table({"k": range(number, 15), "v": ["y"] * (15 - number)}))
    assert made.verify() == []
    storage, needed, kinds = lake.env.storage, naming(lake), set()
    for path, data in contents(storage, "d.db/t").items():
        kind = re.sub(r"[0-9a-f]{4,}", "", path.rpartition("/")[2])
        if path not in needed or kind in kinds:
            continue
        kinds.add(kind)
        put(storage, path, data[:-1] + bytes([data[-1] ^ 1]))
        (finding,) = [one for one in made.verify() if one.where == path]
        assert tuple(map(set, finding[2:])) == needed[path], path
        put(storage, path, data)
    assert len(kinds) >= 5, kinds


def test_all_damaged_files_of_one_snapshot_are_named(lake):
    made = lake.create_table("d.t", "k BIGINT, v STRING", primary_key=["k"], options={"bucket": 2})
    made.upsert(pa.table({"k": range(40), "v": ["x"] * 40}))
    made.upsert(pa.table({"k": range(5), "v": ["y"] * 5}))
    snapshot, storage = made.meta.snapshots.latest(), lake.env.storage
    damaged = {made.meta.paths.manifest(one.name) for one in made.meta.manifests.metas(snapshot)[1:]}
    damaged |= {made.meta.paths.manifest(snapshot.index_manifest.name)}
    damaged |= {path for path, (snapshots, _, _) in naming(lake).items() if "/bucket-0/" in path and 1 in snapshots}
    assert len(damaged) == 3
    for path in damaged:
        data = contents(storage, path.rpartition("/")[0])[path]
        put(storage, path, data[:40] + bytes([data[40] ^ 1]) + data[41:])
    assert damaged <= {finding.where for finding in made.verify()}


def test_an_unreadable_newest_snapshot_hides_no_other_damage(table):
    storage, latest = table.meta.env.storage, table.meta.paths.snapshot(2)
    first = next(path for path in contents(storage) if path.endswith(".parquet"))
    put(storage, latest, b"{}")
    storage.delete(first)
    assert {(finding.where, finding.snapshots) for finding in table.verify()} >= {(latest, (2,)), (first, (1,))}


def test_verify_reads_well_on_the_command_line(tmp_path):
    lake = new_lake(LocalStorage(tmp_path))
    made = lake.create_table("d.t", "k BIGINT", primary_key=["k"])
    made.upsert({"k": [1, 2]})
    for number in range(3):
        made.upsert({"k": [5 + number]}, compact=False)
    made.create_tag("eod", 2)
    made.create_branch("side")
    (path,) = [path for path, (snapshots, _, _) in naming(lake).items() if 1 in snapshots and path.endswith(".parquet")]
    (tmp_path / path).unlink()
    text = call("verify", "d.t", "-w", tmp_path, code=1)
    assert text == f"{path}: data file is missing (needed by snapshots 1-4; tag eod; branch side)\n"


def test_a_key_in_two_partitions_is_found():
    table = new_lake().create_table("d.t", "id BIGINT, p INT", primary_key=["id"], partition_by=["p"])
    table.upsert({"id": [1, 2, 3], "p": [1, 1, 2]})
    assert table.verify() == []
    version = table.version
    parts = [Part.of(pa.table({"id": pa.array([1, 3], pa.int64()), "p": pa.array([2, 2], pa.int32())}))]
    request = WriteRequest(Identity("w"))
    with Intake(version.schema, version.covers(), request, prepared=True) as intake:  # a writer that looks nothing up
        intake.add_all(parts)
        publish(version, bucket_messages(version, intake, None), request)
    (found,) = table.verify()
    assert found.what == "I2: 1 keys are live in more than one partition"
