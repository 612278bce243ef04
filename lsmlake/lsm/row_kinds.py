"""The `_row_kind` column of sorted runs. A run without it holds only +I rows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lsmlake.schema.rowkind import DELETE, INSERT, UPDATE_BEFORE, is_retract
from lsmlake.schema.schema import ROW_KIND, ROW_KIND_FIELD

_KIND = ROW_KIND_FIELD.remove_metadata()


def kinds_of(table: pa.Table) -> np.ndarray | None:
    """Returns the `_row_kind` column; None if there is none: all rows are +I."""
    return np.asarray(table[ROW_KIND]) if ROW_KIND in table.column_names else None


def retractions(kinds: np.ndarray) -> np.ndarray:
    """Flags the kinds -U and -D."""
    return (kinds == UPDATE_BEFORE) | (kinds == DELETE)


def with_kind(table: pa.Table, kinds: np.ndarray | int) -> pa.Table:
    """Returns the table with `_row_kind` set to these kinds."""
    table = table.drop_columns([ROW_KIND]) if ROW_KIND in table.column_names else table
    return table.append_column(_KIND, pa.array(np.full(table.num_rows, kinds, np.int8)))


def with_kinds(runs: Sequence[pa.Table], *, always: bool = False) -> list[pa.Table]:
    """Adds `_row_kind` (+I) to the runs that lack it if another run has it, or `always`."""
    if not always and not any(ROW_KIND in run.column_names for run in runs):
        return list(runs)
    return [run if ROW_KIND in run.column_names else with_kind(run, INSERT) for run in runs]


def without_deletes(table: pa.Table) -> pa.Table:
    """Drops -U and -D rows and the `_row_kind` column."""
    if ROW_KIND not in table.column_names:
        return table
    kinds = table[ROW_KIND]
    return table.drop_columns([ROW_KIND]).filter(pc.invert(is_retract(kinds)))
