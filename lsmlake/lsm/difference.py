"""Compares two states of a set of keys and returns the changes between them: +I, -U and +U, -D. Pure.

A key that only the old state has is a delete, a key that only the new state has is an insert, a key in both is an update. The
caller decides whether an update without a difference is reported. Source: Apache Paimon, `LookupChangelogMergeFunctionWrapper`.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np
import pyarrow as pa

from lsmlake.kernels import segments
from lsmlake.kernels.codes import identity, same
from lsmlake.kernels.groups import gather, group
from lsmlake.kernels.keys import comparable, joined
from lsmlake.kernels.segments import lengths
from lsmlake.schema.rowkind import DELETE, INSERT, NAMES, UPDATE_AFTER, UPDATE_BEFORE, kinds_of, plain, with_kind
from lsmlake.schema.schema import ROW_KIND

KIND_FIELD = pa.field(ROW_KIND, pa.string(), nullable=False)
"""The first column of changes: '+I', '-U', '+U' or '-D'."""


def difference(before: pa.Table, after: pa.Table, key: Sequence[str], compared: Collection[str] | None) -> pa.Table:
    """Returns the changes from `before` to `after`: the columns and `_row_kind`, ascending by key, each -U just before its +U.

    Args:
        before: Rows in any order, each key at most once.
        after: The same columns as `before`, each key at most once.
        key: The key columns.
        compared: An update whose rows are equal in these columns is left out. Empty: all updates are left out. None: all are
            reported. Equal values have equal bits, except that there is one NaN.
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
        alike = places[equal_rows(rows.select(list(compared)), groups.rows[places], groups.rows[places + 1])]
        keep[alike] = keep[alike + 1] = False
    return with_kind(gather(rows, groups.rows[keep]), kinds[keep])


def bag_difference(before: pa.Table, after: pa.Table) -> pa.Table:
    """Returns the changes from `before` to `after`, of rows without a key: all -D, then all +I, in the order of the rows. Rows
    that both sides have are left out, each as often as both have it; rows are equal as in `difference`."""
    rows = pa.concat_tables([before, after])
    whole = pa.StructArray.from_arrays([joined(column) for column in rows.columns], names=rows.column_names)
    codes = identity(whole)
    numbers = np.concatenate([_occurrences(part) for part in np.split(codes, [before.num_rows])])
    # the n-th of equal rows before and the n-th after are a pair
    order = np.lexsort((numbers, codes))
    same = (np.diff(codes[order]) == 0) & (np.diff(numbers[order]) == 0)
    keep = np.ones(len(codes), bool)
    keep[order[:-1][same]] = keep[order[1:][same]] = False
    kinds = np.where(np.arange(len(codes)) < before.num_rows, DELETE, INSERT)
    return with_kind(rows.filter(pa.array(keep)), kinds[keep])


def _occurrences(codes: np.ndarray) -> np.ndarray:
    """Numbers equal codes 0, 1, 2, ... in their order."""
    order = np.argsort(codes, kind="stable")
    first = np.flatnonzero(np.concatenate([[True], np.diff(codes[order]) != 0])) if len(codes) else order
    numbers = np.empty(len(codes), np.int64)
    numbers[order] = np.arange(len(codes)) - np.repeat(first, lengths(first, len(codes)))
    return numbers


def as_changes(rows: pa.Table) -> pa.Table:
    """Returns rows in the form of the public API: `KIND_FIELD` is the first column. Rows without `_row_kind` become +I."""
    kinds = kinds_of(rows)
    kinds = np.full(rows.num_rows, INSERT, np.int8) if kinds is None else plain(kinds).astype(np.int8)
    names = pa.DictionaryArray.from_arrays(pa.array(kinds), pa.array(NAMES)).cast(pa.string())
    values = rows if ROW_KIND not in rows.column_names else rows.drop_columns([ROW_KIND])
    return values.add_column(0, KIND_FIELD, names)


def equal_rows(rows: pa.Table, left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Flags the pairs of rows, by position, that are equal in all columns, as in `difference`."""
    equal = np.ones(len(left), bool)
    for column in rows.columns:
        if not equal.any():
            break
        values = joined(column)
        equal &= same(segments.take(values, left), segments.take(values, right))
    return equal
