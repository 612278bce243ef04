"""What happened to the rows of keys between two states: +I, -U and +U, -D. Pure.

A key only before is deleted, only after inserted; in both, its row is an update, and whether one that changes nothing counts is
for the caller to say. Source of the rules: Apache Paimon, `LookupChangelogMergeFunctionWrapper`.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np
import pyarrow as pa

from lsmlake.kernels.chunks import joined
from lsmlake.kernels.codes import equality
from lsmlake.kernels.gather import gather
from lsmlake.kernels.groups import group
from lsmlake.kernels.keys import comparable
from lsmlake.kernels.segments import lengths
from lsmlake.lsm.row_kinds import kinds_of, with_kind
from lsmlake.schema.rowkind import DELETE, INSERT, NAMES, UPDATE_AFTER, UPDATE_BEFORE, plain
from lsmlake.schema.schema import ROW_KIND

KIND_FIELD = pa.field(ROW_KIND, pa.string(), nullable=False)
"""The first column of changes: '+I', '-U', '+U' or '-D'."""


def difference(before: pa.Table, after: pa.Table, key: Sequence[str], compared: Collection[str] | None) -> pa.Table:
    """The changes that make `before` into `after`: the columns and `_row_kind`. Ascending by key, -U just before its +U.

    An update whose rows agree in the columns `compared` is left out (none: any update); `None`: every update stands. Both have
    the same columns, in any order of rows, and a key at most once. O(rows log rows); nested columns by their elements. Values
    are equal as Spark compares them: null equals null, NaN equals NaN.
    """
    rows = pa.concat_tables([before, after])
    groups = group(np.concatenate(comparable([before.select(key), after.select(key)])))
    is_before = groups.rows < before.num_rows
    kinds = np.where(is_before, DELETE, INSERT)
    paired = lengths(groups.starts, len(groups.rows)) == 2
    places = groups.starts[paired]
    kinds[places], kinds[places + 1] = UPDATE_BEFORE, UPDATE_AFTER
    keep = np.ones(len(kinds), bool)
    if len(places) and compared is not None:
        same = _equal(rows.select(list(compared)), groups.rows[places], groups.rows[places + 1])
        keep[places[same]] = keep[places[same] + 1] = False
    return with_kind(gather(rows, groups.rows[keep]), kinds[keep])


def told(rows: pa.Table) -> pa.Table:
    """Rows as users see changes: `KIND_FIELD` first; without `_row_kind` all of them are +I."""
    kinds = kinds_of(rows)
    kinds = np.full(rows.num_rows, INSERT, np.int8) if kinds is None else plain(kinds).astype(np.int8)
    names = pa.DictionaryArray.from_arrays(pa.array(kinds), pa.array(NAMES)).cast(pa.string())
    values = rows if ROW_KIND not in rows.column_names else rows.drop_columns([ROW_KIND])
    return values.add_column(0, KIND_FIELD, names)


def _equal(rows: pa.Table, left: np.ndarray, right: np.ndarray) -> np.ndarray:
    equal = np.ones(len(left), bool)
    pairs = gather(rows, np.concatenate([left, right]))
    for column in pairs.columns:
        numbers = equality(joined(column))
        equal &= numbers[: len(left)] == numbers[len(left) :]
    return equal
