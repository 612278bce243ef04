"""product: multiplies all values of the group; a retraction divides by its value.

1. Nulls are skipped. Retractions before the first added row have no effect and are skipped as well.
2. Groups without retractions: floats are multiplied in double precision, integers modulo 2^64. An integer product has overflowed
   if its float estimate exceeds 2^63 or, near this bound, if its sign is not the product of the signs of the factors.
3. Groups with a retraction, and decimals, are computed step by step with exact Python integers, because division truncates and
   decimals round. Step k processes the k-th row of all groups, so the longest such group determines the number of steps.

Integer division truncates toward zero; decimals round half away from zero to their scale; float division by zero follows IEEE.
Integers and decimals that do not fit raise Overflow; division by zero raises InvalidData.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lsmlake.errors import InvalidData
from lsmlake.kernels import segments
from lsmlake.lsm.aggregate.function import Function
from lsmlake.lsm.aggregate.sums import check_fits

_WORD = (1 << 64) - 1


@dataclass(frozen=True)
class Product(Function):
    """The product of all values; null divided by 5 is null. Decimals with a scale are not associative: each step rounds."""

    type: pa.DataType
    where: str
    retracts = commutative_adds = skips_nulls = True

    @property
    def associative_adds(self) -> bool:
        return not pa.types.is_decimal(self.type) or self.type.scale == 0

    def reduce(self, values: pa.Array, starts: np.ndarray, retract: np.ndarray | None) -> pa.Array:
        taken = np.zeros(len(values), bool) if retract is None else retract
        added = segments.both(segments.valid(values), None if retract is None else ~retract)
        first = np.repeat(segments.first_where(added, starts, len(values)), segments.lengths(starts, len(values)))
        keep = segments.both((first >= 0) & (np.arange(len(values)) >= first), segments.valid(values))
        kept, groups = segments.kept(keep, starts)
        if not len(groups):
            return pa.nulls(len(starts), values.type)
        products = self._products(values.filter(pa.array(keep)), kept, taken[keep])
        return segments.spread(products, groups, len(starts))

    def may_overflow_midway(self, values: pa.Array, starts: np.ndarray, retract: np.ndarray | None) -> np.ndarray:
        """Flags groups of integers with a factor -1 whose product is as far from zero as the least value of the type: before that
        factor it may have been 1 more than the greatest value.

        No other group can: the product never comes nearer to zero, but by a factor of zero, whose result is zero with and without
        `overflow = null`. Decimals, and groups with a retraction, are checked step by step.
        """
        if not pa.types.is_integer(self.type) or not len(starts):
            return np.zeros(len(starts), bool)
        numbers = segments.fixed(pc.fill_null(values, 1), self.type.to_pandas_dtype())
        with np.errstate(over="ignore"):
            far = np.abs(np.multiply.reduceat(numbers, starts, dtype=np.float64))
        return (far > -float(np.iinfo(numbers.dtype).min) * (1 - 1e-9)) & segments.anywhere(numbers == -1, starts)

    def _products(self, values: pa.Array, starts: np.ndarray, retract: np.ndarray) -> pa.Array:
        """Multiplies values without nulls; the first row of each group is an added row."""
        if pa.types.is_decimal(self.type):
            products = _by_steps(_unscaled(values), starts, retract, *self._decimal_steps())
            words = np.stack([(products & _WORD).astype(np.uint64), (products >> 64).astype(np.int64).view(np.uint64)], axis=1)
            return segments.array(self.type, words, None)
        numbers, dtype = segments.fixed(values, self.type.to_pandas_dtype()), self.type.to_pandas_dtype()
        divided = segments.anywhere(retract, starts)
        products = np.empty(len(starts), dtype)
        for some, reduce in ((divided, self._stepwise), (~divided, self._at_once)):
            rows = np.repeat(some, segments.lengths(starts, len(values)))
            if rows.any():
                products[some] = reduce(numbers[rows], segments.kept(rows, starts)[0], retract[rows])
        return segments.array(self.type, products, None)

    def _at_once(self, numbers: np.ndarray, starts: np.ndarray, _: np.ndarray) -> np.ndarray:
        with np.errstate(all="ignore"):
            estimate = np.multiply.reduceat(numbers, starts, dtype=np.float64)
            if pa.types.is_floating(self.type):
                return estimate.astype(numbers.dtype)
            products = np.multiply.reduceat(numbers, starts, dtype=np.int64)
            negative, zero = np.bitwise_xor.reduceat(numbers < 0, starts), segments.anywhere(numbers == 0, starts)
            wrapped = ~zero & ((np.abs(estimate) > 1.5 * 2.0**63) | ((products < 0) != negative))
        bounds = np.iinfo(numbers.dtype)
        check_fits(wrapped | (products < bounds.min) | (products > bounds.max), self.type, self.where)
        return products

    def _stepwise(self, numbers: np.ndarray, starts: np.ndarray, retract: np.ndarray) -> np.ndarray:
        if pa.types.is_floating(self.type):
            with np.errstate(all="ignore"):
                return _by_steps(numbers.astype(np.float64), starts, retract, np.multiply, np.divide).astype(numbers.dtype)
        bounds = np.iinfo(numbers.dtype)
        times = self._checked(np.multiply, bounds.min, bounds.max)
        over = self._checked(lambda a, b: _truncated(a, self._divisors(b)), bounds.min, bounds.max)
        return _by_steps(numbers.astype(object), starts, retract, times, over)

    def _decimal_steps(self) -> tuple[Callable, Callable]:
        one, bound = 10**self.type.scale, 10**self.type.precision - 1
        times = self._checked(lambda a, b: _rounded(a * b, one), -bound, bound)
        return times, self._checked(lambda a, b: _rounded(a * one * np.sign(b), np.abs(self._divisors(b))), -bound, bound)

    def _checked(self, step: Callable, least: int, most: int) -> Callable:
        def checked(a: np.ndarray, b: np.ndarray) -> np.ndarray:
            result = step(a, b)
            check_fits((result < least) | (result > most), self.type, self.where)
            return result

        return checked

    def _divisors(self, numbers: np.ndarray) -> np.ndarray:
        if (numbers == 0).any():
            raise InvalidData(
                "a factor of zero cannot be retracted from a product",
                where=self.where,
                found="a row of kind -U or -D with 0",
                cure="set ignore-retract for the column, or write no zeros",
            )
        return numbers


def _by_steps(numbers: np.ndarray, starts: np.ndarray, retract: np.ndarray, times: Callable, over: Callable) -> np.ndarray:
    lengths = segments.lengths(starts, len(numbers))
    longest_first = np.argsort(-lengths, kind="stable")
    falling = -lengths[longest_first]
    state = numbers[starts]
    for step in range(1, int(lengths.max())):
        groups = longest_first[: np.searchsorted(falling, -step)]
        rows = starts[groups] + step
        for some, operation in ((retract[rows], over), (~retract[rows], times)):
            if some.any():
                state[groups[some]] = operation(state[groups[some]], numbers[rows[some]])
    return state


def _truncated(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.abs(a) // np.abs(b) * np.sign(a) * np.sign(b)


def _rounded(numerator: np.ndarray, denominator: np.ndarray | int) -> np.ndarray:
    """Rounds the quotient to the nearest integer, halves away from zero. `denominator` is positive."""
    return (np.abs(numerator) * 2 + denominator) // (denominator * 2) * np.sign(numerator)


def _unscaled(values: pa.Array) -> np.ndarray:
    """Returns decimals as Python integers: the value times ten to the power of the scale."""
    low = segments.fixed(values, "<u8")[::2].astype(object)
    return (segments.fixed(values, "<i8")[1::2].astype(object) << 64) + low
