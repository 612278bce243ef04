"""Encodes the values of an array as numbers: equal values get equal numbers; for sortable types the numbers can be ordered.

A plain array is encoded as its dictionary indices. A struct, a list and a map (entries sorted) are first encoded as a byte string
of the numbers of their children. Numbers of different calls are not comparable.

There are two notions of equal floats; in both NaN equals NaN. In `equality` and `order`, as in Spark's comparisons, 0.0 equals
-0.0. In `identity`, which tells whether a row was changed, they are two values.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lsmlake.kernels import segments


def equality(values: pa.Array) -> np.ndarray:
    """Returns one int64 per row, equal for equal values; -1 for null. O(rows), nested values: O(elements)."""
    return _codes(values, _one_zero)


def identity(values: pa.Array) -> np.ndarray:
    """As `equality`, but 0.0 and -0.0 differ."""
    return _codes(values, _bits)


def same(one: pa.Array, other: pa.Array) -> np.ndarray:
    """Flags the rows in which two arrays of one type have equal values, as in `identity`; null equals null."""
    if pa.types.is_nested(one.type) or pa.types.is_dictionary(one.type) or pa.types.is_null(one.type):
        numbers = identity(pa.concat_arrays([one, other]))
        return numbers[: len(one)] == numbers[len(one) :]
    if pa.types.is_floating(one.type):
        one, other = _bits(one), _bits(other)
    equal = pc.equal(one, other)
    if equal.null_count:
        equal = pc.fill_null(equal, False)
        return equal.to_numpy(zero_copy_only=False) | pc.and_(one.is_null(), other.is_null()).to_numpy(zero_copy_only=False)
    return equal.to_numpy(zero_copy_only=False)


def _codes(values: pa.Array, leaf: Callable[[pa.Array], pa.Array]) -> np.ndarray:
    """Encodes values as numbers. `leaf`: gives equal floats equal bits."""
    if pa.types.is_struct(values.type):
        children = [_codes(values.field(i), leaf) for i in range(values.type.num_fields)]
        rows = np.stack(children, axis=1).astype("<i8")
        numbers = _dictionary(_bytes(np.arange(len(values) + 1) * rows.shape[1], rows))[0]
    elif pa.types.is_list(values.type) or pa.types.is_map(values.type):
        elements, lengths = items(values)
        numbers = _codes(elements, leaf).astype("<i8")
        if pa.types.is_map(values.type):  # the order of its entries is irrelevant
            numbers = numbers[np.lexsort((numbers, np.repeat(np.arange(len(values)), lengths)))]
        numbers = _dictionary(_bytes(np.concatenate([[0], np.cumsum(lengths)]), numbers))[0]
    else:
        return _dictionary(leaf(values) if pa.types.is_floating(values.type) else values)[0]
    present = segments.valid(values)
    return numbers if present is None else np.where(present, numbers, -1)


def order(values: pa.Array) -> np.ndarray:
    """Returns one int64 per row, ordered like the values: -1 for null, NaN is the greatest float, text and bytes by bytes. Nested
    types are not supported. O(rows + distinct log distinct)."""
    numbers, distinct = _dictionary(_one_zero(values) if pa.types.is_floating(values.type) else values)
    ranks = np.empty(len(distinct) + 1, np.int64)
    ranks[pc.array_sort_indices(distinct).to_numpy()] = np.arange(len(distinct))
    ranks[-1] = -1
    return ranks[numbers]


def items(values: pa.Array) -> tuple[pa.Array, np.ndarray]:
    """Returns the elements of all lists (or map entries as structs), and the number of elements per row; 0 for null."""
    offsets = values.offsets.to_numpy().astype(np.int64)
    lengths, present = np.diff(offsets), segments.valid(values)
    if present is None or not lengths[~present].any():
        return values.values.slice(offsets[0], offsets[-1] - offsets[0]), lengths
    shown = np.repeat(present, lengths)
    elements = values.values.slice(offsets[0], offsets[-1] - offsets[0]).filter(pa.array(shown))
    return elements, np.where(present, lengths, 0)


def joint(major: np.ndarray, minor: np.ndarray) -> np.ndarray:
    """Encodes pairs as numbers, ordered by `major`, then `minor`; both are less than 2^31, `minor` at least -1."""
    return major * (minor.max(initial=-1) + 2) + (minor + 1)


def _one_zero(floats: pa.Array) -> pa.Array:
    return pc.add(floats, pa.scalar(0, floats.type))  # -0.0 + 0 is 0.0


def _bits(floats: pa.Array) -> pa.Array:
    """The bits of each float, as an integer; all NaNs have the same bits."""
    one_nan = pc.if_else(pc.is_nan(floats), pa.scalar(math.nan, floats.type), floats)
    return one_nan.view(pa.int32() if pa.types.is_float32(floats.type) else pa.int64())


def _dictionary(values: pa.Array) -> tuple[np.ndarray, pa.Array]:
    encoded = values.dictionary_encode()
    return encoded.indices.fill_null(-1).to_numpy().astype(np.int64), encoded.dictionary


def _bytes(borders: np.ndarray, numbers: np.ndarray) -> pa.Array:
    """Returns one byte string per row: the `numbers` between two borders."""
    offsets = (borders * 8).astype(np.int64)
    return pa.Array.from_buffers(
        pa.large_binary(), len(offsets) - 1, [None, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(numbers))]
    )
