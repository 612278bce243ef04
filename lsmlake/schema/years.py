"""The years of dates and times: 1 to 9999 in UTC, as in Python and Spark. Arrow and Parquet hold more years; tables refuse them.

`schema.conform` checks rows before they are written, `imports` checks the files that a table adopts. Types are canonical.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from lsmlake.errors import InvalidData
from lsmlake.kernels import nested
from lsmlake.types.column_types import has_times
from lsmlake.types.type_table import as_integers, column_type, is_dated, is_time, iso_text, of_integers

Values = pa.Array | pa.ChunkedArray


def check_years(column: Values, where: str, cure: str = "replace those values") -> None:
    """Raises InvalidData naming `where` if the column has, at any level, a date or time outside the years."""
    if outside := next(_outside(column), None):
        type_, shown = outside
        what, expected = "a time outside the supported years", "years 0001 to 9999"
        if not is_dated(type_):
            first, last = (iso_text(of_integers(pa.scalar(limit, pa.int64()), type_)) for limit in column_type(type_).limits)
            what, expected = "no time of day", f"{first} to {last}"
        raise InvalidData(what, where=where, expected=expected, found=shown, cure=cure)


def has_outside(column: Values) -> bool:
    """Whether the column has, at any level, a date or time outside the years."""
    return next(_outside(column), None) is not None


def are_outside(type_: pa.DataType, low: int, high: int) -> bool:
    """Whether `low`, the least, or `high`, the greatest of dates or times is outside the years. Both are stored integers."""
    first, last = column_type(type_).limits
    return low < first or high > last


def _outside(column: Values) -> Iterator[tuple[pa.DataType, str]]:
    """Yields the type, and the least and the greatest value as text, of each array with dates or times outside the years."""
    for values in _times(column):
        ends = pc.min_max(as_integers(values)).as_py()
        if ends["min"] is not None and are_outside(values.type, ends["min"], ends["max"]):
            unit = "days" if pa.types.is_date(values.type) else "microseconds"
            since = "1970" if is_dated(values.type) else "midnight"
            yield values.type, f"{ends['min']} to {ends['max']} {unit} since {since}"


def _times(column: Values) -> Iterator[Values]:
    """The dates and times in a column, without those in null structs, lists and maps."""
    if is_time(column.type):
        yield column
    elif has_times(column.type):
        for chunk in column.chunks if isinstance(column, pa.ChunkedArray) else [column]:
            for inner in _inside(chunk):
                yield from _times(inner)


def _inside(array: pa.Array) -> list[pa.Array]:
    if pa.types.is_struct(array.type):
        return array.flatten()
    return list(nested.map_parts(array)[1:]) if pa.types.is_map(array.type) else [nested.list_parts(array)[1]]
