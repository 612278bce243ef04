"""The command line: output, exit codes, and messages for wrong usage."""

from __future__ import annotations

import datetime as dt
import importlib
import inspect
import io
import json
import os
import pty
import re
import shlex
import shutil
import subprocess
import sys
import time
from pathlib import Path
from types import ModuleType

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest
from command_line import call, complaint
from python_calls import PYTHON_CALL
from rich.console import Console
from typer.testing import CliRunner

import lsmlake
from lsmlake.api.table import Table
from lsmlake.cli.app import app, single
from lsmlake.cli.commands import COMMANDS
from lsmlake.cli.demo.demo_engine import EngineName
from lsmlake.cli.docs import DOCUMENTS, Document
from lsmlake.cli.java import require_java
from lsmlake.compact import job
from lsmlake.errors import MissingDependency
from lsmlake.format.snapshot import Snapshot
from lsmlake.maintain.version_listings import reference
from lsmlake.options.table_options import OPTIONS
from lsmlake.report.listing_views import view_of
from lsmlake.sql.call import VERBS

DAY = dt.date(2026, 1, 1)
LAUNCHER = [sys.executable, "-c", "from lsmlake.cli.main import run; run()"]


def orders(keys: range) -> pa.Table:
    """Keys alternate between two days."""
    days = [DAY + dt.timedelta(days=key % 2) for key in keys]
    return pa.table({"id": list(keys), "day": days, "name": ["Zoë"] * len(keys)})


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Read only. sales.orders: 3 snapshots, 2 partitions, rows dead and rows waiting; sales.empty; scratch without a table."""
    root = tmp_path_factory.mktemp("cli") / "warehouse"
    lake = lsmlake.connect(root)
    lake.create_database("sales")
    lake.create_database("scratch")
    lake.create_table("sales.empty", "id BIGINT", primary_key=["id"])
    table = lake.create_table(
        "sales.orders",
        "id BIGINT, day DATE, name STRING COMMENT 'who'",
        primary_key=["id", "day"],
        partition_by=["day"],
        options={"bucket": 2, "compaction.tier-runs": 9},
        comment="what was ordered",
    )
    table.upsert(orders(range(100)), compact=True)
    table.upsert(orders(range(90, 130)), compact=True, writer_id="stream", commit_id=7)
    table.upsert(orders(range(120, 140)), compact=False)
    return root


@pytest.fixture
def copy(warehouse: Path, tmp_path: Path) -> Path:
    """The same, to write to or to damage."""
    return shutil.copytree(warehouse, tmp_path / "warehouse")


def table_of(root: Path) -> lsmlake.Table:
    return lsmlake.connect(root).table("sales.orders")


def parsed(text: str) -> list[dict[str, str]]:
    """Plain text without blanks in its cells, a record a line."""
    titles, *rows = [line.split() for line in text.splitlines()]
    return [dict(zip(titles, row, strict=True)) for row in rows]


def on_terminal(view: object, width: int) -> list[str]:
    page = io.StringIO()
    Console(file=page, width=width, color_system=None, _environ={}).print(view)
    return [line.rstrip() for line in page.getvalue().splitlines()]


@pytest.fixture
def utc(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


# -- listings ---------------------------------------------------------------------------------------------------------


def test_ls_lists_every_table_and_the_databases_without_one(warehouse: Path):
    found = parsed(call("ls", "-w", warehouse).replace("id, day", "id,day"))
    assert [(row["table"], row["rows"], row["key"]) for row in found] == [
        ("sales.empty", "0", "id"),
        ("sales.orders", "150", "id,day"),
        ("scratch", "-", "-"),
    ]
    files = table_of(warehouse).files()
    assert (found[1]["files"], found[1]["size"]) == (str(files.num_rows), str(sum(files["file_size_in_bytes"].to_pylist())))


def test_ls_of_a_database(warehouse: Path):
    assert [record["name"] for record in json.loads(call("ls", "sales", "--json", "-w", warehouse))] == [
        "sales.empty",
        "sales.orders",
    ]
    assert json.loads(call("ls", "scratch", "--json", "-w", warehouse)) == [
        {"name": "scratch", "database": "scratch", "table": None, "error": None}
    ]


def as_json(table: pa.Table) -> list[dict]:
    """Maps as dicts, moments as text; neither dates nor decimals are in these listings."""
    rows = table.to_pylist(maps_as_pydicts="strict")
    return json.loads(json.dumps(rows, default=lambda moment: f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond // 1000:03}Z"))


def test_json_has_every_column(warehouse: Path):
    table = table_of(warehouse)
    assert json.loads(call("snapshots", "sales.orders", "--json", "-w", warehouse)) == as_json(table.snapshots())
    assert json.loads(call("files", "sales.orders", "--json", "-w", warehouse)) == as_json(table.files())
    assert json.loads(call("files", "sales.orders", "--snapshot", "1", "--json", "-w", warehouse)) == as_json(table.files(1))


def test_plain_text_is_a_line_a_row_with_exact_values(warehouse: Path):
    table = table_of(warehouse)
    text = call("files", "sales.orders", "-w", warehouse).replace(" .. ", "..")
    assert text.isascii() and not any(line.endswith(" ") for line in text.splitlines())
    found = parsed(text)
    for title, column in {
        "file": "file_path",
        "rows": "record_count",
        "dead": "deleted_record_count",
        "size": "file_size_in_bytes",
    }.items():
        assert [row[title] for row in found] == [str(value) for value in table.files()[column].to_pylist()]
    snapshots = parsed(call("snapshots", "sales.orders", "-w", warehouse))
    assert [(row["snapshot"], row["writer_id"], row["commit_id"], row["new_rows"]) for row in snapshots][1] == (
        "2",
        "stream",
        "7",
        "40",
    )
    times = [dt.datetime.fromisoformat(row["time"].replace("Z", "+00:00")) for row in snapshots]
    assert times == table.snapshots()["commit_time"].to_pylist()


# -- rows -------------------------------------------------------------------------------------------------------------


def test_get_prints_the_row_of_a_key(warehouse: Path):
    line = "id  day         name\n 7  2026-01-02  Zoë\n"
    assert call("get", "sales.orders", "id=7", "day=2026-01-02", "-w", warehouse) == line
    row = {"id": 7, "day": "2026-01-02", "name": "Zoë"}
    for written in (("id=7", "day=2026-01-02"), ('{"day": "2026-01-02", "id": 7}',)):
        assert json.loads(call("get", "sales.orders", *written, "--json", "-w", warehouse)) == row
    assert "138  2026-01-01" in call("get", "sales.orders", "day=2026-01-01", "id=138", "-w", warehouse)  # waits at level 0


@pytest.mark.parametrize(
    ("key", "code", "said"),
    [
        (["id=7", "day=2026-01-01"], 1, "s.db/orders has no row (id=7, day=2026-01-01)"),
        (["id=7"], 2, "not a key of this table, expected id BIGINT, day DATE, found id=7; write id=... day=..."),
        (["id=7", "day=2026-01-02", "id=8"], 2, "not a key of this table"),
        (["id=7", "day=soon"], 2, "column 'day': a value does not fit, expected id BIGINT, day DATE, found 'soon'"),
        (['{"id": 7.5, "day": "2026-01-02"}'], 2, "column 'id': a value does not fit, expected id BIGINT, day DATE, found '7.5'"),
        (['{"id": null, "day": "2026-01-02"}'], 2, "column 'id': a null in a NOT NULL column"),
        (['{"id": [7], "day": "2026-01-02"}'], 2, "a value is neither a text nor a number, expected id BIGINT, day DATE"),
        (['{"id": 7,'], 2, "the key is not JSON"),
    ],
)
def test_get_tells_why_there_is_no_row(warehouse: Path, key: list[str], code: int, said: str):
    if code == 2:
        assert complaint("get", "sales.orders", *key, "-w", warehouse).startswith(said)
    else:
        assert said in CliRunner().invoke(app, ["get", "sales.orders", *key, "-w", str(warehouse)]).stderr
        assert call("get", "sales.orders", *key, "--json", "-w", warehouse, code=1) == "null\n"


def test_head_shows_some_rows(warehouse: Path):
    def rows(*arguments: str) -> list[dict]:
        return json.loads(call("head", "sales.orders", *arguments, "--json", "-w", warehouse))

    assert len(rows()) == 10 and len(rows("-n", "1000")) == 140
    assert rows("--where", "id = 7", "--columns", "name, id") == [{"name": "Zoë", "id": 7}]
    assert rows("--where", "id = 135") == [{"id": 135, "day": "2026-01-02", "name": "Zoë"}]
    assert rows("--where", "id = 135", "--snapshot", "2") == []
    assert call("head", "sales.orders", "--where", "id = 7", "-w", warehouse) == "id  day         name\n 7  2026-01-02  Zoë\n"
    assert call("head", "sales.empty", "-w", warehouse) == "id\n"


def test_changes_lists_what_happened_between_two_snapshots(warehouse: Path):
    emitted = json.loads(call("changes", "sales.orders", "2", "--json", "-w", warehouse))
    assert sorted(change["id"] for change in emitted if change["_row_kind"] == "+I") == list(range(130, 140))
    assert {"_row_kind": "+I", "id": 130, "day": "2026-01-01", "name": "Zoë"} in emitted
    assert len(json.loads(call("changes", "sales.orders", "0", "1", "-n", "3", "--json", "-w", warehouse))) == 3
    lines = call("changes", "sales.orders", "0", "1", "--where", "id < 2", "--columns", "id", "-w", warehouse).splitlines()
    assert sorted(lines) == ["+I          0", "+I          1", "_row_kind  id"]
    assert "--mode diff" in complaint("changes", "sales.orders", "1", "--mode", "changelog", "-w", warehouse)


# -- export -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "read"), [("rows.parquet", pq.read_table), ("rows.arrow", feather.read_table)])
def test_export_writes_the_rows_of_a_table_to_a_file(warehouse: Path, tmp_path: Path, name: str, read):
    said = call("export", "sales.orders", "--output", tmp_path / name, "-w", warehouse)
    assert said == f"140 rows in {tmp_path / name}\n"
    found, table = read(tmp_path / name), table_of(warehouse)
    assert found.sort_by("id").equals(table.to_arrow().sort_by("id"))
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_export_writes_text_to_standard_output(warehouse: Path, tmp_path: Path):
    asked = ["export", "sales.orders", "--where", "id IN (7, 135)", "--columns", "name, id"]
    assert sorted(call(*asked, "-w", warehouse).splitlines()) == ["Zoë,135", "Zoë,7", "name,id"]
    lines = call(*asked, "--format", "json", "--snapshot", "2", "-w", warehouse)
    assert json.loads(lines) == {"name": "Zoë", "id": 7}
    assert len(json.loads(call(*asked, "--json", "-w", warehouse))) == 2
    assert call("export", "sales.empty", "-w", warehouse) == "id\n"
    call(*asked, "-o", tmp_path / "rows", "--format", "csv", "-w", warehouse)
    assert (tmp_path / "rows").read_text().splitlines()[0] == "name,id"


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["--format", "table"], "--format: unknown format, expected csv or json or parquet or arrow, found 'table'"),
        (["--output", "rows.txt"], "the name of the file does not tell its format"),
        (["--output", "nowhere/rows.csv"], "there is no such folder"),
        (["--format", "csv", "--json"], "two formats are given"),
        (["--columns", "nope"], "nope"),
        (["--where", "id >"], "not SQL"),
        (["--snapshot", "99"], "there is no snapshot 99"),
    ],
)
def test_an_export_that_is_refused_leaves_no_file(
    warehouse: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, args: list[str], said: str
):
    monkeypatch.chdir(tmp_path)
    where = [] if {"--output", "--format"} & set(args) else ["--output", "rows.csv"]
    assert said in complaint("export", "sales.orders", *where, *args, "-w", warehouse)
    assert list(tmp_path.iterdir()) == []


# -- load -------------------------------------------------------------------------------------------------------------


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory: three files of sales, one of them with a price that is none."""
    monkeypatch.chdir(tmp_path)
    Path("a.csv").write_text("id,dt,price,code\n1,2026-01-01,9.50,007\n2,2026-01-02,,008\n")
    Path("b.csv").write_text("id,dt,price,code\n2,2026-01-03,1.00,x\n")
    Path("bad.csv").write_text("id,dt,price,code\n3,2026-01-03,cheap,x\n")
    Path("c.jsonl").write_text('{"id": 4, "dt": "2026-01-04", "price": 2.5, "code": "y"}\n')
    return tmp_path


def test_load_makes_a_table_from_files_and_adds_more(files: Path):
    created = call("load", "shop.sales", "a.csv", "b.csv", "--create", "--primary-key", "id", "--option", "bucket=2", "-w", "new")
    assert created == "shop.sales: 3 rows loaded, snapshot 1\n"
    table = lsmlake.connect("new").table("shop.sales")
    assert (table.primary_key, dict(table.options)) == (("id",), {"bucket": "2"})
    assert table.schema.field("dt").type == pa.date32() and table.schema.field("code").type == pa.string()
    assert json.loads(call("load", "shop.sales", "*.jsonl", "--json", "-w", "new")) == {"rows": 1, "snapshot_id": 2}
    assert [(row["id"], row["dt"].day, row["code"]) for row in table.scan().to_arrow().sort_by("id").to_pylist()] == [
        (1, 1, "007"),
        (2, 3, "x"),
        (4, 4, "y"),
    ]


def test_load_applies_change_events(files: Path):
    columns = "id BIGINT NOT NULL, name STRING"
    lsmlake.connect("new").create_database("shop")
    lsmlake.connect("new").create_table("shop.items", columns, primary_key=["id"])
    (files / "events.log").write_text('{"op": "c", "after": {"id": 1, "name": "a"}, "source": {"lsn": 1}}\n{\n')
    load = "load", "shop.items", "events.log", "--format", "debezium-json", "-w", "new"
    assert "pass --reject" in complaint(*load, code=1)
    assert call(*load, "--reject") == "shop.items: 1 row written, snapshot 1\n"
    assert lsmlake.connect("new").table("shop.items_rejected").count() == 1
    assert "--create" in complaint(*load, "--create")


def test_sync_applies_events_of_many_tables(files: Path):
    def event(table: str, **after: object) -> str:
        return json.dumps({"op": "c", "after": after, "source": {"db": "shop", "table": table, "lsn": 1}})

    (files / "events.log").write_text("\n".join([event("orders", id=1, at="2026-01-02"), event("people", key=7, n=1)]))
    sync = "sync", "events.log", "--format", "debezium-json", "--database", "shop", "-w", "new"
    keys = "--primary-key", "orders=id", "--primary-key", "people=key"
    more = (
        "--computed-column",
        "orders.dt=to_date(at)",
        "--partition-by",
        "orders=dt",
        "--option",
        "bucket=2",
        "--checkpoint",
        "c",
    )
    assert call(*sync, *keys, *more).splitlines() == [
        "shop.orders: 1 row written by 1 commit; created",
        "shop.people: 1 row written by 1 commit; created",
    ]
    orders = lsmlake.connect("new").table("shop.orders")
    assert (orders.partition_by, orders.options["bucket"], orders.count()) == (("dt",), "2", 1)
    assert json.loads(call(*sync, *keys, "--checkpoint", "c", "--json"))["batches"] == 0
    none = call(*sync, *keys, "--tables", "orders").splitlines()
    left_out = "left out by --tables or --excluding-tables"
    idle = "tables 'orders': decided nothing"
    assert none == ["no events of tables", f"shop.orders: {left_out}", f"shop.people: {left_out}", idle]
    unkeyed = "--tables", r"shop\.people", "--table-suffix", "_2", "--on-error", "raise"
    assert "add --primary-key people_2=NAMES" in complaint(*sync, *unkeyed)
    assert "stands alone" in complaint(*sync, "--primary-key", "id", "--primary-key", "people=key")
    assert "has no table" in complaint(*sync, "--computed-column", "dt=x")
    repeated = {
        "--primary-key": ("orders=id", "orders=at"),
        "--partition-by": ("orders=id", "orders=at"),
        "--computed-column": ("orders.m=1", "orders.m=2"),
        "--option": ("bucket=2", "bucket=3"),
        "--table-mapping": (r"shop\..*=x", r"shop\..*=y"),
    }
    for option, (one, other) in repeated.items():
        assert f"{option} names {one.partition('=')[0]} twice" in complaint(*sync, option, one, option, other)
    assert "leave --primary-key out" in complaint(*sync, "--primary-key", "")
    assert "write --primary-key id" in complaint(*sync, "--primary-key", "orders=id,")
    assert "--every needs --checkpoint" in complaint(*sync, "--every", "1s")
    assert "expected more than 0 ms, found 0s" in complaint(*sync, "--every", "0s", "--checkpoint", "done")
    assert "a partition is empty" in complaint(*sync, "--partition-by", "")
    assert "debezium-avro needs registry" in complaint(*sync, "--registry", "http://x")


def test_events_are_read_as_the_json_object_of_a_format_says(files: Path):
    lsmlake.connect("new").create_database("d")
    table = lsmlake.connect("new").create_table("d.t", "id BIGINT NOT NULL, at TIMESTAMP", primary_key=["id"])
    event = {"op": "c", "after": {"id": 1, "at": 1_700_000_000_000_000}, "source": {"db": "s", "table": "t", "lsn": 1}}
    (files / "events.log").write_text(json.dumps(event))
    load = "load", "d.t", "events.log", "-w", "new"
    sync = "sync", "events.log", "--database", "d", "-w", "new"
    micros = '{"name": "debezium-json", "timestamps": "micros"}'
    assert "timestamps=" in complaint(*load, "--format", "debezium-json", code=1)
    assert call(*load, "--format", micros) == "d.t: 1 row written, snapshot 1\n"
    assert call(*sync, "--format", micros, "--primary-key", "id") == "d.t: 1 row written by 1 commit\n"
    assert str(table.get({"id": 1})["at"]) == "2023-11-14 22:13:20+00:00"
    for begin in (load, sync, ("follow", "d.t", "-w", "new")):
        for form, words in (
            ('{"name": "debezium-json", "stamps": "micros"}', "unknown ['stamps']"),
            ('{"name": "debezium-json", "times": "micros", "times": "millis"}', "given twice: ['times']"),
            ('{"name": "debezium-json", "timestamps": "hours"}', "found 'hours'"),
            ('{"name": "debezium-json"', "Expecting"),
            ('{"name": "debezium-avro"}', '--format \'{"name": "debezium-avro", "registry": "'),
            ('{"name": "debezium-avro", "registry": {"a": {}}}', "no numbers of schemas"),
        ):
            assert words in complaint(*begin, "--format", form)
    avro = '{"name": "debezium-avro", "registry": "http://localhost:1"}'
    assert "given twice: ['registry']" in complaint(*sync, "--format", avro, "--registry", "http://localhost:2")


def test_options_of_rows_are_not_those_of_events(files: Path):
    for options in (
        ["--where", "id = 1"],
        ["--primary-key", "id"],
        ["--partition-by", "id"],
        ["--option", "a=b"],
        ["--overwrite"],
    ):
        told = complaint("load", "d.t", "events.log", "--format", "debezium-json", *options, "-w", "new")
        assert f"leave out {options[0]}" in told
    for options in (["--column", "x"], ["--reject"]):
        told = complaint("load", "d.t", "a.csv", *options, "-w", "new")
        assert f"add --format, or leave out {options[0]}" in told


def test_a_name_is_given_once(warehouse: Path):
    def altered(*options: str) -> str:
        return complaint("alter", "sales.orders", *options, "-w", warehouse)

    assert "--set names bucket twice" in altered("--set", "bucket=5", "--set", "bucket=6")
    assert "--comment names day twice" in altered("--comment", "day=a", "--comment", "day=b")
    query = "sql", "SELECT :x", "--arg", "x=1", "--arg", "x=2", "-w", warehouse
    assert "--arg names x twice" in complaint(*query)
    assert "leave --track out" in complaint("history", "sales.orders", "sales.h", "--track", "", "-w", warehouse)


def test_load_appends_to_a_table_without_a_key(files: Path):
    call("load", "shop.events", "a.csv", "--create", "-w", "new")
    table = lsmlake.connect("new").table("shop.events")
    rows = table.scan().count()
    call("load", "shop.events", "a.csv", "-w", "new")
    assert (table.primary_key, table.scan().count()) == ((), 2 * rows)
    assert "leave row_kind out" in complaint("load", "shop.events", "a.csv", "--row-kind", "code", "-w", "new")


def test_load_of_invalid_data_writes_nothing(files: Path):
    assert "'nope' is not in the schema" in complaint("load", "shop.s", "a.csv", "--create", "--primary-key", "nope", "-w", "new")
    assert "no input file found" in complaint("load", "shop.s", "no.csv", "--create", "--primary-key", "id", "-w", "new", code=1)
    assert "'cheap'" in complaint("load", "shop.s", "a.csv", "bad.csv", "--create", "--primary-key", "id", "-w", "new", code=1)
    assert not Path("new").exists()
    Path("kept").mkdir()
    assert "no input file found" in complaint("load", "shop.s", "no.csv", "--create", "--primary-key", "id", "-w", "kept", code=1)
    assert list(Path("kept").iterdir()) == []
    assert "not a path" in complaint("load", "shop.s", "", "--create", "--primary-key", "id", "-w", "kept", code=1)
    call("load", "shop.sales", "a.csv", "--create", "--primary-key", "id", "-w", "new")
    assert "found 'cheap'" in complaint("load", "shop.sales", "b.csv", "bad.csv", "-w", "new", code=1)
    assert "no input file found" in complaint("load", "shop.sales", "nowhere.csv", "-w", "new", code=1)
    assert "omit --create" in complaint("load", "shop.sales", "a.csv", "--create", "--primary-key", "id", "-w", "new")
    assert "belong to --create" in complaint("load", "shop.sales", "a.csv", "--primary-key", "id", "-w", "new")
    assert "load TABLE FILES --create" in complaint("load", "shop.other", "a.csv", "-w", "new")
    assert lsmlake.connect("new").table("shop.sales").snapshots().num_rows == 1


def test_load_with_create_takes_row_kinds_and_conversion(files: Path):
    Path("kinds.csv").write_text("id,op,v\n1,+I,a\n2,+I,b\n1,-D,a\n")
    created = ["kinds.csv", "--create", "--primary-key", "id", "--row-kind", "op", "-w", "new"]
    assert call("load", "shop.kinds", *created) == "shop.kinds: 3 rows loaded, snapshot 1\n"
    assert lsmlake.connect("new").table("shop.kinds").scan().to_arrow().to_pylist() == [{"id": 2, "v": "b"}]
    pq.write_table(pa.table({"id": [1]}), "a.parquet")
    pq.write_table(pa.table({"id": ["2"]}), "b.parquet")
    typed = ["a.parquet", "b.parquet", "--create", "--primary-key", "id", "-w", "new"]
    assert "column 'id'" in complaint("load", "shop.ids", *typed, code=1)
    assert json.loads(call("load", "shop.ids", *typed, "--cast", "--json")) == {"rows": 2, "snapshot_id": 1}


def test_load_reports_its_own_snapshot(files: Path, monkeypatch: pytest.MonkeyPatch):
    """Another writer commits between the commit of the command and its report."""
    upsert = Table.upsert

    def overtaken(table: Table, *data: object, **how: object) -> Snapshot | None:
        own = upsert(table, *data, **how)
        upsert(table, [{"id": 9, "dt": None, "price": None, "code": "other"}])
        return own

    monkeypatch.setattr(Table, "upsert", overtaken)
    created = call("load", "shop.sales", "a.csv", "--create", "--primary-key", "id", "-w", "new", "--json")
    assert json.loads(created) == {"rows": 2, "snapshot_id": 1}
    assert json.loads(call("load", "shop.sales", "b.csv", "-w", "new", "--json")) == {"rows": 1, "snapshot_id": 3}
    Path("header.csv").write_text("id,dt,price,code\n")
    assert json.loads(call("load", "shop.sales", "header.csv", "-w", "new", "--json")) == {"rows": 0, "snapshot_id": None}
    assert call("load", "shop.sales", "header.csv", "-w", "new") == "shop.sales: 0 rows loaded: the files are empty\n"


# -- partitions, consumers, options -----------------------------------------------------------------------------------


def test_partitions_and_consumers_are_listed(copy: Path):
    found = json.loads(call("partitions", "sales.orders", "--json", "-w", copy))
    assert [row["partition"] for row in found] == ["day=2026-01-01", "day=2026-01-02"]
    assert parsed(call("partitions", "sales.orders", "-w", copy))[0]["live_rows"] == str(found[0]["record_count"])
    for name in ("audit", "mail"):
        list(zip(range(2), table_of(copy).follow(consumer=name, start="from-snapshot", snapshot=1), strict=False))
    assert [row["consumer_id"] for row in json.loads(call("consumers", "sales.orders", "--json", "-w", copy))] == [
        "audit",
        "mail",
    ]
    assert [row["consumer"] for row in parsed(call("consumers", "sales.orders", "--remove", "audit", "-w", copy))] == ["mail"]
    assert "no such consumer, found 'nope'" in complaint("consumers", "sales.orders", "--remove", "nope", "-w", copy)
    assert "not the name of a consumer" in complaint("consumers", "sales.orders", "--remove", "a/b", "-w", copy)


def test_a_damaged_consumer_can_be_removed(copy: Path):
    table = table_of(copy)
    table.reset_consumer("torn", 1)
    (copy / table.meta.paths.consumer("torn")).write_bytes(b"x")
    assert "file is not a JSON object" in call("consumers", "sales.orders", "-w", copy)
    assert "`lsmlake consumers TABLE --remove NAME` removes it" in complaint("expire", "sales.orders", "-w", copy, code=1)
    assert call("consumers", "sales.orders", "--remove", "torn", "-w", copy).startswith("consumer")


def test_tags_are_created_read_and_deleted(copy: Path):
    def tags(*how: str) -> list[str]:
        return [row["tag_name"] for row in json.loads(call("tag", "sales.orders", *how, "--json", "-w", copy))]

    assert tags() == []
    assert call("tag", "sales.orders", "-w", copy) == "tag  snapshot  commit_time  rows  created  kept_for\n"
    assert tags("--create", "first", "--snapshot", "1") == ["first"]
    assert tags("--create", "2026", "--retain", "7 d") == ["first", "2026"]
    assert "the name of the tag is taken" in complaint("tag", "sales.orders", "--create", "first", "-w", copy)
    assert tags("--create", "2026", "--replace", "--snapshot", "2") == ["first", "2026"]
    assert tags("--rename", "first", "--to", "begin") == ["begin", "2026"]
    call("expire", "sales.orders", "--retain-max", "1", "-w", copy)
    assert len(json.loads(call("head", "sales.orders", "--tag", "begin", "-n", "999", "--json", "-w", copy))) == 100
    assert "did you mean 'begin'" in complaint("head", "sales.orders", "--tag", "begn", "-w", copy)
    for listing in ("files", "partitions"):
        listed = json.loads(call(listing, "sales.orders", "--tag", "begin", "--json", "-w", copy))
        assert sum(row["record_count"] for row in listed) == 100
    changes = json.loads(call("changes", "sales.orders", "begin", "2026", "--json", "-w", copy))
    assert {row["id"] for row in changes} == set(range(100, 130))
    assert json.loads(call("changes", "sales.orders", "1", "2", "--json", "-w", copy)) == changes
    dry = json.loads(call("tag", "sales.orders", "--delete", "begin", "--dry-run", "--json", "-w", copy))
    said = call("tag", "sales.orders", "--delete", "begin", "-w", copy)
    assert said == f"sales.orders: begin deleted, {dry['files']} files removed\n"
    assert call("tag", "sales.orders", "--expire", "-w", copy) == "sales.orders: no tag to delete\n"
    assert tags() == ["2026"]
    assert "no tag 'nope'" in complaint("tag", "sales.orders", "--delete", "nope", "-w", copy)


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["--create", "a", "--delete", "b"], "--create and --delete exclude each other"),
        (["--to", "b"], "--to has no effect without --rename"),
        (["--replace"], "--replace has no effect without --create"),
        (["--retain", "1 d", "--delete", "a"], "--retain has no effect without --create"),
        (["--dry-run"], "--dry-run has no effect without --delete or --expire"),
        (["--rename", "a"], "--rename needs the new name"),
        (["--create", "a", "--retain", "soon"], "correct --retain"),
        (["--create", "a/b"], "not the name of a tag"),
    ],
)
def test_options_of_tag_that_have_no_effect_are_refused(warehouse: Path, args: list[str], said: str):
    assert said in complaint("tag", "sales.orders", *args, "-w", warehouse)


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("maintain --plan --every 5s", "a plan does no work, found --every;"),
        ("maintain --plan --memory 1gb --bytes-per-second 1mb", "found --memory, --bytes-per-second;"),
        ("maintain --once --every 5s", "--once and --every exclude each other;"),
        ("maintain --every soon", "--every has an invalid value"),
        ("maintain --bytes-per-second x", "--bytes-per-second has an invalid value"),
        ("health --unmerged-time x", "--unmerged-time has an invalid value"),
        ("health --dead-share 7", "--dead-share has an invalid value"),
        ("health --consumer-lag -1", "--consumer-lag is negative"),
        ("head sales.orders --snapshot 1 --tag a", "--snapshot and --tag exclude each other"),
        ("rollback sales.orders --tag a --timestamp 2026-01-01", "found --timestamp and --tag; give one of them"),
        ("history sales.orders sales.old --track day --track-except id", "--track and --track-except exclude each other"),
        ("sql --time-zone Mars 'SELECT 1'", "--time-zone: unknown time zone"),
        ("repair sales.orders --drop 1", "`lsmlake rollback --cut` and `lsmlake expire` remove readable ones"),
        ("sync nothing.json --format plain --database sales --checkpoint c --every soon", "--every has an invalid value"),
    ],
)
def test_an_error_names_the_options_that_were_written(warehouse: Path, command: str, said: str):
    assert said in complaint(*shlex.split(command), "-w", warehouse)


def test_rows_of_a_time_are_shown(copy: Path):
    at = str(table_of(copy).snapshots()["commit_time"][0].as_py() + dt.timedelta(milliseconds=1))
    assert len(json.loads(call("head", "sales.orders", "--timestamp", at, "-n", "999", "--json", "-w", copy))) == 100
    assert "newer than the timestamp" in complaint("head", "sales.orders", "--timestamp", "2000-01-01", "-w", copy)


@pytest.mark.parametrize(
    ("columns", "cure"), [("id,,day", "write --columns id,day"), ("id,", "write --columns id"), (" , ", "leave --columns out")]
)
def test_an_empty_column_name_is_refused(warehouse: Path, columns: str, cure: str):
    said = f"--columns: a column name is empty, found {columns!r}; {cure}"
    assert complaint("head", "sales.orders", "--columns", columns, "-w", warehouse).startswith(said)
    assert complaint("changes", "sales.orders", "0", "--columns", columns, "-w", warehouse).startswith(said)


def test_a_limit_may_be_larger_than_64_bits(warehouse: Path):
    found = json.loads(call("head", "sales.orders", "--limit", str(10**20), "--json", "-w", warehouse))
    assert len(found) == table_of(warehouse).scan().count()


def test_options_are_listed_and_altered(copy: Path):
    first = call("options", "sales.orders", "-w", copy).splitlines()[1]
    assert first.split(maxsplit=3) == ["bucket", "2", "auto", OPTIONS["bucket"].meaning]
    everything = json.loads(call("options", "--json"))
    assert [row["name"] for row in everything] == [option.name for option in reference()]
    assert everything[0] == {
        "name": "bucket",
        "group": "layout",
        "type": "buckets",
        "takes": "auto, or an integer from 1 to 32768",
        "default": "auto",
        "description": OPTIONS["bucket"].meaning,
        "only_with": None,
        "origin": "Paimon",
        "change": "any time",
    }
    assert call("alter", "sales.orders", "--set", "write-only=true", "-w", copy) == "sales.orders: altered in snapshot 4\n"
    values = {row["name"]: row["value"] for row in json.loads(call("options", "sales.orders", "--all", "--json", "-w", copy))}
    assert (values["write-only"], values["bucket"], values["merge-engine"]) == ("true", "2", None)
    assert call("alter", "sales.orders", "--set", "write-only=true", "-w", copy) == "sales.orders: nothing changed\n"
    assert json.loads(call("alter", "sales.orders", "--unset", "write-only", "--json", "-w", copy)) == {"snapshot_id": 5}
    assert "write NAME=VALUE" in complaint("alter", "sales.orders", "--set", "write-only", "-w", copy)
    call("alter", "sales.orders", "--add", "nothing STRING DEFAULT NULL", "--add", "text STRING DEFAULT 'NULL'", "-w", copy)
    added = lsmlake.connect(copy).table("sales.orders").scan(columns=["nothing", "text"], limit=1).to_arrow().to_pylist()
    assert added == [{"nothing": None, "text": "NULL"}]
    assert "`lsmlake options` lists" in complaint("alter", "sales.orders", "--set", "colour=red", "-w", copy)


def test_buckets_are_rescaled(copy: Path):
    told = call("rescale", "sales.orders", "--buckets", "3", "-w", copy)
    assert told.startswith("sales.orders: ") and "bucket" in told
    assert set(lsmlake.connect(copy).table("sales.orders").partitions()["total_buckets"].to_pylist()) == {3}
    assert call("rescale", "sales.orders", "--buckets", "3", "-w", copy) == "sales.orders: nothing to rescale\n"
    assert "auto, or an integer" in complaint("rescale", "sales.orders", "--buckets", "0", "-w", copy)
    assert "a rescale to 5 would write" in call("alter", "sales.orders", "--set", "bucket=5", "-w", copy)
    assert call("alter", "sales.orders", "--set", "bucket=3", "-w", copy).endswith("snapshot 7\n")


# -- completion -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("lsmlake sn", ["snapshots"]),
        ("lsmlake show ", ["sales.empty", "sales.orders"]),
        ("lsmlake show sales.o", ["sales.orders"]),
        ("lsmlake files -w {there} s", ["sales.empty", "sales.orders"]),
        ("lsmlake -w {there} files s", ["sales.empty", "sales.orders"]),
        ("lsmlake ls s", ["sales", "scratch"]),
        ("lsmlake -w nowhere show ", []),
        ("lsmlake head sales.orders --sn", ["--snapshot"]),
        ("lsmlake docs ", list(DOCUMENTS)),
    ],
)
def test_the_shell_completes_commands_and_names(warehouse: Path, line: str, offered: list[str]):
    words = line.format(there=warehouse)
    asked = {"_LSMLAKE_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(len(words.split(" ")) - 1)}
    there = {} if "-w" in words else {"LSMLAKE_WAREHOUSE": str(warehouse)}
    done = subprocess.run(LAUNCHER, env={**os.environ, **there, **asked}, capture_output=True, text=True, check=True)
    assert (done.stdout.split(), done.stderr) == (offered, "")


def test_help_lists_every_command_with_its_own_summary():
    listed = dict(re.findall(r"^  (\w+)  +(\S.*)$", call("--help").partition("Commands:")[2], re.M))
    own = {name: getattr(importlib.import_module(entry.module), name).__doc__.split("\n")[0] for name, entry in COMMANDS.items()}
    assert listed == own == {name: entry.summary for name, entry in COMMANDS.items()}
    assert max(map(len, own.values())) <= 80 - 2 - len("partitions") - 6, "longer lines are cut off on a terminal of 80 columns"


ELSEWHERE = {
    "name": "the value of the flag, or TABLE",
    "new_name": "--to",
    "keys": "--key",
    "buckets": "--bucket",
    "url": "URL",
    **dict.fromkeys(("path", "files", "metadata"), "SOURCE"),
    "partition_by": "--unpartitioned",
    "options": "--option",
    "version": "--snapshot",
}
NOT_IN_A_COMMAND = {
    "expire_tags": {"older_than"},
    "reset_consumer": {"next_snapshot"},
    "copy": {"storage_options"},
    **{key: {"comment", "storage_options"} for key in ("import_iceberg", "import_delta", "import_parquet")},
}
"""Arguments that commands lack. The environment has the settings of object stores."""


@pytest.mark.parametrize("verb", VERBS)
def test_a_verb_has_a_command_with_its_arguments(verb: str):
    owner, (name, *flags) = VERBS[verb].owner, VERBS[verb].command.split()
    command = single(name)
    given = {option for parameter in command.params for option in parameter.opts}
    assert {*flags} <= given
    takes = set(inspect.signature(getattr(owner, verb)).parameters) - {"self"}
    lacking = {one for one in takes - ELSEWHERE.keys() if "--" + one.replace("_", "-") not in given and one not in given}
    assert lacking == NOT_IN_A_COMMAND.get(verb, set())


@pytest.mark.parametrize("name", COMMANDS)
def test_every_argument_and_option_is_explained_once(name: str):
    for parameter in single(name).params:
        assert parameter.help and len(parameter.opts) == len(set(parameter.opts)), parameter.name


@pytest.mark.parametrize(("name", "optional"), [("options", "TABLE"), ("ls", "DATABASE"), ("changes", "END"), ("docs", "NAME")])
def test_help_shows_an_optional_argument_in_one_pair_of_brackets(name: str, optional: str):
    shown = CliRunner().invoke(app, [name, "--help"]).output
    assert f"[{optional}]" in shown
    assert "[[" not in shown


# -- show -------------------------------------------------------------------------------------------------------------


def test_show_as_json(warehouse: Path):
    shown = json.loads(call("show", "sales.orders", "--json", "-w", warehouse))
    files = table_of(warehouse).files()
    assert shown["columns"][2] == {"name": "name", "type": "STRING", "nullable": True, "comment": "who"}
    assert shown["ddl"] == "id BIGINT NOT NULL, day DATE, name STRING COMMENT 'who'"
    assert (shown["primary_key"], shown["partition_by"]) == (["id", "day"], ["day"])
    assert shown["options"] == {"bucket": "2", "compaction.tier-runs": "9"}
    assert (shown["snapshot"]["snapshot_id"], shown["comment"]) == (3, "what was ordered")
    assert (shown["live_rows"], shown["dead_rows"], shown["waiting_rows"]) == (130, 10, 20)
    assert (shown["files"], shown["partitions"], shown["buckets"]) == (files.num_rows, 2, 4)
    runs = shown["bucket"]["runs"]
    assert [run["level"] for run in runs] == sorted(run["level"] for run in runs)
    assert sum(run["dead"] for run in runs) <= 10


def test_show_draws_the_bucket_that_was_asked_for(warehouse: Path):
    def shown(*which: str) -> dict:
        return json.loads(call("show", "sales.orders", *which, "--json", "-w", warehouse))["bucket"]

    files = table_of(warehouse).files().group_by(["partition", "bucket"]).aggregate([("file_size_in_bytes", "sum")]).to_pylist()
    sizes = {(row["partition"], row["bucket"]): row["file_size_in_bytes_sum"] for row in files}
    largest = shown()
    assert sizes[largest["partition"], largest["bucket"]] == max(sizes.values())
    assert shown("--partition", "day=2026-01-02")["partition"] == "day=2026-01-02"
    one = shown("--partition", "day=2026-01-01", "--bucket", "1")
    assert (one["partition"], one["bucket"]) == ("day=2026-01-01", 1)
    assert sum(run["bytes"] for run in one["runs"]) == sizes["day=2026-01-01", 1]


def test_show_in_plain_text(warehouse: Path):
    facts, runs = call("show", "sales.orders", "-w", warehouse).split("\n\n")
    assert "options       bucket=2, compaction.tier-runs=9\n" in facts
    assert "live_rows     130\n" in facts
    assert runs.splitlines()[0].split() == ["level", "files", "rows", "dead", "bytes", "min_key", "max_key"]


def test_a_table_never_written_can_be_looked_at(warehouse: Path):
    assert json.loads(call("show", "sales.empty", "--json", "-w", warehouse))["snapshot"] is None
    assert "snapshot      -\n" in call("show", "sales.empty", "-w", warehouse)
    assert json.loads(call("snapshots", "sales.empty", "--json", "-w", warehouse)) == []
    assert json.loads(call("files", "sales.empty", "--json", "-w", warehouse)) == []
    assert call("files", "sales.empty", "-w", warehouse).splitlines() == ["bucket  level  rows  dead  size  keys  created  file"]
    assert "sound" in call("verify", "sales.empty", "-w", warehouse)
    assert call("compact", "sales.empty", "-w", warehouse) == "sales.empty: nothing to compact\n"
    assert on_terminal(view_of("files", lsmlake.connect(warehouse).table("sales.empty").files()), 80) == ["no files"]


# -- compact, verify --------------------------------------------------------------------------------------------------


def test_compact_reports_what_it_did(copy: Path):
    before = table_of(copy).scan().count()
    report = json.loads(
        call("compact", "sales.orders", "--full", "--where", "day = DATE '2026-01-01'", "--bucket", "1", "--json", "-w", copy)
    )
    assert (report["snapshot_id"], report["buckets"], report["files_out"]) == (4, 1, 1)
    assert call("compact", "sales.orders", "--full", "-w", copy).startswith("sales.orders: 3 buckets, ")
    assert table_of(copy).files().num_rows == 4
    assert table_of(copy).scan().count() == before
    assert call("compact", "sales.orders", "--full", "-w", copy) == "sales.orders: nothing to compact\n"


def data_files(root: Path) -> set[Path]:
    return set(root.rglob("*.parquet"))


def test_an_interrupted_compaction_leaves_nothing_behind(copy: Path, monkeypatch: pytest.MonkeyPatch):
    before, calls, compact = data_files(copy), [], job.compact_bucket

    def interrupted_at_the_third(*task, **how):
        calls.append(task)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return compact(*task, **how)

    monkeypatch.setattr(job, "compact_bucket", interrupted_at_the_third)
    result = CliRunner().invoke(app, ["compact", "sales.orders", "--full", "-w", str(copy)])
    assert (result.exit_code, result.stdout) == (130, "")
    assert data_files(copy) == before


def test_verify_finds_what_is_wrong(copy: Path):
    assert call("verify", "sales.orders", "-w", copy).startswith("sales.orders: sound, 3 snapshots and ")
    assert json.loads(call("verify", "sales.orders", "--json", "-w", copy)) == []
    path = table_of(copy).files()["file_path"][0].as_py()
    damaged = bytearray((copy / path).read_bytes())
    damaged[-2] ^= 0xFF
    (copy / path).write_bytes(damaged)
    lines = call("verify", "sales.orders", "-w", copy, code=1).splitlines()
    assert len(lines) == 1 and lines[0].startswith(f"{path}: data file ")
    assert [finding["where"] for finding in json.loads(call("verify", "sales.orders", "--json", "-w", copy, code=1))] == [path]


def test_ls_continues_after_a_broken_table(copy: Path):
    path = table_of(copy).meta.paths.snapshot(3)
    (copy / path).write_bytes(b"no longer JSON")
    result = CliRunner().invoke(app, ["ls", "-w", str(copy)])
    assert result.exit_code == 1
    assert [line.split()[:2] for line in result.stdout.splitlines()[1:]] == [
        ["sales.empty", "0"],
        ["sales.orders", "-"],
        ["scratch", "-"],
    ]
    assert result.stderr.startswith(f"error: {path}: ")
    records = json.loads(CliRunner().invoke(app, ["ls", "--json", "-w", str(copy)]).stdout)
    assert "snapshot-3" in records[1]["error"] and records[0]["error"] is None
    assert "snapshot-3" in complaint("show", "sales.orders", "-w", copy, code=1)


# -- wrong usage ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["show", "sales.ordrs"], "did you mean sales.orders?"),
        (["show", "orders"], "did you mean sales.orders?"),
        (["files", "seals.orders"], "did you mean 'sales'?"),
        (["show", "sales.größe"], "expected database.table"),
        (["show", "some/where/sales.db/orders"], "write sales.orders --warehouse some/where"),
        (["show", "sales.db/orders/"], "write sales.orders"),
        (["show", "./orders"], "not a table name"),
        (["ls", "nowhere"], "there is no database 'nowhere'"),
        (["ls", "nowhere"], "`lsmlake ls` lists the databases"),
        (["show", "sales.zzz"], "`lsmlake ls` lists the tables"),
        (["files", "sales.orders", "--snapshot", "99"], "there is no snapshot 99; `lsmlake snapshots TABLE` lists"),
        (["expire", "sales.orders", "--retain-max", "0"], "correct --retain-max"),
        (["expire", "sales.orders", "--older-than", "soon"], "not a timestamp"),
        (["show", "sales.orders", "--bucket", "2"], "no such bucket, expected 0 to 1, found 2"),
        (["show", "sales.orders", "--partition", "day=1999-01-01"], "expected 'day=2026-01-01' or 'day=2026-01-02'"),
        (["show", "sales.empty", "--partition", "day=1999-01-01"], "the table has no partitions"),
        (["compact", "sales.orders", "--where", "id = 1"], "partition columns"),
        (["compact", "sales.orders", "--where", "day >"], "not SQL"),
        (["compact", "sales.orders", "--bucket", "7"], "no such buckets"),
    ],
)
def test_wrong_arguments_get_one_helpful_line(warehouse: Path, args: list[str], said: str):
    line = complaint(*args, "-w", warehouse)
    assert said in line
    assert not PYTHON_CALL.search(line), "errors on the command line name commands and flags"


@pytest.mark.parametrize("args", [["shw", "x"], ["show"], ["files", "sales.orders", "--snapshot", "one"], ["ls", "--nonsense"]])
def test_wrong_syntax_ends_with_2(args: list[str]):
    result = CliRunner().invoke(app, args)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "Usage: " in result.stderr


def test_a_warehouse_is_needed_and_the_last_one_named_counts(warehouse: Path, tmp_path: Path):
    assert "LSMLAKE_WAREHOUSE" in complaint("ls")
    assert "no such warehouse" in complaint("ls", "-w", tmp_path / "nowhere")
    assert "no such warehouse" in complaint("ls", env={"LSMLAKE_WAREHOUSE": str(tmp_path / "nowhere")})
    assert "unknown kind of store" in complaint("ls", "-w", "ftp://host/folder")
    tables = call("ls", "--warehouse", warehouse)
    assert call("--warehouse", warehouse, "ls") == tables
    assert call("ls", env={"LSMLAKE_WAREHOUSE": str(warehouse)}) == tables
    assert call("-w", tmp_path, "ls", "-w", warehouse, env={"LSMLAKE_WAREHOUSE": "/nowhere"}) == tables
    assert call("-w", warehouse, "ls", env={"LSMLAKE_WAREHOUSE": "/nowhere"}) == tables
    for uri in (f"file://{warehouse}", f"file:{warehouse}", f"file://localhost{warehouse}"):
        assert call("ls", "-w", uri) == tables


def test_an_empty_warehouse_is_not_an_error(tmp_path: Path):
    assert json.loads(call("ls", "--json", "-w", tmp_path)) == []
    assert call("ls", "-w", tmp_path).splitlines() == ["table  rows  files  size  last_commit  key"]


@pytest.mark.parametrize("args", [["--debug", "show", "sales.ordrs"], ["show", "sales.ordrs", "--debug"]])
def test_debug_shows_the_traceback(warehouse: Path, args: list[str]):
    result = CliRunner().invoke(app, [*args, "-w", str(warehouse)])
    assert (result.exit_code, result.stdout) == (2, "")
    assert "Traceback" in result.stderr and result.stderr.splitlines()[-1].startswith("error: there is no table")


def test_help_names_the_exit_codes_and_version_the_version():
    text = " ".join(call("--help").split())
    assert "0 success; 1 the operation failed" in text and "2 wrong usage" in text and "130 interrupted" in text
    assert call("--version") == f"lsmlake {lsmlake.__version__}\n"


# -- documents --------------------------------------------------------------------------------------------------------


def test_documents_are_listed_and_printed():
    listed = [line.split(maxsplit=1) for line in call("docs").splitlines()]
    assert [name for name, _ in listed] == list(DOCUMENTS) == ["format", *sorted(DOCUMENTS.keys() - {"format"})]
    paths = call("docs", "--path").splitlines()
    for (name, title), path in zip(listed, paths, strict=True):
        assert call("docs", name) == call("docs", Path(path).name) == Path(path).read_text()
        assert call("docs", name, "--path") == f"{path}\n"
        assert Path(path).read_text().startswith(f"# {title}\n")
    known = " or ".join(DOCUMENTS)
    assert complaint("docs", "nonsense").endswith(f"expected {known}, found 'nonsense'; run `lsmlake docs`")


def test_on_a_terminal_a_document_is_formatted():
    page = on_terminal(Document("# Title\n\nSome `code`.\n"), 40)
    assert "Some code." in page and not any("#" in line or "`" in line for line in page)


# -- Java and the demo ------------------------------------------------------------------------------------------------


def fake_java(folder: Path, banner: str, code: int = 0) -> Path:
    folder.mkdir(parents=True)
    path = folder / "java"
    path.write_text(f"#!/bin/sh\necho '{banner}' >&2\nexit {code}\n")
    path.chmod(0o755)
    return path


def test_a_java_of_17_or_newer_is_found(tmp_path: Path):
    on_path = fake_java(tmp_path / "path", 'openjdk version "17.0.15" 2025-04-15')
    at_home = fake_java(tmp_path / "home/bin", 'openjdk version "25-ea" 2025-09-16')
    assert require_java({"PATH": f"{tmp_path}:{tmp_path / 'path'}"}) == str(on_path)
    assert require_java({"PATH": str(tmp_path / "path"), "JAVA_HOME": str(tmp_path / "home")}) == str(at_home)


@pytest.mark.parametrize(
    ("banner", "code", "said"),
    [
        ('java version "1.8.0_292"', 0, "found Java 8 in "),
        ('openjdk version "11.0.2" 2019-01-15', 0, "found Java 11 in "),
        ("Unable to locate a Java Runtime.", 1, "which does not run"),
    ],
)
def test_an_older_or_broken_java_is_refused(tmp_path: Path, banner: str, code: int, said: str):
    fake_java(tmp_path / "bin", banner, code)
    for environ in ({"PATH": str(tmp_path / "bin")}, {"PATH": "", "JAVA_HOME": str(tmp_path)}):
        with pytest.raises(MissingDependency, match=said):
            require_java(environ)


def test_without_java_commands_that_need_spark_report_first_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    for args in (["demo", "--engine", "spark"], ["compact", "sales.orders", "--spark"]):
        said = complaint(*args, code=1)
        assert "no java on the PATH" in said and "openjdk-17-jre-headless" in said and "brew install openjdk@17" in said
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert "JAVA_HOME" in complaint("demo", "--engine", "spark", code=1)


def test_demo_is_handed_its_options(monkeypatch: pytest.MonkeyPatch):
    given, module = [], ModuleType("lsmlake.cli.demo.run")
    module.run_demo = lambda *options: given.append(options)
    monkeypatch.setitem(sys.modules, "lsmlake.cli.demo.run", module)
    call("demo")
    call("demo", "--keep", "here", "--engine", "python")
    assert given == [(None, None), (Path("here"), EngineName.PYTHON)]
    expected = "--engine: there is no such engine, expected spark or python, found 'flink'; write one of these"
    assert complaint("demo", "--engine", "flink") == expected


# -- as a process -----------------------------------------------------------------------------------------------------


def test_a_pipe_closed_by_its_reader_is_not_an_error(warehouse: Path):
    command = subprocess.Popen(
        [*LAUNCHER, "files", "sales.orders", "-w", warehouse], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    command.stdout.close()
    assert command.stderr.read() == b""
    command.stderr.close()
    assert command.wait() == 141


def test_on_a_terminal_a_table_is_a_picture(warehouse: Path):
    ours, theirs = pty.openpty()
    environ = {**os.environ, "COLUMNS": "80", "TERM": "xterm", "PYTHONIOENCODING": "utf-8"}
    command = subprocess.Popen(
        [*LAUNCHER, "show", "sales.orders", "-w", warehouse],
        stdout=theirs,
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        env=environ,
    )
    os.close(theirs)
    page = b""
    while chunk := _read(ours):
        page += chunk
    os.close(ours)
    assert (command.communicate()[1], command.returncode) == (b"", 0)
    assert "█" in page.decode() and "130 live" in page.decode() and "(the largest of 4)" in page.decode()


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 1 << 16)
    except OSError:  # what Linux says once the other side is closed
        return b""


@pytest.mark.parametrize(
    ("words", "most"),
    [
        ("ls", 118),
        ("snapshots sales.orders", 120),
        ("files sales.orders", 120),
        ("show sales.orders", 118),
        ("options", 120),
        ("get sales.orders id=7 day=2026-01-02", 180),
    ],
)
def test_a_quick_command_loads_few_modules(warehouse: Path, words: str, most: int):
    """The verbs take half a second to load, SQL as long. `most`: modules of ours, a few more than there are now."""
    program = f"import atexit, sys; atexit.register(lambda: print(*sys.modules, file=sys.stderr)); {LAUNCHER[2]}"
    done = subprocess.run(
        [sys.executable, "-c", program, *words.split()],
        env={**os.environ, "LSMLAKE_WAREHOUSE": str(warehouse)},
        capture_output=True,
        text=True,
    )
    loaded = done.stderr.split()
    verbs = "lsmlake.api.", "lsmlake.sql.", "lsmlake.dialect.", "lsmlake.write."
    terminal = "rich.console", "rich.text"
    unwanted = (*verbs, *terminal, "pandas", "sqlglot", "duckdb", "obstore", "pydantic", "importlib.metadata")
    assert (done.returncode, {name for name in loaded if name.startswith(unwanted)}) == (0, set())
    assert sum(name.startswith("lsmlake") for name in loaded) <= most


@pytest.mark.spark
def test_compaction_on_spark_prints_its_result_and_nothing_else(copy: Path):
    command = subprocess.run(
        [*LAUNCHER, "compact", "sales.orders", "--full", "--spark", "--json", "-w", copy], capture_output=True, text=True
    )
    assert (command.returncode, command.stderr) == (0, "")
    assert json.loads(command.stdout)["buckets"] == 4
    assert table_of(copy).files().num_rows == 4


# -- branches ---------------------------------------------------------------------------------------------------------


def test_branches_are_created_listed_forwarded_and_deleted(copy: Path):
    table = table_of(copy)
    call("branch", "sales.orders", "--create", "b1", "--snapshot", "1", "-w", copy)
    call("branch", "sales.orders", "--create", "b2", "-w", copy)
    listed = json.loads(call("branch", "sales.orders", "--rename", "b1", "--to", "b3", "--json", "-w", copy))
    assert [(row["branch_name"], row["created_from_snapshot"]) for row in listed] == [
        ("b2", table.meta.snapshots.latest_id()),
        ("b3", 1),
    ]
    assert "begins_at" in call("branch", "sales.orders", "-w", copy)
    table.branch("b2").compact(full=True)
    assert "FULL" not in call("head", "sales.orders$branch_b2", "-w", copy)
    assert call("branch", "sales.orders", "--fast-forward", "b2", "-w", copy).endswith("of branch b2\n")
    assert "would be deleted" in call("branch", "sales.orders", "--delete", "b2", "--dry-run", "-w", copy)
    assert re.search(r"b2 deleted, \d+ files? removed", call("branch", "sales.orders", "--delete", "b2", "-w", copy))
    assert "has commits" in complaint("branch", "sales.orders", "--fast-forward", "b3", "-w", copy, code=1)
    assert "--tag has no effect" in complaint("branch", "sales.orders", "--tag", "x", "-w", copy)
    assert "did you mean" in complaint("branch", "sales.orders", "--delete", "b33", "-w", copy)


# -- rollback ---------------------------------------------------------------------------------------------------------


def test_rollback_reports_what_it_does(copy: Path):
    table = table_of(copy)
    first, last = table.scan(snapshot=1).count(), table.meta.snapshots.latest_id()
    to = ["rollback", "sales.orders", "--snapshot", "1", "-w", copy]
    assert f"{last - 1} newer snapshots would stay" in call(*to, "--dry-run")
    assert re.search(r"would remove \d newer snapshots and \d+ files\n", call(*to, "--cut", "--dry-run"))
    assert table.meta.snapshots.latest_id() == last
    done = rf"sales.orders: snapshot {last + 1} restores snapshot 1: \d+ -> {first} rows; {last - 1} newer snapshots can still"
    assert re.match(done, call(*to))
    assert table.scan().count() == first
    emitted = json.loads(call(*to, "--cut", "--json"))
    assert (emitted["snapshot_id"], emitted["target"], emitted["files"] > 0) == (last + 2, 1, True)
    assert table.snapshots()["snapshot_id"].to_pylist() == [1, last + 2]
    latest = ["--snapshot", str(last + 2)]
    assert call("rollback", "sales.orders", *latest, "-w", copy).endswith("is the latest, nothing to do\n")
    assert "--snapshot, --tag or --timestamp" in complaint("rollback", "sales.orders", "-w", copy)


# -- expire -----------------------------------------------------------------------------------------------------------


def test_expire_removes_old_snapshots_and_reports_them(copy: Path):
    before = table_of(copy).scan().count()
    last = table_of(copy).snapshots().num_rows
    assert call("expire", "sales.orders", "-w", copy) == "sales.orders: nothing to expire\n"
    emitted = call("expire", "sales.orders", "--retain-max", "1", "-w", copy)
    assert re.fullmatch(rf"sales.orders: {last - 1} snapshots? expired, \d+ files removed\n", emitted)
    assert json.loads(call("expire", "sales.orders", "--json", "-w", copy)) == {
        "snapshots": 0,
        "changelogs": 0,
        "files": 0,
        "held": {},
    }
    assert table_of(copy).snapshots().num_rows == 1
    assert table_of(copy).scan().count() == before
    nonsense = ["--retain-max", "1", "--retain-min", "2"]
    assert "--retain-max is less than --retain-min" in complaint("expire", "sales.orders", *nonsense, "-w", copy)


# -- housekeeping -----------------------------------------------------------------------------------------------------


def test_iceberg_names_the_newest_metadata_file(copy: Path):
    file = call("iceberg", "sales.orders", "-w", copy)
    assert file == f"file://{copy}/sales.db/orders/metadata/v1.metadata.json\n"
    assert json.loads(call("iceberg", "sales.orders", "--json", "-w", copy)) == {"metadata_file": file.strip()}


def test_truncate_and_load_overwrite(copy: Path, tmp_path: Path):
    pq.write_table(orders(range(500, 504)).slice(0, 1), tmp_path / "one.parquet")
    assert "1 row loaded, snapshot 4" in call("load", "sales.orders", tmp_path / "one.parquet", "--overwrite", "-w", copy)
    found = table_of(copy).scan().to_arrow()
    assert found.filter(pc.equal(found["day"], DAY))["id"].to_pylist() == [500]
    assert found.num_rows == 1 + 70
    where = ["--where", "day = '2026-01-02'"]
    refusal = complaint("load", "sales.orders", tmp_path / "one.parquet", "--overwrite", *where, "-w", copy, code=1)
    assert "outside of the partitions to overwrite" in refusal
    for condition in (where, ("--where", "")):
        assert "do not go together" in complaint("load", "sales.orders", tmp_path / "one.parquet", *condition, "-w", copy)
    assert call("truncate", "sales.orders", "-w", copy) == "sales.orders: truncated, snapshot 5\n"
    assert call("truncate", "sales.orders", "-w", copy) == "sales.orders: no rows to remove\n"
    assert json.loads(call("truncate", "sales.orders", "--json", "-w", copy)) == {"snapshot_id": None}


def test_orphans_lists_then_removes(copy: Path):
    name = "sales.db/orders/manifest/manifest-list-of-a-killed-writer"
    (copy / name).write_bytes(b"some")
    assert call("orphans", "sales.orders", "-w", copy) == "sales.orders: no orphan files\n", "it is young"
    lines = call("orphans", "sales.orders", "--dry-run", "--older-than", "2100-01-01", "-w", copy).splitlines()
    assert lines == [name, "sales.orders: 1 orphan file, 4 B (1 manifest list); nothing was deleted"]
    report = json.loads(call("orphans", "sales.orders", "--older-than", "2100-01-01", "--json", "-w", copy))
    assert (report["files"], report["kinds"], report["paths"]) == (1, {"manifest list": 1}, [name])
    assert not (copy / name).exists()
    assert "correct it" in complaint("orphans", "sales.orders", "--limit", "0", "-w", copy)


def test_expire_with_a_dry_run_and_expire_of_partitions(copy: Path):
    assert call("expire", "sales.orders", "--retain-max", "1", "--dry-run", "-w", copy).endswith("dry run, nothing was changed\n")
    assert len(table_of(copy).snapshots()) == 3
    assert "partition.expiration-time" in complaint("expire", "sales.orders", "--partitions", "-w", copy)
    call("alter", "sales.orders", "--set", "partition.expiration-time=1 d", "-w", copy)
    assert "give no other option" in complaint("expire", "sales.orders", "--partitions", "--limit", "3", "-w", copy)
    report = json.loads(call("expire", "sales.orders", "--partitions", "--dry-run", "--json", "-w", copy))
    done = call("expire", "sales.orders", "--partitions", "-w", copy)
    assert report["partitions"] == ["day=2026-01-01", "day=2026-01-02"]
    assert done == "sales.orders: 2 partitions, 150 rows: day=2026-01-01; day=2026-01-02; snapshot 5\n"


def test_repair_of_snapshots_needs_consent(copy: Path):
    path = table_of(copy).meta.paths.snapshot(3)
    (copy / path).write_bytes(b"no longer JSON")
    lines = call("repair", "sales.orders", "--snapshots", "-w", copy).splitlines()
    assert lines[0].startswith("snapshot 3: unreadable; ")
    assert lines[1] == "snapshot 2: sound"
    assert "--roll-back-to" in complaint("repair", "sales.orders", "--drop", "3", "-w", copy)
    for flags in (("--roll-back-to", "2"), ("--drop", "3")):
        assert "only examines" in complaint("repair", "sales.orders", "--snapshots", *flags, "-w", copy)
    done = call("repair", "sales.orders", "--roll-back-to", "2", "--drop", "3", "-w", copy).splitlines()
    assert done[-2:] == ["sales.orders: rolled back to snapshot 2, as snapshot 4", "sales.orders: dropped 3"]
    assert call("verify", "sales.orders", "-w", copy).startswith("sales.orders: sound")


def test_repair_of_iceberg_metadata(copy: Path):
    assert call("repair", "sales.orders", "--iceberg", "-w", copy) == "sales.orders: its Iceberg metadata needs no repair\n"
    call("iceberg", "sales.orders", "-w", copy)
    (copy / "sales.db/orders/metadata/version-hint.text").unlink()
    assert "lsmlake repair TABLE --iceberg" in call("verify", "sales.orders", "-w", copy, code=1)
    found, done = call("repair", "sales.orders", "--iceberg", "-w", copy).splitlines()
    assert "the hint of the Iceberg metadata is missing" in found
    assert done == "sales.orders: its Iceberg metadata was made anew"
    assert json.loads(call("repair", "sales.orders", "--iceberg", "--json", "-w", copy)) == {"findings": []}
    assert "one after the other" in complaint("repair", "sales.orders", "--iceberg", "--snapshots", "-w", copy)
