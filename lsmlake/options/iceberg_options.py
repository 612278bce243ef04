"""Options of Iceberg metadata: whether commits publish it, and how readers see the table."""

from __future__ import annotations

from dataclasses import dataclass

from lsmlake.options.option import When, option
from lsmlake.options.option_types import boolean, integer, qualified_name, text

ICEBERG = "metadata.iceberg"
FIRST_ROW_ID = "metadata.iceberg.first-row-id"
_CATALOG = "metadata.iceberg.catalog"
_ROW_IDS = 1 << 62


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
    catalog: str | None = option(
        _CATALOG,
        text,
        None,
        "every commit also brings the table up to date in this catalog of Iceberg: a name in the configuration of PyIceberg"
        " (`.pyiceberg.yaml`, or variables `PYICEBERG_CATALOG__<NAME>__...`), which has its address and secrets; default: none",
        own=True,
        only=((When(ICEBERG, (True,)),),),
    )
    table: str | None = option(
        "metadata.iceberg.table",
        qualified_name,
        None,
        "namespace and name of the table in the catalog; default: its database and name",
        own=True,
        only=((When(_CATALOG),),),
    )
    first_row_id: int = option(
        FIRST_ROW_ID,
        integer(0, _ROW_IDS),
        0,
        "where the row ids of Iceberg metadata begin when it is made; `import_iceberg` sets it to the next row id of the other"
        " table, as adopted files hold ids that were given there",
        own=True,
    )
