"""The expected results of the aggregate functions: each folds row by row in plain Python. Shares no code with the library.

`TWINS` lists them with the types and values they are tried on. `first_value` is apart, as it depends on whether there is a row.
"""

from __future__ import annotations

import math
from decimal import ROUND_HALF_UP, Decimal

import pyarrow as pa
from hypothesis import strategies as st


def same(value):
    """What makes two values one: NaN is itself, -0.0 is 0.0, a struct is its fields."""
    if isinstance(value, dict):
        return tuple((k, same(value[k])) for k in sorted(value))
    if isinstance(value, (list, tuple)):
        return tuple(same(v) for v in value)
    return "nan" if value != value else value + 0.0 if isinstance(value, float) else value


# --- the twins: (state, value) -> state; no state is None, values are never null unless the twin says it wants nulls ---


def sum_add(state, value):
    return value if state is None else state + value


def sum_take(state, value):
    return -value if state is None else state - value


def product_add(state, value):
    if state is None:
        return value
    return (state * value).quantize(value, ROUND_HALF_UP) if isinstance(value, Decimal) else state * value


def product_take(state, value):
    if state is None:
        return None
    if isinstance(value, Decimal):
        return (state / value).quantize(value, ROUND_HALF_UP)
    return state / value if isinstance(value, float) else int(Decimal(state) / value)


def greater(state, value):
    return value if state is None or value > state or value != value else state


def lesser(state, value):
    return value if state is None or value < state or state != state else state


def list_add(state, value):
    return (state or []) + value


def list_take(state, value):
    if state is None:
        return None
    state = list(state)
    for element in value:
        at = [i for i, one in enumerate(state) if same(one) == same(element)]
        if at:
            del state[at[0]]
    return state


def set_add(state, value):
    state = list(state or [])
    for element in value:
        if same(element) not in map(same, state):
            state.append(element)
    return state


def map_add(state, value):
    return list({**dict(state or []), **dict(value)}.items())


def map_take(state, value):
    return None if state is None else [(k, v) for k, v in state if k not in dict(value)]


def timed_add(state, value):
    if state is None:
        return value
    state = dict(state)
    for key, new in value:
        old = state.get(key)
        if new is None:
            state.pop(key, None)
        elif new["ts"] is not None and (old is None or old["ts"] is None or new["ts"] > old["ts"]):
            state[key] = new
    return list(state.items())


def listagg_twin(delimiter, distinct):
    def add(state, value):
        if not value.strip():
            return state
        if state is None:
            return value
        if not distinct:
            return state + delimiter + value
        for token in value.split(delimiter):
            if token.strip() and token not in state.split(delimiter):
                state += delimiter + token
        return state

    return add


def table_twin(key=(), sequence=(), limit=10**9, nulls="merge"):
    def identity(row):
        return same(tuple(row[k] for k in key)) if key else same(row)

    def rank(row):
        return tuple((row[s] is not None, row[s] or 0) for s in sequence)

    def add(state, value):
        state = list(state or [])
        for row in value:
            if row is None or (nulls == "ignore" and any(row[k] is None for k in key)):
                continue
            at = [i for i, one in enumerate(state) if key and identity(one) == identity(row)]
            if at and rank(row) >= rank(state[at[0]]):
                state[at[0]] = row
            elif not at and len(state) < limit:
                state.append(row)
        return state

    def take(state, value):
        gone = {identity(row) for row in value if row is not None}
        return None if state is None else [row for row in state if identity(row) not in gone]

    return add, take


def partial_add(state, value):
    state = [dict(row) for row in state or []]
    for row in filter(None, value):
        at = [one for one in state if one["k"] == row["k"]]
        if at:
            at[0].update({k: v for k, v in row.items() if v is not None})
        else:
            state.append(row)
    return state


def twin_of(add, take, rows, wants_nulls):
    state = None
    for value, back in rows:
        if value is not None or wants_nulls:
            state = (take if back else add)(state, value)
    return state


def first_of(rows):
    return rows[0][0]


ROW = pa.struct([("k", pa.int32()), ("s", pa.int32()), ("v", pa.string())])
TIMED = pa.map_(pa.string(), pa.struct([("v", pa.int32()), ("ts", pa.string())]))
small = st.integers(-3, 3)
floats = st.sampled_from([0.0, 1.5, -2.0, 0.25, 8.0])
any_floats = st.sampled_from([0.0, 1.5, -math.inf, math.inf, math.nan, -7.25])
letters = st.sampled_from(["a", "b", "ab", "abcdefghij", ""])
cents = st.integers(-300, 300).map(lambda n: Decimal(n).scaleb(-2))
lists = st.lists(st.one_of(st.none(), small), max_size=4)
nested_lists = st.lists(st.one_of(st.none(), st.lists(st.sampled_from([1.0, math.nan, None]), max_size=2)), max_size=3)
maps = st.dictionaries(small, st.one_of(st.none(), letters), max_size=4).map(lambda d: list(d.items()))
rows = st.fixed_dictionaries(
    {"k": st.one_of(st.none(), st.integers(1, 3)), "s": st.one_of(st.none(), small), "v": st.one_of(st.none(), letters)}
)
tables = st.lists(st.one_of(st.none(), rows), max_size=3)
timed = st.dictionaries(
    st.sampled_from("ab"),
    st.one_of(st.none(), st.fixed_dictionaries({"v": small, "ts": st.one_of(st.none(), st.sampled_from(["1", "2", "10"]))})),
    max_size=2,
).map(lambda d: list(d.items()))
texts = st.sampled_from(["a", "b", "ab", "a,b", " ", "", ",", "b,,a", "é,a"])

INT8, LONG, FLOAT, DOUBLE = pa.int8(), pa.int64(), pa.float32(), pa.float64()


def replaces(state, value):
    return value


def forgets(state, value):
    return None


def keeps(state, value):
    return value if state is None else state


def within(limit, step):
    """The step, with null for what is not below the limit: a decimal of so many digits, or an integer of as many values."""

    def checked(state, value):
        made = step(state, value)
        return made if made is None or (-limit < made < limit if isinstance(made, Decimal) else -limit <= made < limit) else None

    return checked


def beyond(name, type_, values, limit, add, take):
    return name, {"overflow": "null"}, type_, values, within(limit, add), within(limit, take), False


# (name, settings, type, values, add, take or None, whether nulls are values)
TWINS = [
    *(("sum", {}, t, small, sum_add, sum_take, False) for t in (INT8, pa.int16(), pa.int32(), LONG)),
    *(("sum", {}, t, floats, sum_add, sum_take, False) for t in (FLOAT, DOUBLE)),
    *(("sum", {}, pa.decimal128(p, 2), cents, sum_add, sum_take, False) for p in (7, 38)),
    ("count", {}, LONG, small, sum_add, sum_take, False),
    *(("product", {}, t, small.filter(bool), product_add, product_take, False) for t in (pa.int32(), LONG)),
    ("product", {}, DOUBLE, floats.filter(bool), product_add, product_take, False),
    ("product", {}, LONG, small, product_add, None, False),
    ("product", {}, pa.decimal128(30, 2), cents.filter(bool), product_add, product_take, False),
    *(("max", {}, t, v, greater, None, False) for t, v in ((INT8, small), (LONG, small), (FLOAT, any_floats))),
    *(("min", {}, t, v, lesser, None, False) for t, v in ((INT8, small), (LONG, small), (DOUBLE, any_floats))),
    *(("max", {}, t, v, greater, None, False) for t, v in ((pa.string(), letters), (pa.decimal128(5, 2), cents))),
    *(("min", {}, t, v, lesser, None, False) for t, v in ((pa.string(), letters), (pa.decimal128(5, 2), cents))),
    *(("max", {}, t, v, greater, None, False) for t, v in ((pa.date32(), st.dates()), (pa.bool_(), st.booleans()))),
    ("min", {}, pa.timestamp("us"), st.datetimes(), lesser, None, False),
    *(("last_value", {}, t, v, replaces, forgets, True) for t, v in ((LONG, small), (pa.list_(ROW), tables))),
    *(("primary_key", {}, t, v, replaces, replaces, True) for t, v in ((LONG, small), (pa.string(), letters))),
    *(("last_non_null_value", {}, t, v, replaces, forgets, False) for t, v in ((LONG, small), (pa.list_(ROW), tables))),
    *(("first_non_null_value", {}, t, v, keeps, None, False) for t, v in ((LONG, small), (TIMED, timed))),
    ("bool_and", {}, pa.bool_(), st.booleans(), lesser, None, False),
    ("bool_or", {}, pa.bool_(), st.booleans(), greater, None, False),
    ("listagg", {}, pa.string(), texts, listagg_twin(",", False), None, False),
    ("listagg", {"list_agg_delimiter": "--"}, pa.string(), texts, listagg_twin("--", False), None, False),
    ("listagg", {"distinct": True}, pa.string(), texts, listagg_twin(",", True), None, False),
    ("collect", {}, pa.list_(LONG), lists, list_add, list_take, False),
    ("collect", {}, pa.list_(pa.list_(DOUBLE)), nested_lists, list_add, list_take, False),
    ("collect", {}, pa.list_(ROW), tables, list_add, list_take, False),
    ("collect", {"distinct": True}, pa.list_(LONG), lists, set_add, list_take, False),
    ("collect", {"distinct": True}, pa.list_(pa.list_(DOUBLE)), nested_lists, set_add, list_take, False),
    ("merge_map", {}, pa.map_(LONG, pa.string()), maps, map_add, map_take, False),
    ("merge_map_with_keytime", {}, TIMED, timed, timed_add, None, False),
    ("nested_update", {}, pa.list_(ROW), tables, *table_twin(), False),
    ("nested_update", {"count_limit": 3}, pa.list_(ROW), tables, *table_twin(limit=3), False),
    ("nested_update", {"nested_key": ("k",)}, pa.list_(ROW), tables, *table_twin(("k",)), False),
    (
        "nested_update",
        {"nested_key": ("v", "k"), "nested_key_null_strategy": "ignore"},
        pa.list_(ROW),
        tables,
        *table_twin(("v", "k"), nulls="ignore"),
        False,
    ),
    (
        "nested_update",
        {"nested_key": ("k",), "nested_sequence_field": ("s",)},
        pa.list_(ROW),
        tables,
        *table_twin(("k",), ("s",)),
        False,
    ),
    (
        "nested_update",
        {"nested_key": ("k",), "nested_sequence_field": ("s",), "count_limit": 2},
        pa.list_(ROW),
        tables,
        *table_twin(("k",), ("s",), 2),
        False,
    ),
    beyond("sum", INT8, st.sampled_from([-128, -90, 60, 120, 127]), 1 << 7, sum_add, sum_take),
    beyond("sum", LONG, st.sampled_from([-(1 << 63), 1 << 62, (1 << 63) - 1, -5]), 1 << 63, sum_add, sum_take),
    beyond("sum", pa.decimal128(4, 2), cents.map(lambda n: n * 20), 100, sum_add, sum_take),
    beyond("product", INT8, st.sampled_from([-1, 2, 11, -16, 127, -128]), 1 << 7, product_add, product_take),
    (
        "product",
        {"overflow": "null"},
        LONG,
        st.sampled_from([0, 3, -(1 << 40), 1 << 40]),
        within(1 << 63, product_add),
        None,
        False,
    ),
    beyond("product", pa.decimal128(4, 2), cents.filter(bool).map(lambda n: n * 9), 100, product_add, product_take),
    ("nested_partial_update", {"nested_key": ("k",)}, pa.list_(ROW), tables, partial_add, None, False),
]
