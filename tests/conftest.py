"""One Spark session for the whole run, a fresh warehouse for each test.

Tests that need the JVM carry the marker `spark`: without Java they are skipped, or fail if LSMLAKE_REQUIRE_SPARK is 1. Those
that also carry `connect` run a second time on Spark Connect, in a process of their own: see test_spark_connect.py. A short run
(`effort`) has each of them on one kind of session: on that of `connect(short="classic")` or `connect(short="connect")`, because
others reach every line of the library that it reaches on the other kind, or else on both in turn. Of a test with several cases it
runs every eighth one, the others in the next turns, and a test with the marker `in_turn` in every fourth turn only.
"""

from __future__ import annotations

import gc
import os
import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from effort import kinds_of_session, left_to_another_turn
from object_servers import Server, s3_bucket, s3_server
from spark_support import COMPILED, JVM_OPTIONS, classic_session, connect_session, on_connect

import lsmlake
from lsmlake import Lake


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "connect(short=None): needs Spark, and runs a second time on Spark Connect")
    config.addinivalue_line("markers", "every_case: a short run tries all cases")
    config.addinivalue_line("markers", "in_turn: every fourth short run tries this test")
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # a shell starts so what runs in the background; tests press Ctrl-C
        signal.signal(signal.SIGINT, signal.default_int_handler)
    given = os.environ.get("SPARK_SUBMIT_OPTS", "")
    if JVM_OPTIONS not in given:  # a worker of pytest-xdist inherits them
        os.environ["SPARK_SUBMIT_OPTS"] = f"{JVM_OPTIONS} {given}"


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    mine = "connect" if on_connect() else "classic"
    marks = {item: mark for item in items if (mark := item.get_closest_marker("connect"))}
    left = {item for item, mark in marks.items() if mine not in kinds_of_session(mark, item.originalname)}
    left |= left_to_another_turn([item for item in items if item not in left])
    if left:
        config.hook.pytest_deselected(items=list(left))
        items[:] = [item for item in items if item not in left]


def pytest_collection_finish() -> None:
    gc.collect()
    gc.freeze()  # what is there now is there at the end: collections of garbage need not look at it


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("spark") is None or has_java():
        return
    missing = "Spark needs Java 17 or newer: put `java` on PATH or set JAVA_HOME"
    if os.environ.get("LSMLAKE_REQUIRE_SPARK") == "1":
        pytest.fail(missing, pytrace=False)
    pytest.skip(missing)


def has_java() -> bool:
    home = os.environ.get("JAVA_HOME")
    return bool(shutil.which("java")) or (home is not None and Path(home, "bin", "java").exists())


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory):
    """The session of the run: two cores; a task that fails is tried again, twice."""
    folder = tmp_path_factory.mktemp("spark")
    session = connect_session(folder) if on_connect() else classic_session(folder)
    for name, value in () if on_connect() else COMPILED.items():
        session.conf.set(name, value)
    yield session
    session.stop()


@pytest.fixture(scope="session")
def s3_endpoint() -> Iterator[str]:
    """One server for the whole run."""
    with s3_server() as server:
        yield server.endpoint


@pytest.fixture(scope="module")
def s3(s3_endpoint: str, request: pytest.FixtureRequest) -> Server:
    """A bucket of its own for each file of tests."""
    return s3_bucket(s3_endpoint, request.path.stem.replace("_", "-"))


@pytest.fixture
def untimed(monkeypatch: pytest.MonkeyPatch) -> None:
    """For workloads of `bench` at tiny sizes, whose times mean nothing: no garbage is collected before each measure, and no round
    is left out of the measures."""
    monkeypatch.setattr(gc, "collect", lambda: 0)
    monkeypatch.setattr("bench.timing.WARMS_UP", False)


@pytest.fixture
def lake(tmp_path: Path):
    """A new warehouse with the database `d`, without Spark."""
    made = lsmlake.connect(tmp_path / "warehouse")
    made.create_database("d")
    return made


@pytest.fixture
def planted(tmp_path: Path) -> Callable[[Path], Lake]:
    """Gives a warehouse like the one in a folder, by links to its files: to make the tables again takes longer than most tests.
    No file of a table changes once it is written."""

    def linked(folder: Path) -> Lake:
        shutil.copytree(folder, tmp_path / "warehouse", copy_function=os.link)
        return lsmlake.connect(tmp_path / "warehouse")

    return linked


@pytest.fixture
def spark_lake(spark, lake, tmp_path: Path):
    """The warehouse of `lake`, Spark attached."""
    return lsmlake.connect(tmp_path / "warehouse", spark=spark)
