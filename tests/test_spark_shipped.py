"""Nothing need be installed on the executors: a zip of the package is enough, as `spark-submit --py-files` ships it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

import lsmlake

pytestmark = pytest.mark.spark

PROGRAM = Path(__file__).parent / "shipped_program.py"


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> str:
    """An interpreter with every package of this one but lsmlake, however that is installed."""
    folder = tmp_path_factory.mktemp("python")
    packages = folder / "packages"
    packages.mkdir()
    for kind in ("purelib", "platlib"):
        for path in Path(sysconfig.get_path(kind)).iterdir():
            if "lsmlake" not in path.name and not (packages / path.name).exists():
                (packages / path.name).symlink_to(path)
    program = folder / "python"  # -S: no .pth file of an editable installation is read
    program.write_text(f'#!/bin/sh\nPYTHONPATH="$PYTHONPATH:{packages}" exec {sys.executable} -S "$@"\n')
    program.chmod(0o755)
    return str(program)


@pytest.fixture(scope="module")
def zipped(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The package as a zip file."""
    package = Path(lsmlake.__file__).parent
    return shutil.make_archive(str(tmp_path_factory.mktemp("zip") / "lsmlake"), "zip", package.parent, package.name)


@pytest.mark.parametrize("kind", ["classic", "connect"])
def test_workers_get_the_package_as_a_zip(python, zipped, tmp_path, kind):
    """By `sparkContext.addPyFile` or, on Connect, `spark.addArtifact`."""
    (tmp_path / "spark").mkdir()
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [sys.executable, str(PROGRAM), str(tmp_path), python, zipped, kind]
    with (tmp_path / "log").open("w") as log:
        how = {"stdout": subprocess.PIPE, "stderr": log, "cwd": tmp_path, "env": environment, "text": True}
        done = subprocess.run(command, timeout=200, check=False, **how)
    assert done.returncode == 0, (tmp_path / "log").read_text()[-3000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert "No module named 'lsmlake'" in found["nothing"], "the workers had it already: the test proves nothing"
    assert found["shipped"] == ""
