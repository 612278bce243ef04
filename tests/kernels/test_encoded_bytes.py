"""Decimals whose digits are bytes, against Python's integers."""

from __future__ import annotations

import random
from decimal import Decimal

import pyarrow as pa
import pytest

from lsmlake.kernels.encoded_bytes import to_decimals


def as_bytes(value: int) -> bytes:
    return value.to_bytes(value.bit_length() // 8 + 1, "big", signed=True)


@pytest.mark.parametrize("bits", [7, 118, 127, 251])
def test_integers_of_any_size_are_decimals(bits: int):
    """With 16 bytes in one of them, which may have 39 digits, all have 76: MariaDB's DECIMAL(65, 30) has up to 28 bytes."""
    chance = random.Random(bits)
    values = [chance.randrange(-(2**bits), 2**bits) for _ in range(50)] + [0, -1, 2**bits - 1, -(2**bits)]
    found = to_decimals(pa.array([*map(as_bytes, values), None]), 30)
    assert pa.types.is_decimal128(found.type) == (bits < 119)
    assert found.to_pylist() == [*(Decimal((value < 0, [int(one) for one in str(abs(value))], -30)) for value in values), None]


@pytest.mark.parametrize("value", [b"", as_bytes(10**76), as_bytes(2**256)])
def test_bytes_that_are_no_decimal_are_refused(value: bytes):
    with pytest.raises(pa.ArrowInvalid):
        to_decimals(pa.array([value]), 0)
