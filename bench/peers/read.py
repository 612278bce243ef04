"""Queries, said once for every engine: columns, a filter of comparisons, and SQL that Spark, DuckDB and DataFusion all take."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import NamedTuple

import pyarrow as pa

from bench.peers.data import KEY, THREE, totals_of


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


def totals(schema: pa.Schema) -> Read:
    """What tells whether a table is right: see `data`."""
    customer, quantity, amount = totals_of(schema)
    select = f"COUNT(*), SUM({customer}), SUM({quantity}), CAST(SUM({amount}) * 100 AS BIGINT)"
    return Read("totals", (customer, quantity, amount), select)


def of_orders(known: int) -> list[Read]:
    """The reads of a table of orders with keys below `known`."""
    low = known // 3
    return [
        Read(
            "grouped",
            ("city", "quantity", "price", "amount"),
            "city, COUNT(*), SUM(quantity), MAX(price), CAST(SUM(amount) AS DOUBLE)",
            group="city",
        ),
        Read("filter", ("customer", "price"), "COUNT(*), SUM(customer)", (("price", ">=", 9900),)),
        Read("range", (KEY, "quantity"), "COUNT(*), SUM(quantity)", ((KEY, ">=", low), (KEY, "<", low + max(known // 100, 1)))),
        Read("point", (KEY, "customer", "price"), f"{KEY}, customer, price", ((KEY, "=", low),)),
        Read("three", ("customer", "weight", "code"), "SUM(customer), MAX(weight), MIN(code)"),
    ]


def of_wide() -> list[Read]:
    return [Read("three of 200", THREE, ", ".join(f"MAX({name})" for name in THREE))]


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
