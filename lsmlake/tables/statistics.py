"""The statistics files of a table, which lie beside its manifests."""

from __future__ import annotations

from lsmlake.errors import Corrupt
from lsmlake.format.snapshot import NamedFile, Snapshot
from lsmlake.format.statistics import ANALYZE_AGAIN, TableStatistics
from lsmlake.tables.metadata import Metadata


def put_statistics(meta: Metadata, statistics: TableStatistics) -> NamedFile:
    """Store statistics, which no snapshot names yet."""
    return meta.files.write_new("statistics", statistics.encode())


def statistics_of(meta: Metadata, snapshot: Snapshot | None) -> TableStatistics | None:
    """The statistics that a snapshot names; None: it names none. Raises Corrupt."""
    named = None if snapshot is None else snapshot.statistics
    if named is None:
        return None
    path = meta.paths.manifest(named.name)
    try:
        return TableStatistics.decode(meta.files.read(path, named.bytes), path)
    except Corrupt as damaged:  # no row depends on the file, so the cure is to replace it, not to restore it
        details = {"where": damaged.where, "expected": damaged.expected, "found": damaged.found}
        raise Corrupt(damaged.what, **details, cure=ANALYZE_AGAIN) from damaged
