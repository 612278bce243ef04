"""Writes a sorted run to Parquet files of a target size and collects their statistics.

Any Parquet reader can read the files: they hold the user's columns, in level-0 files that carry deletes `_row_kind`, and the
addresses of the rows if the option `file.row-addresses` says so.
The values of indexed columns are collected while a file is written, and become its index. `files.layout` chooses how Parquet
stores the columns.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lsmlake.files.checksum import SummingSink
from lsmlake.files.layout import Bounded, StoredColumns, codec
from lsmlake.files.parquet_facts import bounds_of
from lsmlake.format import file_index
from lsmlake.format.data_files import ColumnStats, DataFile, number_of
from lsmlake.format.file_index import BITMAP, NOTHING, RANGE_BITMAP, BloomFilter, FileIndex, ValueIndex, encoded
from lsmlake.format.paths import TablePaths
from lsmlake.kernels.bounds import bounds
from lsmlake.kernels.casting import cast
from lsmlake.kernels.value_hash import family, value_hash
from lsmlake.options.data_file_options import TRUE, ZSTD
from lsmlake.options.option_types import AUTO
from lsmlake.schema.rowkind import INSERT
from lsmlake.schema.schema import POSITION_BITS, ROW_ADDRESS_FIELD, ROW_KIND, Schema
from lsmlake.storage.env import Env, Limits
from lsmlake.storage.storage import delete_quietly, write_unnamed

Opened = Callable[[str], AbstractContextManager[pa.NativeFile]]
"""Opens a sink for a new file, as `write_unnamed`."""
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
    opened: Opened | None = None,
) -> tuple[DataFile, ...]:
    """Writes one sorted run into `directory`; returns the files in key order, those of an append-only table in row order.

    A file becomes visible only when complete; after an error, none is left. Holds one row group and one table in memory, and what
    `IndexWriter` holds.

    Args:
        tables: ascending by key, with the plain columns of the schema and, all or none of them, `_row_kind`. All rows of a key
            are in one table; they go into one file.
        nan_columns: float columns that may hold a NaN.
        prefix: of the names of the files.
        opened: opens the new files; None: each becomes visible when it is complete.
    """
    with RunWriter(env, paths, schema, directory, origin, nan_columns, prefix, opened) as run:
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
        opened: Opened | None = None,
    ) -> None:
        self.opened = opened or partial(write_unnamed, env.storage)
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
            if writer.bytes >= self.schema.parsed_options.files.target_bytes and self._key_ends(table):
                self._end_file()

    def _key_ends(self, following: pa.Table) -> bool:
        """Whether the file may end before these rows: no key has rows in two files."""
        key = self.schema.key
        return not (key and following.num_rows) or _row(following, key, 0) != self._writer.max_key

    def finish(self) -> tuple[DataFile, ...]:
        """The files, in the order of their rows."""
        if self._writer is not None:
            self._end_file()
        assert not self.schema.key or all(a.max_key < b.min_key for a, b in pairwise(self.files)), "run out of order"
        return tuple(self.files)

    def _begun(self, table: pa.Table) -> _FileWriter:
        """The writer of the next file, whose rows have the columns of `table`."""
        name = f"{self.prefix}-{self.env.ids()}.parquet"
        sink = self._stack.enter_context(self.opened(self.paths.new_data(self.directory, name)))
        sums = self._stack.enter_context(SummingSink(sink))
        self._writer = _FileWriter(
            self.directory,
            name,
            self.schema,
            sums,
            self.nan_columns,
            self.env.limits,
            kinds=ROW_KIND in table.column_names,
            data=self.prefix == DATA,
        )
        self._stack.push(self._writer.discard_on_error)
        return self._writer

    def _end_file(self) -> None:
        self._finish(self._writer)
        self._stack.pop_all().close()
        self._writer = None

    def _finish(self, writer: _FileWriter) -> None:
        """Adds the finished file to `files`, and writes its index file if it has one."""
        file, indexed_values = writer.finish(self.origin, self.env.clock()), writer.values.index()
        index = None if indexed_values == NOTHING else file_index.encode(indexed_values)
        if index is None or len(index) <= writer.schema.parsed_options.index.in_manifest_bytes:
            self.files.append(file._replace(index=index))
            return
        self.files.append(file._replace(index_bytes=len(index)))
        with self.opened(self.paths.index(file)) as sink:
            sink.write(index)


class _FileWriter:
    """One Parquet file being written. It is begun with the first row group: before, it is not known whether the file is small."""

    def __init__(
        self,
        directory: str,
        name: str,
        schema: Schema,
        sums: SummingSink,
        nan_columns: Collection[str],
        limits: Limits,
        *,
        kinds: bool,
        data: bool,
    ) -> None:
        """`data`: whether it is a data file, whose rows may have addresses and whose columns may be indexed."""
        self.directory, self.name, self.schema, self.sums = directory, name, schema, sums
        self.number: int | None = None
        self.nan_columns, self.limits, self.kinds, self.is_data = nan_columns, limits, kinds, data
        self.footer: list[pq.FileMetaData] = []
        self.buffered = pa.BufferedOutputStream(pa.PythonFile(sums, mode="w"), _SINK_BYTES)
        self.writer: pq.ParquetWriter | None = None
        self.stored: StoredColumns
        self.pending: list[pa.Table] = []
        self.group_rows = self.rows = self.delete_rows = self.waiting = 0
        self.nulls: dict[str, int] = {}  # counted here, because these columns have no Parquet statistics
        self.values = IndexWriter(schema, indexed=data)
        self.min_key: tuple = ()
        self.max_key: tuple = ()

    @property
    def bytes(self) -> int:
        return self.buffered.tell()

    def add(self, table: pa.Table) -> pa.Table:
        """Buffers rows and writes a row group when full; returns the rows not taken."""
        if not self.group_rows and self.waiting + table.num_rows > self.limits.row_group_rows:
            self.group_rows = self._rows_per_group(table)
        taken = table.slice(0, self.group_rows - self.waiting) if self.group_rows else table
        self.pending.append(taken)
        self.waiting += taken.num_rows
        if self.waiting == self.group_rows:
            self._flush()
        return table.slice(taken.num_rows)

    def _rows_per_group(self, sample: pa.Table) -> int:
        row_bytes = max(1, sample.nbytes // max(1, sample.num_rows))
        wanted = self.schema.parsed_options.files.row_group_bytes // row_bytes
        return int(min(_ROW_GROUP_ROWS_MAX, max(self.limits.row_group_rows, wanted)))

    def _flush(self) -> None:
        if not self.pending:
            return
        table = pa.concat_tables(self.pending) if len(self.pending) > 1 else self.pending[0]
        self.pending, self.waiting = [], 0
        if self.writer is None:
            self._begin(table)
        self.max_key = _row(table, self.schema.key, table.num_rows - 1)
        if self.number is not None:
            table = self._addressed(table)
        self.rows += table.num_rows
        for name in self.nulls:
            self.nulls[name] += table[name].null_count
        if self.kinds:
            self.delete_rows += pc.sum(pc.not_equal(table[ROW_KIND], INSERT)).as_py()
        table = cast(table, self.stored.columns)
        self.values.add(table)
        self.writer.write_table(table, row_group_size=table.num_rows)

    def _addressed(self, rows: pa.Table) -> pa.Table:
        """The next rows of the file, with their addresses behind the columns of the schema."""
        start = (self.number << POSITION_BITS) + self.rows
        addresses = pa.array(np.arange(start, start + rows.num_rows))
        return rows.add_column(len(self.schema.columns), ROW_ADDRESS_FIELD, addresses)

    def _begin(self, first: pa.Table) -> None:
        """Begins the file, whose first row group is `first`."""
        options = self.schema.parsed_options.files
        rows_min = {TRUE: 0, AUTO: self.limits.addressed_rows}.get(options.row_addresses)
        if self.is_data and rows_min is not None and first.num_rows >= rows_min:
            self.number = number_of(self.name)
        self.stored = StoredColumns.of(self.schema, addresses=self.number is not None, kinds=self.kinds)
        compression = codec(first.num_rows, options.compression)
        chosen = self.stored.layout(first, self.nan_columns, options.compression)
        self.nulls = dict.fromkeys(chosen.unbounded, 0)
        self.min_key = _row(first, self.schema.key, 0)
        self.writer = pq.ParquetWriter(
            self.buffered,
            self.stored.columns,
            compression=compression,
            compression_level=options.zstd_level if compression == ZSTD else None,
            use_dictionary=chosen.dictionary,
            column_encoding=dict.fromkeys(chosen.delta, "DELTA_BINARY_PACKED") or None,
            sorting_columns=self.stored.sorting,
            write_statistics=chosen.statistics,
            data_page_size=_PAGE_BYTES,
            write_page_index=True,
            write_page_checksum=True,
            store_decimal_as_integer=True,  # Spark decodes fixed-length bytes through BigInteger, which is slow
            store_schema=False,
            metadata_collector=self.footer,
        )

    def discard_on_error(self, error: type | None, *_: object) -> None:
        """Exit callback: after an error, keeps the Parquet writer from finishing the file when it is garbage-collected."""
        if error is not None and self.writer is not None:
            self.writer.is_open = False

    def finish(self, origin: Origin, now_ms: int) -> DataFile:
        self._flush()
        self.buffered.flush()
        self.sums.keep_ending()
        self.writer.close()
        self.buffered.flush()
        stats = _file_stats(self.footer[0], self.stored.bounded, self.nulls)
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
            number=self.number if self.rows <= 1 << POSITION_BITS else None,
        )


def _row(rows: pa.Table, key: Sequence[str], row: int) -> tuple:
    return tuple([rows[name][row].as_py() for name in key])


def nan_columns(table: pa.Table) -> list[str]:
    """The float columns that hold a NaN."""
    return [field.name for field, column in zip(table.schema, table.columns, strict=True) if _has_nan(field.type, column)]


def _has_nan(type_: pa.DataType, column: pa.ChunkedArray) -> bool:
    """NumPy begins sooner than Arrow, but takes a null for NaN."""
    if not pa.types.is_floating(type_):
        return False
    if column.null_count:
        return bool(pc.any(pc.is_nan(column)).as_py())
    return any(np.isnan(chunk.to_numpy()).any() for chunk in column.chunks)


def float_columns(schema: Schema) -> frozenset[str]:
    return schema.derived(_float_columns)


def _float_columns(schema: Schema) -> frozenset[str]:
    return frozenset(field.name for field in schema.columns if pa.types.is_floating(field.type))


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


def _file_stats(footer: pq.FileMetaData, columns: Sequence[Bounded], unbounded: Mapping[str, int]) -> dict[int, ColumnStats]:
    """Combines the statistics of the row groups. `unbounded` columns have only their null count."""
    groups = [footer.row_group(i) for i in range(footer.num_row_groups)]
    result = {}
    for name, number, leaf, length in columns:
        if name in unbounded:
            result[number] = ColumnStats(unbounded[name], None, None)
            continue
        statistics = [group.column(leaf).statistics for group in groups]
        low, high = bounds(*bounds_of(statistics), length) if length else (None, None)
        result[number] = ColumnStats(sum([one.null_count for one in statistics]), low, high)
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
        if not self.kinds and not self.hashes:
            return NOTHING
        ids, rate = self.schema.field_ids(), self.schema.parsed_options.index.bloom_rate
        types = {name: family(self.schema.columns.field(name).type) for name in self.hashes.keys() | self.encoded.keys()}
        filters = {
            ids[name]: BloomFilter.of(types[name], groups[0] if len(groups) == 1 else np.unique(np.concatenate(groups)), rate)
            for name, groups in self.hashes.items()
        }
        return FileIndex(
            filters, {ids[name]: ValueIndex.of(self.kinds[name], types[name], parts) for name, parts in self.encoded.items()}
        )
