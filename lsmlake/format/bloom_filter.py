"""A Bloom filter of the values of a column in a data file: it tells for most absent values that they are absent.

It has the hashes (`kernels.value_hash`) of the values that are not null. Probe i of a hash h is the upper half of
h + i * (mix(h) | 1) mod 2^64, times the number of bits, divided by 2^32. Bit b is bit 7 - b mod 8 of byte b // 8.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from lsmlake.kernels.value_hash import mix
from lsmlake.types.json_shape import TEXT, JsonKind

_PROBES_MAX = 64
_BYTES_MAX = 1 << 28
_VALUES_AT_ONCE = 1 << 18
_ASKED_AT_ONCE = 1 << 14
FIELDS = {
    "family": TEXT,
    "probes": JsonKind(f"1 to {_PROBES_MAX}", lambda v: type(v) is int and 1 <= v <= _PROBES_MAX),
    "bits": JsonKind(f"1 to {_BYTES_MAX} bytes", lambda v: isinstance(v, bytes) and 1 <= len(v) <= _BYTES_MAX),
}
"""The fields of a filter and what they hold."""


class BloomFilter(NamedTuple):
    """A set of values of the types of a `family`, with false positives and without false negatives."""

    family: str
    probes: int
    bits: bytes

    @staticmethod
    def of(family: str, hashes: np.ndarray, rate: float) -> BloomFilter:
        """The filter of values with these distinct hashes, that takes the share `rate` of absent values for present."""
        count = max(1, len(hashes))
        size = min(_BYTES_MAX, max(1, math.ceil(count * -math.log(rate) / math.log(2) ** 2 / 8)))
        probes = min(_PROBES_MAX, max(1, round(8 * size / count * math.log(2))))
        flags = np.zeros(8 * size, bool)
        for start in range(0, len(hashes), _VALUES_AT_ONCE):
            some = hashes[start : start + _VALUES_AT_ONCE]
            steps = _steps(some)
            for probe in range(probes):
                flags[_bits(some + np.uint64(probe) * steps, 8 * size)] = True
        return BloomFilter(family, probes, np.packbits(flags).tobytes())

    def may_hold(self, hashes: np.ndarray) -> np.ndarray:
        """Flags the values; False: certainly not in the set."""
        flags = np.zeros(len(hashes), bool)
        flags[self._left(self._flags(), hashes)] = True
        return flags

    def may_hold_one(self, hashes: np.ndarray) -> bool:
        """False: certainly none of the values is in the set. Stops at the first values that may be in it."""
        flags, starts = self._flags(), range(0, len(hashes), _ASKED_AT_ONCE)
        return any(len(self._left(flags, hashes[start : start + _ASKED_AT_ONCE])) for start in starts)

    def _flags(self) -> np.ndarray:
        return np.unpackbits(np.frombuffer(self.bits, np.uint8)).view(bool)

    def _left(self, flags: np.ndarray, hashes: np.ndarray) -> np.ndarray:
        """The places of the values that may be in the set. Half of the absent ones drop out with each probe."""
        left, words, steps = np.arange(len(hashes)), hashes, None
        for _ in range(self.probes):
            kept = np.flatnonzero(flags[_bits(words, len(flags))])
            left, steps = left[kept], _steps(hashes[kept]) if steps is None else steps[kept]
            words = words[kept] + steps
        return left


def _steps(hashes: np.ndarray) -> np.ndarray:
    return mix(hashes) | np.uint64(1)


def _bits(words: np.ndarray, size: int) -> np.ndarray:
    """The bits of the words of a probe."""
    return ((words >> np.uint64(32)) * np.uint64(size)) >> np.uint64(32)
