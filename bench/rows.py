"""Synthetic orders: twelve columns of ints, doubles, strings of low and high cardinality, date, timestamp, decimal.

A row is a pure function of its id and version, so any subset can be regenerated anywhere. 122 bytes per row in Arrow.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import pyarrow as pa

SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        pa.field("customer", pa.int64()),
        pa.field("quantity", pa.int32()),
        pa.field("price", pa.float64()),
        pa.field("weight", pa.float64()),
        pa.field("status", pa.string()),
        pa.field("city", pa.string()),
        pa.field("product", pa.string()),
        pa.field("code", pa.string()),
        pa.field("day", pa.date32()),
        pa.field("at", pa.timestamp("us", "UTC")),
        pa.field("amount", pa.decimal128(12, 2)),
    ]
)
KEY = "id"
_STATUS = ("open", "paid", "packed", "sent", "returned")
_FIRST_DAY = 20_089  # 2025-01-01
_DAY_MICROS = 86_400_000_000
_HEX = np.frombuffer(b"0123456789abcdef", np.uint8)


def orders(ids: np.ndarray, version: int = 0) -> pa.Table:
    """The orders `ids` as of `version`, in the order of `ids`."""
    draw = _draws(ids, version)
    quantity, cents = next(draw) % 50 + 1, next(draw) % 1_000_000
    day = _FIRST_DAY + next(draw) % 365
    columns = [
        pa.array(ids, pa.int64()),
        pa.array((next(draw) % 1_000_000).astype(np.int64)),
        pa.array(quantity.astype(np.int32)),
        pa.array(cents / 100),
        pa.array((next(draw) >> np.uint64(11)) / 2**53 * 100),
        _one_of(pa.array(_STATUS), next(draw)),
        _one_of(_names("city-{:02}", 50), next(draw)),
        _one_of(_names("product-{:05}", 20_000), next(draw)),
        _codes(next(draw)),
        pa.array(day.astype(np.int32)).cast(pa.date32()),
        pa.array((day * _DAY_MICROS + next(draw) % _DAY_MICROS).astype(np.int64)).cast(SCHEMA.field("at").type),
        _decimals(quantity * cents),
    ]
    return pa.table(columns, schema=SCHEMA)


def _draws(ids: np.ndarray, version: int):
    """Random numbers (uint64) of every id, another column of them each time: the finalizer of splitmix64 over a counter."""
    column = version * 100
    while True:
        with np.errstate(over="ignore"):
            x = np.asarray(ids, np.uint64) * np.uint64(0xD1342543DE82EF95) + np.uint64(column) * np.uint64(0x9E3779B97F4A7C15)
            x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
            x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        yield x ^ (x >> np.uint64(31))
        column += 1


@cache
def _names(form: str, count: int) -> pa.Array:
    return pa.array([form.format(number) for number in range(count)])


def _one_of(names: pa.Array, draw: np.ndarray) -> pa.Array:
    return names.take(pa.array((draw % np.uint64(len(names))).astype(np.int64)))


def _codes(draw: np.ndarray) -> pa.Array:
    """Sixteen hexadecimal digits."""
    raw = draw.astype(">u8").view(np.uint8)
    text = np.empty((len(raw), 2), np.uint8)
    text[:, 0], text[:, 1] = _HEX[raw >> 4], _HEX[raw & 15]
    offsets = np.arange(len(draw) + 1, dtype=np.int32) * 16
    return pa.Array.from_buffers(pa.string(), len(draw), [None, pa.py_buffer(offsets), pa.py_buffer(text)])


def _decimals(cents: np.ndarray) -> pa.Array:
    halves = np.zeros((len(cents), 2), np.uint64)
    halves[:, 0] = cents
    return pa.Array.from_buffers(SCHEMA.field("amount").type, len(cents), [None, pa.py_buffer(halves)])
