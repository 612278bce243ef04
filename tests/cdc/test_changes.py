"""The changes between two snapshots. The random histories check for every engine and mode that changes add up to the result."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from spark_support import same
from strategies import new_lake

from lsmlake.api.table import Table
from lsmlake.cdc.change_reader import pairs
from lsmlake.errors import InvalidQuery, SnapshotNotFound
from lsmlake.read.plan import plan

COLUMNS = "k BIGINT, p STRING, v DOUBLE, tags ARRAY<STRING>"


def rows(*values: tuple) -> pa.Table:
    columns = list(zip(*values, strict=True))
    types = [pa.int64(), pa.string(), pa.float64(), pa.list_(pa.string())]
    return pa.table([pa.array(c, t) for c, t in zip(columns, types, strict=True)], names=["k", "p", "v", "tags"])


def fill(table: Table) -> Table:
    """1: four rows; 2: one updated, one as it was, one deleted, one new; 3: full compaction; 4: level 0."""
    table.upsert(rows((1, "a", 1.0, ["x"]), (2, "a", 2.0, None), (3, "b", 3.0, []), (4, "b", float("nan"), ["y"])))
    batch = rows((1, "a", 1.5, ["x"]), (2, "a", 2.0, None), (3, "b", None, None), (5, "c", 5.0, []))
    table.upsert(batch.append_column("op", pa.array(["+I", "+I", "-D", "+I"])), row_kind="op")
    table.compact(full=True)
    table.upsert(rows((4, "b", float("nan"), ["y"]), (5, "c", 5.0, ["z"])), compact=False)
    return table


@pytest.fixture
def table() -> Table:
    options = {"bucket": 2}
    return fill(new_lake().create_table("d.t", COLUMNS, primary_key=["k", "p"], partition_by=["p"], options=options))


def emitted(found: pa.Table) -> list[tuple]:
    return sorted(zip(*(column.to_pylist() for column in found.columns), strict=True), key=repr)


@pytest.mark.parametrize(
    ("start", "end", "expected"),
    [
        (0, 1, [("+I", 1), ("+I", 2), ("+I", 3), ("+I", 4)]),
        (1, 2, [("+I", 5), ("+U", 1), ("-D", 3), ("-U", 1)]),
        (2, 3, []),
        (3, 4, [("+U", 5), ("-U", 5)]),
        (1, None, [("+I", 5), ("+U", 1), ("-D", 3), ("-U", 1)]),
        (0, 2, [("+I", 1), ("+I", 2), ("+I", 4), ("+I", 5)]),
        (2, 2, []),
    ],
)
def test_changes_are_net_and_rows_that_only_moved_are_none(table, start, end, expected):
    found = table.changes(start, end, columns=["k"])
    assert emitted(found.to_arrow()) == expected
    assert found.count() == len(expected)


def test_a_row_that_is_dead_on_both_sides_of_a_file_is_no_change():
    """The first row of key 1 stays in a large file of the last level, dead, while newer ones come and go above it."""
    table = new_lake().create_table("d.t", "k BIGINT, v BIGINT", primary_key=["k"], options={"bucket": 1})
    table.upsert({"k": range(100), "v": [0] * 100})
    for value in (1, 2):
        table.upsert({"k": [1], "v": [value]})
    large = table.files().filter(pc.field("record_count") == 100)
    assert large["deleted_record_count"].to_pylist() == [1]
    expected = [("+U", 1, 2), ("-U", 1, 1)]
    assert emitted(table.changes(2, 3).to_arrow()) == expected


def test_both_halves_of_an_update_stand_together_with_all_columns(table):
    found = table.changes(1, 2).to_arrow()
    assert found.schema.names == ["_row_kind", *table.schema.names]
    assert found.schema.field("_row_kind").type == pa.string()
    kinds = found["_row_kind"].to_pylist()
    at = kinds.index("-U")
    assert kinds[at + 1] == "+U"
    assert found.slice(at, 2).drop_columns(["_row_kind"]).to_pylist() == [
        {"k": 1, "p": "a", "v": 1.0, "tags": ["x"]},
        {"k": 1, "p": "a", "v": 1.5, "tags": ["x"]},
    ]


def test_an_update_out_of_the_filter_is_a_delete_and_into_it_an_insert(table):
    assert emitted(table.changes(1, 2, where="v < 1.2", columns=["k"]).to_arrow()) == [("-D", 1)]
    assert emitted(table.changes(1, 2, where="v > 1.2", columns=["k"]).to_arrow()) == [("+I", 1), ("+I", 5), ("-D", 3)]
    assert emitted(table.changes(1, 2, where="p = 'c'", columns=["k"]).to_arrow()) == [("+I", 5)]


def test_buckets_that_did_not_change_are_not_read(table):
    before, after = (plan(replace(table.version, snapshot=table.meta.snapshots.get(number))) for number in (3, 4))
    assert {pair.bucket.partition for pair in pairs(before, after)} == {("b",), ("c",)}
    assert pairs(after, after) == []


def test_an_empty_table_has_no_changes():
    empty = new_lake().create_table("d.t", COLUMNS, primary_key=["k"])
    assert empty.changes(0).count() == 0
    assert empty.changes(0).to_arrow().schema.names == ["_row_kind", "k", "p", "v", "tags"]


@pytest.mark.parametrize(
    ("start", "end", "error", "words"),
    [
        (3, 1, InvalidQuery, "end of the changes is before their start"),
        (-1, 1, InvalidQuery, "a snapshot id, a tag, a time, or 0"),
        ("1", 1, SnapshotNotFound, "no tag '1'"),
        (1.0, 1, InvalidQuery, "an integer"),
        (1, 9, SnapshotNotFound, "no snapshot 9"),
    ],
)
def test_an_interval_that_cannot_be_is_refused(table, start, end, error, words):
    with pytest.raises(error, match=words):
        table.changes(start, end).to_arrow()


@pytest.mark.spark
def test_changes_as_a_dataframe(spark, spark_lake):
    made = spark_lake.create_table("d.t", COLUMNS, primary_key=["k", "p"], partition_by=["p"], options={"bucket": 2})
    table = fill(made)
    for start, end in ((0, 1), (1, 2), (2, 3), (1, 4)):
        same(table.changes(start, end).to_spark(), table.changes(start, end).to_arrow())
    frame = table.changes(1, 2, where="v > 1.2", columns=["k"]).to_spark()
    assert frame.columns == ["_row_kind", "k"]
    assert sorted(map(tuple, frame.collect())) == [("+I", 1), ("+I", 5), ("-D", 3)]


def test_a_start_and_an_end_may_be_times(lake):
    table = lake.create_table("d.t", "id INT", primary_key=["id"])
    for number in range(3):
        table.upsert([{"id": number}])
    times = table.snapshots()["commit_time"].to_pylist()
    before = times[0] - dt.timedelta(milliseconds=1)

    def ids(*moments: object) -> list[int]:
        return sorted(table.changes(*moments).to_arrow()["id"].to_pylist())

    expected = {moment: sum(time <= moment for time in times) for moment in (before, *times)}
    for start, first in expected.items():
        for end, last in expected.items():
            if first <= last and last:
                assert ids(start, end) == list(range(first, last))
    assert ids(before) == ids(0) == [0, 1, 2]
    with pytest.raises(SnapshotNotFound, match="newer than the timestamp"):
        table.changes(0, before).to_arrow()
    table.expire_snapshots(retain_max=1)
    with pytest.raises(SnapshotNotFound, match="newer than the timestamp"):
        table.changes(before).to_arrow()


def test_a_changelog_that_outlives_its_snapshots_is_read_to_any_of_them():
    options = {"bucket": 1, "changelog-producer": "lookup"} | {f"changelog.num-retained.{end}": 100 for end in ("min", "max")}
    table = new_lake().create_table("d.t", "id BIGINT NOT NULL, v INT", primary_key=["id"], options=options)
    for number in range(6):
        table.upsert({"id": [number % 3], "v": [number]})
    ends = [(start, end) for start in range(6) for end in range(max(1, start), 7)]
    before = {(start, end): table.changes(start, end, mode="changelog").to_arrow() for start, end in ends}
    table.expire_snapshots(retain_max=2)
    for start, end in ends:
        assert table.changes(start, end, mode="changelog").to_arrow().equals(before[start, end]), (start, end)
    for mode in ("diff", "delta"):
        with pytest.raises(SnapshotNotFound, match="snapshot 2 has expired"):
            table.changes(1, 2, mode=mode).to_arrow()
