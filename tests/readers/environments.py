"""The readers, and the environments that their programs run in. The only place with versions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from bench.peers.roster import Environment, Jars
from bench.peers.setup import jars_of, provide, python_of

HOME = Path.home() / ".cache" / "lsmlake-readers"
_SPARK, _DUCKDB, _PYICEBERG = "4.1.4", "1.5.5", "0.12.0"
_ARROW = ("numpy", "pyarrow")


Commands = Mapping[str, Sequence[str]]
"""Reader -> what runs its program, but for the arguments that `answering` takes."""


class Reader(NamedTuple):
    """`program`: the module of this package that runs in the environment."""

    name: str
    program: str
    environment: Environment
    jars: Jars | None = None


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
    )
}


def prepare(home: Path, readers: Sequence[Reader]) -> Commands:
    """Make what the readers need. Raises NotReady."""
    jars = dict.fromkeys(reader.jars for reader in readers if reader.jars)
    provide(home, [reader.environment for reader in readers], jars)
    return {reader.name: _command(home, reader) for reader in readers}


def _command(home: Path, reader: Reader) -> list[str]:
    jars = ":".join(map(str, jars_of(home, reader.jars)))
    return [str(python_of(home, reader.environment.name)), str(program(reader)), *([jars] if jars else [])]


def program(reader: Reader) -> Path:
    return Path(__file__).parent / f"{reader.program}.py"
