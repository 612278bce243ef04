"""Which rows a statement is about, so that rows which other commits wrote meanwhile can be told from those it would have read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lsmlake.predicate import Predicate, evaluate


@dataclass(frozen=True)
class Wanted:
    """The rows for which `predicate` is true (None: all rows) and, of these, those that `among` flags (None: all of them).

    `columns`: what `among` reads. It gives one flag per row. `everything`: the statement depends on all rows of the table, so any
    change overtakes it.
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
        """Those of the rows that are wanted."""
        if self.predicate is not None:
            rows = rows.filter(pa.array(np.asarray(evaluate(self.predicate, rows))))
        if self.among is not None and rows.num_rows:
            rows = rows.filter(pa.array(self.among(rows)))
        return rows
