"""Aggregates of pairs of numbers, regr_slope and the like, and the skewness."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from lsmlake.dialect.types import BIGINT, DOUBLE, NULL, is_number

_DOUBLES = tuple(f"regr_{what}" for what in ("avgx", "avgy", "intercept", "r2", "slope", "sxx", "sxy", "syy"))
NAMES = ("regr_count", *_DOUBLES, "skewness")


def aggregated(name: str, arguments: list[tuple[str, pa.DataType]], over: Callable[[str], str]) -> tuple[str, pa.DataType] | None:
    """An aggregate of these (SQL, type) arguments; None for other types."""
    if name == "regr_count" and len(arguments) == 2:
        return over(f"regr_count({_pairs(arguments)})"), BIGINT
    if not all(is_number(kind) or kind == NULL for _, kind in arguments):
        return None
    if name == "skewness" and len(arguments) == 1:
        return _skewness(over(f"list(CAST({arguments[0][0]} AS DOUBLE))")), DOUBLE
    return (over(f"{name}({_pairs(arguments)})"), DOUBLE) if name in _DOUBLES and len(arguments) == 2 else None


def _pairs(arguments: list[tuple[str, pa.DataType]]) -> str:
    """Both as DOUBLE; of other types, which only `regr_count` takes, whether they are null."""
    return ", ".join(
        f"CASE WHEN ({sql}) IS NOT NULL THEN CAST({'1' if kind != NULL and not is_number(kind) else sql} AS DOUBLE) END"
        for sql, kind in arguments
    )


def _skewness(values: str) -> str:
    """Of a list of all values: DuckDB's function is that of a sample."""
    apart = "list_transform(v, lambda e: e - list_avg(v))"
    squares, cubes = (f"list_sum(list_transform({apart}, lambda d: {power}))" for power in ("d * d", "d * d * d"))
    skewed = f"sqrt(len(v)) * {cubes} / nullif(pow({squares}, 1.5), 0)"
    return f"list_transform([list_filter({values}, lambda e: e IS NOT NULL)], lambda v: {skewed})[1]"
