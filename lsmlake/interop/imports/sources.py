"""The files of a foreign table, opened as files of lsmlake are."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import NamedTuple

import pyarrow as pa

from lsmlake.errors import InvalidData
from lsmlake.format.files import APPEND, DataFile
from lsmlake.interop.imports.foreign import ForeignTable
from lsmlake.schema.by_name import lacks_ids, with_ids
from lsmlake.schema.partitioning import Partitioning
from lsmlake.schema.schema import Schema
from lsmlake.store.data_reader import DataReader
from lsmlake.store.env import Env
from lsmlake.store.outside import Outside

_NO_SCHEMA = -1
"""Of a foreign file, which may lack any column."""


class Sources(NamedTuple):
    """How the files of a foreign table are read."""

    env: Env
    outside: Outside
    table: ForeignTable

    def open(self, uri: str, size: int, rows: int, columns: pa.Schema) -> DataReader:
        """Open a Parquet file of the table, whose columns are found by field id, or by the names of the table.

        Raises Corrupt, and InvalidData if a value is read that `columns` cannot hold."""
        place = self.outside.place(uri)
        file = DataFile(place.path, "", size, rows, 0, (), (), 1, _NO_SCHEMA, APPEND, 0)
        env = replace(self.env, storage=place.storage)
        return DataReader(env, place.path, file, _schema_of(columns), identified=self.identified, unfit=partial(_unfit, uri))

    def identified(self, stored: pa.Schema) -> pa.Schema:
        """The columns of a file with the field ids of the table."""
        return with_ids(stored, self.table.names) if self.table.by_name or lacks_ids(stored) else stored


def _schema_of(columns: pa.Schema) -> Schema:
    return Schema(0, "", columns, 0, (), Partitioning.first(()), {}, None, 0)


def _unfit(uri: str, error: Exception) -> InvalidData:
    return InvalidData(
        "a value does not fit the type of its column in the table",
        where=uri,
        found=error,
        cure="round or convert the values there, or load the rows into a table with a schema of your own",
    )
