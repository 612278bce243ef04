"""The argument `where` of a verb as a predicate.

A text that is a predicate needs only the parser, which is loaded with the first text, and no DuckDB. For all other texts the
dialect is loaded, which alone says what is wrong with a text. It takes every text that `binding` takes, with the same rows.
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from lsmlake.predicate.tree import Predicate


def predicate_of(where: str | None, columns: pa.Schema, zone: str, now: Callable[[], str] | None) -> Predicate | None:
    """The predicate that a text is; None without text. Conditions beyond predicates, such as upper(name) = 'X', are evaluated by
    DuckDB (the extra `duckdb`).

    Args:
        where: the text.
        columns: the columns of the table, with the lengths of their texts.
        zone: the time zone of times that name none.
        now: tells the time of the call, such as '2026-01-31 12:00:00+00:00'. None: current_timestamp is refused.

    Raises:
        InvalidQuery: the text is no condition on a row. The error names the place.
    """
    if where is None:
        return None
    from lsmlake.predicate.binding import bound_text  # loads sqlglot

    text, node, whole = bound_text(where, columns, zone)
    if whole is not None:
        return whole
    from lsmlake.predicate.condition import computed_from  # loads the dialect

    with text.reading(node):
        return computed_from(node, text, columns, zone, None if now is None else now())


def known_of(where: str, columns: pa.Schema, zone: str, now: Callable[[], str]) -> tuple[Predicate | None, str | None]:
    """The predicate that a condition implies, for an engine that evaluates the text itself, and why it is not the whole
    condition; None if it is the whole. Raises InvalidQuery for a text that every engine refuses."""
    from lsmlake.predicate.binding import bound_text

    text, node, whole = bound_text(where, columns, zone)
    if whole is not None:
        return whole, None
    from lsmlake.predicate.condition import known_from

    return known_from(node, text, columns, zone, now())
