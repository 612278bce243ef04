"""Row expiry: rows are dropped when a compaction rewrites them, not before, and never return."""

from __future__ import annotations

import datetime as dt

import pyarrow as pa
import pytest
from strategies import START_MS, UTC, new_lake

from lsmlake.api.table import Table
from lsmlake.errors import InvalidOption

NOW_S = START_MS // 1000
HOUR = 3_600
KEPT = {"record-level.expire-time": "1 h", "record-level.time-field": "at"}
VECTORS, MERGED = {}, {"deletion-vectors.enabled": "false"}


def table_with(type_: str = "BIGINT", **options: str) -> Table:
    named = {name.replace("__", "-"): value for name, value in options.items()}
    return new_lake().create_table("d.t", f"k INT, at {type_}, v INT", primary_key=["k"], options=KEPT | named)


def put(table: Table, *rows: tuple, **how: object) -> None:
    columns = zip(*rows, strict=True)
    made = [pa.array(column, field.type) for column, field in zip(columns, table.schema, strict=True)]
    table.upsert(pa.table(made, names=table.schema.names), **how)


def keys(table: Table, mode: str = "fresh") -> list[int]:
    return sorted(table.scan(mode=mode, columns=["k"]).to_arrow()["k"].to_pylist())


def moment(seconds: float) -> dt.datetime:
    return dt.datetime.fromtimestamp(seconds, UTC)


TIMES = {
    "INT": lambda seconds: int(seconds),
    "BIGINT": lambda seconds: int(seconds * 1000),
    "TIMESTAMP": moment,
    "TIMESTAMP_NTZ": lambda seconds: moment(seconds).replace(tzinfo=None),
}


@pytest.mark.parametrize("type_", TIMES)
def test_a_row_is_kept_as_long_as_it_is_to_be(type_):
    """The clock of the tests stands within the second after `NOW_S`."""
    of = TIMES[type_]
    table = table_with(type_)
    put(table, (1, of(NOW_S - HOUR), 0), (2, of(NOW_S - HOUR - 1), 0), (3, of(NOW_S + 9), 0), (4, None, 0), compact=False)
    assert keys(table) == [1, 2, 3, 4]
    report = table.compact(full=True)
    assert keys(table) == keys(table, "raw") == [1, 3, 4]
    assert report.snapshot_id is not None
    assert table.verify() == []
    assert table.compact(full=True).snapshot_id is None


def test_a_bigint_may_be_seconds():
    table = table_with()
    put(table, (1, NOW_S - HOUR, 0), (2, NOW_S - HOUR - 1, 0))
    table.compact(full=True)
    assert keys(table) == [1]


def test_a_full_compaction_looks_for_expired_rows_in_a_bucket_that_is_one_run_already():
    table = table_with()
    put(table, *((k, NOW_S - HOUR + 100, 0) for k in range(10)), compact=False)
    table.compact(full=True)
    assert keys(table) == list(range(10))
    table.meta.env.clock.now_ms += 200_000
    assert keys(table) == list(range(10)), "reading drops nothing"
    assert table.compact(full=True).files_out == 0
    assert keys(table) == []
    assert table.verify() == []


@pytest.mark.parametrize("mode", [VECTORS, MERGED], ids=["vectors", "merge on read"])
def test_an_expired_row_does_not_bring_back_the_one_it_replaced(mode):
    table = table_with(**mode)
    put(table, (1, NOW_S, 1), (2, NOW_S, 1))
    table.compact(full=True)
    put(table, (1, NOW_S - 2 * HOUR, 2))
    put(table, (3, NOW_S, 3))
    assert 1 not in keys(table) or table.scan(where="k = 1").to_arrow()["v"].to_pylist() == [2]
    table.compact()
    assert 1 not in keys(table) or table.scan(where="k = 1").to_arrow()["v"].to_pylist() == [2]
    table.compact(full=True)
    assert keys(table) == [2, 3]
    assert table.verify() == []


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"record-level.expire-time": "1 h"}, "only one of"),
        ({"record-level.time-field": "at"}, "only one of"),
        (KEPT | {"record-level.time-field": "when"}, "'when' is not a column"),
        (KEPT | {"record-level.time-field": "name"}, "does not tell a time"),
        (KEPT | {"record-level.expire-time": "soon"}, "a duration"),
    ],
)
def test_options_that_do_not_go_together_are_refused(options, words):
    with pytest.raises(InvalidOption, match=words):
        new_lake().create_table("d.t", "k INT, at BIGINT, name STRING", primary_key=["k"], options=options)


# -- when level 0 is taken up ---


def level0(table: Table) -> int:
    return len({row["max_sequence_number"] for row in table.files().to_pylist() if row["level"] == 0})


def test_gentle_lookups_let_commits_wait():
    options = {
        "compaction.strategy": "universal",
        "num-sorted-run.compaction-trigger": "3",
        "lookup-compact": "gentle",
        "lookup-compact.max-interval": "4",
    }
    table = new_lake().create_table("d.t", "k INT, v INT", primary_key=["k"], options=options)
    waiting = []
    for number in range(10):
        table.upsert({"k": [1, 2], "v": [number] * 2})
        waiting.append(level0(table))
        assert table.scan(where="k = 1").to_arrow()["v"].to_pylist() == [number]
    assert max(waiting) >= 2
    assert max(waiting) <= 4
    radical = new_lake().create_table("d.t", "k INT, v INT", primary_key=["k"], options={"compaction.strategy": "universal"})
    for number in range(5):
        radical.upsert({"k": [1, 2], "v": [number] * 2})
        assert level0(radical) == 0


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"lookup-compact": "gentle", "compaction.strategy": "tiered"}, "has no effect unless compaction.strategy = universal"),
        (
            {"lookup-compact": "gentle", "deletion-vectors.enabled": "false"},
            "unless deletion-vectors.enabled = true or changelog-producer = lookup",
        ),
        ({"lookup-compact.max-interval": "3", "compaction.strategy": "universal"}, "unless lookup-compact = gentle"),
        ({"lookup-compact": "slow", "compaction.strategy": "universal"}, "'radical' or 'gentle'"),
    ],
)
def test_gentleness_that_means_nothing_is_refused(options, words):
    with pytest.raises(InvalidOption, match=words):
        new_lake().create_table("d.t", "k INT, v INT", primary_key=["k"], options=options)
