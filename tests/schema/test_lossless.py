"""Conversions of numbers are exact or refused: compared with Python's own arithmetic at every precision and scale."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from effort import examples
from hypothesis import example, given
from hypothesis import strategies as st
from strategies import new_lake

from lsmlake.api.table import Table
from lsmlake.errors import InvalidData
from lsmlake.schema.lossless import convert

SIGNED = [pa.int8(), pa.int16(), pa.int32(), pa.int64()]
UNSIGNED = [pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()]
FLOATS = {pa.float32(): np.float32, pa.float64(): np.float64}


@st.composite
def decimal_types(draw) -> pa.Decimal128Type:
    precision = draw(st.integers(1, 38))
    return pa.decimal128(precision, draw(st.integers(0, precision)))


@st.composite
def digits(draw, most: int = 76) -> int:
    """Integers near the limits of Arrow's arithmetic: powers of ten, multiples of 2^64 and 2^128, and any other."""
    length = draw(st.integers(1, most))
    limit = 10**length
    near = draw(st.integers(-3, 3))
    kind = draw(st.sampled_from(["any", "small", "power", "wrapped"]))
    if kind == "any":
        value = draw(st.integers(-limit, limit))
    elif kind == "small":
        value = draw(st.integers(-100, 100))
    elif kind == "power":
        value = limit + near
    else:
        value = draw(st.sampled_from([2**63, 2**64, 2**127, 2**128])) * draw(st.integers(-3, 3)) + near
    return value if abs(value) < 10**most else near


@st.composite
def texts(draw) -> tuple[str, Fraction]:
    """Text of a number in all its spellings, and the number."""
    value, point = draw(digits(90)), draw(st.integers(0, 90))
    written = str(abs(value)).rjust(point + 1, "0")
    text = f"{written[: len(written) - point]}.{written[len(written) - point :]}" if point else written
    text = "0" * draw(st.sampled_from([0, 0, 1, 40])) + text
    if point:
        text += "0" * draw(st.sampled_from([0, 0, 2, 40]))
        text = text.lstrip("0") if draw(st.booleans()) and text.strip("0") != "." else text
    exponent = draw(st.sampled_from([0, 0, 0, 1])) and draw(st.integers(-400, 400))
    if exponent or draw(st.integers(0, 5)) == 0:
        text += draw(st.sampled_from("eE")) + draw(st.sampled_from(["", "+"] if exponent >= 0 else [""])) + str(exponent)
    sign = "-" if value < 0 else draw(st.sampled_from(["", "", "+", "-"]))
    number = Fraction(abs(value)) * Fraction(10) ** (exponent - point)
    space = draw(st.sampled_from(["", "", " "]))
    return space + sign + text + space, -number if sign == "-" else number


@st.composite
def decimals(draw) -> tuple[pa.Array, Fraction]:
    value = draw(digits())
    precision = draw(st.integers(len(str(abs(value))), 76))
    scale = draw(st.one_of(st.integers(0, precision), st.integers(-76, 76)))
    width = min(bits for bits, most in ((32, 9), (64, 18), (128, 38), (256, 76)) if precision <= most)
    if draw(st.booleans()):
        width = max(width, 128)
    make = {32: pa.decimal32, 64: pa.decimal64, 128: pa.decimal128, 256: pa.decimal256}[width]
    return pa.array([Decimal(value)], make(precision, 0)).view(make(precision, scale)), value * Fraction(10) ** -scale


@st.composite
def integers(draw) -> tuple[pa.Array, Fraction]:
    kind = draw(st.sampled_from(SIGNED + UNSIGNED))
    low, high = (0, 2**kind.bit_width - 1) if kind in UNSIGNED else (-(2 ** (kind.bit_width - 1)), 2 ** (kind.bit_width - 1) - 1)
    value = draw(st.one_of(st.integers(low, high), st.sampled_from([low, high]), st.integers(-3 if low else 0, 100)))
    return pa.array([value], kind), Fraction(value)


@st.composite
def floats(draw) -> tuple[pa.Array, Fraction]:
    """A float and its shortest decimal text as a number."""
    kind = draw(st.sampled_from(list(FLOATS)))
    rounded = st.builds(lambda n, point: n / 10**point, st.integers(-(10**9), 10**9), st.integers(0, 12))
    any_float = st.floats(width=kind.bit_width, allow_nan=False, allow_infinity=False)
    value = FLOATS[kind](draw(st.one_of(rounded, any_float, st.builds(float, digits(38)))))
    return pa.array([value], kind), Fraction(str(value))


def nearest(number: Fraction, wanted: pa.DataType) -> float:
    """The float next to a number; infinite if it is too large."""
    kind = FLOATS[wanted]
    with np.errstate(over="ignore"):
        try:
            found = kind(float(number))
        except OverflowError:
            return math.inf
        near = [found, np.nextafter(found, kind(math.inf)), np.nextafter(found, kind(-math.inf))]
    if np.isinf(found):
        return math.inf
    return float(min((f for f in near if np.isfinite(f)), key=lambda f: abs(Fraction(float(f)) - number)))


def made(array: pa.Array, wanted: pa.DataType) -> object:
    """The one value of `array` as `wanted`, or None if it is refused."""
    try:
        result = convert(array, wanted, "UTC")
    except pa.ArrowInvalid:
        return None
    result.validate(full=True)
    assert result.type == wanted
    return result[0].as_py()


def exact_or_refused(array: pa.Array, number: Fraction, wanted: pa.DataType) -> None:
    if pa.types.is_decimal(wanted):
        unscaled = number * 10**wanted.scale
        fits = unscaled.denominator == 1 and abs(unscaled) < 10**wanted.precision
    else:
        if pa.types.is_floating(array.type):
            number = Fraction(array[0].as_py())
        most = 2 ** (wanted.bit_width - 1)
        fits = number.denominator == 1 and -most <= number < most
    found = made(array, wanted)
    assert (found is not None) == fits, (array, wanted, found)
    assert found is None or Fraction(found) == number, (array, wanted, found)
    nested = made(pa.ListArray.from_arrays(pa.array([0, 1], pa.int32()), array), pa.list_(pa.field("element", wanted)))
    assert nested == (None if found is None else [found])


def text_array(pair: tuple[str, Fraction]) -> tuple[pa.Array, Fraction]:
    return pa.array([pair[0]]), pair[1]


NUMBERS = st.one_of(texts().map(text_array), decimals(), integers(), floats())


@examples(700)
@given(NUMBERS, st.one_of(decimal_types(), decimal_types(), st.sampled_from(SIGNED)))
@example(text_array(("924661093523376960696027142787", Fraction(924661093523376960696027142787))), pa.decimal128(38, 10))
@example(text_array((str(2**128 + 5), Fraction(2**128 + 5))), pa.int64())
@example(text_array(("3e-39", Fraction("3e-39"))), pa.int64())
@example(text_array(("5e36", Fraction("5e36"))), pa.decimal128(38, 38))
@example((pa.array([7.0]), Fraction(7)), pa.decimal128(38, 38))
@example((pa.array([Decimal(7)]), Fraction(7)), pa.decimal128(38, 38))
@example((pa.array([7]), Fraction(7)), pa.decimal128(38, 30))
@example((pa.array([1.85e-215]), Fraction("1.85e-215")), pa.decimal128(38, 0))
def test_a_number_becomes_the_same_decimal_or_integer_or_is_refused(source, wanted):
    exact_or_refused(*source, wanted)


@examples(200)
@given(texts(), st.sampled_from(list(FLOATS)))
@example(("9007199254740993", Fraction(2**53 + 1)), pa.float64())
@example(("1152921504606846976.0", Fraction(2**60)), pa.float64())
@example(("16777217", Fraction(2**24 + 1)), pa.float32())
@example(("1e-400", Fraction("1e-400")), pa.float64())
@example(("1" + "0" * 76, Fraction(10**76)), pa.float64())
@example(("0.10000000000000000001", Fraction("0.10000000000000000001")), pa.float64())
def test_text_becomes_the_nearest_float_and_an_integer_must_be_exact(source, wanted):
    text, number = source
    found = made(pa.array([text]), wanted)
    near = nearest(number, wanted)
    integer = "e" not in text.lower() and text.strip().partition(".")[2].strip("0") == ""
    too_long = integer and len(str(abs(number))) > 75
    if too_long or math.isinf(near) or (near == 0) != (number == 0) or (integer and Fraction(near) != number):
        assert found is None
    else:
        assert found == near


@examples(200)
@given(st.one_of(decimals(), integers()), st.sampled_from(list(FLOATS)))
@example((pa.array([Decimal("0.100000000000")], pa.decimal128(21, 12)), Fraction("0.1")), pa.float64())
@example((pa.array([Decimal("0.000001")], pa.decimal128(38, 18)), Fraction("0.000001")), pa.float64())
@example((pa.array([Decimal("123456.5")], pa.decimal128(30, 5)), Fraction("123456.5")), pa.float64())
def test_a_number_becomes_the_float_that_represents_it(source, wanted):
    array, number = source
    found = made(array, wanted)
    near = nearest(number, wanted)
    if math.isinf(near):
        assert found is None
        return
    shown = Fraction(str(FLOATS[wanted](near))) if pa.types.is_decimal(array.type) else Fraction(near)
    assert found == (near if shown == number else None), (array, wanted)


@pytest.mark.parametrize(
    "text", ["", " ", ".", "+", "-.", "e5", "1e", "1e+", "0x1F", "--1", "1.2.3", "1e5.5", "1_0", "1,5", "١", "nan"]
)
@pytest.mark.parametrize("wanted", [pa.decimal128(38, 2), pa.int64()])
def test_text_that_is_not_a_number_is_refused(text, wanted):
    assert made(pa.array([text]), wanted) is None
    with pytest.raises(pa.ArrowInvalid):
        convert(pa.array(["1e1", text]), wanted, "UTC")
    assert convert(pa.array(["1e1", None, " -2.0"]), wanted, "UTC").to_pylist() == [10, None, -2]


# --- through a table ---


def table_of(ddl: str) -> Table:
    return new_lake().create_table("d.t", f"k DECIMAL(38,38) NOT NULL, {ddl}", primary_key=["k"])


def stored(table: Table, value: pa.Array, **how: object) -> object:
    """The value of column `v` in the one row of `table` after an upsert, or the error."""
    try:
        table.upsert(pa.table({"k": pa.array([Decimal("0.5")]), "v": value}), **how)
    except InvalidData as refused:
        return str(refused)
    return table.scan().to_arrow()["v"][0].as_py()


def test_a_decimal_that_does_not_fit_is_refused_without_cast_as_well():
    wide = Decimal("123456789012345678901234567890")
    for value, ddl in [
        (pa.array([wide]), "v DECIMAL(38,30)"),
        (pa.array([Decimal(7)]), "v DECIMAL(38,38)"),
        (pa.array([[wide]]), "v ARRAY<DECIMAL(38,30)>"),
        (pa.array([{"x": wide}]), "v STRUCT<x DECIMAL(38,30)>"),
        (pa.array([[("a", wide)]], pa.map_(pa.string(), pa.decimal128(30, 0))), "v MAP<STRING,DECIMAL(38,30)>"),
    ]:
        for how in ({}, {"cast": True}):
            assert "column 'v', row 0" in stored(table_of(ddl), value, **how)


def test_another_key_that_does_not_fit_finds_and_deletes_nothing():
    table = table_of("v INT")
    table.upsert({"k": [Decimal("0.19435266158123073073250785136463577088")], "v": [1]})  # 7 * 10^38 modulo 2^128
    with pytest.raises(InvalidData):
        table.get({"k": Decimal(7)})
    with pytest.raises(InvalidData):
        table.delete_keys({"k": [Decimal(7)]})
    assert table.scan().count() == 1


def test_values_that_fit_are_accepted_without_cast():
    text = pl.Series("v", [["a", None]], pl.List(pl.Categorical)).to_arrow()
    for value, ddl, expected in [
        (pa.array([7]), "v DECIMAL(38,30)", Decimal(7)),
        (pa.array([[7, None]]), "v ARRAY<DECIMAL(10,2)>", [Decimal(7), None]),
        (pa.array([7], pa.uint64()), "v DECIMAL(5,2)", Decimal(7)),
        (pa.array([2**60]), "v DOUBLE", float(2**60)),
        (pa.array([0.5]).dictionary_encode(), "v FLOAT", 0.5),
        (text, "v ARRAY<STRING>", ["a", None]),
    ]:
        assert stored(table_of(ddl), value) == expected


def test_a_double_that_a_float_would_round_is_refused_without_cast_in_every_layout():
    for value, ddl in [
        (pa.array([0.1]), "v FLOAT"),
        (pa.array([0.1]).dictionary_encode(), "v FLOAT"),
    ]:
        assert "cast=True for the FLOAT that prints the same" in stored(table_of(ddl), value)
    lists = pa.ListArray.from_arrays(pa.array([0, 1], pa.int32()), pa.array([0.1]).dictionary_encode())
    assert "pass cast=True" in stored(table_of("v ARRAY<FLOAT>"), lists)


def test_nested_columns_of_polars_can_be_cast():
    """Polars hands out text and bytes as views, which Arrow cannot filter inside a map."""
    views = pa.map_(pa.string_view(), pa.struct([("a", pa.string_view()), ("b", pa.list_(pa.binary_view()))]))
    rows = [[("k", {"a": "x", "b": [b"1", None]})], None, [], [("j", None)]]
    plain = pa.map_(pa.string(), pa.struct([("a", pa.string()), ("b", pa.list_(pa.field("element", pa.binary())))]))
    for array, expected in ((pa.array(rows, views), rows), (pa.array(rows, views)[1:], rows[1:])):
        assert convert(array, plain, "UTC").to_pylist() == expected
    table = new_lake().create_table("d.t", "k INT NOT NULL, m MAP<STRING,INT>, s STRUCT<a STRING>", primary_key=["k"])
    table.upsert([{"k": 1, "m": {"x": 1}, "s": {"a": "y"}}, {"k": 2, "m": None, "s": None}])
    before = table.scan().to_arrow()
    table.upsert(table.scan().to_polars().collect(), cast=True)
    assert table.scan().to_arrow().equals(before)


@examples(200)
@given(st.lists(st.floats(width=32), min_size=1))
@example([2.0**126, -(2.0**126), 2.0**127, 2.0**-149, float("nan"), float("-inf")])
def test_a_double_that_is_a_float_becomes_it(values):
    """Also where the shortest text of the float is another double."""
    made = convert(pa.array(values, pa.float64()), pa.float32(), "UTC")
    assert repr(made.to_pylist()) == repr(values)
