"""`lsmlake sql`: formats, files, the first rows of a table, Ctrl-C and closed pipes; and the stream of rows below it."""

from __future__ import annotations

import csv
import io
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner, Result

from lsmlake.cli.app import app
from lsmlake.cli.sql_commands import run_shell
from lsmlake.cli.sql_output import ARRAY, WRITERS
from lsmlake.dialect import connection
from lsmlake.errors import InvalidQuery
from lsmlake.kernels.text_format import csv_lines, json_lines
from lsmlake.sql import streamed_rows

ROWS = 40_000
ALL = "SELECT id, name, price FROM d.t ORDER BY id"
ENDLESS = "SELECT count(*) AS n FROM d.t AS a JOIN d.t AS b ON a.price < b.price JOIN d.t AS c ON a.price < c.price"
FAILS_LATE = "SELECT x, 1 / (x - 1000000) AS y FROM (SELECT explode(sequence(1, 1000000)) AS x)"


@pytest.fixture
def warehouse(lake, tmp_path) -> str:
    ids = list(range(ROWS))
    names = [(None, "", "a,b", 'say "x"', "two\nlines", "plain")[number % 6] for number in ids]
    rows = {"id": ids, "name": names, "price": [number / 8 for number in ids]}
    lake.create_table_from("d.t", rows, primary_key=["id"])
    return str(tmp_path / "warehouse")


def call(*arguments: str, warehouse: str) -> Result:
    return CliRunner().invoke(app, ["sql", *arguments, "-w", warehouse])


def good(*arguments: str, warehouse: str) -> bytes:
    result = call(*arguments, warehouse=warehouse)
    assert result.exit_code == 0, result.stderr
    return result.stdout_bytes


def refused(*arguments: str, warehouse: str, code: int = 2) -> str:
    result = call(*arguments, warehouse=warehouse)
    assert result.exit_code == code, result.output
    return result.stderr


@pytest.fixture
def expected(lake, warehouse) -> pa.Table:
    return lake.sql(ALL).to_arrow()


@pytest.mark.parametrize("to_file", [False, True], ids=["pipe", "file"])
@pytest.mark.parametrize("format", ["csv", "json", "parquet", "arrow", "JSON array"])
def test_every_format_holds_all_rows(format, to_file, warehouse, expected, tmp_path):
    file = tmp_path / "rows.out"
    chosen = ["--json"] if format == "JSON array" else ["--format", format]
    printed = good(ALL, *chosen, *(["-o", str(file)] if to_file else []), warehouse=warehouse)
    if to_file:
        assert printed.decode() == f"40,000 rows in {file}\n"
    written = file.read_bytes() if to_file else printed
    match format:
        case "csv":
            quoted = pa.csv.ConvertOptions(strings_can_be_null=True, quoted_strings_can_be_null=False)
            lines = pa.csv.ParseOptions(newlines_in_values=True)
            assert pa.csv.read_csv(io.BytesIO(written), convert_options=quoted, parse_options=lines).equals(expected)
        case "json":
            assert [json.loads(line) for line in written.splitlines()] == expected.to_pylist()
        case "JSON array":
            assert json.loads(written) == expected.to_pylist()
        case "parquet":
            assert pq.read_table(io.BytesIO(written)).equals(expected)
        case "arrow":
            read = pa.ipc.open_file if to_file else pa.ipc.open_stream
            assert read(io.BytesIO(written)).read_all().equals(expected)


def test_python_reads_the_csv(warehouse, expected):
    names, *rows = csv.reader(io.StringIO(good(ALL, "--format", "csv", warehouse=warehouse).decode(), newline=""))
    assert names == ["id", "name", "price"]
    assert [row[1] for row in rows] == [name or "" for name in expected["name"].to_pylist()]


@pytest.mark.parametrize(("format", "nothing"), [("csv", "id\n"), ("json", ""), ("table", "id\n")])
def test_no_rows(format, nothing, warehouse):
    assert good("SELECT id FROM d.t WHERE id < 0", "--format", format, warehouse=warehouse).decode() == nothing
    assert json.loads(good("SELECT id FROM d.t WHERE id < 0", "--json", warehouse=warehouse)) == []
    assert good("CREATE DATABASE x; DROP DATABASE x", "--format", format, warehouse=warehouse).decode() == (
        "done\ndone\n" if format == "table" else ""
    )


@pytest.mark.parametrize(
    ("name", "start"),
    [("a.csv", b"id,"), ("a.JSONL", b'{"id"'), ("a.parquet", b"PAR1"), ("a.arrow", b"ARROW1"), ("a.txt", b"id ")],
)
def test_the_name_of_a_file_tells_its_format(name, start, warehouse, tmp_path):
    good(ALL, "-o", str(tmp_path / name), warehouse=warehouse)
    assert (tmp_path / name).read_bytes().startswith(start)


def test_a_table_shows_the_first_rows_and_says_so(warehouse):
    result = call(ALL, warehouse=warehouse)
    titles, *lines = result.stdout.splitlines()
    assert titles.split() == ["id", "name", "price"] and [line.split()[0] for line in lines] == [str(n) for n in range(100)]
    assert result.stderr == "first 100 rows: --format csv prints all\n"
    assert call(f"{ALL} LIMIT 100", warehouse=warehouse).stderr == ""
    good(f"CREATE TABLE d.wide ({', '.join(f'c{number} INT' for number in range(101))})", warehouse=warehouse)
    shown = call("SHOW COLUMNS IN d.wide", warehouse=warehouse)
    assert shown.stderr == "first 100 of 101 rows: --format csv prints all\n" and len(shown.stdout.splitlines()) == 101


def test_a_table_is_found_without_reading_all_rows(warehouse):
    """Of 64,000,000,000,000 rows, and the value that fails lies behind the rows that are shown."""
    assert len(good("SELECT a.id FROM d.t AS a, d.t AS b, d.t AS c", warehouse=warehouse).splitlines()) == 101
    assert len(good(FAILS_LATE, warehouse=warehouse).splitlines()) == 101
    assert "division by zero" in refused(FAILS_LATE, "--format", "csv", warehouse=warehouse)


@pytest.mark.parametrize("format", ["csv", "parquet", "arrow"])
def test_a_statement_that_fails_leaves_the_file_as_it_was(format, warehouse, tmp_path):
    file = tmp_path / "out" / "rows"
    file.parent.mkdir()
    for there in (b"", b"precious"):
        if there:
            file.write_bytes(there)
        assert "division by zero" in refused(FAILS_LATE, "--format", format, "-o", str(file), warehouse=warehouse)
        assert [path.read_bytes() for path in file.parent.iterdir()] == ([there] if there else [])


def test_a_pipe_never_gets_a_whole_file_of_a_query_that_fails(warehouse):
    result = call(FAILS_LATE, "--format", "parquet", warehouse=warehouse)
    assert result.exit_code != 0 and not result.stdout_bytes.endswith(b"PAR1")


def test_a_replaced_file_keeps_its_mode_and_links_to_it(warehouse, tmp_path):
    (tmp_path / "real.csv").write_text("old")
    (tmp_path / "real.csv").chmod(0o600)
    (tmp_path / "link.csv").symlink_to(tmp_path / "real.csv")
    good("SELECT 1 AS x", "-o", str(tmp_path / "link.csv"), warehouse=warehouse)
    assert (tmp_path / "link.csv").is_symlink() and (tmp_path / "real.csv").read_text() == "x\n1\n"
    assert (tmp_path / "real.csv").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["SELECT 1", "--format", "xml"], "expected table or csv or json or parquet or arrow, found 'xml'"),
        (["SELECT 1", "--format", "csv", "--json"], "--json and --format csv"),
        (["SELECT 1", "-o", "rows"], "add --format csv, json, parquet, arrow"),
        (["SELECT 1", "-o", "no-such-folder/rows.csv"], "there is no such folder"),
        (["SELECT 1", "-o", "/dev/null", "--format", "csv"], "not a file"),
        (["SELECT 1", "-o", "-", "--format", "csv"], "leave --output out"),
        (["SELECT 1; SELECT 2", "-o", "{}.csv"], "--output takes one query, found 2 statements"),
        (["", "-o", "{}.csv"], "--output takes one query, found 0 statements"),
        (["SELECT 1; SELECT 2", "--format", "arrow"], "--format arrow takes one query"),
        (["DELETE FROM d.t", "-o", "{}.csv"], "--output takes a query, expected SELECT, EXPLAIN, SHOW or DESCRIBE, found DELETE"),
        (["CALL compact(table => 'd.t')", "--format", "parquet"], "--format parquet takes a query"),
        (["SELECT 1 AS x, 2 AS x", "--format", "json"], "two columns have one name"),
        (["SELECT 1 AS x, 2 AS x", "--format", "parquet"], "two columns have one name"),
        (["SELECT nope FROM d.t", "-o", "{}.csv"], "unknown column nope"),
    ],
)  # fmt: skip
def test_what_is_not_obeyed_is_refused_and_leaves_nothing(arguments, said, warehouse, lake, tmp_path):
    assert said in refused(*(text.replace("{}", str(tmp_path / "rows")) for text in arguments), warehouse=warehouse)
    assert not list(tmp_path.glob("rows*")) and len(lake.table("d.t").scan()) == ROWS


def test_a_terminal_gets_no_bytes(warehouse, monkeypatch):
    monkeypatch.setattr("lsmlake.cli.sql_output.sys.stdout", type("Terminal", (), {"isatty": lambda self: True})())
    from lsmlake.cli.sql_output import output_of

    with pytest.raises(InvalidQuery, match="a terminal does not show parquet"):
        output_of("parquet", False, None)


@contextmanager
def ctrl_c(seconds: float = 1) -> Iterator[None]:
    """Presses Ctrl-C after a while, and again every ten seconds: Python loses one that comes while it collects an object."""
    done = threading.Event()

    def press() -> None:
        pause = seconds
        while not done.wait(pause):
            os.kill(os.getpid(), signal.SIGINT)
            pause = 10

    thread = threading.Thread(target=press)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


@pytest.mark.parametrize("query", [ENDLESS, f"SELECT a.id FROM ({ENDLESS}) AS x, d.t AS a"], ids=["at once", "before rows"])
def test_ctrl_c_ends_the_query_and_leaves_no_file(query, warehouse, tmp_path):
    file = tmp_path / "out" / "rows.csv"
    file.parent.mkdir()
    with ctrl_c():
        result = call(query, "-o", str(file), warehouse=warehouse)
    assert result.exit_code == 130
    assert not list(file.parent.iterdir())
    assert good("SELECT 1 AS x", "--format", "csv", warehouse=warehouse) == b"x\n1\n"


def test_ctrl_c_between_batches(lake, warehouse):
    """While the reader does something else."""
    rows = streamed_rows.sql(
        lake, "SELECT a.id FROM d.t AS a JOIN d.t AS b ON a.price < b.price AND a.price * b.price < -1 OR a.id = b.id"
    )
    with pytest.raises(KeyboardInterrupt), ctrl_c():
        for _ in rows.batches:
            time.sleep(60)
    rows.batches.close()
    assert lake.sql("SELECT 1 AS x").fetchall() == [(1,)]


def test_the_shell_goes_on_after_ctrl_c(lake, warehouse, capsys, monkeypatch):
    monkeypatch.setattr("lsmlake.cli.sql_commands.readline", None)
    from lsmlake.cli.sql_commands import _run
    from lsmlake.cli.sql_output import output_of

    chosen, lines = output_of("csv", False, None), iter([ENDLESS + ";", "SELECT nope;", "SELECT 7 AS y;", "exit"])
    with ctrl_c():
        run_shell(lake, lambda text: _run(lake, text, None, chosen), lambda prompt: next(lines))
    captured = capsys.readouterr()
    assert captured.out.endswith("y\n7\n") and captured.err.startswith("interrupted\n") and "unknown column" in captured.err


def test_a_reader_may_close_the_pipe(warehouse):
    program = "from lsmlake.cli.main import run; run()"
    command = [sys.executable, "-c", program, "sql", f"{ALL}", "--format", "json", "-w", warehouse]
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
    ) as process:
        assert json.loads(process.stdout.readline())["id"] == 0
        process.stdout.close()
        assert process.stderr.read() == b"" and process.wait() == 141


def test_a_stream_has_the_rows_and_types_of_a_result(lake, warehouse):
    query = (
        "SELECT id, CAST(id AS DECIMAL(9,2)) AS d, array(id, NULL) AS a, named_struct('x', name) AS s, price > 1 AS b FROM d.t"
    )
    rows, result = streamed_rows.sql(lake, query), lake.sql(query).to_arrow()
    found = list(rows.batches)
    assert rows.schema == result.schema and pa.Table.from_batches(found, rows.schema).equals(result)
    assert len(found) > 1 and rows.count is None
    shown = streamed_rows.sql(lake, "SHOW TABLES")
    assert shown.count == 1 == sum(batch.num_rows for batch in shown.batches)


def test_closing_a_stream_early_ends_its_query(lake, warehouse):
    rows = streamed_rows.sql(lake, f"SELECT a.id FROM d.t AS a JOIN ({ENDLESS}) AS x ON a.id < x.n UNION ALL SELECT id FROM d.t")
    running = threading.active_count()
    rows.batches.close()  # it has not begun
    rows = streamed_rows.sql(lake, "SELECT a.id FROM d.t AS a CROSS JOIN d.t AS b CROSS JOIN d.t AS c")
    assert next(rows.batches).num_rows
    rows.batches.close()  # to the end of the query this would last for days
    assert threading.active_count() == running
    assert all(len(idle) <= 4 for idle in connection._idle.values())


def test_an_error_in_a_later_batch_is_that_of_the_database(lake, warehouse):
    rows = streamed_rows.sql(lake, FAILS_LATE)
    assert next(rows.batches)["x"][0].as_py() == 1
    with pytest.raises(InvalidQuery, match="division by zero") as found:
        list(rows.batches)
    with pytest.raises(InvalidQuery) as at_once:
        lake.sql(FAILS_LATE)
    assert str(found.value) == str(at_once.value)


def test_every_format_has_its_writer():
    from lsmlake.cli.sql_output import ARRAY, FORMATS, TABLE

    assert set(WRITERS) == {*FORMATS, ARRAY} - {TABLE}


@pytest.mark.parametrize("rows", [1, 4_095, 4_097])
def test_the_halves_of_a_batch_are_its_lines(rows):
    """Another thread makes the first half of a large batch."""
    columns = {
        "list": pa.array([None if n % 7 == 0 else [n, None] for n in range(rows)], pa.list_(pa.int64())),
        "struct": pa.array([None if n % 5 == 1 else {"a": n, "b": f'"{n},\n'} for n in range(rows)]),
        "map": pa.array(
            [None if n % 6 == 0 else [(f"k{n}", n), ("j", None)] for n in range(rows)], pa.map_(pa.string(), pa.int64())
        ),
        "number": pa.array([(1.5, float("nan"), 2.0, None)[n % 4] for n in range(rows)], pa.float64()),
        "bytes": pa.array([None if n % 4 == 1 else bytes([n % 256]) for n in range(rows)]),
        "text": pa.array([None if n % 4 == 1 else f'a"{n}\\\n' for n in range(rows)]),
    }
    (batch,) = pa.table(columns).to_batches()
    written = {name: io.BytesIO() for name in ("csv", "json", ARRAY)}
    for name, sink in written.items():
        writer = WRITERS[name](sink, batch.schema, True)
        writer.write(batch)
        writer.end()
    lines = "".join(json_lines(batch.schema.names, batch.columns).to_pylist())
    assert written["json"].getvalue().decode() == lines
    assert written["csv"].getvalue().decode().partition("\n")[2] == "".join(csv_lines(batch.columns).to_pylist())
    assert written[ARRAY].getvalue().decode() == "[\n" + lines[:-1].replace("}\n{", "},\n{") + "\n]\n"
