"""Literals that are certainly no value of the type that they are converted to: to Spark the whole text is an error, with or
without rows.

What is not certain is left to the conversion itself: zones of a form that only the engine knows, years beyond 9999.
"""

from __future__ import annotations

import re
from datetime import timezone

import pyarrow as pa
from sqlglot import exp

from lsmlake.dialect.time_text import DATE_FORM, TIMESTAMP_FORM
from lsmlake.dialect.types import DATE, TIMESTAMP, is_dated, is_number
from lsmlake.types.literal import cast, is_usual_time, number

_DATE, _TIMESTAMP = (re.compile(form, re.ASCII | re.DOTALL) for form in (DATE_FORM, TIMESTAMP_FORM))
_CLOCK_ALONE = re.compile(r"T\d|\d{1,2}:", re.ASCII)
_LATER = exp.Case, exp.If, exp.Anonymous
"""In these Spark converts a literal with the rows, since it may not need the value."""


def unfit(node: exp.Expression, wanted: pa.DataType) -> str | None:
    """Why a literal, or one that is cast, cannot become a value of a type; None if it can, or may."""
    literal = (node.this if isinstance(node, exp.Cast) else node).unnest()
    if not isinstance(literal, exp.Literal):
        return None
    try:
        _check(literal, wanted)
    except ValueError as error:
        return None if node.find_ancestor(*_LATER) else str(error)
    except OverflowError:  # a time that exists in another zone only
        return None
    return None


def _check(literal: exp.Literal, wanted: pa.DataType) -> None:
    """Raises ValueError for a literal that is no value of the type."""
    text = literal.this
    if not literal.is_string:
        if pa.types.is_integer(wanted) or pa.types.is_decimal(wanted):
            cast(number(text), wanted, timezone.utc)
    elif is_number(wanted) or pa.types.is_boolean(wanted) or (is_dated(wanted) and _is_known(text.strip(), wanted)):
        cast(text, TIMESTAMP if is_dated(wanted) and wanted != DATE else wanted, timezone.utc)  # TIMESTAMP_NTZ cuts a zone off
    elif pa.types.is_time(wanted):
        cast(text, wanted, timezone.utc)


def _is_known(text: str, kind: pa.DataType) -> bool:
    """Whether a text is certainly a time, or certainly none."""
    if (_DATE if kind == DATE else _TIMESTAMP).match(text) is None:
        return kind == DATE or not _CLOCK_ALONE.match(text)
    return is_usual_time(text, kind) and not text.startswith("0000")
