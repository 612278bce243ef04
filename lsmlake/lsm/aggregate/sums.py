"""sum, and `count`, which is the same function: as in Paimon the writer passes 1 for each row to count.

Sums are exact: integers and decimals that do not fit the column raise Overflow, they never wrap. Only the total of a group must
fit, not its intermediate sums. Floats are summed in double precision.

1. A retraction changes the sign of its value; nulls are skipped; a group without values is null.
2. Integers of up to 32 bits cannot overflow 64 bits in one array. 64-bit integers cannot if the greatest magnitude times the
   length of the longest group fits in 64 bits.
3. Otherwise, and for decimals, numbers are split into limbs of 32 bits (the top one signed). The limbs are summed in 64 bits and
   the carries are propagated at the end.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lsmlake.kernels import segments
from lsmlake.lsm.aggregate.function import Function, Overflow

_LIMB = (1 << 32) - 1
_SAFETY = 0.99  # margin for the rounding of a sum of floats


@dataclass(frozen=True)
class Sum(Function):
    """The sum of all values. Null minus 5 is -5."""

    where: str
    retracts = associative_adds = commutative_adds = skips_nulls = True

    def reduce(self, values: pa.Array, starts: np.ndarray, retract: np.ndarray | None) -> pa.Array:
        present = segments.valid(values)
        some = segments.anywhere(present, starts)
        if pa.types.is_floating(values.type):
            return segments.array(values.type, _float_sums(values, starts, present, retract), some)
        if pa.types.is_decimal(values.type):
            return segments.array(values.type, _decimal_sums(values, starts, present, retract, self.where), some)
        return segments.array(values.type, _integer_sums(values, starts, present, retract, self.where), some)

    def may_overflow_midway(self, values: pa.Array, starts: np.ndarray, retract: np.ndarray | None) -> np.ndarray:
        """Flags groups whose sum of magnitudes exceeds the type. It bounds each intermediate sum."""
        if pa.types.is_floating(values.type) or not len(starts):
            return np.zeros(len(starts), bool)
        if pa.types.is_decimal(values.type):
            numbers = values.cast(pa.float64()).fill_null(0.0).to_numpy(zero_copy_only=False)
            limit = 10.0 ** (values.type.precision - values.type.scale)
        else:
            dtype = np.dtype(values.type.to_pandas_dtype())
            numbers = _signed(segments.fixed(values, dtype), segments.valid(values), None).astype(np.float64)
            limit = float(np.iinfo(dtype).max)
        return np.add.reduceat(np.abs(numbers), starts) > limit * _SAFETY


def _float_sums(values: pa.Array, starts: np.ndarray, present: np.ndarray | None, retract: np.ndarray | None) -> np.ndarray:
    dtype = values.type.to_pandas_dtype()
    with np.errstate(all="ignore"):  # infinities and their differences are values
        numbers = _signed(segments.fixed(values, dtype), present, retract).astype(np.float64, copy=False)
        return np.add.reduceat(numbers, starts).astype(dtype, copy=False)  # with dtype=, reduceat would copy through buffers


def _integer_sums(
    values: pa.Array, starts: np.ndarray, present: np.ndarray | None, retract: np.ndarray | None, where: str
) -> np.ndarray:
    dtype = np.dtype(values.type.to_pandas_dtype())
    numbers = _signed(segments.fixed(values, dtype), present, None)
    if dtype.itemsize < 8 or _far_from_overflow(numbers, starts):
        sums = segments.sums(_signed(numbers.astype(np.int64, copy=False), None, retract), starts)
        bounds = np.iinfo(dtype)
        check_fits((sums < bounds.min) | (sums > bounds.max), values.type, where)
        return sums.astype(dtype)
    low, high = _limb_sums([numbers & _LIMB, numbers >> 32], starts, retract)
    check_fits(_not_32_bits(high), values.type, where)
    return high << 32 | low


def _decimal_sums(
    values: pa.Array, starts: np.ndarray, present: np.ndarray | None, retract: np.ndarray | None, where: str
) -> np.ndarray:
    unsigned, signed = (segments.fixed(values, dtype).reshape(-1, 4) for dtype in ("<u4", "<i4"))
    limbs = [*unsigned.T[:3], signed.T[3]]
    sums = _limb_sums([_signed(limb.astype(np.int64), present, None) for limb in limbs], starts, retract)
    low = (sums[1] << 32 | sums[0]).view(np.uint64)
    over = _not_32_bits(sums[3])
    high = sums[3] << 32 | sums[2]
    check_fits(over | _beyond(high, low, 10**values.type.precision), values.type, where)
    return np.stack([low.view(np.int64), high], axis=1)


def _signed(numbers: np.ndarray, present: np.ndarray | None, retract: np.ndarray | None) -> np.ndarray:
    """The values to add: 0 for a null, the negated value for a retracted row."""
    if present is not None:
        numbers = np.where(present, numbers, numbers.dtype.type(0))
    return numbers if retract is None else np.where(retract, -numbers, numbers)


def _far_from_overflow(numbers: np.ndarray, starts: np.ndarray) -> bool:
    if not len(numbers):
        return True
    greatest = max(abs(int(numbers.min())), abs(int(numbers.max())))
    return greatest * int(segments.lengths(starts, len(numbers)).max()) < 1 << 63


def _limb_sums(limbs: list[np.ndarray], starts: np.ndarray, retract: np.ndarray | None) -> list[np.ndarray]:
    """Returns the sums as limbs, lowest first; all but the last are in [0, 2^32)."""
    sums, carry = [], 0
    for limb in limbs:
        total = np.add.reduceat(_signed(limb, None, retract), starts) + carry
        sums.append(total & _LIMB)
        carry = total >> 32
    return [*sums[:-1], total]


def _not_32_bits(limb: np.ndarray) -> np.ndarray:
    return (limb < -(1 << 31)) | (limb >= 1 << 31)


def _beyond(high: np.ndarray, low: np.ndarray, bound: int) -> np.ndarray:
    """Whether the 128-bit numbers are outside (-bound, bound)."""
    above = (high > bound >> 64) | ((high == bound >> 64) & (low >= np.uint64(bound & (1 << 64) - 1)))
    below = (high < -bound >> 64) | ((high == -bound >> 64) & (low <= np.uint64(-bound & (1 << 64) - 1)))
    return above | below


def check_fits(over: np.ndarray, type_: pa.DataType, where: str) -> None:
    """Raises Overflow if any group is marked."""
    if over.any():
        raise Overflow(
            "the aggregate of a key does not fit the column",
            where=where,
            expected=f"values within {type_}",
            found=f"{int(over.sum())} keys that exceed it",
            cure="give the column a wider type",
        )
