"""The `first-row` rule: the first row of a key to arrive is kept; later rows are dropped. Deletes are not supported."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lsmlake.beside import Threads
from lsmlake.errors import InvalidData
from lsmlake.kernels.groups import Groups, gather
from lsmlake.lsm.merge.contested import Contest, Decisive
from lsmlake.lsm.merge.rule import MergeRule, OldRow
from lsmlake.lsm.merge.sequence import SequenceFields
from lsmlake.schema.rowkind import INSERT, NAMES, UPDATE_AFTER


@dataclass(frozen=True)
class FirstRow(MergeRule):
    old_row = OldRow.KEPT
    sequence = SequenceFields()
    repeats_keys = False
    deletes_by_key = False

    def merge(self, rows: pa.Table, groups: Groups, pool: Threads | None, *, complete: bool) -> pa.Table:
        return gather(rows, groups.first, pool)

    def replay_order(self, rows: pa.Table, groups: Groups) -> np.ndarray:
        return groups.rows

    def contests(self, columns: Sequence[str]) -> list[Contest]:
        return [Contest(tuple(columns), decisive=Decisive.OLDEST)]

    def needs(self, columns: Collection[str]) -> frozenset[str]:
        return frozenset(columns)

    def validate(self, rows: pa.Table, kinds: np.ndarray | None) -> None:
        if kinds is None:
            return
        refused = (kinds != INSERT) & (kinds != UPDATE_AFTER)
        if refused.any():
            raise InvalidData(
                "merge-engine = first-row does not support deletes",
                expected="only +I and +U rows",
                found=f"{int(refused.sum())} rows of kind -U or -D, the first is {NAMES[kinds[refused.argmax()]]}",
                cure="set ignore-delete = true to drop them, or use another merge engine",
            )

    def stored(self, kinds: np.ndarray) -> np.ndarray:
        return np.zeros(len(kinds), np.int8)
