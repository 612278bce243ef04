"""Values as numbers: equal values of one array get equal numbers, and if the type has an order, numbers can have it too.

Whatever the type: a plain array is its dictionary indices; a struct is the bytes of its children's numbers laid side by side, a
list the bytes of its elements' numbers one after the other, a map the same with its entries sorted; bytes have a dictionary.
Numbers of different calls do not compare. NaN equals NaN and 0.0 equals -0.0, as in Spark.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lsmlake.kernels import segments


def equality(values: pa.Array) -> np.ndarray:
    """int64 a row, the same for equal values; -1 for null. O(rows), nested values by their elements."""
    if pa.types.is_struct(values.type):
        children = [equality(values.field(i)) for i in range(values.type.num_fields)]
        rows = np.stack(children, axis=1).astype("<i8")
        numbers = _dictionary(_bytes(np.arange(len(values) + 1) * rows.shape[1], rows))[0]
    elif pa.types.is_list(values.type) or pa.types.is_map(values.type):
        elements, lengths = items(values)
        numbers = equality(elements).astype("<i8")
        if pa.types.is_map(values.type):  # its entries have no order
            numbers = numbers[np.lexsort((numbers, np.repeat(np.arange(len(values)), lengths)))]
        numbers = _dictionary(_bytes(np.concatenate([[0], np.cumsum(lengths)]), numbers))[0]
    else:
        return _dictionary(values)[0]
    present = segments.valid(values)
    return numbers if present is None else np.where(present, numbers, -1)


def order(values: pa.Array) -> np.ndarray:
    """int64 a row, ordered as the values are; -1 for null, which so comes first; NaN is the greatest float. Text and bytes order
    by bytes. Not for nested types. O(rows + distinct log distinct)."""
    numbers, distinct = _dictionary(values)
    ranks = np.empty(len(distinct) + 1, np.int64)
    ranks[pc.array_sort_indices(distinct).to_numpy()] = np.arange(len(distinct))
    ranks[-1] = -1
    return ranks[numbers]


def items(values: pa.Array) -> tuple[pa.Array, np.ndarray]:
    """The elements of all lists (of maps: structs of key and value) one after the other, and how many each row has; a null has
    none."""
    offsets = values.offsets.to_numpy().astype(np.int64)
    lengths, present = np.diff(offsets), segments.valid(values)
    if present is None or not lengths[~present].any():
        return values.values.slice(offsets[0], offsets[-1] - offsets[0]), lengths
    shown = np.repeat(present, lengths)
    elements = values.values.slice(offsets[0], offsets[-1] - offsets[0]).filter(pa.array(shown))
    return elements, np.where(present, lengths, 0)


def joint(major: np.ndarray, minor: np.ndarray) -> np.ndarray:
    """One number for a pair, ordered by `major`, then `minor`; both below 2^31, `minor` from -1 up."""
    return major * (minor.max(initial=-1) + 2) + (minor + 1)


def _dictionary(values: pa.Array) -> tuple[np.ndarray, pa.Array]:
    if pa.types.is_floating(values.type):
        values = pc.add(values, pa.scalar(0, values.type))  # -0.0 + 0 is 0.0
    encoded = values.dictionary_encode()
    return encoded.indices.fill_null(-1).to_numpy().astype(np.int64), encoded.dictionary


def _bytes(borders: np.ndarray, numbers: np.ndarray) -> pa.Array:
    """A byte string a row: `numbers` from one border to the next."""
    offsets = (borders * 8).astype(np.int64)
    return pa.Array.from_buffers(
        pa.large_binary(), len(offsets) - 1, [None, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(numbers))]
    )
