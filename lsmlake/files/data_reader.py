"""Reads a data file by row groups, with row positions.

A column is located by its field id, in a file without ids by its name (`schema.adapt`), and read by the positions of its leaves
(`kernels.nested`). A file that was written under an older schema may lack the column or store a narrower type; `schema.adapt`
makes the values. The reader verifies the footer's checksum before parsing it (`files.checksum`), limits the parser's memory, and
compares the footer with the manifest entry before it reads a column. Parquet verifies the checksums of pages.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import accumulate, groupby
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lsmlake.errors import Corrupt, LakeError
from lsmlake.files.checksum import RESTORE, TAIL_BYTES, read_footer
from lsmlake.format.data_files import DataFile
from lsmlake.format.deletion_vector import DeletionVector
from lsmlake.kernels.nested import leaf_positions
from lsmlake.schema.adapt import adapted, constant, is_evolved
from lsmlake.schema.rowkind import STORED
from lsmlake.schema.schema import ROW_ADDRESS, ROW_ADDRESS_FIELD, ROW_KIND, ROW_KIND_FIELD, Schema
from lsmlake.storage.env import Env
from lsmlake.storage.ranges import ByteRange, RangedFile
from lsmlake.types import column_types
from lsmlake.types.type_table import is_time, of_integers

_DICTIONARY_BYTES = 4  # per row; with more, values hardly repeat or the Parquet writer abandoned the dictionary
_THRIFT_MAX = 100_000_000  # bytes of a text, or items of a list, in a footer or page header
_AHEAD_BYTES = 1 << 24  # of a file in an object store, fetched while as much is decoded
_STREAM_STEPS = 8  # per row group
_SYSTEM = {ROW_KIND: ROW_KIND_FIELD, ROW_ADDRESS: ROW_ADDRESS_FIELD}
_KNOWN_MAX = 16  # kinds of files whose columns a schema keeps
ALONE_BYTES = 1 << 16
"""One thread decodes so many bytes of rows: to start others would take half of the time."""


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
        raise _broken(path, broken) from broken


def _broken(path: str, error: Exception) -> Corrupt:
    return Corrupt("data file cannot be read", where=path, expected="a whole Parquet file", found=error, cure=RESTORE)


class DataReader:
    """An open data file; a context manager that closes it.

    `columns` are names of columns of the schema, `_row_kind` or `_lsmlake_row_address`. Columns have their plain types, except
    text columns in `encoded` that Parquet stores as a small dictionary: these are returned dictionary-encoded, in half the time.

    `identified` gives the columns of a file their field ids, which files of other writers may lack. `unfit` makes the error for a
    stored value that its column cannot hold; None: the file is damaged, as no writer of lsmlake writes such a value. `where` is
    the name of the file in messages, by default its path.
    """

    def __init__(
        self,
        env: Env,
        path: str,
        file: DataFile,
        schema: Schema,
        encoded: Collection[str] = (),
        identified: Callable[[pa.Schema], pa.Schema] = lambda stored: stored,
        unfit: Callable[[Exception], LakeError] | None = None,
        where: str = "",
    ) -> None:
        self.path, self.file, self.schema, self.limits = path, file, schema, env.limits
        self.where = where or path
        self.unfit = unfit or partial(_broken, self.where)
        with reading(self.where):
            self.source = env.storage.read_from_end(path, file.bytes, file.footer_bytes or TAIL_BYTES)
            self.footer_bytes = footer = read_footer(self.source, file, self.where)
            in_memory = isinstance(self.source, pa.BufferReader)  # its footer is the verified one
            parsed = self._parsed() if in_memory else pq.ParquetFile(pa.BufferReader(footer), **_limits(len(footer)))
            self.footer = parsed.metadata
            self.starts = _group_starts(self.footer, file, self.where)
            self.file_columns = FileColumns.of(self.footer, schema, file.schema_id, identified, self.where)
            self.columns = self.file_columns.by_id
            self.encoded = self._dictionaries(encoded)
            texts = [self.columns[self._id(name)].leaves[0] for name in self.encoded]
            self.parquet = parsed if in_memory and not texts else self._parsed(metadata=self.footer, read_dictionary=texts)

    def _parsed(self, **how: object) -> pq.ParquetFile:
        """The Parquet reader of the file."""
        return pq.ParquetFile(
            self.source,
            page_checksum_verification=True,
            pre_buffer=False,
            coerce_int96_timestamp_unit="us",  # nanoseconds would not hold all of them
            **how,
            **_limits(self.file.bytes),
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
        stored = self.stored(column)
        if stored is None:
            value = constant(self.field_of(column), self.groups)
            rows = pa.array(np.diff(self.starts))
            return value, value, pc.if_else(value.is_null(), rows, pa.scalar(0, pa.int64()))
        with reading(self.where):
            statistics = [self.footer.row_group(i).column(stored.leaves[0]).statistics for i in range(self.groups)]
            known = [s if s is not None and s.has_min_max else None for s in statistics]
            if is_time(stored.field.type):  # Python lacks some of those that foreign files hold
                low = of_integers(pa.array([s and s.min_raw for s in known], pa.int64()), stored.field.type)
                high = of_integers(pa.array([s and s.max_raw for s in known], pa.int64()), stored.field.type)
            else:
                low = pa.array([s and s.min for s in known], stored.field.type)
                high = pa.array([s and s.max for s in known], stored.field.type)
            with self._converting():
                low, high = low.cast(type_), high.cast(type_)
            return low, high, pa.array([None if s is None else s.null_count for s in statistics], pa.int64())

    def read(self, groups: Sequence[int], columns: Sequence[str], ahead: Sequence[ByteRange] = ()) -> pa.Table:
        """All rows of the row groups, concatenated. `ahead`: the ranges that the caller reads next; they are fetched in the same
        step if the storage reads by requests."""
        with reading(self.where):
            leaves = self._form(columns).leaves
            self._load(groups, leaves, ahead)
            large = sum(self.footer.row_group(group).total_byte_size for group in groups) > ALONE_BYTES
            stored = self.parquet.reader.read_row_groups(list(groups), column_indices=leaves, use_threads=large)
            table = self._plain(stored, columns)
        self._check_rows(table.num_rows, sum(int(self.starts[group + 1] - self.starts[group]) for group in groups))
        return table

    def read_all(self, columns: Sequence[str]) -> UnmadeRows:
        """All rows, decoded by one thread. Those of many small files are joined before their columns are made (`joined`)."""
        with reading(self.where):
            form = self._form(columns)
            self._load(range(self.groups), form.leaves, ())
            stored = self.parquet.reader.read_all(column_indices=form.leaves, use_threads=False)
            rows = UnmadeRows(stored, form) if form.is_exact else UnmadeRows(self._plain(stored, columns), None)
        self._check_rows(stored.num_rows, self.file.rows)
        return rows

    def _load(self, groups: Sequence[int], leaves: Sequence[int], ahead: Sequence[ByteRange]) -> None:
        """Fetches the column chunks that are read next, if the storage reads by requests."""
        if isinstance(self.source, RangedFile):
            self.source.ranges.load([*self._ranges(groups, leaves), *ahead])

    def _ranges(self, groups: Sequence[int], leaves: Sequence[int]) -> list[ByteRange]:
        chunks = [self.footer.row_group(group).column(leaf) for group in groups for leaf in leaves]
        starts = [min(chunk.data_page_offset, chunk.dictionary_page_offset or chunk.data_page_offset) for chunk in chunks]
        return [ByteRange(start, start + chunk.total_compressed_size) for start, chunk in zip(starts, chunks, strict=True)]

    def _loaded(self, runs: Sequence[Sequence[int]], leaves: Sequence[int]) -> Iterator[Sequence[int]]:
        """Yields the runs of row groups, each when its column chunks are fetched; the column chunks of the next runs are fetched
        meanwhile."""
        batches: list[list[Sequence[int]]] = []
        room = 0
        for run in runs:
            size = sum(stop - start for start, stop in self._ranges(run, leaves))
            if size > room:
                batches.append([])
                room = _AHEAD_BYTES
            batches[-1].append(run)
            room -= size
        parts = [self._ranges([group for run in batch for group in run], leaves) for batch in batches]
        for number, batch in enumerate(batches):
            with reading(self.where):
                self.source.ranges.load(parts[number])
            if number + 1 < len(batches):
                self.source.ranges.expect(parts[number + 1])
            yield from batch

    def _check_rows(self, actual: int, expected: int) -> None:
        if actual != expected:
            raise Corrupt("data file lacks rows", where=self.where, expected=expected, found=actual, cure=RESTORE)

    def field_of(self, column: str) -> pa.Field:
        return _SYSTEM[column] if column in _SYSTEM else self.schema.columns.field(column)

    def _id(self, column: str) -> int:
        return column_types.field_id(self.field_of(column))

    def stored(self, column: str) -> StoredColumn | None:
        """The place of a column in the file; None if the file was written before the column existed. Raises Corrupt if the file
        lacks a column that it must have."""
        stored_column = self.columns.get(self._id(column))
        must_have = self.file.schema_id == self.schema.id or column in (*_SYSTEM, *self.schema.key)
        if stored_column is None and must_have:
            raise Corrupt(
                "data file lacks a column",
                where=self.where,
                expected=f"{column!r} with field id {self._id(column)}",
                found=f"the field ids {sorted(self.columns)}",
                cure=RESTORE,
            )
        return stored_column

    def _leaves(self, columns: Sequence[str]) -> list[int]:
        """The leaf positions to read, in file order, since Arrow returns columns in the order requested. If the file lacks all
        the columns, another column is read for the number of rows."""
        stored = [stored_column for column in columns if (stored_column := self.stored(column)) is not None]
        return sorted({leaf for stored_column in stored or [self._narrow] for leaf in stored_column.leaves})

    @property
    def _narrow(self) -> StoredColumn:
        """A column of the file, a key column if possible."""
        return next(iter(self.columns.values())) if self.schema.append_only else self.stored(self.schema.key[0])

    def _plain(self, rows: pa.Table, columns: Sequence[str]) -> pa.Table:
        """Reorders, renames and converts `rows`, the columns as Parquet read them in file order. Matched by position, since names
        in the file may differ from the schema's."""
        form = self._form(columns)
        if form.places is not None:
            types = [rows.column(place).type for place in form.places]
            if form.is_exact or all(map(pa.DataType.equals, types, form.fields.types)):
                return form.made_of(rows)
        stored = {column: self.stored(column) for column in columns}
        places = sorted({one.place for one in stored.values() if one is not None})
        read = {column: rows[places.index(one.place)] for column, one in stored.items() if one is not None}
        made = [self._converted(column, read.get(column), rows.num_rows) for column in columns]
        return pa.table(made, schema=form.fields)

    def _form(self, columns: Sequence[str]) -> Form:
        """How to read some columns."""
        key = tuple(columns), tuple(self.encoded)
        if (known := self.file_columns.forms.get(key)) is not None:
            return known
        stored = [self.stored(column) for column in columns]
        kept = [one is not None and self._is_kept(column, one) for column, one in zip(columns, stored, strict=True)]
        read = sorted({one.place for one in stored if one is not None})
        places = [read.index(one.place) for one in stored] if columns and all(kept) else None
        fields = pa.schema(map(self.plain_field, columns))
        is_exact = places is not None and all(
            one.field.type.equals(type_) for one, type_ in zip(stored, fields.types, strict=True)
        )
        return self.file_columns.forms.setdefault(key, Form(self._leaves(columns), places, fields, is_exact))

    def _is_kept(self, column: str, stored: StoredColumn) -> bool:
        """Whether a read returns the values of a column as they are stored."""
        if column == ROW_KIND:
            return False  # they are checked
        old, new = stored.field.type, self.field_of(column).type
        return column in self.encoded or old.equals(new, check_metadata=True) or not is_evolved(old, new)

    def _converted(self, column: str, read: pa.ChunkedArray | None, rows: int) -> pa.ChunkedArray | pa.Array:
        """The values of a column, of the type of `plain_field`. `read`: as stored; None: the file lacks the column."""
        wanted, field = self.field_of(column), self.plain_field(column)
        if read is None:
            return constant(wanted, rows).cast(field.type)
        stored = self.columns[column_types.field_id(wanted)].field
        with self._converting():
            if column in self.encoded or not is_evolved(stored.type, wanted.type):
                made = read.cast(field.type)
                return made if column != ROW_KIND else checked_kinds(made, self.where)
            return adapted(read, stored, wanted, f"{self.where}, column {column!r}")

    @contextmanager
    def _converting(self) -> Iterator[None]:
        """Turns the errors of casts into the errors that `unfit` makes."""
        try:
            yield
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as unfit:
            raise self.unfit(unfit) from unfit

    def _dictionaries(self, names: Collection[str]) -> list[str]:
        """The text columns among `names` that every row group stores as a small dictionary; none of one small row group."""
        if self.file.bytes <= ALONE_BYTES and self.groups == 1:
            return []
        groups = [self.footer.row_group(i) for i in range(self.footer.num_row_groups)]
        texts = {name: self.stored(name) for name in names if pa.types.is_string(self.field_of(name).type)}
        stored = {name: text for name, text in texts.items() if text is not None}
        return [n for n, text in stored.items() if all(_by_dictionary(group.column(text.leaves[0])) for group in groups)]

    def plain_field(self, column: str) -> pa.Field:
        if column in _SYSTEM:
            return _SYSTEM[column].remove_metadata()
        field = self.schema.row_columns.field(column)
        return field.with_type(pa.dictionary(pa.int32(), field.type)) if column in self.encoded else field

    def stream(self, columns: Sequence[str]) -> Iterator[Chunk]:
        """Yields all rows in file order, a fraction of a row group at a time, so that many files can be read concurrently."""
        if self.file.bytes <= self.limits.stream_buffer_bytes:  # buffers for the columns would exceed the whole file
            yield from self.chunks(columns)
            return
        step, start = -(-int(np.diff(self.starts).max(initial=1)) // _STREAM_STEPS), 0
        with reading(self.where):
            parquet = self._parsed(metadata=self.footer, buffer_size=self.limits.stream_buffer_bytes)
            leaves, parts = self._form(columns).leaves, [range(self.groups)]
            if isinstance(self.source, RangedFile):
                parts = self._loaded([[group] for group in range(self.groups)], leaves)
            how = {"use_threads": self.file.bytes > ALONE_BYTES}
            batches = (batch for groups in parts for batch in parquet.reader.iter_batches(step, groups, leaves, **how))
        while (table := self._next(batches, columns)) is not None:
            yield Chunk(start, table)
            start += table.num_rows
        self._check_rows(start, self.file.rows)

    def _next(self, batches: Iterator[pa.RecordBatch], columns: Sequence[str]) -> pa.Table | None:
        with reading(self.where):
            batch = next(batches, None)
            return None if batch is None else self._plain(pa.Table.from_batches([batch]), columns)

    def chunks(self, columns: Sequence[str], groups: Sequence[int] | None = None, rows: int = 1 << 16) -> Iterator[Chunk]:
        """Yields chunks of whole consecutive row groups, about `rows` rows each, in file order."""
        wanted, rows = list(range(self.groups) if groups is None else groups), min(rows, self.limits.chunk_rows)
        runs: Iterable[Sequence[int]] = self._runs(wanted, rows)
        if columns and isinstance(self.source, RangedFile):
            with reading(self.where):
                runs = self._loaded(list(runs), self._leaves(columns))
        for run in runs:
            yield Chunk(int(self.starts[run[0]]), self.read(run, columns) if columns else _no_columns(self.starts, run))

    def _runs(self, wanted: Sequence[int], rows: int) -> Iterator[Sequence[int]]:
        """Consecutive row groups, of about `rows` rows."""
        while wanted:
            run = [wanted[0]]
            for group in wanted[1:]:
                if group != run[-1] + 1 or self.starts[group + 1] - self.starts[run[0]] > rows:
                    break
                run.append(group)
            wanted = wanted[len(run) :]
            yield run


def checked_kinds(kinds: pa.Array | pa.ChunkedArray, path: str) -> pa.Array | pa.ChunkedArray:
    """The row kinds of a data file. Raises Corrupt if a value is not a row kind."""
    valid = pc.is_in(kinds, value_set=pa.array(STORED, pa.int8()))
    if not pc.all(valid).as_py() and len(kinds):
        value = kinds[pc.index(valid, False).as_py()].as_py()
        what, expected = "data file has a row without a row kind", ", ".join(map(str, STORED))
        raise Corrupt(what, where=path, expected=expected, found=f"{ROW_KIND} {'null' if value is None else value}", cure=RESTORE)
    return kinds


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
    if (
        footer.num_row_groups == 1
        and (only := footer.row_group(0)).num_rows == file.rows
        and only.num_columns == footer.num_columns
    ):
        return np.array([0, file.rows], np.int64)  # the check of a small file, in a quarter of the time
    groups = [footer.row_group(i) for i in range(footer.num_row_groups)]
    counts = [group.num_rows for group in groups]
    whole = min(counts, default=1) >= 0 and sum(counts) == file.rows
    require(whole, "row groups of a data file have another number of rows", file.rows, sum(counts))
    columns = {group.num_columns for group in groups}
    same = columns <= {footer.num_columns}
    require(same, "row groups of a data file have another number of columns", footer.num_columns, sorted(columns))
    return np.fromiter(accumulate(counts, initial=0), np.int64)


def _by_dictionary(chunk: pq.ColumnChunkMetaData) -> bool:
    return chunk.has_dictionary_page and chunk.total_uncompressed_size < _DICTIONARY_BYTES * chunk.num_values


def _no_columns(starts: np.ndarray, run: Sequence[int]) -> pa.Table:
    """A table without columns that has the number of rows of the row groups."""
    return pa.table({"": pa.nulls(int(starts[run[-1] + 1] - starts[run[0]]))}).select([])


def live_rows(chunk: Chunk, vector: DeletionVector) -> pa.Table:
    """The rows of the chunk that `vector` does not mark."""
    if not len(vector):
        return chunk.table
    dead = vector.dead_mask(chunk.start, chunk.table.num_rows)
    return chunk.table.filter(pa.array(~dead)) if dead.any() else chunk.table


# -- columns of files --------------------------------------------------------------------------------------------------


class StoredColumn(NamedTuple):
    """A column in a file: its place among the columns, the positions of its leaves, and its type with the ids of all fields."""

    place: int
    leaves: range
    field: pa.Field


class Form(NamedTuple):
    """How to read some columns. `leaves`: their positions, ascending; `places`: where each column is among those read, None if
    the values of any are made or converted; `fields`: of the result; `is_exact`: the columns are stored with these types."""

    leaves: list[int]
    places: list[int] | None
    fields: pa.Schema
    is_exact: bool

    def made_of(self, stored: pa.Table) -> pa.Table:
        """The columns of a read. `stored`: rows as stored, whose columns have the types of `fields`."""
        return pa.Table.from_arrays([stored.column(place) for place in self.places], schema=self.fields)


class UnmadeRows(NamedTuple):
    """Rows of a file. `form`: makes the columns of a read of these rows, which are as stored; None: `rows` has these columns."""

    rows: pa.Table
    form: Form | None


def joined(parts: Iterable[UnmadeRows]) -> list[pa.Table]:
    """The rows of several files, in order, with the columns of a read. Consecutive files with the same form become one table."""
    tables = []
    for _, alike in groupby(parts, lambda part: id(part.form)):
        some = list(alike)
        rows, form = pa.concat_tables([part.rows for part in some]), some[0].form
        tables.append(rows if form is None else form.made_of(rows))
    return tables


class FileColumns:
    """The columns of files with the same Arrow schema, found once for all of them. `by_id`: by field id; `forms`: of earlier
    reads."""

    def __init__(self, stored: pa.Schema, path: str) -> None:
        """Raises Corrupt if two columns have the same id."""
        self.by_id = _by_id(stored, path)
        self.forms: dict[tuple[tuple[str, ...], tuple[str, ...]], Form] = {}

    @staticmethod
    def of(
        footer: pq.FileMetaData, schema: Schema, schema_id: int, identified: Callable[[pa.Schema], pa.Schema], path: str
    ) -> FileColumns:
        """The columns of a file for reads with the columns of `schema`.

        Args:
            footer: of the file.
            schema: of the reads.
            schema_id: the schema under which the file was written.
            identified: gives the columns their field ids, see `DataReader`.
            path: of the file, for errors.
        """
        known = schema.derived(_files_read)
        for one in known:
            if one.schema_id == schema_id and one.has_columns_of(footer):
                return one.columns
        stored = footer.schema.to_arrow_schema()
        made = FileColumns(identified(stored), path)
        if len(known) < _KNOWN_MAX:
            flat = footer.schema if footer.metadata is None and not any(map(pa.types.is_nested, stored.types)) else None
            known.append(_KnownColumns(schema_id, stored, flat, made))
        return made


class _KnownColumns(NamedTuple):
    """The columns of files that were read before. `stored`: their Arrow schema; `flat`: their Parquet schema, if files with
    an equal one have the same Arrow schema; None: they have metadata, or nested columns, whose ids PyArrow does not compare."""

    schema_id: int
    stored: pa.Schema
    flat: pq.ParquetSchema | None
    columns: FileColumns

    def has_columns_of(self, footer: pq.FileMetaData) -> bool:
        """Whether a file has the same Arrow schema, with the ids of its fields."""
        if self.flat is not None and footer.metadata is None:
            return self.flat.equals(footer.schema)  # a tenth of the time of the Arrow schema
        return self.stored.equals(footer.schema.to_arrow_schema(), check_metadata=True)


def _files_read(schema: Schema) -> list[_KnownColumns]:
    """The columns of files that were read with a schema. The first files decide."""
    return []


def _by_id(schema: pa.Schema, path: str) -> dict[int, StoredColumn]:
    stored = enumerate(zip(schema, leaf_positions(schema), strict=True))
    placed = [
        (column_types.field_id(field), StoredColumn(place, own, field))
        for place, (field, own) in stored
        if column_types.has_field_id(field)
    ]
    if nameless := [one.field.name for _, one in placed if not column_types.has_field_ids(one.field.type)]:
        expected = "a field id at every level"
        raise Corrupt("data file has a column without ids inside", where=path, expected=expected, found=nameless, cure=RESTORE)
    if len(dict(placed)) != len(placed):
        ids = sorted(number for number, _ in placed)
        raise Corrupt("data file has two columns with one field id", where=path, expected="unique ids", found=ids, cure=RESTORE)
    return dict(placed)
