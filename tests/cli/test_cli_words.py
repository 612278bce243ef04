"""No word of the command line is lost: each is obeyed as it was written, or refused with a cure for the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command_line import call, complaint

import lsmlake
from lsmlake.cli.app import single
from lsmlake.cli.commands import COMMANDS


@pytest.fixture
def lake(tmp_path: Path) -> lsmlake.Lake:
    made = lsmlake.connect(tmp_path / "warehouse")
    made.sql("CREATE DATABASE d")
    made.sql("CREATE TABLE d.t (id INT, s STRING, n INT, PRIMARY KEY (id, s))")
    made.sql("INSERT INTO d.t VALUES (1, 'x', 10), (1, ' x', 20)")
    return made


@pytest.fixture
def root(lake: lsmlake.Lake, tmp_path: Path) -> Path:
    return tmp_path / "warehouse"


@pytest.mark.parametrize("name", COMMANDS)
def test_an_option_of_one_value_is_given_once(name: str):
    """The last one would be taken, and the others forgotten. Checked before the command does anything."""
    options = [one for one in single(name).params if one.param_type_name == "option" and not one.multiple and not one.is_flag]
    assert options
    for option in options:
        for written in option.opts:
            assert "given twice; give it once" in complaint(name, written, "1", option.opts[-1], "2")


def test_a_warehouse_is_named_once(root: Path):
    assert "given twice" in complaint("-w", "a", "-w", "b", "ls")
    assert call("-w", root, "ls", "-w", root) == call("ls", "-w", root)


def test_blanks_of_a_value_count(root: Path, lake: lsmlake.Lake):
    assert json.loads(call("get", "d.t", "id= 1", "s= x", "--json", "-w", root))["n"] == 20
    assert json.loads(call("get", "d.t", "id=1", "s=x", "--json", "-w", root))["n"] == 10
    assert json.loads(call("sql", "SELECT :a AS a", "--arg", "a= x ", "--json", "-w", root)) == [{"a": " x "}]
    call("alter", "d.t", "--comment", "n= a ", "--add", "z STRING", "--default", "z= y ", "-w", root)
    described = lake.sql("SHOW CREATE TABLE d.t").fetchall()[0][0]
    assert "n INT COMMENT ' a '" in described and "z STRING DEFAULT ' y '" in described


ADDED = {
    "z STRING DEFAULT two": "STRING DEFAULT 'two'",
    "z STRING DEFAULT 'two words'": "STRING DEFAULT 'two words'",
    "z STRING DEFAULT 'it''s'": "STRING DEFAULT 'it\\'s'",
    "z STRING DEFAULT ''": "STRING DEFAULT ''",
    "z STRING COMMENT 'c' DEFAULT 'v'": "STRING COMMENT 'c' DEFAULT 'v'",
    "z INT NOT NULL DEFAULT 5": "INT NOT NULL DEFAULT 5",
    "z STRING DEFAULT 'v' COMMENT 'c'": None,
    "z STRING DEFAULT two words": None,
    "z STRING DEFAULT 5 COMMENT 'c'": None,
    "z STRING DEFAULT 'v": None,
    "z STRING DEFAULT v DEFAULT w": None,
    "z INT FIRST": None,
    "z INT AFTER n": None,
}


@pytest.mark.parametrize("text", ADDED)
def test_each_word_of_an_added_column_is_heard(root: Path, lake: lsmlake.Lake, text: str):
    if (expected := ADDED[text]) is None:
        complaint("alter", "d.t", "--add", text, "-w", root)
        assert lake.table("d.t").schema.names == ["id", "s", "n"]
    else:
        call("alter", "d.t", "--add", text, "-w", root)
        assert f"z {expected}" in lake.sql("SHOW CREATE TABLE d.t").fetchall()[0][0]


REFUSED = {
    ("alter", "d.t", "--set", "bucket=3", "--unset", "bucket"): "--set and --unset exclude each other, found bucket",
    ("alter", "d.t", "--not-null", "n", "--nullable", "n"): "--not-null and --nullable exclude each other, found n",
    ("sql", ""): "the SQL is empty",
    ("sql", " ; "): "the SQL is empty",
    ("sql", "SELECT 1", "--arg", "a=1"): "--arg names no parameter of the text, found ['a']; write :NAME in the text",
    ("sql", "SELECT :b", "--arg", "a=1"): "add --arg b=VALUE",
    ("sql", "SELECT ?", "--arg", "a=1"): "write :NAME instead of ?",
    ("load", "d.new", "rows.csv", "--primary-key", "id"): "only --create takes these options, found --primary-key",
}


@pytest.mark.parametrize("words", REFUSED)
def test_what_is_not_obeyed_is_refused_with_a_cure_for_the_command_line(root: Path, words: tuple[str, ...]):
    told = complaint(*words, "-w", root)
    assert REFUSED[words] in told and "args" not in told


def test_a_column_of_events_is_named_by_an_option(root: Path, tmp_path: Path):
    (tmp_path / "rows.csv").write_text("id,s\n1,x\n")
    told = complaint("load", "d.t", tmp_path / "rows.csv", "--format", "debezium-json", "-w", root, code=1)
    assert "--column NAME" in told and "column=..." not in told
