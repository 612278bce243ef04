"""The rows of a seed in Arrow."""

from __future__ import annotations

import agate
import pyarrow as pa
from dbt_common.clients.agate_helper import Integer

_ARROW = (
    (Integer, pa.int64()),
    (agate.Number, pa.float64()),
    (agate.Boolean, pa.bool_()),
    (agate.DateTime, pa.timestamp("us")),
    (agate.Date, pa.date32()),
)
"""agate's types and those of Arrow, the special ones first. The values of all others are text."""


def arrow_of(rows: agate.Table) -> pa.Table:
    """The columns of a CSV file that dbt has read. Times without a zone are in the zone of the lake."""
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
        return pa.array([None if one is None else float(one) for one in values], arrow)
    return pa.array(values, arrow)
