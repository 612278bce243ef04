"""The statements of `scenarios` in this process: by the methods of a table, with sources of each kind, and by SQL."""

from __future__ import annotations

from functools import cache

import pytest
from effort import sampled
from scenarios import CASES, DDL, KINDS, START, Case, batch, counts, given, leaves, named, run, sql
from strategies import copied, lake_on, new_lake

from lsmlake.api.lake import Lake
from lsmlake.api.runtime import Runtime
from lsmlake.api.table import Table
from lsmlake.storage.memory import MemoryStorage
from lsmlake.warehouse import EmbeddedRuntime


@cache
def world(kind: str) -> MemoryStorage:
    """A table of a kind, in two commits."""
    storage = MemoryStorage()
    table = new_lake(storage).create_table("d.t", DDL, **KINDS[kind])
    write = table.upsert if table.primary_key else table.append
    write(batch(START[:3]))
    write(batch(START[3:]))
    return storage


def opened(kind: str) -> Table:
    return lake_on(copied(world(kind)), "b-").table("d.t")


@pytest.mark.parametrize("kind", KINDS)
def test_methods(kind):
    for name, case in CASES.items():
        table = opened(kind)

        def counted(table: Table = table, case: Case = case) -> tuple[int, int, int]:
            source = given(case)
            return counts(run(table, case.does, table if source is None else source))

        with named(kind, name):
            leaves(table, case, kind, counted)


@pytest.mark.parametrize("kind", KINDS)
def test_sql(kind):
    for number, case in enumerate(CASES.values()):
        if not sampled(number + list(KINDS).index(kind), len(KINDS)):
            continue
        text, table = sql(case.does), opened(kind)
        if text is None:
            continue
        lake = Lake(table.meta.env, EmbeddedRuntime(lambda spark: Runtime()))

        def counted(lake=lake, text: str = text, case: Case = case) -> tuple[int, int, int]:
            source = given(case)
            (row,) = lake.sql(text, tables={} if source is None else {"source": source}).to_arrow().to_pylist()
            return row["num_inserted_rows"], row["num_updated_rows"], row["num_deleted_rows"]

        with named(kind, text):
            leaves(table, case, kind, counted)
