"""The workloads of `bench` at tiny sizes: both sides give the same answer and the report has a ratio."""

from __future__ import annotations

import json
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pyspark
import pytest
from effort import SCALE

from bench import (
    auto_cdc,
    bloom_merge,
    change_feeds,
    changelog,
    checksum,
    commit_growth,
    compact,
    compact_memory,
    contention,
    dlt_loads,
    embedded_upsert,
    engines,
    event_merges,
    events_out,
    first_row,
    fresh_reads,
    growth,
    iceberg_readers,
    imports,
    interop_reads,
    maintain,
    memory,
    moving_keys,
    object_store,
    partitions,
    patched_columns,
    pipelines,
    planning,
    point_read,
    publish,
    raw_read,
    retained_deletes,
    row_order,
    scale,
    small_upsert,
    sql,
    sql_output,
    sql_tpch,
    tables,
    timing,
    upsert,
    view_tables,
)
from bench.__main__ import WORKLOADS, main
from bench.peak_memory import Peak
from bench.result import Measure, Report, markdown, text
from bench.rows import SCHEMA, orders
from bench.timing import Spent, take_turns

pytestmark = [pytest.mark.usefixtures("untimed"), pytest.mark.in_turn]


def check(report: Report, rows: int) -> None:
    """`rows`: what the answer must count."""
    assert f" {rows:,} rows, hash " in f" {report.checksum}"
    assert report.measures
    assert all(measure.value > 0 for measure in report.measures if "CPU" not in measure.what)  # of which ticks are coarse
    assert any(measure.target is not None for measure in report.measures)
    for measure in report.measures:
        assert measure.what in text(report) and measure.what in markdown(report)


# -- rows and checksums -----------------------------------------------------------------------------------------------


def test_an_order_depends_on_nothing_but_its_id_and_version():
    many, one = orders(np.arange(1_000)), orders(np.array([321]))
    assert many.slice(321, 1).to_pylist() == one.to_pylist()
    assert many.schema == SCHEMA and len(SCHEMA) == 12
    assert orders(np.array([321]), version=1).drop(["id"]).to_pylist() != one.drop(["id"]).to_pylist()
    assert all(len(many[name].unique()) > 990 for name in ("customer", "price", "weight", "code", "at", "amount"))
    assert len(many["status"].unique()) == 5 and len(many["city"].unique()) == 50


def test_a_checksum_sees_every_value_and_no_order():
    rows = orders(np.arange(100))
    assert checksum.of_table(rows) == checksum.of_table(rows.take(np.arange(100)[::-1]))
    assert checksum.of_table(rows) != checksum.of_table(rows.slice(1))
    for name in SCHEMA.names[1:]:
        other = rows.set_column(SCHEMA.get_field_index(name), SCHEMA.field(name), rows[name].take(np.roll(np.arange(100), 1)))
        assert checksum.of_table(other) != checksum.of_table(rows), name


def test_files_and_tables_of_the_same_rows_have_one_checksum(tmp_path: Path):
    table = tables.create(tmp_path, {"bucket": 2})
    table.upsert(orders(np.arange(100)), compact=False)
    files = checksum.of_files(tables.paths(tmp_path, table), SCHEMA.names)
    assert checksum.same(files=files, rows=checksum.of_table(orders(np.arange(100)))) == files


def test_sides_that_answer_differently_measure_nothing():
    with pytest.raises(AssertionError, match="different work"):
        checksum.same(ours="1 rows", theirs="2 rows")


# -- measures ---------------------------------------------------------------------------------------------------------


def test_sides_take_turns_and_warm_rounds_do_not_count(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(timing, "WARMS_UP", True)
    calls: list[tuple[str, int]] = []

    def side(name: str) -> Callable[[int], Callable[[], object]]:
        return lambda number: lambda: calls.append((name, number))

    spent = take_turns({"a": side("a"), "b": side("b")}, rounds=2, warm=1)
    assert calls == [("a", 0), ("b", 0), ("b", 1), ("a", 1), ("a", 2), ("b", 2)], "each round begins with the next side"
    assert list(spent) == ["a", "b"] and all(isinstance(each, Spent) and 0 <= each.seconds < 1 for each in spent.values())


def test_a_round_whose_cpu_was_lost_with_a_process_does_not_count(monkeypatch: pytest.MonkeyPatch):
    counts = iter([5.0, 4.0, 4.0, 4.5])
    monkeypatch.setattr(timing, "_cpu_seconds", lambda: next(counts))
    assert take_turns({"a": lambda _: lambda: None}, rounds=2, warm=0)["a"].cpu == 0.5


@pytest.mark.parametrize(
    ("measure", "value", "hit"),
    [
        (Measure("", 3.0, 2.0, target=1.5), 1.5, True),
        (Measure("", 3.1, 2.0, target=1.5), 1.55, False),
        (Measure("", 40, 2, "rows/s", 20, at_least=True), 20, True),
        (Measure("", 38, 2, "rows/s", 20, at_least=True), 19, False),
        (Measure("", 0.5, None, target=1), 0.5, True),
        (Measure("", 0.5, None), 0.5, None),
    ],
)
def test_a_measure_hits_its_target_or_not(measure: Measure, value: float, hit: bool | None):
    assert measure.value == value and measure.hit is hit


# -- workloads --------------------------------------------------------------------------------------------------------


def test_compact(tmp_path: Path):
    runs = [np.random.default_rng(n).choice(500, 100, replace=False) for n in range(compact.RUNS)]
    check(compact.run(tmp_path, rows=500, rounds=1), len(np.unique(np.concatenate(runs))))


def test_changelog(tmp_path: Path):
    check(changelog.run(tmp_path, rows=500, batch=50, rounds=1), 500)


def test_engines(tmp_path: Path):
    report = engines.run(tmp_path, rows=200, rounds=1)
    assert [measure.what for measure in report.measures if measure.target] == [
        f"{name} / deduplicate" for name in ("partial-update", "partial-update, a sequence group", "aggregation")
    ]
    assert all(f"{name} " in report.checksum for name in engines.ENGINES)


@pytest.mark.skipif(SCALE < 1, reason="twelve processes that import dlt")
def test_dlt_loads(tmp_path: Path):
    check(dlt_loads.run(tmp_path, rows=200), 300)


def test_compact_memory(tmp_path: Path):
    report = compact_memory.run(tmp_path, gigabytes=0.002)
    check(report, int(report.checksum.split()[0].replace(",", "")))
    peak, start = report.measures
    assert 0 < start.value <= peak.value < 1.5 and peak.unit == "GB"


def test_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """In this process."""

    def here(work: str, *given: object) -> Peak:
        return Peak(0, 1, 0.0, 0.0, getattr(memory, work.partition(":")[2])(*given))

    monkeypatch.setattr(memory, "peak_of", here)
    report = memory.run(tmp_path, gigabytes=0.001, rows=2_000)
    assert f"upsert of a stream of 0.001 GB: {int(0.001e9 / 88) * 4 // 5};" in report.checksum
    assert f"to_batches of 2,000 rows: [2000, {2_000 * 1_999 // 2}]; aggregate by lake.sql: [2000, " in report.checksum
    assert len(report.measures) == 7 and all(measure.hit for measure in report.measures)


def test_planning(tmp_path: Path):
    report = planning.run(tmp_path, files=200, rounds=1, commits=40)
    assert report.checksum == "200, 20, 1, 100 files" and len(report.measures) == 9
    *measures, growth = report.measures
    assert all(measure.theirs is None and measure.value > 0 for measure in measures)
    assert growth.theirs is None and growth.value < growth.target, "a handle that lives long needs bounded memory"


def test_object_store(tmp_path: Path):
    report = object_store.run(tmp_path, rows=2_000, files=100, rounds=1, delay=1)
    assert report.checksum == "2,000 rows" and len(report.measures) == 18
    assert all(measure.value > 0 for measure in report.measures)


def test_contention(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Buckets of their own: in shared ones a compaction that lost its race is done again, which writes files (test_contended)."""
    monkeypatch.setattr(contention, "KINDS", {"upsert": contention.KINDS["upsert, own buckets"]})
    report = contention.run(tmp_path, seconds=0.3, rows=50, keys=200, writers=2, delay=1, rounds=1)
    assert report.checksum.endswith("commits, none lost") and len(report.measures) == 20
    again = {measure.ours for measure in report.measures if measure.what.endswith("data files and vectors rewritten")}
    assert again == {0}


def test_retained_deletes(tmp_path: Path):
    report = retained_deletes.run(tmp_path, rows=2_000, batch=200, upserts=2, rounds=1)
    assert report.checksum and [measure.target for measure in report.measures] == [1.05, None]


def test_bloom_merge(tmp_path: Path):
    report = bloom_merge.run(tmp_path, rows=40_000, files=8, keys=80, rounds=1)
    assert report.checksum == "80 rows updated"
    left = {measure.what: (measure.ours, measure.theirs) for measure in report.measures if measure.what.endswith("files")}
    assert left["keys in 1 files, fpp default: files"] == (1, 8) and left["keys in 8 files, fpp default: files"] == (8, 8)


def stub_environment(folder: Path, answer: str) -> Path:
    """A virtual environment whose Python prints `answer` for every table."""
    python = folder / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(f"#!/bin/sh\n{answer}\n")
    python.chmod(0o755)
    return folder


def test_embedded_upsert(tmp_path: Path):
    found = json.dumps({"seconds": 1.0, "rows": "SOURCE", "versions": "a stub"}).replace("SOURCE", "'$3'")
    report = embedded_upsert.run(tmp_path, rows=1_000, rounds=1, env=stub_environment(tmp_path / "env", f"echo '{found}'"))
    check(report, 1_000)
    assert report.measures[0].theirs == 1_000 and report.sizes["pypaimon"] == "a stub"


def test_embedded_upsert_shows_why_pypaimon_failed(tmp_path: Path):
    env = stub_environment(tmp_path / "env", "echo it has no legs >&2; exit 7")
    report = embedded_upsert.run(tmp_path, rows=1_000, rounds=1, env=env)
    assert report.measures[0].theirs is None and report.measures[0].value > 0
    assert "it has no legs" in text(report) and "it has no legs" in markdown(report)


def test_embedded_upsert_refuses_other_rows(tmp_path: Path):
    pq.write_table(orders(np.arange(999)), tmp_path / "fewer.parquet")
    found = json.dumps({"seconds": 1.0, "rows": str(tmp_path / "fewer.parquet"), "versions": "a stub"})
    with pytest.raises(AssertionError, match="different work"):
        embedded_upsert.run(tmp_path, rows=1_000, rounds=1, env=stub_environment(tmp_path / "env", f"echo '{found}'"))


@pytest.mark.spark
def test_raw_read(tmp_path: Path, spark):
    report = raw_read.run(tmp_path, rows=20_000, rounds=1)
    check(report, 50)
    assert "20,000 x 12 columns" in report.sizes["masked"] and " 2,000 dead" in report.sizes["masked"]
    assert "18,000 x 12 columns in 4 files" in report.sizes["compacted"] and " 0 dead" in report.sizes["compacted"]


@pytest.mark.spark
def test_first_row(tmp_path: Path, spark):
    report = first_row.run(tmp_path, many=20, rounds=1)
    check(report, 1_800)
    assert report.sizes == {"16 files": "1,600 rows, 160 dead", "20 files": "2,000 rows, 200 dead"}


def test_events_of_auto_cdc_come_late_and_out_of_order():
    """The late events of a batch are as old as the events in time of two batches before."""
    first, last = (auto_cdc.made_events(number, rows=500, size=1_000) for number in (0, 2))
    assert len(set(pa.concat_tables([first, last])["seq"].to_pylist())) == 2_000
    oldest, newest = (pc.min_max(first["seq"]).as_py()[name] for name in ("min", "max"))
    assert 150 < pc.sum(pc.less_equal(last["seq"], newest)).as_py() < 250 and pc.min(last["seq"]).as_py() > oldest
    assert 70 < last["op"].to_pylist().count("d") < 130 and last["seq"].to_pylist() != sorted(last["seq"].to_pylist())


@pytest.mark.skipif(pyspark.__version__.startswith("4.1."), reason="a run that fetches jars and starts a session of its own")
@pytest.mark.parametrize("bench", [auto_cdc, change_feeds, event_merges])
def test_a_bench_beside_peers_says_which_spark_it_needs(tmp_path: Path, bench):
    with pytest.raises(SystemExit, match=r"pyspark 4\.1"):
        bench.run(tmp_path)


def test_a_follower_has_every_commit(tmp_path: Path):
    measures = change_feeds.followed(tmp_path, commits=3, idle=0.1)
    assert [one.unit for one in measures] == ["ms"] * 3
    assert all(0 <= one.ours < 10_000 for one in measures)


def test_a_model_of_a_cluster_names_what_limits_it():
    costs = scale.Costs(commit=0.1, bucket=0.001, task=0.002, fixed=0.05, rows=1e6)
    one, hundred = (scale.modelled(costs, executors, buckets=400, rows=40_000_000) for executors in (1, 100))
    assert one == scale.Batch(driver=pytest.approx(0.5), scheduling=pytest.approx(0.8), tasks=pytest.approx(15.0))
    assert (one.bottleneck, one.seconds) == ("tasks", pytest.approx(15.5))
    assert (hundred.bottleneck, hundred.seconds, hundred.tasks) == ("scheduling", pytest.approx(1.3), pytest.approx(0.15))


@pytest.mark.spark
def test_scale(tmp_path: Path, spark):
    report = scale.run(tmp_path, files=1_000, most=1_000, turns=2, buckets=120, rows=1_000, empty=100)
    assert len(report.measures) == 15 and all(measure.ours > 0 for measure in report.measures)


@pytest.mark.spark
def test_partitions(tmp_path: Path, spark):
    report = partitions.run(tmp_path, rows=2_000, partitions=10, wide_rows=300, columns=9, routed=2_000, rounds=1)
    assert "10 partitions x 2 buckets, 20 of which have rows" in report.sizes["rows"]
    targets = [measure.target for measure in report.measures]
    assert targets[:7] == [2, 2.5, 2.5, None, None, None, 1] and targets.count(1.3) == 13 and targets.count(0.03) == 2
    assert all(measure.ours > 0 for measure in report.measures[:4])


@pytest.mark.spark
def test_patched_columns(tmp_path: Path, spark):
    report = patched_columns.run(tmp_path, rows=4_000, columns=12, rounds=1)
    assert len(report.measures) == 2 * (1 + 2 * 3 * len(patched_columns.QUERIES))
    assert report.measures[0].target == 6 and {measure.target for measure in report.measures[1:]} >= {1.3}


def test_events_out(tmp_path: Path):
    report = events_out.run(tmp_path, rows=300, rounds=1)
    check(report, 300)
    assert [measure.target for measure in report.measures] == [None] * 4 + [200_000] * 2 + [None] * 2


@pytest.mark.spark
def test_pipelines(tmp_path: Path, spark):
    report = pipelines.run(tmp_path, events=300, rounds=1)
    check(report, 180)
    assert [measure.target for measure in report.measures] == [300_000] * 5 + [None, 200_000, None, None]


@pytest.mark.spark
def test_row_order(tmp_path: Path, spark):
    report = row_order.run(tmp_path, rows=2_000, batch=400, rounds=1)
    assert report.checksum.count(": 2,000 rows") == 2 and report.checksum.count(": 800 rows") == 1
    assert [measure.target for measure in report.measures] == [1.03, None, None, None] * 3


@pytest.mark.spark
def test_upsert(tmp_path: Path, spark):
    check(upsert.run(tmp_path, rows=20_000, rounds=1), 5_000)


# -- command line -----------------------------------------------------------------------------------------------------


def test_every_workload_has_a_command(capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit):
        main(["--help"])
    printed = capsys.readouterr().out
    assert all(name in printed for name in (*WORKLOADS, "tiers"))


def test_the_command_line_prints_a_section(capsys: pytest.CaptureFixture[str], tmp_path: Path):
    main(["planning", "--files", "100", "--rounds", "1", "--commits", "8", "--markdown", "--work", str(tmp_path)])
    assert capsys.readouterr().out.startswith("### planning\n")
    assert not list(tmp_path.iterdir())


def test_a_table_that_grows_runs_at_a_tiny_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(growth, "_TIMES", 6)
    report = growth.run(tmp_path, rows=5_000, commits=10, gigabytes=15, upserts=100)
    check(report, 4_100)
    assert report.sizes["buckets"].startswith("8 at the end")
    one, other = report.checksum.split("; ")
    assert one == other, "both tables have the same rows"
    assert [measure.hit for measure in report.measures[-4:]] == [True, True, None, None]


def test_keys_that_move_run_at_a_tiny_size(tmp_path: Path):
    report = moving_keys.run(tmp_path, rows=8_000, loads=2)
    assert report.checksum == "uniform: 80 keys; recent: 80 keys" and len(report.measures) == 8


def test_commit_growth_and_point_reads_run_at_tiny_sizes(tmp_path: Path):
    grown = commit_growth.run(tmp_path / "growth", commits=12, window=4, files=100, turns=3)
    assert [measure.theirs is not None for measure in grown.measures] == [True] * 8
    found = point_read.run(tmp_path / "points", rows=2_000, lookups=8, batch=100)
    assert found.checksum == "100 rows" and found.measures[-1].ours >= 0


def test_small_upserts_run_at_a_tiny_size(tmp_path: Path):
    report = small_upsert.run(tmp_path, rows=300, rounds=1, most=100)
    assert report.checksum.startswith("100: 300 rows") and len(report.measures) == 8


def test_maintain(tmp_path: Path):
    report = maintain.run(tmp_path, tables=2, commits=4, rows=20, keys=50, parts=2, rounds=1)
    assert report.checksum.endswith(" rows") and int(report.sizes["works"]) >= 4 and len(report.measures) == 7


def test_sql_runs_at_a_tiny_size(tmp_path: Path):
    found = sql.run(tmp_path / "sql", rows=5_000, rounds=1)
    assert len(found.measures) == 8 and found.checksum.endswith(found.checksum[-16:])


def test_view_tables(tmp_path: Path):
    found = view_tables.run(tmp_path, rows=2_000, percent=2, rounds=1)
    assert len(found.measures) == 4 * len(view_tables.QUERIES) and found.checksum.endswith(found.checksum[-16:])


def test_sql_output(tmp_path: Path):
    report = sql_output.run(tmp_path, rows=2_000, rounds=1)
    assert report.checksum.startswith("500 rows") and len(report.measures) == 10


def _needs_tpch() -> None:
    try:
        sql_tpch.program()
    except sql_tpch.NoGenerator as reason:
        pytest.skip(str(reason))


def test_interop_reads(tmp_path: Path):
    report = interop_reads.run(tmp_path, rows=5_000, rounds=1)
    assert len(report.measures) == 20 and "500 rows" in report.sizes["dead"]


def test_fresh_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(fresh_reads, "_TARGETS", {20: 2.0})
    report = fresh_reads.run(tmp_path, rows=5_000, rounds=1)
    assert report.checksum == "5,000 rows" and len(report.measures) == 32


@pytest.mark.filterwarnings("ignore:Iceberg scan planning")
def test_iceberg_readers(tmp_path: Path):
    report = iceberg_readers.run(tmp_path, rows=5_000, rounds=1)
    assert report.checksum == "5,000 rows, 250 rows, 1 rows" and len(report.measures) == 12


def test_import(tmp_path: Path):
    report = imports.run(tmp_path, rows=2_000, files=4, small=5, rounds=1)
    assert report.checksum == "500 rows" and len(report.measures) == 10 and report.sizes["small"] == "5 files"


def test_publish(tmp_path: Path):
    report = publish.run(tmp_path, sizes="40", turns=4, snapshots=8)
    assert report.checksum == "snapshots 19" and len(report.notes) == 2 and len(report.measures) == 7


def test_sql_tpch(tmp_path: Path):
    _needs_tpch()
    report = sql_tpch.run(tmp_path, scale=0.01, rounds=1, engines="process", states="fresh", queries="q1,q8,q14,q17,q20,q22")
    assert report.checksum.startswith("6 answers, together ") and report.sizes["lineitem, fresh"].startswith("8 files, 4 of them")


@pytest.mark.spark
def test_sql_tpch_on_spark(tmp_path: Path, spark):
    _needs_tpch()
    report = sql_tpch.run(tmp_path, scale=0.01, rounds=1, engines="spark", states="upserted", queries="q6,q14")
    assert report.checksum == "2 answers, together 2 rows, equal on all sides"


def test_answers_are_equal_to_the_digits_that_both_sides_have():
    same = sql_tpch.equal
    assert same(Decimal("0.714286"), 0.7142857142857143) and same(1.0, 1.0 + 1e-13) and same(None, None)
    assert not same(Decimal("0.714287"), 0.7142857142857143) and not same(Decimal("1.00"), Decimal("1.01")) and not same(1, None)
