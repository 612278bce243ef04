"""The readers, and the environments that their programs run in. The only place with versions."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from bench.peers.roster import Environment, Jars
from bench.peers.setup import NotReady, jars_of, provide, python_of

HOME = Path.home() / ".cache" / "lsmlake-readers"
_SPARK, _DUCKDB, _PYICEBERG, _TRINO = "4.1.4", "1.5.5", "0.12.0", "483"
JAVA = "TRINO_JAVA_HOME"
"""The variable that names the home of a JDK for Trino, which needs Java 25."""
_ARROW = ("numpy", "pyarrow")


Commands = Mapping[str, Sequence[str]]
"""Reader -> what runs its program, but for the arguments that `answering` takes."""


class Reader(NamedTuple):
    """`program`: the module of this package that runs in the environment. `variable`: of the environment of this process, whose
    value the program takes."""

    name: str
    program: str
    environment: Environment
    jars: Jars | None = None
    variable: str | None = None

    @property
    def possible(self) -> bool:
        return self.variable is None or self.variable in os.environ


READERS = {
    reader.name: reader
    for reader in (
        Reader(
            "Spark",
            "spark_reader",
            Environment("spark", (*_ARROW, f"pyspark=={_SPARK}", "pandas>=2.2,<3")),
            Jars("org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0"),
        ),
        Reader(
            "DuckDB",
            "duckdb_reader",
            Environment(
                "duckdb",
                (
                    *_ARROW,
                    f"duckdb=={_DUCKDB}",
                    f"duckdb-extension-iceberg=={_DUCKDB}",
                    f"duckdb-extension-avro=={_DUCKDB}",
                    f"duckdb-extension-httpfs=={_DUCKDB}",
                    "duckdb-extensions",
                ),
            ),
        ),
        Reader("PyIceberg", "pyiceberg_reader", Environment("pyiceberg", (*_ARROW, f"pyiceberg[pyarrow]=={_PYICEBERG}"))),
        Reader("Polars", "polars_reader", Environment("polars", (*_ARROW, f"pyiceberg[pyarrow]=={_PYICEBERG}", "polars==2.1.0"))),
        Reader(
            "Trino",
            "trino_reader",
            Environment("trino", (*_ARROW, "trino==0.340.0")),
            Jars(
                f"io.trino:trino-main:{_TRINO}",
                groups=None,
                beside=("trino-iceberg",),
                without=("log4j-slf4j-impl",),  # with it log4j-to-slf4j ends the server
            ),
            JAVA,
        ),
    )
}


def prepare(home: Path, readers: Sequence[Reader]) -> Commands:
    """Make what the readers need. Raises NotReady."""
    for reader in readers:
        if not reader.possible:
            raise NotReady(f"{reader.name} needs the variable {reader.variable}")
    jars = dict.fromkeys(reader.jars for reader in readers if reader.jars)
    provide(home, [reader.environment for reader in readers], jars)
    return {reader.name: _command(home, reader) for reader in readers}


def _command(home: Path, reader: Reader) -> list[str]:
    command = [str(python_of(home, reader.environment.name)), str(program(reader))]
    if reader.jars:
        command.append(":".join(map(str, jars_of(home, reader.jars))))
    return command + ([os.environ[reader.variable]] if reader.variable else [])


def program(reader: Reader) -> Path:
    return Path(__file__).parent / f"{reader.program}.py"
