"""Equal values have equal numbers, and are the same in a comparison of two arrays."""

import datetime
import itertools
import math
from decimal import Decimal

import pyarrow as pa
import pytest

from lsmlake.kernels.codes import identity, same

DAY = datetime.date(2026, 1, 2)
VALUES = [
    (pa.bool_(), [True, False]),
    (pa.int8(), [1, -1]),
    (pa.int64(), [1, 1 << 62]),
    (pa.float32(), [0.0, -0.0, math.nan, 1.5]),
    (pa.float64(), [0.0, -0.0, math.nan, math.inf]),
    (pa.decimal128(38, 2), [Decimal("1.00"), Decimal("-1.00")]),
    (pa.date32(), [DAY, DAY + datetime.timedelta(1)]),
    (pa.timestamp("us", "UTC"), [datetime.datetime(2026, 1, 2), datetime.datetime(2026, 1, 3)]),
    (pa.duration("us"), [datetime.timedelta(1), datetime.timedelta(2)]),
    (pa.string(), ["a", "", "\0"]),
    (pa.binary(), [b"a", b"", b"\0"]),
    (pa.null(), []),
    (pa.list_(pa.float64()), [[0.0], [-0.0], [], [None]]),
    (pa.struct([("a", pa.int32()), ("b", pa.string())]), [{"a": 1, "b": "x"}, {"a": None, "b": None}]),
    (pa.map_(pa.string(), pa.int32()), [[("a", 1), ("b", 2)], [("b", 2), ("a", 1)], []]),
]


@pytest.mark.parametrize(("type", "values"), VALUES, ids=lambda given: str(given) if isinstance(given, pa.DataType) else "")
def test_the_same_values_are_those_of_equal_numbers(type, values):
    for some in (values, [*values, None]):
        pairs = list(itertools.product(some, some))
        one, other = (pa.array([pair[side] for pair in pairs], type) for side in (0, 1))
        numbers = identity(pa.concat_arrays([one, other]))
        assert same(one, other).tolist() == (numbers[: len(pairs)] == numbers[len(pairs) :]).tolist()


def test_the_two_zeros_differ_and_nan_is_one_value():
    one, other = pa.array([0.0, 0.0, math.nan, None]), pa.array([-0.0, 0.0, -math.nan, None])
    assert same(one, other).tolist() == [False, True, True, True]
