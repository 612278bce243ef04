"""What every merge rule answers: how the rows of a key become one."""

from __future__ import annotations

from collections.abc import Collection
from concurrent.futures import Executor
from enum import Enum
from typing import Protocol

import numpy as np
import pyarrow as pa

from lsmlake.kernels.groups import Groups
from lsmlake.lsm.merge.sequence import SequenceFields


class Old(Enum):
    """What happens to the row of a key at level 1 or deeper when a level-0 row of that key is compacted."""

    DIES = "the new row replaces it"
    STAYS = "it stays and the new row is dropped"
    BY_SEQUENCE = "the row with the smaller sequence is dropped"
    JOINS = "it is merged with the new row into one that replaces both"


class MergeRule(Protocol):
    """A value without state, made from a schema by `rule_of`.

    The result of a merge is that of applying rows one at a time in the order they arrived, however they are cut into batches,
    files and compactions.

    `old`: see `Old`. `sequence`: the columns of `sequence.field`, if the rule follows them. `repeats_keys`: a run may hold
    several rows of a key, because what they come to depends on a row that is older than the run. `deletes_by_key`: a -D row of
    which only the key is known removes the row of the key.
    """

    old: Old
    sequence: SequenceFields
    repeats_keys: bool
    deletes_by_key: bool

    def merge(self, rows: pa.Table, groups: Groups, pool: Executor | None, *, complete: bool) -> pa.Table:
        """The merged rows, ascending as the groups are; a key that is gone has a -D row.

        Args:
            rows: The key and any columns closed under `needs`, maybe `_row_kind`; then the result may have it, too.
            groups: The rows of every key in the order they arrived.
            pool: Threads that make columns side by side, or None.
            complete: No older row of these keys exists: the result has one row a key. Otherwise an rule that `repeats_keys`
                may leave several rows of a key in the result, in the order they arrived.
        """
        ...

    def replay_order(self, rows: pa.Table, groups: Groups) -> np.ndarray:
        """The row numbers key by key, the rows of a key in an order in which applying them without a look at the sequence gives
        the merged row."""
        ...

    def needs(self, columns: Collection[str]) -> frozenset[str]:
        """The columns without which these cannot be merged, themselves included."""
        ...

    def validate(self, rows: pa.Table, kinds: np.ndarray | None) -> None:
        """Raises InvalidData for a row that the rule could never merge. Writers ask before they write.

        Such a row has a value that no merge takes, such as bytes that are no sketch, or a kind that its columns cannot take.

        Args:
            rows: The rows of a batch, all columns.
            kinds: Their kinds (int8, `schema.rowkind`), as the writer gave them. None: all are +I.
        """

    def stored(self, kinds: np.ndarray) -> np.ndarray:
        """The kinds of a batch that passed `validate`, as they are stored."""
        ...
