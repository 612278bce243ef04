"""Changelogs under random histories: folded onto what readers of the changelog have at its start, they give what they have at its
end, for every engine, producer and interval."""

from __future__ import annotations

from itertools import count

import pytest
from effort import examples
from hypothesis import given
from hypothesis import strategies as st
from strategies import new_lake, tiny_units
from test_engine_histories import ERASE, SETUPS, Row, histories, played, written

from lsmlake.api.table import Table
from lsmlake.cdc.changes import view_of

UNIVERSAL = {"num-sorted-run.compaction-trigger": "3"}
MODES = {
    "lookup": {"bucket": "2", "compaction.tier-runs": "3", "changelog-producer": "lookup"},
    "lookup, merge on read": {"deletion-vectors.enabled": "false", "changelog-producer": "lookup", **UNIVERSAL},
    "lookup, gentle": {
        "changelog-producer": "lookup",
        "compaction.strategy": "universal",
        "lookup-compact": "gentle",
        **UNIVERSAL,
    },
    "full-compaction": {"changelog-producer": "full-compaction", "full-compaction.delta-commits": "2", **UNIVERSAL},
}
PAIRS = [(name, mode) for name in SETUPS for mode in MODES if (name, mode) != ("first-row", "full-compaction")]


def fold(rows: dict[int, Row], changes: list[Row]) -> dict[int, Row]:
    """The rows after the changes, each of which must be one."""
    rows, before = dict(rows), {}
    for change in changes:
        kind, key = change.pop("_row_kind"), change["k"]
        if kind in ("-U", "-D"):
            assert rows.pop(key) == change
            if kind == "-U":
                before[key] = change
        else:
            assert key not in rows
            assert (before.pop(key, None) is not None) == (kind == "+U"), "an update has both halves, an insert one"
            rows[key] = change
    assert not before
    return rows


def folded_as_upserts(rows: dict[int, Row], changes: list[Row]) -> dict[int, Row]:
    rows = dict(rows)
    for change in changes:
        kind = change.pop("_row_kind")
        rows.pop(change["k"], None)
        assert kind in ("+I", "-D")
        if kind == "+I":
            rows[change["k"]] = change
    return rows


def at(table: Table, snapshot: int, mode: str, where: str | None = None) -> dict[int, Row]:
    rows = table.scan(snapshot=snapshot, mode=mode, where=where).to_arrow().to_pylist() if snapshot else []
    return {row["k"]: row for row in rows}


@pytest.mark.parametrize(("name", "mode"), PAIRS)
@examples(3)
@given(data=st.data())
def test_a_changelog_leads_from_any_snapshot_to_any_later_one(name, mode, data):
    setup = SETUPS[name]
    deduplicate = {"changelog-producer.row-deduplicate": data.draw(st.sampled_from(["true", "false"]))}
    options = MODES[mode] | setup.options | deduplicate
    table = new_lake().create_table("d.t", setup.columns, primary_key=["k"], options=options)
    with tiny_units(rows=2):
        last = played(table, data.draw(histories(setup)))
        if not last:
            return
        start, end = sorted([data.draw(st.integers(0, last)), data.draw(st.integers(1, last))])
        view = view_of(table.current, "changelog")
        changes = table.changes(start, end, mode="changelog").to_arrow().to_pylist()
        assert fold(at(table, start, view), changes) == at(table, end, view)
        changes = table.changes(start, end, mode="delta").to_arrow().to_pylist()
        assert folded_as_upserts(at(table, start, "fresh"), changes) == at(table, end, "fresh")
        told = table.snapshots()["changelog_record_count"].to_pylist()
        assert table.changes(0, mode="changelog").count() == sum(told)
        assert table.verify() == []


@examples(10)
@given(data=st.data())
def test_the_rows_given_are_the_changelog_of_producer_input(data):
    setup = SETUPS["deduplicate"]
    table = new_lake().create_table(
        "d.t", setup.columns, primary_key=["k"], options={"changelog-producer": "input", "bucket": "2"}
    )
    number, given_rows = count(), []
    for rows, action in data.draw(histories(setup)):
        if rows[0][0] == ERASE:
            continue
        rows = [(kind, row | {"d": next(number)}) for kind, row in rows]
        written(table, rows, inline=action == "inline")
        given_rows += [{"_row_kind": kind, **row} for kind, row in rows]
        if action in ("compact", "full"):
            table.compact(full=action == "full")
    last = table.snapshots().num_rows
    found = table.changes(0, mode="changelog").to_arrow().to_pylist()
    assert sorted(found, key=lambda row: row["d"]) == given_rows
    by_key = sorted(given_rows, key=lambda row: row["k"])
    assert sorted(found, key=lambda row: row["k"]) == by_key, "rows of a key in the order they were given"
    upserts = [row | {"_row_kind": "+I" if row["_row_kind"] in ("+I", "+U") else "-D"} for row in found]
    assert folded_as_upserts({}, upserts) == at(table, last, "fresh")
