"""Compares the index of a data file with its rows, for `maintain.verify`."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from lsmlake.files.data_reader import Chunk
from lsmlake.format.file_index import FileIndex
from lsmlake.kernels.keys import joined
from lsmlake.kernels.value_hash import family, value_hash
from lsmlake.predicate.tree import ordered
from lsmlake.schema.schema import Schema


class IndexCheck:
    """The index of a file beside its rows. Columns that now have a type of another family are not compared."""

    def __init__(self, index: FileIndex, schema: Schema) -> None:
        """Decodes the values of the index. Raises Corrupt."""
        self._types, ids = {name: schema.plain_columns.field(name).type for name in schema.columns.names}, schema.field_ids()
        filters = {name: index.filters[ids[name]] for name in self._types if ids[name] in index.filters}
        values = {name: index.values[ids[name]] for name in self._types if ids[name] in index.values}
        self._filters = {name: one for name, one in filters.items() if one.family == family(self._types[name])}
        self._columns = {
            name: one.column(self._types[name]) for name, one in values.items() if one.family == family(self._types[name])
        }

    def differing(self, chunk: Chunk) -> Iterator[str]:
        """Yields the names of columns whose values in the chunk differ from the index."""
        for name in chunk.table.column_names:
            values, one = chunk.table[name], self._filters.get(name)
            absent = one is not None and not one.may_hold(value_hash(values)).all()
            if absent or (name in self._columns and not self._same(name, chunk.start, joined(values))):
                yield name

    def _same(self, name: str, start: int, values: pa.Array) -> bool:
        kind = self._types[name]
        indexed, expected = (ordered(side, kind) for side in (self._columns[name].slice(start, len(values)), values))
        return indexed.is_null().equals(expected.is_null()) and not pc.any(pc.not_equal(indexed, expected)).as_py()
