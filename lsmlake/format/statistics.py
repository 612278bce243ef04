"""The statistics of a table: a small JSON file that an analysis writes; all later snapshots name it."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from lsmlake.errors import Corrupt, Wording
from lsmlake.schema import envelope
from lsmlake.types.column_types import FIELD_ID_MAX
from lsmlake.types.json_shape import TEXT, JsonKind, check, integer, listing, optional

ANALYZE_AGAIN = Wording("analyze() makes new statistics", command="`lsmlake analyze TABLE` makes new statistics")
_ANY = JsonKind("an object", lambda value: isinstance(value, dict))
KINDS = {
    "snapshot_id": integer(1),
    "schema_id": integer(0, 1 << 31),
    "rows": integer(),
    "bytes": integer(),
    "columns": listing(_ANY),
}
COLUMN_KINDS = {
    "field_id": integer(1, FIELD_ID_MAX),
    "distinct": optional(integer()),
    "min": optional(TEXT),
    "max": optional(TEXT),
    "nulls": integer(),
    "average_length": optional(integer()),
    "max_length": optional(integer()),
}


@dataclass(frozen=True)
class ColumnStatistics:
    """The statistics of one column.

    Attributes:
        field_id: identifies the column, even if it is renamed.
        distinct: the approximate number of distinct values, without null; None for a nested type.
        min: a lower bound as text, exact unless the least value is long; None without values, or for a nested type.
        max: an upper bound, as `min`.
        nulls: the number of rows with a null.
        average_length: of texts in characters, of binary values in bytes, rounded up; None for other types, or without values.
        max_length: the length of the longest value, in the units of `average_length`.
    """

    field_id: int
    distinct: int | None
    min: str | None
    max: str | None
    nulls: int
    average_length: int | None
    max_length: int | None


@dataclass(frozen=True)
class TableStatistics:
    """The statistics of the visible rows of one snapshot.

    Attributes:
        snapshot_id: the snapshot that was read.
        schema_id: its schema.
        rows: the number of visible rows.
        bytes: the approximate size of the visible rows in the data files.
        columns: the columns that were analysed.
    """

    snapshot_id: int
    schema_id: int
    rows: int
    bytes: int
    columns: tuple[ColumnStatistics, ...]

    def encode(self) -> bytes:
        return envelope.wrap_json("statistics", asdict(self))

    @staticmethod
    def decode(data: bytes, where: str) -> TableStatistics:
        """Decodes a file of statistics. Raises Corrupt or UnsupportedFormat naming `where`."""
        content = envelope.unwrap_json("statistics", data, where)
        check("statistics", content, KINDS, where, cure=ANALYZE_AGAIN)
        for column in content["columns"]:
            check("statistics of a column", column, COLUMN_KINDS, where, cure=ANALYZE_AGAIN)
        columns = tuple(ColumnStatistics(**column) for column in content["columns"])
        if len({column.field_id for column in columns}) < len(columns):
            raise Corrupt("statistics hold a column twice", where=where, cure=ANALYZE_AGAIN)
        return TableStatistics(**{**content, "columns": columns})
