"""Converts values to a form that Arrow compares as Spark does.

Arrow's comparisons follow IEEE 754; in Spark NaN equals NaN and is greater than all other numbers. So a float is converted to a
64-bit integer with the same order: the bits of the double, all but the sign flipped if it is negative (the IEEE total order),
with one NaN and one zero. Other values are compared unchanged, after both sides have the same type.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

Values = pa.Array | pa.ChunkedArray
_BELOW_SIGN = np.int64(np.iinfo(np.int64).max)
_DECIMAL_DIGITS_MAX = 76


def is_exact(kind: pa.DataType) -> bool:
    """Integers and decimals."""
    return pa.types.is_integer(kind) or pa.types.is_decimal(kind)


def is_ordered(kind: pa.DataType) -> bool:
    """Whether the canonical type is sortable."""
    return not (pa.types.is_nested(kind) or pa.types.is_null(kind))


def common_type(left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    """Returns the type in which two columns are compared; rounds only where Spark does (to double). None if not comparable."""
    if left == right:
        return left if is_ordered(left) else None
    if is_exact(left) and is_exact(right):
        return _exact_type(left, right)
    if all(is_exact(kind) or pa.types.is_floating(kind) for kind in (left, right)):
        return pa.float64()
    if all(pa.types.is_date(kind) or pa.types.is_timestamp(kind) for kind in (left, right)):
        zone = "UTC" if "UTC" in (getattr(left, "tz", None), getattr(right, "tz", None)) else None
        return pa.timestamp("us", zone)
    return None


def _exact_type(left: pa.DataType, right: pa.DataType) -> pa.DataType:
    if pa.types.is_integer(left) and pa.types.is_integer(right):
        return pa.int64()
    digits = [(kind.precision, kind.scale) if pa.types.is_decimal(kind) else (19, 0) for kind in (left, right)]
    scale = max(scale for _, scale in digits)
    whole = max(precision - scale for precision, scale in digits)
    assert whole + scale <= _DECIMAL_DIGITS_MAX
    return pa.decimal256(whole + scale, scale)


def ordered(values: Values, kind: pa.DataType) -> Values:
    """Converts `values` to `kind`, floats to integers with Spark's order of floats."""
    if not pa.types.is_floating(kind):
        return values if values.type == kind else values.cast(kind)
    if isinstance(values, pa.ChunkedArray):
        return pa.chunked_array([ordered(chunk, kind) for chunk in values.chunks], pa.int64())
    return _float_ranks(_doubles(values))


def literals(values: Sequence[object], kind: pa.DataType) -> pa.Array:
    """Converts literals for a column of type `kind` to the form of `ordered`."""
    return ordered(pa.array(values, pa.float64() if pa.types.is_floating(kind) else kind), kind)


def _doubles(values: pa.Array) -> pa.Array:
    if pa.types.is_decimal(values.type):
        values = values.cast(pa.string())  # a direct cast does not always return the nearest double
    return values.cast(pa.float64(), safe=False)


def _float_ranks(values: pa.Array) -> pa.Array:
    floats = (values.fill_null(0.0) if values.null_count else values).to_numpy(zero_copy_only=False)
    bits = np.where(np.isnan(floats), np.nan, floats + 0.0).view(np.int64)
    ranks = bits ^ ((bits >> 63) & _BELOW_SIGN)
    return pa.array(ranks, mask=values.is_null().to_numpy(zero_copy_only=False) if values.null_count else None)
