"""The data of the page, against the system tables, the rows and the history that the public handles give."""

from __future__ import annotations

import json
import random
from collections import defaultdict
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from page_warehouse import HOSTILE, small

import lsmlake
from lsmlake import Lake
from lsmlake.api.table import Table
from lsmlake.beside import begin
from lsmlake.errors import EngineFailed, InvalidQuery, SnapshotNotFound
from lsmlake.serve.page import partition_map as partition_map_module
from lsmlake.serve.page.bucket_trees import _joined, trees
from lsmlake.serve.page.commit_timeline import ROWS_MAX, commit_changes, history, outline, ranges
from lsmlake.serve.page.overview import Overview
from lsmlake.serve.page.partition_map import partition_map
from lsmlake.serve.page.query_box import QueryBox
from lsmlake.serve.page.shown_files import KnownFiles
from lsmlake.serve.page.table_card import card
from lsmlake.serve.page.works_done import Compactions


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    return small(tmp_path_factory.mktemp("page"))


@pytest.fixture(scope="module")
def orders(lake: Lake) -> Table:
    return lake.table("sales.orders")


def of_partition(files: pa.Table, partition: str | None) -> list[dict]:
    return [file for file in files.to_pylist() if file["partition"] == partition]


def snapshots_of(table: Table) -> list[int]:
    return table.snapshots()["snapshot_id"].to_pylist()


SUMS = {"files": None, "bytes": "file_size_in_bytes", "rows": "record_count", "dead": "deleted_record_count"}


def summed(files: list[dict]) -> dict[str, int]:
    return {name: len(files) if column is None else sum(file[column] for file in files) for name, column in SUMS.items()}


def of_bars(bars: list[dict]) -> dict[str, int]:
    return {name: sum(bar[name] for bar in bars) for name in SUMS}


# -- trees ------------------------------------------------------------------------------------------------------------


def test_bars_are_the_files_of_each_snapshot_and_say_what_it_did(orders: Table):
    known, before = KnownFiles(), None
    for number in snapshots_of(orders):
        listed = orders.files(snapshot=number)
        partition = random.Random(number).choice(listed["partition"].to_pylist())
        found, files = trees(known, orders, number, partition), of_partition(listed, partition)
        by_bucket = defaultdict(list)
        for file in files:
            by_bucket[file["bucket"]].append(file)
        assert [one["bucket"] for one in found["buckets"]] == sorted(by_bucket)
        for one in found["buckets"]:
            bars = [bar for run in one["runs"] for bar in run["bars"]]
            mine = by_bucket[one["bucket"]]
            assert sorted(bar["name"] for bar in bars) == sorted(Path(file["file_path"]).name for file in mine)
            assert of_bars(bars) == of_bars(one["runs"]) == summed(mine)
            assert [run["level"] for run in one["runs"]] == sorted(run["level"] for run in one["runs"])
            names = {Path(file["file_path"]).name: file for file in mine}
            for run in one["runs"]:
                for bar in run["bars"]:
                    file = names[bar["name"]]
                    assert (run["level"], bar["sequence"]) == (file["level"], file["max_sequence_number"])
                    assert (bar["min"], bar["max"]) == (file["min_key"], file["max_key"])
        now = {file["file_path"]: file["level"] for file in files}
        if before is not None:
            then = {file["file_path"]: file["level"] for file in of_partition(before, partition)}
            did = {"came": now.keys() - then.keys(), "went": then.keys() - now.keys()}
            did["moved"] = {path for path in now.keys() & then.keys() if now[path] != then[path]}
            assert {kind: found["change"][kind] for kind in did} == {kind: len(paths) for kind, paths in did.items()}
            marked = {bar["name"]: bar["did"] for one in found["buckets"] for run in one["runs"] for bar in run["bars"]}
            assert {name for name, mark in marked.items() if mark == "came"} == {Path(path).name for path in did["came"]}
            assert {name for name, mark in marked.items() if mark == "moved"} == {Path(path).name for path in did["moved"]}
        before = listed


def test_keys_lie_on_the_axis_in_their_order(orders: Table):
    """By their values, not by their texts: 1000 lies behind 999."""
    found = trees(KnownFiles(), orders)
    assert found["buckets"]
    for one in found["buckets"]:
        bars = [bar for run in one["runs"] for bar in run["bars"]]
        ends = [(int(bar[key]), bar[at]) for bar in bars for key, at in (("min", "from"), ("max", "to"))]
        places = [place for _, place in sorted(ends)]
        assert places == sorted(places) and places[0] == 0 and places[-1] == 1


def test_a_run_of_many_files_has_few_bars_with_the_same_sums(tmp_path: Path):
    lake = lsmlake.connect(tmp_path)
    lake.create_database("d")
    table = lake.create_table("d.t", "k INT NOT NULL", primary_key=["k"], options={"bucket": 1, "target-file-size": "1 kb"})
    table.upsert(pa.table({"k": pa.array(range(400_000), pa.int32())}))
    files = table.files().to_pylist()
    (run,) = (run for one in trees(KnownFiles(), table)["buckets"] for run in one["runs"])
    assert len(run["bars"]) < len(files) or len(files) <= 720
    assert of_bars(run["bars"]) == summed(files)
    many = [{"files": 1, "bytes": n, "rows": n, "dead": 0, "min": str(n), "max": str(n), "from": n, "to": n, "sequence": n,
             "created_ms": n, "did": None, "name": str(n)} for n in range(1, 1001)]  # fmt: skip
    joined = _joined(many, 7)
    assert len(joined) == 7 and of_bars(joined) == of_bars(many)
    assert (joined[0]["min"], joined[-1]["max"]) == ("1", "1000")


def test_a_partition_without_files_is_empty_and_no_error(orders: Table):
    found = trees(KnownFiles(), orders, 1, "dt=1999-01-01")
    assert (found["buckets"], found["partition"], found["snapshot"]) == ([], "dt=1999-01-01", 1)


# -- partitions -------------------------------------------------------------------------------------------------------


def test_fields_of_the_map_are_the_partitions_and_their_files(orders: Table):
    for number in (None, 3):
        listed = orders.files(snapshot=number)
        found = partition_map(KnownFiles(), orders, number)
        by_name = {part["name"]: part for part in found["parts"]}
        assert set(by_name) == set(listed["partition"].to_pylist()) and found["rest"] == []
        for name, part in by_name.items():
            assert {key: part[key] for key in SUMS} == summed(of_partition(listed, name))
            inside = partition_map(KnownFiles(), orders, number, name)
            assert sorted(one["name"] for one in inside["parts"]) == sorted(
                Path(file["file_path"]).name for file in of_partition(listed, name)
            )
            assert {key: inside["inside"][key] for key in SUMS} == summed(of_partition(listed, name))
        assert {key: found["total"][key] for key in SUMS} == summed(listed.to_pylist())
        sizes = [part["bytes"] for part in found["parts"]]
        assert sizes == sorted(sizes, reverse=True)


def test_many_partitions_are_the_largest_and_groups_of_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(partition_map_module, "_PARTS_MAX", 40)
    monkeypatch.setattr(partition_map_module, "_GROUPS_MAX", 10)
    lake = lsmlake.connect(tmp_path)
    lake.create_database("d")
    table = lake.create_table("d.t", "p INT, v STRING", partition_by=["p"])
    days = [n for n in range(100) for _ in range(1 + n % 7)]
    table.append(pa.table({"p": pa.array(days, pa.int32()), "v": ["x"] * len(days)}))
    found, files = partition_map(KnownFiles(), table), table.files().to_pylist()
    assert (len(found["parts"]), len(found["rest"]), sum(group["count"] for group in found["rest"])) == (30, 10, 70)
    parts = [*found["parts"], *found["rest"]]
    assert {key: sum(part[key] for part in parts) for key in SUMS} == summed(files)
    least = min(part["bytes"] for part in found["parts"])
    assert all(least >= group["bytes"] / group["count"] for group in found["rest"])
    searched = partition_map(KnownFiles(), table, search="P=2")
    assert {part["name"] for part in searched["parts"]} == {"p=2", *(f"p={n}" for n in range(20, 30))}
    assert (searched["partitions"], searched["rest"]) == (100, [])
    with pytest.raises(InvalidQuery, match="has no files at this snapshot, found 'p=100'"):
        partition_map(KnownFiles(), table, None, "p=100")


# -- history ----------------------------------------------------------------------------------------------------------


def test_pages_of_the_history_are_all_snapshots(orders: Table):
    listed, rows, before = orders.snapshots().to_pylist(), [], None
    while True:
        page = history(orders, before, 4)
        rows += page["rows"]
        if not page["older"]:
            break
        before = rows[-1]["snapshot"]
    columns = {"snapshot": "snapshot_id", "kind": "commit_kind", "writer": "writer_id", "commit": "commit_id"}
    columns |= {"written": "delta_record_count", "rows": "total_record_count"}
    expected = [{name: row[column] for name, column in columns.items()} for row in reversed(listed)]
    assert [{name: row[name] for name in columns} for row in rows] == expected
    assert page["count"] == len(listed)


@pytest.mark.parametrize("most", [2, 5, 100])
def test_an_outline_has_rows_of_the_first_the_last_and_snapshots_between(orders: Table, most: int):
    rows = {row["snapshot_id"]: row["total_record_count"] for row in orders.snapshots().to_pylist()}
    found = outline(orders, most)
    numbers = [point["snapshot"] for point in found["points"]]
    assert (found["count"], len(numbers)) == (len(rows), min(most, len(rows)))
    assert (numbers[0], numbers[-1]) == (min(rows), max(rows)) and numbers == sorted(numbers)
    assert all(rows[point["snapshot"]] == point["rows"] for point in found["points"])
    gaps = [after - before for before, after in pairwise(numbers)]
    assert max(gaps) - min(gaps) <= 1


def test_tags_branches_and_consumers_stand_at_their_snapshots(orders: Table):
    found = {(mark["kind"], mark["name"], mark["snapshot"]) for mark in history(orders)["marks"]}
    tag = orders.tags().to_pylist()[0]
    begun = orders.branches().to_pylist()[0]["created_from_snapshot"]
    reads = orders.consumers().to_pylist()[0]["next_snapshot_id"]
    assert found == {("tag", "eod-1", tag["snapshot_id"]), ("branch", "trial", begun), ("consumer", "dashboard", reads - 1)}


def test_nothing_waits_in_an_append_only_table(lake: Lake):
    table = lake.table("sales.events")
    assert card(KnownFiles(), table)["waiting_rows"] == 0
    assert [part["level0_rows"] for part in partition_map(KnownFiles(), table)["parts"]] == [0]
    assert [part["level0_rows"] for part in partition_map(KnownFiles(), table, None, "")["parts"]] == [0]
    assert trees(KnownFiles(), table)["append_only"] is True


@pytest.mark.parametrize(
    ("ids", "found"),
    [([], []), ([7], [[7, 7]]), ([1, 2, 3], [[1, 3]]), ([1, 3, 4, 9], [[1, 1], [3, 4], [9, 9]])],
)
def test_snapshot_ids_are_joined_to_ranges(ids: list[int], found: list[list[int]]):
    assert ranges(ids) == found


def test_the_changes_of_a_commit_are_those_of_the_table(orders: Table):
    for number in (1, 2, 5, snapshots_of(orders)[-1]):
        found, changes = commit_changes(orders, number), orders.changes(number - 1, number).to_arrow()
        assert found["columns"][0]["name"] == "_row_kind"
        assert (found["count"], found["more"]) == (min(changes.num_rows, ROWS_MAX), changes.num_rows > ROWS_MAX)
        all_rows = {tuple(map(str, row.values())) for row in changes.to_pylist()}
        assert {tuple(row) for row in found["rows"]} <= all_rows
        assert found["commit"]["snapshot"] == number
    compacted = next(row["snapshot"] for row in history(orders)["rows"] if row["kind"] == "COMPACT")
    assert commit_changes(orders, compacted)["rows"] == []
    with pytest.raises(SnapshotNotFound):
        commit_changes(orders, 99)


def test_behind_an_expired_snapshot_the_rows_that_the_commit_wrote_are_shown(lake: Lake):
    table = lake.create_table("sales.expiring", "k INT NOT NULL, v INT", primary_key=["k"], options={"bucket": 1})
    for n in range(3):
        table.upsert([{"k": 1, "v": n}])
    table.expire_snapshots(retain_max=1, retain_min=1, older_than="2999-01-01")
    (left,) = snapshots_of(table)
    found = commit_changes(table, left)
    assert (found["by"], [row[1:] for row in found["rows"]]) == ("delta", [["1", "2"]])
    lake.drop_table("sales.expiring")


# -- works ------------------------------------------------------------------------------------------------------------


def test_works_are_those_of_the_system_table(orders: Table):
    found, listed = Compactions().of(orders), orders.system_table("maintenance").to_pylist()
    columns = {
        "kind": "kind",
        "snapshot": "snapshot_id",
        "bytes_in": "bytes_in",
        "bytes_out": "bytes_out",
        "files_in": "files_in",
    }
    columns |= {"files_out": "files_out", "amplification": "write_amplification", "who": "who"}
    assert [{name: work[name] for name in columns} for work in found["works"]] == [
        {name: row[column] for name, column in columns.items()} for row in listed
    ]
    assert listed and found["bytes_out"] == sum(row["bytes_out"] for row in listed)


def test_write_amplification_counts_the_rows_of_files_per_row_of_writers(lake: Lake):
    """Of a table whose upserts compact: no byte ever waits at level 0."""
    table = lake.create_table("sales.inline", "k INT NOT NULL, v INT", primary_key=["k"], options={"bucket": 1})
    written = 0
    for n in range(6):
        before = {file["file_path"] for file in table.files().to_pylist()}
        table.upsert([{"k": k, "v": n} for k in range(n * 5, n * 5 + 10)])
        written += sum(file["record_count"] for file in table.files().to_pylist() if file["file_path"] not in before)
    found = Compactions().of(table)
    assert found["amplification"] == written / 60
    lake.drop_table("sales.inline")


# -- tables -----------------------------------------------------------------------------------------------------------


def test_the_card_has_the_definition_and_sums(lake: Lake, orders: Table):
    found, files = card(KnownFiles(), orders), orders.files().to_pylist()
    assert (found["stored_rows"], found["bytes"], found["files"]) == (
        sum(file["record_count"] for file in files),
        sum(file["file_size_in_bytes"] for file in files),
        len(files),
    )
    waiting = sum(file["record_count"] for file in files if file["level"] == 0)
    assert found["waiting_rows"] == waiting > 0
    assert found["live_rows"] == found["stored_rows"] - waiting - sum(file["deleted_record_count"] for file in files)
    assert (found["buckets"], found["partitions"]) == (
        len({(file["partition"], file["bucket"]) for file in files}),
        orders.partitions().num_rows,
    )
    assert [column["name"] for column in found["columns"]] == orders.schema.names
    assert found["snapshot"]["rows"] == orders.snapshots().to_pylist()[-1]["total_record_count"]
    empty = card(KnownFiles(), lake.table("sales.no_rows_yet"))
    assert (empty["snapshot"], empty["files"], empty["ranges"], empty["marks"]) == (None, 0, [], [])


def test_the_overview_is_the_health_and_the_plan(lake: Lake):
    found = Overview(lake).value(60)
    assert found["reading"] is None
    health = {row["table_name"]: row for row in lake.health().to_pylist()}
    columns = {"rows": "record_count", "files": "file_count", "bytes": "file_size_in_bytes", "snapshot": "snapshot_id"}
    columns |= {name: name for name in ("level0_rows", "level0_runs", "dead_rows", "dead_share", "small_files", "problems")}
    assert [row["name"] for row in found["tables"]] == list(health)
    for row in found["tables"]:
        assert {name: row[name] for name in columns} == {name: health[row["name"]][column] for name, column in columns.items()}
        assert list(dict.fromkeys(work["kind"] for work in row["due"])) == health[row["name"]]["due"]
    plan = lake.maintain(plan=True).to_pylist()
    assert [(one["table"], one["kind"], one["reason"]) for one in found["plan"]] == [
        (row["table_name"], row["kind"], row["reason"]) for row in plan
    ]


def test_an_early_overview_has_the_tables_read_so_far(lake: Lake):
    overview = Overview(lake)
    early = overview.value(0)
    assert early["reading"] is not None and early["plan"] == []
    names = [row["name"] for row in overview.value(60)["tables"]]
    assert [row["name"] for row in early["tables"]] == names[: len(early["tables"])]


def test_an_overview_is_new_after_a_commit(tmp_path: Path):
    lake = lsmlake.connect(tmp_path)
    overview = Overview(lake)
    assert overview.value(60)["tables"] == []
    lake.create_database("d")
    lake.create_table("d.t", "k INT NOT NULL", primary_key=["k"]).upsert([{"k": 1}])
    overview._until_ms = 0
    assert [row["rows"] for row in overview.value(60)["tables"]] == [1]
    lake.drop_table("d.t")
    overview._until_ms = 0
    assert overview.value(60)["tables"] == []


def test_maintainers_works_are_in_the_log(tmp_path: Path):
    lake = lsmlake.connect(tmp_path)
    lake.create_database("d")
    table = lake.create_table("d.t", "k INT NOT NULL", primary_key=["k"], options={"bucket": 1, "write-only": True})
    for n in range(6):
        table.upsert([{"k": n}])
    done = lake.maintain(once=True, tables=["d.t"]).to_pylist()
    found = Overview(lake).value(60)
    assert found["logged"] == len(done) > 0
    assert sorted(one["kind"] for one in found["log"]) == sorted(row["kind"] for row in done)


# -- SQL --------------------------------------------------------------------------------------------------------------


def test_rows_of_a_query_are_the_first_hundred_as_text(lake: Lake):
    found = QueryBox(lake).run("SELECT order_id, amount, status, dt FROM sales.orders ORDER BY order_id")
    assert [column["name"] for column in found["columns"]] == ["order_id", "amount", "status", "dt"]
    assert [column["number"] for column in found["columns"]] == [True, True, False, False]
    assert (found["count"], found["more"], len(found["rows"])) == (ROWS_MAX, True, ROWS_MAX)
    assert found["rows"][3] == ["3", "3.50", "done", "2026-01-01"]
    few = QueryBox(lake).run("SELECT NULL AS a, CAST(9007199254740993 AS BIGINT) AS b, INTERVAL '1' DAY AS c")
    assert few["rows"][0][:2] == [None, "9007199254740993"] and few["more"] is False


def test_the_funnel_has_the_steps_of_the_plan(lake: Lake, orders: Table):
    where = "dt = DATE '2026-01-02' AND order_id > 800"
    found = QueryBox(lake).run(f"SELECT * FROM sales.orders WHERE {where}")
    (funnel,) = found["funnels"]
    steps = {step["step"]: step for step in funnel["steps"]}
    files = orders.files().to_pylist()
    of_day = [file for file in files if file["partition"] == "dt=2026-01-02"]
    assert list(steps) == ["snapshot", "partitions", "keys", "statistics", "read"]
    assert (steps["snapshot"]["files"], steps["snapshot"]["rows"]) == (len(files), sum(file["record_count"] for file in files))
    assert (steps["partitions"]["files"], steps["partitions"]["rows"]) == (len(of_day), sum(f["record_count"] for f in of_day))
    plan = orders.scan(where=where).plan()
    assert steps["keys"]["files"] == dict(plan.pruned)["keys"]
    assert (steps["read"]["files"], steps["read"]["dead"]) == (plan.files, plan.dead_rows)
    counts = [step["files"] for step in funnel["steps"]]
    assert counts == sorted(counts, reverse=True)
    assert (funnel["table"], funnel["snapshot"]) == ("sales.orders", orders.version.number)


def test_a_join_has_a_funnel_for_each_table(lake: Lake):
    found = QueryBox(lake).run("SELECT count(*) FROM sales.orders o JOIN sales.hostile h ON o.status = h.key")
    assert [one["table"] for one in found["funnels"]] == ["sales.orders", "sales.hostile"]


@pytest.mark.parametrize(
    "text",
    [
        "DELETE FROM sales.orders",
        "INSERT INTO sales.events VALUES (NULL, NULL, NULL)",
        "MERGE INTO sales.orders t USING sales.orders s ON t.order_id = s.order_id WHEN MATCHED THEN DELETE",
        "DROP TABLE sales.orders",
        "CREATE TABLE sales.x (a INT)",
        "ALTER TABLE sales.orders ADD COLUMN x INT",
        "CALL compact(table => 'sales.orders')",
        "TRUNCATE TABLE sales.orders",
        "CREATE VIEW sales.v AS SELECT 1",
        "CREATE TEMPORARY VIEW v AS SELECT 1",
        "USE sales",
        "COPY INTO sales.events FROM '/etc'",
        "CREATE DATABASE other",
    ],
)
def test_a_box_that_reads_refuses_what_writes(lake: Lake, text: str):
    before = {name: lake.table(name).snapshots().num_rows for name in ("sales.orders", "sales.events")}
    with pytest.raises(InvalidQuery, match=r"started without --write|clients of a server share|a server reads no files"):
        QueryBox(lake).run(text)
    assert {name: lake.table(name).snapshots().num_rows for name in before} == before
    assert lake.databases() == ["sales"] and lake.session.database is None and not lake.session.views


@pytest.mark.parametrize("writes", [False, True])
@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM parquet.`{file}`",
        "SELECT * FROM csv.`{file}`",
        "EXPLAIN SELECT * FROM json.`{file}`",
        "SELECT * FROM (SELECT * FROM parquet.`{file}`) x",
        "COPY INTO sales.events FROM '{file}' FILEFORMAT = PARQUET",
        "CALL import_parquet('{file}', 'sales.x')",
    ],
)
def test_a_box_reads_no_files_of_the_machine(lake: Lake, tmp_path: Path, text: str, writes: bool):
    file = tmp_path / "secret.parquet"
    pq.write_table(pa.table({"secret": ["s3cret"]}), file)
    with pytest.raises(InvalidQuery) as refused:
        QueryBox(lake, writes).run(text.format(file=file))
    assert "s3cret" not in str(refused.value)


def test_a_box_that_writes_changes_tables(tmp_path: Path):
    lake = lsmlake.connect(tmp_path)
    lake.create_database("d")
    box = QueryBox(lake, writes=True)
    assert box.run("CREATE TABLE d.t (k INT NOT NULL, v STRING, PRIMARY KEY (k))")["columns"] == []
    box.run("INSERT INTO d.t VALUES (1, 'a'), (2, 'b')")
    box.run("DELETE FROM d.t WHERE k = 1")
    assert box.run("SELECT * FROM d.t")["rows"] == [["2", "b"]]


MINE, SLOW = "6b1d5c0e9f2a4873", "SELECT count(*) FROM range(100000000) a, range(100000) b WHERE a.id * b.id % 7 = 3"


def test_a_query_that_takes_too_long_ends(lake: Lake):
    with pytest.raises(InvalidQuery, match=r"took longer than 0.3 seconds; read fewer rows"):
        QueryBox(lake, seconds=0.3).run(SLOW)


def test_a_query_is_cancelled_by_its_id(lake: Lake):
    box = QueryBox(lake)
    running = begin(lambda: box.run(SLOW, MINE))
    while not box.cancel(MINE):
        assert not running.ended.given
    with pytest.raises(InvalidQuery, match="the statement was cancelled"):
        running.result()
    assert box.cancel(MINE) is False


def test_an_id_that_others_could_guess_or_have_chosen_is_refused(lake: Lake):
    box = QueryBox(lake)
    for guessed in ("1", "1764360000000-1"):
        with pytest.raises(InvalidQuery, match=r"could guess the id .* at least 16 random ones"):
            box.run("SELECT 1", guessed)
    running = begin(lambda: box.run(SLOW, MINE))
    while MINE not in box._running:
        assert not running.ended.given
    with pytest.raises(InvalidQuery, match="another statement that runs has this id"):
        box.run("SELECT 1", MINE)
    assert box.cancel(MINE), "the statement that has the id keeps it"
    with pytest.raises(InvalidQuery, match="the statement was cancelled"):
        running.result()
    assert box.run("SELECT 1 AS a", MINE)["rows"] == [["1"]]


def test_statements_leave_threads_to_other_requests(lake: Lake):
    box = QueryBox(lake, at_once=1)
    running = begin(lambda: box.run(SLOW, MINE))
    while MINE not in box._running:
        assert not running.ended.given
    with pytest.raises(EngineFailed, match="too many statements run on the page, expected at most 1; wait until one has ended"):
        box.run("SELECT 1")
    box.cancel(MINE)
    with pytest.raises(InvalidQuery, match="the statement was cancelled"):
        running.result()
    assert box.run("SELECT 1 AS a")["rows"] == [["1"]]


# -- texts ------------------------------------------------------------------------------------------------------------


def test_hostile_texts_come_unchanged(lake: Lake):
    """Only JSON keeps them from being HTML, and the page makes text of them."""
    table = lake.table("sales.hostile")
    found = card(KnownFiles(), table)
    assert (found["comment"], found["columns"][2]["name"], found["columns"][2]["comment"]) == (HOSTILE,) * 3
    assert history(table)["rows"][0]["writer"] == HOSTILE
    assert trees(KnownFiles(), table)["partition"] == f"part={HOSTILE}"
    assert HOSTILE in commit_changes(table, 1)["rows"][0]
    for value in (found, history(table), partition_map(KnownFiles(), table), Compactions().of(table)):
        assert json.loads(json.dumps(value)) == value
