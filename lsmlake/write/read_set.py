"""The rows that a statement would have read. If another commit wrote such a row meanwhile, the statement is evaluated again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lsmlake.predicate import Predicate, evaluate


@dataclass(frozen=True)
class ReadSet:
    """The rows that meet all conditions.

    Attributes:
        predicate: is true of the rows; None: of all rows.
        columns: the columns that `among` reads.
        among: returns a flag for each row; None: all rows are wanted.
        everything: the statement depends on all rows of the table, so any change overtakes it.
    """

    predicate: Predicate | None = None
    columns: tuple[str, ...] = ()
    among: Callable[[pa.Table], np.ndarray] | None = None
    everything: bool = False

    @property
    def all_rows(self) -> bool:
        return self.predicate is None and self.among is None

    @property
    def needs(self) -> list[str]:
        """The columns that decide."""
        return sorted({*self.columns, *(self.predicate.columns if self.predicate else ())})

    def of(self, rows: pa.Table) -> pa.Table:
        """Filters rows to the read set."""
        if self.predicate is not None:
            rows = rows.filter(pa.array(np.asarray(evaluate(self.predicate, rows))))
        if self.among is not None and rows.num_rows:
            rows = rows.filter(pa.array(self.among(rows)))
        return rows
