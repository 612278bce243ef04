"""Merge engines under random histories: whatever is compacted when, the table holds what its rows come to one after the other."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal

import pyarrow as pa
import pytest
from effort import examples
from engine_model import Aggregate, Newest, Partial, Row, first
from hypothesis import given
from hypothesis import strategies as st
from strategies import new_lake, tiny_units

from lsmlake.api.table import Table

KINDS = ("+I", "+U", "-U", "-D")
ERASE = "erase"


@dataclass(frozen=True)
class Setup:
    """A table and its twin. `kinds`: those its histories may hold."""

    options: dict[str, str]
    columns: str
    fold: Callable[[Row | None, Row, str], Row | None]
    kinds: tuple[str, ...] = ("+I",)


INTS = "k INT NOT NULL, a INT, b INT, c INT, d INT"
LISTS = INTS.replace("d INT", "d ARRAY<INT>")
SETUPS = {
    "deduplicate": Setup({}, INTS, Newest(), KINDS),
    "deduplicate by sequence": Setup({"sequence.field": "a,b"}, INTS, Newest(("a", "b")), KINDS),
    "first-row": Setup({"merge-engine": "first-row"}, INTS, first),
    "partial-update": Setup({"merge-engine": "partial-update"}, INTS, Partial(("a", "b", "c", "d"))),
    "partial-update, removing": Setup(
        {"merge-engine": "partial-update", "partial-update.remove-record-on-delete": "true"},
        INTS,
        Partial(("a", "b", "c", "d"), remove_on_delete=True),
        KINDS,
    ),
    "partial-update by sequence, removing": Setup(
        {"merge-engine": "partial-update", "sequence.field": "a", "partial-update.remove-record-on-delete": "true"},
        INTS,
        Partial(("a", "b", "c", "d"), remove_on_delete=True, by=("a",)),
        KINDS,
    ),
    "partial-update, groups": Setup(
        {"merge-engine": "partial-update", "fields.a.sequence-group": "b", "fields.c.sequence-group": "d"},
        INTS,
        Partial(("a", "b", "c", "d"), {("a",): {"b": None}, ("c",): {"d": None}}),
        KINDS,
    ),
    "partial-update, groups removing": Setup(
        {
            "merge-engine": "partial-update",
            "fields.a,b.sequence-group": "c",
            "partial-update.remove-record-on-sequence-group": "a",
        },
        INTS,
        Partial(("a", "b", "c", "d"), {("a", "b"): {"c": None}}, removing=(("a", "b"),)),
        KINDS,
    ),
    "partial-update, aggregates": Setup(
        {
            "merge-engine": "partial-update",
            "fields.a.sequence-group": "b,c",
            "fields.b.aggregate-function": "sum",
        },
        INTS,
        Partial(("a", "b", "c", "d"), {("a",): {"b": "sum", "c": None}}),
        KINDS,
    ),
    "partial-update, aggregates in order": Setup(
        {
            "merge-engine": "partial-update",
            "fields.a.sequence-group": "c,d",
            "fields.d.aggregate-function": "collect",
            "fields.c.aggregate-function": "first_value",
            "fields.c.ignore-retract": "true",
            "partial-update.remove-record-on-sequence-group": "a",
        },
        LISTS,
        Partial(
            ("a", "b", "c", "d"),
            {("a",): {"d": "collect", "c": "first_value"}},
            removing=(("a",),),
            ignore_retract=frozenset({"c"}),
        ),
        KINDS,
    ),
    "aggregation": Setup(
        {
            "merge-engine": "aggregation",
            "fields.a.aggregate-function": "max",
            "fields.b.aggregate-function": "min",
            "fields.c.aggregate-function": "first_non_null_value",
            "fields.default-aggregate-function": "sum",
        },
        INTS,
        Aggregate({"a": "max", "b": "min", "c": "first_non_null_value", "d": "sum"}),
    ),
    "aggregation, taking back": Setup(
        {
            "merge-engine": "aggregation",
            "fields.a.aggregate-function": "sum",
            "fields.b.aggregate-function": "last_value",
            "fields.c.aggregate-function": "max",
            "fields.c.ignore-retract": "true",
        },
        INTS,
        Aggregate({"a": "sum", "b": "last_value", "c": "max", "d": "last_non_null_value"}, ignore_retract=frozenset({"c"})),
        KINDS,
    ),
    "aggregation, removing": Setup(
        {
            "merge-engine": "aggregation",
            "aggregation.remove-record-on-delete": "true",
            "fields.default-aggregate-function": "sum",
        },
        INTS,
        Aggregate(dict.fromkeys("abcd", "sum"), remove_on_delete=True),
        KINDS,
    ),
    "aggregation by sequence": Setup(
        {
            "merge-engine": "aggregation",
            "sequence.field": "a",
            "sequence.field.sort-order": "descending",
            "fields.c.aggregate-function": "sum",
            "fields.d.aggregate-function": "collect",
        },
        LISTS,
        Aggregate({"b": "last_non_null_value", "c": "sum", "d": "collect"}, by=("a",), descending=True),
        KINDS,
    ),
    "aggregation, not in parts": Setup(
        {"merge-engine": "aggregation", "fields.a.aggregate-function": "product"},
        "k INT NOT NULL, a DECIMAL(30,3), b INT",
        Aggregate({"a": "product", "b": "last_non_null_value"}),
    ),
    "aggregation, lists": Setup(
        {"merge-engine": "aggregation", "fields.a.aggregate-function": "collect"},
        "k INT NOT NULL, a ARRAY<INT>, b INT",
        Aggregate({"a": "collect", "b": "last_non_null_value"}),
        KINDS,
    ),
}

SMALL = st.none() | st.integers(0, 4)


@st.composite
def histories(draw, setup: Setup):
    """Batches of (kind, row), and what is done after each. The rows of a batch of kind ERASE name the keys to erase."""
    lists = st.none() | st.lists(st.integers(0, 2), max_size=3)
    factors = st.none() | st.sampled_from([Decimal("1.500"), Decimal("0.333"), Decimal("-2.000")])
    types = {part.split()[0]: part.split()[1] for part in setup.columns.split(", ")}
    of = {"ARRAY<INT>": lists, "DECIMAL(30,3)": factors}
    values = {name: of.get(type_, SMALL) for name, type_ in types.items()} | {"k": st.integers(0, 4)}
    row = st.tuples(st.sampled_from(setup.kinds), st.fixed_dictionaries(values))
    erased = st.tuples(st.just(ERASE), st.fixed_dictionaries(values))
    batch = (
        st.lists(row, min_size=1, max_size=8) | st.lists(row, min_size=1, max_size=8) | st.lists(erased, min_size=1, max_size=3)
    )
    step = st.tuples(batch, st.sampled_from(["wait", "wait", "inline", "compact", "full"]))
    return draw(st.lists(step, min_size=1, max_size=7))


def written(table: Table, rows: list[tuple[str, Row]], inline: bool) -> bool:
    """Whether there was anything to commit."""
    if rows[0][0] == ERASE:
        keys = {"k": pa.array([row["k"] for _, row in rows], pa.int32())}
        return table.delete_keys(keys, ignore_sequence=True, compact=inline) is not None
    columns = {field.name: pa.array([row[field.name] for _, row in rows], field.type) for field in table.schema}
    data = pa.table(columns | {"op": pa.array([kind for kind, _ in rows])})
    return table.upsert(data, row_kind="op", compact=inline) is not None


def apply(setup: Setup, expected: dict[int, Row], rows: list[tuple[str, Row]]) -> None:
    """What `written` does to the rows that are expected."""
    for kind, row in rows:
        old = expected.pop(row["k"], None)
        state = None if kind == ERASE else setup.fold(old, row, kind)
        if state is not None:
            expected[row["k"]] = state


def played(table: Table, steps: list[tuple[list[tuple[str, Row]], str]]) -> int:
    """Do what a history says; returns the number of the last snapshot."""
    for rows, action in steps:
        written(table, rows, inline=action == "inline")
        if action in ("compact", "full"):
            table.compact(full=action == "full")
    return table.snapshots().num_rows


def found(table: Table, mode: str = "fresh") -> dict[int, Row]:
    rows = table.scan(mode=mode).to_arrow().to_pylist()
    assert len({row["k"] for row in rows}) == len(rows), "a key twice"
    return {row["k"]: row for row in rows}


MODES = {
    "vectors": {"bucket": "2", "compaction.tier-runs": "3"},
    "vectors, one bucket": {"compaction.tier-runs": "3"},
    "merge on read": {"deletion-vectors.enabled": "false", "num-sorted-run.compaction-trigger": "3"},
    "copy on write": {"deletion-vectors.enabled": "false", "full-compaction.delta-commits": "1"},
}
ALL_COMPACTED = {
    "vectors": {"compact", "full"},  # a writer leaves the buckets alone that it does not touch
    "vectors, one bucket": {"inline", "compact", "full"},
    "merge on read": {"full"},
    "copy on write": {"inline", "compact", "full"},
}
"""After which the raw read sees everything."""


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", SETUPS)
@examples(4)
@given(data=st.data())
def test_a_table_is_what_its_rows_come_to(name, mode, data):
    setup = SETUPS[name]
    options = MODES[mode] | setup.options
    table = new_lake().create_table("d.t", setup.columns, primary_key=["k"], options=options)
    expected: dict[int, Row] = {}
    with tiny_units(rows=2):
        for rows, action in data.draw(histories(setup)):
            committed = written(table, rows, inline=action == "inline")
            apply(setup, expected, rows)
            assert found(table) == expected
            assert table.scan(columns=["k"]).count() == len(expected)
            if action in ("compact", "full"):
                table.compact(full=action == "full")
            if action in ALL_COMPACTED[mode] and (committed or action != "inline"):
                assert found(table, "raw") == found(table) == expected
        where = data.draw(st.sampled_from(["b > 1", "b is null", "k = 2", "k > 2 and b < 3"]))
        wanted = {k for k in expected if _holds(expected[k], where)}
        assert set(table.scan(where=where, columns=["k"]).to_arrow()["k"].to_pylist()) == wanted
        assert table.verify() == []
        if last := table.snapshots().num_rows:
            start, end = sorted([data.draw(st.integers(0, last)), data.draw(st.integers(1, last))])
            check_changes(table, start, end, None)
            check_changes(table, start, end, where)


def check_changes(table: Table, start: int, end: int, where: str | None) -> None:
    """The changes folded onto the rows at the start are the rows at the end, and every change is one."""

    def at(snapshot: int) -> dict[int, Row]:
        rows = table.scan(snapshot=snapshot, where=where).to_arrow().to_pylist() if snapshot else []
        return {row["k"]: row for row in rows}

    rows, changes = at(start), table.changes(start, end, where=where).to_arrow().to_pylist()
    before: dict[int, Row] = {}
    for change in changes:
        kind, key = change.pop("_row_kind"), change["k"]
        if kind in ("-U", "-D"):
            assert rows.pop(key) == change
            before[key] = change
        else:
            assert key not in rows and (kind == "+U") == (key in before), "an update has both halves, an insert one"
            assert kind == "+I" or before.pop(key) != change, "no change"
            rows[key] = change
    assert rows == at(end)


def _holds(row: Row, where: str) -> bool:
    b, k = row["b"], row["k"]
    return {
        "b > 1": b is not None and b > 1,
        "b is null": b is None,
        "k = 2": k == 2,
        "k > 2 and b < 3": k > 2 and b is not None and b < 3,
    }[where]
