"""`Scan.splits`: read in another process, which got them as bytes, they hold the rows of the scan, each row once."""

from __future__ import annotations

import multiprocessing
import pickle
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from effort import examples
from hypothesis import given
from hypothesis import strategies as st
from strategies import multiset

import lsmlake
from lsmlake.api.scan import Scan
from lsmlake.errors import InvalidQuery, SnapshotNotFound

MODES = {
    "vectors": {},
    "merged at read": {"deletion-vectors.enabled": False},
    "partial updates": {"merge-engine": "partial-update"},
    "tiny files": {"target-file-size": "1 kb", "file.block-size": "200 b"},
}
WHERE = None, "v > 50", "k IN (1, 2, 3)", "p = 'a'", "v IS NULL", pc.field("v") > 50
COLUMNS = None, ["v", "k"], ["p"]
ROWS = st.lists(st.tuples(st.integers(0, 40), st.sampled_from("abc"), st.none() | st.integers(0, 99)), min_size=1, max_size=30)


@pytest.fixture(scope="module")
def elsewhere() -> Iterator[ProcessPoolExecutor]:
    """A process that shares no state with this one."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        yield pool


def read(data: bytes) -> tuple[pa.Table, pa.Schema, int | None]:
    split = pickle.loads(data)
    return split.to_arrow(), split.schema, split.num_rows


def tuples(table: pa.Table) -> list[tuple]:
    return [tuple(row.values()) for row in table.to_pylist()]


def check(scan: Scan, elsewhere: ProcessPoolExecutor) -> None:
    parts = list(elsewhere.map(read, map(pickle.dumps, scan.splits())))
    rows = [row for table, _, _ in parts for row in tuples(table)]
    if scan.limit is None or scan.order_by_key is not None:
        assert multiset(rows) == multiset(tuples(scan.to_arrow()))
    else:
        everything = Counter(tuples(replace(scan, limit=None).to_arrow()))
        assert not Counter(rows) - everything and len(rows) == scan.count()
    for table, schema, count in parts:
        assert table.schema.equals(schema) and schema.equals(scan.schema)
        assert count in (None, table.num_rows)


@pytest.mark.every_case
@pytest.mark.parametrize("mode", MODES)
@examples(8)
@given(data=st.data())
def test_the_splits_hold_the_rows_of_the_scan(mode: str, data: st.DataObject, elsewhere: ProcessPoolExecutor, tmp_path_factory):
    lake = lsmlake.connect(tmp_path_factory.mktemp("lake"))
    lake.create_database("d")
    options = {"bucket": 2, **MODES[mode]}
    table = lake.create_table("d.t", "k INT, p STRING, v INT", primary_key=["k", "p"], partition_by=["p"], options=options)
    for rows in data.draw(st.lists(ROWS, min_size=1, max_size=4)):
        table.upsert([dict(zip("kpv", row, strict=True)) for row in rows], compact=data.draw(st.booleans()))
    if mode != "partial updates":
        table.delete_keys([{"k": k, "p": "a"} for k in data.draw(st.lists(st.integers(0, 40), min_size=1, unique=True))])
    where, columns = data.draw(st.tuples(st.sampled_from(WHERE), st.sampled_from(COLUMNS)))
    check(table.scan(where=where, columns=columns), elsewhere)
    more = st.tuples(st.sampled_from(["fresh", "raw"]), st.integers(0, 60), st.sampled_from([1, None]))
    read_mode, limit, snapshot = data.draw(more)
    check(table.scan(where=where, columns=columns, mode=read_mode, snapshot=snapshot), elsewhere)
    check(table.scan(where=where, columns=columns, limit=limit), elsewhere)
    check(table.scan(limit=limit, order_by_key="desc"), elsewhere)


def test_an_append_only_table_has_a_split_for_each_file(tmp_path: Path, elsewhere: ProcessPoolExecutor):
    lake = lsmlake.connect(tmp_path)
    lake.create_database("d")
    events = lake.create_table("d.events", "a INT", options={"write-only": True})
    assert events.scan().splits() == []
    for number in range(3):
        events.append([{"a": number}, {"a": -number}])
    splits = events.scan().splits()
    assert [split.num_rows for split in splits] == [2, 2, 2]
    assert repr(splits[0]) == f"<lsmlake split of {events.path}, 1 files, 2 rows>"
    events.delete(where="a = -1")
    assert sorted(split.num_rows for split in events.scan().splits()) == [1, 2, 2]
    assert [split.num_rows for split in events.scan(where="a > 0").splits()] == [None, None]
    check(events.scan(), elsewhere)


def test_a_split_has_the_arrow_stream_interface_and_holds_no_rows(tmp_path: Path):
    lake = lsmlake.connect(tmp_path)
    lake.create_database("d")
    table = lake.create_table_from("d.t", pa.table({"k": range(100_000), "text": ["some text"] * 100_000}), primary_key=["k"])
    (split, *rest) = table.scan(columns=["k"]).splits()
    assert pa.table(split).column_names == ["k"] and split.head(3).num_rows == 3
    assert sum(one.to_arrow().num_rows for one in (split, *rest)) == 100_000
    assert len(pickle.dumps(split)) < 20_000


def test_a_split_of_an_expired_snapshot_says_so(tmp_path: Path, elsewhere: ProcessPoolExecutor):
    lake = lsmlake.connect(tmp_path)
    lake.create_database("d")
    table = lake.create_table("d.t", "k INT, v INT", primary_key=["k"], options={"bucket": 1})
    table.upsert([{"k": 1, "v": 1}])
    data = [pickle.dumps(split) for split in table.scan().splits()]
    table.overwrite([{"k": 1, "v": 2}], truncate=True)
    table.expire_snapshots(retain_max=1, retain_min=1, older_than="2200-01-01")
    with pytest.raises(SnapshotNotFound, match="snapshot 1 has expired"):
        list(elsewhere.map(read, data))


def test_a_split_in_the_memory_of_a_process_is_read_there_only():
    lake = lsmlake.connect("memory://splits")
    lake.create_database("d", if_not_exists=True)
    (split,) = lake.create_table_from("d.t", [{"k": 1}], primary_key=["k"]).scan().splits()
    assert split.to_pylist() == [{"k": 1}]
    with pytest.raises(InvalidQuery, match="cannot be pickled"):
        pickle.dumps(split)
