"""Leaves out files by their indexes: those whose Bloom filters hold none of the values that a matching row must have.

Only the outcome TRUE of a predicate matters, so = and IN are tested, AND and OR combine them, and all other nodes may be true. A
filter of a column is used if the column still has a type of the same family; so no value of the file is missed after the column
was renamed or widened.

An index is redundant: a file whose index cannot be read is kept, and the step says so. `verify` reports it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lsmlake.errors import Corrupt, UnsupportedFormat
from lsmlake.format import manifest
from lsmlake.format.file_index import BloomFilter
from lsmlake.kernels.value_hash import family, value_hash
from lsmlake.predicate.tree import And, Column, Compare, In, Is, Literal, Or, Predicate
from lsmlake.store.file_indexes import index_of_file
from lsmlake.store.together import together
from lsmlake.store.version import Version


class Indexed(NamedTuple):
    """The files that are left, as flags of entries; and the name of the step, with the number of indexes that were unreadable."""

    matches: np.ndarray
    step: str


Test = Callable[[Mapping[int, BloomFilter]], bool]
"""Whether a file with these filters, by field id, may have a matching row."""


def by_index(version: Version, table: pa.Table, matches: np.ndarray, predicate: Predicate) -> Indexed | None:
    """Tests the files that `matches` flags, except those of level 0, whose rows supersede others whether they match or not.
    Returns None if no file has an index that could decide."""
    ids = {name: version.schema.field_ids()[name] for name in version.options.index.bloom_columns}
    test = _test(predicate, ids)
    if test is None:
        return None
    has_index = pc.or_(pc.is_valid(table["index"]), pc.is_valid(table["index_bytes"])).to_numpy()
    tested = np.flatnonzero(matches & has_index & (table["level"].to_numpy() > 0))
    if not len(tested):
        return None
    rows = table.take(pa.array(tested))
    files = [file for _, _, file in manifest.files_of(rows, version.schema, statistics=False)]
    files = [file._replace(index=index) for file, index in zip(files, rows["index"].to_pylist(), strict=True)]
    left, unreadable = matches.copy(), []

    def look(number: int) -> None:
        try:
            filters = index_of_file(version.meta.files, files[number])
        except (Corrupt, UnsupportedFormat):
            unreadable.append(number)
            return
        left[tested[number]] = test(filters)

    workers = version.meta.env.workers if any(file.index_bytes is not None for file in files) else 1
    together(look, range(len(files)), workers, lambda done: None)
    return Indexed(left, f"indexes ({len(unreadable)} unreadable)" if unreadable else "indexes")


def _test(predicate: Predicate, ids: Mapping[str, int]) -> Test | None:
    """The test by the filters of columns `ids`; None: they exclude nothing."""
    match predicate:
        case Compare("=", column, Literal(value)):
            return _any_of(column, (value,), ids)
        case In(column, values):
            return _any_of(column, values, ids)
        case Is(child, True):
            return _test(child, ids)
        case And(children):
            tests = [test for child in children if (test := _test(child, ids)) is not None]
            return (lambda filters: all(test(filters) for test in tests)) if tests else None
        case Or(children):
            parts = [_test(child, ids) for child in children]
            return None if None in parts else lambda filters: any(test(filters) for test in parts)
    return None


def _any_of(column: Column, values: Collection[object], ids: Mapping[str, int]) -> Test | None:
    if len(column.path) > 1 or column.path[0] not in ids:
        return None
    number, kind = ids[column.path[0]], family(column.type)
    stored = pa.float64() if pa.types.is_floating(column.type) else column.type
    hashes = value_hash(pa.chunked_array([pa.array(values, stored)]))

    def test(filters: Mapping[int, BloomFilter]) -> bool:
        one = filters.get(number)
        return one is None or one.family != kind or bool(one.may_hold(hashes).any())

    return test
