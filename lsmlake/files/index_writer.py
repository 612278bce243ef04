"""Collects the values of indexed columns while a data file is written (`files.data_writer`), and makes its index of them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from lsmlake.format.bloom_filter import BloomFilter
from lsmlake.format.file_index import FileIndex
from lsmlake.format.value_index import BITMAP, RANGE_BITMAP, ValueIndex, encoded
from lsmlake.kernels.value_hash import value_hash
from lsmlake.kernels.value_words import family
from lsmlake.schema.schema import Schema


class IndexWriter:
    """Holds 8 bytes for each distinct value of a column with a Bloom filter; of one with a value index, each distinct value of a
    row group, and 4 bytes for each row."""

    def __init__(self, schema: Schema, *, indexed: bool) -> None:
        """`indexed`: False for files without an index, whatever the options say."""
        self.schema, options = schema, schema.parsed_options.index
        self.hashes: dict[str, list[np.ndarray]] = {name: [] for name in options.bloom_columns if indexed}
        kinds = ((BITMAP, options.bitmap_columns), (RANGE_BITMAP, options.range_bitmap_columns))
        self.kinds = {name: kind for kind, names in kinds for name in names if indexed}
        self.encoded: dict[str, list[pa.ChunkedArray]] = {name: [] for name in self.kinds}

    def add(self, rows: pa.Table) -> None:
        """Takes the next rows of the file."""
        for name, hashes in self.hashes.items():
            hashes.append(np.unique(value_hash(rows[name])))
        for name, parts in self.encoded.items():
            parts.append(encoded(rows[name]))

    def index(self) -> FileIndex:
        """The index of all rows; without columns if none is indexed."""
        ids, rate = self.schema.field_ids(), self.schema.parsed_options.index.bloom_rate
        types = {name: family(self.schema.columns.field(name).type) for name in self.hashes.keys() | self.encoded.keys()}
        filters = {
            ids[name]: BloomFilter.of(types[name], groups[0] if len(groups) == 1 else np.unique(np.concatenate(groups)), rate)
            for name, groups in self.hashes.items()
        }
        return FileIndex(
            filters, {ids[name]: ValueIndex.of(self.kinds[name], types[name], parts) for name, parts in self.encoded.items()}
        )
