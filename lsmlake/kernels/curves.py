"""Space-filling curves: numbers along the Z-order or the Hilbert curve through points, so that near points get near numbers.

Sources: Morton order (interleaved bits); J. Skilling, "Programming the Hilbert curve", 2004.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

_CODE_BITS = 63


def bits_of(columns: int) -> int:
    """Bits per coordinate of a point with so many coordinates, so that a number fits into an int64."""
    return max(1, min(16, _CODE_BITS // columns))


def zorder(points: Sequence[np.ndarray], bits: int) -> np.ndarray:
    """Returns the number of each point on the Z-order curve: the bits of its coordinates, interleaved, as int64.

    `points`: one array per coordinate, integers from 0 to 2^bits - 1.
    """
    codes = np.zeros(len(points[0]), np.int64)
    for bit in range(bits - 1, -1, -1):
        for coordinate in points:
            codes = (codes << 1) | ((coordinate >> bit) & 1)
    return codes


def hilbert(points: Sequence[np.ndarray], bits: int) -> np.ndarray:
    """Returns the number of each point on the Hilbert curve, as int64. Neighbours on the curve are neighbours in space. `points`:
    as for `zorder`."""
    x = [np.asarray(coordinate, np.int64).copy() for coordinate in points]
    for bit in range(bits - 1, 0, -1):  # undo the rotations and reflections of the curve, from the coarsest cube inwards
        low = (1 << bit) - 1
        for i in range(len(x)):
            inverted = (x[i] >> bit) & 1 == 1
            exchanged = (x[0] ^ x[i]) & low
            x[0] = np.where(inverted, x[0] ^ low, x[0] ^ exchanged)
            x[i] = np.where(inverted, x[i], x[i] ^ exchanged)
    for i in range(1, len(x)):  # Gray code
        x[i] = x[i] ^ x[i - 1]
    turned = np.zeros(len(x[0]), np.int64)
    for bit in range(bits - 1, 0, -1):
        turned = np.where((x[-1] >> bit) & 1 == 1, turned ^ ((1 << bit) - 1), turned)
    return zorder([coordinate ^ turned for coordinate in x], bits)
