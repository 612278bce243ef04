"""Reads a few rows of a data file: only the pages of each column that hold them.

PyArrow reads whole column chunks. So the reader takes the places of pages from Parquet's offset index, which the footer points
to, and `format.page` decodes the values. The checksum of a page covers its values; the number of rows in its header is compared
with the offset index, which has no checksum.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Sequence
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from lsmlake.files.data_reader import DataReader, reading
from lsmlake.format.page import CODECS, DAMAGES, ENCODINGS, KINDS, Page, PagedColumn, PlainValues, Struct, dictionary, read_struct
from lsmlake.schema.adapt import adapted, constant, is_evolved
from lsmlake.schema.schema import ROW_KIND
from lsmlake.storage.ranges import ByteRange, RangedFile
from lsmlake.tables.live import Cache
from lsmlake.types.python_values import DECIMAL_BYTES, made_of
from lsmlake.types.type_table import is_time

_INDEX_FACTOR = 4  # bytes of memory for the places of pages, for a byte of the offset index
_CHUNK_BYTES = 512  # of objects for a column chunk
# fields of Parquet's FileMetaData, RowGroup, ColumnChunk, ColumnMetaData and PageLocation
_GROUPS, _CHUNKS, _METADATA, _INDEX_OFFSET, _INDEX_LENGTH = 4, 1, 3, 4, 5
_ENCODINGS, _CODEC, _DATA_PAGE, _DICTIONARY_PAGE = 2, 4, 9, 11
_LOCATIONS, _OFFSET, _SIZE, _FIRST_ROW = 1, 1, 2, 3


class _PagedChunk(NamedTuple):
    """A column chunk: how its pages are stored, and the places, as (offset, bytes), of its offset index and dictionary."""

    column: PagedColumn
    index: tuple[int, int]
    dictionary: tuple[int, int] | None


class _Pages(NamedTuple):
    """The pages of a column chunk: their offsets, sizes, and first rows in the row group."""

    offsets: array
    sizes: array
    first: array


class RowOfGroup(NamedTuple):
    """A row of a row group."""

    group: int
    row: int


class _PageColumn(NamedTuple):
    """A column to read: its leaf and field in the file, None if the file lacks it, and its field in the schema."""

    leaf: int | None
    stored: pa.Field | None
    wanted: pa.Field
    type: pa.DataType
    evolved: bool


class GroupBounds(NamedTuple):
    """The row groups of a file: the number and the first row of each, and the bounds of the first key column, None if unknown."""

    groups: list[tuple[int, int, object, object]]

    @staticmethod
    def of(reader: DataReader) -> GroupBounds:
        low, high, _ = reader.group_bounds(reader.schema.key[0])
        return GroupBounds(list(zip(range(len(low)), reader.starts.tolist(), low.to_pylist(), high.to_pylist(), strict=False)))

    def groups_of(self, value: object) -> list[tuple[int, int]]:
        """The row groups that can hold a value, with the positions of their first rows."""
        return [
            (group, start)
            for group, start, least, most in self.groups
            if (least is None or least <= value) and (most is None or value <= most)
        ]


class PageReader:
    """The pages of a data file, known from its footer; holds no open file."""

    def __init__(self, reader: DataReader) -> None:
        self.path, self.starts, self.bounds = reader.path, reader.starts.tolist(), GroupBounds.of(reader)
        self.chunks: dict[tuple[int, int], _PagedChunk | None] = {}
        names = [*reader.schema.columns.names, *([ROW_KIND] if reader.has_row_kind else [])]
        self.columns = {name: _wanted(reader, name) for name in names}
        self.pages: dict[tuple[int, int], _Pages] = {}
        with reading(self.path):
            try:
                self._read_footer(reader)
            except DAMAGES as broken:
                raise ValueError("the footer is damaged") from broken
        index = sum(chunk.index[1] for chunk in self.chunks.values() if chunk is not None)
        self.bytes = _CHUNK_BYTES * len(self.chunks) + _INDEX_FACTOR * index

    def _read_footer(self, reader: DataReader) -> None:
        leaves = {column.leaf for column in self.columns.values() if column is not None and column.leaf is not None}
        groups: Sequence[Struct] = read_struct(reader.footer_bytes)[0][_GROUPS][1][1]
        for number, group in enumerate(groups):
            for leaf in leaves:
                about = reader.footer.schema.column(leaf)
                self.chunks[number, leaf] = _chunk(group[_CHUNKS][1][1][leaf], about)

    def can_read(self, names: Sequence[str]) -> bool:
        """Whether the columns are not nested, and stored in a way that can be read by pages."""
        columns = [self.columns[name] for name in names]
        return None not in columns and all(
            self.chunks[group, column.leaf] is not None
            for column in columns
            if column.leaf is not None
            for group in range(len(self.starts) - 1)
        )

    def places(self, positions: Sequence[int]) -> list[RowOfGroup]:
        """The row groups of positions, and the rows in them."""
        groups = [bisect_right(self.starts, position) - 1 for position in positions]
        return [RowOfGroup(group, position - self.starts[group]) for group, position in zip(groups, positions, strict=True)]

    def indexes(self, group: int) -> list[ByteRange]:
        """The byte ranges of the page indexes of a row group that are not known yet."""
        return [_range(*self.chunks[one].index) for one in self._unknown(group)]

    def keep_indexes(self, source: pa.NativeFile, group: int, cache: Cache) -> None:
        """Decodes the page indexes of a row group which `source` has fetched. Does this only in a storage that reads by requests:
        in others, indexes are read when they are needed."""
        if isinstance(source, RangedFile):
            with reading(self.path):
                file = _PageSource(self.path, source, source.size(), cache)
                try:
                    for one in self._unknown(group):
                        self._pages(file, *one)
                except DAMAGES as broken:
                    raise ValueError(f"a page index is damaged: {broken}") from broken

    def _unknown(self, group: int) -> list[tuple[int, int]]:
        return [one for one, chunk in self.chunks.items() if one[0] == group and chunk is not None and one not in self.pages]

    def columns_at(
        self, source: pa.NativeFile, places: Sequence[RowOfGroup], names: Sequence[str], cache: Cache
    ) -> list[pa.Array | pa.ChunkedArray]:
        """Columns of some rows, ascending. `names`: columns that `can_read`. `cache`: keeps dictionaries."""
        with reading(self.path):
            file = _PageSource(self.path, source, source.size(), cache)
            if isinstance(source, RangedFile):
                self._load(file, source, places, [self.columns[name].leaf for name in names])
            return [self._array(file, self.columns[name], places) for name in names]

    def reads_plain(self, names: Sequence[str]) -> bool:
        """Whether `can_read` columns, and the file stores all of them in their types."""
        columns = [self.columns[name] for name in names]
        return self.can_read(names) and all(column.leaf is not None and column.stored.type == column.type for column in columns)

    def values_at(self, source: pa.NativeFile, place: RowOfGroup, names: Sequence[str], cache: Cache) -> list[object]:
        """The values of Python of one row. `names`: columns that it `reads_plain`. `cache`: as in `columns_at`. Raises
        OverflowError if Python lacks a date of the row."""
        columns = [self.columns[name] for name in names]
        with reading(self.path):
            file = _PageSource(self.path, source, source.size(), cache)
            if isinstance(source, RangedFile):
                self._load(file, source, [place], [column.leaf for column in columns])
            values = [self._checked_values(file, column, [place])[0] for column in columns]
        return [_python_value(value, column.type) for value, column in zip(values, columns, strict=True)]

    def _load(self, file: _PageSource, source: RangedFile, places: Sequence[RowOfGroup], leaves: Sequence[int | None]) -> None:
        """Fetches the page indexes of the columns together, then the pages."""
        stored = [leaf for leaf in leaves if leaf is not None]
        groups = {place.group for place in places}
        unknown = [(group, leaf) for group in groups for leaf in stored if (group, leaf) not in self.pages]
        source.ranges.load([_range(*self.chunks[group, leaf].index) for group, leaf in unknown])
        try:
            wanted = []
            for leaf in stored:
                for group, row in places:
                    pages, chunk = self._pages(file, group, leaf), self.chunks[group, leaf]
                    number = bisect_right(pages.first, row) - 1
                    wanted.append(_range(pages.offsets[number], pages.sizes[number]))
                    if chunk.dictionary is not None and file.cache.known(file.dictionary_key(group, leaf)) is None:
                        wanted.append(_range(*chunk.dictionary))
        except DAMAGES as broken:
            raise ValueError(f"a page index is damaged: {broken}") from broken
        source.ranges.load([one for one in wanted if 0 <= one.start <= one.stop <= file.size])

    def _array(self, file: _PageSource, column: _PageColumn, places: Sequence[RowOfGroup]) -> pa.Array | pa.ChunkedArray:
        if column.leaf is None:
            return constant(column.wanted, len(places)).cast(column.type)
        array_ = _from_physical(self._checked_values(file, column, places), column.stored.type)
        if column.evolved:
            where = f"{self.path}, column {column.wanted.name!r}"
            return adapted(pa.chunked_array([array_]), column.stored, column.wanted, where)
        return array_ if array_.type == column.type else array_.cast(column.type)

    def _checked_values(
        self, file: _PageSource, column: _PageColumn, places: Sequence[RowOfGroup]
    ) -> list[int | float | bytes | None]:
        """As `_values`. Raises ValueError if they are damaged."""
        try:
            return self._values(file, column.leaf, places)
        except DAMAGES as broken:
            raise ValueError(f"a page or the page index of column {column.wanted.name!r} is damaged: {broken}") from broken

    def _values(self, file: _PageSource, leaf: int, places: Sequence[RowOfGroup]) -> list[int | float | bytes | None]:
        values, opened, page, first, end = [], None, None, 0, 0
        for group, row in places:
            if group != opened or row >= end:
                pages = self._pages(file, group, leaf)
                number = bisect_right(pages.first, row) - 1
                first = pages.first[number]
                end = pages.first[number + 1] if number + 1 < len(pages.first) else self.starts[group + 1] - self.starts[group]
                stored = file.read(pages.offsets[number], pages.sizes[number])
                chunk = self.chunks[group, leaf]
                page = Page(stored, chunk.column, file.dictionary(group, leaf, chunk), end - first)
                opened = group
            values.append(page[row - first])
        return values

    def _pages(self, file: _PageSource, group: int, leaf: int) -> _Pages:
        if (group, leaf) not in self.pages:
            locations = read_struct(file.read(*self.chunks[group, leaf].index))[0][_LOCATIONS][1][1]
            fields = (_OFFSET, _SIZE, _FIRST_ROW)
            self.pages[group, leaf] = _Pages(*(array("q", [one[field][1] for one in locations]) for field in fields))
        return self.pages[group, leaf]


class _PageSource(NamedTuple):
    """An open file."""

    path: str
    file: pa.NativeFile
    size: int
    cache: Cache

    def read(self, offset: int, length: int) -> bytes:
        if not (0 <= offset <= self.size and 0 <= length <= self.size - offset):
            raise ValueError("a page lies outside of the file")
        return self.file.read_at(length, offset)

    def dictionary_key(self, group: int, leaf: int) -> tuple:
        return self.path, "dictionary", group, leaf

    def dictionary(self, group: int, leaf: int, chunk: _PagedChunk) -> PlainValues | None:
        if chunk.dictionary is None:
            return None
        return self.cache.get(
            self.dictionary_key(group, leaf),
            lambda: dictionary(self.read(*chunk.dictionary), chunk.column),
            lambda values: values.bytes,
        )


def _range(start: int, length: int) -> ByteRange:
    return ByteRange(start, start + length)


def _wanted(reader: DataReader, name: str) -> _PageColumn | None:
    """The `_PageColumn` of a name; None if the column is nested."""
    wanted, type_, stored = reader.field_of(name), reader.plain_field(name).type, reader.stored(name)
    if pa.types.is_nested(wanted.type):
        return None
    if stored is None:
        return _PageColumn(None, None, wanted, type_, evolved=False)
    return _PageColumn(stored.leaves[0], stored.field, wanted, type_, is_evolved(stored.field.type, wanted.type))


def _chunk(stored: Struct, about: pq.ColumnSchema) -> _PagedChunk | None:
    """A column chunk; None if its pages cannot be read one by one."""
    meta = stored[_METADATA][1]
    codec = meta[_CODEC][1]
    nested = about.max_repetition_level > 0 or about.max_definition_level > 1
    known = about.physical_type in KINDS and codec in CODECS and ENCODINGS.issuperset(meta[_ENCODINGS][1][1])
    if nested or not known or _INDEX_OFFSET not in stored:
        return None
    column = PagedColumn(
        about.physical_type, about.length, about.max_definition_level == 1, CODECS[codec] and pa.Codec(CODECS[codec])
    )
    first = meta[_DICTIONARY_PAGE][1] if _DICTIONARY_PAGE in meta else None
    index = stored[_INDEX_OFFSET][1], stored[_INDEX_LENGTH][1]
    return _PagedChunk(column, index, None if first is None else (first, meta[_DATA_PAGE][1] - first))


def _python_value(value: int | float | bytes | None, type_: pa.DataType) -> object:
    """A value of a page as PyArrow gives it to Python."""
    if value is None:
        return None
    if pa.types.is_string(type_):
        return value.decode()
    if pa.types.is_boolean(type_):
        return bool(value)
    if pa.types.is_decimal128(type_):
        number = int.from_bytes(value, "big", signed=True) if isinstance(value, bytes) else value
        value = number.to_bytes(DECIMAL_BYTES, "little", signed=True)
    made = made_of(type_)
    return value if made is None else made(value)


def _from_physical(values: Sequence[int | float | bytes | None], type_: pa.DataType) -> pa.Array:
    """The values of a page as an Arrow array of the type that Arrow reads the column with."""
    t = pa.types
    if t.is_string(type_):
        return pa.array([None if value is None else value.decode() for value in values], type_)
    if t.is_boolean(type_):
        return pa.array(values, pa.int8()).cast(type_)
    if is_time(type_):
        return pa.array(values, pa.int32() if type_.bit_width == 32 else pa.int64()).view(type_)
    if t.is_decimal128(type_):
        numbers = [int.from_bytes(v, "big", signed=True) if isinstance(v, bytes) else v for v in values]
        halves = [None if v is None else v.to_bytes(16, "little", signed=True) for v in numbers]
        return pa.array(halves, pa.binary(16)).view(type_)
    return pa.array(values, type_)
