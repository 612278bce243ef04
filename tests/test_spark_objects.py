"""Spark on a table in an object store: tasks read and write through the store, and no plan shows its credentials."""

from __future__ import annotations

from pathlib import Path

import pytest
from object_servers import SECRET, s3_server

import lsmlake

pytestmark = pytest.mark.spark


def test_dataframes_are_written_and_read_by_tasks(spark, capsys: pytest.CaptureFixture, tmp_path: Path):
    with s3_server() as server:
        lake = lsmlake.connect(server.warehouse(), storage_options=server.options, cache=tmp_path, spark=spark)
        lake.create_database("d")
        table = lake.create_table("d.t", "k BIGINT, v BIGINT", primary_key=["k"], options={"bucket": 2})
        table.upsert(spark.range(1000).selectExpr("id AS k", "id AS v"))  # the first batch is written by tasks
        table.upsert(spark.range(10).selectExpr("id AS k", "-id AS v"), compact=False)
        table.delete(where="k = 5")
        rows = table.df()
        assert rows.count() == 999
        assert [row.v for row in rows.filter("k < 8").orderBy("k").collect()] == [0, -1, -2, -3, -4, -6, -7]
        explained = str(table.scan().explain())
        assert "Python tasks read and mask, since Spark's own readers are not used on an object store" in explained
        rows.explain(True)
        assert SECRET not in capsys.readouterr().out + explained + str(rows)
        assert table.verify() == []
        assert list(tmp_path.rglob("*.part"))
