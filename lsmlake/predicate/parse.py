"""SQL text as a predicate. Reading it takes sqlglot, which is slow to import, so it is loaded with the first text."""

from __future__ import annotations

import pyarrow as pa

from lsmlake.predicate.tree import Predicate


def parse(text: str, schema: pa.Schema, *, zone: str = "UTC") -> Predicate:
    """The predicate that `text` is to Spark (ANSI mode) over columns of `schema`; names match whatever their case.

    `zone` is the session's time zone, for timestamps that name none. Raises InvalidQuery, with position, for text that is not
    SQL, columns that do not exist, literals that do not fit, and Unsupported for everything outside `translate.SUPPORTED`.
    """
    from lsmlake.predicate.binding import read

    return read(text, schema, zone)
