"""`python -m tests` runs every test, or says which it does not run and why."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

FOLDER = Path(__file__).parents[1]


@pytest.fixture
def program() -> ModuleType:
    spec = importlib.util.spec_from_file_location("all_tests", FOLDER / "__main__.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def no_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.delenv("LSMLAKE_REQUIRE_SPARK", raising=False)


def test_a_file_of_tests_can_run_alone():
    """What several folders need lies in `support`: pytest finds there, and beside a file, what the file imports."""
    paths = sorted(FOLDER.rglob("test_*.py"))
    folders = {path.stem: path.parent for path in paths}
    assert len(folders) == len(paths), "two files have one name"
    assert FOLDER not in folders.values(), "a file of tests lies in the folder of its room"
    for path in [*paths, *(FOLDER / "support").glob("*.py")]:
        for name in re.findall(r"^\s*(?:from|import) (test_\w+)", path.read_text(), re.M):
            assert folders[name] == path.parent, f"{path.name} imports {name} of another folder"


def test_every_test_is_in_one_of_the_lanes(program):
    files = list(map(Path, program._files_on_spark()))
    marked = re.compile(r"^(@|pytestmark = .*|.*marks=)pytest\.mark\.spark|mark\.connect", re.M)
    assert {path for path in FOLDER.rglob("test_*.py") if marked.search(path.read_text())} <= set(files)
    first = [f"test_{name}.py" for name in program._LONGEST]
    assert [path.name for path in files[: len(first)]] == first


def test_without_java_the_other_tests_run_and_the_last_line_says_so(program, no_java, monkeypatch, capsys):
    ran = []
    monkeypatch.setattr(program, "_run", lambda lane, folder: ran.append(lane.name) or (0, "7 passed"))
    assert program.main() == 0
    assert ran == ["without Spark"]
    lines = capsys.readouterr().out.splitlines()
    assert lines[-2] == "tests without Spark: 7 passed"
    assert lines[-1].startswith("tests on Spark: not run. Spark needs Java 17 or newer, found no java on the PATH; run `apt-get")
    monkeypatch.setenv("LSMLAKE_REQUIRE_SPARK", "1")
    assert program.main() == 1


@pytest.mark.parametrize("status", [1, 5, -9], ids=["failed", "no tests", "killed"])
def test_a_lane_that_fails_fails_all(program, monkeypatch, status):
    monkeypatch.setattr(program, "_missing_java", lambda: None)
    monkeypatch.setattr(program, "_run", lambda lane, folder: (status if lane.name == "on Spark" else 0, "told"))
    assert program.main() == 1


def test_the_lines_of_a_lane_are_printed_with_its_name(program, tmp_path, capfd):
    status, last = program._run(program.Lane("some", ["--version"]), tmp_path)
    assert status == 0 and last.startswith("pytest ")
    assert capfd.readouterr().out == f"some: {last}\n"
