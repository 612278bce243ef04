"""Values as text and as JSON: the vectorised forms give what loops over Python values give."""

from __future__ import annotations

import json
import math
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lsmlake.kernels import text_format
from lsmlake.schema.values import json_values

_MICROS = st.integers(-(10**17), 10**17)
_TEXTS = st.text(st.characters(codec="utf-8") | st.sampled_from('",\r\n\\\0\x1b\x7f \u2028é'), max_size=8)


def _decimals(precision: int, scale: int) -> st.SearchStrategy[object]:
    limit = 10**precision - 1
    return (st.just(0) | st.integers(-limit, limit)).map(lambda whole: Decimal(whole).scaleb(-scale))


_PLAIN: dict[pa.DataType, st.SearchStrategy[object]] = {
    pa.bool_(): st.booleans(),
    pa.int8(): st.integers(-128, 127),
    pa.int64(): st.integers(-(2**63), 2**63 - 1),
    pa.float32(): st.floats(width=32),
    pa.float64(): st.floats() | st.integers(-(10**18), 10**18).map(float),
    pa.string(): _TEXTS,
    pa.binary(): st.binary(max_size=5),
    pa.date32(): st.integers(-(10**6), 10**6) | st.just(2**31 - 1),
    pa.timestamp("us"): _MICROS | st.sampled_from([-(2**63), 2**63 - 1]),
    pa.timestamp("us", "UTC"): _MICROS,
    pa.timestamp("ms", "Asia/Tokyo"): st.integers(0, 10**12),
    pa.decimal128(5, 2): _decimals(5, 2),
    pa.decimal128(20, 12): _decimals(20, 12),
}


def _typed() -> st.SearchStrategy[tuple[pa.DataType, st.SearchStrategy[object]]]:
    """A type, and values of it that `pa.array` takes."""
    plain = st.sampled_from(sorted(_PLAIN.items(), key=lambda item: str(item[0]))).map(lambda item: (item[0], _PLAIN[item[0]]))

    def deeper(inner):
        lists = inner.map(lambda made: (pa.list_(made[0]), st.lists(_or_null(made[1]), max_size=3)))
        structs = st.tuples(inner, inner).map(
            lambda two: (
                pa.struct([("a", two[0][0]), ('b "', two[1][0])]),
                st.fixed_dictionaries({"a": _or_null(two[0][1]), 'b "': _or_null(two[1][1])}),
            )
        )
        keys = st.sampled_from([pa.string(), pa.int64(), pa.timestamp("us")])
        maps = st.tuples(keys, inner).map(
            lambda two: (
                pa.map_(two[0], two[1][0]),
                st.lists(st.tuples(_PLAIN[two[0]], _or_null(two[1][1])), max_size=3, unique_by=lambda entry: entry[0]),
            )
        )
        return lists | structs | maps

    return st.recursive(plain, deeper, max_leaves=3) | st.just((pa.null(), st.none()))


def _or_null(values: st.SearchStrategy[object]) -> st.SearchStrategy[object]:
    return st.none() | values


@st.composite
def arrays(draw) -> pa.Array:
    """An array of any type, perhaps a slice of a longer one."""
    kind, values = draw(_typed())
    made = pa.array(draw(st.lists(_or_null(values), max_size=6)), kind)
    return made[draw(st.integers(0, 2)) :]


def same(one: object, other: object) -> bool:
    """Whether two values of JSON are the same, of the same types."""
    if isinstance(one, dict) and isinstance(other, dict):
        return list(one) == list(other) and all(same(one[name], other[name]) for name in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    signs = isinstance(one, float) and isinstance(other, float) and math.copysign(1, one) != math.copysign(1, other)
    return type(one) is type(other) and one == other and not signs


def slow(column: pa.Array) -> list[object]:
    """Of a copy: Arrow fails to convert some slices of nested arrays."""
    return json_values(column.take(pa.array(range(len(column)), pa.int64())))


@settings(max_examples=300, deadline=None)
@given(arrays())
def test_json_of_arrays_is_that_of_their_values(column):
    found = text_format.json(column).to_pylist()
    assert all(map(same, map(json.loads, found), slow(column))), found


@settings(max_examples=300, deadline=None)
@given(arrays())
def test_plain_text_is_json_without_quotes_and_a_blank_in_times(column):
    found = text_format.plain(column).to_pylist()
    for given_text, value in zip(found, slow(column), strict=True):
        if isinstance(value, str) and pa.types.is_timestamp(column.type) and not value.startswith("<"):
            assert given_text == value.replace("T", " ")
        elif value is None or isinstance(value, str):
            assert given_text == value
        else:
            assert same(json.loads(given_text), value)


@given(arrays())
def test_lines_of_json_are_the_rows(column):
    rows = pa.record_batch([column, column], names=["x", 'y "é'])
    found = [json.loads(line) for line in text_format.json_lines(rows.schema.names, rows.columns).to_pylist()]
    assert same(found, [{name: value for name in rows.schema.names} for value in slow(column)])


@pytest.mark.parametrize(
    ("kind", "value", "plain", "as_json"),
    [
        (pa.float64(), 1.0, "1.0", "1.0"),
        (pa.float32(), 0.1, "0.1", "0.1"),
        (pa.float64(), math.nan, "NaN", '"NaN"'),
        (pa.float64(), -math.inf, "-Infinity", '"-Infinity"'),
        (pa.decimal128(20, 12), -1, "-1.000000000000", '"-1.000000000000"'),
        (pa.decimal128(38, 38), 0, "0." + "0" * 38, '"0.' + "0" * 38 + '"'),
        (pa.timestamp("us", "UTC"), 5 * 10**5, "1970-01-01 00:00:00.500000Z", '"1970-01-01T00:00:00.500000Z"'),
        (pa.timestamp("us", "UTC"), 2**63 - 1, f"<value out of range: {2**63 - 1}>", f'"<value out of range: {2**63 - 1}>"'),
        (pa.binary(), b"\x00\xff", "00ff", '"00ff"'),
        (pa.string(), "a\t\"\\\x01é", 'a\t"\\\x01é', '"a\\t\\"\\\\\\u0001é"'),
        (pa.list_(pa.float64()), [1.5, None], "[1.5, null]", "[1.5, null]"),
        (pa.map_(pa.int64(), pa.string()), [(1, "x")], '{"1": "x"}', '{"1": "x"}'),
    ],
)  # fmt: skip
def test_forms_of_values(kind, value, plain, as_json):
    column = pa.array([None, value], kind)
    assert text_format.plain(column).to_pylist() == [None, plain]
    assert text_format.json(column).to_pylist() == ["null", as_json]
