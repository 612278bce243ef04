"""A table of another format at one snapshot, as values: what its reader found, before anything is done with it."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import pyarrow as pa

from lsmlake.schema.by_name import Named
from lsmlake.schema.partitioning import Partitioning


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
        format: "parquet", or that of a file that is not read.
        bytes: its size.
        rows: the number of its rows, deleted ones included; None: not known.
        spec: its partition spec, one of the table to be made.
        partition: the values of the fields of that spec.
        scope: tells its partition from others where it comes from; deletes apply to one.
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
    vector: ForeignVector | None = None


class PositionDeletes(NamedTuple):
    """A Parquet file with the addresses of data files and positions of deleted rows. Applies to files of its partition with its
    sequence or an earlier one. `of`: the name of the only data file that it has, if known."""

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
    names: Sequence[Named] = ()
