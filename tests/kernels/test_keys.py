"""Scalars of `comparable` against Python's comparison of tuples."""

from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from effort import examples
from hypothesis import given
from hypothesis import strategies as st

from lsmlake.errors import InvalidSchema
from lsmlake.kernels.keys import check_orderable, comparable, filter_of

thorough = examples(150)


def whole(bits):
    low, high = -(1 << bits - 1), (1 << bits - 1) - 1
    return st.sampled_from([low, low + 1, -1, 0, 1, high]) | st.integers(-20, 20) | st.integers(low, high)


def floats(width):
    edges = [0.0, -0.0, 1.0, -1.0, float("inf"), float("-inf"), 2.0**-126, -(2.0**-126)]
    return st.sampled_from(edges) | st.floats(width=width, allow_nan=False)


def decimals(precision, scale):
    top = 10**precision - 1
    unscaled = st.sampled_from([-top, -(1 << 63), -1, 0, 1, (1 << 63), top]) | st.integers(-top, top) | st.integers(-9, 9)
    return unscaled.filter(lambda value: abs(value) <= top).map(lambda value: Decimal(f"{value}E-{scale}"))


TEXT = st.sampled_from(["", "a", "a\0", "a\0\0", "a\0b", "b", "é", "z", "user-001", "user-002", "user-0011"]) | st.text(
    max_size=20
)
LONG_TEXT = TEXT | st.sampled_from(["x" * 64, "x" * 65, "x" * 64 + "\0", "x" * 200, "x" * 199 + "y"])

# type -> what to draw; integers stand for dates and times and are cast
TYPES = {
    pa.bool_(): st.booleans(),
    pa.int8(): whole(8),
    pa.int16(): whole(16),
    pa.int32(): whole(32),
    pa.int64(): whole(64),
    pa.float32(): floats(32),
    pa.float64(): floats(64),
    pa.decimal128(9, 2): decimals(9, 2),
    pa.decimal128(18, 0): decimals(18, 0),
    pa.decimal128(19, 4): decimals(19, 4),
    pa.decimal128(38, 10): decimals(38, 10),
    pa.date32(): whole(32),
    pa.time64("us"): st.integers(0, 86_399_999_999),
    pa.timestamp("us"): whole(64),
    pa.timestamp("us", "UTC"): whole(64),
    pa.string(): TEXT,
    pa.large_string(): LONG_TEXT,
    pa.string_view(): LONG_TEXT,
    pa.binary(): st.binary(max_size=12) | TEXT.map(str.encode),
    pa.large_binary(): LONG_TEXT.map(str.encode),
    pa.binary(5): st.binary(min_size=5, max_size=5),
}


def array(values, type):
    if pa.types.is_date32(type):
        return pa.array(values, pa.int32()).cast(type)
    if pa.types.is_timestamp(type) or pa.types.is_time(type):
        return pa.array(values, pa.int64()).cast(type)
    return pa.array(values, type)


@st.composite
def laid_out(draw, values, type):
    """The values as a chunked array, its chunks perhaps slices of longer arrays, perhaps encoded by dictionaries."""
    cuts = sorted(draw(st.lists(st.integers(0, len(values)), max_size=3)))
    encode = pa.types.is_string(type) and draw(st.booleans())
    chunks = []
    for start, end in zip([0, *cuts], [*cuts, len(values)], strict=True):
        before = draw(st.integers(0, min(3, len(values))))
        chunk = array(values[:before] + values[start:end] + values[:1], type).slice(before, end - start)
        chunks.append(chunk.dictionary_encode() if encode else chunk)
    return pa.chunked_array(chunks, pa.dictionary(pa.int32(), type) if encode else type)


@st.composite
def key_tables(draw):
    """(tables, rows of each as tuples Python compares in the order wanted)."""
    types = draw(st.lists(st.sampled_from(list(TYPES)), min_size=1, max_size=4))
    pools = [draw(st.lists(TYPES[type], min_size=1, max_size=6)) for type in types]
    row = st.tuples(*(st.sampled_from(pool) for pool in pools))
    tables, keys = [], []
    for rows in draw(st.lists(st.lists(row, max_size=12), min_size=1, max_size=3)):
        columns = zip(*rows, strict=True) if rows else [()] * len(types)
        chunked = [draw(laid_out(list(column), type)) for column, type in zip(columns, types, strict=True)]
        tables.append(pa.table(chunked, names=[f"k{i}" for i in range(len(types))]))
        keys.append([tuple(v.encode() if isinstance(v, str) else v for v in key) for key in rows])
    return tables, keys


def dense_ranks(keys):
    order = {key: rank for rank, key in enumerate(sorted(set(keys)))}
    return [order[key] for key in keys]


@thorough
@given(key_tables())
def test_scalars_order_as_tuples_do(drawn):
    tables, keys = drawn
    scalars = comparable(tables)
    assert [len(part) for part in scalars] == [table.num_rows for table in tables]
    assert len({part.dtype for part in scalars}) == 1
    together, flat = np.concatenate(scalars), [key for part in keys for key in part]
    ranks = np.unique(together, return_inverse=True)[1].ravel()
    assert ranks.tolist() == dense_ranks(flat)
    assert np.argsort(together, kind="stable").tolist() == sorted(range(len(flat)), key=flat.__getitem__)


@thorough
@given(key_tables())
def test_scalars_of_two_tables_compare_and_search(drawn):
    tables, keys = drawn
    scalars = comparable(tables)
    first, last = np.sort(scalars[0]), scalars[-1]
    expected = [sum(key < wanted for key in keys[0]) for wanted in keys[-1]]
    assert np.searchsorted(first, last).tolist() == expected
    rows = min(len(keys[0]), len(keys[-1]))
    assert (scalars[0][:rows] < last[:rows]).tolist() == [a < b for a, b in zip(keys[0][:rows], keys[-1][:rows], strict=True)]
    assert (scalars[0][:rows] == last[:rows]).tolist() == [a == b for a, b in zip(keys[0][:rows], keys[-1][:rows], strict=True)]


@pytest.mark.parametrize("type", TYPES, ids=str)
def test_every_type_orders_alone(type):
    @examples(25)
    @given(st.lists(TYPES[type], max_size=12))
    def check(values):
        (scalars,) = comparable([pa.table({"k": array(values, type)})])
        plain = [value.encode() if isinstance(value, str) else value for value in values]
        assert np.unique(scalars, return_inverse=True)[1].ravel().tolist() == dense_ranks(plain)

    check()


@thorough
@given(st.lists(st.lists(whole(64), min_size=5, max_size=5), min_size=1, max_size=12), st.integers(0, 63))
def test_wide_keys_that_straddle_words(rows, shift):
    """Columns of drawn widths, so that limbs end anywhere in a word."""
    rows = [tuple(value >> (shift * (i + 1)) % 64 for i, value in enumerate(row)) for row in rows]
    (scalars,) = comparable(
        [pa.table({f"k{i}": pa.array(column, pa.int64()) for i, column in enumerate(zip(*rows, strict=True))})]
    )
    assert np.unique(scalars, return_inverse=True)[1].ravel().tolist() == dense_ranks(rows)


def test_narrow_composites_are_one_integer():
    table = pa.table(
        {"day": pa.array([19_000, 20_000], pa.int32()), "country": ["DE", "US"], "n": pa.array([-5, 10**6], pa.int64())}
    )
    assert comparable([table])[0].dtype == np.uint64


def test_text_of_digits_with_a_common_prefix_is_one_integer():
    (scalars,) = comparable([pa.table({"k": ["order-000000000123", "order-999999999999", "order-000000000124"]})])
    assert scalars.dtype == np.uint64
    assert np.argsort(scalars).tolist() == [0, 2, 1]


def test_wide_composites_take_the_fewest_words():
    wide = [-(2**63), 2**63 - 1]
    assert comparable([pa.table({"a": wide, "b": wide})])[0].dtype == np.dtype("S16")
    assert comparable([pa.table({"a": wide, "b": wide, "c": [0, 1]})])[0].dtype == np.dtype("S24")
    assert comparable([pa.table({"a": [0, 1], "b": wide, "c": [0, 1], "d": [7, 7]})])[0].dtype == np.dtype("S16")


def test_long_text_costs_eight_bytes_a_row():
    (scalars,) = comparable([pa.table({"k": ["x" * 1000 + "b", "x" * 1000 + "a", "", "x" * 1000 + "b"]})])
    assert scalars.dtype == np.uint64
    assert scalars.tolist() == [2, 1, 0, 2]


def test_text_orders_by_bytes_not_by_utf16_units():
    astral, private = "\U0001f600", "\uf8ff"  # UTF-16 would put the first one before the second
    (scalars,) = comparable([pa.table({"k": [private, astral]})])
    assert scalars[0] < scalars[1]


def test_nul_at_the_end_is_part_of_the_value():
    (scalars,) = comparable([pa.table({"k": ["a\0", "a", "a\0\0", "a\0b", "a"]})])
    assert np.unique(scalars, return_inverse=True)[1].ravel().tolist() == [1, 0, 2, 3, 0]


@pytest.mark.parametrize("columns", [1, 2])
@pytest.mark.parametrize("type", TYPES, ids=str)
def test_empty_tables_have_no_scalars(type, columns):
    table = pa.table({f"k{i}": pa.array([], type) for i in range(columns)})
    without_chunks = pa.table([pa.chunked_array([], type)] * columns, names=table.column_names)
    scalars = comparable([table, without_chunks])
    assert [len(part) for part in scalars] == [0, 0]
    assert scalars[0].dtype == scalars[1].dtype


def test_a_dictionary_compares_with_plain_text():
    encoded = pa.array(["b", "a", "b"]).dictionary_encode()
    left, right = comparable([pa.table({"k": encoded}), pa.table({"k": ["a", "b", "c"]})])
    assert (left == right).tolist() == [False, False, False]
    assert np.searchsorted(right, left).tolist() == [1, 0, 1]


def test_input_is_left_as_it_was():
    table = pa.table({"i": pa.array([3, -1]), "f": [-0.0, -2.5], "n": pa.array([1, 2], pa.int8())})
    for column in table.column_names:
        comparable([table.select([column])])
    assert table["i"].to_pylist() == [3, -1]
    assert str(table["f"].to_pylist()) == "[-0.0, -2.5]"


@pytest.mark.parametrize("column", [pa.array([1, None]), pa.array([1.0, float("nan")])])
def test_nulls_and_nan_are_our_own_bug(column):
    with pytest.raises(AssertionError):
        comparable([pa.table({"k": column})])


@pytest.mark.parametrize(
    "type", [*TYPES, pa.dictionary(pa.int32(), pa.string()), pa.timestamp("ns"), pa.time32("ms"), pa.date64()], ids=str
)
def test_types_with_an_order_are_accepted(type):
    check_orderable(type, "k")


NO_ORDER = [
    pa.null(),
    pa.list_(pa.int64()),
    pa.struct([("a", pa.int64())]),
    pa.map_(pa.string(), pa.int64()),
    pa.decimal256(40, 2),
    pa.month_day_nano_interval(),
    pa.uint64(),
    pa.float16(),
    pa.duration("us"),
]


@pytest.mark.parametrize("type", NO_ORDER, ids=str)
def test_types_without_an_order_are_refused_by_name(type):
    with pytest.raises(InvalidSchema) as refused:
        check_orderable(type, "payload")
    for part in ("payload", str(type), "int64", "choose another"):
        assert part in str(refused.value)


@given(st.lists(st.integers(0, 1 << 40), max_size=50), st.lists(st.integers(0, 1 << 40), max_size=50))
def test_a_filter_flags_every_scalar_that_it_was_made_of(some, others):
    for type in (pa.int64(), pa.string()):
        one, two = (pa.table([pa.array(map(str, values)).cast(type)], names=["k"]) for values in (some, some + others))
        known, asked = comparable([one, two])
        flags = filter_of(known)(asked)
        assert flags.dtype == bool and len(flags) == len(asked)
        assert flags[np.isin(asked, known)].all()


def test_a_filter_leaves_few_others():
    known, others = comparable(
        [pa.table([pa.array(range(0, 20_000, 2))], names=["k"]), pa.table([pa.array(range(1, 20_000, 2))], names=["k"])]
    )
    assert filter_of(known)(others).mean() < 0.1
