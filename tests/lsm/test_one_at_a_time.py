"""Merging rows in any batches and at any points gives the same result as applying them one at a time (`engine_model`).

Tests the merge engines without a table, which is fast: every rule, every aggregate function, every order of sequence values.
`LSMLAKE_EXAMPLES=100 pytest tests/lsm/test_one_at_a_time.py` runs more examples.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pytest
from aggregate_model import LONG, TWINS, first_of, same, small
from effort import examples
from engine_model import Aggregate, Newest, Partial, Row, first, fold_of
from hypothesis import given
from hypothesis import strategies as st

from lsmlake.kernels.groups import group
from lsmlake.kernels.keys import comparable
from lsmlake.lsm.merge.rule import MergeRule, merge_runs
from lsmlake.lsm.merge.rules import rule_of
from lsmlake.schema.rowkind import NAMES, kinds_of, with_kind, without_deletes
from lsmlake.schema.schema import Schema
from lsmlake.write.bucket_writer import fold, in_replay_order

ADDS, ALL = ("+I", "+U"), ("+I", "+I", "+U", "-U", "-D")
NUMBER = st.one_of(st.none(), st.integers(0, 4))
Model = Callable[[Row | None, Row, str], Row | None]


@dataclass(frozen=True)
class Setup:
    """`columns` beside the key `k`: name -> (type, values)."""

    options: dict[str, str]
    columns: dict[str, tuple[pa.DataType, st.SearchStrategy]]
    model: Model
    kinds: tuple[str, ...] = ADDS

    def rule(self) -> MergeRule:
        fields = [pa.field("k", pa.int64(), nullable=False), *((name, type_) for name, (type_, _) in self.columns.items())]
        return rule_of(Schema.create(pa.schema(fields), ["k"], [], self.options, None, 0, "uuid", "t"))


Arrival = tuple[Row, str]


def batch(setup: Setup, rule: MergeRule, arrivals: list[Arrival]) -> pa.Table:
    """Rows as they are stored before anything is combined."""
    types = {"k": pa.int64(), **{name: type_ for name, (type_, _) in setup.columns.items()}}
    rows = pa.table({name: pa.array([row[name] for row, _ in arrivals], type_) for name, type_ in types.items()})
    given = np.array([NAMES.index(kind) for _, kind in arrivals], np.int8)
    rule.validate(rows, given)
    kinds = rule.stored(given)
    return with_kind(rows, kinds) if kinds.any() else rows


def written(setup: Setup, rule: MergeRule, arrivals: list[Arrival]) -> pa.Table:
    rows = batch(setup, rule, arrivals)
    return fold(rows, group(comparable([rows.select(["k"])])[0]), rule, ["k"], None)


def merged(runs: list[pa.Table], rule: MergeRule, *, complete: bool) -> pa.Table:
    made = merge_runs(runs, ["k"], rule, complete=complete)
    return without_deletes(made) if complete else made


def rows_of(table: pa.Table) -> dict[int, Row]:
    rows = {row["k"]: row for row in table.to_pylist()}
    assert len(rows) == table.num_rows, "a key twice"
    return rows


def one_at_a_time(model: Model, arrivals: list[Arrival]) -> dict[int, Row]:
    states: dict[int, Row] = {}
    for row, kind in arrivals:
        state = model(states.pop(row["k"], None), row, kind)
        if state is not None:
            states[row["k"]] = state
    return states


@st.composite
def histories(draw, setup: Setup) -> list[Arrival]:
    row = st.fixed_dictionaries({"k": st.integers(0, 1), **{name: values for name, (_, values) in setup.columns.items()}})
    return draw(st.lists(st.tuples(row, st.sampled_from(setup.kinds)), min_size=1, max_size=9))


def check(setup: Setup, data: st.DataObject) -> None:
    """Batches become runs; runs are merged, some of them complete, as compactions and reads do; then all are."""
    rule, arrivals = setup.rule(), data.draw(histories(setup))
    expected = one_at_a_time(setup.model, arrivals)
    cuts = sorted(data.draw(st.sets(st.integers(1, len(arrivals)), max_size=5)) | {len(arrivals)})
    runs = [written(setup, rule, arrivals[a:b]) for a, b in zip([0, *cuts], cuts, strict=False)]
    assert same_rows(rows_of(merged(runs, rule, complete=True)), expected)
    while len(runs) > 1:
        start = data.draw(st.integers(0, len(runs) - 2))
        stop = data.draw(st.integers(start + 1, len(runs)))
        complete = start == 0 and data.draw(st.booleans())
        if stop - start == 1 and not complete:
            stop += 1
        runs[start:stop] = [merged(runs[start:stop], rule, complete=complete)]
    assert same_rows(rows_of(merged(runs, rule, complete=True)), expected)


def same_rows(found: dict[int, Row], expected: dict[int, Row]) -> bool:
    assert {k: same(row) for k, row in found.items()} == {k: same(row) for k, row in expected.items()}
    return True


BY = {"sequence.field": "s"}
INTS = {name: (pa.int64(), NUMBER) for name in "stuv"}
PARTIAL, AGGREGATION = {"merge-engine": "partial-update"}, {"merge-engine": "aggregation"}
FORGETS = {"sequence.delete-retained": "0 s"}
"""What retained deletes ignore is removed before rows are merged: `tests/lsm/test_retained_deletes.py`."""
DESCENDING = {"sequence.field.sort-order": "descending"}
REMOVE_GROUP = "partial-update.remove-record-on-sequence-group"

SETUPS = {
    "deduplicate": Setup({}, INTS, Newest(), ALL),
    "first-row": Setup({"merge-engine": "first-row"}, INTS, first),
    "deduplicate by s": Setup(BY | FORGETS, INTS, Newest(("s",)), ALL),
    "deduplicate by s, falling": Setup(BY | FORGETS | DESCENDING, INTS, Newest(("s",), descending=True), ALL),
    "deduplicate by s and t": Setup(FORGETS | {"sequence.field": "s,t"}, INTS, Newest(("s", "t")), ALL),
    "partial-update": Setup(PARTIAL, INTS, Partial(tuple("stuv"))),
    "partial-update by s": Setup(PARTIAL | BY, INTS, Partial(tuple("stuv"), by=("s",))),
    "partial-update by s and t, falling": Setup(
        PARTIAL | DESCENDING | {"sequence.field": "s,t"}, INTS, Partial(tuple("stuv"), by=("s", "t"), descending=True)
    ),
    "partial-update by s, removing": Setup(
        PARTIAL | BY | {"partial-update.remove-record-on-delete": "true"},
        INTS,
        Partial(tuple("stuv"), by=("s",), remove_on_delete=True),
        ("+I", "+I", "-D"),  # a writer drops -U
    ),
    "groups": Setup(
        PARTIAL | {"fields.s.sequence-group": "u", "fields.t.sequence-group": "v"},
        INTS,
        Partial(tuple("stuv"), {("s",): {"u": None}, ("t",): {"v": None}}),
        ALL,
    ),
    "a group of two sequences": Setup(
        PARTIAL | {"fields.s,t.sequence-group": "u"}, INTS, Partial(tuple("stuv"), {("s", "t"): {"u": None}}), ALL
    ),
    "groups by u": Setup(
        PARTIAL | {"sequence.field": "u", "fields.s.sequence-group": "t"},
        INTS,
        Partial(tuple("stuv"), {("s",): {"t": None}}, by=("u",)),
        ALL,
    ),
    "a group by its own sequence": Setup(
        PARTIAL | BY | {"fields.s.sequence-group": "t"}, INTS, Partial(tuple("stuv"), {("s",): {"t": None}}, by=("s",)), ALL
    ),
    "groups, removing": Setup(
        PARTIAL | {"fields.s.sequence-group": "u", "fields.t.sequence-group": "v", REMOVE_GROUP: "s"},
        INTS,
        Partial(tuple("stuv"), {("s",): {"u": None}, ("t",): {"v": None}}, removing=(("s",),)),
        ALL,
    ),
    "groups, each removing": Setup(
        PARTIAL | {"fields.s.sequence-group": "u", "fields.t.sequence-group": "v", REMOVE_GROUP: "s,t"},
        INTS,
        Partial(tuple("stuv"), {("s",): {"u": None}, ("t",): {"v": None}}, removing=(("s",), ("t",))),
        ALL,
    ),
    "groups by v, removing": Setup(
        PARTIAL | {"sequence.field": "v", "fields.s.sequence-group": "u", "fields.t.sequence-group": "w", REMOVE_GROUP: "s"},
        INTS | {"w": INTS["u"]},
        Partial(tuple("stuvw"), {("s",): {"u": None}, ("t",): {"w": None}}, by=("v",), removing=(("s",),)),
        ALL,
    ),
}


@pytest.mark.parametrize("name", SETUPS)
@examples(20)
@given(data=st.data())
def test_rows_give_the_same_result_in_any_batches(name, data):
    check(SETUPS[name], data)


FIRST_VALUE = ("first_value", {}, LONG, small, None, None, True)


def variants(function: str, options: dict, type_: pa.DataType, values: st.SearchStrategy, folding, retracts: bool):
    """Ways to have the column `c` aggregated: without and with a sequence, in groups, removing."""
    columns = INTS | {"c": (type_, st.one_of(st.none(), values))}
    named = {"fields.c.aggregate-function": function}
    named |= {f"fields.c.{name.replace('_', '-')}": as_option(value) for name, value in options.items()}
    ignoring = named | {"fields.c.ignore-retract": "true"}
    functions, ignored = {"c": folding} | dict.fromkeys("tuv", "last_non_null_value"), frozenset({"c"})
    kinds = ALL if retracts else ADDS
    group = {("s",): {"c": folding, "t": None}}
    columns_ = (*"stuv", "c")
    in_group = PARTIAL | {"fields.s.sequence-group": "c,t"}
    yield Setup(AGGREGATION | named, columns, Aggregate(functions | {"s": "last_non_null_value"}), kinds)
    yield Setup(AGGREGATION | named | BY, columns, Aggregate(functions, by=("s",)), kinds)
    yield Setup(AGGREGATION | named | BY | DESCENDING, columns, Aggregate(functions, by=("s",), descending=True), kinds)
    removing = {"aggregation.remove-record-on-delete": "true"}
    yield Setup(
        AGGREGATION | named | BY | removing,
        columns,
        Aggregate(functions, by=("s",), remove_on_delete=True),
        ALL if retracts else ("+I", "+I", "-D"),
    )
    yield Setup(AGGREGATION | ignoring | BY, columns, Aggregate(functions, by=("s",), ignore_retract=ignored), ALL)
    yield Setup(in_group | named, columns, Partial(columns_, group), kinds)
    yield Setup(in_group | ignoring, columns, Partial(columns_, group, ignore_retract=ignored), ALL)
    yield Setup(in_group | named | {"sequence.field": "u"}, columns, Partial(columns_, group, by=("u",)), kinds)
    yield Setup(in_group | named | {REMOVE_GROUP: "s"}, columns, Partial(columns_, group, removing=(("s",),)), kinds)


def as_option(value: object) -> str:
    return ",".join(value) if isinstance(value, tuple) else str(value).lower() if isinstance(value, bool) else str(value)


FUNCTIONS = [twin for twin in TWINS if twin[0] not in ("primary_key", "count")] + [FIRST_VALUE]


@pytest.mark.parametrize("twin", FUNCTIONS, ids=lambda twin: "-".join([twin[0], str(twin[2]).split("<")[0], *twin[1]]))
@examples(4)
@given(data=st.data())
def test_aggregates_give_the_same_result_in_any_batches(twin, data):
    function, options, type_, values, add, take, nulls = twin
    folding = first_of if add is None else fold_of(add, take, nulls)
    setup = data.draw(st.sampled_from(list(variants(function, options, type_, values, folding, take is not None))))
    check(setup, data)


def values_of(row: Row) -> str:
    return repr(sorted(row.items()))


REPLAYED = {
    "deduplicate by s": Newest(),
    "deduplicate by s and t": Newest(),
    "deduplicate by s, falling": Newest(),
    "partial-update by s": Partial(tuple("stuv")),
    "partial-update by s, removing": Partial(tuple("stuv"), remove_on_delete=True),
}


@pytest.mark.parametrize("name", REPLAYED)
@examples(20)
@given(data=st.data())
def test_the_rows_of_a_batch_in_replay_order_need_no_sequence(name, data):
    """The changelog of producer input: whoever applies it row by row, knowing no sequence, has what the table has."""
    setup = SETUPS[name]
    rule, arrivals = setup.rule(), data.draw(histories(setup))
    rows = batch(setup, rule, arrivals)
    emitted = in_replay_order(rows, group(comparable([rows.select(["k"])])[0]), rule, None)
    kinds = kinds_of(emitted)
    plain = emitted.select(["k", *setup.columns]).to_pylist()
    assert sorted(map(values_of, plain)) == sorted(values_of(row) for row, _ in arrivals)
    kinds = np.zeros(len(plain), np.int8) if kinds is None else kinds
    replay = [(row, NAMES[kind]) for row, kind in zip(plain, kinds, strict=True)]
    same_rows(one_at_a_time(REPLAYED[name], replay), one_at_a_time(setup.model, arrivals))
