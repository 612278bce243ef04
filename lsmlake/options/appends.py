"""Options of append-only tables: when a compaction rewrites files, and the order of rows in the files it writes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from lsmlake.options.option import Tables, When, option
from lsmlake.options.types import fraction, integer, names, one_of

AUTO, ORDER, ZORDER, HILBERT = STRATEGIES = "auto", "order", "zorder", "hilbert"


@dataclass(frozen=True)
class AppendOptions:
    TABLES: ClassVar = Tables.APPEND_ONLY

    min_files: int = option(
        "compaction.min.file-num", integer(2), 5, "a compaction merges the small files of a bucket if they are so many"
    )
    delete_ratio: float = option(
        "compaction.delete-ratio-threshold", fraction, 0.2, "a compaction rewrites a file with a greater share of dead rows"
    )
    clustering_columns: tuple[str, ...] = option(
        "clustering.columns", names, (), "a compaction sorts the rows of the files that it writes by these columns"
    )
    clustering_strategy: str = option(
        "clustering.strategy",
        one_of(*STRATEGIES),
        AUTO,
        "order sorts by the columns in turn, zorder and hilbert by all of them at once; auto: order for one column, zorder for up"
        " to four, hilbert for more",
        only=((When("clustering.columns"),),),
    )
