"""The columns of relations, with the types of Spark SQL."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from dbt.adapters.base.column import Column

from lsmlake.types.type_text import backticked

_TEXTS = ("string", "varchar", "char")


@dataclass
class LsmlakeColumn(Column):
    """A column. `dtype`: its whole type, such as DECIMAL(10,2)."""

    TYPE_LABELS: ClassVar[dict[str, str]] = {"TEXT": "STRING"}

    @property
    def quoted(self) -> str:
        return backticked(self.column)

    @property
    def data_type(self) -> str:
        return self.dtype

    @property
    def _kind(self) -> str:
        return self.dtype.partition("(")[0].strip().lower()

    def is_string(self) -> bool:
        return self._kind in _TEXTS

    def is_integer(self) -> bool:
        return self._kind in ("tinyint", "byte", "smallint", "short", "int", "integer", "bigint", "long")

    def is_float(self) -> bool:
        return self._kind in ("float", "real", "double")

    def is_numeric(self) -> bool:
        return self._kind in ("decimal", "dec", "numeric")

    def can_expand_to(self, other_column: Column) -> bool:
        """Never: STRING has no length, and on_schema_change = sync_all_columns alters other types."""
        return False

    def literal(self, value: Any) -> str:
        return f"cast({value} as {self.dtype})"

    @classmethod
    def string_type(cls, size: int | None = None) -> str:
        return "STRING"
