"""`spark_hash` against a row-at-a-time twin in plain Python; `test_bucket_hash_spark.py` holds it against Spark itself."""

from datetime import date, datetime, time
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from effort import examples
from hypothesis import given
from hypothesis import strategies as st
from naive import hash_row
from test_keys import TYPES, array

from lsmlake.kernels import bucket_hash as murmur3
from lsmlake.kernels.bucket_hash import bucket_of, hash_of_one, spark_hash

thorough = examples(100)


# --- the comparison ---


def drawable(type):
    nan = st.just(float("nan")) if pa.types.is_floating(type) else st.nothing()
    return st.none() | TYPES[type] | nan


@pytest.mark.parametrize("type", TYPES, ids=str)
def test_every_type_hashes_as_the_twin_does(type):
    @examples(40)
    @given(st.lists(drawable(type), max_size=20))
    def check(values):
        assert spark_hash([array(values, type)]).tolist() == [hash_row([value], [type]) for value in values]

    check()


@given(st.data())
def test_one_row_of_integers_and_texts_has_the_hash_of_an_array(data):
    """All lengths of text modulo four, bytes above 127, and the ends of the types."""
    types = data.draw(st.lists(st.sampled_from([pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.string()]), min_size=1))
    values = [data.draw(TYPES[type]) for type in types]
    expected = spark_hash([pa.array([value], type) for value, type in zip(values, types, strict=True)])
    assert hash_of_one(values, types) == expected.view(np.uint32)[0]


@st.composite
def columns(draw):
    types = draw(st.lists(st.sampled_from(list(TYPES)), min_size=1, max_size=4))
    rows = draw(st.lists(st.tuples(*map(drawable, types)), min_size=1, max_size=20))
    return types, rows


@thorough
@given(columns(), st.data())
def test_columns_are_combined_across_any_chunks(drawn, data):
    types, rows = drawn
    chunked = []
    for values, type in zip(zip(*rows, strict=True), types, strict=True):
        cut = data.draw(st.integers(0, len(rows)))
        full = array(values + values, type)
        chunked.append(pa.chunked_array([full.slice(len(rows), cut), full.slice(cut, len(rows) - cut)]))
    assert spark_hash(chunked).tolist() == [hash_row(row, types) for row in rows]


@pytest.mark.parametrize("rows", [1, 99, 100, 101, 250])
def test_the_longest_of_few_or_many_rows_hash_as_the_twin_does(rows: int):
    values = [bytes(range(row % 7 + 250)) * (row % 3) + b"x" * (row % 5) for row in range(rows)]
    assert spark_hash([pa.array(values, pa.binary())]).tolist() == [hash_row([value], [pa.binary()]) for value in values]


def test_a_long_text_costs_no_array_operation_for_each_of_its_words(monkeypatch):
    rounds = []
    monkeypatch.setattr(murmur3, "round_", lambda *given, real=murmur3.round_: rounds.append(1) or real(*given))
    values = ["x" * 100_000, *(["short text"] * 1000)]
    assert spark_hash([pa.array(values)])[0] == hash_row(values[:1], [pa.string()])
    assert len(rounds) < 10


@thorough
@given(st.lists(st.binary(max_size=40), max_size=30))
def test_blocks_do_not_show(values):
    expected = [hash_row([value], [pa.binary()]) for value in values]
    assert spark_hash([pa.array(values, pa.binary())], block_rows=4).tolist() == expected


@thorough
@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1), st.integers(1, 32_767))
def test_buckets_are_the_positive_remainder(values, buckets):
    found = bucket_of([pa.array(values, pa.int64())], buckets)
    assert found.dtype == np.int32
    assert found.tolist() == [hash_row([value], [pa.int64()]) % buckets for value in values]


# What Spark 4.3 answers. Rows lie on disk by these numbers, so they never change.
PINNED = {
    "true": ([pa.array([True])], -559580957),
    "1": ([pa.array([1], pa.int32())], -559580957),
    "1L": ([pa.array([1], pa.int64())], -1712319331),
    "1.5F": ([pa.array([1.5], pa.float32())], -221251528),
    "1.5D": ([pa.array([1.5], pa.float64())], 1290763749),
    "DATE'2026-01-02'": ([pa.array([date(2026, 1, 2)])], -525258383),
    "TIMESTAMP'2026-01-02 03:04:05.678'": ([pa.array([datetime(2026, 1, 2, 3, 4, 5, 678_000)])], 193725561),
    "TIME'01:02:03.000456'": ([pa.array([time(1, 2, 3, 456)])], -1354059667),
    "CAST(123.45 AS DECIMAL(5,2))": ([pa.array([Decimal("123.45")], pa.decimal128(5, 2))], 1416086240),
    "-12345678901234567890.5": ([pa.array([Decimal("-12345678901234567890.5")], pa.decimal128(38, 1))], -777928638),
    "'Müller'": ([pa.array(["Müller"])], -536729112),
    "X'00FF80'": ([pa.array([b"\0\xff\x80"])], -2052482636),
    "CAST(NULL AS BIGINT)": ([pa.array([None], pa.int64())], 42),
    "7L, 'DE', NULL, DATE'2026-01-02'": (
        [pa.array([7]), pa.array(["DE"]), pa.array([None], pa.int32()), pa.array([date(2026, 1, 2)])],
        -1800593929,
    ),
}


@pytest.mark.parametrize("sql", PINNED)
def test_known_answers_of_spark(sql):
    columns, expected = PINNED[sql]
    assert spark_hash(columns).tolist() == [expected]


def test_a_dictionary_hashes_as_its_text():
    text = pa.array(["b", None, "a", "b"])
    assert spark_hash([text.dictionary_encode()]).tolist() == spark_hash([text]).tolist()


def test_units_of_time_do_not_matter():
    stamp = [datetime(2026, 1, 2, 3, 4, 5), datetime(1900, 1, 1)]
    hashes = {str(unit): spark_hash([pa.array(stamp, pa.timestamp(unit))]).tolist() for unit in ("s", "ms", "us", "ns")}
    assert len(set(map(tuple, hashes.values()))) == 1, hashes
    clock = [spark_hash([pa.array([time(1, 2, 3)], type)])[0] for type in (pa.time32("s"), pa.time32("ms"), pa.time64("us"))]
    assert len(set(clock)) == 1


def test_digits_spark_cannot_store_are_cut_off():
    fine, coarse = pa.array([1_234_567], pa.int64()), pa.array([1_234], pa.int64())
    for at_ns, at_us in ((pa.timestamp("ns"), pa.timestamp("us")), (pa.time64("ns"), pa.time64("us"))):
        assert spark_hash([fine.cast(at_ns)]) == spark_hash([coarse.cast(at_us)])


def test_no_rows_no_hashes():
    assert [len(spark_hash([pa.array([], type)])) for type in TYPES] == [0] * len(TYPES)


def test_the_sign_of_zero_does_not_matter():
    for type in (pa.float32(), pa.float64()):
        positive, negative = spark_hash([pa.array([0.0, -0.0], type)])
        assert positive == negative


def test_every_nan_is_the_same():
    doubles = np.array([0x7FF8_0000_0000_0000, 0xFFF8_0000_0000_0001], np.uint64).view(np.float64)
    floats = np.array([0x7FC0_0000, 0xFFC0_0001], np.uint32).view(np.float32)
    for values in (doubles, floats):
        assert len(set(spark_hash([pa.array(values)]).tolist())) == 1
