"""The statements of `scenarios` as Spark plans. Each runs on one kind of table, and on all of them on a long run."""

from __future__ import annotations

from dataclasses import replace

import pytest
from effort import sampled
from scenarios import CASES, DDL, KINDS, START, batch, counts, given, leaves, named, run

from lsmlake.api.lake import Lake
from lsmlake.storage.env import Limits

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("kind", KINDS)
def test_plans(spark, spark_lake, lake, kind):
    planning = Lake(replace(spark_lake.env, limits=Limits(driver_statement_bytes=1)), spark_lake.runtime)
    for number, (name, case) in enumerate(CASES.items()):
        if not sampled(number + list(KINDS).index(kind), len(KINDS)):
            continue
        table = lake.create_table("d.t", DDL, **KINDS[kind])
        write = table.upsert if table.primary_key else table.append
        write(batch(START[:3]))
        write(batch(START[3:]))
        table = planning.table("d.t")

        def counted(table=table, case=case) -> tuple[int, int, int]:
            rows = given(case)
            return counts(run(table, case.does, table if rows is None else spark.createDataFrame(rows)))

        with named(kind, name):
            leaves(table, case, kind, counted)
        lake.drop_table("d.t")
