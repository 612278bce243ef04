"""A table of another format at one snapshot, as its reader returns it; and its files, opened as files of lsmlake are."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import pyarrow as pa

from lsmlake.errors import Corrupt, InvalidData, InvalidSchema
from lsmlake.files.data_reader import DataReader
from lsmlake.files.parquet_facts import RESTORE
from lsmlake.format.data_files import APPEND, DataFile
from lsmlake.format.deletion_vector import DeletionVector
from lsmlake.schema.adapt import NamedFields, lacks_ids, with_ids
from lsmlake.schema.checks import check_are_columns
from lsmlake.schema.partitioning import Partitioning, Term
from lsmlake.schema.schema import Schema
from lsmlake.storage.env import Env
from lsmlake.storage.location import Outside
from lsmlake.types.column_types import field_id

COMPACT_THERE = "rewrite the data files of the table there, which applies its deletes, and import it again"
"""The cure for deletes that are not read."""


class ForeignVector(NamedTuple):
    """The deleted positions of one data file: blob [offset, offset + length) of the file `uri`, a `deletion-vector-v1`."""

    uri: str
    offset: int
    length: int
    cardinality: int


class ForeignFile(NamedTuple):
    """A data file.

    Args:
        name: its address as deletes name it.
        uri: its address.
        format: "parquet", or the format of a file that is not read.
        bytes: its size.
        rows: the number of its rows, deleted ones included; None: not known.
        spec: its partition spec, a spec of the new table.
        partition: the values of the fields of that spec.
        scope: identifies its partition in the foreign table; deletes apply to one scope.
        sequence: deletes of a later sequence apply to its rows.
        constants: the values of columns that the file may lack, by field id.
        without_nan: the field ids of floating-point columns that are known to hold no NaN.
        vector: its deleted rows; then no other deletes of positions apply.
    """

    name: str
    uri: str
    format: str
    bytes: int
    rows: int | None
    spec: int
    partition: tuple
    scope: Hashable
    sequence: int
    constants: Mapping[int, object] = {}
    without_nan: frozenset[int] = frozenset()
    vector: ForeignVector | DeletionVector | None = None


class PositionDeletes(NamedTuple):
    """A Parquet file with the addresses of data files and positions of deleted rows. Applies to files of its partition with its
    sequence or an earlier one. `of`: the name of the only data file that it names, if known."""

    uri: str
    bytes: int
    scope: Hashable
    sequence: int
    of: str | None


class EqualityDeletes(NamedTuple):
    """A Parquet file with keys: rows that are equal to one of them in the columns `ids` are deleted from data files of earlier
    sequences, of its partition or, with `everywhere`, of any."""

    uri: str
    bytes: int
    rows: int
    scope: Hashable
    everywhere: bool
    sequence: int
    ids: tuple[int, ...]


@dataclass(frozen=True)
class ForeignTable:
    """A table of another format at one snapshot.

    Args:
        where: its address, for messages.
        columns: its columns with field ids, in canonical types, with comments and defaults.
        highest_field_id: the highest id that was ever given.
        partitioning: the specs of `files`, and the current one.
        dropped: columns that it had once, with their ids.
        comment: its description.
        names: the names of columns in files without field ids, if it has such names.
        by_name: whether columns are found by name in all files, as ids in files are not those of the table.
        by_folder: whether partition values come from names of folders, and may differ from those in the files.
        next_row_id: the first row id of Iceberg that no file holds; 0: files hold none.
    """

    where: str
    columns: pa.Schema
    highest_field_id: int
    partitioning: Partitioning
    files: Sequence[ForeignFile]
    position_deletes: Sequence[PositionDeletes] = ()
    equality_deletes: Sequence[EqualityDeletes] = ()
    dropped: Sequence[pa.Field] = ()
    comment: str | None = None
    names: Sequence[NamedFields] = ()
    by_name: bool = False
    by_folder: bool = False
    next_row_id: int = 0


_ELSEWHERE = -1


def repartitioned(table: ForeignTable, partition_by: Sequence[str], where: str) -> ForeignTable:
    """The table with other partitions, in which no file can lie as it is. Raises InvalidSchema; `where` names the table."""
    terms = [Term.parse(text, table.columns.names, where) for text in partition_by]
    check_are_columns("partition", [term.column for term in terms], table.columns, where)
    ids = {field.name: field_id(field) for field in table.columns}
    fields = ((ids[one.column], one.transform.field_name(one.column), one.transform) for one in terms)
    files = [file._replace(spec=_ELSEWHERE, partition=()) for file in table.files]
    return replace(table, partitioning=Partitioning.first(fields), files=files)


# -- its files --------------------------------------------------------------------------------------------------------


_NO_SCHEMA = -1
"""The schema id of a foreign file, which may lack any column."""


class Sources(NamedTuple):
    """How the files of a foreign table are read."""

    env: Env
    outside: Outside
    table: ForeignTable

    @contextmanager
    def open(self, uri: str, size: int, rows: int, columns: pa.Schema) -> Iterator[DataReader]:
        """Opens a Parquet file of the table, whose columns are found by field id, or by the names of the table.

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
    """Wraps reading a file of a foreign table: the cure for a damaged file speaks of that table, not of one of lsmlake."""
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


def unknown_type(content: str | Mapping, where: str, expected: str) -> InvalidSchema:
    """The error for a type that lsmlake does not have. `where`: the table and the column."""
    return InvalidSchema(
        "a column has a type that lsmlake does not have",
        where=where,
        expected=expected,
        found=content if isinstance(content, str) else content.get("type"),
        cure="drop the column there, or store its values in another type, such as string",
    )
