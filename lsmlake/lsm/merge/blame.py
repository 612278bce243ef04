"""Finds the keys that cannot be merged: a merge that fails is repeated on halves of its keys until the keys at fault are alone.

Some faults only show when rows meet: a sum leaves its type, or a factor of zero is taken back. A writer that reads no older
rows cannot refuse such rows, and every later merge of the key fails. The error names the key and its rows; `maintain.repair`
takes them out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice

import pyarrow as pa

from lsmlake.errors import InvalidData, Wording
from lsmlake.format.files import Bucket
from lsmlake.kernels.groups import Groups
from lsmlake.lsm.aggregate.overflow import failing
from lsmlake.schema.row_text import row_text, values_text
from lsmlake.schema.schema import ROW_KIND

KEYS_MAX = 100
_ROWS_SHOWN = 4


class Unmergeable(InvalidData):
    """Rows of one key that cannot be combined. `keys`: a table of the keys concerned, at most `KEYS_MAX`."""

    keys: pa.Table

    def at(self, table: str, bucket: Bucket) -> Unmergeable:
        """The same error of rows that are in a table, with the cure for them."""
        place = bucket_text(table, bucket)
        cure = Wording(
            "Table.repair() lists the rows that do not fit and takes them out",
            command=f"`lsmlake repair {table}` lists the rows that do not fit and takes them out",
        )
        where = f"{place}, {self.where}" if self.where else place
        located = Unmergeable(self.what, where=where, expected=self.expected, found=self.found, cure=cure)
        located.keys = self.keys
        return located


def table_text(root: str) -> str:
    """The name of the table whose folder is `root`, in an error message."""
    return root.replace(".db/", ".")


def bucket_text(table: str, bucket: Bucket) -> str:
    """The bucket in an error message."""
    return f"{table}, bucket {bucket.number}" + (f" of partition {values_text(bucket.partition)}" if bucket.partition else "")


@contextmanager
def located(root: str, bucket: Bucket) -> Iterator[None]:
    """Completes an Unmergeable of the body: its rows are in this bucket of the table whose folder is `root`."""
    try:
        yield
    except Unmergeable as error:
        raise error.at(table_text(root), bucket) from error.__cause__


def merged(make: Callable[[Groups], pa.Table], rows: pa.Table, groups: Groups, key: Sequence[str]) -> pa.Table:
    """`make(groups)`, which merges groups of `rows`. Raises Unmergeable, which names the first keys at fault."""
    try:
        return make(groups)
    except InvalidData:
        numbers = list(islice(failing(len(groups.starts), lambda first, last: make(groups.part(first, last))), KEYS_MAX))
        if not numbers:  # the groups only fail together, so no key is at fault
            raise
        try:
            make(groups.part(numbers[0], numbers[0] + 1))
        except InvalidData as single:
            error = single
        raise _unmergeable(error, rows, groups, key, numbers) from error


def _unmergeable(error: InvalidData, rows: pa.Table, groups: Groups, key: Sequence[str], numbers: list[int]) -> Unmergeable:
    places = groups.part(numbers[0], numbers[0] + 1).rows
    shown = rows.select(_columns_at_fault(error.where, rows, key))
    of_key = ", ".join(row_text(shown.slice(place, 1)) for place in places[:_ROWS_SHOWN].tolist())
    more = f" and {len(places) - _ROWS_SHOWN} more" if len(places) > _ROWS_SHOWN else ""
    keys = rows.select(list(key)).take(pa.array(groups.first[numbers]))
    count = "1 key" if len(numbers) == 1 else f"{len(numbers)} keys" + (" or more" if len(numbers) == KEYS_MAX else "")
    found = f"{count}, first {row_text(keys)} with the rows {of_key}{more}"
    named = Unmergeable(error.what, where=_column(error.where), expected=error.expected, found=found, cure=error.cure)
    named.keys = keys
    return named


def _columns_at_fault(where: str, rows: pa.Table, key: Sequence[str]) -> list[str]:
    """The column that an error of an aggregate function names; if it names none, all columns outside the key."""
    others = [name for name in rows.column_names if name not in (*key, ROW_KIND)]
    return [name for name in others if where.endswith(f"column {name!r}")] or others


def _column(where: str) -> str:
    """The column that an error of an aggregate function names; the table is added by `Unmergeable.at`."""
    return where[where.rfind("column ") :] if "column " in where else where
