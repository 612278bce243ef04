"""The rows of a seed in Arrow."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from datetime import date, datetime
from decimal import Decimal, InvalidOperation

import agate
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from dbt_common.clients.agate_helper import Integer
from dbt_common.exceptions import CompilationError

from lsmlake.dbt.model_config import TableLayout

_ARROW = (
    (Integer, pa.int64()),
    (agate.Number, pa.float64()),
    (agate.Boolean, pa.bool_()),
    (agate.DateTime, pa.timestamp("us")),
    (agate.Date, pa.date32()),
)
"""agate's types and those of Arrow, the special ones first. The values of all others are text."""
_WITH_TIME = re.compile(r"-[0-9]+[T ]+(?!0{1,2}(:0{1,2}){0,2}(\.0*)?\s*$)\S")
"""Finds a time of day other than midnight, or a zone, in the text of a date."""
_FINER = re.compile(r"\.[0-9]{6}0*[1-9]")
"""Finds more digits of a second than a TIMESTAMP has."""
_EVERY_INTEGER_BELOW = 2.0**53
_BIGINT = range(-(2**63), 2**63)
_ROW = "seed_row"


def arrow_of(rows: agate.Table) -> pa.Table:
    """The columns of a CSV file that dbt has read. Times without a zone are in the zone of the lake.

    Raises:
        CompilationError: an integer does not fit BIGINT.
    """
    columns = [_column(column) for column in rows.columns]
    return pa.table(columns, names=list(rows.column_names))


def _column(column: agate.Column) -> pa.Array:
    arrow = next((arrow for kind, arrow in _ARROW if isinstance(column.data_type, kind)), None)
    values = column.values()
    if arrow is None:
        return pa.array([None if one is None else str(one) for one in values], pa.string())
    if pa.types.is_timestamp(arrow) and any(one is not None and one.tzinfo is not None for one in values):
        return pa.array(values, pa.timestamp("us", "UTC"))
    if arrow == pa.float64():
        known = [one for one in values if one is not None]
        whole = all(
            one.is_finite() and one == int(one) and int(one) in _BIGINT for one in known
        )  # as a DOUBLE it would lose digits
        kind, exact = (int, pa.int64()) if whole else (float, arrow)
        return pa.array([None if one is None else kind(one) for one in values], exact)
    if arrow == pa.int64():
        for row, one in enumerate(values):
            if one is not None and one not in _BIGINT:
                cure = f"give {column.name} another type in column_types, such as DECIMAL(38,0) or STRING"
                raise CompilationError(f"column {column.name!r}, row {row}: {one} does not fit BIGINT; {cure}")
    return pa.array(values, arrow)


def check_seed(given: pa.Table, made: pa.Table, types: Mapping[str, str], layout: TableLayout) -> None:
    """Refuses a file of which the table would have other values or fewer rows. Rows count from 0, without the header.

    Args:
        given: the rows of the file.
        made: the same rows in the types of the table; a value that has no such form is null.
        types: the SQL types by column.
        layout: the key, of which each value stands once, unless a merge engine says what becomes of the others.

    Raises:
        CompilationError: with the column and the row.
    """
    for name, kind in types.items():
        values = zip(given[name].to_pylist(), made[name].to_pylist(), strict=True)
        for row, (old, new) in enumerate(values):
            if old is not None and (new is None or (isinstance(old, str) and _changes(old, new))):
                became = "" if new is None else f", which would become {new}"
                cure = "correct the file, or give the column another type in column_types"
                raise CompilationError(f"column {name!r}, row {row}: the value {old!r} does not fit {kind}{became}; {cure}")
    columns = {name.lower(): name for name in given.column_names}
    key = [columns.get(name.strip("`").lower()) for name in layout.primary_key]
    if not key or None in key or "merge-engine" in layout.options:  # an unknown column is refused with the statement
        return
    numbered = made.select(key).append_column(_ROW, pa.array(np.arange(made.num_rows)))
    groups = numbered.group_by(key, use_threads=False).aggregate([(_ROW, "min"), (_ROW, "max")])
    repeated = groups.filter(pc.less(groups[f"{_ROW}_min"], groups[f"{_ROW}_max"])).slice(0, 1).to_pylist()
    for one in repeated:
        cells, cure = ", ".join(str(one[name]) for name in key), "say by merge_engine how rows of a key become one"
        rows = f"rows {one[f'{_ROW}_min']} and {one[f'{_ROW}_max']}"
        raise CompilationError(f"{rows} have the same primary key ({cells}); correct the file, or {cure}")


def _changes(old: str, new: object) -> bool:
    """Whether a text loses something: digits of its number, or of its time, or the time of a DATE."""
    if isinstance(new, datetime):
        return _FINER.search(old) is not None
    if isinstance(new, date):
        return _WITH_TIME.search(old) is not None
    if isinstance(new, (int, float, Decimal)) and not isinstance(new, bool):
        try:
            number = Decimal(old.strip())
        except InvalidOperation:
            return not isinstance(new, float)  # whose words NaN and Infinity have other forms, too
        return _rounds(number, new) if isinstance(new, float) else number != new
    return False


def _rounds(number: Decimal, new: float) -> bool:
    """Whether a float is another number: zero or infinity, or another integer. Fractions become the nearest float."""
    if not number.is_finite():
        return False
    if math.isinf(new) or (new == 0) != (number == 0):
        return True
    return abs(new) >= _EVERY_INTEGER_BELOW and number == number.to_integral_value() and number != Decimal(new)
