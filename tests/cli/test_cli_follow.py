"""`lsmlake follow`: lines of changes, of events, and how it ends; `lsmlake history` and `lsmlake refresh`."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from command_line import call, complaint

import lsmlake
from lsmlake import Table

PROGRAM = [sys.executable, "-c", "from lsmlake.cli.main import run; run()", "follow", "d.t"]


@pytest.fixture
def table(tmp_path: Path) -> Table:
    lake = lsmlake.connect(tmp_path / "lake")
    lake.create_database("d")
    made = lake.create_table("d.t", "id BIGINT NOT NULL, name STRING", primary_key=["id"], options={"bucket": 1})
    made.upsert([{"id": 1, "name": "ü"}, {"id": 2, "name": "b"}])
    made.upsert([{"id": 1, "name": None}])
    made.delete_keys([{"id": 2}])
    return made


def lines(table: Table, *options: str) -> list[dict[str, object]]:
    printed = call("follow", "d.t", "--once", *options, "-w", table.meta.env.storage.root)
    return [json.loads(line) for line in printed.splitlines()]


def test_lines_are_rows_or_events(table: Table):
    assert lines(table) == [{"_row_kind": "+I", "id": 1, "name": None}]
    kinds = [line["_row_kind"] for line in lines(table, "--snapshot", "1", "--columns", "id", "--commit-columns")]
    assert kinds == ["+I", "+I", "-U", "+U", "-D"]
    assert [line["op"] for line in lines(table, "--snapshot", "1", "--format", "debezium-json")] == ["c", "c", "u", "d"]
    described = '{"name": "debezium-json", "schema": true, "tombstones": false}'
    assert {*lines(table, "--format", described)[0]} == {"schema", "payload"}
    (document,) = lines(table, "--snapshot", "3", "--format", "mongodb")
    assert (document["op"], document["source"]["collection"]) == ("d", "t") and '"_id"' in document["before"]
    messages = lines(table, "--snapshot", "3", "--format", "plain", "--keys")
    assert messages == [{"key": '{"id":2}', "value": None}]


def test_a_consumer_continues(table: Table):
    assert len(lines(table, "--consumer", "bus")) == 1
    table.upsert([{"id": 3, "name": "c"}])
    assert [line["id"] for line in lines(table, "--consumer", "bus")] == [3]
    assert lines(table, "--consumer", "bus") == []


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--format", "plain"], "add --keys"),
        (["--once", "--wait", "5"], "leave out --wait or --once"),
        (["--start", "from-timestamp"], "add --timestamp TIME"),
        (["--keys"], "add --format"),
        (["--format", "{"], "no format of events"),
        (["--format", '{"name": "canal-json", "scheme": true}'], "unknown ['scheme']"),
        (["--format", '{"name": "debezium-avro", "registry": "http://x"}'], "are bytes, which have no lines"),
        (["--format", "canal-json", "--commit-columns"], "leave one of them out"),
        (["--wait", "0"], "wait is out of range"),
    ],
)
def test_options_that_contradict_are_refused_in_one_line(table: Table, options: list[str], words: str):
    assert words in complaint("follow", "d.t", *options, "-w", table.meta.env.storage.root)


def test_ctrl_c_ends_it_after_whole_lines(table: Table):
    where = table.meta.env.storage.root
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    how = ["--wait", "0.05", "-w", where, "--snapshot", "1"]
    with subprocess.Popen(
        [*PROGRAM, *how], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as running:
        first = [running.stdout.readline() for _ in range(5)]
        table.upsert([{"id": 9, "name": "x"}])
        assert json.loads(running.stdout.readline())["id"] == 9
        running.send_signal(signal.SIGINT)
        rest, error = running.communicate(timeout=600)
    assert (running.returncode, rest, error) == (130, "", "interrupted\n")
    assert [json.loads(line)["_row_kind"] for line in first] == ["+I", "+I", "-U", "+U", "-D"]


def test_a_closed_pipe_ends_it_with_the_next_line(table: Table):
    where = table.meta.env.storage.root
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    called = [*PROGRAM, "--wait", "0.05", "-w", where]
    with subprocess.Popen(called, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
        running.stdout.readline()
        running.stdout.close()
        table.upsert([{"id": 9, "name": "x"}])
        assert (running.wait(timeout=600), running.stderr.read()) == (141, b"")


def test_a_history_is_brought_up_to_date(table: Table):
    where = table.meta.env.storage.root
    first = json.loads(call("history", "d.t", "d.h", "--start", "earliest-full", "--json", "-w", where))
    assert first == {"history": "d.h", "versions": 3, "valid": 1}
    table.upsert([{"id": 2, "name": "c"}])
    assert call("history", "d.t", "d.h", "-w", where) == "d.h: 4 versions, 2 of them valid now\n"
    assert "another track" in complaint("history", "d.t", "d.h", "--track", "name", "-w", where)
    assert "d.none" in complaint("history", "d.none", "d.x", "-w", where)


def test_a_view_table_is_refreshed(table: Table):
    where = table.meta.env.storage.root
    lake = lsmlake.connect(where)
    lake.create_view_table("d.v", "SELECT name, count(*) AS n FROM d.t GROUP BY name")
    assert call("refresh", "d.v", "-w", where) == "d.v: the tables have no new snapshot\n"
    table.upsert([{"id": 1, "name": "x"}, {"id": 2, "name": "x"}])
    found = "d.v: added the changes to the groups, 3 changes read, 1 row written, 1 deleted\n"
    assert call("refresh", "d.v", "-w", where) == found
    assert lake.table("d.v").to_arrow().to_pylist() == [{"name": "x", "n": 2}]
    report = json.loads(call("refresh", "d.v", "--full", "--json", "-w", where))
    assert (report["way"], report["written"]) == ("whole", 1)
    assert "this is no view table" in complaint("refresh", "d.t", "-w", where)
