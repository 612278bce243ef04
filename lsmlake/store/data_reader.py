"""Reads a data file by row groups, with row positions.

A column is located by its field id and read by the positions of its leaves (`format.leaves`). The reader verifies the footer's
checksum before parsing it (`store.checksum`), limits the parser's memory, and compares the footer with the manifest entry before
it reads a column. Parquet verifies the checksums of pages.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from lsmlake.errors import Corrupt, LakeError
from lsmlake.format import leaves
from lsmlake.format.deletion_vector import DeletionVector
from lsmlake.format.files import DataFile
from lsmlake.schema import types
from lsmlake.schema.schema import ROW_KIND, ROW_KIND_FIELD, Schema
from lsmlake.store.checksum import RESTORE, read_footer
from lsmlake.store.env import Env

_DICTIONARY_BYTES = 4  # per row; with more, values hardly repeat or the Parquet writer abandoned the dictionary
_THRIFT_MAX = 100_000_000  # bytes of a text, or items of a list, in a footer or page header
_STREAM_STEPS = 8  # per row group


class Chunk(NamedTuple):
    """Some consecutive rows of a file: `table` holds rows [start, start + table.num_rows)."""

    start: int
    table: pa.Table


@contextmanager
def reading(path: str) -> Iterator[None]:
    """Turns other libraries' errors while reading a data file into Corrupt, naming the file."""
    try:
        yield
    except LakeError:
        raise
    except FileNotFoundError as missing:
        raise Corrupt(
            "data file is missing", where=path, cure="restore it from a copy, or roll back to a snapshot that does not use it"
        ) from missing
    except (pa.ArrowException, OSError, ValueError, ArithmeticError) as broken:  # the last two: values beyond Python's types
        raise Corrupt(
            "data file cannot be read", where=path, expected="a whole Parquet file", found=broken, cure=RESTORE
        ) from broken


class DataReader:
    """An open data file; a context manager that closes it.

    `columns` are names of columns of the schema, or `_row_kind`. Columns have their plain types, except text columns in `encoded`
    that Parquet stores as a small dictionary: these are returned dictionary-encoded, in half the time.
    """

    def __init__(self, env: Env, path: str, file: DataFile, schema: Schema, encoded: Collection[str] = ()) -> None:
        self.path, self.file, self.schema, self.limits = path, file, schema, env.limits
        with reading(path):
            self.source = env.storage.read(path)
            footer = read_footer(self.source, file, path)
            self.footer = pq.ParquetFile(pa.BufferReader(footer), **_limits(len(footer))).metadata
            self.starts = _group_starts(self.footer, file, path)
            self.columns = _stored_columns(self.footer.schema.to_arrow_schema(), path)
            self.encoded = self._dictionaries(encoded)
            self.parquet = pq.ParquetFile(
                self.source,
                metadata=self.footer,
                read_dictionary=[self._stored(name).leaves[0] for name in self.encoded],
                page_checksum_verification=True,
                pre_buffer=False,
                **_limits(file.bytes),
            )

    def __enter__(self) -> DataReader:
        return self

    def __exit__(self, *_: object) -> None:
        self.source.close()

    @property
    def has_row_kind(self) -> bool:
        return self._id(ROW_KIND) in self.columns

    @property
    def groups(self) -> int:
        return len(self.starts) - 1

    def group_bounds(self, column: str) -> tuple[pa.Array, pa.Array, pa.Array]:
        """(min, max, null count) of a top-level column in every row group; null = unknown."""
        type_ = self.schema.plain_columns.field(column).type
        if pa.types.is_nested(type_):
            return pa.nulls(self.groups, type_), pa.nulls(self.groups, type_), pa.nulls(self.groups, pa.int64())
        leaf = self._stored(column).leaves[0]
        with reading(self.path):
            found = [self.footer.row_group(i).column(leaf).statistics for i in range(self.groups)]
            known = [s is not None and s.has_min_max for s in found]
            low = pa.array([s.min if k else None for s, k in zip(found, known, strict=True)], type_)
            high = pa.array([s.max if k else None for s, k in zip(found, known, strict=True)], type_)
            return low, high, pa.array([None if s is None else s.null_count for s in found], pa.int64())

    def read(self, groups: Sequence[int], columns: Sequence[str]) -> pa.Table:
        """All rows of the row groups, concatenated."""
        with reading(self.path):
            found = self.parquet.reader.read_row_groups(list(groups), column_indices=self._leaves(columns), use_threads=True)
            table = self._plain(found, columns)
        self._check_rows(table.num_rows, sum(int(self.starts[group + 1] - self.starts[group]) for group in groups))
        return table

    def _check_rows(self, found: int, expected: int) -> None:
        if found != expected:
            raise Corrupt("data file lacks rows", where=self.path, expected=expected, found=found, cure=RESTORE)

    def _id(self, column: str) -> int:
        return types.field_id(ROW_KIND_FIELD if column == ROW_KIND else self.schema.columns.field(column))

    def _stored(self, column: str) -> _Stored:
        """The place of a column in the file. Raises Corrupt if the file lacks it."""
        if (found := self.columns.get(self._id(column))) is None:
            raise Corrupt(
                "data file lacks a column",
                where=self.path,
                expected=f"{column!r} with field id {self._id(column)}",
                found=f"the field ids {sorted(self.columns)}",
                cure=RESTORE,
            )
        return found

    def _leaves(self, columns: Sequence[str]) -> list[int]:
        """The leaf positions to read, in file order, since Arrow returns columns in the order requested."""
        return sorted({leaf for column in columns for leaf in self._stored(column).leaves})

    def _plain(self, found: pa.Table, columns: Sequence[str]) -> pa.Table:
        """Reorder, rename and cast `found`, the columns as Parquet read them in file order. Matched by position, since names in
        the file may differ from the schema's."""
        places = [self._stored(column).place for column in columns]
        order = {place: number for number, place in enumerate(sorted(set(places)))}
        taken = found.select([order[place] for place in places]).rename_columns(list(columns))
        return taken.cast(pa.schema(map(self._field, columns)))

    def _dictionaries(self, names: Collection[str]) -> list[str]:
        """The text columns among `names` that every row group stores as a small dictionary."""
        groups = [self.footer.row_group(i) for i in range(self.footer.num_row_groups)]
        texts = [name for name in names if pa.types.is_string(self.schema.row_columns.field(name).type)]
        return [n for n in texts if all(_by_dictionary(group.column(self._stored(n).leaves[0])) for group in groups)]

    def _field(self, column: str) -> pa.Field:
        if column == ROW_KIND:
            return ROW_KIND_FIELD.remove_metadata()
        field = self.schema.row_columns.field(column)
        return field.with_type(pa.dictionary(pa.int32(), field.type)) if column in self.encoded else field

    def stream(self, columns: Sequence[str]) -> Iterator[Chunk]:
        """Yield all rows in file order, a fraction of a row group at a time, so that many files can be read concurrently."""
        if self.file.bytes <= self.limits.stream_buffer_bytes:  # buffers for the columns would exceed the whole file
            yield from self.chunks(columns)
            return
        step, start = -(-int(np.diff(self.starts).max(initial=1)) // _STREAM_STEPS), 0
        with reading(self.path):
            parquet = pq.ParquetFile(
                self.source,
                metadata=self.footer,
                buffer_size=self.limits.stream_buffer_bytes,
                page_checksum_verification=True,
                pre_buffer=False,
                **_limits(self.file.bytes),
            )
            batches = parquet.reader.iter_batches(step, range(self.groups), self._leaves(columns), use_threads=True)
        while (table := self._next(batches, columns)) is not None:
            yield Chunk(start, table)
            start += table.num_rows
        self._check_rows(start, self.file.rows)

    def _next(self, batches: Iterator[pa.RecordBatch], columns: Sequence[str]) -> pa.Table | None:
        with reading(self.path):
            batch = next(batches, None)
            return None if batch is None else self._plain(pa.Table.from_batches([batch]), columns)

    def chunks(self, columns: Sequence[str], groups: Sequence[int] | None = None, rows: int = 1 << 16) -> Iterator[Chunk]:
        """Yield chunks of whole consecutive row groups, about `rows` rows each, in file order."""
        wanted, rows = list(range(self.groups) if groups is None else groups), min(rows, self.limits.chunk_rows)
        while wanted:
            run = [wanted[0]]
            for group in wanted[1:]:
                if group != run[-1] + 1 or self.starts[group + 1] - self.starts[run[0]] > rows:
                    break
                run.append(group)
            wanted = wanted[len(run) :]
            yield Chunk(int(self.starts[run[0]]), self.read(run, columns) if columns else _no_columns(self.starts, run))


class _Stored(NamedTuple):
    """A column in a file: its place among the columns, and the positions of its leaves."""

    place: int
    leaves: range


def _limits(bytes_: int) -> dict[str, int]:
    """Limits on the memory that Parquet's reader allocates: no text or list can be longer than the `bytes_` that contain it."""
    return dict.fromkeys(("thrift_string_size_limit", "thrift_container_size_limit"), min(bytes_, _THRIFT_MAX))


def _group_starts(footer: pq.FileMetaData, file: DataFile, path: str) -> np.ndarray:
    """The position of the first row of each row group, then the number of rows.

    Raises Corrupt unless the footer's row counts match the manifest entry and every row group has all columns of the file.
    """

    def require(holds: bool, what: str, expected: object, found: object) -> None:
        if not holds:
            raise Corrupt(what, where=path, expected=expected, found=found, cure=RESTORE)

    require(footer.num_rows == file.rows, "data file has another number of rows", file.rows, footer.num_rows)
    limit = f"at most {file.rows}"
    require(footer.num_row_groups <= file.rows, "data file has more row groups than rows", limit, footer.num_row_groups)
    groups = [footer.row_group(i) for i in range(footer.num_row_groups)]
    counts = [group.num_rows for group in groups]
    whole = min(counts, default=1) > 0 and sum(counts) == file.rows
    require(whole, "row groups of a data file have another number of rows", file.rows, sum(counts))
    columns = {group.num_columns for group in groups}
    same = columns <= {footer.num_columns}
    require(same, "row groups of a data file have another number of columns", footer.num_columns, sorted(columns))
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)


def _stored_columns(schema: pa.Schema, path: str) -> dict[int, _Stored]:
    """Field id -> column of the file. Raises Corrupt if two columns have the same id."""
    stored = enumerate(zip(schema, leaves.positions(schema), strict=True))
    placed = [(types.field_id(field), _Stored(place, own)) for place, (field, own) in stored if types.has_field_id(field)]
    if len(dict(placed)) != len(placed):
        found = sorted(number for number, _ in placed)
        raise Corrupt("data file has two columns with one field id", where=path, expected="unique ids", found=found, cure=RESTORE)
    return dict(placed)


def _by_dictionary(chunk: pq.ColumnChunkMetaData) -> bool:
    return chunk.has_dictionary_page and chunk.total_uncompressed_size < _DICTIONARY_BYTES * chunk.num_values


def _no_columns(starts: np.ndarray, run: Sequence[int]) -> pa.Table:
    """A table without columns that has the number of rows of the row groups."""
    return pa.table({"": pa.nulls(int(starts[run[-1] + 1] - starts[run[0]]))}).select([])


def live_rows(chunk: Chunk, vector: DeletionVector, wanted: np.ndarray | None = None) -> pa.Table:
    """The rows of the chunk that `vector` does not mark and, if given, that `wanted` selects."""
    if len(vector):
        dead = vector.dead_mask(chunk.start, chunk.table.num_rows)
        wanted = ~dead if wanted is None else wanted & ~dead
    return chunk.table if wanted is None or wanted.all() else chunk.table.filter(pa.array(wanted))
