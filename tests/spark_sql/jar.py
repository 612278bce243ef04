"""The tests of Spark's own SQL: a jar on Maven, which is got once and read where Maven keeps it. Nothing of it is copied."""

from __future__ import annotations

import subprocess
from functools import cache
from pathlib import Path
from zipfile import ZipFile

from bench.peers.setup import NotReady

VERSION = "4.2.0"
"""The newest release whose tests are on Maven. What a newer PySpark changed shows as wrong."""
_ARTIFACT = f"org.apache.spark:spark-sql_2.13:{VERSION}:jar:tests"
_KEPT = Path.home() / ".m2" / "repository" / "org" / "apache" / "spark" / "spark-sql_2.13" / VERSION
JAR = _KEPT / f"spark-sql_2.13-{VERSION}-tests.jar"


@cache
def jar() -> ZipFile:
    """The jar, from Maven if this machine does not have it. Raises NotReady."""
    if not JAR.exists():
        goal = ["dependency:get", f"-Dartifact={_ARTIFACT}", "-Dtransitive=false"]
        try:
            done = subprocess.run(["mvn", "-q", "-B", "-U", *goal], capture_output=True, text=True)
        except FileNotFoundError as error:
            raise NotReady(f"Maven is not installed: {error}") from error
        if done.returncode or not JAR.exists():
            raise NotReady(f"{_ARTIFACT}: {(done.stdout + done.stderr).strip()[:2000]}")
    return ZipFile(JAR)


def names(folder: str, ending: str) -> list[str]:
    """The files below a folder, without the folder and the ending."""
    found = (name for name in jar().namelist() if name.startswith(folder) and name.endswith(ending))
    return sorted(name.removeprefix(folder).removesuffix(ending) for name in found)


def text(name: str) -> str:
    return jar().read(name).decode()
