"""All tests: those without a JVM and those on Spark, side by side, because one kind computes while the other waits for a JVM.

    python -m tests

Needs `pip install ".[test]"`. Each kind ends with the tests that were skipped and why; the last lines are the results. Without
Java the tests on Spark are left out, which the last line says; with LSMLAKE_REQUIRE_SPARK=1 that is a failure.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parent.parent))

from lsmlake.cli.java import require_java
from lsmlake.errors import MissingDependency

FOLDER = Path(__file__).parent
_LONGEST = ("spark_connect", "cluster", "demo", "spark_shipped", "readme", "spark_killed")
"""Files with tests on Spark that take longest. They come first, so that no process waits for another at the end."""
_MEMORY, _ROOM = "/dev/shm", 4 << 30
"""The file system in memory that Linux has, and the free bytes that all tests may need."""


class Lane(NamedTuple):
    """Tests that run on all cores, beside those of the other lane. `arguments`: of pytest."""

    name: str
    arguments: list[str]


def main() -> int:
    lanes = [Lane("without Spark", ["--dist", "worksteal", "-m", "not spark"])]
    missing = _missing_java()
    if missing is None:
        lanes.append(Lane("on Spark", ["--dist", "loadfile", "--no-loadscope-reorder", "-m", "spark", *_files_on_spark()]))
    results: dict[str, tuple[int, str]] = {}
    with _fast_folder() as folder:
        threads = [threading.Thread(target=lambda lane=lane: results.update({lane.name: _run(lane, folder)})) for lane in lanes]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    print()
    for name, (_, last) in results.items():
        print(f"tests {name}: {last}")
    if missing is not None:
        print(f"tests on Spark: not run. {missing}")
        if os.environ.get("LSMLAKE_REQUIRE_SPARK") == "1":
            return 1
    return int(any(status for status, _ in results.values()))  # that of a killed process is negative


def _missing_java() -> MissingDependency | None:
    try:
        require_java()
    except MissingDependency as missing:
        return missing
    return None


def _files_on_spark() -> list[str]:
    """Named one by one: each process would take ten seconds to collect all tests."""
    files = [path for path in sorted(FOLDER.glob("*/test_*.py")) if "mark.spark" in path.read_text()]
    return [str(path) for path in sorted(files, key=_turn)]


def _turn(path: Path) -> int:
    name = path.stem.removeprefix("test_")
    return _LONGEST.index(name) if name in _LONGEST else len(_LONGEST)


@contextmanager
def _fast_folder() -> Iterator[Path]:
    """A folder for the files of all tests, in memory if the machine has a file system there with enough space: tests write small
    files and wait for the disk after each. Removed at the end."""
    roomy = Path(_MEMORY).is_dir() and shutil.disk_usage(_MEMORY).free >= _ROOM
    folder = Path(tempfile.mkdtemp(prefix="lsmlake-tests-", dir=_MEMORY if roomy else None))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _run(lane: Lane, folder: Path) -> tuple[int, str]:
    """Prints the lines of a lane as they come. Returns its exit status and the last line. `folder`: for its temporary files."""
    command = [sys.executable, "-m", "pytest", "-n", "logical", "-rs", *lane.arguments]
    last = "nothing was printed"
    with subprocess.Popen(
        command,
        cwd=FOLDER.parent,
        env={**os.environ, "TMPDIR": str(folder)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    ) as tests:
        for line in tests.stdout:
            last = line.rstrip() or last
            print(f"{lane.name}: {line}", end="", flush=True)
    return tests.returncode, last


if __name__ == "__main__":
    about = __doc__.partition("\n\n")[0]
    cure = "Some tests: python -m pytest tests/commit/test_commit.py, with the options of pytest."
    argparse.ArgumentParser(prog="python -m tests", description=about, epilog=cure).parse_args()
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
