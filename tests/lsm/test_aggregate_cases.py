"""Aggregate functions: the result of a few rows of one key, case by case. `Back(v)` is a row of kind -U or -D with value v."""

from __future__ import annotations

from decimal import Decimal
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from lsmlake.errors import InvalidData
from lsmlake.kernels import segments
from lsmlake.lsm.aggregate import FieldSettings, Function, function
from lsmlake.lsm.aggregate.function import Overflow
from lsmlake.lsm.aggregate.overflow import OverflowAsNull


class Back(NamedTuple):
    value: object


INT, LONG, TEXT = pa.int32(), pa.int64(), pa.string()
INTS = pa.list_(pa.int32())
MAP = pa.map_(pa.int32(), pa.string())
TIMED = pa.map_(pa.string(), pa.struct([("v", pa.string()), ("ts", pa.string())]))
ORDERS = pa.list_(pa.struct([("id", pa.int32()), ("item", pa.string()), ("seq", pa.int32())]))


def rows_of(*rows):
    return [row.value if isinstance(row, Back) else row for row in rows], np.array([isinstance(row, Back) for row in rows])


def fold(name, type_, *rows, **settings):
    """The value of one key; every case also runs between two other keys, so that groups cannot run into each other."""
    made = function(name, pa.field("c", type_), FieldSettings(**settings), "column 'c'")
    values, retract = rows_of(*rows)
    alone = made.reduce(pa.array(values, type_), np.array([0]), retract if retract.any() else None)
    assert alone.type == type_
    thrice = pa.array(values * 3, type_)
    among = made.reduce(thrice, np.arange(3) * len(values), np.tile(retract, 3) if retract.any() else None)
    among.validate(full=True)
    assert repr(among.to_pylist()) == repr(alone.to_pylist() * 3)  # repr: NaN is itself there
    return alone.to_pylist()[0]


def order(id_, item, seq=None):
    return {"id": id_, "item": item, "seq": seq}


def timed(**entries):
    return [(key, value and {"v": value[0], "ts": value[1]}) for key, value in entries.items()]


@pytest.mark.parametrize(
    ("name", "type_", "rows", "expected"),
    [
        ("max", pa.float64(), [23.0, 30.2], 30.2),
        ("min", pa.float64(), [23.0, 30.2], 23.0),
        ("max", pa.string(), ["b", None, "ab"], "b"),
        ("min", pa.string(), ["é", "z"], "z"),
        ("max", pa.decimal128(5, 2), [Decimal("-1.00"), Decimal("-2.00")], Decimal("-1.00")),
        ("max", pa.bool_(), [False, None, True], True),
        ("min", INT, [None, None], None),
        ("sum", LONG, [15, 20], 35),
        ("sum", INT, [None, 10], 10),
        ("sum", INT, [1, 10], 11),
        ("sum", INT, [10, Back(5)], 5),
        ("sum", INT, [None, Back(5)], -5),
        ("sum", INT, [None, Back(None)], None),
        ("sum", pa.decimal128(38, 2), [Decimal("1.05"), Back(Decimal("3.10"))], Decimal("-2.05")),
        ("sum", pa.float32(), [1.5, 2.0, Back(0.5)], 3.0),
        ("count", LONG, [1, 1, 1, Back(1)], 2),
        ("product", INT, [10, Back(5)], 2),
        ("product", INT, [None, Back(5)], None),
        ("product", INT, [Back(5), 3, 4], 12),
        ("product", INT, [-7, Back(2)], -3),
        ("product", LONG, [7, Back(2), 2], 6),
        ("product", pa.decimal128(5, 2), [Decimal("1.15"), Decimal("0.50")], Decimal("0.58")),
        ("product", pa.decimal128(5, 2), [Decimal("-1.00"), Back(Decimal("3.00"))], Decimal("-0.33")),
        ("last_value", INT, [1, Back(2), 3], 3),
        ("last_value", INT, [1, 3, Back(3)], None),
        ("last_value", INT, [1, None], None),
        ("last_value", ORDERS, [[order(1, "a")], [order(2, "b")]], [order(2, "b")]),
        ("last_non_null_value", INT, [1, 2, None], 2),
        ("last_non_null_value", INT, [1, Back(1)], None),
        ("last_non_null_value", INT, [1, Back(None)], 1),
        ("last_non_null_value", INT, [1, Back(1), 2, None], 2),
        ("first_value", INT, [None, 1, 2], None),
        ("first_non_null_value", INT, [None, 1, 2], 1),
        ("first_not_null_value", INT, [None, 1, 2], 1),
        ("primary_key", INT, [4, Back(4)], 4),
        ("bool_and", pa.bool_(), [True, None, False], False),
        ("bool_and", pa.bool_(), [True, None], True),
        ("bool_or", pa.bool_(), [False, None, True], True),
        ("bool_or", pa.bool_(), [None, None], None),
        ("collect", INTS, [[1, 1, 2], [2, 3]], [1, 1, 2, 2, 3]),
        ("collect", INTS, [[1, 1, 2, 2, 3], Back([1, 2, 3])], [1, 2]),
        ("collect", INTS, [[1, 2, 1], Back([1]), [1]], [2, 1, 1]),
        ("collect", INTS, [Back([1]), [1]], [1]),
        ("collect", INTS, [[1], Back([1])], []),
        ("collect", INTS, [None, Back([1])], None),
        ("collect", INTS, [[None, 1], Back([None])], [1]),
        ("merge_map", MAP, [{1: "A"}, {1: "A", 2: "B"}, {1: "a", 3: "c"}], [(1, "a"), (2, "B"), (3, "c")]),
        ("merge_map", MAP, [{1: "A", 2: "B", 3: "C"}, Back({1: "x", 2: "y"})], [(3, "C")]),
        ("merge_map", MAP, [{1: "A"}, None, {2: None}], [(1, "A"), (2, None)]),
        ("merge_map", MAP, [Back({1: "A"})], None),
    ],
)
def test_cases(name, type_, rows, expected):
    rows = [Back(list(r.value.items())) if isinstance(r, Back) and isinstance(r.value, dict) else r for r in rows]
    assert fold(name, type_, *(list(r.items()) if isinstance(r, dict) else r for r in rows)) == expected


def test_default_function_row():
    """Five rows of a key, columns folded by first_non_null_value, sum and first_non_null_value."""
    columns = {"a": [None, 2, 3, 4, 5], "b": [1, None, 3, 4, 5], "c": [1, 2, None, 4, 5]}
    names = {"a": "first_non_null_value", "b": "sum", "c": "first_non_null_value"}
    assert [fold(names[c], INT, *rows) for c, rows in columns.items()] == [2, 13, 1]


def test_collect_distinct():
    assert fold("collect", INTS, [1, 1, 2], [2, 3], distinct=True) == [1, 2, 3]
    assert fold("collect", INTS, [1, 2], Back([1]), [3, 1], distinct=True) == [2, 3, 1]


def test_collect_recognises_equal_nested_elements():
    maps = pa.list_(pa.map_(pa.string(), pa.list_(pa.float64())))
    one, same = [("a", [0.0, float("nan")]), ("b", None)], [("b", None), ("a", [-0.0, float("nan")])]
    assert len(fold("collect", maps, [one], [same], [[("a", [0.0])]], distinct=True)) == 2


@pytest.mark.parametrize(
    ("rows", "settings", "expected"),
    [
        (["1", "2", "3", "4", "5"], {}, "1,2,3,4,5"),
        (["1", "2"], {"list_agg_delimiter": "-"}, "1-2"),
        (["1", None, " ", "", "2"], {"list_agg_delimiter": "/"}, "1/2"),
        ([None, "\t"], {}, None),
        (["user1", "user2", "user1,user3"], {"distinct": True}, "user1,user2,user3"),
        (["abc", "ab"], {"distinct": True}, "abc,ab"),
        (["a,,a", "b,,a, ,b"], {"distinct": True}, "a,,a,b"),
        (["a;b", "b"], {"distinct": True, "list_agg_delimiter": ";"}, "a;b"),
    ],
)
def test_listagg(rows, settings, expected):
    assert fold("listagg", TEXT, *rows, **settings) == expected


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([timed(a=("1", "100"), b=("1", "100")), timed(a=("2", "200"), b=("2", "050"))], timed(a=("2", "200"), b=("1", "100"))),
        ([timed(a=("1", "100")), timed(a=("2", "100"))], timed(a=("1", "100"))),
        ([timed(a=("1", "100"), b=("1", "1")), timed(a=None)], timed(b=("1", "1"))),
        ([timed(a=("1", "100")), timed(a=None), timed(a=("0", "001"))], timed(a=("0", "001"))),
        ([timed(a=("1", "100")), timed(a=("2", None), b=("2", None))], timed(a=("1", "100"))),
        ([timed(a=None, b=("1", None)), timed(c=("2", "2"))], timed(a=None, b=("1", None), c=("2", "2"))),
        ([timed(a=None, b=("1", None)), timed(a=("2", "2"), b=("2", "1"))], timed(a=("2", "2"), b=("2", "1"))),
        ([None, timed(a=("1", "1")), None], timed(a=("1", "1"))),
    ],
)
def test_merge_map_with_keytime(rows, expected):
    assert fold("merge_map_with_keytime", TIMED, *rows) == expected
    assert fold("merge_map_with_keytime", TIMED, *rows, ts_field="ts") == expected


A1, A2, A3, B1, C1 = order(1, "a", 1), order(1, "b", 2), order(1, "c", 1), order(2, "a", 1), order(3, "z", 9)


@pytest.mark.parametrize(
    ("rows", "settings", "expected"),
    [
        ([[A1], [B1, None], [A1]], {}, [A1, B1, A1]),
        ([[A1, B1, A1], Back([A1])], {}, [B1]),
        ([[A1], Back([A2])], {"nested_key": ("id",)}, []),
        ([[A1, B1], [A2]], {"nested_key": ("id",)}, [A2, B1]),
        ([[A1, A2]], {"nested_key": ("id",)}, [A2]),
        ([[A2], [A3]], {"nested_key": ("id",), "nested_sequence_field": ("seq",)}, [A2]),
        ([[A1], [A3]], {"nested_key": ("id",), "nested_sequence_field": ("seq",)}, [A3]),
        ([[order(1, "n")], [A1], [order(1, "m")]], {"nested_key": ("id",), "nested_sequence_field": ("seq",)}, [A1]),
        ([[A1], [B1], [C1]], {"count_limit": 2}, [A1, B1]),
        ([[A1], [B1], Back([A1]), [C1, A2]], {"count_limit": 2}, [B1, C1]),
        ([[A1], [B1], [C1, A2]], {"nested_key": ("id",), "count_limit": 2}, [A2, B1]),
        ([[A1, B1], [C1], Back([A1]), [C1], [A1]], {"nested_key": ("id",), "count_limit": 2}, [B1, C1]),
        ([[order(None, "x")], [A1, order(None, "y")]], {"nested_key": ("id",)}, [order(None, "y"), A1]),
        ([[order(None, "x"), A1]], {"nested_key": ("id",), "nested_key_null_strategy": "ignore"}, [A1]),
        ([None, Back([A1])], {"nested_key": ("id",)}, None),
    ],
)
def test_nested_update(rows, settings, expected):
    assert fold("nested_update", ORDERS, *rows, **settings) == expected


@pytest.mark.parametrize("name", ["nested_update", "nested_partial_update"])
def test_a_null_in_a_nested_key_can_be_an_error(name):
    settings = {"nested_key": ("id", "seq"), "nested_key_null_strategy": "error"}
    with pytest.raises(InvalidData, match="column 'c': the nested key has a null"):
        fold(name, ORDERS, [A1], [order(1, "x")], **settings)
    assert fold(name, ORDERS, [A1], **settings) == [A1]


def test_a_null_in_a_nested_key_can_be_retracted():
    settings = {"nested_key": ("id", "seq"), "nested_key_null_strategy": "error"}
    assert fold("nested_update", ORDERS, [A1], Back([order(1, "a"), A1]), **settings) == []


def test_what_lies_behind_a_null_list_is_not_seen():
    numbers = pa.array([1, 2, 3, 4, 5], pa.int32())
    offsets, validity = pa.py_buffer(np.array([0, 2, 4, 5], np.int32)), pa.py_buffer(b"\5")
    values = pa.Array.from_buffers(INTS, 3, [validity, offsets], children=[numbers])
    assert values.to_pylist() == [[1, 2], None, [5]]
    made = function("collect", pa.field("c", INTS), FieldSettings(), "c")
    assert made.reduce(values, np.array([0]), None).to_pylist() == [[1, 2, 5]]


def test_nested_partial_update():
    rows = [order(1, "a", None), None], [order(2, None, 5)], [order(1, None, 7), order(2, "b", None)]
    assert fold("nested_partial_update", ORDERS, *rows, nested_key=("id",)) == [order(1, "a", 7), order(2, "b", 5)]


WITHOUT_RETRACT = [
    *(("max", INT, 1), ("min", INT, 1), ("first_value", INT, 1), ("first_non_null_value", INT, 1), ("listagg", TEXT, "a")),
    *(("bool_and", pa.bool_(), True), ("bool_or", pa.bool_(), True), ("merge_map_with_keytime", TIMED, timed(a=("1", "1")))),
    *(("rbm32", pa.binary(), b""), ("rbm64", pa.binary(), b""), ("hll_sketch", pa.binary(), b"")),
    ("theta_sketch", pa.binary(), b""),
]


@pytest.mark.parametrize(("name", "type_", "value"), WITHOUT_RETRACT)
def test_values_that_cannot_be_retracted(name, type_, value):
    with pytest.raises(InvalidData, match=r"column 'c'.*does not support retraction.*set fields\.c\.ignore-retract"):
        fold(name, type_, value, Back(value))
    assert fold(name, type_, value, Back(value), ignore_retract=True) == value
    assert fold(name, type_, Back(value), ignore_retract=True) is None


def test_ignored_retracts_leave_the_value():
    assert fold("sum", INT, 1, Back(5), 2, ignore_retract=True) == 3
    assert fold("last_value", INT, 1, Back(5), ignore_retract=True) == 1


def test_only_some_groups_are_left_by_ignored_retracts():
    made = function("sum", pa.field("c", INT), FieldSettings(ignore_retract=True), "c")
    reduced = made.reduce(pa.array([1, 2, 3, 4]), np.array([0, 1, 2]), np.array([True, False, True, False]))
    assert reduced.to_pylist() == [None, 2, 4]


SMALL = [pa.int8(), pa.int16(), pa.int32(), pa.int64()]


@pytest.mark.parametrize("type_", SMALL, ids=str)
@pytest.mark.parametrize("name", ["sum", "product"])
def test_integers_never_wrap(name, type_):
    most = 2 ** (type_.bit_width - 1) - 1
    assert fold("sum", type_, most, 1, Back(1)) == most
    assert fold("sum", type_, -most, -1) == -most - 1
    assert fold("product", type_, most, -1) == -most
    assert fold("product", type_, 2 ** (type_.bit_width - 2), -2) == -most - 1
    for rows in {"sum": [(most, 1), (-most, -2), (-1, Back(most), -1)], "product": [(most, 2), (-most - 1, -1)]}[name]:
        with pytest.raises(InvalidData, match="does not fit"):
            fold(name, type_, *rows)


@pytest.mark.parametrize("type_", [pa.int8(), pa.int32(), pa.int64()])
def test_a_product_that_overflows_by_one_and_comes_back_is_null_from_there_on(type_):
    least = -(2 ** (type_.bit_width - 1))
    made = function("product", pa.field("c", type_), FieldSettings(overflow="null"), "d.t, column 'c'")
    groups = [[-1, least, -1], [least, 1], [least // 2, 2, -1, -1, 3], [least, 0, -1], [None, -1, least, None, 5]]
    starts = np.cumsum([0, *map(len, groups)])[:-1]
    values = pa.array([row for group in groups for row in group], type_)
    assert made.reduce(values, starts, None).to_pylist() == [-1, least, -3, 0, 5]


def test_retracting_the_smallest_long_from_a_sum_overflows():
    assert fold("sum", LONG, -1, Back(-(2**63))) == 2**63 - 1
    with pytest.raises(InvalidData, match=r"column 'c'.*does not fit"):
        fold("sum", LONG, Back(-(2**63)))


@pytest.mark.parametrize("precision", [5, 18, 19, 38])
def test_decimals_never_wrap(precision):
    type_, most = pa.decimal128(precision, 0), Decimal(10**precision - 1)
    assert fold("sum", type_, most, most, Back(most)) == most
    assert fold("product", type_, most, Decimal(-1)) == most.copy_negate()
    for name, *rows in (("sum", most, Decimal(1)), ("sum", most.copy_negate(), Back(Decimal(1))), ("product", most, Decimal(2))):
        with pytest.raises(InvalidData, match="does not fit"):
            fold(name, type_, *rows)


def test_products_far_beyond_64_bits_do_not_fit():
    for factors in ([2**32] * 2, [2**32] * 40, [3] * 41, [-(2**31)] * 3):
        with pytest.raises(InvalidData, match="does not fit"):
            fold("product", LONG, *factors)
    assert fold("product", LONG, *[2**32] * 40, 0) == 0
    assert fold("product", LONG, *[3] * 39) == 3**39


def test_zero_cannot_be_taken_out_of_a_product():
    for type_, zero in ((INT, 0), (pa.decimal128(5, 2), Decimal(0))):
        with pytest.raises(InvalidData, match="zero"):
            fold("product", type_, zero + 1, Back(zero))
    assert fold("product", pa.float64(), 1.0, Back(0.0)) == float("inf")


def test_nan_is_the_greatest():
    nan = float("nan")
    assert str(fold_one("max", [1.0, nan])) == "nan"
    assert fold_one("min", [nan, 1.0, None]) == 1.0
    assert str(fold_one("min", [nan, None])) == "nan"


def fold_one(name, values):
    made = function(name, pa.field("c", pa.float64()), FieldSettings(), "c")
    return made.reduce(pa.array(values, pa.float64()), np.array([0]), None).to_pylist()[0]


@pytest.mark.parametrize(
    ("name", "rows"), [("sum", (2**62, 2**62)), ("product", (2**40, 2**40)), ("product", (4, Back(2), 2**63 - 1))]
)
def test_a_result_that_does_not_fit_becomes_null_by_choice(name, rows, caplog):
    made = function(name, pa.field("c", LONG), FieldSettings(overflow="null"), "d.t, column 'c'")
    groups = [[1, 2], [None], list(rows), [5], list(rows)]
    flat = [row for group in groups for row in group]
    values = pa.array([row.value if isinstance(row, Back) else row for row in flat], LONG)
    retract = np.array([isinstance(row, Back) for row in flat])
    starts = np.cumsum([0, *map(len, groups)])[:-1]
    first = {"sum": 3, "product": 2}[name]
    assert made.reduce(values, starts, retract if retract.any() else None).to_pylist() == [first, None, None, 5, None]
    assert "d.t, column 'c': the aggregate of 2 keys does not fit the column and becomes null" in caplog.text


class LastBelowTen(Function):
    """A function that says nothing about overflow: it refuses a last row of 10 or more."""

    def reduce(self, values, starts, retract):
        last = values.take(pa.array(segments.last_where(None, starts, len(values))))
        if pc.any(pc.greater_equal(last, 10)).as_py():
            raise Overflow("too great", cure="write less")
        return last


def test_a_user_function_that_overflows_in_between_is_applied_row_by_row(caplog):
    made = OverflowAsNull(LastBelowTen(), "c")
    assert made.reduce(pa.array([12, 3, 4, 12], LONG), np.array([0, 2]), None).to_pylist() == [3, None]
    assert "the aggregate of 2 keys" in caplog.text
