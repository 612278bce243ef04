"""What every merge engine answers: how the rows of a key become one."""

from __future__ import annotations

from collections.abc import Collection
from concurrent.futures import Executor
from enum import Enum
from typing import Protocol

import numpy as np
import pyarrow as pa

from lsmlake.lsm.merge.groups import Groups
from lsmlake.lsm.merge.sequence import SequenceFields


class Old(Enum):
    """What becomes of the row that stands above level 0 when a new row of its key comes up."""

    DIES = "the new row stands for it"
    STAYS = "the new row is dropped"
    BY_SEQUENCE = "the older of the two by sequence is dropped"
    JOINS = "it is merged with the new row, and the outcome stands for both"


class Engine(Protocol):
    """A value without state, made from a schema by `engine_of`.

    `old`: see `Old`. `sequence`: orders the rows of a key before arrival does. `in_order`: `merge` wants them in that order,
    otherwise by arrival alone. `settles_late`: a run of level 0 may hold several
    rows of a key, because they can only be combined together with what they meet above. `folds_adds`: that is not so if all
    are added; otherwise they wait as +U. `deletes_by_key`: a -D row of which only
    the key is known removes the key.
    """

    old: Old
    sequence: SequenceFields
    in_order: bool
    settles_late: bool
    folds_adds: bool
    deletes_by_key: bool

    def merge(self, rows: pa.Table, groups: Groups, pool: Executor | None, *, settle: bool) -> pa.Table:
        """One row a key, ascending as the groups are. `rows` may have `_row_kind`; then the result may, too: a key that is gone
        has a -D row. With `settle` nothing older is left for a key to meet; without, an engine that settles late may leave the
        rows of a key as they are. `rows` holds the key and any columns closed under `needs`."""
        ...

    def needs(self, columns: Collection[str]) -> frozenset[str]:
        """The columns without which these cannot be merged, themselves included."""
        ...

    def validate(self, rows: pa.Table) -> None:
        """Raises InvalidData for a value of a batch that the engine could never merge, such as bytes that are no sketch."""

    def stored(self, kinds: np.ndarray) -> np.ndarray:
        """The kinds of a batch (int8, `format.rowkind`) as they are stored. Raises InvalidData for one the engine cannot take."""
        ...
