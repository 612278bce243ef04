"""The `deduplicate` engine: of all rows of a key the newest wins; if that is a delete, the key is gone."""

from __future__ import annotations

from collections.abc import Collection
from concurrent.futures import Executor
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lsmlake.format.rowkind import DELETE, INSERT, UPDATE_AFTER
from lsmlake.lsm.merge.engine import Engine, Old
from lsmlake.lsm.merge.groups import Groups
from lsmlake.lsm.merge.rows import gather
from lsmlake.lsm.merge.sequence import SequenceFields, newest_places


@dataclass(frozen=True)
class Deduplicate(Engine):
    sequence: SequenceFields
    in_order = False
    settles_late = False
    folds_adds = True
    deletes_by_key = True

    @property
    def old(self) -> Old:
        return Old.BY_SEQUENCE if self.sequence else Old.DIES

    def merge(self, rows: pa.Table, groups: Groups, pool: Executor | None, *, settle: bool) -> pa.Table:
        if not self.sequence or groups.unique:
            return gather(rows, groups.last, pool)
        newest = newest_places(self.sequence.ranks(rows, every=True)[groups.rows], groups.starts)
        return gather(rows, groups.rows[newest], pool)

    def needs(self, columns: Collection[str]) -> frozenset[str]:
        return frozenset(columns) | frozenset(self.sequence.columns)

    def stored(self, kinds: np.ndarray) -> np.ndarray:
        """-U counts as -D: the row as it was is gone."""
        return np.where((kinds == INSERT) | (kinds == UPDATE_AFTER), INSERT, DELETE).astype(np.int8)
