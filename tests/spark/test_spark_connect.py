"""Every test marked `connect`, once more on Spark Connect: run by connect_program.py in one process, reported here one by one."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from effort import is_slow_now, kinds_of_session

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1800), pytest.mark.every_case]

FOLDER = Path(__file__).parent
PROGRAM = FOLDER.parent / "support" / "connect_program.py"
LATE = "Python worker failed to connect back"


def marked() -> Iterator[str]:
    """The names of the tests that run on Connect."""
    for path in sorted(FOLDER.glob("test_*spark*.py")):
        if path != Path(__file__):
            module = importlib.import_module(path.stem)
            for name, value in vars(module).items():
                found = {mark.name: mark for mark in (*marks(module), *marks(value))}
                if (
                    not name.startswith("test_")
                    or "connect" not in found
                    or ("in_turn" in found and not is_slow_now(path.name, name))
                ):
                    continue
                if "connect" in kinds_of_session(found["connect"], name):
                    yield f"{path.name}::{name}"


def marks(of: object) -> list[pytest.Mark]:
    """Of a module or a test; a test of which some parameters have a mark has it."""
    found = getattr(of, "pytestmark", [])
    found = [getattr(mark, "mark", mark) for mark in (found if isinstance(found, list) else [found])]
    parameters = [value for mark in found if mark.name == "parametrize" for value in mark.args[1]]
    return [*found, *(getattr(mark, "mark", mark) for value in parameters for mark in getattr(value, "marks", ()))]


@pytest.fixture(scope="module")
def errors(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The error, if any, of every test. A Connect server gives the Python process of a `foreachBatch` function ten seconds to
    start, which no setting changes and a busy machine may exceed: tests that failed by that run once more."""
    folder = tmp_path_factory.mktemp("connect")
    found = run(folder / "all")
    late = [name for name, error in found.items() if LATE in error]
    return found | run(folder / "late", *late) if late else found


def run(folder: Path, *names: str) -> dict[str, str]:
    """The errors of the tests with these names, or of all."""
    folder.mkdir()
    target, log = folder / "errors.json", folder / "log"
    command = [sys.executable, str(PROGRAM), str(target), *names]
    with log.open("w") as output:  # a file: the server would keep a pipe open
        subprocess.run(command, stdout=output, stderr=subprocess.STDOUT, cwd=folder, timeout=1750, check=False)
    assert target.exists(), log.read_text()[-4000:]
    return json.loads(target.read_text())


@pytest.mark.parametrize("name", list(marked()))
def test_on_spark_connect(name: str, errors: dict[str, str]):
    assert name in errors, f"did not run; those that did: {sorted(errors)}"
    if errors[name]:
        pytest.fail(errors[name], pytrace=False)
