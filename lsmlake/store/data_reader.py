"""A data file in: by row group, with positions, dead rows masked.

Its footer is trusted only as far as its checksum goes (`store.checksum`); of pages Parquet itself checks the sums.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from lsmlake.errors import Corrupt, LakeError
from lsmlake.format.deletion_vector import DeletionVector
from lsmlake.format.files import DataFile
from lsmlake.format.schema import ROW_KIND, ROW_KIND_FIELD, Schema
from lsmlake.store.checksum import RESTORE, read_footer
from lsmlake.store.env import Env

_DICTIONARY_BYTES = 4  # a row: above it there are nearly as many values as rows, or the dictionary was given up
_STREAM_STEPS = 8  # in a row group
_STREAM_BUFFER_BYTES = 1 << 20  # of a column


class Chunk(NamedTuple):
    """Some consecutive rows of a file: `table` holds rows [start, start + table.num_rows)."""

    start: int
    table: pa.Table


@contextmanager
def reading(path: str) -> Iterator[None]:
    """Foreign errors while a data file is read become Corrupt, naming it."""
    try:
        yield
    except LakeError:
        raise
    except FileNotFoundError as gone:
        raise Corrupt(
            "data file is missing", where=path, cure="restore it from a copy, or roll back to a snapshot that does not use it"
        ) from gone
    except (pa.ArrowException, OSError) as broken:
        raise Corrupt(
            "data file cannot be read", where=path, expected="a whole Parquet file", found=broken, cure=RESTORE
        ) from broken


class DataReader:
    """An open data file. `columns` asked for must be top-level names; types come out plain, but for `encoded`: where Parquet
    holds these as a dictionary worth the name, they come out as one, in half the time. Close it, or use `with`."""

    def __init__(self, env: Env, path: str, file: DataFile, schema: Schema, encoded: Collection[str] = ()) -> None:
        self.path, self.file, self.schema = path, file, schema
        with reading(path):
            self.source = env.storage.read(path)
            footer = pa.BufferReader(read_footer(self.source, file, path))
            self.footer = pq.read_metadata(footer)
            self.encoded = _dictionaries(self.footer, schema, encoded)
            self.parquet = pq.ParquetFile(
                self.source,
                metadata=self.footer,
                read_dictionary=self.encoded,
                page_checksum_verification=True,
                pre_buffer=False,
            )
        if self.footer.num_rows != file.rows:
            raise Corrupt(
                "data file has another number of rows", where=path, expected=file.rows, found=self.footer.num_rows, cure=RESTORE
            )
        counts = [self.footer.row_group(i).num_rows for i in range(self.footer.num_row_groups)]
        self.starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)

    def __enter__(self) -> DataReader:
        return self

    def __exit__(self, *_: object) -> None:
        self.source.close()

    @property
    def has_row_kind(self) -> bool:
        return ROW_KIND in self.parquet.schema_arrow.names

    @property
    def groups(self) -> int:
        return len(self.starts) - 1

    def group_bounds(self, column: str) -> tuple[pa.Array, pa.Array, pa.Array]:
        """(min, max, null count) of a top-level column in every row group; null = unknown."""
        index = {self.footer.schema.column(i).path: i for i in range(self.footer.num_columns)}.get(column)
        type_ = self.schema.plain_columns.field(column).type
        found = [None if index is None else self.footer.row_group(i).column(index).statistics for i in range(self.groups)]
        known = [s is not None and s.has_min_max for s in found]
        low = pa.array([s.min if k else None for s, k in zip(found, known, strict=True)], type_)
        high = pa.array([s.max if k else None for s, k in zip(found, known, strict=True)], type_)
        return low, high, pa.array([None if s is None else s.null_count for s in found], pa.int64())

    def read(self, groups: Sequence[int], columns: Sequence[str]) -> pa.Table:
        """The row groups one after the other, all rows, `_row_kind` only if asked for."""
        with reading(self.path):
            table = self.parquet.read_row_groups(list(groups), columns=list(columns), use_threads=True)
        self._check_rows(table.num_rows, sum(int(self.starts[group + 1] - self.starts[group]) for group in groups))
        return self._plain(table, columns)

    def _check_rows(self, found: int, expected: int) -> None:
        if found != expected:
            raise Corrupt("data file lacks rows", where=self.path, expected=expected, found=found, cure=RESTORE)

    def _plain(self, table: pa.Table, columns: Sequence[str]) -> pa.Table:
        there = set(table.column_names)
        if missing := [name for name in columns if name not in there]:
            raise Corrupt(
                "data file lacks columns", where=self.path, expected=missing, found=self.parquet.schema_arrow.names, cure=RESTORE
            )
        return table.select(list(columns)).cast(pa.schema(map(self._field, columns)))

    def _field(self, column: str) -> pa.Field:
        if column == ROW_KIND:
            return ROW_KIND_FIELD.remove_metadata()
        field = self.schema.row_columns.field(column)
        return field.with_type(pa.dictionary(pa.int32(), field.type)) if column in self.encoded else field

    def stream(self, columns: Sequence[str]) -> Iterator[Chunk]:
        """All rows in file order, a fraction of a row group at a time, so that many files can be read side by side."""
        if self.file.bytes <= _STREAM_BUFFER_BYTES:  # a buffer for every column is more than all of it
            yield from self.chunks(columns)
            return
        step, start = -(-int(np.diff(self.starts).max(initial=1)) // _STREAM_STEPS), 0
        with reading(self.path):
            parquet = pq.ParquetFile(
                self.source,
                metadata=self.footer,
                buffer_size=_STREAM_BUFFER_BYTES,
                page_checksum_verification=True,
                pre_buffer=False,
            )
            batches = parquet.iter_batches(step, columns=list(columns), use_threads=True)
        while (batch := self._next(batches)) is not None:
            yield Chunk(start, self._plain(pa.Table.from_batches([batch]), columns))
            start += batch.num_rows
        self._check_rows(start, self.file.rows)

    def _next(self, batches: Iterator[pa.RecordBatch]) -> pa.RecordBatch | None:
        with reading(self.path):
            return next(batches, None)

    def chunks(self, columns: Sequence[str], groups: Sequence[int] | None = None, rows: int = 1 << 16) -> Iterator[Chunk]:
        """Chunks of whole consecutive row groups, about `rows` rows each, in file order."""
        wanted = list(range(self.groups) if groups is None else groups)
        while wanted:
            run = [wanted[0]]
            for group in wanted[1:]:
                if group != run[-1] + 1 or self.starts[group + 1] - self.starts[run[0]] > rows:
                    break
                run.append(group)
            wanted = wanted[len(run) :]
            yield Chunk(int(self.starts[run[0]]), self.read(run, columns) if columns else _no_columns(self.starts, run))


def _dictionaries(footer: pq.FileMetaData, schema: Schema, names: Collection[str]) -> list[str]:
    """Those of the text columns `names` that every row group holds by dictionary, in a few bytes a row."""
    index = {footer.schema.column(i).path: i for i in range(footer.num_columns)}
    groups = [footer.row_group(i) for i in range(footer.num_row_groups)]
    texts = [name for name in names if pa.types.is_string(schema.row_columns.field(name).type) and name in index]
    return [name for name in texts if all(_by_dictionary(group.column(index[name])) for group in groups)]


def _by_dictionary(chunk: pq.ColumnChunkMetaData) -> bool:
    return chunk.has_dictionary_page and chunk.total_uncompressed_size < _DICTIONARY_BYTES * chunk.num_values


def _no_columns(starts: np.ndarray, run: Sequence[int]) -> pa.Table:
    """Rows without columns still count."""
    return pa.table({"": pa.nulls(int(starts[run[-1] + 1] - starts[run[0]]))}).select([])


def living(chunk: Chunk, vector: DeletionVector, wanted: np.ndarray | None = None) -> pa.Table:
    """The rows of the chunk that `vector` does not mark; `wanted`: a bool for each, only those."""
    if len(vector):
        dead = vector.dead_mask(chunk.start, chunk.table.num_rows)
        wanted = ~dead if wanted is None else wanted & ~dead
    return chunk.table if wanted is None or wanted.all() else chunk.table.filter(pa.array(wanted))
