"""Sources of rows: generated ones, or real ones from a pool. A row is a pure function of its key and version in both.

    generated       `bench.rows.orders`, 12 columns; needs no setup
    wide            200 columns of the same kind
    lineitem        TPC-H's largest table, 12 columns: decimals, dates, flags, comments
    orders          TPC-H's orders, 9 columns
    flights         the events of the flights that left New York in 2013, 15 columns, many values unknown

1. `pools` writes real rows to HOME/pools/NAME.parquet, once.
2. Key k as of version v is row (k + v * _STEP) mod (rows of the pool), with the key before it. The step is a prime above the size
   of any pool, so the next version of a row is another row; neighbouring keys are neighbours in the pool, as dates and clerks
   that come in runs are in life.
3. Each source says what tells a right table (`totals`: columns whose sums are exact, whole numbers or decimals) and what is asked
   of it (`reads`), in SQL that Spark, DuckDB and DataFusion answer alike. Filters compare with whole numbers: a decimal column
   takes those in every peer, while 0.05 is a decimal for one and a double for another.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bench import rows as generated
from bench.peers.read import Read
from bench.peers.setup import pool_of
from bench.rows import KEY

Make = Callable[[np.ndarray, "int | np.ndarray"], pa.Table]
"""The rows of these keys, in their order, as of a version, or each as of its own."""
_STEP = 1_000_000_007


class Source(NamedTuple):
    """`schema`: the key, then the columns. `reads`: of a table with keys below a number. `make`: None for rows of a pool."""

    name: str
    schema: pa.Schema
    totals: tuple[str, ...]
    reads: Callable[[int], list[Read]]
    make: Make | None = None

    def maker(self, home: Path) -> Make:
        """Reads the pool, if there is one. Raises NotReady."""
        return self.make or partial(pooled, self.schema, pq.read_table(pool_of(home, self.name)).combine_chunks())


def pooled(schema: pa.Schema, pool: pa.Table, ids: np.ndarray, version: int | np.ndarray) -> pa.Table:
    """Rows of the pool, see above."""
    rows = pool.take(pa.array((ids + version * _STEP) % pool.num_rows))
    return pa.table([pa.array(ids, pa.int64()), *rows.columns], schema=schema)


# -- made by draws ----------------------------------------------------------------------------------------------------

WIDE = 200
THREE = ("customer_0", "quantity_0", "weight_0")
"""The columns of a wide row that are updated alone."""
_WIDE_VERSIONS = 32


def wide(ids: np.ndarray, version: int | np.ndarray) -> pa.Table:
    """The key, then the columns of orders again and again, `customer_0`, ..., each time of other draws."""
    columns = [pa.array(ids, pa.int64())]
    for block in range(-(-(WIDE - 1) // (len(generated.SCHEMA) - 1))):
        columns += generated.orders(ids, version * _WIDE_VERSIONS + block).columns[1:]
    return pa.table(columns[:WIDE], schema=_WIDE_SCHEMA)


def _wide_schema() -> pa.Schema:
    key, *fields = generated.SCHEMA
    return pa.schema([key, *(fields[at % len(fields)].with_name(_numbered(fields, at)) for at in range(WIDE - 1))])


def _numbered(fields: list[pa.Field], at: int) -> str:
    return f"{fields[at % len(fields)].name}_{at // len(fields)}"


_WIDE_SCHEMA = _wide_schema()


# -- out of a pool ----------------------------------------------------------------------------------------------------


def _schema(**columns: pa.DataType) -> pa.Schema:
    return pa.schema([generated.SCHEMA.field(KEY), *(pa.field(name, kind) for name, kind in columns.items())])


_MONEY, _INSTANT = pa.decimal128(15, 2), pa.timestamp("us", "UTC")
_LINEITEM = _schema(
    l_partkey=pa.int64(),
    l_suppkey=pa.int64(),
    l_quantity=_MONEY,
    l_extendedprice=_MONEY,
    l_discount=_MONEY,
    l_tax=_MONEY,
    l_returnflag=pa.string(),
    l_linestatus=pa.string(),
    l_shipdate=pa.date32(),
    l_shipmode=pa.string(),
    l_comment=pa.string(),
)
_ORDERS = _schema(
    o_custkey=pa.int64(),
    o_orderstatus=pa.string(),
    o_totalprice=_MONEY,
    o_orderdate=pa.date32(),
    o_orderpriority=pa.string(),
    o_clerk=pa.string(),
    o_shippriority=pa.int32(),
    o_comment=pa.string(),
)
_FLIGHTS = _schema(
    month=pa.string(),
    flight_date=pa.date32(),
    carrier=pa.string(),
    flight=pa.int32(),
    origin=pa.string(),
    planned=_INSTANT,
    dest=pa.string(),
    tailnum=pa.string(),
    distance=pa.int32(),
    status=pa.string(),
    dep_delay=pa.int32(),
    air_time=pa.int32(),
    arr_delay=pa.int32(),
    event_time=_INSTANT,
)


# -- what is asked ----------------------------------------------------------------------------------------------------


def _keyed(known: int, number: str, shown: str) -> list[Read]:
    """A hundredth of the keys, of which `number` is summed, and one key, of which `number` and `shown` are shown."""
    low = known // 3
    hundredth = ((KEY, ">=", low), (KEY, "<", low + max(known // 100, 1)))
    return [
        Read("range", (KEY, number), f"COUNT(*), SUM({number})", hundredth),
        Read("point", (KEY, number, shown), f"{KEY}, {number}, {shown}", ((KEY, "=", low),)),
    ]


def _of_generated(known: int) -> list[Read]:
    grouped = "city, COUNT(*), SUM(quantity), MAX(price), CAST(SUM(amount) AS DOUBLE)"
    return [
        Read("grouped", ("city", "quantity", "price", "amount"), grouped, group="city"),
        Read("filter", ("customer", "price"), "COUNT(*), SUM(customer)", (("price", ">=", 9900),)),
        *_keyed(known, "quantity", "price"),
        Read("three", ("customer", "weight", "code"), "SUM(customer), MAX(weight), MIN(code)"),
    ]


def _of_wide(known: int) -> list[Read]:
    return [Read("three of 200", THREE, ", ".join(f"MAX({name})" for name in THREE))]


def _of_lineitem(known: int) -> list[Read]:
    """The first two after TPC-H's queries 1 and 6."""
    flags, price = "l_returnflag, l_linestatus", "l_extendedprice"
    sums = [f"CAST(SUM({what}) AS DOUBLE)" for what in ("l_quantity", price, f"{price} * (1 - l_discount)")]
    large = (("l_quantity", "<", 24), (price, ">=", 39_000))
    return [
        Read(
            "grouped",
            ("l_returnflag", "l_linestatus", "l_quantity", price, "l_discount"),
            f"{flags}, COUNT(*), {', '.join(sums)}",
            group=flags,
        ),
        Read(
            "filter",
            ("l_quantity", price, "l_discount"),
            f"COUNT(*), CAST(SUM({price} * l_discount) AS DOUBLE)",
            large,
        ),
        *_keyed(known, "l_partkey", price),
        Read("three", ("l_suppkey", "l_shipdate", "l_comment"), "SUM(l_suppkey), MAX(l_shipdate), MIN(l_comment)"),
    ]


def _of_orders(known: int) -> list[Read]:
    total, priority = "o_totalprice", "o_orderpriority"
    grouped = f"{priority}, COUNT(*), CAST(SUM({total}) AS DOUBLE), MAX(o_orderdate)"
    return [
        Read("grouped", (priority, total, "o_orderdate"), grouped, group=priority),
        Read("filter", ("o_custkey", total), "COUNT(*), SUM(o_custkey)", ((total, ">=", 340_000),)),
        *_keyed(known, "o_custkey", total),
        Read("three", ("o_custkey", "o_clerk", "o_comment"), "SUM(o_custkey), MAX(o_clerk), MIN(o_comment)"),
    ]


def _of_flights(known: int) -> list[Read]:
    grouped = "carrier, COUNT(*), SUM(dep_delay), MAX(arr_delay), SUM(distance)"
    return [
        Read("grouped", ("carrier", "dep_delay", "arr_delay", "distance"), grouped, group="carrier"),
        Read("filter", ("flight", "dep_delay"), "COUNT(*), SUM(flight)", (("dep_delay", ">=", 160),)),
        *_keyed(known, "distance", "carrier"),
        Read("three", ("distance", "air_time", "tailnum"), "SUM(distance), MAX(air_time), MIN(tailnum)"),
    ]


SOURCES = MappingProxyType(
    {
        source.name: source
        for source in (
            Source("generated", generated.SCHEMA, ("customer", "quantity", "amount"), _of_generated, generated.orders),
            Source("wide", _WIDE_SCHEMA, ("customer_0", "quantity_0", "amount_0"), _of_wide, wide),
            Source("lineitem", _LINEITEM, ("l_partkey", "l_quantity", "l_extendedprice"), _of_lineitem),
            Source("orders", _ORDERS, ("o_custkey", "o_totalprice"), _of_orders),
            Source("flights", _FLIGHTS, ("flight", "distance", "dep_delay"), _of_flights),
        )
    }
)
