"""Reads single rows of a data file: of each column only the page that holds the row.

PyArrow reads whole column chunks. So the reader takes the place of a page from Parquet's offset index, and gives PyArrow a
Parquet file in memory: for each column the dictionary page and that one page, and a footer that says so. Pages have checksums;
the number of rows in the header of a page is compared with the offset index, which has none.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from lsmlake.errors import Corrupt
from lsmlake.schema.types import field_id
from lsmlake.store.checksum import RESTORE
from lsmlake.store.data_reader import DataReader, reading
from lsmlake.store.thrift import I64, LIST, STRUCT, Struct, read_struct, written

_MAGIC = b"PAR1"
_TREE_BYTES = 64  # of Python objects for a byte of the footer, with the page index
# fields of Parquet's FileMetaData, RowGroup, ColumnChunk, ColumnMetaData, PageLocation, PageHeader and DataPageHeader
_VERSION, _SCHEMA, _ROWS, _GROUPS = 1, 2, 3, 4
_CHUNKS, _GROUP_BYTES, _GROUP_ROWS = 1, 2, 3
_FILE_OFFSET, _METADATA, _INDEX_OFFSET, _INDEX_LENGTH = 2, 3, 4, 5
_VALUES, _COMPRESSED, _DATA_PAGE, _DICTIONARY_PAGE, _STATISTICS = 5, 7, 9, 11, (12, 13, 14, 15, 16, 17)
_LOCATIONS, _OFFSET, _SIZE, _FIRST_ROW = 1, 1, 2, 3


class _Pages:
    """The pages of a column chunk: their offsets, sizes, and first rows in the row group."""

    def __init__(self, index: Struct) -> None:
        locations = index[_LOCATIONS][1][1]
        self.offsets, self.sizes, self.first = (
            np.array([location[field][1] for location in locations], np.int64) for field in (_OFFSET, _SIZE, _FIRST_ROW)
        )


class PageReader:
    """The pages of a data file, known from its footer; holds no open file.

    `leaves`: the columns of the schema that are not nested, and their places. `key_bounds`: of the first key column in each row
    group, None if unknown.
    """

    def __init__(self, reader: DataReader) -> None:
        self.path, self.starts, self.schema = reader.path, reader.starts, reader.schema
        fields = [field for field in self.schema.columns if not pa.types.is_nested(field.type)]
        self.leaves = {field.name: reader.columns[field_id(field)].leaves[0] for field in fields}
        low, high, _ = reader.group_bounds(self.schema.key[0])
        self.key_bounds = list(zip(low.to_pylist(), high.to_pylist(), strict=True))
        self.bytes = _TREE_BYTES * len(reader.footer_bytes)
        with reading(self.path):
            self.meta, _ = read_struct(reader.footer_bytes)
            self.groups: list[Struct] = self.meta[_GROUPS][1][1]
        self.pages: dict[tuple[int, int], _Pages] = {}

    def row(self, source: pa.NativeFile, position: int, names: Sequence[str]) -> pa.Table:
        """The row at a position, as a table of one row. `names`: columns of the schema that are not nested."""
        with reading(self.path):
            try:
                return self._row(source, position, names)
            except (KeyError, IndexError, TypeError) as broken:
                raise ValueError("the page index is damaged") from broken

    def _row(self, source: pa.NativeFile, position: int, names: Sequence[str]) -> pa.Table:
        group = int(np.searchsorted(self.starts, position, "right")) - 1
        row, count = position - int(self.starts[group]), int(self.starts[group + 1] - self.starts[group])
        leaves = {name: self.leaves[name] for name in names}
        body, chunks, firsts = bytearray(_MAGIC), list(self.groups[group][_CHUNKS][1][1]), {}
        for leaf in leaves.values():
            pages = self._pages(source, group, leaf)
            page = int(np.searchsorted(pages.first, row, "right")) - 1
            following = int(pages.first[page + 1]) if page + 1 < len(pages.first) else count
            rows, place = following - int(pages.first[page]), (int(pages.offsets[page]), int(pages.sizes[page]))
            firsts[leaf] = int(pages.first[page]), rows
            chunks[leaf] = self._chunk(source, chunks[leaf], place, rows, body)
        one = {_CHUNKS: (LIST, (STRUCT, chunks)), _GROUP_BYTES: (I64, len(body)), _GROUP_ROWS: (I64, count)}
        fields = {name: self.meta[name] for name in (_VERSION, _SCHEMA)}
        footer = written({**fields, _ROWS: (I64, count), _GROUPS: (LIST, (STRUCT, [one]))})
        body += footer + len(footer).to_bytes(4, "little") + _MAGIC
        encoded = [leaf for name, leaf in leaves.items() if self._repeats_texts(name, chunks[leaf])]
        file = pq.ParquetFile(pa.BufferReader(bytes(body)), read_dictionary=encoded, page_checksum_verification=True)
        columns = []
        for name, leaf in leaves.items():
            values, (first, rows) = file.reader.read_column(leaf), firsts[leaf]
            if len(values) != rows:
                raise Corrupt("page lacks rows", where=self.path, expected=rows, found=len(values), cure=RESTORE)
            columns.append(values.slice(row - first, 1).cast(self.schema.plain_columns.field(name).type))
        return pa.table(columns, schema=pa.schema([self.schema.plain_columns.field(name) for name in names]))

    def _repeats_texts(self, name: str, chunk: Struct) -> bool:
        """Whether a column is text with a dictionary; Arrow then builds only the texts that are asked for."""
        return pa.types.is_string(self.schema.plain_columns.field(name).type) and _DICTIONARY_PAGE in chunk[_METADATA][1]

    def _pages(self, source: pa.NativeFile, group: int, leaf: int) -> _Pages:
        if (group, leaf) not in self.pages:
            chunk = self.groups[group][_CHUNKS][1][1][leaf]
            data = _read(source, chunk[_INDEX_OFFSET][1], chunk[_INDEX_LENGTH][1])
            self.pages[group, leaf] = _Pages(read_struct(data)[0])
        return self.pages[group, leaf]

    def _chunk(self, source: pa.NativeFile, chunk: Struct, place: tuple[int, int], rows: int, body: bytearray) -> Struct:
        """Append the pages to `body`; returns the column chunk that consists of them."""
        meta, start = dict(chunk[_METADATA][1]), len(body)
        if _DICTIONARY_PAGE in meta:
            first = meta[_DICTIONARY_PAGE][1]
            body += _read(source, first, meta[_DATA_PAGE][1] - first)
            meta[_DICTIONARY_PAGE] = I64, start
        page = _read(source, *place)
        if (found := _values_in(page)) != rows:
            raise Corrupt(
                "page has another number of rows than its index", where=self.path, expected=rows, found=found, cure=RESTORE
            )
        meta |= {_DATA_PAGE: (I64, len(body)), _VALUES: (I64, rows)}
        body += page
        meta[_COMPRESSED] = I64, len(body) - start
        return {_FILE_OFFSET: (I64, 0), _METADATA: (STRUCT, {k: v for k, v in meta.items() if k not in _STATISTICS})}


def _values_in(page: bytes) -> int:
    """The number of values that the header of a data page, version 1, states."""
    header, _ = read_struct(page)
    return header[5][1][1][1]


def _read(source: pa.NativeFile, offset: int, length: int) -> bytes:
    size = source.size()
    if not (0 <= offset <= size and 0 <= length <= size - offset):
        raise ValueError("a page lies outside of the file")
    source.seek(offset)
    return source.read(length)
