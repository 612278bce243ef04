"""Spark on tables in an object store: every verb, by Python tasks and, if the session has a connector, by Catalyst.

No plan, text, error or event log shows the credentials that the user gave. The connector of Hadoop for S3 is too large to be
installed for tests: LSMLAKE_HADOOP_AWS names its jars, with those of the AWS SDK, separated by colons. Without it the tests that
start sessions of their own, with event logs, are skipped.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from object_program import ROWS, work
from object_servers import SECRET, Server, s3_server
from spark_support import JVM_OPTIONS

import lsmlake

pytestmark = pytest.mark.spark

PROGRAM = Path(__file__).parents[1] / "support" / "object_program.py"
NO_CONNECTOR = "the session has no Hadoop connector for s3a://"
JARS = os.environ.get("LSMLAKE_HADOOP_AWS", "")


def connector(server: Server, other: Mapping[str, str] = {}) -> dict[str, str]:
    """Settings of a session that reaches the server by s3a, except for the `other`."""
    given = {
        "endpoint": server.endpoint,
        "endpoint.region": "us-east-1",
        "path.style.access": "true",
        "access.key": "key",
        "secret.key": SECRET,
    }
    return {f"spark.hadoop.fs.s3a.{name}": value for name, value in {**given, **other}.items()}


def run(folder: Path, server: Server, kind: str, settings: Mapping[str, str] = {}) -> dict[str, object]:
    """What the program found. Nothing that it or Spark wrote contains the credentials."""
    for name in ("spark", "events"):
        (folder / name).mkdir()
    logged = {"enabled": "true", "compress": "false", "rolling.enabled": "false", "dir": str(folder / "events")}
    all_settings = {f"spark.eventLog.{name}": value for name, value in logged.items()} | dict(settings)
    environment = {
        **os.environ,
        "SPARK_SUBMIT_OPTS": " ".join([JVM_OPTIONS, *(f"-D{name}={value}" for name, value in all_settings.items())]),
        "PYSPARK_SUBMIT_ARGS": f"--driver-class-path '{JARS}' pyspark-shell" if settings else "pyspark-shell",
    }
    command = [sys.executable, str(PROGRAM), str(folder), server.warehouse(), kind]
    given = json.dumps(server.options)
    done = subprocess.run(command, input=given, capture_output=True, text=True, timeout=600, check=False, env=environment)
    assert SECRET not in done.stdout and SECRET not in done.stderr
    assert done.returncode == 0, done.stderr[-4000:]
    events = [path.read_text() for path in (folder / "events").iterdir()]
    assert events and SECRET not in "".join(events)
    return json.loads(done.stdout.splitlines()[-1])


def check(found: Mapping[str, object]) -> None:
    """The rows are those that the statements of the program make."""
    rows = {k: [k, k % 2, -k if k < 20 else k] for k in range(ROWS) if k != 5}
    rows |= {0: [0, 0, 1000], 1: [1, 1, 1001], 6: [6, 0, 600], 7: [7, 1, -6]}
    for strategy in ("auto", "arrow"):
        assert found["rows"][strategy] == sorted(rows.values())
    assert (found["branch"], found["files"], found["verified"]) == (2, True, 0)
    assert found["changes"] == 2 * 19  # the value of key 0 did not change
    assert found["counted"] == ROWS // 2 - 1
    assert found["copied"] == ROWS - 1


def test_without_a_connector_tasks_do_it_all(spark, s3, tmp_path, capfd):
    try:
        lake = lsmlake.connect(s3.warehouse(), storage_options=s3.options, cache=tmp_path / "cache", spark=spark)
        found = work(spark, tmp_path, lake)
    finally:
        spark.sql("DROP DATABASE IF EXISTS d CASCADE")
    check(found)
    assert f"Python tasks read and mask, since {NO_CONNECTOR}" in found["explained"]
    assert list((tmp_path / "cache").rglob("*.part"))
    assert SECRET not in "".join([json.dumps(found), *capfd.readouterr()])


needs_jars = pytest.mark.skipif(not JARS, reason="LSMLAKE_HADOOP_AWS does not name the jars of hadoop-aws and the AWS SDK")


@needs_jars
@pytest.mark.parametrize("kind", ["classic", "connect"])
def test_event_logs_without_a_connector(s3, tmp_path, kind):
    found = run(tmp_path, s3, kind)
    check(found)
    assert NO_CONNECTOR in found["explained"]


@needs_jars
@pytest.mark.parametrize("kind", ["classic", "connect"])
def test_with_a_connector_catalyst_reads(s3, tmp_path, kind):
    found = run(tmp_path, s3, kind, connector(s3))
    check(found)
    assert "spark native: Catalyst scan by the session's connector for s3a://" in found["explained"]
    assert "FileScan parquet" in found["shown"] and "s3a://" in found["shown"]


@needs_jars
@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"access.key": "", "secret.key": ""}, "connector for s3a:// has no valid credentials"),
        ({"endpoint": "http://127.0.0.1:9"}, "connector for s3a:// fails (ConnectException)"),
        ({"endpoint": "another"}, "connector for s3a:// finds another store"),
    ],
    ids=["credentials", "connection", "store"],
)
def test_a_connector_that_does_not_reach_the_store_is_not_used(s3, tmp_path, settings, reason):
    with s3_server() as another:
        given = {name: another.endpoint if value == "another" else value for name, value in settings.items()}
        found = run(tmp_path, s3, "classic", connector(s3, given))
    check(found)
    assert f"Python tasks read and mask, since the session's {reason}" in found["explained"]
