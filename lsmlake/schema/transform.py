"""A partition transform: a function of one column whose results are the values of a partition field, as Iceberg defines it.

`identity`, `year`, `month`, `day`, `hour`, `bucket[N]` and `truncate[W]`. `kernels.transforms` computes them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import pyarrow as pa

from lsmlake.errors import InvalidSchema
from lsmlake.kernels import transforms as kernel
from lsmlake.types.type_table import DECIMAL, TABLE, ColumnType, column_type
from lsmlake.types.type_text import format_type

IDENTITY, BUCKET, TRUNCATE = "identity", "bucket", "truncate"
_TIMES = (kernel.YEAR, kernel.MONTH, kernel.DAY, kernel.HOUR)
_SUFFIX = {BUCKET: "bucket", TRUNCATE: "trunc"}
_STORED = re.compile(r"(identity|year|month|day|hour)|(bucket|truncate)\[([1-9][0-9]{0,9})\]")
_WIDTH_MAX = (1 << 31) - 1


@dataclass(frozen=True)
class Transform:
    """`width`: the N of bucket[N], the W of truncate[W]; None for other transforms."""

    name: str
    width: int | None = None

    @staticmethod
    def parse(text: str) -> Transform | None:
        """Parses the text that `str` gives a transform; None if it is no such text."""
        match = _STORED.fullmatch(text)
        if match is None or (match[3] and int(match[3]) > _WIDTH_MAX):
            return None
        return Transform(match[1]) if match[1] else Transform(match[2], int(match[3]))

    def __str__(self) -> str:
        return self.name if self.width is None else f"{self.name}[{self.width}]"

    @property
    def is_identity(self) -> bool:
        return self.name == IDENTITY

    @property
    def is_time(self) -> bool:
        return self.name in _TIMES

    @property
    def keeps_order(self) -> bool:
        """Whether a greater value never has a smaller result, so that the source values of a result are a range."""
        return self.name != BUCKET

    def field_name(self, column: str) -> str:
        """The name that Iceberg gives a field when a table is created."""
        return column if self.is_identity else f"{column}_{_SUFFIX.get(self.name, self.name)}"

    def added_name(self, column: str) -> str:
        """The name that Iceberg gives a field that is added to an existing table."""
        return self.field_name(column) if self.width is None else f"{self.field_name(column)}_{self.width}"

    def sql(self, column: str) -> str:
        """The call, as in PARTITIONED BY. `column`: its name, quoted if need be."""
        if self.is_identity:
            return column
        return f"{self.name}s({column})" if self.is_time else f"{self.name}({self.width}, {column})"

    def check(self, type_: pa.DataType, column: str, where: str) -> None:
        """Raises InvalidSchema unless the transform takes columns of this type."""
        row = column_type(type_)
        if row is None or not self._takes(row):
            raise InvalidSchema(
                f"{self.sql('...')} does not take this type",
                where=f"{where}, column {column!r}",
                expected=", ".join(one.name for one in (*TABLE, DECIMAL) if self._takes(one)),
                found=format_type(type_),
                cure="partition by another column or transform",
            )

    def _takes(self, row: ColumnType) -> bool:
        if self.is_identity:
            return True
        return self.name in row.units or (row.hashes and self.name == BUCKET) or (row.truncates and self.name == TRUNCATE)

    def result(self, type_: pa.DataType) -> pa.DataType:
        """The type of the results for a column of type `type_`."""
        small = pa.types.is_int8(type_) or pa.types.is_int16(type_)
        if self.is_time or self.name == BUCKET or (self.name == TRUNCATE and small):
            return pa.int32()
        return type_

    def apply(self, values: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
        """The results, of type `result`. The result of null is null."""
        if self.is_identity:
            return values
        if self.is_time:
            return kernel.time_units(values, self.name)
        if self.name == BUCKET:
            return kernel.bucket_numbers(values, self.width)
        return kernel.truncated(values, self.width, self.result(values.type))

    def sources(self, results: pa.Array, type_: pa.DataType) -> tuple[pa.Array, pa.Array]:
        """The least and the greatest source value of each result, inclusive, of type `type_`; null for null and if not known."""
        if self.is_identity:
            return results, results
        if self.is_time:
            return kernel.time_range(results, self.name, type_)
        if self.name == BUCKET:
            unknown = pa.nulls(len(results), type_)
            return unknown, unknown
        return kernel.truncated_range(results, self.width, type_)

    def human(self, result: object) -> object:
        """A result as Iceberg shows it: times as text such as '2026-01-02', others as they are."""
        return kernel.unit_text(result, self.name) if self.is_time and result is not None else result

    def end_ms(self, result: int) -> int:
        """The end of a unit of time, exclusive, in milliseconds since 1970."""
        return kernel.unit_end_ms(result, self.name)
