"""The case tables of changelog producers lookup (C1-C8) and full-compaction (G1, G2), in their own notation; input; refusals.

A case has the rows before, the rows of the last commit, and its changelog. Before: '+v' is a row at a deeper level, '-' a delete
that was compacted after it. Then `L0` rows that one compaction takes: 'v' inserts or replaces, '-' deletes.
"""

from __future__ import annotations

import itertools
import struct
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import NamedTuple

import pyarrow as pa
import pytest
from strategies import new_lake

from lsmlake.api.changes import Changes
from lsmlake.api.table import Table
from lsmlake.errors import InvalidOption, InvalidQuery

LOOKUP = {"changelog-producer": "lookup"}
FULL = {"changelog-producer": "full-compaction", "full-compaction.delta-commits": "100"}


class Case(NamedTuple):
    above: str
    level0: str
    emitted: list[tuple[str, str]]
    options: Mapping[str, str] = MappingProxyType({})


CASES = {
    "C1/G1 only rows above level 0": Case("+1", "", []),
    "C2/C4 v2 over v1": Case("+1", "2", [("-U", "1"), ("+U", "2")]),
    "C3/G1 the key is new": Case("", "1", [("+I", "1")]),
    "C5 over a delete": Case("+1 -", "2", [("+I", "2")]),
    "C6/G1 a delete of nothing": Case("", "-", []),
    "C6 a delete of a deleted row": Case("+1 -", "-", []),
    "C7 a delete of v1": Case("+1", "-", [("-D", "1")]),
    "C8 the same again": Case("+1", "1", [("-U", "1"), ("+U", "1")]),
    "C8 the same again, row-deduplicate": Case("+1", "1", [], {"changelog-producer.row-deduplicate": "true"}),
    "C8 another value, row-deduplicate": Case(
        "+1", "2", [("-U", "1"), ("+U", "2")], {"changelog-producer.row-deduplicate": "true"}
    ),
    "C8 another value of an ignored field": Case(
        "+1", "2", [], {"changelog-producer.row-deduplicate": "true", "changelog-producer.row-deduplicate-ignore-fields": "v"}
    ),
    "G2 several rows at level 0": Case("+1", "2 - 3 4", [("-U", "1"), ("+U", "4")]),
    "G2 come and gone at level 0": Case("", "2 - 3 -", []),
    "first-row: a new key": Case("", "1 2", [("+I", "1")], {"merge-engine": "first-row"}),
    "F2 first-row: a later row": Case("+1", "2", [], {"merge-engine": "first-row"}),
    "a late row": Case("+5", "3", [("-U", "5"), ("+U", "5")], {"sequence.field": "v"}),
    "a late row, row-deduplicate": Case("+5", "3", [], {"sequence.field": "v", "changelog-producer.row-deduplicate": "true"}),
}


def made(options: dict[str, str]) -> Table:
    return new_lake().create_table("d.t", "k INT NOT NULL, v STRING, w INT", primary_key=["k"], options=options)


def write(table: Table, value: str, *, compact: bool) -> None:
    kind, v = ("-D", None) if value == "-" else ("+I", value)
    row = {"k": [7], "v": pa.array([v], pa.string()), "w": pa.array([1], pa.int32()), "op": [kind]}
    table.upsert(pa.table(row), row_kind="op", compact=compact)


def emitted(table: Table, start: int) -> list[tuple[str, str]]:
    rows = table.changes(start, mode="changelog").to_arrow()
    return list(zip(rows["_row_kind"].to_pylist(), rows["v"].to_pylist(), strict=True))


WAYS = {
    "lookup": LOOKUP,
    "lookup, universal": LOOKUP | {"compaction.strategy": "universal"},
    "lookup without vectors": LOOKUP | {"deletion-vectors.enabled": "false"},
    "full-compaction": FULL,
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("full", [False, True])
def test_case(name, way, full):
    case = CASES[name]
    full = full or way == "full-compaction"
    if way == "full-compaction" and case.options.get("merge-engine") == "first-row":
        return  # refused, see below
    table = made({**WAYS[way], **case.options})
    for value in case.above.split():
        write(table, value.removeprefix("+"), compact=False)
        table.compact(full=full)
    if name.startswith("C1"):
        write(table, case.above.removeprefix("+"), compact=False)
        table.compact(full=way == "full-compaction")
    start = table.snapshots().num_rows
    for value in case.level0.split():
        write(table, value, compact=False)
    table.compact(full=full)
    assert emitted(table, start) == case.emitted
    assert table.compact(full=True).snapshot_id is None or emitted(table, start) == case.emitted, "emitted once"


def test_inline_and_in_a_job_of_its_own_a_changelog_is_the_same():
    at_once, apart = made(LOOKUP), made(LOOKUP | {"write-only": "true"})
    for value in ["1", "2", "-", "3", "3"]:
        write(at_once, value, compact=None)
        write(apart, value, compact=None)
        assert emitted(apart, apart.snapshots().num_rows - 1) == [], "a writer that only writes looks nothing up"
        apart.compact()
    expected = [("+I", "1"), ("-U", "1"), ("+U", "2"), ("-D", "2"), ("+I", "3"), ("-U", "3"), ("+U", "3")]
    assert emitted(at_once, 0) == emitted(apart, 0) == expected


NAN, OTHER_NAN = (struct.unpack("<d", struct.pack("<q", bits))[0] for bits in (0x7FF8 << 48, (0x7FF8 << 48) + 1))
VALUES = (0.0, -0.0, NAN, OTHER_NAN, 1.5, None)
HOLDERS: dict[str, tuple[str, Callable[[float | None], object]]] = {
    "DOUBLE": ("DOUBLE", lambda value: value),
    "FLOAT": ("FLOAT", lambda value: value),
    "field": ("STRUCT<a: DOUBLE, b: INT>", lambda value: {"a": value, "b": 1}),
    "element": ("ARRAY<DOUBLE>", lambda value: [1.0, value]),
    "value of a map": ("MAP<STRING, DOUBLE>", lambda value: [("a", value), ("b", 1.0)]),
}


def found_in(changes: Changes) -> list[tuple[int, str]]:
    rows = changes.to_arrow()
    return sorted(zip(rows["k"].to_pylist(), rows["_row_kind"].to_pylist(), strict=True))


@pytest.mark.parametrize("holder", HOLDERS)
def test_a_change_is_what_a_scan_shows(holder):
    """In differences, with and without a key, and in a changelog without rows that stay equal: 0.0 and -0.0 are two values, all
    NaN are one. Each row holds a value before and a value after, in all pairs."""
    ddl, held = HOLDERS[holder]
    pairs = list(itertools.product(VALUES, VALUES))
    lake = new_lake()
    options = LOOKUP | {"changelog-producer.row-deduplicate": "true"}
    keyed = lake.create_table("d.t", f"k INT NOT NULL, v {ddl}", primary_key=["k"], options=options)
    bag = lake.create_table("d.bag", f"k INT, v {ddl}")
    columns = keyed.schema.field("v").type
    scans, starts = [], []
    for side in range(2):
        rows = pa.table({"k": range(len(pairs)), "v": pa.array([held(pair[side]) for pair in pairs], columns)})
        keyed.upsert(rows)
        keyed.compact()
        bag.overwrite(rows)
        starts = starts or [table.snapshots().num_rows for table in (keyed, bag)]
        shown = [list(map(repr, table.scan().to_arrow().sort_by("k").to_pylist())) for table in (keyed, bag)]
        assert shown[0] == shown[1]
        scans.append(shown[0])
    changed = [key for key, (old, new) in enumerate(zip(*scans, strict=True)) if old != new]
    assert len(changed) == sum(repr(old) != repr(new) for old, new in pairs)
    updates = sorted((key, kind) for key in changed for kind in ("-U", "+U"))
    assert found_in(keyed.changes(starts[0])) == found_in(keyed.changes(starts[0], mode="changelog")) == updates
    assert found_in(bag.changes(starts[1])) == sorted((key, kind) for key in changed for kind in ("-D", "+I"))


def test_input_reports_every_row_as_given():
    table = made({"changelog-producer": "input"})
    rows = [("+I", 1, "a"), ("-U", 1, "a"), ("+U", 1, "b"), ("+I", 2, "c"), ("-D", 2, "c")]
    kinds, keys, values = (list(column) for column in zip(*rows, strict=True))
    table.upsert({"k": keys, "v": values, "w": [1] * 5, "op": kinds}, row_kind="op")
    assert emitted(table, 0) == [("+I", "a"), ("-U", "a"), ("+U", "b"), ("+I", "c"), ("-D", "c")]
    table.delete_keys({"k": [1]})
    assert emitted(table, 1) == [("-D", None)]
    assert table.scan().count() == 0


def test_input_leaves_out_what_options_ignore():
    table = made({"changelog-producer": "input", "ignore-delete": "true"})
    table.upsert({"k": [1, 1], "v": ["a", "a"], "w": [1, 1], "op": ["+I", "-D"]}, row_kind="op")
    assert emitted(table, 0) == [("+I", "a")]


def test_input_leaves_out_what_the_merge_rule_drops():
    """remove-record-on-delete drops -U rows before they are written, so the changelog has none. Found by `test_histories`."""
    table = made(
        {
            "changelog-producer": "input",
            "merge-engine": "partial-update",
            "partial-update.remove-record-on-delete": "true",
        }
    )
    kinds = ["+I", "-U", "+U", "-U", "-D"]
    table.upsert({"k": [1] * 5, "v": ["a", "a", "b", "b", None], "w": [1] * 5, "op": kinds}, row_kind="op")
    assert emitted(table, 0) == [("+I", "a"), ("+U", "b"), ("-D", None)]
    assert table.scan().count() == 0


def test_full_compaction_compacts_at_every_commit_by_default():
    table = made({"changelog-producer": "full-compaction"})
    write(table, "1", compact=None)
    write(table, "2", compact=None)
    assert emitted(table, 0) == [("+I", "1"), ("-U", "1"), ("+U", "2")]
    assert not table.version.schema.parsed_options.layout.deletion_vectors


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"changelog-producer": "full-compaction", "deletion-vectors.enabled": "true"}, "leave deletion-vectors.enabled out"),
        ({"changelog-producer": "full-compaction", "merge-engine": "first-row"}, "lookup or none"),
        ({"changelog-producer": "input", "merge-engine": "first-row"}, "lookup or none"),
        (
            {"changelog-producer": "input", "changelog-producer.row-deduplicate": "true"},
            "unless changelog-producer = lookup or full-compaction",
        ),
        ({"changelog-producer.row-deduplicate": "true"}, "unless changelog-producer = lookup or full-compaction"),
        ({**LOOKUP, "changelog-producer.row-deduplicate-ignore-fields": "v"}, "row-deduplicate = true"),
        (
            {**LOOKUP, "changelog-producer.row-deduplicate": "true", "changelog-producer.row-deduplicate-ignore-fields": "nope"},
            "nope",
        ),
        ({"changelog-producer": "lockup"}, "lookup"),
    ],
)
def test_options_that_contradict_are_refused(options, words):
    with pytest.raises(InvalidOption, match=words):
        made(options)


def test_a_table_without_a_producer_has_no_changelog_to_read():
    table = made({})
    write(table, "1", compact=True)
    with pytest.raises(InvalidQuery, match="changelog-producer"):
        table.changes(0, mode="changelog").count()
    with pytest.raises(InvalidQuery, match="'delta'"):
        table.changes(0, mode="dleta").count()


def test_a_changelog_has_statistics_of_its_own_and_is_filtered():
    table = made(LOOKUP | {"bucket": "4"})
    table.upsert({"k": list(range(100)), "v": [str(k % 3) for k in range(100)], "w": [None] * 100})
    assert table.snapshots()["changelog_record_count"].to_pylist() == [100]
    found = table.changes(0, mode="changelog", where="k >= 90 and v = '0'", columns=["k"]).to_arrow()
    assert found.to_pylist() == [{"_row_kind": "+I", "k": k} for k in found["k"].to_pylist()]
    assert sorted(found["k"].to_pylist()) == [90, 93, 96, 99]
