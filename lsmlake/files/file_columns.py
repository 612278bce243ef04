"""The columns of a data file: where the file stores the columns of a table, and the form in which a read returns them.

Files of one table mostly have the same columns, so this is found once for all of them (`FileColumns.of`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import pyarrow as pa

from lsmlake.errors import Corrupt
from lsmlake.files.checksum import RESTORE
from lsmlake.kernels.nested import leaf_positions
from lsmlake.schema.schema import Schema
from lsmlake.types import column_types

_KNOWN_MAX = 16


class StoredColumn(NamedTuple):
    """A column in a file: its place among the columns, the positions of its leaves, and its type with the ids of all fields."""

    place: int
    leaves: range
    field: pa.Field


class Form(NamedTuple):
    """How to read some columns. `leaves`: their positions, ascending; `places`: where each column is among those read, None if
    the values of any are made or converted; `fields`: of the result."""

    leaves: list[int]
    places: list[int] | None
    fields: pa.Schema


class FileColumns:
    """The columns of files with the same Arrow schema. `by_id`: by field id; `forms`: of reads that were made before."""

    def __init__(self, stored: pa.Schema, path: str) -> None:
        """Raises Corrupt if two columns have the same id."""
        self.by_id = _by_id(stored, path)
        self.forms: dict[tuple[tuple[str, ...], tuple[str, ...]], Form] = {}

    @staticmethod
    def of(
        stored: pa.Schema, schema: Schema, schema_id: int, identified: Callable[[pa.Schema], pa.Schema], path: str
    ) -> FileColumns:
        """The columns of a file for reads with the columns of `schema`.

        Args:
            stored: the Arrow schema of the file.
            schema: of the reads.
            schema_id: the schema under which the file was written.
            identified: gives the columns their field ids, see `DataReader`.
            path: of the file, for errors.
        """
        known = schema.derived(_known)
        for number, others, columns in known:
            if number == schema_id and others.equals(stored, check_metadata=True):
                return columns
        made = FileColumns(identified(stored), path)
        if len(known) < _KNOWN_MAX:
            known.append((schema_id, stored, made))
        return made


def _known(schema: Schema) -> list[tuple[int, pa.Schema, FileColumns]]:
    """The columns of files that were read with a schema. The first files decide."""
    return []


def _by_id(schema: pa.Schema, path: str) -> dict[int, StoredColumn]:
    stored = enumerate(zip(schema, leaf_positions(schema), strict=True))
    placed = [
        (column_types.field_id(field), StoredColumn(place, own, field))
        for place, (field, own) in stored
        if column_types.has_field_id(field)
    ]
    if nameless := [one.field.name for _, one in placed if not column_types.has_field_ids(one.field.type)]:
        expected = "a field id at every level"
        raise Corrupt("data file has a column without ids inside", where=path, expected=expected, found=nameless, cure=RESTORE)
    if len(dict(placed)) != len(placed):
        ids = sorted(number for number, _ in placed)
        raise Corrupt("data file has two columns with one field id", where=path, expected="unique ids", found=ids, cure=RESTORE)
    return dict(placed)
