"""The files of a foreign table, opened as files of lsmlake are."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import pyarrow as pa

from lsmlake.errors import Corrupt, InvalidData
from lsmlake.files.data_reader import DataReader
from lsmlake.files.parquet_facts import RESTORE
from lsmlake.format.files import APPEND, DataFile
from lsmlake.imports.foreign import COMPACT_THERE, ForeignTable
from lsmlake.schema.adapt import lacks_ids, with_ids
from lsmlake.schema.partitioning import Partitioning
from lsmlake.schema.schema import Schema
from lsmlake.storage.env import Env
from lsmlake.storage.location import Outside

_NO_SCHEMA = -1
"""Of a foreign file, which may lack any column."""


class Sources(NamedTuple):
    """How the files of a foreign table are read."""

    env: Env
    outside: Outside
    table: ForeignTable

    @contextmanager
    def open(self, uri: str, size: int, rows: int, columns: pa.Schema) -> Iterator[DataReader]:
        """Open a Parquet file of the table, whose columns are found by field id, or by the names of the table.

        Raises Corrupt, and InvalidData if a value is read that `columns` cannot hold."""
        place = self.outside.place(uri)
        file = DataFile(place.path, "", size, rows, 0, (), (), 1, _NO_SCHEMA, APPEND, 0)
        env, unfit = replace(self.env, storage=place.storage), partial(_unfit, uri)
        with theirs(), DataReader(env, place.path, file, _schema_of(columns), (), self.identified, unfit, uri) as reader:
            yield reader

    def identified(self, stored: pa.Schema) -> pa.Schema:
        """The columns of a file with the field ids of the table."""
        return with_ids(stored, self.table.names) if self.table.by_name or lacks_ids(stored) else stored


@contextmanager
def theirs() -> Iterator[None]:
    """Around reading a file of a foreign table: a damaged one is not to be restored in a table of lsmlake."""
    try:
        yield
    except Corrupt as damaged:
        if damaged.cure == COMPACT_THERE:
            raise
        raise Corrupt(
            damaged.what, where=damaged.where, expected=damaged.expected, found=damaged.found, cure=RESTORE
        ) from damaged


def _schema_of(columns: pa.Schema) -> Schema:
    return Schema(0, "", columns, 0, (), Partitioning.first(()), {}, None, 0)


def _unfit(uri: str, error: Exception) -> InvalidData:
    return InvalidData(
        "a value does not fit the type of its column in the table",
        where=uri,
        found=error,
        cure="round or convert the values there, or load the rows into a table with a schema of your own",
    )
