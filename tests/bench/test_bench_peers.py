"""The side-by-side benchmark: its data is as declared, every workload runs and checks its answers, a wrong answer is detected."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pyarrow.parquet as pq
import pytest
from effort import sampled

from bench.peers import cli, plots, report, worker
from bench.peers.data import KEY, Data, Stream, prepare
from bench.peers.roster import BASES, PEERS
from bench.peers.run import Result, run
from bench.peers.workloads import ALL
from bench.peers.workloads.case import Sizes
from bench.peers.workloads.degradation import BY_ROUND, slope
from bench.peers.workloads.delete_heavy import DEAD, DELETES, OVER_DEAD
from bench.peers.workloads.stream_upsert import BY_BATCH

pytestmark = pytest.mark.usefixtures("untimed")

ROOT = Path(__file__).parents[2]
SIZES = Sizes((300,), 60, 2, 3, 3, "generated")
SERIES = {
    "stream_upsert": {BY_BATCH: 2},
    "delete_heavy": {DEAD: DELETES + 1, OVER_DEAD: DELETES + 1},
    "degradation": {BY_ROUND.format("grouped"): 3},
}


def arguments(workload: str, data: Data, work: Path, params: object) -> list[str]:
    return ["lsmlake-arrow", workload, "--data", str(data.folder), "--work", str(work), "--params", json.dumps(params)]


def worked(workload: str, data: Data, work: Path, params: object) -> dict:
    """The answer of a worker of lsmlake without Spark, in a process of its own."""
    command = [sys.executable, "-m", "bench.peers.worker", *arguments(workload, data, work, params)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=600, check=True)
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


@pytest.mark.parametrize("workload", [name for number, name in enumerate(ALL) if sampled(number, 3)])
def test_every_workload_runs_and_its_answers_are_checked(tmp_path, workload):
    for number, case in enumerate(ALL[workload].cases(SIZES)):
        work = tmp_path / f"work-{number}"
        work.mkdir()
        answer = worker.result(arguments(workload, prepare(tmp_path, case.stream), work, dict(case.params)))
        assert answer["status"] == "ok", answer
        assert answer["measures"] and all(isinstance(value, (int, float)) for value in answer["measures"].values())
        assert all(isinstance(value, float) for values in answer["series"].values() for value in values)
        for name, length in SERIES.get(workload, {}).items():
            assert len(answer["series"][name]) == length


@pytest.mark.parametrize("peer", ["lsmlake-arrow-append", "lsmlake-arrow-rewrite"])
def test_row_changes_of_tables_without_a_key_are_checked(tmp_path, peer):
    case = ALL["dml"].cases(SIZES)[3]
    (tmp_path / "work").mkdir()
    _, *given = arguments("dml", prepare(tmp_path, case.stream), tmp_path / "work", dict(case.params))
    answer = worker.result([peer, *given])
    assert answer["status"] == "ok" and {"update s", "delete s", "merge s", "read s"} <= answer["measures"].keys(), answer


def test_a_peer_runs_only_in_its_workloads(tmp_path):
    ran = {one.workload for one in run(tmp_path, [PEERS["lsmlake-append"]], ["wide", "dml"], SIZES, 1, 1)}
    assert ran == {"dml"}


def test_a_slope_is_the_cost_of_a_row_with_its_error():
    rows, noise = np.arange(1000, 1050), np.random.default_rng(1).normal(0, 0.02, 50)
    level, error = slope(list(rows * (1 + noise)), rows)
    assert abs(level) < error < 0.1
    rising, error = slope(list(rows * (1 + noise) * (1 + 0.01 * np.arange(50))), rows)
    assert rising - error > 0.5 and 0.6 < rising < 0.9  # a hundredth of the first, in percent of the mean


def test_a_wrong_answer_is_reported(tmp_path):
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


FAILED = "pyiceberg"
DRAWN = {name: entry for name, entry in PEERS.items() if not entry.workloads}
"""Those of all workloads: pictures have no others."""


def made_up(rows: int, rate: float = 100.0, peers: list[str] | None = None) -> list[Result]:
    """Of every workload that has pictures, as if every peer had run but one that failed."""
    results = []
    for workload, case, series in (
        ("stream_upsert", f"{rows:,} rows, uniform keys", {BY_BATCH: [rate, rate * 2]}),
        ("delete_heavy", f"{rows:,} rows", {DEAD: [0.0, 0.3], OVER_DEAD: [1.2, 1.4]}),
        ("degradation", "3 rounds", {BY_ROUND.format("grouped"): [0.1, 0.2, 0.3]}),
    ):
        for peer in peers or DRAWN:
            found = {"status": "ok", "measures": {"rows/s": rate}, "series": series}
            if peer == FAILED:
                found = {"status": "error", "error": "it broke\n  somewhere"}
            stream = {"keys": "uniform", "rows": rows}
            results.append(Result(peer, PEERS[peer].engine, workload, case, stream=stream, **found))
    return results


def test_numbers_and_series_are_distinguished():
    assert worker.split({"s": 1.0, "s of a batch": [1.0, 2.0]}) == {
        "measures": {"s": 1.0},
        "series": {"s of a batch": [1.0, 2.0]},
    }


def test_plots_show_every_peer_that_came_to_its_end(tmp_path):
    pytest.importorskip("matplotlib")
    written = plots.draw(tmp_path, made_up(100) + made_up(1000)[: len(DRAWN)])
    assert len(written) == 2 * 5  # two sizes of batches, the cost over both, deletes, rounds; of two engines
    assert sorted(tmp_path.iterdir()) == sorted(written)
    for path in written:
        engine = path.stem.rsplit("-", 1)[1]
        said = {"".join(text.itertext()) for text in ElementTree.parse(path).iter("{http://www.w3.org/2000/svg}text")}
        assert said & PEERS.keys() == {name for name, entry in DRAWN.items() if entry.engine == engine and name != FAILED}


def test_there_is_no_plot_of_the_cost_over_one_size():
    assert not [picture for picture in plots.pictures(made_up(100)) if "cost" in picture.name]


def test_stand_ins_run_when_they_are_named_only(monkeypatch: pytest.MonkeyPatch):
    asked = []
    monkeypatch.setattr(cli, "setup", lambda home, peers: asked.append([peer.name for peer in peers]))
    standing_in = [name for name, entry in PEERS.items() if entry.stand_in]
    assert cli.main(["--setup"]) == cli.main(["--setup", "--only", ",".join(standing_in)]) == 0
    assert asked == [[name for name in PEERS if name not in standing_in], standing_in]
    assert standing_in


def test_no_two_peers_of_an_engine_look_alike():
    for engine in BASES:
        looks = [plots.look(name)[:3] for name, entry in DRAWN.items() if entry.engine == engine]
        assert len(set(looks)) == len(looks)


def test_earlier_results_are_merged_later_ones_count(tmp_path, capsys):
    base, other = BASES["arrow"], "duckdb"
    report.write(tmp_path / "a", made_up(100, peers=[other, base]), "here")
    report.write(tmp_path / "b", made_up(100, 50.0, [other]) + made_up(1000, peers=[base]), "there")
    both = f"{tmp_path / 'a'},{tmp_path / 'b'}"
    assert cli.main(["--from", both, "--workload", "stream_upsert", "--out", str(tmp_path / "c"), "--markdown"]) == 0
    results, machine = report.read(tmp_path / "c")
    assert machine == "here and there"
    assert [(one.peer, one.stream["rows"], one.measures["rows/s"]) for one in results] == [
        (base, 100, 100.0),
        (other, 100, 50.0),
        (base, 1000, 100.0),
    ]
    assert "| rows/s | 100 | 50 (x0.50) |" in capsys.readouterr().out


def test_results_of_other_data_are_not_merged(tmp_path, capsys):
    report.write(tmp_path / "a", made_up(100, peers=["duckdb"]), "here")
    report.write(tmp_path / "b", made_up(1000, peers=["delta-rs"]), "here")  # the same number of rounds, on another table
    assert cli.main(["--from", f"{tmp_path / 'a'},{tmp_path / 'b'}"]) == 2
    assert "degradation: 3 rounds" in capsys.readouterr().err


def test_missing_earlier_results_are_reported(tmp_path, capsys):
    assert cli.main(["--from", str(tmp_path)]) == 2
    assert "results.json" in capsys.readouterr().err


def test_a_peer_that_never_finished_is_listed_once():
    emitted = report.markdown(made_up(100), "here").splitlines()
    assert [line for line in emitted if FAILED in line] == [f"- {FAILED}: error: it broke somewhere"]


def test_an_error_is_one_line_of_markdown_below_its_case():
    results = [replace(one, error="it broke\n  later") if one.workload == "degradation" else one for one in made_up(100)]
    assert f"- {BASES['arrow']}: ok: it broke later" in report.markdown(results, "here").splitlines()


def test_an_interrupted_run_leaves_what_there_is(tmp_path, capsys, monkeypatch):
    def interrupted(*_: object) -> Iterator[Result]:
        yield made_up(100)[0]
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "run", interrupted)
    assert cli.main(["--out", str(tmp_path)]) == 130
    assert len(report.read(tmp_path)[0]) == 1
    assert "uniform keys" in capsys.readouterr().out


def test_without_matplotlib_one_line_explains_how_to_get_plots(tmp_path):
    report.write(tmp_path / "a", made_up(100), "here")
    program = "import sys; sys.modules['matplotlib'] = None; from bench.peers.cli import main; sys.exit(main(sys.argv[1:]))"
    command = [sys.executable, "-c", program, "--from", str(tmp_path / "a"), "--out", str(tmp_path / "b")]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=600, check=True)
    assert len(done.stderr.splitlines()) == 1 and "pip install matplotlib" in done.stderr
    assert [path.name for path in (tmp_path / "b").iterdir()] == ["results.json"]
