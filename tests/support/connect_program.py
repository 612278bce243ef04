"""Runs the tests marked `connect`, or those that are named, on Spark Connect and writes their outcomes to a file, as JSON:
{test: error or ""}.

A process cannot hold a classic session and a Connect session, so test_spark_connect.py starts this one. Parameters of a test
count as one test here.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from spark_support import CONNECT

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "tests" / "spark"


class Record:
    """A pytest plugin that remembers the error, if any, of every test."""

    def __init__(self) -> None:
        self.errors: dict[str, str] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        name = report.nodeid.partition("[")[0].rpartition("/")[2]
        before = self.errors.setdefault(name, "")
        if report.failed:
            self.errors[name] = before + f"{report.nodeid}, {report.when}:\n{report.longreprtext}\n"


def main(target: str, names: Sequence[str]) -> None:
    """`names`: of tests, as in the outcomes; none for all."""
    os.environ[CONNECT] = "1"
    record = Record()
    options = ["-m", "connect", "-p", "no:cacheprovider", "--rootdir", str(ROOT)]
    tests = names or [path.name for path in sorted(FOLDER.glob("test_*spark*.py"))]
    try:
        pytest.main([*options, *(f"{FOLDER}/{name}" for name in tests)], plugins=[record])
    finally:
        Path(target).write_text(json.dumps(record.errors))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
