"""Finds the keys whose rows cannot be merged, by bisection: a failed merge is repeated on halves of its keys.

Some errors only occur when rows are merged: a sum overflows, or a factor of zero is retracted from a product. A writer that reads
no older rows cannot detect them, and each later merge of the key fails. The error names the key and its rows; `maintain.repair`
removes them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice

import pyarrow as pa

from lsmlake.errors import InvalidData, Wording
from lsmlake.format.data_files import Bucket
from lsmlake.kernels.groups import Groups
from lsmlake.lsm.aggregate.overflow import failing
from lsmlake.schema.schema import ROW_KIND
from lsmlake.schema.values import row_text, values_text

KEYS_MAX = 100
_ROWS_SHOWN = 4


class Unmergeable(InvalidData):
    """Rows of a key cannot be merged. `keys`: a table of the affected keys, at most `KEYS_MAX`."""

    keys: pa.Table

    def at(self, table: str, bucket: Bucket) -> Unmergeable:
        """Returns this error with the bucket as location and the cure for stored rows."""
        place = bucket_text(table, bucket)
        cure = Wording(
            "Table.repair() lists the rows that do not fit and removes them",
            command=f"`lsmlake repair {table}` lists the rows that do not fit and removes them",
        )
        where = f"{place}, {self.where}" if self.where else place
        located = self.changed(where=where, cure=cure)
        located.keys = self.keys
        return located


def table_text(root: str) -> str:
    """Returns the name of the table in directory `root`, for an error message."""
    return root.replace(".db/", ".")


def bucket_text(table: str, bucket: Bucket) -> str:
    """Returns the bucket's name for an error message."""
    return f"{table}, bucket {bucket.number}" + (f" of partition {values_text(bucket.partition)}" if bucket.partition else "")


@contextmanager
def located(root: str, bucket: Bucket) -> Iterator[None]:
    """Adds the location to an Unmergeable that the body raises: this bucket of the table in directory `root`."""
    try:
        yield
    except Unmergeable as error:
        raise error.at(table_text(root), bucket) from error.__cause__


def merge_or_name_keys(merge: Callable[[Groups], pa.Table], rows: pa.Table, groups: Groups, key: Sequence[str]) -> pa.Table:
    """Returns `merge(groups)`, which merges groups of `rows`. Raises Unmergeable with the first keys that fail."""
    try:
        return merge(groups)
    except InvalidData:
        numbers = list(islice(failing(len(groups.starts), lambda first, last: merge(groups.part(first, last))), KEYS_MAX))
        if not numbers:  # no group fails alone
            raise
        try:
            merge(groups.part(numbers[0], numbers[0] + 1))
        except InvalidData as single:
            error = single
        raise _unmergeable(error, rows, groups, key, numbers) from error


def _unmergeable(error: InvalidData, rows: pa.Table, groups: Groups, key: Sequence[str], numbers: list[int]) -> Unmergeable:
    places = groups.part(numbers[0], numbers[0] + 1).rows
    shown = rows.select(_failing_columns(error.where, rows, key))
    texts = ", ".join(row_text(shown.slice(place, 1)) for place in places[:_ROWS_SHOWN].tolist())
    more = f" and {len(places) - _ROWS_SHOWN} more" if len(places) > _ROWS_SHOWN else ""
    keys = rows.select(list(key)).take(pa.array(groups.first[numbers]))
    count = "1 key" if len(numbers) == 1 else f"{len(numbers)} keys" + (" or more" if len(numbers) == KEYS_MAX else "")
    unmergeable = f"{count}, first {row_text(keys)} with the rows {texts}{more}"
    named = Unmergeable(error.what, where=_column(error.where), expected=error.expected, found=unmergeable, cure=error.cure)
    named.keys = keys
    return named


def _failing_columns(where: str, rows: pa.Table, key: Sequence[str]) -> list[str]:
    """Returns the column that an aggregate function names in its error; if it names none, all columns outside the key."""
    others = [name for name in rows.column_names if name not in (*key, ROW_KIND)]
    return [name for name in others if where.endswith(f"column {name!r}")] or others


def _column(where: str) -> str:
    """Returns the column part of an aggregate function's error location; `Unmergeable.at` adds the table."""
    return where[where.rfind("column ") :] if "column " in where else where
