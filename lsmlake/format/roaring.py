"""Checks the bytes of a portable 64-bit roaring bitmap before the C++ library reads them, because it checks very little.

The bytes are the number of 32-bit bitmaps, then the key and the bytes of each bitmap. A 32-bit bitmap is

1. a cookie and the number of containers, with one flag per container if any container holds runs;
2. the key and the cardinality less one of each container, 16 bits each;
3. the offset of each container, 32 bits each; omitted if there are runs and fewer than 4 containers;
4. the containers: an array of ascending values, 8192 bytes with one bit per value, or runs of (first value, length less one).

Everything is little-endian. Source: https://github.com/RoaringBitmap/RoaringFormatSpec
"""

from __future__ import annotations

from struct import Struct
from typing import NamedTuple

import numpy as np

_PLAIN, _WITH_RUNS = 12346, 12347  # cookies
_KEY_MAX = (1 << 31) - 1  # the greatest key of a 32-bit bitmap: positions are less than 2^63
_CONTAINERS_MAX = 1 << 16
_ARRAY_MAX = 4096  # values
_BITMAP_BYTES = 8192
_ONE_ARRAY = Struct("<QIIIHHI")  # what comes before the values of a bitmap with one container
_ONE_ARRAY_PLACE = _ONE_ARRAY.size - 12  # of the values, in the 32-bit bitmap
_PLACES_FROM = 4  # containers: smaller bitmaps with runs have no offsets
_ONES = np.unpackbits(np.arange(256, dtype=np.uint8)).reshape(-1, 8).sum(axis=1, dtype=np.uint8)  # set bits of each byte


class Malformed(ValueError):
    """The bytes are not a bitmap; the message says why."""


class _Containers(NamedTuple):
    """The cardinality of each container of a 32-bit bitmap, whether it holds runs, and its offset."""

    cardinalities: np.ndarray
    runs: np.ndarray
    places: np.ndarray


def check(data: memoryview) -> None:
    """Raises Malformed unless `data` is exactly one 64-bit bitmap. O(bytes) time and memory."""
    if _is_one_array(data):
        return
    (count,), at, last = _numbers(data, 0, 1, "<u8"), 8, -1
    for _ in range(count):
        ((key,), at) = _numbers(data, at, 1, "<u4"), at + 4
        _require(last < key <= _KEY_MAX, f"key {key} of a 32-bit bitmap after key {last}")
        at, last = _check_bitmap(data, at), int(key)
    _require(at == len(data), f"{len(data) - at} bytes past its bitmap")


def _is_one_array(data: memoryview) -> bool:
    """Whether `data` is one 64-bit bitmap with a single container that holds an array, as most vectors of small files. A tenth of
    the time of the whole check."""
    if not _ONE_ARRAY.size < len(data) <= _ONE_ARRAY.size + 2 * _ARRAY_MAX:
        return False
    bitmaps, key, cookie, containers, _, less_one, place = _ONE_ARRAY.unpack_from(data)
    if (bitmaps, cookie, containers, place) != (1, _PLAIN, 1, _ONE_ARRAY_PLACE) or key > _KEY_MAX:
        return False
    values = np.frombuffer(data, "<u2", offset=_ONE_ARRAY.size) if len(data) % 2 == 0 else ()
    return len(values) == less_one + 1 and bool((values[1:] > values[:-1]).all())


def _check_bitmap(data: memoryview, start: int) -> int:
    """Checks the 32-bit bitmap that begins at `start`; returns its end."""
    containers, at = _containers(data, start)
    if not len(containers.cardinalities):
        return at
    arrays = ~containers.runs & (containers.cardinalities <= _ARRAY_MAX)
    sizes = np.where(arrays, containers.cardinalities * 2, _BITMAP_BYTES)
    for number in np.flatnonzero(containers.runs) if len(containers.places) == 0 else ():  # at most 3, stored one after another
        (runs,) = _numbers(data, at + int(sizes[:number].sum()), 1, "<u2")
        sizes[number] = 2 + 4 * int(runs)
    if len(containers.places):
        sizes[containers.runs] = _run_sizes(data, start + containers.places[containers.runs])
        expected = at - start + np.cumsum(sizes) - sizes
        _require(np.array_equal(containers.places, expected), "containers that are not stored one after another")
    words = _numbers(data, at, int(sizes.sum()) // 2, "<u2")
    _check_values(words.astype(np.int32), sizes // 2, containers, arrays)
    return at + 2 * len(words)


def _containers(data: memoryview, start: int) -> tuple[_Containers, int]:
    """Reads the header of the 32-bit bitmap at `start`; returns it and its end."""
    (cookie,), at = _numbers(data, start, 1, "<u4"), start + 4
    if cookie & 0xFFFF == _WITH_RUNS:
        count = (int(cookie) >> 16) + 1
        flags = _numbers(data, at, -(-count // 8), "u1")
        runs, at = np.unpackbits(flags, count=count, bitorder="little").astype(bool), at + len(flags)
    else:
        _require(cookie == _PLAIN, f"cookie {cookie}")
        count, at = int(_numbers(data, at, 1, "<u4")[0]), at + 4
        _require(count <= _CONTAINERS_MAX, f"{count} containers")
        runs = np.zeros(count, bool)
    pairs, at = _numbers(data, at, 2 * count, "<u2").astype(np.int64), at + 4 * count
    _require((np.diff(pairs[::2]) > 0).all(), "container keys that do not ascend")
    placed = count if cookie == _PLAIN or count >= _PLACES_FROM else 0
    places = _numbers(data, at, placed, "<u4").astype(np.int64)
    return _Containers(pairs[1::2] + 1, runs, places), at + 4 * placed


def _run_sizes(data: memoryview, places: np.ndarray) -> np.ndarray:
    """Returns the sizes of the run containers that begin at `places`; their first two bytes hold the number of runs."""
    _require((places <= len(data) - 2).all(), "a container past the end of the bytes")
    whole = np.frombuffer(data, np.uint8)
    return 2 + 4 * (whole[places].astype(np.int64) + (whole[places + 1].astype(np.int64) << 8))


def _check_values(words: np.ndarray, lengths: np.ndarray, containers: _Containers, arrays: np.ndarray) -> None:
    """Checks the content of all containers. `words`: the containers as 16-bit numbers; `lengths`: words per container."""
    begins = np.zeros(len(words), bool)
    begins[np.cumsum(lengths) - lengths] = True
    in_array, in_runs = np.repeat(arrays, lengths), np.repeat(containers.runs, lengths)
    ascending = (words[1:] > words[:-1]) | begins[1:] | ~in_array[1:]
    _require(ascending.all(), "positions that do not ascend")

    bitmaps = words[~in_array & ~in_runs].astype("<u2").view(np.uint8).reshape(-1, _BITMAP_BYTES)
    ones = _ONES[bitmaps].sum(axis=1, dtype=np.int64)
    _require(np.array_equal(ones, containers.cardinalities[~arrays & ~containers.runs]), "a bitmap with a wrong cardinality")

    counts = words[begins & in_runs]
    _require((counts > 0).all(), "a run container without runs")
    firsts, extra = words[in_runs & ~begins].reshape(-1, 2).T
    owners = np.repeat(np.arange(len(counts)), counts)
    apart = (firsts[1:] > (firsts + extra)[:-1] + 1) | (owners[1:] != owners[:-1])
    _require(apart.all() and (firsts + extra < 1 << 16).all(), "runs that do not ascend")
    sums = np.bincount(owners, extra + 1, len(counts)).astype(np.int64)
    _require(np.array_equal(sums, containers.cardinalities[containers.runs]), "runs with a wrong cardinality")


def _numbers(data: memoryview, at: int, count: int, type_: str) -> np.ndarray:
    size = count * np.dtype(type_).itemsize
    _require(at + size <= len(data), f"{len(data)} bytes, where at least {at + size} are needed")
    return np.frombuffer(data, type_, count, at)


def _require(holds: bool, otherwise: str) -> None:
    if not holds:
        raise Malformed(otherwise)
