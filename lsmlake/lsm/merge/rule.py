"""The interface of merge rules: how the rows of a key become one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from enum import Enum

import numpy as np
import pyarrow as pa

from lsmlake.beside import Threads
from lsmlake.kernels.groups import Groups
from lsmlake.lsm.merge.contested import Contest
from lsmlake.lsm.merge.sequence import SequenceFields


class OldRow(Enum):
    """What a compaction of a level-0 row does with the row of the same key at a deeper level."""

    REPLACED = "the new row replaces it"
    KEPT = "it is kept and the new row is dropped"
    BY_SEQUENCE = "the row with the smaller sequence is dropped"
    MERGED = "it is merged with the new row; the result replaces both"


class MergeRule(ABC):
    """How the rows of a key become one. A value without state, made from a schema by `rule_of`.

    The result of a merge is that of applying the rows one at a time in the order of their arrival. It does not depend on how rows
    are divided into batches, files and compactions.

    Attributes:
        old_row: see `OldRow`.
        sequence: the columns of `sequence.field`; empty if the rule does not use them.
        repeats_keys: a run may hold several rows of a key, because their result depends on a row that is older than the run.
        deletes_by_key: a -D row with only the key columns removes the row of the key.
        retains: deletes keep their sequence for a time (`lsm.merge.retained`).
    """

    old_row: OldRow
    sequence: SequenceFields
    repeats_keys: bool
    deletes_by_key: bool
    retains: bool = False

    def of_one_commit(self) -> MergeRule:
        """The rule for rows of one commit that are merged before it."""
        return self

    @abstractmethod
    def merge(self, rows: pa.Table, groups: Groups, pool: Threads | None, *, complete: bool) -> pa.Table:
        """Merge the rows of each key.

        Args:
            rows: the key and any columns that are closed under `needs`, with or without `_row_kind`.
            groups: the rows of every key in the order of their arrival.
            pool: threads that compute columns in parallel, or None.
            complete: no older row of these keys exists, so the result has one row per key. Otherwise a rule that `repeats_keys`
                may leave several rows of a key in the result, in the order of their arrival.

        Returns:
            The merged rows in the order of the groups. A key that is deleted has a -D row. The result may have the column
            `_row_kind` if `rows` has it.
        """

    @abstractmethod
    def replay_order(self, rows: pa.Table, groups: Groups) -> np.ndarray:
        """The row numbers, key by key. Applying the rows of a key in this order, without comparing sequences, gives the merged
        row."""

    @abstractmethod
    def contests(self, columns: Sequence[str]) -> list[Contest]:
        """What the merged row takes from some rows of a key by their order. `columns`: all columns outside the key."""

    @abstractmethod
    def needs(self, columns: Collection[str]) -> frozenset[str]:
        """The columns that are required to merge `columns`, including `columns`."""

    def validate(self, rows: pa.Table, kinds: np.ndarray | None) -> None:
        """Refuse rows that the rule could never merge: a value that no merge accepts, such as bytes that are not a sketch, or a
        kind that does not fit the columns. Called before rows are written.

        Args:
            rows: the rows of a batch, all columns.
            kinds: their row kinds (int8, `schema.rowkind`) as the writer gave them. None: all are +I.

        Raises:
            InvalidData: there is such a row.
        """
        return None  # the default: every row is accepted

    @abstractmethod
    def stored(self, kinds: np.ndarray) -> np.ndarray:
        """The row kinds to store, for a batch that passed `validate`."""
