"""The examples of docs/orchestration.md: they compile, and their tasks load and maintain a real table.

A stand-in for the scheduler calls the tasks one after the other. It has the names that the examples use, and nothing else.
"""

from __future__ import annotations

import datetime as dt
import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lsmlake

PAGE = Path(lsmlake.__file__).parent / "docs" / "orchestration.md"
AIRFLOW, DAGSTER = re.findall(r"^```py\n(.*?)^```", PAGE.read_text(), re.M | re.S)
DAY = dt.datetime(2026, 1, 2, tzinfo=dt.timezone.utc)


@pytest.fixture
def here(tmp_path: Path) -> Path:
    """A folder in place of /data, with a table and the file of a day."""
    lake = lsmlake.connect(tmp_path / "lake")
    lake.create_database("sales")
    lake.create_table("sales.orders", "order_id INT, amount DOUBLE", primary_key=["order_id"])
    (tmp_path / "incoming").mkdir()
    rows = pa.table({"order_id": pa.array([1, 2], pa.int32()), "amount": [1.5, 2.5]})
    pq.write_table(rows, tmp_path / "incoming" / "2026-01-02.parquet")
    return tmp_path


def run(text: str, folder: Path) -> dict[str, object]:
    names: dict[str, object] = {}
    exec(compile(text.replace("/data/", f"{folder}/"), str(PAGE), "exec"), names)
    return names


class Step:
    """A task: called once by its name in the program, then by the stand-in."""

    def __init__(self, ran: list[object], function: Callable) -> None:
        ran.append(function(data_interval_start=DAY) if "data_interval_start" in function.__code__.co_varnames else function())

    def __rshift__(self, other: Step) -> Step:
        return other


def test_the_dag_of_airflow_loads_each_day_once(here: Path, monkeypatch: pytest.MonkeyPatch):
    ran: list[object] = []

    def task(function: Callable | None = None, **words: object) -> Callable:
        return (lambda: Step(ran, function)) if function else task

    module = ModuleType("airflow.sdk")
    module.dag = lambda **words: lambda function: function
    module.task = task
    monkeypatch.setitem(sys.modules, "airflow", ModuleType("airflow"))
    monkeypatch.setitem(sys.modules, "airflow.sdk", module)
    for _ in range(2):
        run(AIRFLOW, here)
    orders = lsmlake.connect(here / "lake").table("sales.orders")
    assert len(ran) == 4 and orders.count() == 2
    assert [row["writer_id"] for row in orders.snapshots().to_pylist()].count("airflow-orders") == 1


def test_the_assets_of_dagster_load_and_query_the_table(here: Path, monkeypatch: pytest.MonkeyPatch):
    plain = lambda *given, **words: given[0] if given else lambda function: function  # noqa: E731
    record = lambda **words: SimpleNamespace(**words)  # noqa: E731
    module = ModuleType("dagster")
    module.asset = module.op = module.job = plain
    module.DailyPartitionsDefinition = module.MaterializeResult = module.ScheduleDefinition = module.Definitions = record
    module.AssetExecutionContext = SimpleNamespace
    monkeypatch.setitem(sys.modules, "dagster", module)
    names = run(DAGSTER, here)
    for _ in range(2):
        assert names["orders"](SimpleNamespace(partition_key="2026-01-02")).metadata["rows"] == 2
    assert names["revenue"]().metadata == {"total": 4.0}
    names["upkeep"]()
    assert names["every_hour"].cron_schedule == "0 * * * *"
