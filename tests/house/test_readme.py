"""The README is correct: its Python runs in order in one directory, then its commands; CI runs the first two commands."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```", (ROOT / "README.md").read_text(), re.M | re.S)
PYTHON = [text for language, text in BLOCKS if language == "python"]
SHELL = [text for language, text in BLOCKS if language == "sh"]


def test_it_is_short_and_every_block_is_of_a_kind_that_runs():
    assert len((ROOT / "README.md").read_text().splitlines()) <= 200
    assert {language for language, _ in BLOCKS} == {"text", "python", "sh"}


def commands(block: str) -> list[str]:
    return [line.split("  #")[0].strip() for line in block.splitlines() if line.strip()]


def test_ci_runs_the_two_commands_the_readme_begins_with():
    script = (ROOT / ".ci" / "run").read_text()
    for line in commands(SHELL[0]) + commands(SHELL[1]):
        for part in line.split(" && "):
            assert part in script, f".ci/run lacks `{part}`"


def test_every_guarantee_names_a_test_that_exists():
    text = (ROOT / "lsmlake" / "docs" / "guarantees.md").read_text()
    promises = [line for line in text.partition("\n## Not promised\n")[0].splitlines() if line.startswith("- ")]
    assert len(promises) > 20
    for promise in promises:
        named = re.findall(r"`tests/(?:\w+/)*(\w+\.py)::(\w+)`", promise)
        assert named, promise
        for file, name in named:
            (path,) = (ROOT / "tests").rglob(file)
            assert f"def {name}(" in path.read_text(), promise


def test_the_tree_is_that_of_the_picture():
    """The levels, rows and dead rows that the text shows stand in the picture of the documents, too."""
    (text,) = (text for language, text in BLOCKS if language == "text")
    picture = (ROOT / "lsmlake" / "docs" / "pictures" / "tree.svg").read_text()
    rows = re.findall(r" (\d+) +1 +([\d,]+) +([\d,]+)", text)
    assert len(rows) == 5
    for level, count, dead in rows:
        assert f">level {level}<" in picture and f">{count} rows{'' if dead == '0' else f', {dead} dead'}<" in picture


def test_the_first_program_needs_no_spark(tmp_path: Path):
    run_python(PYTHON[0] + "\nimport sys\nassert not any(name.split('.')[0] == 'pyspark' for name in sys.modules)\n", tmp_path)


@pytest.mark.spark
def test_programs_and_commands(tmp_path: Path):
    run_python("\n".join(PYTHON), tmp_path)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    for line in [line for block in SHELL[2:] for line in commands(block)]:
        if line.startswith("export "):
            name, value = line.removeprefix("export ").split("=")
            environment[name] = value
            continue
        words = shlex.split(line)
        assert words[0] == "lsmlake"
        done = subprocess.run(
            [Path(sys.executable).parent / "lsmlake", *words[1:]], cwd=tmp_path, env=environment, capture_output=True, text=True
        )
        assert done.returncode == 0, f"{line}\n{done.stdout}\n{done.stderr}"
        assert done.stdout.strip()


def run_python(text: str, directory: Path) -> None:
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", text], cwd=directory, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
