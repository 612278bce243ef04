"""Row kinds: what a row does to its key. As int8 in files, as text to users: 0 '+I', 1 '-U', 2 '+U', 3 '-D'.

Inside, two more bits say what an erasing delete did (`lsmlake.lsm.merge.erase`): `ERASES` on a row of any kind, that all rows of
its key that arrived before are gone whatever their sequence; `ERASE`, that nothing came after. Users see `plain` kinds only.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lsmlake.errors import InvalidData

INSERT, UPDATE_BEFORE, UPDATE_AFTER, DELETE = 0, 1, 2, 3
ERASES = 4
ERASE = 8 | ERASES | DELETE
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


def plain(kinds: np.ndarray) -> np.ndarray:
    """The kinds without the bits of erasure: 0 to 3."""
    return kinds & 3


def is_retract(kinds: pa.ChunkedArray) -> pa.ChunkedArray:
    """True where the kind is -U or -D, of rows that erase their key, too."""
    return pc.equal(pc.bit_wise_and(kinds, pa.scalar(1, pa.int8())), pa.scalar(1, pa.int8()))
