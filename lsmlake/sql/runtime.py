"""The runtime of this process, with SQL."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lsmlake.api.lake import Lake
from lsmlake.api.result import Result
from lsmlake.api.runtime import Runtime


class EmbeddedRuntime(Runtime):
    """All work in this process; SQL is executed by DuckDB."""

    def sql(
        self, lake: Lake, text: str, args: Mapping[str, object] | Sequence[object] | None, tables: Mapping[str, object]
    ) -> Result:
        from lsmlake.sql.statement import execute  # loads sqlglot

        return Result(execute(lake, text, args, tables))
