"""A lake as dbt wants a database: a handle with cursors, as in Python's DB-API."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from lsmlake.api.lake import Lake
from lsmlake.api.readable import Result
from lsmlake.types.type_text import format_type_of

AFFECTED = "num_affected_rows"
"""The column in which a change of rows says how many they are."""
Row = tuple[object, ...]


@dataclass
class LakeCursor:
    """Executes statements. `rows`: those of the last one, in Arrow; `position`: of the next one to fetch."""

    lake: Lake
    rows: pa.Table = field(default_factory=lambda: pa.table({}))
    position: int = 0

    def execute(self, sql: str, bindings: Mapping[str, object] | Sequence[object] | None = None) -> None:
        """Executes a statement. Raises LakeError."""
        self.rows, self.position = self.lake.sql(sql, bindings or None).to_arrow(), 0

    @property
    def description(self) -> list[tuple[object, ...]] | None:
        """The name and the type of each column; None after a statement without rows."""
        if not self.rows.num_columns:
            return None
        return [(one.name, format_type_of(one), None, None, None, None, one.nullable) for one in self.rows.schema]

    @property
    def affected(self) -> int | None:
        """The number of rows that the last statement changed; None for other statements."""
        if AFFECTED not in self.rows.column_names:
            return None
        return self.rows[AFFECTED][0].as_py()

    def fetchmany(self, count: int) -> list[Row]:
        """The next rows."""
        taken = self.rows.slice(self.position, count)
        self.position += taken.num_rows
        return Result(taken).fetchall()

    def fetchall(self) -> list[Row]:
        """The rows that were not fetched yet."""
        return self.fetchmany(self.rows.num_rows)

    def fetchone(self) -> Row | None:
        """The next row; None behind the last one."""
        return next(iter(self.fetchmany(1)), None)


@dataclass(frozen=True)
class LakeHandle:
    """A connection. Threads have one each, because temporary views belong to it."""

    lake: Lake

    def cursor(self) -> LakeCursor:
        """A new cursor."""
        return LakeCursor(self.lake)
