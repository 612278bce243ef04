"""Row kinds: what a row does to its key. As int8 in files, as text to users: 0 '+I', 1 '-U', 2 '+U', 3 '-D'."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from lsmlake.errors import InvalidData

INSERT, UPDATE_BEFORE, UPDATE_AFTER, DELETE = 0, 1, 2, 3
NAMES = ("+I", "-U", "+U", "-D")
_TEXT = pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view, pa.types.is_dictionary


def parse(column: pa.ChunkedArray, name: str) -> pa.ChunkedArray:
    """Text column -> int8 column of kinds, no nulls. Raises InvalidData naming the column and the first bad value."""
    if not any(check(column.type) for check in _TEXT):
        raise InvalidData(
            "a row kind is text",
            where=f"column {name!r}",
            expected="'+I', '-U', '+U' or '-D'",
            found=column.type,
            cure="map it first",
        )
    kinds = pc.index_in(column.cast(pa.string()), value_set=pa.array(NAMES))
    if kinds.null_count:
        bad = column.filter(pc.is_null(kinds))[0].as_py()
        raise InvalidData(
            "unknown row kind",
            where=f"column {name!r}",
            expected="'+I', '-U', '+U' or '-D'",
            found=repr(bad),
            cure="map it first",
        )
    return kinds.cast(pa.int8())


def is_retract(kinds: pa.ChunkedArray) -> pa.ChunkedArray:
    """True where the kind is -U or -D."""
    return pc.or_(pc.equal(kinds, UPDATE_BEFORE), pc.equal(kinds, DELETE))
