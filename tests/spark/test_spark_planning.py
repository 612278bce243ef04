"""A plan that Spark tasks make is the plan that this process makes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from plans import SMALL, described

import lsmlake
from lsmlake.api.lake import Lake
from lsmlake.errors import Corrupt
from lsmlake.spark import planning, tasks
from lsmlake.spark.spark_runtime import SparkRuntime
from lsmlake.storage.env import Limits

pytestmark = pytest.mark.spark
ENTRIES = 8


@pytest.fixture
def table(lake):
    """Files of four partitions that were added, moved to other levels and removed, in manifests of which some are merged."""
    columns = "p INT, k BIGINT NOT NULL, v STRING, w DOUBLE"
    options = {name: str(value) for name, value in SMALL.items()}
    made = lake.create_table("d.t", columns, primary_key=["p", "k"], partition_by=["p"], options=options)
    for number in range(9):
        keys, part = range(number, number + 40, 2), None if number % 4 == 3 else number % 4
        rows = {"p": [part] * len(keys), "k": list(keys), "v": [f"{number}"] * len(keys), "w": [k / 4 for k in keys]}
        made.upsert(rows, compact=number % 3 > 0)
    made.delete_keys({"p": [0, 1], "k": [4, 5]}, compact=False)
    made.alter(lsmlake.rename_column("w", "weight"))
    return made


def spread(spark, warehouse: Path, monkeypatch) -> tuple[Lake, list[int]]:
    """A lake whose plans are made by tasks, and the number of tasks of each plan."""
    here, parts = lsmlake.connect(warehouse), []

    def counted(spark, work, values):
        parts.append(len(values))
        return tasks_spread(spark, work, values)

    tasks_spread = tasks.spread
    monkeypatch.setattr(planning.tasks, "spread", counted)
    return Lake(replace(here.env, limits=Limits(driver_plan_entries=ENTRIES)), SparkRuntime(spark)), parts


@pytest.mark.connect(short="connect")
def test_plans_by_tasks_equal_those_of_one_process(spark, table, tmp_path, monkeypatch):
    far, parts = spread(spark, tmp_path / "warehouse", monkeypatch)
    for how in ({}, {"where": "k < 20 AND p < 2", "mode": "raw"}, {"where": "weight > 9.5 OR p IS NULL"}):
        found = far.table("d.t").scan(**how).plan()
        local = lsmlake.connect(tmp_path / "warehouse").table("d.t").scan(**how).plan()
        assert described(found) == described(local), how
        assert found.pruned == local.pruned
    assert len(parts) > 1 and 1 < max(parts) <= 6
    rows = far.table("d.t").df(where="weight > 9.5 OR p IS NULL", columns=["k", "weight"]).toPandas()
    wanted = table.scan(where="weight > 9.5 OR p IS NULL", columns=["k", "weight"]).to_pandas()
    assert sorted(map(tuple, rows.to_numpy())) == sorted(map(tuple, wanted.to_numpy()))


def test_a_damaged_manifest_is_named(spark, table, tmp_path, monkeypatch):
    far, _ = spread(spark, tmp_path / "warehouse", monkeypatch)
    name = table.manifests()["file_name"][-1].as_py()
    path = next((tmp_path / "warehouse").rglob(name))
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    with pytest.raises(Corrupt, match=name):
        far.table("d.t").scan().plan()
