"""Health of tables: the numbers against a naive count, thresholds, exit codes, SQL and metrics."""

from __future__ import annotations

import json
import sys
import urllib.request
from pathlib import Path

import pyarrow as pa
import pytest
from command_line import call
from typer.testing import CliRunner

import lsmlake
from lsmlake import Lake
from lsmlake.api.table import Table
from lsmlake.cli.app import app
from lsmlake.errors import InvalidOption, InvalidQuery, MissingDependency
from lsmlake.extras import need
from lsmlake.maintain.work_history import WorkRecord

COLUMNS = "k INT NOT NULL, v INT"


@pytest.fixture
def table(lake: Lake) -> Table:
    made = lake.create_table("d.t", COLUMNS, primary_key=["k"], options={"bucket": 2, "write-only": True})
    made.upsert(rows(0, 100), writer_id="job", commit_id=1)
    made.compact(full=True)
    made.upsert(rows(90, 30), compact=True)
    made.upsert(rows(0, 10))
    made.upsert(rows(5, 10), writer_id="job", commit_id=2)
    made.reset_consumer("reader", 2)
    made.create_tag("kept", 1)
    return made


def rows(first: int, count: int) -> pa.Table:
    return pa.table({"k": pa.array(range(first, first + count), pa.int32()), "v": pa.array([first] * count, pa.int32())})


def only(health: pa.Table) -> dict:
    (row,) = health.to_pylist(maps_as_pydicts="strict")
    return row


def test_the_numbers_are_those_of_the_files(lake: Lake, table: Table):
    row, files, snapshots = only(lake.health()), table.files().to_pylist(), table.snapshots().to_pylist()
    level0 = [file for file in files if file["level"] == 0]
    counted = {
        "table_name": "d.t",
        "snapshot_id": snapshots[-1]["snapshot_id"],
        "commit_time": snapshots[-1]["commit_time"],
        "file_count": len(files),
        "file_size_in_bytes": sum(file["file_size_in_bytes"] for file in files),
        "bucket_count": len({file["bucket"] for file in files}),
        "level0_runs": max(sum(file["bucket"] == bucket for file in level0) for bucket in (0, 1)),
        "level0_rows": sum(file["record_count"] for file in level0),
        "level0_bytes": sum(file["file_size_in_bytes"] for file in level0),
        "oldest_unmerged_time": min(file["creation_time"] for file in level0),
        "dead_rows": sum(file["deleted_record_count"] for file in files),
        "snapshot_count": len(snapshots),
        "consumer_lag": {"reader": len(snapshots) - 1},
        "last_commits": {"job": snapshots[-1]["commit_time"]},
        "publication_lag": None,
        "due": ["compact"],
        "error": None,
    }
    assert {name: row[name] for name in counted} == counted and row["snapshots_held"]["tags"] == 1
    assert row["dead_share"] == row["dead_rows"] / sum(file["record_count"] for file in files) > 0
    lake.maintain()
    row = only(lake.health())
    assert (row["level0_runs"], row["level0_rows"], row["oldest_unmerged_time"], row["due"]) == (0, 0, None, [])


def test_an_append_only_table_has_nothing_to_merge(lake: Lake):
    table = lake.create_table("d.log", "a INT")
    for _ in range(3):
        table.append([{"a": 1}])
    row = only(lake.health())
    assert (row["level0_runs"], row["level0_rows"], row["small_files"], row["file_count"]) == (0, 0, 2, 3)


def test_thresholds_are_options_unless_a_call_gives_them(lake: Lake, table: Table):
    assert only(lake.health())["problems"] == []
    given = {"level0_runs": 1, "unmerged_time": "0 s", "dead_share": 0.01, "consumer_lag": 2, "commit_time": "0 s"}
    problems = only(lake.health(**given))["problems"]
    assert len(problems) == 5, problems
    assert problems[0] == "2 runs wait at level 0 of a bucket, more than 1"
    assert problems[3] == "consumer 'reader' is 4 snapshots behind, more than 2"
    table.alter(lsmlake.set_option("maintain.alert.level0-runs", 1), lsmlake.set_option("maintain.alert.consumer-lag", 4))
    assert [problem[:6] for problem in only(lake.health())["problems"]] == ["2 runs", "consum"]
    wrongs = ({"level0_runs": -1}, InvalidQuery), ({"dead_share": 2.0}, InvalidOption), ({"commit_time": "x"}, InvalidOption)
    for wrong, error in wrongs:
        with pytest.raises(error):
            lake.health(**wrong)


def test_snapshots_that_stay_have_a_reason(lake: Lake):
    options = {"snapshot.num-retained.min": 1, "snapshot.time-retained": "0 s", "snapshot.expire.on-commit": False}
    table = lake.create_table("d.t", COLUMNS, primary_key=["k"], options=options)
    for number in range(4):
        table.upsert(rows(number, 1))
    table.reset_consumer("slow", 2)
    held = only(lake.health())["snapshots_held"]
    assert held == {"consumer 'slow' reads snapshot 2 next": 3}


def test_sql_and_the_command_line_show_the_same(lake: Lake, table: Table, tmp_path: Path):
    where = str(tmp_path / "warehouse")
    listed = json.loads(call("health", where, "--json"))
    assert listed[0]["table_name"] == "d.t" and listed[0]["level0_rows"] == 20
    sql = lake.sql("SELECT table_name, level0_rows, due FROM sys.health WHERE snapshot_count > 0").fetchall()
    assert sql == [("d.t", 20, ["compact"])]
    assert lake.sql("SELECT count(*) FROM sys.maintenance").fetchall()[0][0] == table.system_table("maintenance").num_rows > 0
    bad = CliRunner().invoke(app, ["health", where, "--level0-runs", "1"])
    assert (bad.exit_code, bad.stderr) == (1, "error: d.t: 2 runs wait at level 0 of a bucket, more than 1\n")
    planned = call("maintain", where, "--plan")
    assert "d.t" in planned and "compact" in planned and "20 rows at level 0" in planned
    assert call("maintain", where, "--once", "--table", "d.t").splitlines()[1].startswith("d.t")
    assert call("maintain", "-w", where).splitlines()[1:] == []
    lake.create_database("sys")
    with pytest.raises(lsmlake.errors.TableNotFound):
        lake.sql("SELECT * FROM sys.health")


def test_a_table_that_cannot_be_read_is_a_row_and_a_failure(lake: Lake, table: Table, tmp_path: Path):
    lake.create_table("d.good", COLUMNS, primary_key=["k"])
    list_path = tmp_path / "warehouse" / table.meta.paths.manifest(table.version.snapshot.base_manifest_list.name)
    list_path.write_bytes(b"broken")
    fresh = lsmlake.connect(tmp_path / "warehouse")
    by_name = {row["table_name"]: row for row in fresh.health().to_pylist()}
    assert by_name["d.good"]["error"] is None and list_path.name in by_name["d.t"]["error"]
    done = CliRunner().invoke(app, ["maintain", str(tmp_path / "warehouse")])
    assert done.exit_code == 1 and done.stderr.startswith("error: d.t: ") and list_path.name in done.stderr


def test_metrics_have_the_names_and_units_of_prometheus(lake: Lake, table: Table):
    pytest.importorskip("prometheus_client", reason="the extra metrics is not installed")
    from prometheus_client.parser import text_string_to_metric_families as parsed

    from lsmlake.api.metrics import GAUGES, Metrics

    metrics = Metrics(lake)
    metrics.count([WorkRecord("d.t", "compact", "why", 1000, 3500, 7, 5, 100, 50, 40, 2, 1)])
    metrics.count([WorkRecord("d.t", "compact", "why", 4000, 4000, error="no")])
    end = metrics.serve(18_347)
    try:
        with pytest.raises(InvalidQuery, match="cannot be served at this port"):
            metrics.serve(18_347)
        text = urllib.request.urlopen("http://127.0.0.1:18347/metrics").read().decode()
    finally:
        end()
    values = {(s.name, *sorted(s.labels.items())): s.value for family in parsed(text) for s in family.samples}
    row, label = only(lake.health()), ("table", "d.t")
    assert values["lsmlake_level0_rows", label] == row["level0_rows"] == 20
    assert values["lsmlake_last_commit_timestamp_seconds", label] == pytest.approx(row["commit_time"].timestamp())
    assert values["lsmlake_table_up", label] == 1 and values["lsmlake_problems", label] == 0
    assert values["lsmlake_consumer_lag_snapshots", ("consumer", "reader"), label] == row["consumer_lag"]["reader"]
    work = ("kind", "compact")
    assert values["lsmlake_maintenance_works_total", work, ("outcome", "done"), label] == 1
    assert values["lsmlake_maintenance_works_total", work, ("outcome", "failed"), label] == 1
    assert values["lsmlake_maintenance_seconds_total", work, label] == 2.5
    assert values["lsmlake_maintenance_written_bytes_total", work, label] == 40
    assert {f"lsmlake_{gauge.name}" for gauge in GAUGES} <= {family.name for family in parsed(text)}


def test_the_missing_package_of_metrics_is_named(lake: Lake, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    with pytest.raises(MissingDependency, match=r"lsmlake\[metrics\]"):
        need("prometheus_client", "metrics")
