"""A `pyarrow.compute.Expression` as a condition: Arrow evaluates it on the rows that were read.

It has no public form that could be translated, so it prunes no file.
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
    """The columns to read: those asked for and those that `expression` names. Raises InvalidQuery if it cannot be evaluated."""
    empty = schema.empty_table()
    if (refused := _refusal(expression, empty)) is not None:
        raise InvalidQuery(
            "where cannot be evaluated",
            expected=f"an expression that is true or false over the columns {_listed(schema.names)}",
            found=f"{_shortened(str(expression))}: {_reason(refused)}",
            cure="correct the expression, or write the condition as SQL text",
        ) from refused
    if columns is None or _BY_POSITION in str(expression):  # positions hold only among all columns
        return None
    named = [name for name in schema.names if _refusal(expression, empty.drop_columns([name])) is not None]
    return [*columns, *(name for name in named if name not in columns)]


def matching(tables: Iterator[pa.Table], expression: pc.Expression, columns: Sequence[str] | None) -> Iterator[pa.Table]:
    """The rows for which `expression` is true, of these columns."""
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
    """What Arrow says, without the schema that it writes after the name of an unknown column, a line a column."""
    line, _, _ = str(refused).partition("\n")
    return _shortened(line.partition(" in ")[0] if line.startswith("No match for FieldRef") else line)


def _refusal(expression: pc.Expression, empty: pa.Table) -> Exception | None:
    try:
        empty.filter(expression)
    except (pa.ArrowException, TypeError, ValueError) as refused:
        return refused
    return None
