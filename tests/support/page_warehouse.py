"""Warehouses for the tests of the page: one with a bit of everything, and texts that try to become HTML."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pyarrow as pa

import lsmlake
from lsmlake import Lake
from lsmlake.api.table import Table

HOSTILE = '<img src=x onerror="window.hacked=1"></script><script>window.hacked=1</script>\'"`&amp;'
"""A text that would run as a program if any part of the page took it for HTML."""


def small(folder: Path) -> Lake:
    """Keyed tables with partitions, a branch, tags, a consumer, compactions; an append-only table; one without rows; and one
    whose every text is hostile."""
    lake = lsmlake.connect(folder)
    lake.create_database("sales")
    options = {"bucket": 2, "write-only": True, "num-sorted-run.compaction-trigger": 4}
    orders = lake.create_table(
        "sales.orders",
        "dt DATE NOT NULL, order_id BIGINT NOT NULL, status STRING, amount DECIMAL(10,2)",
        primary_key=["dt", "order_id"],
        partition_by=["dt"],
        options=options,
        comment="Orders of all shops",
    )
    for number in range(12):
        orders.upsert(order_rows(number), writer_id="loader", commit_id=number + 1)
        if number in (2, 6, 10):
            orders.compact(full=number == 2)
        if number == 4:
            orders.create_tag("eod-1")
    orders.create_branch("trial", tag="eod-1")
    orders.reset_consumer("dashboard", 6)
    events = lake.create_table("sales.events", "at TIMESTAMP, kind STRING, size INT")
    events.append([{"at": dt.datetime(2026, 1, 1, 12, n, tzinfo=dt.timezone.utc), "kind": "view", "size": n} for n in range(50)])
    lake.create_table("sales.no_rows_yet", "id INT NOT NULL, v STRING", primary_key=["id"])
    hostile(lake)
    return lake


def order_rows(number: int) -> pa.Table:
    """The rows of a write: new orders, and changes of some older ones."""
    first = number * 150
    keys = sorted({*range(first, first + 300), *range(0, first, 7 + number)})
    days = [dt.date(2026, 1, 1 + key // 700) for key in keys]
    return pa.table(
        {
            "dt": pa.array(days, pa.date32()),
            "order_id": pa.array(keys, pa.int64()),
            "status": ["open" if key % 3 else "done" for key in keys],
            "amount": pa.array([f"{key % 97}.50" for key in keys]).cast(pa.decimal128(10, 2)),
        }
    )


def hostile(lake: Lake) -> Table:
    """A table whose column names, comments, values, partitions and writer try to run a program in the page."""
    columns = pa.schema(
        [
            pa.field("part", pa.string(), nullable=False),
            pa.field("key", pa.string(), nullable=False),
            pa.field(HOSTILE, pa.string(), metadata={"comment": HOSTILE}),
        ]
    )
    table = lake.create_table(
        "sales.hostile", columns, primary_key=["part", "key"], partition_by=["part"], options={"bucket": 1}, comment=HOSTILE
    )
    table.upsert([{"part": HOSTILE, "key": HOSTILE, HOSTILE: HOSTILE}], writer_id=HOSTILE, commit_id=1)
    table.upsert([{"part": HOSTILE, "key": HOSTILE, HOSTILE: "again"}], writer_id=HOSTILE, commit_id=2)
    return table
