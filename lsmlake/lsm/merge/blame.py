"""Which keys cannot be merged: a merge that fails is tried again on halves of its keys until the keys at fault are alone.

That a sum leaves its type, or that a factor of zero is taken back, only shows when rows meet: a writer that reads no older rows
cannot refuse them. Every later merge of the key fails. The error names the key and its rows; `ops.repair` takes them out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice

import pyarrow as pa

from lsmlake.errors import InvalidData, Wording
from lsmlake.format.files import Bucket
from lsmlake.lsm.aggregate.overflow import failing
from lsmlake.lsm.merge.groups import Groups

KEYS_MAX = 100
_ROWS_SHOWN = 4
_VALUE_SHOWN = 60


class Unmergeable(InvalidData):
    """Rows of one key that cannot be combined. `keys`: a table of the keys concerned, at most `KEYS_MAX`."""

    keys: pa.Table

    def at(self, table: str, bucket: Bucket) -> Unmergeable:
        """The same error of rows that are in a table, with the cure for them."""
        place = f"{table}, bucket {bucket.number}" + (f" of partition {bucket.partition}" if bucket.partition else "")
        cure = Wording(
            "Table.repair() lists the rows that do not fit and takes them out",
            command=f"`lsmlake repair {table}` lists the rows that do not fit and takes them out",
        )
        where = f"{place}, {self.where}" if self.where else place
        located = Unmergeable(self.what, where=where, expected=self.expected, found=self.found, cure=cure)
        located.keys = self.keys
        return located


@contextmanager
def located(root: str, bucket: Bucket) -> Iterator[None]:
    """Completes an Unmergeable of the body: its rows are in this bucket of the table whose folder is `root`."""
    try:
        yield
    except Unmergeable as error:
        raise error.at(root.replace(".db/", "."), bucket) from error.__cause__


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
    shown = [_short(row) for row in rows.take(pa.array(places[:_ROWS_SHOWN])).drop_columns(list(key)).to_pylist()]
    more = f" and {len(places) - _ROWS_SHOWN} more" if len(places) > _ROWS_SHOWN else ""
    keys = rows.select(list(key)).take(pa.array(groups.first[numbers]))
    count = "1 key" if len(numbers) == 1 else f"{len(numbers)} keys" + (" or more" if len(numbers) == KEYS_MAX else "")
    found = f"{count}, first {_short(keys.slice(0, 1).to_pylist()[0])} with the rows {', '.join(shown)}{more}"
    named = Unmergeable(error.what, where=_column(error.where), expected=error.expected, found=found, cure=error.cure)
    named.keys = keys
    return named


def _column(where: str) -> str:
    """The column that an error of an aggregate function names; the table is added by `Unmergeable.at`."""
    return where[where.rfind("column ") :] if "column " in where else where


def _short(row: dict[str, object]) -> str:
    values = (f"{name}={repr(value)[:_VALUE_SHOWN]}" for name, value in row.items())
    return "(" + ", ".join(values) + ")"
