"""Queries for all engines: columns, a filter of comparisons, and SQL that Spark, DuckDB and DataFusion all accept."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import NamedTuple

import pyarrow as pa

from bench.rows import KEY


class Read(NamedTuple):
    """`columns`: all that are read. `where`: comparisons that must all hold, (column, operator, number)."""

    name: str
    columns: tuple[str, ...]
    select: str
    where: tuple[tuple[str, str, float], ...] = ()
    group: str = ""

    @property
    def condition(self) -> str:
        """As SQL; empty: every row."""
        return " AND ".join(f"{column} {operator} {number}" for column, operator, number in self.where)

    def sql(self, table: str) -> str:
        where = f" WHERE {self.condition}" if self.where else ""
        return f"SELECT {self.select} FROM {table}{where}{f' GROUP BY {self.group}' if self.group else ''}"


def totals(schema: pa.Schema, columns: Sequence[str]) -> Read:
    """What tells whether a table is right: how many rows, and the sums of `columns`, whole numbers or decimals."""
    sums = [_sum(name, schema.field(name).type) for name in columns]
    return Read("totals", tuple(columns), ", ".join(["COUNT(*)", *sums]))


def _sum(name: str, kind: pa.DataType) -> str:
    return f"CAST(SUM({name}) * {10**kind.scale} AS BIGINT)" if pa.types.is_decimal(kind) else f"SUM({name})"


def keys_between(low: int, end: int) -> Read:
    return Read("new keys", (KEY,), "COUNT(*)", ((KEY, ">=", low), (KEY, "<", end)))


def normal(rows: Iterable[Sequence[object]]) -> list[list[object]]:
    """An answer, the same whichever engine gave it: rows in order, whole numbers exact, others to twelve digits."""
    return sorted([_plain(value) for value in row] for row in rows)


def _plain(value: object) -> object:
    if isinstance(value, (int, Decimal)) and value == int(value):
        return int(value)
    if isinstance(value, (float, Decimal)):
        return float(f"{float(value):.12g}")
    return "" if value is None else str(value)
