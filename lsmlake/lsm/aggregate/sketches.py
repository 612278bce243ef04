"""hll_sketch and theta_sketch: unions of Apache DataSketches as their serialised bytes.

All DataSketches libraries use this byte format, including Paimon and Spark. The results of `hll_sketch_agg`, `hll_union_agg`,
`theta_sketch_agg` and `theta_union_agg` can be written to such a column; `hll_sketch_estimate`, `theta_sketch_estimate` and the
union functions read its values.

As in Paimon, a union of HLL sketches is a compact HLL_4 sketch (smaller than Spark's HLL_8) with the lowest precision of its
inputs, and a union of theta sketches keeps 4,096 entries. Theta sketches must have the default seed.

The DataSketches library does not check the content of an HLL sketch: forged bytes make it write outside its memory. `_check_hll`
checks the layout first (https://datasketches.apache.org, "HLL Sketch Preamble"). It also checks the result of the library, so a
writer refuses bytes whose union could not be merged again.
"""

from __future__ import annotations

from types import ModuleType

import numpy as np

from lsmlake.extras import need

KIND_HLL = "serialised HLL sketches of Apache DataSketches"
KIND_THETA = "serialised theta sketches of Apache DataSketches"
_THETA_ENTRIES_LOG2 = 12

_LIST, _SET, _HLL = range(3)
_HLL_4, _HLL_6, _HLL_8 = range(3)
_PREAMBLE_INTS = {_LIST: 2, _SET: 3, _HLL: 10}
_EMPTY, _COMPACT = 4, 8
_SLOT_BITS = 26
_EXCEPTION = 15  # HLL_4: the value of the slot is in the table after the array
_VALUE_MAX = 63  # a slot has six bits


def unite_hll(parts: list[bytes]) -> bytes:
    """Raises ValueError, IndexError or RuntimeError if the bytes or their union are not a valid HLL sketch."""
    for part in parts:
        _check_hll(part)
    library = _library()
    sketches = [library.hll_sketch.deserialize(part) for part in parts]
    union = library.hll_union(min(sketch.lg_config_k for sketch in sketches))
    for sketch in sketches:
        union.update(sketch)
    united = union.get_result(library.tgt_hll_type.HLL_4).serialize_compact()
    _check_hll(united)
    return united


def _check_hll(data: bytes) -> None:
    """Raises ValueError unless all counts and slot numbers of a serialised HLL sketch are within its bounds."""
    if len(data) < 8:
        raise ValueError(f"{len(data)} bytes, at least 8 expected")
    preamble, version, family, log_slots, log_room, flags, count, modes = data[:8]
    mode, kind = modes & 3, modes >> 2 & 3
    if version != 1 or family != 7 or not 4 <= log_slots <= 21 or _PREAMBLE_INTS.get(mode) != preamble or kind > _HLL_8:
        raise ValueError("not the preamble of an HLL sketch")
    if mode == _HLL:
        _check_slots(data, 1 << log_slots, kind, bool(flags & _COMPACT))
        return
    if mode == _SET and len(data) < 12:
        raise ValueError("the set is truncated")
    start = 8 if mode == _LIST else 12
    count = count if mode == _LIST else int.from_bytes(data[8:12], "little")
    room = 3 if mode == _LIST else log_room  # logarithm
    if not (room == 3 if mode == _LIST else 5 <= room <= max(5, log_slots - 3)) or count > 1 << room:
        raise ValueError(f"{count} entries, which do not fit")
    if bool(flags & _EMPTY) != (count == 0):
        raise ValueError("the flag for empty contradicts the count")
    entries = _entries(data, start, count if flags & _COMPACT else 1 << room)
    given = entries[entries != 0]
    if mode == _LIST and not entries[:count].all():
        raise ValueError("the list has a gap")
    if len(given) != count or len(np.unique(given)) != count or (given >> _SLOT_BITS == 0).any():
        raise ValueError("the entries contradict their count, or one is impossible")
    if mode == _SET and not flags & _COMPACT:
        _check_probes(entries, room)


def _check_probes(table: np.ndarray, room: int) -> None:
    """Raises ValueError unless the library can find each entry in its hash table of 2^`room` entries. The library copies the
    table unchanged; an entry that it cannot find would be added again."""
    homes = np.flatnonzero(table)
    entries = table[homes].astype(np.int64)
    strides = (entries & (1 << _SLOT_BITS) - 1) >> room | 1
    places = entries & len(table) - 1
    while len(looking := np.flatnonzero(places != homes)):
        homes, strides, places = homes[looking], strides[looking], places[looking]
        if not table[places].all():
            raise ValueError("an entry is at the wrong place of the hash table")
        places = places + strides & len(table) - 1


def _check_slots(data: bytes, slots: int, kind: int, compact: bool) -> None:
    length = {_HLL_4: slots // 2, _HLL_6: slots * 3 // 4 + 1, _HLL_8: slots}[kind]
    if len(data) < 40 + length:
        raise ValueError(f"{len(data)} bytes, at least {40 + length} expected")
    least, at_least, exceptions = data[6], *(int.from_bytes(data[at : at + 4], "little") for at in (32, 36))
    array = np.frombuffer(data, np.uint8, length, 40)
    if least > _VALUE_MAX or (kind != _HLL_4 and (least or exceptions)):
        raise ValueError("an impossible least value or number of exceptions")
    if kind == _HLL_8 and array.max() > _VALUE_MAX:
        raise ValueError("a slot has an impossible value")
    if kind != _HLL_4:
        return
    values = np.stack([array & 15, array >> 4], axis=1).ravel()
    if at_least != np.count_nonzero(values == 0) or exceptions != np.count_nonzero(values == _EXCEPTION):
        raise ValueError("the slots contradict their counts")
    if not exceptions:
        return
    if not compact and not 1 <= data[4] <= 26:
        raise ValueError("an impossible size of the table of exceptions")
    entries = _entries(data, 40 + length, exceptions if compact else 1 << data[4])
    entries = entries[entries != 0]
    places = np.unique(entries & (1 << _SLOT_BITS) - 1)
    if len(entries) != exceptions or len(places) != exceptions or places[-1] >= slots or (values[places] != _EXCEPTION).any():
        raise ValueError("the exceptions contradict the slots")
    if ((entries >> _SLOT_BITS) < least + _EXCEPTION).any():
        raise ValueError("an exception has an impossible value")


def _entries(data: bytes, start: int, count: int) -> np.ndarray:
    if len(data) < start + 4 * count:
        raise ValueError(f"{len(data)} bytes, at least {start + 4 * count} expected")
    return np.frombuffer(data, "<u4", count, start)


def unite_theta(parts: list[bytes]) -> bytes:
    library = _library()
    union = library.theta_union(_THETA_ENTRIES_LOG2)
    for part in parts:
        union.update(library.compact_theta_sketch.deserialize(part))
    return union.get_result().serialize()


def _library() -> ModuleType:
    return need("datasketches", "merging sketches")
