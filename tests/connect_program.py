"""Runs the tests marked `connect` on Spark Connect and writes their outcomes to a file, as JSON: {test: error or ""}.

A process cannot hold a classic session and a Connect session, so test_spark_connect.py starts this one. Parameters of a test
count as one test here.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest
from spark_support import CONNECT

FOLDER = Path(__file__).parent


class Record:
    """A pytest plugin that remembers the error, if any, of every test."""

    def __init__(self) -> None:
        self.errors: dict[str, str] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        name = report.nodeid.rpartition("/")[2].partition("[")[0]
        before = self.errors.setdefault(name, "")
        if report.failed:
            self.errors[name] = before + f"{report.nodeid}, {report.when}:\n{report.longreprtext}\n"


def main(target: str) -> None:
    os.environ[CONNECT] = "1"
    record = Record()
    options = ["-m", "connect", "-p", "no:cacheprovider", "--rootdir", str(FOLDER.parent)]
    try:
        pytest.main([*options, *map(str, sorted(FOLDER.glob("test_*spark*.py")))], plugins=[record])
    finally:
        Path(target).write_text(json.dumps(record.errors))


if __name__ == "__main__":
    main(sys.argv[1])
