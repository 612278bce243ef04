"""The argument `where` of a verb as a predicate: what a condition of Spark SQL can say of a row."""

from __future__ import annotations

import pyarrow as pa

from lsmlake.predicate import Predicate
from lsmlake.predicate.parse import parse
from lsmlake.predicate.tree import Unsupported


def predicate_of(where: str | None, columns: pa.Schema, zone: str, now: str | None) -> Predicate | None:
    """The predicate that a text is; None without text. Conditions beyond predicates, such as upper(name) = 'X', are evaluated by
    DuckDB (the extra `duckdb`).

    Args:
        where: the text.
        columns: those of the table, with the lengths of their texts.
        zone: the time zone of times that name none.
        now: the time of the call, such as '2026-01-31 12:00:00+00:00'. None: current_timestamp is refused.

    Raises:
        InvalidQuery: the text is no condition on a row. The error names the place.
    """
    if where is None:
        return None
    try:
        return parse(where, columns, zone=zone)
    except Unsupported:
        from lsmlake.predicate.computed import computed  # loads sqlglot

        return computed(where, columns, zone, now)
