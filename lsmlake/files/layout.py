"""How Parquet stores the leaves of a data file: codec, dictionary, delta encoding, statistics.

What follows from the schema alone is found once for all files of a schema (`StoredColumns`); the rest follows from the first rows
of a file (`StoredColumns.layout`).

PyArrow takes the options of a leaf by dotted path, and two leaves can share a path: `a.b` is a column of that name, or field b of
the struct a. An option is set for a path only if it suits every leaf with that path.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache, partial
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lsmlake.format.manifest import has_order
from lsmlake.kernels.nested import Leaf, leaf_positions, leaves
from lsmlake.options.data_file_options import SNAPPY, ZSTD
from lsmlake.options.option_types import AUTO, NO_STATS, TRUNCATE, stats_length
from lsmlake.schema.schema import ROW_ADDRESS, ROW_ADDRESS_FIELD, ROW_KIND_FIELD, Schema
from lsmlake.types.column_types import field_id
from lsmlake.types.type_table import is_time

_SAMPLE_ROWS = 1 << 12
_DISTINCT_SHARE = 0.985  # in the sample; implies about 140,000 values in all, which exceed Parquet's dictionary limit
_FEW_ROWS = 1 << 10  # compressed by zstd without a dictionary, they take fewer bytes, and a third less time
_TINY_ROWS = 1 << 8  # zstd takes twice as long as snappy to write and to read them, and saves a few kilobytes


class Layout(NamedTuple):
    """The dotted paths for each option. `unbounded`: columns of `StoredColumns.bounded` that get no statistics in the file."""

    dictionary: list[str]
    delta: list[str]
    statistics: list[str]
    unbounded: frozenset[str]


class Bounded(NamedTuple):
    """A column of which manifests keep statistics. `leaf`: the position of its leaf in the file. `length`: bytes that bounds of
    text have at most; 0: no bounds are kept."""

    name: str
    id: int
    leaf: int
    length: int


def stats_lengths(schema: Schema) -> Mapping[str, int]:
    """Column -> `Bounded.length`, for the columns of which manifests keep statistics."""
    return schema.derived(_stats_lengths)


def _stats_lengths(schema: Schema) -> Mapping[str, int]:
    options, counted = schema.parsed_options, 0
    own = options.columns.stats_modes
    if options.tags.watermark_column is not None:
        own = {options.tags.watermark_column: TRUNCATE, **own}  # the watermark is a bound
    lengths: dict[str, int] = {}
    for field in schema.columns:
        mode = own.get(field.name, options.files.stats_mode)
        if field.name not in own and field.name not in schema.primary_key:
            counted += 1
            if 0 <= options.files.stats_columns < counted:
                mode = NO_STATS
        length = stats_length(mode, options.files.stats_bytes)
        if length is not None and has_order(field.type):
            lengths[field.name] = length
    return lengths


class StoredColumns:
    """The columns of files of a schema.

    Attributes:
        columns: with field ids, and `_lsmlake_row_address` and `_row_kind` if they are stored.
        sorting: the sort columns.
        bounded: the columns of which manifests keep statistics.
    """

    def __init__(self, columns: pa.Schema, key: Collection[str], lengths: Mapping[str, int]) -> None:
        self.columns, self._leaves, self._paths = columns, leaves(columns), leaf_paths(columns)
        self._names = [columns.names[leaf.column] for leaf in self._leaves]
        first = {name: places.start for name, places in zip(columns.names, leaf_positions(columns), strict=True)}
        self.sorting = [pq.SortingColumn(first[name]) for name in key] or None
        self.bounded = [
            Bounded(field.name, field_id(field), first[field.name], lengths[field.name])
            for field in columns
            if field.name in lengths
        ]
        placed = list(zip(self._leaves, self._names, strict=True))
        ascending = {*key, ROW_ADDRESS}
        self._is_delta = [not leaf.nested and name in ascending and _integer_kind(leaf.type) for leaf, name in placed]
        self._delta = _suiting(self._paths, self._is_delta)
        decided = zip(placed, self._is_delta, strict=True)
        self._undecided = [name for (leaf, name), delta in decided if not (delta or leaf.nested)]

    @staticmethod
    def of(schema: Schema, *, addresses: bool, kinds: bool) -> StoredColumns:
        """Of files with or without row addresses and row kinds."""
        return schema.derived(_FORMS[addresses, kinds])

    def layout(self, first: pa.Table, nan_columns: Collection[str], compression: str) -> Layout:
        """Chooses the layout of a file.

        Parquet writers omit NaN from the bounds, so a reader that orders NaN last, as Spark does, would skip row groups that
        match. Therefore a column with a NaN gets no statistics, and neither does a float inside a struct, list or map.

        Args:
            first: the first rows of the file; fewer than a row group only if they are all.
            nan_columns: float columns that may hold a NaN.
            compression: the option `file.compression`.
        """
        few = first.num_rows < _FEW_ROWS and compression in (AUTO, ZSTD)
        return _layout(self, None if few else _unique(first, self._undecided), frozenset(nan_columns))

    def chosen(self, unique: frozenset[str] | None, nan_columns: frozenset[str]) -> Layout:
        """As `layout`. `unique`: the columns without a dictionary; None: no column has one."""
        stored = list(zip(self._leaves, self._names, strict=True))
        if unique is None:
            dictionary = []
        else:
            repeats = (leaf.nested or name not in unique for leaf, name in stored)
            dictionary = _suiting(self._paths, [not d and r for d, r in zip(self._is_delta, repeats, strict=True)])
        statistics = _suiting(self._paths, [_bounded(leaf, name, nan_columns) for leaf, name in stored])
        has = set(statistics)
        known = {name for path, (leaf, name) in zip(self._paths, stored, strict=True) if path in has and not leaf.nested}
        return Layout(dictionary, self._delta, statistics, frozenset(one.name for one in self.bounded if one.name not in known))


def _stored_columns(schema: Schema, *, addresses: bool, kinds: bool) -> StoredColumns:
    """As `StoredColumns.of`. With kinds, all columns outside the key are nullable, since a delete may contain only its key."""
    fields = [field.with_nullable(field.nullable or (kinds and field.name not in schema.key)) for field in schema.columns]
    fields += [ROW_ADDRESS_FIELD] if addresses else []
    fields += [ROW_KIND_FIELD] if kinds else []
    return StoredColumns(pa.schema(fields), schema.key, stats_lengths(schema))


_FORMS = {
    (addresses, kinds): partial(_stored_columns, addresses=addresses, kinds=kinds)
    for addresses in (False, True)
    for kinds in (False, True)
}


def codec(rows: int, compression: str) -> str:
    """The codec of a file. `rows`: of its first row group; `compression`: the option `file.compression`."""
    if compression != AUTO:
        return compression
    return SNAPPY if rows < _TINY_ROWS else ZSTD


@lru_cache(maxsize=256)
def _layout(stored: StoredColumns, unique: frozenset[str] | None, nan_columns: frozenset[str]) -> Layout:
    """`StoredColumns.chosen`, made once: the small files of a write are alike."""
    return stored.chosen(unique, nan_columns)


def _suiting(paths: Sequence[str], suits: Sequence[bool]) -> list[str]:
    """The distinct paths of which every leaf has the flag `suits`."""
    bad = {path for path, good in zip(paths, suits, strict=True) if not good}
    return [path for path in dict.fromkeys(paths) if path not in bad]


def _bounded(leaf: Leaf, name: str, nan_columns: Collection[str]) -> bool:
    if name == ROW_ADDRESS:
        return False  # no reader filters by it
    return not pa.types.is_floating(leaf.type) if leaf.nested else name not in nan_columns


def _integer_kind(type_: pa.DataType) -> bool:
    return pa.types.is_integer(type_) or is_time(type_)


def _unique(first: pa.Table, names: Collection[str]) -> frozenset[str]:
    """The columns that a dictionary would not shrink, estimated from the first rows. Otherwise the Parquet writer would build a
    useless dictionary, take twice the time, and keep it in the file."""
    sample = first.slice(0, _SAMPLE_ROWS)
    few = _DISTINCT_SHARE * sample.num_rows
    return frozenset(name for name in names if len(pc.unique(sample[name]).drop_null()) > few)


def leaf_paths(schema: pa.Schema) -> tuple[str, ...]:
    """The dotted paths of the leaves, in the order of `kernels.nested`; not always unique."""
    sink = pa.BufferOutputStream()
    pq.write_table(schema.empty_table(), sink, store_schema=False)
    parquet = pq.ParquetFile(pa.BufferReader(sink.getvalue())).schema
    return tuple(parquet.column(i).path for i in range(len(parquet.names)))
