"""`lsmlake demo` completes on a few days of flights, its check can fail, and it leaves no files."""

from __future__ import annotations

import io
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa
import pytest
from effort import SCALE
from rich.console import Console

import lsmlake
from lsmlake.api.table import Table
from lsmlake.cli.demo import run
from lsmlake.cli.demo.demo_engine import EngineName
from lsmlake.cli.demo.events import PRIMARY_KEY, events, final_state, load_flights
from lsmlake.cli.demo.proof import difference, last_events, prove
from lsmlake.cli.demo.screen import Screen
from lsmlake.errors import Corrupt, InvalidOption, MissingDependency

BY_KEY = [(column, "ascending") for column in PRIMARY_KEY]
SMALL = """
import datetime, functools, sys
import lsmlake.cli.demo.run as demo, lsmlake.cli.main as command
demo.run_demo = functools.partial(demo.run_demo, until=datetime.date(2013, 1, {days}), batches={batches})
{more}
sys.argv[0] = "lsmlake"
command.run()
"""
WRONG = """
import pyarrow as pa
right = demo.final_state
def wrong(flights):
    rows = right(flights).to_pylist()
    rows[100]["dest"] = "XXX"
    return pa.Table.from_pylist(rows, right(flights).schema)
demo.final_state = wrong
"""


def screen() -> Screen:
    return Screen(Console(file=io.StringIO(), width=100))


def shown(on: Screen) -> str:
    return on.console.file.getvalue()


def start(tmp_path: Path, *arguments: str, days: int, batches: int, more: str = "") -> subprocess.Popen:
    """`lsmlake demo` on the first days of the flights, in an empty working directory; temporary files go to `tmp`."""
    for folder in ("tmp", "cwd"):
        (tmp_path / folder).mkdir()
    environment = {name: value for name, value in os.environ.items() if name != "COLUMNS"} | {"TMPDIR": str(tmp_path / "tmp")}
    program = SMALL.format(days=days, batches=batches, more=more)
    return subprocess.Popen(
        [sys.executable, "-c", program, "demo", *arguments],
        cwd=tmp_path / "cwd",
        env=environment,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )


def left_behind(tmp_path: Path) -> list[Path]:
    return [*(tmp_path / "tmp").iterdir(), *(tmp_path / "cwd").iterdir()]


# --- the whole of it ---


@pytest.fixture(scope="module", params=[pytest.param("spark", marks=pytest.mark.spark), "python"])
def engine(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(scope="module")
def emitted(engine: str, tmp_path_factory: pytest.TempPathFactory):
    """What a small demo printed, and the place of the warehouse it kept."""
    tmp_path = tmp_path_factory.mktemp("demo")
    process = start(tmp_path, "--keep", str(tmp_path / "kept"), "--engine", engine, days=10, batches=8)
    out, err = process.communicate(timeout=600)
    assert (process.returncode, err) == (0, ""), out + err
    assert left_behind(tmp_path) == []
    return out, tmp_path / "kept"


READERS = {"spark": "Spark", "python": "SQL"}


def test_it_proves_the_table_equal(engine, emitted):
    out, _ = emitted
    assert re.search(rf"equal +8,832 rows, 14 columns: the table, read by {READERS[engine]}$", out, re.M)
    assert re.search(r"equal +8,832 rows, 14 columns: the table, read by a scan", out)
    assert re.search(r"equal +[\d,]+ rows, 14 columns: snapshot \d+, the table after \d micro-batches", out)
    assert "sound" in out
    assert "DIFFERENT" not in out


def test_the_demo_reports_its_steps_and_their_costs(emitted):
    out, kept = emitted
    assert re.search(r"^8 of 8 micro-batches +26,444 of 26,444 events +[\d,]+ rows/s +2013-01-1\d$", out, re.M)
    assert out.count("month=2013-01, bucket 0") == 3
    assert out.count("compaction job, beside the stream: ") == 3
    assert re.search(r"2013-01 +8,832 +47 +0\.5%", out)
    assert re.search(r"snapshots +\d+: 8 micro-batches, \d compaction", out)
    assert re.search(r"bytes written .* [\d.]+ x the \d+ KiB of the events", out)
    assert re.search(r"raw read +[\d.]+ s for the delay by carrier: \d files?, [\d,]+ dead rows masked", out)
    assert re.search(
        r"plain Parquet +[\d.]+ s for the same rows in \d files? written by (Spark|PyArrow and read by DuckDB)$", out, re.M
    )
    assert re.search(r"ratio +[\d.]+;", out)
    assert f"lsmlake show flights.flights --warehouse {kept}" in out


def test_into_a_pipe_it_writes_plain_lines(emitted):
    out, _ = emitted
    before, title, _ = out.partition("Commands to explore the table")  # a command is not broken, to be copied
    assert title
    for line in before.split("\n"):
        assert line.isprintable() and len(line) <= 100 and line == line.rstrip()


def test_what_it_keeps_is_the_final_state(emitted):
    table = lsmlake.connect(emitted[1]).table("flights.flights")
    flights = run._until(load_flights(), run.datetime.date(2013, 1, 10))
    assert table.scan().to_arrow().sort_by(BY_KEY).equals(final_state(flights))
    assert table.verify() == []


def test_the_demo_fails_with_the_difference_if_the_table_is_wrong(engine, tmp_path: Path):
    if engine == "spark" and SCALE < 1:
        pytest.skip("a short run: what compares the tables is the same without Spark")
    process = start(tmp_path, "--engine", engine, days=2, batches=3, more=WRONG)
    out, err = process.communicate(timeout=600)
    assert process.returncode == 1, out + err
    assert re.search(rf"DIFFERENT +the table, read by {READERS[engine]}", out)
    assert re.search(r"missing .*dest XXX", out, re.S)
    assert "1 missing and 1 surplus" in err
    assert "equal " not in out
    assert left_behind(tmp_path) == []


def test_an_interruption_leaves_nothing_behind(engine, tmp_path: Path):
    process = start(tmp_path, "--engine", engine, days=28, batches=28)
    for line in process.stdout:
        if "micro-batches" in line:
            break
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does
    _, err = process.communicate(timeout=600)
    assert process.returncode == 130, err
    assert err.endswith("interrupted\n")
    deadline = time.monotonic() + 120
    while left_behind(tmp_path) and time.monotonic() < deadline:  # Spark's Java process clears up by itself
        time.sleep(0.1)
    assert left_behind(tmp_path) == []


# --- before anything is done ---


def test_a_directory_in_use_is_refused_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(run, "require_java", lambda: None)
    monkeypatch.setattr(run, "load_flights", None)
    (tmp_path / "mine").write_text("precious")
    for place in (tmp_path, tmp_path / "mine"):
        with pytest.raises(InvalidOption, match="expected a new or empty directory"):
            run.run_demo(place)
    assert (tmp_path / "mine").read_text() == "precious"


@pytest.fixture
def no_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)


def test_without_java_spark_is_refused_at_once(monkeypatch, no_java):
    monkeypatch.setattr(run, "load_flights", None)
    with pytest.raises(MissingDependency, match="Java"):
        run.run_demo(engine=EngineName.SPARK)


def test_without_java_the_demo_runs_in_process_and_says_how_to_get_spark(no_java):
    on = screen()
    run.run_demo(until=run.datetime.date(2013, 1, 2), batches=4, screen=on)
    assert "It runs without Spark here, which needs Java: run `apt-get install" in " ".join(shown(on).split())
    assert "the table, read by SQL" in shown(on)


def test_a_failed_write_of_the_thread_ends_the_demo(monkeypatch):
    monkeypatch.setattr(Table, "upsert", lambda *_, **__: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        run.run_demo(engine=EngineName.PYTHON, until=run.datetime.date(2013, 1, 1), batches=2, screen=screen())


# --- the proof ---

ROW = {"month": "2013-01", "carrier": "UA", "flight": 1, "dest": None}
TWO = pa.Table.from_pylist([ROW, {**ROW, "flight": 2, "dest": "HNL"}])


def test_equal_tables_are_equal_in_any_order():
    on = screen()
    prove("rows", TWO.take([1, 0]), TWO, on)
    assert shown(on) == "  equal          2 rows, 4 columns: rows\n"
    assert difference(TWO.take([0, 1, 0]), TWO.take([0, 0, 1])).num_rows == 0


def test_not_null_in_the_schema_makes_no_difference():
    strict = TWO.cast(pa.schema([field.with_nullable(field.name == "dest") for field in TWO.schema]))
    assert difference(TWO, strict).num_rows == 0


@pytest.mark.parametrize(
    ("found", "missing", "surplus"),
    [
        (TWO.slice(0, 1), 1, 0),
        (TWO.take([0, 1, 1]), 0, 1),
        (TWO.take([0, 0]), 1, 1),
        (TWO.slice(0, 0), 2, 0),
        (TWO.set_column(3, "dest", pa.array([None, None], pa.string())), 1, 1),
        (TWO.set_column(3, "dest", pa.array(["", "HNL"])), 1, 1),
    ],
    ids=["a row is missing", "a row is there twice", "another row twice", "empty", "a null for a value", "a value for a null"],
)
def test_a_difference_of_one_row_is_shown_and_raised(found, missing, surplus):
    on = screen()
    with pytest.raises(Corrupt, match=f"{missing} missing and {surplus} surplus"):
        prove("rows", found, TWO, on)
    assert "DIFFERENT      rows\n" in shown(on)
    assert len(re.findall(r"missing  .*month 2013-01, carrier UA, flight \d", shown(on))) == missing
    assert len(re.findall(r"surplus  .*month 2013-01, carrier UA, flight \d", shown(on))) == surplus


def test_many_differences_are_counted_and_some_shown():
    on = screen()
    many = pa.table({"flight": pa.array(range(1000))})
    with pytest.raises(Corrupt, match="990 missing and 0 surplus"):
        prove("rows", many.slice(0, 10), many, on)
    assert shown(on).count("missing") == 10
    assert "and 980 more" in shown(on)


def test_a_difference_of_type_is_a_difference():
    with pytest.raises(Corrupt, match="flight int32, flight int64"):
        prove("rows", TWO.set_column(2, "flight", TWO["flight"].cast(pa.int32())), TWO, screen())


def test_the_last_event_of_each_flight_is_the_state_at_any_time():
    stream = events(load_flights().slice(0, 200))
    for stop in (1, 137, 400, stream.num_rows):
        state = {tuple(row[column] for column in PRIMARY_KEY): row for row in stream.slice(0, stop).to_pylist()}
        found = last_events(stream.slice(0, stop))
        assert found.sort_by(BY_KEY).to_pylist() == [state[key] for key in sorted(state)]


# --- the screen ---


def test_without_a_terminal_progress_is_a_line_for_every_tenth():
    on = screen()
    with on.progress(range(10, 410, 10)) as progress:
        for done in range(1, 41):
            progress(done, f"day {done}")
    lines = shown(on).splitlines()
    assert [line.split()[0] for line in lines] == [str(number) for number in range(4, 41, 4)]
    assert lines[-1].startswith("40 of 40 micro-batches  400 of 400 events")
    assert lines[-1].endswith("rows/s  day 40")


def test_on_a_terminal_progress_is_a_bar():
    on = Screen(Console(file=io.StringIO(), width=100, force_terminal=True, _environ={"TERM": "xterm"}))
    with on.progress([10, 20]) as progress:
        progress(2, "2013-01-02")
        on.say("beside it")
    assert "2 of 2 micro-batches" in shown(on)
    assert "━" in shown(on)
    assert "beside it" in shown(on)
