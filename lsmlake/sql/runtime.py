"""The runtime of this process, with SQL."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from lsmlake.api.lake import Lake
from lsmlake.api.readable import Result
from lsmlake.api.runtime import Runtime
from lsmlake.api.types import SparkSession


@dataclass(frozen=True)
class EmbeddedRuntime(Runtime):
    """All work in this process; SQL is executed by DuckDB. `attach`: makes the runtime of a Spark session. `zone`: see
    `Runtime.zone`."""

    attach: Callable[[SparkSession], Runtime]
    zone: str = "UTC"

    def attached(self, spark: SparkSession) -> Runtime:
        return self.attach(spark)

    def sql(
        self, lake: Lake, text: str, args: Mapping[str, object] | Sequence[object] | None, tables: Mapping[str, object]
    ) -> Result:
        from lsmlake.sql.statement import execute  # loads sqlglot

        return Result(execute(lake, text, args, tables))
