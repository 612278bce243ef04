"""Merges of dlt into append-only tables: the strategy scd2 beside a naive model, and merge keys of rows without ids."""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Callable
from pathlib import Path
from unittest.mock import patch

import dlt
import pyarrow as pa
import pytest
from dlt.pipeline.exceptions import PipelineStepFailed
from dlt_support import commits, lake_of, pipeline, rows
from effort import scaled

from lsmlake.api.merging import Merging
from lsmlake.api.table import Table

SCD2 = {"disposition": "merge", "strategy": "scd2"}
FOREVER = dt.datetime(9999, 12, 31, tzinfo=dt.timezone.utc)


def moment(day: int) -> dt.datetime:
    return dt.datetime(2026, 1, day, tzinfo=dt.timezone.utc)


def versions(found: list[dict], day: int | None = None, **words: object) -> object:
    """A resource that is merged by scd2. `day`: the time of the load."""
    start = {} if day is None else {"boundary_timestamp": moment(day).isoformat()}
    keys = {"merge_key": words.pop("merge_key")} if "merge_key" in words else {}
    return dlt.resource(found, name="items", write_disposition={**SCD2, **start, **words}, **keys)


VALID = "_dlt_valid_from", "_dlt_valid_to"


@pytest.mark.parametrize("active", [None, FOREVER])
@pytest.mark.parametrize("merge_key", [None, "k", ["day", "k"]])
@pytest.mark.parametrize("seed", range(scaled(2)))
def test_versions_equal_a_model_of_active_rows(seed: int, merge_key: object, active: dt.datetime | None, tmp_path: Path):
    """Rows change, disappear and come back. With a merge key only rows with a key of the load are retired."""
    chance, live, retired = random.Random(seed), {}, []
    names = [merge_key] if isinstance(merge_key, str) else merge_key or []
    keys = {} if merge_key is None else {"merge_key": merge_key}
    for day in range(1, 6):
        found = {(k, chance.choice("ab"), chance.randrange(2)) for k in range(6) if chance.random() < 0.6}
        found |= {(9, "a", day % 2)}
        as_row = lambda one: dict(zip(("k", "day", "v"), one, strict=True))  # noqa: E731
        loaded = {tuple(as_row(one)[name] for name in names) for one in found}
        pipeline(tmp_path).run(versions([as_row(one) for one in found], day, active_record_timestamp=active, **keys))
        for one in [one for one in live if one not in found and tuple(as_row(one)[name] for name in names) in loaded]:
            retired.append((*one, live.pop(one), moment(day)))
        live.update({one: moment(day) for one in found if one not in live})
        stored = rows(tmp_path, "items", "k", "day", "v", *VALID)
        assert stored == sorted([*retired, *((*one, start, active) for one, start in live.items())], key=repr), day
    assert len(commits(tmp_path, "items")) == 5 and not lake_of(tmp_path).table("sales.items").verify()


def test_nested_rows_are_added_with_the_versions_that_hold_them(tmp_path: Path):
    row = lambda k, v, *parts: {"k": k, "v": v, "parts": [{"n": n, "subs": [n]} for n in parts]}  # noqa: E731
    loads = [row(1, 1, 1, 2), row(2, 1)], [row(1, 2, 1, 2), row(2, 1)], [row(1, 2, 1)], [row(1, 2, 1, 2), row(2, 1)]
    for found in loads:
        pipeline(tmp_path).run(versions(found))
    active = {(k, own) for k, own, until in rows(tmp_path, "items", "k", "_dlt_id", "_dlt_valid_to") if until is None}
    parts = rows(tmp_path, "items__parts", "_dlt_parent_id", "n", "_dlt_id")
    subs = rows(tmp_path, "items__parts__subs", "_dlt_parent_id", "value")
    joined = [
        (k, n, value) for k, own in active for parent, n, part in parts if parent == own for at, value in subs if at == part
    ]
    assert {k for k, _ in active} == {1, 2} and sorted(joined) == [(1, 1, 1), (1, 2, 2)]
    assert len(rows(tmp_path, "items")) == 6 and len(parts) == len(subs) == 5
    pipeline(tmp_path).run(versions(loads[-1]))  # the same again
    assert len(rows(tmp_path, "items")) == 6 and rows(tmp_path, "items__parts", "_dlt_parent_id", "n", "_dlt_id") == parts


def test_a_row_version_of_the_user_decides_and_refuses_nested_rows(tmp_path: Path):
    words = {"row_version_column_name": "hash", "validity_column_names": ["since", "until"]}
    for day, found in enumerate([[("a", 1), ("b", 2)], [("a", 9), ("c", 3)]], 1):
        pipeline(tmp_path).run(versions([{"hash": name, "v": v} for name, v in found], day, **words))
    stored = rows(tmp_path, "items", "hash", "v", "since", "until")
    assert stored == [("a", 1, moment(1), None), ("b", 2, moment(1), moment(2)), ("c", 3, moment(2), None)]
    with pytest.raises(
        PipelineStepFailed, match=r"no nested tables.*leave out row_version_column_name, or do not nest: max_table_nesting=0"
    ):
        pipeline(tmp_path).run(versions([{"hash": "d", "v": 1, "parts": [1]}], 3, **words))
    assert rows(tmp_path, "items", "hash", "v", "since", "until") == stored and rows(tmp_path, "items__parts") == []


def test_an_append_only_table_goes_on_with_versions(tmp_path: Path):
    """Its rows count as active."""
    pipeline(tmp_path).run([{"k": 1, "v": 1}, {"k": 2, "v": 2}], table_name="items")
    pipeline(tmp_path).run(versions([{"k": 1, "v": 1}], 2))
    assert rows(tmp_path, "items", "k", *VALID) == [(1, None, moment(2)), (1, moment(2), None), (2, None, moment(2))]


@pytest.mark.parametrize("hint", ["hard_delete", "dedup_sort"])
def test_hints_that_versions_do_not_obey_are_refused(hint: str, tmp_path: Path):
    data = versions([{"k": 1, "v": True}]).apply_hints(columns={"v": {hint: "desc" if hint == "dedup_sort" else True}})
    with pytest.raises(PipelineStepFailed, match=f"{hint} of v"):
        pipeline(tmp_path).run(data)


# -- merge keys of rows without ids -----------------------------------------------------------------------------------


def plain(found: list[tuple]) -> object:
    """An Arrow table, whose rows have no ids, merged by the key `day`."""
    names = "k", "day", "gone"
    data = pa.Table.from_pylist([dict(zip(names, one, strict=True)) for one in found], ARROW)
    columns = {"day": {"merge_key": True}, "gone": {"hard_delete": True}}
    return dlt.resource([data], name="items", write_disposition="merge", columns=columns)


ARROW = pa.schema([("k", pa.int64()), ("day", pa.string()), ("gone", pa.bool_())])


def test_a_merge_key_replaces_rows_that_have_no_ids(tmp_path: Path):
    pipeline(tmp_path).run(plain([(1, "a", None), (1, "a", None), (2, "b", None), (3, None, None)]))
    pipeline(tmp_path).run(plain([(4, "a", None), (4, "a", False), (5, None, None), (6, "c", True)]))
    stored = rows(tmp_path, "items", "k", "day")
    assert stored == [(2, "b"), (3, None), (4, "a"), (4, "a"), (5, None)]
    pipeline(tmp_path).run(plain([(0, "a", True)]))  # removes all rows of the day
    assert rows(tmp_path, "items", "k", "day") == [(2, "b"), (3, None), (5, None)]
    table = lake_of(tmp_path).table("sales.items")
    assert not table.primary_key and len(commits(tmp_path, "items")) == 3 and not table.verify()


# -- failures ---------------------------------------------------------------------------------------------------------

MERGED = {
    "versions": lambda number: versions([{"k": 1, "v": number, "parts": [number]}, {"k": 2, "v": 0, "parts": []}]),
    "merge key": lambda number: plain([(1, "a", None), (number, "b", None)]),
}


def failing(write: Callable, when: str, calls: list) -> Callable:
    """The function `write`, which fails once, before or after it did its work."""

    def call(*args: object, **words: object):
        calls.append(write)
        if len(calls) == 1 and when == "before":
            raise OSError("the machine is tired")
        done = write(*args, **words)
        if len(calls) == 1:
            raise OSError("the machine is tired")
        return done

    return call


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("broken", MERGED)
def test_a_merge_that_is_tried_again_is_committed_once(broken: str, when: str, tmp_path: Path):
    pipeline(tmp_path).run(MERGED[broken](1))
    calls, read = [], Merging.read
    with patch.object(Merging, "read", lambda *given: failing(read(*given), when, calls)):
        pipeline(tmp_path).run(MERGED[broken](2))
    assert len(calls) == 2
    if broken == "versions":
        assert rows(tmp_path, "items", "k", "v") == [(1, 1), (1, 2), (2, 0)]
        assert rows(tmp_path, "items__parts", "value") == [(1,), (2,)]
        assert [until is None for _, until in rows(tmp_path, "items", "v", "_dlt_valid_to")] == [True, False, True]
    else:
        assert rows(tmp_path, "items", "k", "day") == [(1, "a"), (2, "b")]
    for table in ("items", "items__parts") if broken == "versions" else ("items",):
        assert len(commits(tmp_path, table)) == len(set(commits(tmp_path, table))) == 2


@pytest.mark.parametrize("when", ["before", "after"])
def test_nested_rows_of_versions_are_added_once(when: str, tmp_path: Path):
    pipeline(tmp_path).run(MERGED["versions"](1))
    calls, append = [], Table.append

    def appended(self: Table, *given: object, **words: object):
        write = failing(append, when, calls) if "items__parts" in self.name else append
        return write(self, *given, **words)

    with patch.object(Table, "append", appended):
        pipeline(tmp_path).run(MERGED["versions"](2))
    assert len(calls) == 2 and rows(tmp_path, "items__parts", "value") == [(1,), (2,)]
    assert rows(tmp_path, "items", "k", "v") == [(1, 1), (1, 2), (2, 0)]
