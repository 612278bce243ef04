"""The runtime of this process, with SQL."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import pyarrow as pa

from lsmlake.api.lake import Lake
from lsmlake.api.runtime import Args, Runtime
from lsmlake.api.types import SparkSession


@dataclass(frozen=True)
class EmbeddedRuntime(Runtime):
    """All work in this process; SQL is executed by DuckDB. `attach`: makes the runtime of a Spark session. `zone`: see
    `Runtime.zone`."""

    attach: Callable[[SparkSession], Runtime]
    zone: str = "UTC"

    def attached(self, spark: SparkSession) -> Runtime:
        return self.attach(spark)

    @property
    def executes(self) -> Callable[[Lake, str, Args, Mapping[str, object]], pa.Table]:
        from lsmlake.sql.statement import execute  # loads sqlglot

        return execute
