"""Leaves out files in whose index no row can match the predicate.

Only the outcome TRUE of a predicate matters. AND and OR combine what the indexes say of their parts, and other nodes are decided
only where they are conditions on one column:

1. A value index has the distinct values of a column, so any condition is evaluated on these values. If two columns of an AND have
   a value index, the rows of both are compared, too.
2. A Bloom filter is asked about the values of = and IN.

An index of a column is used if the column still has a type of the same family; so no value of the file is missed after the
column was renamed or widened. An index is redundant: a file whose index cannot be read is kept, and the step says so. `verify`
reports it.

Files of level 0 supersede others whether their rows match or not. They are left out only if no row has a key that the predicate
allows: then they supersede no matching row either.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import reduce
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lsmlake.errors import Corrupt, UnsupportedFormat
from lsmlake.format import file_index, manifest
from lsmlake.format.data_files import DataFile
from lsmlake.format.file_index import NOTHING, BloomFilter, FileIndex, ValueIndex
from lsmlake.kernels.value_hash import family, value_hash
from lsmlake.predicate import ColumnBounds, evaluate, reach
from lsmlake.predicate.tree import And, Column, Compare, In, Is, Literal, Or, Predicate, and_
from lsmlake.read.prune import exact_bounds
from lsmlake.schema.schema import Schema
from lsmlake.storage.concurrency import together
from lsmlake.tables.table_files import TableFiles
from lsmlake.tables.version import Version


class Indexed(NamedTuple):
    """The files that remain, as flags of entries.

    Attributes:
        matches: the files that may hold a matching row, and those of level 0.
        keys: the files that may hold a row whose key matches. Other files need not be read at all, not even to merge their rows.
        step: the name of the step, with the number of indexes that were unreadable.
    """

    matches: np.ndarray
    keys: np.ndarray
    step: str


class RowsOfFile(NamedTuple):
    """The rows of a file that may match.

    Attributes:
        some: whether there is such a row.
        flags: returns flags of the rows that may match; None: the index does not tell rows apart.
    """

    some: bool
    flags: Callable[[], np.ndarray] | None = None


_NO_ROW = RowsOfFile(False)
_ANY_ROW = RowsOfFile(True)
Test = Callable[[FileIndex, int], RowsOfFile]
"""(The index of a file, the number of the file among all entries) -> its rows that may match."""


def by_index(version: Version, table: pa.Table, matches: np.ndarray, predicate: Predicate) -> Indexed | None:
    """Tests the files that `matches` flags. Returns None if no file has an index that could decide."""
    if not version.options.index.enabled:
        return None
    schema, index = version.schema, version.options.index
    indexed = index.columns & predicate.columns
    bounds = exact_bounds(table, schema, {*index.bloom_columns} & indexed)
    test = _of(predicate, IndexedColumns(schema, indexed, bounds))
    if test is None:
        return None
    by_key = _of(predicate, IndexedColumns(schema, indexed & {*schema.primary_key}, bounds))
    has_index = pc.or_(pc.is_valid(table["index"]), pc.is_valid(table["index_bytes"])).to_numpy()
    levels = table["level"].to_numpy()
    tested = np.flatnonzero(matches & has_index & ((levels > 0) | (by_key is not None)))
    if not len(tested):
        return None
    rows = table.take(pa.array(tested))
    files = [file for _, _, file in manifest.files_of(rows, schema, statistics=False)]
    files = [file._replace(index=index) for file, index in zip(files, rows["index"].to_pylist(), strict=True)]
    left, keys, unreadable = matches.copy(), np.ones(len(matches), bool), []

    def look(number: int) -> None:
        place = int(tested[number])
        try:
            file_index = index_of_file(version.meta.files, files[number])
            left[place] = levels[place] == 0 or test(file_index, place).some
            keys[place] = by_key is None or by_key(file_index, place).some
        except (Corrupt, UnsupportedFormat):
            unreadable.append(number)

    workers = version.meta.env.workers if any(file.index_bytes is not None for file in files) else 1
    together(look, range(len(files)), workers, lambda done: None)
    return Indexed(left & keys, keys, f"indexes ({len(unreadable)} unreadable)" if unreadable else "indexes")


class IndexedColumns(NamedTuple):
    """The columns `names` of a schema have indexes that may be used. `bounds`: the bounds of some of these columns, in all
    files."""

    schema: Schema
    names: frozenset[str]
    bounds: Mapping[str, ColumnBounds]


def _of(predicate: Predicate, columns: IndexedColumns) -> Test | None:
    """The test by the indexes of the columns; None if the indexes exclude nothing."""
    needed = predicate.columns
    if len(needed) == 1:
        return _of_column(predicate, *needed, columns) if needed <= columns.names else None
    match predicate:
        case Is(child, True):
            return _of(child, columns)
        case And(children):
            tests = [test for child in _by_column(children) if (test := _of(child, columns)) is not None]
            return (lambda index, file: _all([test(index, file) for test in tests])) if tests else None
        case Or(children):
            tests = [_of(child, columns) for child in children]
            return None if None in tests else lambda index, file: _any([test(index, file) for test in tests])
    return None


def _by_column(children: Iterable[Predicate]) -> Iterator[Predicate]:
    """The children of a node; children on the same single column are combined into one."""
    groups: dict[frozenset[str], list[Predicate]] = {}
    for child in children:
        if len(child.columns) == 1:
            groups.setdefault(child.columns, []).append(child)
        else:
            yield child
    yield from (and_(*group) for group in groups.values())


def _all(parts: Collection[RowsOfFile]) -> RowsOfFile:
    if not all(part.some for part in parts):
        return _NO_ROW
    exact = [part.flags for part in parts if part.flags is not None]
    if len(exact) < 2:
        return RowsOfFile(True, *exact)
    in_all = reduce(np.logical_and, (flags() for flags in exact))
    return RowsOfFile(bool(in_all.any()), lambda: in_all)


def _any(parts: Collection[RowsOfFile]) -> RowsOfFile:
    parts = [part for part in parts if part.some]
    if not parts or any(part.flags is None for part in parts):
        return _ANY_ROW if parts else _NO_ROW
    return RowsOfFile(True, lambda: reduce(np.logical_or, (part.flags() for part in parts)))


def _of_column(predicate: Predicate, name: str, columns: IndexedColumns) -> Test:
    number, kind = columns.schema.field_ids()[name], columns.schema.plain_columns.field(name).type
    group, by_filter = family(kind), _by_filter(predicate, columns.bounds.get(name))

    def test(index: FileIndex, file: int) -> RowsOfFile:
        values, one = index.values.get(number), index.filters.get(number)
        if values is not None and values.family == group:
            return _by_value(predicate, name, kind, values)
        if one is not None and one.family == group and by_filter is not None:
            return _ANY_ROW if by_filter(one, file) else _NO_ROW
        return _ANY_ROW

    return test


def _by_value(predicate: Predicate, name: str, kind: pa.DataType, index: ValueIndex) -> RowsOfFile:
    try:
        values = index.values_and_null(kind)
    except pa.ArrowException:  # no value of the type: the index is not of this file
        return _ANY_ROW
    wanted = evaluate(predicate, pa.table({name: values}))
    if not (wanted[:-1].any() or (index.nulls and wanted[-1])):
        return _NO_ROW
    return RowsOfFile(True, lambda: index.rows_of(wanted))


def _by_filter(predicate: Predicate, bounds: ColumnBounds | None) -> Callable[[BloomFilter, int], bool] | None:
    """Whether a row may match a condition on one column, by its filter in a file; None: filters exclude nothing. `bounds`: of the
    column in all files."""
    match predicate:
        case Compare("=", Column() as column, Literal(value)):
            return _holds_one(In(column, (value,)), bounds)
        case In():
            return _holds_one(predicate, bounds)
        case Is(child, True):
            return _by_filter(child, bounds)
        case And(children):
            tests = [test for child in children if (test := _by_filter(child, bounds)) is not None]
            return (lambda one, file: all(test(one, file) for test in tests)) if tests else None
        case Or(children):
            tests = [_by_filter(child, bounds) for child in children]
            return None if None in tests else lambda one, file: any(test(one, file) for test in tests)
    return None


def _holds_one(among: In, bounds: ColumnBounds | None) -> Callable[[BloomFilter, int], bool]:
    """Asks a filter only about the values within the bounds of its file: fewer values give fewer false positives."""
    order, column = pc.sort_indices(among.literals), among.column
    stored = pa.float64() if pa.types.is_floating(column.type) else column.type
    hashes = value_hash(pa.chunked_array([pa.array(among.values, stored).take(order)]))
    if bounds is None:
        return lambda one, file: one.may_hold_one(hashes)
    first, end = reach(column, among.literals.take(order), bounds)
    return lambda one, file: one.may_hold_one(hashes[first[file] : end[file]])


# -- the index of a file ----------------------------------------------------------------------------------------------


def index_of_file(files: TableFiles, file: DataFile) -> FileIndex:
    """The index of a data file, cached. Raises Corrupt, UnsupportedFormat, TableNotFound."""
    if file.index is None and file.index_bytes is None:
        return NOTHING
    path = files.paths.index(file)

    def read() -> FileIndex:
        if file.index is not None:
            return file_index.decode(file.index, file.rows, f"{files.paths.data(file)}, its index in the manifest")
        return file_index.decode(files.read(path, file.index_bytes), file.rows, path)

    return files.cache.get(path, read, lambda index: index.bytes)
