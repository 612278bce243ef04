"""Finds the rows for which an SQL expression cannot be evaluated, such as `CAST(a AS INT)` where `a` is 'x'."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np
import pyarrow as pa

from lsmlake.cdc.event_lines import unreadable
from lsmlake.errors import InvalidData, InvalidQuery

_REFUSED_MAX = 100
"""An expression may refuse this many different values of a batch: to find one takes two evaluations, of about 10 ms each."""


class Evaluated(Protocol):
    """An expression, or a condition, that was checked against the columns of its rows."""

    needs: tuple[str, ...]
    """The columns of the rows that it reads."""

    def over(self, rows: pa.Table) -> object:
        """Its values. Raises InvalidQuery for a value that it refuses."""


def refused_rows(
    checked: Evaluated,
    rows: pa.Table,
    told: Callable[[InvalidQuery], InvalidData],
    hopeless: Callable[[InvalidQuery], InvalidQuery],
) -> dict[int, str]:
    """The rows whose values an expression refuses, each with the reason.

    Args:
        checked: the expression.
        rows: the rows.
        told: the error for one row, given that of the evaluation. It is raised if the expression reads no column.
        hopeless: the error to raise if more than `_REFUSED_MAX` different values are refused.
    """
    try:
        checked.over(rows)
    except InvalidQuery as refused:
        if not checked.needs:
            raise told(refused) from refused
    else:
        return {}
    given, numbers = rows.select(list(checked.needs)), np.arange(rows.num_rows)
    if given.num_columns == 1 and not pa.types.is_nested(given.schema[0].type):
        values = given.column(0).combine_chunks().dictionary_encode("encode")
        given, numbers = pa.table([values.dictionary], names=given.column_names), np.asarray(values.indices)
    tries = 0

    def make(some: pa.Table) -> None:
        nonlocal tries
        try:
            checked.over(some)
        except InvalidQuery as refused:
            tries += some.num_rows == 1
            if tries > _REFUSED_MAX:
                raise hopeless(refused) from refused
            raise told(refused) from refused

    wrong: dict[int, str] = {}
    for value, reason in unreadable(given, make).items():
        wrong |= dict.fromkeys(np.flatnonzero(numbers == value).tolist(), " ".join(reason.split()))
    return wrong


def first_refused(checked: Evaluated, rows: pa.Table, refused: InvalidQuery) -> tuple[int, InvalidQuery]:
    """The number of the first row whose values an expression refuses, and its error. `refused`: the error for all the rows."""
    low, high = 0, rows.num_rows
    while high - low > 1:
        middle = (low + high) // 2
        try:
            checked.over(rows.slice(low, middle - low))
            low = middle
        except InvalidQuery as found:
            high, refused = middle, found
    try:
        checked.over(rows.slice(low, 1))
    except InvalidQuery as found:
        refused = found
    return low, refused
