"""The side-by-side benchmark: its data is what it says, every workload runs and checks its answers, a wrong answer is found."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from bench.peers import cli, report
from bench.peers.data import KEY, Data, Stream, prepare
from bench.peers.roster import BASES, PEERS
from bench.peers.run import Result
from bench.peers.workloads import ALL
from bench.peers.workloads.case import Sizes

ROOT = Path(__file__).parent.parent
SIZES = Sizes((300,), 60, 2, 3, 3)


def worked(workload: str, data: Data, work: Path, params: object) -> dict:
    """What a worker of lsmlake without Spark prints, in this environment."""
    command = [sys.executable, "-m", "bench.peers.worker", "lsmlake-arrow", workload, "--data", data.folder, "--work", work]
    command += ["--params", json.dumps(params)]
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, cwd=ROOT, timeout=120, check=True)
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("keys", ["uniform", "recent"])
def test_the_data_ends_where_its_batches_lead(tmp_path, keys):
    data = prepare(tmp_path, Stream(500, 100, 4, keys))
    rows = {row[KEY]: row for row in pq.read_table(data.load).to_pylist()}
    for batch in data.batches:
        rows |= {row[KEY]: row for row in pq.read_table(batch).to_pylist()}
    final = {row[KEY]: row for row in pq.read_table(data.final).to_pylist()}
    assert final == rows
    assert len(final) > 500


@pytest.mark.parametrize("workload", ALL)
def test_every_workload_runs_and_its_answers_are_checked(tmp_path, workload):
    for number, case in enumerate(ALL[workload].cases(SIZES)):
        work = tmp_path / f"work-{number}"
        work.mkdir()
        answer = worked(workload, prepare(tmp_path, case.stream), work, dict(case.params))
        assert answer["status"] == "ok", answer
        assert answer["measures"] and all(isinstance(value, (int, float)) for value in answer["measures"].values())


def test_a_wrong_answer_is_told(tmp_path):
    (case,) = ALL["stream_upsert"].cases(SIZES)[:1]
    data = prepare(tmp_path, case.stream)
    facts = next(path for path in data.folder.rglob("*.json"))
    content = json.loads(facts.read_text())
    content["expected"][0] += 1
    facts.write_text(json.dumps(content))
    (tmp_path / "work").mkdir()
    assert worked("stream_upsert", Data(data.folder), tmp_path / "work", {})["status"] == "wrong"


def test_a_peer_without_its_environment_is_listed_with_the_reason(tmp_path, capsys):
    assert cli.main(["--home", str(tmp_path), "--only", "delta-rs", "--workload", "wide", "--rows", "50", "--batch", "10"]) == 0
    printed = capsys.readouterr().out
    assert "delta-rs" in printed and "error" in printed and "--setup" in printed


def test_ratios_are_to_lsmlake_of_the_same_engine(capsys):
    known = {
        "engine": "arrow",
        "workload": "stream_upsert",
        "case": "x",
        "status": "ok",
        "stream": {"keys": "uniform", "rows": 1},
    }
    results = [
        Result(peer=BASES["arrow"], measures={"rows/s": 300.0}, **known),
        Result(peer="duckdb", measures={"rows/s": 100.0}, **known),
    ]
    assert set(BASES.values()) <= PEERS.keys()
    report.show(results)
    assert "0.33" in capsys.readouterr().out
