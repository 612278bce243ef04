"""Decodes single values of Parquet data pages (version 1) of columns that are not nested: PLAIN, dictionary and delta encodings.

Arrow decodes whole column chunks; a point lookup needs one value of a page. The cost of a value does not depend on the number of
columns or pages, and hardly on the size of the page: fixed-width values are addressed directly, levels and dictionary codes are
found by their run, and only texts of different lengths are walked through from the first one.

The head of a page is in Thrift's compact protocol; this module decodes the parts that Parquet uses. A struct is a dict of
field id -> (type, value).

Source: https://parquet.apache.org/docs/file-format/data-pages/encodings/
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from struct import Struct as Layout
from struct import error as StructError
from struct import unpack_from
from typing import NamedTuple
from zlib import crc32

import numpy as np
import pyarrow as pa

_TRUE, _FALSE, _BYTE, _I16, _I32, _I64, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = range(1, 13)
_BOOLEANS, _INTEGERS = (_TRUE, _FALSE), (_I16, _I32, _I64)

Struct = dict[int, tuple[int, object]]


def read_struct(data: bytes, start: int = 0) -> tuple[Struct, int]:
    """Returns the struct that begins at `start`, and its end. Raises ValueError."""
    try:
        return _struct(data, start)
    except (IndexError, RecursionError) as broken:
        raise ValueError("not a Thrift struct") from broken


def _struct(data: bytes, at: int) -> tuple[Struct, int]:
    struct: Struct = {}
    last = 0
    while head := data[at]:
        at += 1
        kind, step = head & 15, head >> 4
        if step:
            last += step
        else:
            number, at = _varint(data, at)
            last = _signed(number)
        value, at = (kind == _TRUE, at) if kind in _BOOLEANS else _value(data, at, kind)
        struct[last] = kind, value
    return struct, at + 1


def _varint(data: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        byte = data[at]
        at += 1
        number |= (byte & 127) << shift
        if byte < 128:
            return number, at
        shift += 7


def _signed(number: int) -> int:
    return (number >> 1) ^ -(number & 1)


def _value(data: bytes, at: int, kind: int) -> tuple[object, int]:
    if kind in _INTEGERS:
        number, at = _varint(data, at)
        return _signed(number), at
    if kind == _BINARY:
        length, at = _varint(data, at)
        return data[at : at + length], at + length
    if kind == _STRUCT:
        return _struct(data, at)
    if kind in (_LIST, _SET):
        head = data[at]
        count, at = (head >> 4, at + 1) if head >> 4 < 15 else _varint(data, at + 1)
        items: list[object] = []
        for _ in range(count):
            item, at = (data[at] == _TRUE, at + 1) if head & 15 in _BOOLEANS else _value(data, at, head & 15)
            items.append(item)
        return (head & 15, items), at
    if kind == _BYTE:
        return data[at], at + 1
    if kind == _DOUBLE:
        return data[at : at + 8], at + 8
    raise ValueError(f"type {kind} of Thrift is not supported")


# -- pages ------------------------------------------------------------------------------------------------------------


_DATA, _DICTIONARY = 0, 2  # kinds of pages
_PLAIN, _PLAIN_DICTIONARY, _RLE, _RLE_DICTIONARY = 0, 2, 3, 8
_WIDTHS = {"INT32": Layout("<i"), "INT64": Layout("<q"), "FLOAT": Layout("<f"), "DOUBLE": Layout("<d")}
_BYTES, _FIXED, _BOOLEAN = "BYTE_ARRAY", "FIXED_LEN_BYTE_ARRAY", "BOOLEAN"
KINDS = frozenset((*_WIDTHS, _BYTES, _FIXED, _BOOLEAN))
"""The physical types that can be decoded."""
CODECS = {0: None, 1: "snappy", 6: "zstd", 7: "lz4_raw"}
"""Parquet's number of a codec -> Arrow's name, for the codecs of data files. Threads share a codec; Arrow's gzip is not among
them because it keeps a state."""
ENCODINGS = frozenset((_PLAIN, _PLAIN_DICTIONARY, _RLE, _RLE_DICTIONARY))


class PagedColumn(NamedTuple):
    """How the pages of a column chunk are stored. `kind`: the physical type; `width`: of FIXED_LEN_BYTE_ARRAY."""

    kind: str
    width: int
    optional: bool
    codec: pa.Codec | None


class PlainValues:
    """PLAIN values, addressed by number: the values of a dictionary, or the values of a data page that are not null."""

    def __init__(self, data: memoryview, column: PagedColumn, count: int) -> None:
        self.data, self.kind, self.count = data, column.kind, count
        self.layout = _WIDTHS.get(column.kind)
        self.step = self.layout.size if self.layout else column.width
        self.offsets: array | None = None
        if column.kind == _BYTES and not self._has_one_length():
            self.offsets = array("I", [0])

    def _has_one_length(self) -> bool:
        """Whether all texts have the length of the first; that length is then kept as `step`."""
        if not self.count:
            return True
        self.step = 4 + unpack_from("<I", self.data)[0]
        if self.step * self.count > len(self.data):
            return False
        lengths = np.ndarray((self.count,), "<u4", self.data, strides=(self.step,))
        return bool((lengths == self.step - 4).all())

    def __getitem__(self, number: int) -> int | float | bytes:
        if not 0 <= number < self.count:
            raise ValueError("a page has fewer values than rows")
        if self.layout is not None:
            return self.layout.unpack_from(self.data, number * self.step)[0]
        if self.kind == _BOOLEAN:
            return self.data[number >> 3] >> (number & 7) & 1
        if self.kind == _FIXED:
            return bytes(self.data[number * self.step : (number + 1) * self.step])
        start, stop = (self.step * number, self.step * (number + 1)) if self.offsets is None else self._text(number)
        if stop > len(self.data):
            raise ValueError("a text ends outside of its page")
        return bytes(self.data[start + 4 : stop])

    def _text(self, number: int) -> tuple[int, int]:
        """The start of a text (at its length prefix) and its end. Remembers the places of the texts before it."""
        offsets, data = self.offsets, self.data
        at = offsets[-1]
        for _ in range(len(offsets), number + 2):
            at += 4 + unpack_from("<I", data, at)[0]
            offsets.append(at)
        return offsets[number], offsets[number + 1]

    def whole(self) -> PlainValues:
        """Returns the same values with the places of all texts known, so that the size in memory does not change later."""
        if self.offsets is not None:
            self._text(self.count - 1)
        return self

    @property
    def bytes(self) -> int:
        return len(self.data) + (0 if self.offsets is None else 4 * len(self.offsets))


class _Runs:
    """`count` numbers of `width` bits in Parquet's hybrid of run lengths and bit packing, addressed by place. Reads the heads of
    the runs up to the place that is asked for."""

    def __init__(self, data: memoryview, at: int, end: int, width: int, count: int) -> None:
        self.data, self.at, self.end, self.width, self.count = data, at, end, width, count
        self.starts, self.runs = [0], []  # a run: the place of its bits, or None and the number that it repeats

    def _reach(self, place: int) -> None:
        """Finds the runs up to the one that holds a place."""
        data, at, width, start = self.data, self.at, self.width, self.starts[-1]
        while start <= place:
            if at >= self.end:
                raise ValueError("the levels or codes of a page are incomplete")
            head = shift = 0
            while True:
                byte = data[at]
                at += 1
                head |= (byte & 127) << shift
                if byte < 128:
                    break
                shift += 7
            if head & 1:
                self.runs.append((at, 0))
                at += (head >> 1) * width
                start += (head >> 1) * 8
            else:
                stop = at + (width + 7) // 8
                self.runs.append((None, int.from_bytes(data[at:stop], "little")))
                at = stop
                start += head >> 1
            self.starts.append(start)
        if at > self.end:
            raise ValueError("the levels or codes of a page are incomplete")
        self.at = at

    def __getitem__(self, place: int) -> int:
        if not 0 <= place < self.count:
            raise ValueError("a page has fewer levels or codes than rows")
        self._reach(place)
        run = bisect_right(self.starts, place) - 1
        at, value = self.runs[run]
        if at is None:
            return value
        bit = (place - self.starts[run]) * self.width
        first = at + (bit >> 3)
        word = int.from_bytes(self.data[first : first + 8], "little")
        return word >> (bit & 7) & ((1 << self.width) - 1)

    def ones_before(self, place: int) -> int:
        """How many of the numbers before a place are 1; for a `width` of 1."""
        self._reach(place - 1)
        ones = 0
        for (at, value), start, stop in zip(self.runs, self.starts, self.starts[1:], strict=False):
            length = min(place, stop) - start
            if length <= 0:
                break
            if at is None:
                ones += value * length
            else:
                bits = int.from_bytes(self.data[at : at + (length + 7) // 8], "little")
                ones += (bits & ((1 << length) - 1)).bit_count()
        return ones


class Page:
    """A data page: the physical value of each row (integer, float or bytes); None for null."""

    def __init__(self, stored: bytes, column: PagedColumn, dictionary: PlainValues | None, rows: int) -> None:
        header, body = _opened(stored, column)
        if header[1][1] != _DATA:
            raise ValueError("not a data page")
        about = header[5][1]
        self.rows, encoding, at = about[1][1], about[2][1], 0
        if self.rows != rows:
            raise ValueError(f"a page has {self.rows} rows, its index says {rows}")
        self.levels: _Runs | None = None
        valid = rows
        if column.optional:
            at = 4 + unpack_from("<I", body)[0]
            self.levels = _Runs(body, 4, at, 1, rows)
            valid = self.levels.ones_before(rows)
            if valid == rows:
                self.levels = None
        if encoding in (_PLAIN_DICTIONARY, _RLE_DICTIONARY):
            if dictionary is None:
                raise ValueError("a page has codes, but there is no dictionary")
            self.dictionary, self.codes = dictionary, _Runs(body, at + 1, len(body), body[at], valid) if valid else None
        elif encoding == _PLAIN:
            self.dictionary, self.codes = PlainValues(body[at:] if at else body, column, valid), None
        else:
            raise ValueError(f"a page has the encoding {encoding}")

    def __getitem__(self, row: int) -> int | float | bytes | None:
        if self.levels is not None:
            if not self.levels[row]:
                return None
            row = self.levels.ones_before(row)
        return self.dictionary[row if self.codes is None else self.codes[row]]


def dictionary(stored: bytes, column: PagedColumn) -> PlainValues:
    """Returns the values of a dictionary page. Raises ValueError."""
    header, body = _opened(stored, column)
    if header[1][1] != _DICTIONARY:
        raise ValueError("not a dictionary page")
    return PlainValues(body, column, header[7][1][1][1]).whole()


def _opened(stored: bytes, column: PagedColumn) -> tuple[Struct, memoryview]:
    """The header and the decompressed body of a page. Raises ValueError if its checksum is wrong."""
    header, at = read_struct(stored)
    size, length = header[2][1], header[3][1]
    if at + length != len(stored):
        raise ValueError("a page has another size than its index says")
    body = memoryview(stored)[at:]
    if 4 in header and crc32(body) != header[4][1] & 0xFFFFFFFF:
        raise ValueError("a page has a wrong checksum")
    if column.codec is not None:
        body = memoryview(column.codec.decompress(body, size)).cast("B")
    if len(body) != size:
        raise ValueError("a page has another size after decompression")
    return header, body


DAMAGES = KeyError, IndexError, TypeError, ValueError, OverflowError, StructError
"""The exceptions that decoding damaged bytes can raise."""
