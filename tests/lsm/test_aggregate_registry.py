"""Aggregate functions by name: which types and settings each takes, and functions of the user's own."""

from __future__ import annotations

import importlib.metadata
import pickle

import numpy as np
import pyarrow as pa
import pytest

from lsmlake.errors import InvalidData, InvalidOption
from lsmlake.lsm.aggregate import NAMES, FieldSettings, Function, function, functions_by_name, register

TABLE = pa.list_(pa.struct([("k", pa.int32()), ("v", pa.list_(pa.int32()))]))
TIMED = pa.map_(pa.string(), pa.struct([("v", pa.string()), ("ts", pa.string())]))
FITTING = {
    **dict.fromkeys(["listagg"], pa.string()),
    **dict.fromkeys(["bool_and", "bool_or"], pa.bool_()),
    **dict.fromkeys(["collect", "nested_update", "nested_partial_update"], TABLE),
    **dict.fromkeys(["merge_map", "merge_map_with_keytime"], TIMED),
    **dict.fromkeys(["rbm32", "rbm64", "hll_sketch", "theta_sketch"], pa.binary()),
}
ANY_TYPE = {"last_value", "last_non_null_value", "first_value", "first_non_null_value", "first_not_null_value", "primary_key"}


def make(name, type_, **settings):
    return function(name, pa.field("c", type_), FieldSettings(**settings), "table 't' column 'c'")


def fitting(name, **settings):
    key = {"nested_key": ("k",)} if name == "nested_partial_update" else {}
    return make(name, FITTING.get(name, pa.int32()), **key, **settings)


@pytest.mark.parametrize("name", NAMES)
def test_every_function_pickles_and_takes_no_rows(name):
    made = pickle.loads(pickle.dumps(fitting(name, ignore_retract=True)))
    assert made == fitting(name, ignore_retract=True)
    type_ = FITTING.get(name, pa.int32())
    for retract in (None, np.zeros(0, bool)):
        assert fitting(name).reduce(pa.array([], type_), np.zeros(0, np.int64), retract) == pa.array([], type_)


@pytest.mark.parametrize("name", sorted(set(NAMES) - ANY_TYPE))
def test_types_without_meaning_are_refused(name):
    wrong = pa.struct([("a", pa.int32())])
    with pytest.raises(InvalidOption, match=f"table 't' column 'c': .*'{name}' does not support this type.*struct<a: int32>"):
        make(name, wrong)


@pytest.mark.parametrize(
    ("name", "type_"),
    [
        *(("sum", pa.string()), ("count", pa.float64()), ("product", pa.date32()), ("max", pa.list_(pa.int32()))),
        *(("listagg", pa.binary()), ("bool_or", pa.int8()), ("nested_update", pa.list_(pa.int32())), ("collect", TIMED)),
        ("merge_map_with_keytime", pa.map_(pa.string(), pa.struct([("v", pa.string())]))),
        *(("merge_map_with_keytime", pa.map_(pa.string(), pa.string())), ("rbm32", pa.string()), ("hll_sketch", pa.string())),
    ],
)
def test_near_misses_of_a_type_are_refused(name, type_):
    with pytest.raises(InvalidOption, match=r"does not support this type, expected .*choose another"):
        make(name, type_)


@pytest.mark.parametrize(
    ("name", "settings", "message"),
    [
        ("sum", {"distinct": True}, "'sum' does not support the option distinct.*remove fields.c.distinct"),
        ("collect", {"list_agg_delimiter": ";"}, "does not support the option list-agg-delimiter"),
        ("nested_partial_update", {"nested_key": ("k",), "count_limit": 3}, "does not support the option count-limit"),
        ("nested_partial_update", {}, "needs a nested key"),
        ("nested_update", {"nested_key": ("x",)}, "nested-key names an unknown field.*expected k, v.*found 'x'"),
        ("nested_update", {"nested_sequence_field": ("k",)}, "nested-sequence-field needs a nested key"),
        ("nested_update", {"nested_key_null_strategy": "ignore"}, "nested-key-null-strategy needs a nested key"),
        ("nested_update", {"nested_key": ("k",), "nested_sequence_field": ("v",)}, "needs a field of a sortable type"),
        ("merge_map_with_keytime", {"ts_field": "time"}, "ts-field names an unknown field.*expected v, ts"),
        ("listagg", {"distinct": True, "list_agg_delimiter": ""}, "needs a delimiter"),
    ],
)
def test_missing_or_contradictory_settings_are_refused(name, settings, message):
    with pytest.raises(InvalidOption, match=message):
        make(name, FITTING.get(name, pa.int32()), **settings)


@pytest.mark.parametrize(("name", "near"), [("summ", "sum"), ("primary-key", "primary_key"), ("MAX", "max"), ("rbm", "rbm")])
def test_an_unknown_name_gets_a_near_one(name, near):
    with pytest.raises(InvalidOption, match=f"unknown aggregate function.*did you mean '{near}"):
        make(name, pa.int32())


def test_a_name_like_no_other_gets_the_list():
    with pytest.raises(InvalidOption, match="use one of bool_and, bool_or"):
        make("zzzzzz", pa.int32())


class Longest(Function):
    """The longest text; a function a user might write."""

    def reduce(self, values, starts, retract):
        texts, ends = values.to_pylist(), [*starts[1:], len(values)]
        groups = [texts[a:b] for a, b in zip(starts, ends, strict=True)]
        return pa.array([max((t for t in group if t is not None), key=len, default=None) for group in groups], values.type)


@pytest.fixture
def no_registrations(monkeypatch):
    monkeypatch.setattr(functions_by_name, "_registered", {})


def test_functions_of_ones_own(no_registrations):
    register("longest", lambda field, settings: Longest())
    made = make("longest", pa.string(), ignore_retract=True, distinct=True)
    reduced = made.reduce(pa.array(["a", "bbb", "cc", None]), np.array([0, 2]), np.array([False, True, False, False]))
    assert reduced.to_pylist() == ["a", "cc"]
    assert not make("longest", pa.string()).associative_adds
    with pytest.raises(InvalidOption, match="did you mean 'longest'"):
        make("longst", pa.string())
    for taken in ("longest", "sum"):
        with pytest.raises(InvalidOption, match="an aggregate function with this name exists"):
            register(taken, lambda field, settings: Longest())


def test_functions_of_installed_packages(no_registrations, monkeypatch):
    class Point:
        name = "theirs"

        def load(self):
            return lambda field, settings: Longest()

    monkeypatch.setattr(importlib.metadata, "entry_points", lambda group: [Point()] if group == "lsmlake.aggregates" else [])
    assert isinstance(make("theirs", pa.string()).inner.inner, Longest)
    with pytest.raises(InvalidOption, match="with this name exists"):
        register("theirs", lambda field, settings: Longest())


class Wordless(Function):
    """Forgets to reduce."""


class Duck:
    """Reduces, but is no Function."""

    def reduce(self, values, starts, retract):
        return values


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda field, settings: Wordless(), "abstract class Wordless .*reduce"),
        (lambda field, settings: None, "found a NoneType without .*reduce"),
        (lambda field, settings: Duck(), "found a Duck without associative_adds, commutative_adds, may_overflow_midway"),
    ],
)
def test_a_function_without_a_method_is_refused_when_it_is_registered(no_registrations, make, words):
    with pytest.raises(InvalidOption, match=f"'incomplete', which is not built in, is incomplete, expected .*{words}"):
        register("incomplete", make)
    assert functions_by_name._registered == {}


def test_a_maker_that_refuses_the_trial_column_is_judged_by_the_columns_of_tables(no_registrations):
    def make(field, settings):
        if field.type != pa.string():
            raise ValueError("text only")
        return None

    register("texts", make)
    with pytest.raises(InvalidOption, match=r"table 't' column 'c': .*'texts'.*is incomplete.*without .*reduce"):
        function("texts", pa.field("c", pa.string()), FieldSettings(), "table 't' column 'c'")


class Faulty(Longest):
    """Fails in one of many ways."""

    def __init__(self, how):
        self.how = how

    def reduce(self, values, starts, retract):
        return self.how(super().reduce(values, starts, retract))


@pytest.mark.parametrize(
    ("how", "words"),
    [
        (lambda made: 1 / 0, "raised ZeroDivisionError: division by zero, expected one value for each group"),
        (lambda made: made.to_pylist(), "returned list, expected a pyarrow.Array"),
        (lambda made: None, "returned NoneType"),
        (lambda made: made[:-1], "returned 0 values of type string, expected 1 values"),
        (lambda made: made.cast(pa.large_string()), "of type large_string, expected 1 values of type string"),
    ],
)
def test_a_fault_in_a_function_of_ones_own_names_it(no_registrations, lake, how, words):
    register("faulty", lambda field, settings: Faulty(how))
    options = {"merge-engine": "aggregation", "fields.v.aggregate-function": "faulty"}
    table = lake.create_table("d.t", "id BIGINT, v STRING", primary_key=["id"], options=options)
    with pytest.raises(InvalidData, match="the aggregate function 'faulty', which is not built in, r") as failed:
        table.upsert({"id": [1, 1, 2, 2], "v": ["a", "b", "c", "d"]})
    assert words in str(failed.value)
    assert "d.t, bucket 0, column 'v'" in str(failed.value) and table.snapshots().num_rows == 0


def test_a_function_of_ones_own_that_cannot_be_made_names_it(no_registrations):
    register("broken", lambda field, settings: 1 / 0)
    with pytest.raises(InvalidOption, match="'broken', which is not built in, cannot be created, found ZeroDivisionError"):
        make("broken", pa.string())


def test_what_can_be_reduced_in_parts_and_in_any_order():
    assert {name for name in NAMES if not fitting(name).associative_adds} == {"merge_map_with_keytime"}
    assert {name for name in NAMES if fitting(name).commutative_adds} == {
        *("sum", "count", "product", "max", "min", "bool_and", "bool_or", "rbm32", "rbm64", "hll_sketch", "theta_sketch")
    }
    assert not fitting("nested_update", count_limit=3).associative_adds
    assert not make("product", pa.decimal128(9, 2)).associative_adds
    assert make("product", pa.decimal128(9, 2)).commutative_adds
    assert fitting("collect", ignore_retract=True).associative_adds
    assert fitting("sum", ignore_retract=True).commutative_adds
