"""Copies of rows in blocks by the hash of the key: a lookup reads one block of a few kilobytes, and decodes one row of it.

A copy belongs to the cache on disk, not to the table. It is made again when it is lost; another version of this layout has other
names in the cache.

1. The rows are in the order of the hash of their key columns (`kernels.bucket_hash`, as an unsigned number). Of n blocks, block
   (hash * n) >> 32 holds a row. A block without rows takes no bytes.
2. A block is a CRC-32 of the rest, the number of its rows, their hashes, their records and their texts. The CRC-32 starts with
   a number that belongs to the copy, so a block of another copy has a wrong one.
3. A record is the position of the row in the source, the place of its texts among the texts of the block, a bit for each column
   that is null, and the columns: numbers in their width, dates and times as integers, texts as their length.
4. After the blocks come the n + 1 places where they begin and end, a filter, n, the bytes of the filter, and a CRC-32 of all
   these. Of m bits of the filter, bit (hash * m) >> 32 is set for each row: eight bits per row, none if rows are many, since a
   reader keeps places and filter in memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct as Layout
from struct import error as StructError
from struct import pack, unpack_from
from typing import NamedTuple
from zlib import crc32

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lsmlake.kernels.bucket_hash import spark_hash
from lsmlake.kernels.keys import fixed_width
from lsmlake.types.python_values import made_of
from lsmlake.types.type_table import is_bytes, is_text

VERSION = 1
_END = Layout("<III")
END_BYTES = _END.size
"""The bytes after the filter."""
_FILTERED_ROWS_MAX = 1 << 16
_BLOCK_BYTES = 2_048  # on average, unless rows are long
_PLACE = 4
_HEAD = Layout("<II")
_INTEGERS = {1: "b", 2: "h", 4: "i", 8: "q"}
_FLOATS = {4: "f", 8: "d"}


class CopiedRow(NamedTuple):
    """A row: its position in the source, and the values of its columns, as PyArrow gives them to Python."""

    position: int
    values: tuple


class BlockPlaces(NamedTuple):
    """Where the blocks of a copy are, and its filter, which may be empty."""

    ends: bytes
    blocks: int
    filter: bytes

    @property
    def bytes(self) -> int:
        return len(self.ends) + len(self.filter)

    def may_hold(self, hash_: int) -> bool:
        """Whether there can be a row with a hash."""
        bit = hash_ * 8 * len(self.filter) >> 32
        return not self.filter or bool(self.filter[bit >> 3] >> (bit & 7) & 1)

    def of(self, hash_: int) -> tuple[int, int]:
        """The start and the end of the block of a hash."""
        return unpack_from("<II", self.ends, _PLACE * (hash_ * self.blocks >> 32))


class RowForm:
    """How rows of some columns are stored. `columns`: none of them is nested."""

    def __init__(self, columns: pa.Schema) -> None:
        self.columns = columns
        codes, nulls = [_code(field.type) for field in columns], -(-len(columns) // 8)
        self._record = Layout(f"<II{nulls}s{''.join(codes)}")
        self._dtype = np.dtype([("position", "<u4"), ("texts", "<u4"), ("nulls", "u1", nulls), *_members(columns)])
        assert self._dtype.itemsize == self._record.size, columns
        self._texts = [(number, is_text(field.type)) for number, field in enumerate(columns) if _is_text(field.type)]
        self._others = [(number, made) for number, field in enumerate(columns) if (made := made_of(field.type)) is not None]

    def encode(self, rows: pa.Table, keys: Sequence[str], start: int) -> bytes:
        """A copy of rows. `keys`: the key columns; `start`: the start of the checksums."""
        hashes = spark_hash([rows[name] for name in keys]).view(np.uint32)
        order = np.argsort(hashes, kind="stable")
        hashes, rows = hashes[order], rows.take(pa.array(order))
        texts, data = self._joined_texts(rows)
        records = self._records(rows, order)
        blocks = max(1, (records.nbytes + len(data)) // _BLOCK_BYTES)
        firsts = np.searchsorted(hashes.astype(np.uint64) * np.uint64(blocks) >> np.uint64(32), np.arange(blocks + 1))
        records["texts"] = texts[:-1] - np.repeat(texts[firsts[:-1]], np.diff(firsts))
        stored, numbers = memoryview(records.tobytes()), memoryview(hashes.astype("<u4").tobytes())
        parts, ends, size = [], [0], self._record.size
        bounds, places = firsts.tolist(), texts[firsts].tolist()
        for first, last, text, stop in zip(bounds, bounds[1:], places, places[1:], strict=False):
            if first < last:
                body = b"".join((
                    pack("<I", last - first),
                    numbers[4 * first : 4 * last],
                    stored[size * first : size * last],
                    data[text:stop],
                ))  # fmt: skip
                parts += [pack("<I", crc32(body, start)), body]
                ends.append(ends[-1] + 4 + len(body))
            else:
                ends.append(ends[-1])
        filter_ = _filter(hashes)
        ending = np.array(ends, "<u4").tobytes() + filter_ + pack("<II", blocks, len(filter_))
        return b"".join([*parts, ending, pack("<I", crc32(ending, start))])

    def _joined_texts(self, rows: pa.Table) -> tuple[np.ndarray, memoryview]:
        """The texts of each row, joined: where they begin and end, and their bytes."""
        if not self._texts or not rows.num_rows:
            return np.zeros(rows.num_rows + 1, np.int64), memoryview(b"")
        columns = [rows.column(number).cast(pa.large_binary()) for number, _ in self._texts]
        separator = pa.scalar(b"", pa.large_binary())
        joined = pc.binary_join_element_wise(*columns, separator, null_handling="replace", null_replacement="")
        joined = pa.concat_arrays(joined.chunks) if joined.num_chunks != 1 else joined.chunk(0)
        _, ends, data = joined.buffers()
        return np.frombuffer(ends, np.int64, len(joined) + 1, 8 * joined.offset), memoryview(data or b"")

    def _records(self, rows: pa.Table, positions: np.ndarray) -> np.ndarray:
        records = np.zeros(rows.num_rows, self._dtype)
        records["position"] = positions
        missing = np.column_stack([np.asarray(column.is_null()) for column in rows.columns])
        records["nulls"] = np.packbits(missing, axis=1, bitorder="little")
        for (name, *_), column in zip(_members(self.columns), rows.columns, strict=True):
            if _is_text(column.type):
                records[name] = pc.fill_null(pc.binary_length(column), 0).to_numpy()
            elif pa.types.is_boolean(column.type):
                records[name] = pc.fill_null(column, False).to_numpy()
            else:
                records[name] = fixed_width(column, self._dtype[name].str)
        return records

    def find(self, block: bytes, hash_: int, start: int) -> list[CopiedRow]:
        """The rows of a block with a hash. Raises ValueError if the block is damaged."""
        if len(block) < _HEAD.size:
            raise ValueError("not a block")
        checksum, count = _HEAD.unpack_from(block)
        if crc32(memoryview(block)[4:], start) != checksum:
            raise ValueError("a block has a wrong checksum")
        hashes = unpack_from(f"<{count}I", block, _HEAD.size)
        if hash_ not in hashes:
            return []
        size, records = self._record.size, _HEAD.size + 4 * count
        first = hashes.index(hash_)
        same = range(first, first + hashes.count(hash_))  # they are in the order of the hash
        return [self._row(block, records + size * number, records + size * count) for number in same]

    def _row(self, block: bytes, at: int, texts: int) -> CopiedRow:
        position, place, nulls, *values = self._record.unpack_from(block, at)
        place += texts
        for number, decoded in self._texts:
            end = place + values[number]
            values[number] = block[place:end].decode() if decoded else block[place:end]
            place = end
        missing = int.from_bytes(nulls, "little")
        for number, made in self._others:
            if not missing or not missing >> number & 1:
                values[number] = made(values[number])
        if missing:
            values = [None if missing >> number & 1 else value for number, value in enumerate(values)]
        return CopiedRow(position, tuple(values))


def _filter(hashes: np.ndarray) -> bytes:
    """The filter for rows with these hashes."""
    if len(hashes) > _FILTERED_ROWS_MAX:
        return b""
    flags = np.zeros(8 * len(hashes), bool)
    flags[hashes.astype(np.uint64) * np.uint64(len(flags)) >> np.uint64(32)] = True
    return np.packbits(flags, bitorder="little").tobytes()


def places_bytes(end: bytes) -> int:
    """How long the end of a copy is, from its places on. `end`: its last `END_BYTES`. Raises ValueError."""
    if len(end) != END_BYTES:
        raise ValueError("not the end of a copy")
    blocks, filter_bytes, _ = _END.unpack(end)
    return _PLACE * (blocks + 1) + filter_bytes + END_BYTES


def read_places(ending: bytes, start: int) -> BlockPlaces:
    """The places of the blocks. `ending`: the last `places_bytes` of the copy. Raises ValueError if they are damaged."""
    if len(ending) < END_BYTES or crc32(memoryview(ending)[:-4], start) != unpack_from("<I", ending, len(ending) - 4)[0]:
        raise ValueError("the places of a copy have a wrong checksum")
    blocks, filter_bytes, _ = _END.unpack_from(ending, len(ending) - END_BYTES)
    filter_at = len(ending) - END_BYTES - filter_bytes
    return BlockPlaces(ending[:filter_at], blocks, ending[filter_at : filter_at + filter_bytes])


DAMAGES = ValueError, StructError, OverflowError
"""What damaged blocks raise, and dates that Python cannot represent."""


def _is_text(type_: pa.DataType) -> bool:
    return is_text(type_) or is_bytes(type_)


def _code(type_: pa.DataType) -> str:
    """The format of a column in a record, for `struct`."""
    if _is_text(type_):
        return "I"
    if pa.types.is_boolean(type_):
        return "?"
    if pa.types.is_decimal(type_):
        return f"{type_.byte_width}s"
    return (_FLOATS if pa.types.is_floating(type_) else _INTEGERS)[type_.byte_width]


_NUMPY = {"I": "<u4", "?": "?", "b": "i1", "h": "<i2", "i": "<i4", "q": "<i8", "f": "<f4", "d": "<f8"}


def _members(columns: pa.Schema) -> list[tuple[str, str]]:
    """The columns of a record, for NumPy."""
    codes = [_code(field.type) for field in columns]
    return [(f"c{number}", _NUMPY.get(code, f"V{code[:-1]}")) for number, code in enumerate(codes)]
