"""The live files of a snapshot: the fold of its manifests, of all files or of a selection.

The live set of the newest snapshot stays in memory. A commit adds its entries beside it, because a fold costs O(files): they are
folded in once they are many. A selection is pruned before it is folded (`format.manifest_list` says why that is sound).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from lsmlake.format import live_set, manifest
from lsmlake.format.manifest_list import ManifestMeta
from lsmlake.schema.schema import Schema

_LATER_MIN, _LATER_SHARE = 1 << 10, 8  # entries that stay unfolded: this many, or one for every eight files
_CHUNKS_MAX = 64


class Selection(NamedTuple):
    """The files that a caller needs, chosen by partition, bucket and key only. False: certainly not needed.

    `manifests`: flags the manifests to open, given some with typed bounds and the path of their list. `entries`: flags entries.
    """

    manifests: Callable[[Sequence[ManifestMeta], str], np.ndarray]
    entries: Callable[[pa.Table], np.ndarray]

    def of(self, table: pa.Table) -> pa.Table:
        """The entries that are needed, in order."""
        kept = self.entries(table) if table.num_rows else np.ones(0, bool)
        return table if kept.all() else table.filter(pa.array(kept))


class Live(NamedTuple):
    """The live files of snapshot `number` under a schema with `types_by_id`: `files`, then the entries `later` in commit order.

    `metas`: the manifests of the snapshot.
    """

    number: int
    types_by_id: Hashable
    metas: tuple[ManifestMeta, ...]
    files: pa.Table
    later: pa.Table | None = None

    def all(self, schema: Schema) -> Live:
        """The same with all entries folded."""
        if self.later is None:
            return self
        return self._replace(files=live_set.fold([self.files, self.later], schema), later=None)

    def select(self, selection: Selection, schema: Schema) -> pa.Table:
        """The files of a selection."""
        found = selection.of(self.files)
        return found if self.later is None else live_set.fold([found, selection.of(self.later)], schema)

    def after(self, number: int, metas: tuple[ManifestMeta, ...], added: Sequence[pa.Table], schema: Schema) -> Live:
        """The live files of a newer snapshot, which added some entries."""
        tables = [table for table in (self.later, *added) if table is not None and table.num_rows]
        later = manifest.concat(tables, schema) if tables else None
        if later is not None and len(later["name"].chunks) > _CHUNKS_MAX:
            later = later.combine_chunks()
        following = Live(number, self.types_by_id, metas, self.files, later)
        most = max(_LATER_MIN, self.files.num_rows // _LATER_SHARE)
        return following if later is None or later.num_rows <= most else following.all(schema)
