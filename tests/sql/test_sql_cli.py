"""`lsmlake sql`: statements from the command line, from standard input and in the shell."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from lsmlake.cli.app import app
from lsmlake.cli.sql_commands import completions, run_shell
from lsmlake.errors import InvalidQuery


@pytest.fixture
def warehouse(lake, tmp_path):
    lake.sql("CREATE TABLE d.t (id BIGINT, name STRING, PRIMARY KEY (id))")
    lake.sql("INSERT INTO d.t VALUES (1, 'a,b'), (2, NULL)")
    return str(tmp_path / "warehouse")


def call(*arguments: str, given: str | None = None) -> str:
    result = CliRunner().invoke(app, ["sql", *arguments], input=given)
    assert result.exit_code == 0, result.output
    return result.stdout


def test_rows_come_as_a_table_as_csv_and_as_json(warehouse):
    query = "SELECT * FROM d.t ORDER BY id"
    assert call(query, "-w", warehouse).split() == ["id", "name", "1", "a,b", "2", "NULL"]
    assert call(query, "--format", "csv", "-w", warehouse) == 'id,name\n1,"a,b"\n2,\n'
    rows = [{"id": 1, "name": "a,b"}, {"id": 2, "name": None}]
    assert json.loads(call(query, "--json", "-w", warehouse)) == rows
    assert list(map(json.loads, call(query, "--format", "json", "-w", warehouse).splitlines())) == rows


def test_several_statements_from_standard_input(warehouse):
    script = "INSERT INTO d.t VALUES (3, 'x;y');\n SELECT count(*) AS n, max(name) AS m FROM d.t;\n"
    assert call("--format", "csv", "-w", warehouse, given=script).split()[-2:] == ["n,m", "3,x;y"]
    assert call("SELECT :x AS x", "--arg", "x=1 OR 1", "--format", "csv", "-w", warehouse) == "x\n1 OR 1\n"
    assert call("DROP TABLE d.t", "-w", warehouse) == "done\n"


def test_a_wrong_statement_is_told_with_its_place(warehouse):
    result = CliRunner().invoke(app, ["sql", "SELECT nope FROM d.t", "-w", warehouse])
    assert result.exit_code != 0 and "unknown column nope" in f"{result.output}{result.exception}"


def test_the_shell_runs_statements_and_goes_on_after_an_error(lake, warehouse, capsys, monkeypatch):
    monkeypatch.setattr("lsmlake.cli.sql_commands.readline", None)
    lines, ran = iter(["SELECT", "1;", "", "BAD;", "exit"]), []

    def run(text: str) -> None:
        ran.append(text)
        if text == "BAD":
            raise InvalidQuery("this is bad")

    run_shell(lake, run, lambda prompt: next(lines))
    assert ran == ["SELECT\n1", "BAD"] and "this is bad" in capsys.readouterr().err


def test_names_are_completed(lake, warehouse):
    assert completions(lake, "SELECT * FROM d", "d") == [
        "d.t",
        "d.",
        "DELETE",
        "DATABASE",
        "DROP",
        "DESCRIBE",
        "DATABASES",
        "DISTINCT",
    ]
    assert completions(lake, "SELECT * FROM d.t WHERE n", "n") == ["name"]


def test_the_shell_finds_the_ends_of_statements(lake, warehouse, capsys):
    lines = [
        "SELECT id, -- not; here",
        " ';' AS x FROM d.t",
        "WHERE id = 1; SELECT 7 AS y;",
        "SELECT",
        "'a;",
        "b' AS z;",
        "help",
        "exit",
    ]
    ran = []

    def stopped(text: str) -> None:
        ran.append(text.strip())
        if "7" in text:
            raise KeyboardInterrupt

    run_shell(lake, stopped, lambda prompt, rest=iter(lines): next(rest))
    assert ran == ["SELECT id, -- not; here\n ';' AS x FROM d.t\nWHERE id = 1", "SELECT 7 AS y", "SELECT\n'a;\nb' AS z"]
    captured = capsys.readouterr()
    assert "interrupted" in captured.err and "Tab completes" in captured.out
