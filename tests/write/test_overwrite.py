"""Overwrites: what is replaced, what readers of changes see, what other writers keep. `history` has them in random histories."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable

import pyarrow as pa
import pytest
from direct_writes import upsert_rows
from naive import unreferenced
from strategies import new_lake

import lsmlake
from lsmlake.api.table import Table
from lsmlake.commit.request import Identity
from lsmlake.errors import CommitConflict, InvalidData, InvalidQuery
from lsmlake.storage.memory import MemoryStorage
from lsmlake.write.replace import Replacement
from lsmlake.write.write import picker

DAYS = [dt.date(2026, 1, 1) + dt.timedelta(days=number) for number in range(4)]


def daily(storage: MemoryStorage | None = None, **options: object) -> Table:
    """Two rows a day, the day of one of them unknown; one row waits at level 0."""
    table = new_lake(storage).create_table(
        "d.t",
        "id INT NOT NULL, day DATE, v INT",
        primary_key=["day", "id"],
        partition_by=["day"],
        options={"bucket": 2, **options},
    )
    table.upsert(rows((number, day, number) for day in [*DAYS[:3], None] for number in (1, 2)))
    table.upsert(rows([(2, DAYS[0], 22)]), compact=False)
    return table


def rows(given: Iterable[tuple]) -> pa.Table:
    fields = [("id", pa.int32()), ("day", pa.date32()), ("v", pa.int32())]
    return pa.table(dict(zip(["id", "day", "v"], map(list, zip(*given, strict=True)), strict=True)), pa.schema(fields))


def found(table: Table, **how: object) -> set[tuple]:
    return {tuple(row.values()) for row in table.scan(**how).to_arrow().to_pylist()}


def of(day: dt.date | None, *pairs: tuple[int, int]) -> set[tuple]:
    return {(number, day, value) for number, value in pairs}


REST = of(DAYS[1], (1, 1), (2, 2)) | of(DAYS[2], (1, 1), (2, 2)) | of(None, (1, 1), (2, 2))
FIRST = of(DAYS[0], (1, 1), (2, 22))


def changes(table: Table, mode: str, start: int = 2) -> set[tuple]:
    return {tuple(row.values()) for row in table.changes(start, mode=mode).to_arrow().to_pylist()}


def test_the_partitions_that_the_data_names_are_replaced():
    table = daily()
    snapshot = table.overwrite(rows([(2, DAYS[0], 7), (9, DAYS[3], 9)]))
    assert (snapshot.kind, snapshot.delta_rows, snapshot.total_rows) == ("OVERWRITE", 2, 8)
    assert found(table) == REST | of(DAYS[0], (2, 7)) | of(DAYS[3], (9, 9))
    assert found(table, snapshot=2) == REST | FIRST
    assert table.verify() == []
    assert set(table.files()["level"].to_pylist()) == {31}


def test_the_null_partition_is_a_partition():
    table = daily()
    table.overwrite(rows([(5, None, 5)]))
    assert found(table) == (REST | FIRST) - of(None, (1, 1), (2, 2)) | of(None, (5, 5))


def test_where_replaces_partitions_without_new_rows_too():
    table = daily()
    table.overwrite(rows([(5, DAYS[1], 5)]), where=f"day >= '{DAYS[1]}'")
    assert found(table) == FIRST | of(None, (1, 1), (2, 2)) | of(DAYS[1], (5, 5))
    table.overwrite(rows([(5, DAYS[1], 5)]).slice(0, 0), where="day IS NULL")
    assert found(table) == FIRST | of(DAYS[1], (5, 5))


def test_a_row_outside_of_where_is_refused_before_anything_is_written():
    table = daily()
    before = {entry.path for entry in table.meta.env.storage.list("")}
    data = rows([(5, DAYS[1], 5), (6, DAYS[2], 6), (7, None, 7)])
    with pytest.raises(InvalidData, match=r"row 1.*outside of the partitions to overwrite.*2026-01-03"):
        table.overwrite(data, where=f"day = '{DAYS[1]}'")
    with pytest.raises(InvalidData, match=r"row 2.*null"):
        table.overwrite(iter(data.to_batches(max_chunksize=1)), where=f"day <= '{DAYS[2]}'")
    assert {entry.path for entry in table.meta.env.storage.list("")} == before


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"where": "v = 1"}, "partition columns only"),
        ({"where": "day IS NULL", "truncate": True}, "contradict"),
    ],
)
def test_arguments_that_do_not_fit_are_refused(how, message):
    table = daily()
    with pytest.raises(InvalidQuery, match=message):
        table.overwrite(rows([(1, None, 1)]), **how)
    assert table.meta.snapshots.latest_id() == 2


def test_where_needs_partitions():
    table = new_lake().create_table("d.t", "k INT", primary_key=["k"])
    with pytest.raises(InvalidQuery, match="the table has none"):
        table.overwrite({"k": [1]}, where="k = 1")


def test_truncate_replaces_everything():
    table = daily()
    table.overwrite(rows([(5, DAYS[1], 5)]), truncate=True)
    assert found(table) == of(DAYS[1], (5, 5))
    assert table.truncate().total_rows == 0
    assert found(table) == set()
    assert table.files().num_rows == 0
    assert table.truncate() is None, "there is nothing left"
    assert found(table, snapshot=3) == of(DAYS[1], (5, 5))
    assert table.verify() == []


def test_without_partitions_all_rows_are_replaced_even_by_none():
    table = new_lake().create_table("d.t", "k INT, v INT", primary_key=["k"], options={"bucket": 3})
    table.upsert({"k": range(9), "v": range(9)})
    table.overwrite({"k": [1, 1, 50], "v": [3, 4, 5]})
    assert sorted(table.scan().to_arrow().to_pylist(), key=repr) == [{"k": 1, "v": 4}, {"k": 50, "v": 5}]
    assert table.overwrite({"k": pa.array([], pa.int32()), "v": pa.array([], pa.int32())}).total_rows == 0
    assert table.scan().count() == 0


def test_data_without_rows_names_no_partition():
    table = daily()
    assert table.overwrite(rows([(1, None, 1)]).slice(0, 0)) is None
    assert found(table) == REST | FIRST


def test_an_overwrite_by_number_is_applied_once():
    table = daily()
    made = table.overwrite(rows([(5, DAYS[0], 5)]), writer_id="w", commit_id=1)
    table.upsert(rows([(6, DAYS[0], 6)]))
    assert table.overwrite(rows([(5, DAYS[0], 5)]), writer_id="w", commit_id=1) == made
    assert found(table) == REST | of(DAYS[0], (5, 5), (6, 6))


def test_rows_beyond_memory_are_merged_before_they_replace():
    table = daily(**{"write-buffer-size": "64 kb", "merge-engine": "aggregation", "fields.v.aggregate-function": "sum"})
    many = pa.concat_tables([rows((number % 3_000, DAYS[0], 1) for number in range(3_000)) for _ in range(4)])
    table.overwrite(iter(many.to_batches(max_chunksize=500)))
    assert found(table, where=f"day = '{DAYS[0]}'") == of(DAYS[0], *((number, 4) for number in range(3_000)))
    assert unreferenced(table) == []


DIFFERENCE = {
    ("-D", 1, DAYS[0], 1),
    ("-U", 2, DAYS[0], 22),
    ("+U", 2, DAYS[0], 7),
    ("+I", 3, DAYS[0], 3),
}


@pytest.mark.parametrize("producer", ["none", "input", "lookup", "full-compaction"])
def test_readers_of_changes_get_the_difference(producer):
    table = daily(**{"changelog-producer": producer})
    table.compact(full=True)
    start = table.meta.snapshots.latest_id()
    snapshot = table.overwrite(rows([(2, DAYS[0], 7), (3, DAYS[0], 3)]))
    assert snapshot.changelog_rows == 0
    assert changes(table, "diff", start) == DIFFERENCE
    assert changes(table, "delta", start) == {("+I" if kind == "+U" else kind, *row) for kind, *row in DIFFERENCE if kind != "-U"}
    (batch,) = table.follow(snapshot=snapshot.id)
    assert {tuple(row.values()) for row in batch.to_arrow().to_pylist()} == DIFFERENCE
    if producer != "none":
        assert changes(table, "changelog", start) == DIFFERENCE


def test_rows_that_no_changelog_has_reported_are_not_taken_back():
    """The update that waits at level 0 was never reported, so its reader has the older row."""
    table = daily(**{"changelog-producer": "lookup", "write-only": True})
    table.compact(full=True)
    table.upsert(rows([(2, DAYS[0], 23)]))
    start = table.meta.snapshots.latest_id()
    table.overwrite(rows([(2, DAYS[0], 7), (3, DAYS[0], 3)]))
    assert changes(table, "changelog", start) == DIFFERENCE
    assert ("-U", 2, DAYS[0], 23) in changes(table, "diff", start)


def test_a_writer_that_comes_later_keeps_its_rows_without_its_compaction():
    """It was computed from the table before the overwrite."""
    storage = MemoryStorage()
    table = daily(storage)
    stale = table.version
    table.overwrite(rows([(5, DAYS[0], 5)]))

    upsert_rows(stale, rows([(2, DAYS[0], 99)]).cast(stale.schema.row_columns), Identity("late"), picker(stale, True))
    assert found(table) == REST | of(DAYS[0], (5, 5), (2, 99))
    assert table.verify() == []


def test_an_overwrite_of_the_old_merge_rule_fails_after_an_alteration():
    table = daily()
    stale = table.version
    table.alter(lsmlake.set_option("merge-engine", "first-row"))

    late = rows([(2, DAYS[0], 99)]).cast(stale.schema.row_columns)
    with pytest.raises(CommitConflict, match="altered"):
        upsert_rows(stale, late, Identity("late"), None, Replacement(everything=True))
    assert found(table) == REST | FIRST
    assert unreferenced(table) == []
