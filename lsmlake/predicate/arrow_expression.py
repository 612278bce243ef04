"""Evaluates a `pyarrow.compute.Expression` on the rows after the read.

An expression has no public structure that could be translated to a predicate, so it prunes no file.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from lsmlake.errors import InvalidQuery

_BY_POSITION = "FieldPath("
_NAMES_SHOWN = 20
_TEXT_SHOWN = 200  # characters


def needed_columns(expression: pc.Expression, schema: pa.Schema, columns: Sequence[str] | None) -> Sequence[str] | None:
    """Returns the columns to read: `columns` and those of `expression`. Raises InvalidQuery if it cannot be evaluated."""
    empty = schema.empty_table()
    if (refused := _refusal(expression, empty)) is not None:
        raise InvalidQuery(
            "where cannot be evaluated",
            expected=f"a boolean expression over the columns {_listed(schema.names)}",
            found=f"{_shortened(str(expression))}: {_reason(refused)}",
            cure="correct the expression, or write the condition as SQL text",
        ) from refused
    if columns is None or _BY_POSITION in str(expression):  # positions refer to all columns
        return None
    named = [name for name in schema.names if _refusal(expression, empty.drop_columns([name])) is not None]
    return [*columns, *(name for name in named if name not in columns)]


def matching(tables: Iterator[pa.Table], expression: pc.Expression, columns: Sequence[str] | None) -> Iterator[pa.Table]:
    """Yields the rows for which `expression` is true, with these columns."""
    for table in tables:
        rows = table.filter(expression)
        yield rows if columns is None else rows.select(list(columns))


def _listed(names: Sequence[str]) -> str:
    more = len(names) - _NAMES_SHOWN
    return ", ".join(names[:_NAMES_SHOWN]) + (f" and {more:,} more" if more > 0 else "")


def _shortened(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= _TEXT_SHOWN else f"{text[:_TEXT_SHOWN]}..."


def _reason(refused: Exception) -> str:
    """Returns Arrow's message without the schema that it appends to the name of an unknown column."""
    line, _, _ = str(refused).partition("\n")
    return _shortened(line.partition(" in ")[0] if line.startswith("No match for FieldRef") else line)


def _refusal(expression: pc.Expression, empty: pa.Table) -> Exception | None:
    try:
        empty.filter(expression)
    except (pa.ArrowException, TypeError, ValueError) as refused:
        return refused
    return None
