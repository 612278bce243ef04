"""Shared by the tests that need Spark: sessions, rows to compare, settings for a while."""

from __future__ import annotations

import datetime as dt
import os
import socket
import sys
import venv
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from lsmlake.api.scan import Scan
from lsmlake.spark import small_files

CONNECT = "LSMLAKE_TEST_CONNECT"
"""Environment variable: set in the process that runs the tests on Spark Connect."""
QUICK_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=240m"
"""Compile fast, not well: data is small. This much compiled code fits where all of it does by default."""
INTERPRETED = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
"""Spark evaluates expressions as they are. To compile them takes a program a fifth of its processor time."""
COMPILED = {"spark.sql.codegen.wholeStage": "true", "spark.sql.codegen.factoryMode": "FALLBACK"}
"""Spark compiles queries to Java classes, as it does by default."""
_PROPERTIES = {"spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "2", **INTERPRETED}
_WORKERS = Path(__file__).parent / "python_workers"
"""Its module makes Python workers start in a fifth of the time."""
JVM_OPTIONS = " ".join([QUICK_JVM, *(f"-D{name}={value}" for name, value in _PROPERTIES.items())])
"""Options of every JVM that a test starts, also through a program or a command. The classic session of the tests compiles its
queries; the one on Spark Connect and those of programs interpret them, so that both ways are tried."""

# --- sessions ---


def settings(folder: Path) -> dict[str, str]:
    """The settings of every session of the tests; all its files lie in `folder`."""
    return {
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        "spark.driver.host": "localhost",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.default.parallelism": "2",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.timeType.enabled": "true",
        "spark.sql.streaming.metricsEnabled": "false",
        "spark.python.authenticate.socketTimeout": "120s",  # for a Python worker to start on a busy machine; 15 s by default
        "spark.sql.warehouse.dir": str(folder / "spark-warehouse"),
        "spark.local.dir": str(folder),
    }


def _configured(builder: SparkSession.Builder, folder: Path, python: str) -> SparkSession.Builder:
    os.environ["PYSPARK_PYTHON"] = python
    paths = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path not in ("", str(_WORKERS))]
    os.environ["PYTHONPATH"] = os.pathsep.join([str(_WORKERS), *paths])
    for name, value in settings(folder).items():
        builder = builder.config(name, value)
    return builder


def classic_session(folder: Path, python: str = sys.executable) -> SparkSession:
    """`python`: the interpreter of the workers."""
    return _configured(SparkSession.builder, folder, python).master("local[2,3]").getOrCreate()


def connect_session(folder: Path, python: str = sys.executable) -> SparkSession:
    """A session on a Connect server that it starts at a free port. At most one per process."""
    from pyspark.sql.connect.client.core import DefaultChannelBuilder  # classic sessions do without grpc

    with socket.create_server(("localhost", 0)) as probe:
        port = probe.getsockname()[1]
    DefaultChannelBuilder.default_port = staticmethod(lambda: port)  # there is no setting for the client's side
    builder = _configured(SparkSession.builder, folder, python).config("spark.connect.grpc.binding.port", str(port))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Failed to set spark")  # settings of the server, which has them since it started
        return builder.remote("local[2]").getOrCreate()


def python_without_lsmlake(folder: Path) -> str:
    """The interpreter of a new virtual environment with every package of this one but lsmlake, however that is installed."""
    venv.create(folder, with_pip=False, symlinks=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    for place in map(Path, sys.path):
        if place.name in ("site-packages", "dist-packages"):
            for path in place.iterdir():
                ours = "lsmlake" in path.name or path.suffix == ".pth"  # a .pth may lead to an editable installation
                if not ours and not (packages / path.name).exists():
                    (packages / path.name).symlink_to(path)
    return str(folder / "bin" / "python")


def on_connect() -> bool:
    return os.environ.get(CONNECT) == "1"


@contextmanager
def configured(spark: SparkSession, **values: object) -> Iterator[None]:
    """SQL settings that hold inside the block; '__' stands for a dot."""
    named = {name.replace("__", "."): str(value) for name, value in values.items()}
    before = {name: spark.conf.get(name, None) for name in named}
    try:
        _set(spark, named)
        yield
    finally:
        _set(spark, before)


def _set(spark: SparkSession, values: Mapping[str, str | None]) -> None:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The SQL config")  # Connect warns of those that are deprecated
        for name, value in values.items():
            spark.conf.unset(name) if value is None else spark.conf.set(name, value)


# --- rows ---


def seen(value: object) -> object:
    """A form of a value for comparison, the same for every reader: NaN equals NaN, -0.0 is not 0.0, times are in UTC."""
    if isinstance(value, float):
        return ("float", repr(value))
    if isinstance(value, dt.datetime) and value.tzinfo:
        return ("instant", value.astimezone(dt.timezone.utc).replace(tzinfo=None).isoformat())
    if isinstance(value, Mapping):
        return tuple((key, seen(item)) for key, item in value.items())
    return tuple(map(seen, value)) if isinstance(value, (list, tuple)) else value


def rows(data: object) -> list[tuple]:
    """The rows of an Arrow table or a DataFrame, each value passed through `seen`, sorted by their text."""
    table = data if isinstance(data, pa.Table) else data.toArrow()
    values = zip(*(column.to_pylist() for column in table.columns), strict=True)
    return sorted((tuple(map(seen, row)) for row in values), key=repr)


def same(found: object, expected: object) -> None:
    """Raises AssertionError with the first rows that differ, unless both hold the same rows, in any order."""
    found, expected = (data if isinstance(data, list) else rows(data) for data in (found, expected))
    if found != expected:
        surplus, missing = _less(found, expected), _less(expected, found)
        counts = f"{len(found)} rows for {len(expected)}, {len(surplus)} too many, {len(missing)} missing"
        raise AssertionError(f"{counts}: found {surplus[:3]}, expected {missing[:3]}")


def _less(some: Iterable[tuple], others: Iterable[tuple]) -> list[tuple]:
    left = list(map(repr, others))
    result = []
    for row in some:
        if repr(row) in left:
            left.remove(repr(row))
        else:
            result.append(row)
    return result


def paths_below(folder: Path) -> set[str]:
    """Every file below a folder."""
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


# --- plans ---


def plan_of(frame, capsys) -> str:
    """What `explain` prints."""
    capsys.readouterr()
    frame.explain()
    return capsys.readouterr().out


# --- ways to read ---

SMALL_FILES = "small files"
"""The way by which 'auto' reads a table of very many small files; here any number of files counts as many."""


def by_strategy(scan: Scan, strategy: str) -> DataFrame:
    """The rows of a scan, by a strategy of `to_spark` or by `SMALL_FILES`."""
    if strategy != SMALL_FILES:
        return scan.to_spark(strategy)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(small_files, "_MANY", 1)
        return scan.to_spark()
