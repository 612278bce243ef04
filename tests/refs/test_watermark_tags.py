"""Watermarks of snapshots by `watermark.column`, and the automatic tags that go by them."""

from __future__ import annotations

import datetime as dt

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import lake_on

from lsmlake import rename_column, set_option
from lsmlake.api.table import Table
from lsmlake.errors import InvalidOption, InvalidQuery, LakeError
from lsmlake.storage.memory import MemoryStorage

WATERMARK = {"tag.automatic-creation": "watermark", "watermark.column": "at"}


def made(type_: str = "TIMESTAMP", **options: object) -> Table:
    lake = lake_on(MemoryStorage())
    lake.create_database("d")
    named = {name.replace("__", "."): value for name, value in options.items()}
    return lake.create_table("d.t", f"k BIGINT NOT NULL, at {type_}", primary_key=["k"], options={"bucket": 2} | named)


def moment(text: str) -> dt.datetime:
    return dt.datetime.fromisoformat(text).replace(tzinfo=dt.timezone.utc)


def tags_after(table: Table, *times: str) -> list[str]:
    table.upsert({"k": list(range(len(times))), "at": [moment(time) for time in times]})
    return sorted(table.tags()["tag_name"].to_pylist())


def test_the_first_commit_whose_watermark_passes_a_period_tags_it():
    table = made(**WATERMARK, **{"tag.creation-period": "hourly", "watermark.delay": "10 min"})
    assert tags_after(table, "2024-03-01T12:30:00", "2024-03-01T12:05:00") == ["2024-03-01 11"]
    assert tags_after(table, "2024-03-01T13:09:59") == ["2024-03-01 11"]
    assert tags_after(table, "2024-03-01T13:10:00", "2024-03-01T10:00:00") == ["2024-03-01 11", "2024-03-01 12"]
    assert table.scan(tag="2024-03-01 12").count() == 2
    assert tags_after(table, "2024-03-01T11:00:00") == ["2024-03-01 11", "2024-03-01 12"]  # late


def test_rows_without_a_time_give_no_watermark_and_no_tag():
    table = made(**WATERMARK)
    table.upsert({"k": [1], "at": pa.array([None], pa.timestamp("us", "UTC"))})
    assert table.tags().num_rows == 0 and table.snapshots()["watermark"].to_pylist() == [None]


@pytest.mark.parametrize(("type_", "times"), [("INT", [1_700_000_000, 60]), ("BIGINT", [1_700_000_000_000, 60])])
def test_integers_are_seconds_or_milliseconds(type_, times):
    table = made(type_, watermark__column="at")
    table.upsert({"k": [1, 2], "at": times})
    assert table.snapshots()["watermark"].to_pylist()[-1] == 1_700_000_000_000


@given(st.lists(st.lists(st.integers(-(10**14), 10**15), min_size=1, max_size=4), min_size=1, max_size=6), st.booleans())
def test_a_watermark_is_the_greatest_time_so_far(batches, without_statistics):
    modes = {"metadata.stats-mode": "none", "metadata.stats-keep-first-n-columns": 0} if without_statistics else {}
    table = made("TIMESTAMP_NTZ", **{"watermark.column": "at", "watermark.delay": "1 s"}, **modes)
    expected, greatest = [], None
    for batch in batches:
        table.upsert({"k": list(range(len(batch))), "at": pa.array(batch, pa.timestamp("us"))})
        table.compact(full=True)
        greatest = max(batch if greatest is None else [*batch, greatest])
        expected.append(greatest // 1000 - 1000)
    found = table.snapshots()["watermark"].to_pylist()
    assert found == sorted(found) and set(found) == set(expected)


def test_a_rollback_has_the_watermark_of_its_target():
    table = made(watermark__column="at")
    tags_after(table, "2024-03-01T12:00:00")
    tags_after(table, "2024-03-02T12:00:00")
    table.rollback(snapshot=1)
    assert table.snapshots(last=1)["watermark"].to_pylist() == [int(moment("2024-03-01T12:00:00").timestamp() * 1000)]


def test_a_renamed_column_stays_the_column_of_the_watermark():
    table = made(watermark__column="at")
    table.alter(rename_column("at", "happened"))
    table.upsert({"k": [1], "happened": [moment("2024-03-01T12:00:00")]})
    assert table.snapshots(last=1)["watermark"].to_pylist() == [int(moment("2024-03-01T12:00:00").timestamp() * 1000)]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"tag.automatic-creation": "watermark"}, "watermark.column"),
        ({"watermark.delay": "1 s"}, "watermark.column"),
        ({"watermark.column": "nope"}, "nope"),
        ({"watermark.column": "name"}, "does not tell a time"),
        ({"watermark.column": "at", "fields.at.stats-mode": "counts"}, "fields.at.stats-mode"),
        ({"watermark.column": "at", "watermark.delay": "soon"}, "watermark.delay"),
    ],
)
def test_options_that_make_no_watermark_are_refused(options, said):
    lake = lake_on(MemoryStorage())
    lake.create_database("d")
    with pytest.raises(InvalidOption, match=said):
        lake.create_table("d.t", "k BIGINT NOT NULL, at TIMESTAMP, name STRING", primary_key=["k"], options=options)
    table = lake.create_table("d.t", "k BIGINT NOT NULL, at TIMESTAMP, name STRING", primary_key=["k"])
    with pytest.raises(LakeError, match=said):
        table.alter(*(set_option(name, value) for name, value in options.items()))


def test_the_newest_snapshots_alone():
    table = made()
    for key in range(4):
        table.upsert({"k": [key], "at": [None]}, compact=False)
    every = table.snapshots()
    assert table.snapshots(last=2).equals(every.slice(2)) and table.snapshots(last=9).equals(every)
    for last in (0, -1, True, 1.5, "2"):
        with pytest.raises(InvalidQuery, match="last"):
            table.snapshots(last=last)
