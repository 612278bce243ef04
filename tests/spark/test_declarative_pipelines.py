"""Spark's Declarative Pipelines: a sink of the format "lsmlake", and tables of lsmlake as sources of flows."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from effort import SCALE

import lsmlake

pytestmark = [pytest.mark.spark, pytest.mark.in_turn]

SPEC = "name: shop\nstorage: {storage}\nlibraries:\n  - glob:\n      include: flows/**\n"
FLOWS = """
import lsmlake
from pyspark import pipelines as dp
from pyspark.sql import SparkSession

spark = SparkSession.active()
lsmlake.register(spark)

dp.create_sink(
    "orders",
    "lsmlake",
    {{"path": "{lake}/shop.db/orders", "order-by": "lsn", "apply-as-deletes": "op = 'd'", "except-columns": "op"}},
)
dp.create_sink("paid", "lsmlake", {{"path": "{lake}/shop.db/paid"}})


@dp.append_flow(target="orders", name="orders_in")
def orders_in():
    return spark.readStream.schema("id BIGINT, status STRING, lsn BIGINT, op STRING").json("{folder}/in")


@dp.append_flow(target="paid", name="paid_in")
def paid_in():
    return spark.readStream.format("lsmlake").load("{lake}/shop.db/orders").where("status = 'paid'").select("id")
"""


def run(folder: Path) -> str:
    """What a run prints. Under SPARK_TESTING the server of Spark Connect takes any port that is free."""
    environment = os.environ | {"PYSPARK_PYTHON": sys.executable, "SPARK_TESTING": "1"}
    command = [str(Path(sys.executable).with_name("spark-pipelines")), "run", "--spec", "spark-pipeline.yml"]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=600)
    return done.stdout + done.stderr


def statuses(table: lsmlake.Table) -> dict[int, str]:
    return {row["id"]: row["status"] for row in table.to_arrow().to_pylist()}


def test_a_pipeline_writes_and_reads_tables_exactly_once(tmp_path: Path):
    lake = lsmlake.connect(tmp_path / "lake")
    lake.create_database("shop")
    options = {"sequence.field": "lsn", "bucket": 2}
    columns = "id BIGINT NOT NULL, status STRING, lsn BIGINT"
    orders = lake.create_table("shop.orders", columns, primary_key=["id"], options=options)
    paid = lake.create_table("shop.paid", "id BIGINT NOT NULL", primary_key=["id"])
    (tmp_path / "flows").mkdir()
    (tmp_path / "in").mkdir()
    (tmp_path / "spark-pipeline.yml").write_text(SPEC.format(storage=(tmp_path / "state").as_uri()))
    (tmp_path / "flows" / "flows.py").write_text(FLOWS.format(lake=tmp_path / "lake", folder=tmp_path))

    def arrive(name: str, *events: tuple) -> None:
        lines = (json.dumps(dict(zip(("id", "status", "lsn", "op"), event, strict=True))) for event in events)
        (tmp_path / "in" / name).write_text("\n".join(lines))

    arrive("a.json", (1, "new", 1, "c"), (1, "paid", 4, "u"), (2, "new", 2, "c"), (3, "paid", 3, "c"))
    said = run(tmp_path)
    assert "Run is COMPLETED" in said, said
    assert statuses(orders) == {1: "paid", 2: "new", 3: "paid"}
    if SCALE < 1:  # a run takes half a minute; the streams of the format are restarted in test_spark_format.py
        return
    arrive("b.json", (2, "paid", 6, "u"), (1, "late", 3, "u"), (3, "paid", 5, "d"))
    said = run(tmp_path)  # goes on where it ended
    assert "Run is COMPLETED" in said, said
    assert statuses(orders) == {1: "paid", 2: "paid"}
    written = [one for one in orders.snapshots().to_pylist() if one["commit_kind"] == "APPEND"]
    assert len({one["writer_id"] for one in written}) == 1 and [one["commit_id"] for one in written] == [0, 1]
    read = {one["id"] for one in paid.to_arrow().to_pylist()}
    assert {1, 3} <= read <= {1, 2, 3}  # flows of one run do not wait for each other
    assert orders.verify() == []
