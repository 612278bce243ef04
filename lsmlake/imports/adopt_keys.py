"""Checks the keys of a table that is to be adopted: every live row has a key, and no two have the same.

The keys of a partition are sorted in bounded memory (`files.spill`), so that equal keys are neighbours.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from lsmlake.errors import InvalidData
from lsmlake.files.data_reader import Chunk, live_rows
from lsmlake.files.spill import in_key_order
from lsmlake.format.deletion_vector import DeletionVector
from lsmlake.kernels.keys import comparable, ends
from lsmlake.schema.schema import Schema
from lsmlake.schema.values import row_text
from lsmlake.schema.years import check_years, has_outside

_LOAD = "or import the table without a primary key, and upsert its rows from there into a table with one"


class KeyRange(NamedTuple):
    """The least and the greatest key of a file, dead rows included."""

    low: tuple
    high: tuple


class KeyedFile(NamedTuple):
    """A file of a partition: how to read its key columns, and its dead rows."""

    name: str
    read: Callable[[], Iterator[Chunk]]
    dead: DeletionVector


def key_ranges(files: Iterable[KeyedFile], schema: Schema, window_bytes: int, where: str) -> dict[str, KeyRange]:
    """Checks the keys of a partition. Returns the key range of each file, without files that have a dead row without a key.

    Args:
        files: all files of the partition.
        schema: the schema of the table; files are read with the columns of its key.
        window_bytes: the keys to hold while sorted runs of them are merged.
        where: the table, for messages.

    Raises:
        InvalidData: a live row has no key, or two live rows have the same key.
    """
    ranges: dict[str, KeyRange] = {}

    def live() -> Iterator[pa.Table]:
        for file in files:
            bounds: list[tuple] = []
            whole = True
            for chunk in file.read():
                keys = live_rows(chunk, file.dead)
                check_valid(keys, where, file.name)
                whole = whole and (keys.num_rows == chunk.table.num_rows or not any(map(_is_no_key, chunk.table.columns)))
                bounds += ends(chunk.table) if whole and chunk.table.num_rows else ()
                yield keys
            if whole and bounds:
                ranges[file.name] = KeyRange(min(bounds), max(bounds))

    buffer_bytes = schema.parsed_options.write.buffer_bytes
    repeated, example, last = 0, None, None
    for keys in in_key_order(live(), schema.key, buffer_bytes, window_bytes):
        keys = keys if last is None else pa.concat_tables([last, keys])
        (numbers,) = comparable([keys])
        same = numbers[1:] == numbers[:-1]
        if same.any() and example is None:
            example = keys.slice(int(same.argmax()), 1)
        repeated += int(same.sum())
        last = keys.slice(keys.num_rows - 1)
    if repeated:
        raise repeated_keys(where, repeated, example)
    return ranges


def repeated_keys(where: str, repeated: int, example: pa.Table) -> InvalidData:
    """The error for rows that have the keys of others. `example`: one such key."""
    return InvalidData(
        "several rows have the same primary key",
        where=where,
        expected="one row per key",
        found=f"{repeated} rows too many, such as for {row_text(example)}",
        cure=f"name other key columns; {_LOAD}, where the last of equal keys wins",
    )


def check_valid(keys: pa.Table, where: str, file: str) -> None:
    """Raises InvalidData if a row of `file` has no key. `where`: the table."""
    for name, column in zip(keys.column_names, keys.columns, strict=True):
        check_years(column, f"{file}, column {name!r}")
        if count := _lacking(column):
            raise InvalidData(
                "a row has no primary key: its value is null or NaN",
                where=f"{where}, column {name!r}",
                found=f"{count} rows of {file}",
                cure=f"name other key columns; {_LOAD}, without these rows",
            )


def _is_no_key(column: pa.ChunkedArray) -> bool:
    return _lacking(column) > 0 or has_outside(column)


def _lacking(column: pa.ChunkedArray) -> int:
    """How many values are null or NaN."""
    nan = pc.sum(pc.is_nan(column)).as_py() if pa.types.is_floating(column.type) else 0
    return column.null_count + (nan or 0)
