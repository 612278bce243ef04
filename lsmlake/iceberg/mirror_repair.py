"""Repairs the Iceberg metadata of a table: compares all metadata with the table, and makes it anew if it differs. Nothing is
lost, because all metadata is derived from the table.
"""

from __future__ import annotations

from collections.abc import Callable

from lsmlake.extras import need
from lsmlake.iceberg import mirror
from lsmlake.iceberg.check import iceberg_findings
from lsmlake.tables.finding import Finding, merged
from lsmlake.tables.version import Metadata


def repair_iceberg(meta: Metadata, progress: Callable[[str], None] = lambda what: None) -> list[Finding]:
    """See `Table.repair_iceberg`. Calls `progress` with each file that is checked."""
    need("fastavro", "Iceberg metadata")
    main = meta.on(None).with_empty_cache()
    findings = merged(iceberg_findings(main, progress))
    if findings:
        mirror.publish(main, whole=False, asked=True, anew=True)
    return findings
