"""Row kinds: +I, -U, +U and -D. int8 in files, text in the public API: 0 '+I', 1 '-U', 2 '+U', 3 '-D'.

Two further bits are internal to erasing deletes (`lsmlake.lsm.merge.rule`): `ERASES` on a row of any kind erases all earlier
rows of its key, whatever their sequence; a row of kind `ERASE` only erases. Users see `plain` kinds.

Sorted runs keep the kinds in the column `_row_kind`; a run without this column holds only +I rows. This file also names the
columns that tell the commit of a change and its position in the commit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lsmlake.errors import InvalidData, RowPlace, Wording
from lsmlake.schema import lossless
from lsmlake.schema.conform import shown
from lsmlake.schema.schema import ROW_KIND, ROW_KIND_FIELD
from lsmlake.types.type_table import is_bytes, is_text

INSERT, UPDATE_BEFORE, UPDATE_AFTER, DELETE = 0, 1, 2, 3
ERASES = 4
ERASE = 8 | ERASES | DELETE
NAMES = ("+I", "-U", "+U", "-D")
STORED = (*range(8), ERASE)
"""The values in data files."""


class Source(NamedTuple):
    """The column with the row kinds of a write. `codes`: (value, kind) for each valid value; default: the names of the kinds."""

    column: str
    codes: tuple[tuple[object, str], ...] = tuple((name, name) for name in NAMES)

    @staticmethod
    def of(given: object) -> Source | None:
        """Parses the argument `row_kind`: None, a column name, or {"column": name, "map": {value: kind}}. Raises InvalidData."""
        if given is None or isinstance(given, str):
            return None if given is None else Source(given)
        if not isinstance(given, Mapping) or not given.keys() <= {"column", "map"} or not isinstance(given.get("column"), str):
            raise InvalidData(
                "row_kind names the column with the row kinds",
                expected='the name of a column, or {"column": "op", "map": {"c": "+I", "u": "+U", "d": "-D"}}',
                found=repr(given),
                cure="correct it",
            )
        if "map" not in given:
            return Source(given["column"])
        codes = given["map"]
        if (
            not isinstance(codes, Mapping)
            or not codes
            or not all(isinstance(kind, str) and kind in NAMES for kind in codes.values())
        ):
            raise InvalidData(
                'the "map" of row_kind gives the row kind of every code',
                expected="some of '+I', '-U', '+U', '-D' as its values",
                found=repr(codes),
                cure="correct it",
            )
        return Source(given["column"], tuple(codes.items()))


def parse(data: pa.Table, source: Source, first_row: int | None = 0) -> pa.ChunkedArray:
    """Converts the column of `source` to int8 kinds without nulls. Raises InvalidData naming the first invalid value and its row,
    counted from `first_row` (None: messages name no row)."""
    where = f"column {source.column!r}"
    if data.schema.names.count(source.column) != 1:
        raise InvalidData(
            "the data must have the row-kind column once",
            where=where,
            expected="one column of this name",
            found=data.schema.names,
            cure="name a column of the data",
        )
    column, expected = data[source.column], " or ".join(repr(code) for code, _ in source.codes)
    if column.null_count and all(code is not None for code, _ in source.codes):
        raise InvalidData(
            "a row has no row kind: its value is null",
            where=_at(where, column.is_null(), first_row),
            expected=expected,
            cure=_CURE_OF_NULL,
        )
    try:
        number = _code_numbers(column, [code for code, _ in source.codes])
    except (pa.ArrowException, TypeError, OverflowError) as unlike:
        raise InvalidData(
            "the row-kind column and the codes have different types",
            where=where,
            expected=expected,
            found=column.type,
            cure=_CURE,
        ) from unlike
    if number.null_count:
        raise InvalidData(
            "unknown row kind",
            where=_at(where, number.is_null(), first_row),
            expected=expected,
            found=shown(column, _first(number.is_null())),
            cure=_CURE,
        )
    kinds = pa.array([NAMES.index(kind) for _, kind in source.codes], pa.int8())
    return pc.take(kinds, number)


_CURE_OF_NULL = Wording(
    "fill it, with the code of '+I' for rows to insert or replace, or leave these rows out",
    command="write +I, -U, +U or -D into each row",
)
_CURE = Wording(
    'map every code of the column: row_kind={"column": ..., "map": {code: kind}}',
    command="write +I, -U, +U or -D into the column",
)


def _first(flags: pa.ChunkedArray) -> int:
    return pc.index(flags, pa.scalar(True)).as_py()


def _at(where: str, wrong: pa.ChunkedArray, first_row: int | None) -> str:
    return where if first_row is None else RowPlace(where, first_row + _first(wrong))


def _code_numbers(column: pa.ChunkedArray, codes: Sequence[object]) -> pa.ChunkedArray:
    """Returns the index in `codes` of each value, null for other values. Raises pa.ArrowException if the types differ."""
    if pa.types.is_dictionary(column.type):
        values = map(lossless.decoded, column.chunks)
        column = pa.chunked_array([chunk.cast(_code_type(chunk.type)) for chunk in values], _code_type(column.type.value_type))
    value_set = pa.array(codes, _code_type(column.type))
    if pa.types.is_integer(value_set.type) and value_set.to_pylist() != list(codes):  # PyArrow makes 1 of 1.5
        raise TypeError("a code is no value of the column")
    return pc.index_in(column.cast(value_set.type), value_set=value_set)


def _code_type(type_: pa.DataType) -> pa.DataType:
    """Returns the type in which codes are compared: Arrow looks up text and bytes in their plain layout only."""
    if is_text(type_):
        return pa.string()
    return pa.binary() if is_bytes(type_) else type_


def plain(kinds: np.ndarray) -> np.ndarray:
    """Returns the kinds without the erasure bits: 0 to 3."""
    return kinds & 3


def is_retract(kinds: pa.ChunkedArray) -> pa.ChunkedArray:
    """Flags the kinds -U and -D, with or without erasure bits."""
    return pc.equal(pc.bit_wise_and(kinds, pa.scalar(1, pa.int8())), pa.scalar(1, pa.int8()))


_KIND = ROW_KIND_FIELD.remove_metadata()


def kinds_of(table: pa.Table) -> np.ndarray | None:
    """Returns the `_row_kind` column; None if the table has none, so that all rows are +I."""
    return np.asarray(table[ROW_KIND]) if ROW_KIND in table.column_names else None


def retractions(kinds: np.ndarray) -> np.ndarray:
    """Flags the kinds -U and -D."""
    return (kinds == UPDATE_BEFORE) | (kinds == DELETE)


def with_kind(table: pa.Table, kinds: np.ndarray | int) -> pa.Table:
    """Returns the table with `_row_kind` set to these kinds."""
    table = table.drop_columns([ROW_KIND]) if ROW_KIND in table.column_names else table
    return table.append_column(_KIND, pa.array(np.full(table.num_rows, kinds, np.int8)))


def with_kinds(runs: Sequence[pa.Table], *, always: bool = False) -> list[pa.Table]:
    """Adds `_row_kind` (+I) to the runs that lack it if another run has it, or `always`."""
    if not always and not any(ROW_KIND in run.column_names for run in runs):
        return list(runs)
    return [run if ROW_KIND in run.column_names else with_kind(run, INSERT) for run in runs]


def without_deletes(table: pa.Table) -> pa.Table:
    """Drops -U and -D rows and the `_row_kind` column."""
    if ROW_KIND not in table.column_names:
        return table
    kinds = table[ROW_KIND]
    return table.drop_columns([ROW_KIND]).filter(pc.invert(is_retract(kinds)))


"""The names of the columns that tell the commit of a change and its place in it."""

COMMIT_SNAPSHOT, COMMIT_TIME, CHANGE_ORDINAL = COMMIT_COLUMNS = "_commit_snapshot_id", "_commit_time", "_change_ordinal"
