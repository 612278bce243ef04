"""Writes a sorted run to Parquet files of a target size and collects their statistics.

Any Parquet reader can read the files: they hold the user's columns and, in level-0 files that carry deletes, `_row_kind`.
The values of indexed columns are collected while a file is written, and become its index.

This module also chooses how Parquet stores the leaves of a file: dictionary, delta encoding, statistics. PyArrow takes these
options by dotted path, and two leaves can share a path: `a.b` is a column of that name, or field b of the struct a. An option is
set for a path only if it suits every leaf with that path.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lsmlake.files.checksum import SummingSink
from lsmlake.files.parquet_facts import bounds_of
from lsmlake.format import file_index
from lsmlake.format.data_files import ColumnStats, DataFile
from lsmlake.format.file_index import BITMAP, NOTHING, RANGE_BITMAP, BloomFilter, FileIndex, ValueIndex, encoded
from lsmlake.format.manifest import has_order
from lsmlake.format.paths import TablePaths
from lsmlake.kernels.bounds import bounds
from lsmlake.kernels.nested import Leaf, leaf_positions, leaves
from lsmlake.kernels.value_hash import family, value_hash
from lsmlake.schema.rowkind import INSERT
from lsmlake.schema.schema import ROW_KIND, ROW_KIND_FIELD, Schema
from lsmlake.storage.env import Env
from lsmlake.storage.storage import delete_quietly, write_unnamed
from lsmlake.types.type_table import is_time

DATA, CHANGELOG, RETAINED = "data", "changelog", "deletes"
"""Prefixes of file names."""

_ROW_GROUP_ROWS_MAX = 1 << 20  # a key column chunk of this many rows is still cheap to read alone
_PAGE_BYTES = 1 << 16  # a point lookup decodes a page of each column; smaller ones make scans slower
_SINK_BYTES = 1 << 20  # Parquet writes small pieces, and each unbuffered one would call Python and wait for the GIL


@dataclass(frozen=True)
class Origin:
    """Properties common to the files of one run. `sequence`/`min_sequence` None: inherited from the commit that adds them."""

    level: int
    source: str
    sequence: int | None = None
    min_sequence: int | None = None


def write_run(
    env: Env,
    paths: TablePaths,
    schema: Schema,
    directory: str,
    tables: Iterable[pa.Table],
    origin: Origin,
    nan_columns: Collection[str] = (),
    prefix: str = DATA,
) -> tuple[DataFile, ...]:
    """Writes one sorted run into `directory`; returns the files in key order, those of an append-only table in row order.

    A file becomes visible only when complete; after an error, none is left. Holds one row group and one table in memory, and what
    `IndexWriter` holds.

    Args:
        tables: ascending by key, with the plain columns of the schema and, all or none of them, `_row_kind`. All rows of a key
            are in one table; they go into one file.
        nan_columns: float columns that may hold a NaN.
    """
    with RunWriter(env, paths, schema, directory, origin, nan_columns, prefix) as run:
        for table in tables:
            run.add(table)
        return run.finish()


class RunWriter:
    """A sorted run being written, table by table; see `write_run`. A context manager: after an error, no file is left."""

    def __init__(
        self,
        env: Env,
        paths: TablePaths,
        schema: Schema,
        directory: str,
        origin: Origin,
        nan_columns: Collection[str] = (),
        prefix: str = DATA,
    ) -> None:
        self.env, self.paths, self.schema, self.directory = env, paths, schema, directory
        self.origin, self.nan_columns, self.prefix = origin, nan_columns, prefix
        self.files: list[DataFile] = []
        self._stack = ExitStack()  # of the file being written
        self._writer: _FileWriter | None = None

    def __enter__(self) -> RunWriter:
        return self

    def __exit__(self, error: type | None, value: BaseException | None, trace: object) -> None:
        try:
            self._stack.__exit__(error, value, trace)
        finally:
            if error is not None:
                delete_quietly(self.env.storage, [path for file in self.files for path in self.paths.with_index(file)])

    def add(self, table: pa.Table) -> None:
        """Writes the next rows. They stay in memory until a row group is full."""
        while table.num_rows:
            writer = self._writer or self._begun(table)
            table = writer.add(table)
            key = self.schema.key
            key_ends = not (key and table.num_rows) or _row(table.select(key), 0) != writer.max_key
            if writer.bytes >= self.schema.parsed_options.files.target_bytes and key_ends:
                self._end_file()

    def finish(self) -> tuple[DataFile, ...]:
        """The files, in the order of their rows."""
        if self._writer is not None:
            self._end_file()
        assert not self.schema.key or all(a.max_key < b.min_key for a, b in pairwise(self.files)), "run out of order"
        return tuple(self.files)

    def _begun(self, table: pa.Table) -> _FileWriter:
        """The writer of the next file, whose first rows are `table`."""
        name = f"{self.prefix}-{self.env.ids()}.parquet"
        sink = self._stack.enter_context(write_unnamed(self.env.storage, self.paths.new_data(self.directory, name)))
        sums = self._stack.enter_context(SummingSink(sink))
        least, indexed = self.env.limits.row_group_rows, self.prefix == DATA
        self._writer = _FileWriter(self.directory, name, self.schema, sums, table, self.nan_columns, least, indexed=indexed)
        self._stack.push(self._writer.discard_on_error)
        return self._writer

    def _end_file(self) -> None:
        _finish(self.env, self.paths, self._writer, self.origin, self.files)
        self._stack.pop_all().close()
        self._writer = None


def _finish(env: Env, paths: TablePaths, writer: _FileWriter, origin: Origin, files: list[DataFile]) -> None:
    """Adds the finished file to `files`, and writes its index file if it has one."""
    file, indexed_values = writer.finish(origin, env.clock()), writer.values.index()
    index = None if indexed_values == NOTHING else file_index.encode(indexed_values)
    if index is None or len(index) <= writer.schema.parsed_options.index.in_manifest_bytes:
        files.append(file._replace(index=index))
        return
    files.append(file._replace(index_bytes=len(index)))
    with write_unnamed(env.storage, paths.index(file)) as sink:
        sink.write(index)


def _row_group_rows(sample: pa.Table, schema: Schema, least: int) -> int:
    row_bytes = max(1, sample.nbytes // max(1, sample.num_rows))
    return int(min(_ROW_GROUP_ROWS_MAX, max(least, schema.parsed_options.files.row_group_bytes // row_bytes)))


class _FileWriter:
    """One Parquet file being written."""

    def __init__(
        self,
        directory: str,
        name: str,
        schema: Schema,
        sums: SummingSink,
        first: pa.Table,
        nan_columns: Collection[str],
        group_rows_min: int,
        *,
        indexed: bool,
    ) -> None:
        self.directory, self.name, self.schema, self.sums = directory, name, schema, sums
        self.group_rows = _row_group_rows(first, schema, group_rows_min)
        self.arrow = _with_kinds(schema) if ROW_KIND in first.column_names else schema.columns
        self.footer: list[pq.FileMetaData] = []
        options = schema.parsed_options
        places = leaf_positions(self.arrow)
        chosen = layout(self.arrow, schema.key, first, nan_columns)
        self.buffered = pa.BufferedOutputStream(pa.PythonFile(sums, mode="w"), _SINK_BYTES)
        self.writer = pq.ParquetWriter(
            self.buffered,
            self.arrow,
            compression=options.files.compression,
            compression_level=options.files.zstd_level if options.files.compression == "zstd" else None,
            use_dictionary=chosen.dictionary,
            column_encoding=dict.fromkeys(chosen.delta, "DELTA_BINARY_PACKED") or None,
            sorting_columns=[pq.SortingColumn(places[self.arrow.get_field_index(name)].start) for name in schema.key] or None,
            write_statistics=chosen.statistics,
            data_page_size=_PAGE_BYTES,
            write_page_index=True,
            write_page_checksum=True,
            store_decimal_as_integer=True,  # Spark decodes fixed-length bytes through BigInteger, which is slow
            store_schema=False,
            metadata_collector=self.footer,
        )
        self.pending: list[pa.Table] = []
        self.rows = self.delete_rows = self.waiting = 0
        self.nulls = dict.fromkeys(chosen.unbounded, 0)  # counted here, because these columns have no Parquet statistics
        self.values = IndexWriter(schema, indexed=indexed)
        self.min_key: tuple | None = None
        self.max_key: tuple = ()

    @property
    def bytes(self) -> int:
        return self.buffered.tell()

    def add(self, table: pa.Table) -> pa.Table:
        """Buffers rows and writes a row group when full; returns the rows not taken."""
        taken = table.slice(0, self.group_rows - self.waiting)
        self.pending.append(taken)
        self.waiting += taken.num_rows
        if self.waiting == self.group_rows:
            self._flush()
        return table.slice(taken.num_rows)

    def _flush(self) -> None:
        if not self.pending:
            return
        table = pa.concat_tables(self.pending)
        self.pending, self.waiting = [], 0
        key = table.select(self.schema.key)
        self.min_key = self.min_key if self.min_key is not None else _row(key, 0)
        self.max_key = _row(key, key.num_rows - 1)
        self.rows += table.num_rows
        for name in self.nulls:
            self.nulls[name] += table[name].null_count
        if ROW_KIND in table.column_names:
            self.delete_rows += pc.sum(pc.not_equal(table[ROW_KIND], INSERT)).as_py()
        table = table.cast(self.arrow)
        self.values.add(table)
        self.writer.write_table(table, row_group_size=self.group_rows)

    def discard_on_error(self, error: type | None, *_: object) -> None:
        """Exit callback: after an error, keeps the Parquet writer from finishing the file when it is garbage-collected."""
        if error is not None:
            self.writer.is_open = False

    def finish(self, origin: Origin, now_ms: int) -> DataFile:
        self._flush()
        self.buffered.flush()
        self.sums.keep_ending()
        self.writer.close()
        self.buffered.flush()
        stats = _file_stats(self.footer[0], self.schema, self.nulls)
        return DataFile(
            self.name,
            self.directory,
            self.sums.sink.tell(),
            self.rows,
            self.delete_rows,
            self.min_key,
            self.max_key,
            origin.level,
            self.schema.id,
            origin.source,
            now_ms,
            origin.sequence,
            origin.min_sequence,
            stats,
            *self.sums.sums(),
        )


def _with_kinds(schema: Schema) -> pa.Schema:
    """The file schema with `_row_kind`. A delete may contain only its key, so all other columns are nullable."""
    return pa.schema([*(f if f.name in schema.key else f.with_nullable(True) for f in schema.columns), ROW_KIND_FIELD])


def _row(key: pa.Table, row: int) -> tuple:
    return tuple(column[row].as_py() for column in key.columns)


def nan_columns(table: pa.Table) -> list[str]:
    """The float columns that hold a NaN."""
    return [
        f.name
        for f, c in zip(table.schema, table.columns, strict=True)
        if pa.types.is_floating(f.type) and pc.any(pc.is_nan(c)).as_py()
    ]


def float_columns(schema: Schema) -> set[str]:
    return {field.name for field in schema.columns if pa.types.is_floating(field.type)}


def nan_columns_of(files: Iterable[DataFile], schema: Schema) -> set[str]:
    """The float columns that may hold a NaN: those with values but without bounds in the statistics of a file."""
    files, ids = list(files), schema.field_ids()
    unknown = ColumnStats(0, None, None)
    return {
        name
        for name in float_columns(schema)
        for file in files
        if (stats := file.stats.get(ids[name], unknown)).min is None and stats.nulls < file.rows
    }


def _file_stats(footer: pq.FileMetaData, schema: Schema, unbounded: Mapping[str, int]) -> dict[int, ColumnStats]:
    """Combines the statistics of the row groups. Nested columns have none; `unbounded` columns have only their null count."""
    groups = [footer.row_group(i) for i in range(footer.num_row_groups)]
    result = {}
    for field, number, own in zip(schema.columns, schema.field_ids().values(), leaf_positions(schema.columns), strict=True):
        if not has_order(field.type):
            continue
        if field.name in unbounded:
            result[number] = ColumnStats(unbounded[field.name], None, None)
            continue
        statistics = [group.column(own.start).statistics for group in groups]
        low, high = bounds_of(statistics)
        nulls = sum(one.null_count for one in statistics)
        result[number] = ColumnStats(nulls, *bounds(low, high, schema.parsed_options.files.stats_bytes))
    return result


class IndexWriter:
    """Collects the index of a file. Memory: 8 bytes for each distinct value of a column with a Bloom filter; for a column with a
    value index, each distinct value of a row group, and 4 bytes for each row."""

    def __init__(self, schema: Schema, *, indexed: bool) -> None:
        """`indexed`: False for files without an index, regardless of the options."""
        self.schema, options = schema, schema.parsed_options.index
        self.hashes: dict[str, list[np.ndarray]] = {name: [] for name in options.bloom_columns if indexed}
        kinds = ((BITMAP, options.bitmap_columns), (RANGE_BITMAP, options.range_bitmap_columns))
        self.kinds = {name: kind for kind, names in kinds for name in names if indexed}
        self.encoded: dict[str, list[pa.ChunkedArray]] = {name: [] for name in self.kinds}

    def add(self, rows: pa.Table) -> None:
        """Takes the next rows of the file."""
        for name, hashes in self.hashes.items():
            hashes.append(np.unique(value_hash(rows[name])))
        for name, parts in self.encoded.items():
            parts.append(encoded(rows[name]))

    def index(self) -> FileIndex:
        """The index of all rows; it has no columns if no column is indexed."""
        ids, rate = self.schema.field_ids(), self.schema.parsed_options.index.bloom_rate
        types = {name: family(self.schema.columns.field(name).type) for name in self.hashes.keys() | self.encoded.keys()}
        filters = {
            ids[name]: BloomFilter.of(types[name], groups[0] if len(groups) == 1 else np.unique(np.concatenate(groups)), rate)
            for name, groups in self.hashes.items()
        }
        return FileIndex(
            filters, {ids[name]: ValueIndex.of(self.kinds[name], types[name], parts) for name, parts in self.encoded.items()}
        )


# -- how Parquet stores the leaves ------------------------------------------------------------------------------------

_SAMPLE_ROWS = 1 << 12
_DISTINCT_SHARE = 0.985  # in the sample; implies about 140,000 values in all, which exceed Parquet's dictionary limit


class Layout(NamedTuple):
    """The dotted paths for each option. `unbounded`: columns with an order that get no statistics in the file."""

    dictionary: list[str]
    delta: list[str]
    statistics: list[str]
    unbounded: frozenset[str]


def layout(schema: pa.Schema, key: Collection[str], first: pa.Table, nan_columns: Collection[str]) -> Layout:
    """Chooses the layout of a file of `schema`. `first`: its first rows; `nan_columns`: float columns that may hold a NaN.

    Parquet writers omit NaN from the bounds, so a reader that orders NaN last, as Spark does, would skip row groups that match.
    Therefore a column with a NaN gets no statistics, and neither does a float inside a struct, list or map.
    """
    paths, stored = leaf_paths(schema), leaves(schema)
    names = [schema.names[leaf.column] for leaf in stored]
    delta = [not leaf.nested and name in key and _integer_kind(leaf.type) for leaf, name in zip(stored, names, strict=True)]
    unique = _unique(first, [name for d, leaf, name in zip(delta, stored, names, strict=True) if not (d or leaf.nested)])
    repeats = [not d and (leaf.nested or name not in unique) for d, leaf, name in zip(delta, stored, names, strict=True)]
    bounded = [_bounded(leaf, name, nan_columns) for leaf, name in zip(stored, names, strict=True)]
    statistics = _suiting(paths, bounded)
    known = {name for path, leaf, name in zip(paths, stored, names, strict=True) if path in statistics and not leaf.nested}
    ordered = {field.name for field in schema if has_order(field.type)}
    return Layout(_suiting(paths, repeats), _suiting(paths, delta), statistics, frozenset(ordered - known))


def _suiting(paths: Sequence[str], suits: Sequence[bool]) -> list[str]:
    """The distinct paths of which every leaf has the flag `suits`."""
    bad = {path for path, good in zip(paths, suits, strict=True) if not good}
    return [path for path in dict.fromkeys(paths) if path not in bad]


def _bounded(leaf: Leaf, name: str, nan_columns: Collection[str]) -> bool:
    return not pa.types.is_floating(leaf.type) if leaf.nested else name not in nan_columns


def _integer_kind(type_: pa.DataType) -> bool:
    return pa.types.is_integer(type_) or is_time(type_)


def _unique(first: pa.Table, names: Collection[str]) -> set[str]:
    """The columns that a dictionary would not shrink, estimated from the first rows. Otherwise the Parquet writer would build a
    useless dictionary, take twice the time, and keep it in the file."""
    sample = first.slice(0, _SAMPLE_ROWS)
    return {name for name in names if len(pc.unique(sample[name]).drop_null()) > _DISTINCT_SHARE * sample.num_rows}


@lru_cache(maxsize=64)
def _leaf_paths(serialized: bytes) -> tuple[str, ...]:
    schema = pa.ipc.read_schema(pa.py_buffer(serialized))
    sink = pa.BufferOutputStream()
    pq.write_table(schema.empty_table(), sink, store_schema=False)
    parquet = pq.ParquetFile(pa.BufferReader(sink.getvalue())).schema
    return tuple(parquet.column(i).path for i in range(len(parquet.names)))


def leaf_paths(schema: pa.Schema) -> tuple[str, ...]:
    """The dotted paths of the leaves, in the order of `kernels.nested`; not always unique."""
    return _leaf_paths(schema.serialize().to_pybytes())
