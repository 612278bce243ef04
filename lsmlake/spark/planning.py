"""Plans reads of very many files: tasks read the manifests and return the entries that a read needs to the driver, as Arrow data.

A task prunes by partition, bucket and key, which are the same in all entries of a file. The driver folds the remaining entries
in the order of the manifests, as `tables.manifests` does.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import pyarrow as pa

from lsmlake.format import manifest
from lsmlake.format.manifest import ManifestMeta, in_groups
from lsmlake.spark import tasks
from lsmlake.tables import live as live_set
from lsmlake.tables.live import Selection
from lsmlake.tables.version import Version

_SHARES = 2  # a task reads at least 1/2 of the entries that the driver would read itself


def live(spark, version: Version, selection: Selection | None, columns: Collection[str]) -> pa.Table:
    """Returns the live files that a selection needs, as `Version.entries`; in tasks if the manifests to open have more entries
    than `Limits.driver_plan_entries` and are not in memory. `columns`: the columns whose statistics are needed."""
    manifests = version.meta.manifests
    if version.snapshot is None or version.fallback is not None or manifests.holds(version.snapshot, version.schema):
        return version.entries(selection)
    metas, most = manifests.opened(version.snapshot, selection), version.meta.env.limits.driver_plan_entries
    if sum(meta.added + meta.deleted for meta in metas) <= most:
        return version.entries(selection)
    work = _ManifestTask(version, selection, _names(version, columns))
    results, errors = tasks.spread(spark, work, list(enumerate(in_groups(metas, most // _SHARES))))
    if errors:
        raise errors[0]
    tables = (pa.ipc.open_stream(data).read_all() for _, data in sorted(results))
    return live_set.fold(tables, version.schema)


def _names(version: Version, columns: Collection[str]) -> list[str]:
    """The entry columns that the driver needs: all except the statistics of columns outside `columns`."""
    others = {number for name, number in version.schema.field_ids().items() if name not in columns}
    statistics = {f"{side}:{number}" for number in others for side in ("n", "lo", "hi")}
    return [name for name in manifest.entries_schema(version.schema).names if name not in statistics]


@dataclass(frozen=True)
class _ManifestTask:
    """Called in a task with a numbered part of the manifests."""

    version: Version
    selection: Selection | None
    names: list[str]

    def __call__(self, part: tuple[int, list[ManifestMeta]]) -> tuple[int, bytes]:
        number, metas = part
        tables = self.version.meta.manifests.entries_of(metas, self.version.schema)
        needed = [(table if self.selection is None else self.selection.of(table)).select(self.names) for table in tables]
        entries, sink = pa.concat_tables(needed).combine_chunks(), pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, entries.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as stream:
            stream.write_table(entries)
        return number, sink.getvalue().to_pybytes()
