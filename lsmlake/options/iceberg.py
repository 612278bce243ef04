"""Options of Iceberg metadata: whether commits publish it, and what it shows."""

from __future__ import annotations

from dataclasses import dataclass

from lsmlake.options.option import option
from lsmlake.options.types import boolean

ICEBERG = "metadata.iceberg"


@dataclass(frozen=True)
class IcebergOptions:
    enabled: bool = option(
        ICEBERG,
        boolean,
        False,
        "every commit publishes metadata of Apache Iceberg (format version 3) in the folder `metadata` of the table, so that"
        " readers of Iceberg read the data files where they lie; needs the extra `iceberg`",
        own=True,
    )
    level0: bool = option(
        "metadata.iceberg.level0",
        boolean,
        True,
        "Iceberg metadata shows rows at level 0, as equality deletes of older rows, if the newest row of a key wins"
        " (`deduplicate` without `sequence.field`); false, and under other merge rules: rows as of the last compaction, for"
        " readers that cannot take equality deletes, such as PyIceberg",
        own=True,
    )
