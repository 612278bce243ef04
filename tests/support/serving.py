"""A server of `lsmlake serve` in a process of its own, and the application inside the process of the test."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from starlette.testclient import TestClient

import lsmlake
from lsmlake.serve.application import application
from lsmlake.serve.serve_settings import ServeSettings

ROOT = Path(__file__).parents[2]
_LINE = re.compile(r"serving (\S+): (http\S+), catalog of Iceberg (http\S+), Flight SQL (grpc\S+)\n")


class Serving(NamedTuple):
    """A running server and its addresses."""

    process: subprocess.Popen
    web: str
    catalog: str
    flight: str

    def end(self, number: int = signal.SIGTERM) -> int:
        """Ends it by a signal; returns its exit code."""
        self.process.send_signal(number)
        return self.process.wait(30)


@contextmanager
def serving(warehouse: Path, *options: str) -> Iterator[Serving]:
    command = [Path(sys.executable).parent / "lsmlake", "serve", warehouse, "--port", "0", "--flight-port", "0", *options]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None and process.stderr is not None
            line = process.stdout.readline()
            found = _LINE.fullmatch(line)
            assert found, f"{line}{process.stderr.read() if process.poll() is not None else ''}"
            yield Serving(process, *found.groups()[1:])
        finally:
            process.kill()


def client_of(lake: lsmlake.Lake, **settings: object) -> TestClient:
    """A client of the application, as a program on this machine is."""
    return TestClient(application(lake, ServeSettings(**settings)), base_url="http://localhost:8181")
