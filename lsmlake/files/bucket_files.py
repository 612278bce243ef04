"""The data files of one bucket: opens them, finds keys in them, fetches rows and writes new files.

A reader takes a file's directory from its manifest entry; a writer derives the directory of new files from the partition values
and the options in effect. `files.data_reader` and `files.data_writer` handle single files.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import groupby
from operator import itemgetter
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from lsmlake.files.data_reader import Chunk, DataReader, checked_kinds, reading
from lsmlake.files.data_writer import DATA, Opened, Origin, RunWriter, write_run
from lsmlake.files.page_reader import GroupBounds, PageReader, RowOfGroup
from lsmlake.format.data_files import Bucket, DataFile
from lsmlake.format.paths import bucket_directory
from lsmlake.kernels.sorted_keys import Key, ShuffledKeys, SortedKeys
from lsmlake.lsm import lookup
from lsmlake.schema.adapt import lacks_ids, names_of, with_ids
from lsmlake.schema.schema import ROW_KIND, ROW_KIND_FIELD, Schema
from lsmlake.storage.concurrency import Once, side_by_side, together
from lsmlake.tables.live import Cache
from lsmlake.tables.version import Metadata, Version

_KEYS_AT_ONCE = 1 << 22
_ROWS_AT_ONCE = 1 << 18


class Hits(NamedTuple):
    """The matches of a key lookup in one file, dead rows included: row `keys[i]` of the table of keys is stored at
    `positions[i]` of the file. Both int64; `positions` ascends, and so does `keys` if the file is sorted."""

    keys: np.ndarray
    positions: np.ndarray

    def where(self, mask: np.ndarray) -> Hits:
        return Hits(self.keys[mask], self.positions[mask])


class _Whole(NamedTuple):
    """All rows of a file, with `_row_kind` if it is stored."""

    rows: pa.Table
    keys: SortedKeys | ShuffledKeys


@dataclass(frozen=True)
class BucketFiles:
    """The files of `bucket`. `schema`: the columns that rows are read and written with. `opened`: opens the files of
    `write`, as a group of small files does; None: each becomes visible when it is complete."""

    meta: Metadata
    schema: Schema
    bucket: Bucket
    opened: Opened | None = None

    @staticmethod
    def of(version: Version, bucket: Bucket, opened: Opened | None = None) -> BucketFiles:
        """The files of a bucket, with the columns of `version`."""
        return BucketFiles(version.meta, version.schema, bucket, opened)

    def open(self, file: DataFile, encoded: Collection[str] = ()) -> DataReader:
        """Opens a file for reading; see `DataReader` for `encoded`. Raises Corrupt."""
        return DataReader(self.meta.env, self.meta.paths.data(file), file, self.schema, encoded, partial(self._identified, file))

    def _identified(self, file: DataFile, stored: pa.Schema) -> pa.Schema:
        """The columns of a file, with field ids. A file without field ids has the column names of the schema that it belongs
        to."""
        if not lacks_ids(stored):
            return stored
        schema = self.schema if file.schema_id == self.schema.id else self.meta.schemas.get(file.schema_id)
        return with_ids(stored, names_of(schema.columns)) if schema.by_name else stored

    def write(
        self, tables: Iterable[pa.Table], origin: Origin, nan_columns: Collection[str] = (), prefix: str = DATA
    ) -> tuple[DataFile, ...]:
        """Writes one sorted run; see `write_run`."""
        env, paths = self.meta.env, self.meta.paths
        return write_run(env, paths, self.schema, self.directory, tables, origin, nan_columns, prefix, self.opened)

    def write_parts(self, parts: Iterable[pa.Table], origin: Origin, nan_columns: Collection[str] = ()) -> tuple[DataFile, ...]:
        """Writes one sorted run as `write`, each part to files of its own, all parts at once. `parts`: in memory; a key has rows
        in one of them only."""
        given = list(enumerate(parts))

        def write(part: tuple[int, pa.Table]) -> tuple[int, tuple[DataFile, ...]]:
            number, rows = part
            return number, self.write([rows], origin, nan_columns)

        def undo(written: list[tuple[int, tuple[DataFile, ...]]]) -> None:
            self.delete([file for _, files in written for file in files])

        written = together(write, given, len(given), undo)
        return tuple(file for _, files in sorted(written, key=itemgetter(0)) for file in files)

    def run_writer(self, origin: Origin, nan_columns: Collection[str] = (), prefix: str = DATA) -> RunWriter:
        """A sorted run to be written table by table."""
        return RunWriter(self.meta.env, self.meta.paths, self.schema, self.directory, origin, nan_columns, prefix)

    @cached_property
    def directory(self) -> str:
        """The directory of new files."""
        null_name = self.schema.parsed_options.layout.default_partition
        return bucket_directory(self.bucket, self.schema.partition_columns_of(self.bucket.spec), null_name)

    def paths(self, files: Iterable[DataFile]) -> tuple[str, ...]:
        """The paths of the files and of their index files."""
        return tuple(path for file in files for path in self.meta.paths.with_index(file))

    def delete(self, files: Iterable[DataFile]) -> None:
        """Deletes files that no snapshot references; storage errors are ignored."""
        self.meta.files.delete_quietly(self.paths(files))

    def find(self, keys: pa.Table, files: Sequence[DataFile], *, repeats: bool = False) -> dict[str, Hits]:
        """Looks up keys. Returns file name -> hits, without files that have no hit.

        `keys`: the key columns, ascending, unique. `repeats`: a file with rows of other kinds than +I can hold several rows of a
        key; an unsorted file always can. Reads only key columns, and only in row groups that can hold one of the keys.
        """
        spans = zip(files, lookup.slices(keys, files), strict=True)
        reached = {file.name: (file, start, stop) for file, (start, stop) in spans if start < stop}
        hits_by_file = self._find_among(keys, [file for file, _, _ in reached.values() if self._is_small(file)])

        def find(file: DataFile, start: int, stop: int) -> Hits:
            hits = self._find_in(keys.slice(start, stop - start), file, (repeats and file.delete_rows > 0) or not file.sorted)
            return Hits(hits.keys + start, hits.positions)

        large = {name: partial(find, *place) for name, place in reached.items() if name not in hits_by_file}
        hits_by_file.update(zip(large, side_by_side(list(large.values()), self.meta.env.storage.at_once), strict=True))
        return {name: hits_by_file[name] for name in reached if len(hits_by_file[name].positions)}

    def keys_among(self, file: DataFile, keys: pa.Table) -> Iterator[tuple[int, pa.Table]]:
        """Yields the key columns of the row groups of a file that can hold one of `keys` (ascending), with the position of their
        first row. Those of a small file are cached."""
        if self._is_small(file):
            yield 0, self._keys_of(file)
            return
        with self.open(file) as reader:
            groups = range(reader.groups)
            if keys.num_rows < file.rows:
                low, high, _ = reader.group_bounds(self.schema.key[0])
                groups = lookup.groups(keys, low, high).tolist()
            for chunk in reader.chunks(self.schema.key, groups, rows=_KEYS_AT_ONCE):
                yield chunk.start, chunk.table

    def fetch(self, file: DataFile, positions: np.ndarray, columns: Sequence[str]) -> Iterator[pa.Table]:
        """Yields the rows at `positions` (ascending) in order, in chunks. Reads only the row groups that contain them. Texts that
        a file stores as a dictionary are decoded for these rows only."""
        if len(positions):
            yield from self._fetched(file, positions, columns, 0)

    def fetch_again(self, file: DataFile, positions: np.ndarray, columns: Sequence[str], limit_bytes: int) -> Iterator[pa.Table]:
        """As `fetch`, of a file of which a later call is likely to fetch other rows. If rows of every row group are wanted, the
        columns of the whole file stay in memory, unless they exceed `limit_bytes`. The columns of those files, of all tables of
        the environment, that were used least recently are dropped, so that all together do not exceed it either."""
        if not len(positions):
            return
        cache: Cache | None = self.meta.env.decoded
        known: tuple[Chunk, ...] | None = None if cache is None else cache.known(self._decoded_key(file, columns))
        if known is None:
            yield from self._fetched(file, positions, columns, 0 if cache is None else limit_bytes)
        else:
            for chunk in known:
                yield from self._rows_of(chunk, positions)

    def _fetched(self, file: DataFile, positions: np.ndarray, columns: Sequence[str], limit_bytes: int) -> Iterator[pa.Table]:
        """Reads and yields rows; see `fetch_again`. `limit_bytes` 0: keeps nothing."""
        kept: list[Chunk] = []
        size = 0
        with self.open(file, encoded=columns) as reader:
            groups = np.unique(np.searchsorted(reader.starts, positions, side="right") - 1)
            keeps = limit_bytes > 0 and len(groups) == reader.groups
            for chunk in reader.chunks(columns, groups.tolist(), rows=_ROWS_AT_ONCE):
                size += chunk.table.nbytes
                if keeps and size <= limit_bytes:
                    kept.append(chunk)
                else:
                    keeps, kept = False, []
                yield from self._rows_of(chunk, positions)
        if keeps:
            self.meta.env.decoded.put(self._decoded_key(file, columns), tuple(kept), lambda _: size, limit_bytes)

    def _rows_of(self, chunk: Chunk, positions: np.ndarray) -> Iterator[pa.Table]:
        """The rows of a chunk at `positions` of the file, with texts instead of dictionaries."""
        first, last = np.searchsorted(positions, [chunk.start, chunk.start + chunk.table.num_rows])
        if first == last:
            return
        rows = chunk.table.take(pa.array(positions[first:last] - chunk.start))
        for place, field in enumerate(rows.schema):
            if pa.types.is_dictionary(field.type):
                rows = rows.set_column(place, self.schema.row_columns.field(field.name), rows[place].cast(field.type.value_type))
        yield rows

    def _decoded_key(self, file: DataFile, columns: Sequence[str]) -> tuple[str, bytes, tuple[str, ...]]:
        return self.meta.paths.data(file), self.schema.derived(_digest), tuple(columns)

    def positions(self, key: Key, file: DataFile) -> list[int]:
        """The positions of the rows of a key in a file, ascending, dead or not: one or none, several only in a file with rows of
        other kinds than +I, or that is not sorted. Caches the key columns of the row groups searched."""
        if self._is_read_whole(file):
            return list(self._whole(file).keys.find(key.searched))
        positions: list[int] = []
        with self._opened_if_needed(file) as opened:
            pages = self._pages(file, opened)
            for group, start in pages.bounds.groups_of(key.values[0]):
                rows = self._keys_of_group(file, group, pages, opened).find(key.searched)
                positions += [start + row for row in rows]
        return positions

    def group_bounds(self, file: DataFile) -> GroupBounds:
        """The row groups of a file, with the bounds of their keys."""
        pages: PageReader | None = self.meta.files.cache.known(self._pages_key(file))
        if pages is None:
            with self._opened_if_needed(file) as opened:
                pages = self._pages(file, opened)
        return pages.bounds

    def rows_at(self, file: DataFile, positions: Sequence[int], columns: Sequence[str]) -> pa.Table:
        """The rows at `positions`, ascending. Reads one page of each column for a row, whole row groups of nested columns."""
        if self._is_read_whole(file):
            return self._whole(file).rows.select(list(columns)).take(pa.array(positions, pa.int64()))
        path, others = self.meta.paths.data(file), [name for name in columns if name not in self.schema.key]
        with self._opened_if_needed(file) as opened:
            pages = self._pages(file, opened)
            if not pages.can_read(others):
                return pa.concat_tables(self.fetch(file, np.array(positions, np.int64), columns))
            places = pages.places(positions)
            with reading(path), self.meta.env.storage.read_from_end(path, file.bytes, 0) as source:
                columns_by_name = dict(zip(others, pages.columns_at(source, places, others, self.meta.files.cache), strict=True))
            if ROW_KIND in columns_by_name:
                checked_kinds(columns_by_name[ROW_KIND], path)
            columns_by_name.update(zip(self.schema.key, self._keys_at(file, places, pages, opened), strict=True))
        fields = [ROW_KIND_FIELD if name == ROW_KIND else self.schema.row_columns.field(name) for name in columns]
        return pa.Table.from_arrays([columns_by_name[name] for name in columns], schema=pa.schema(fields).remove_metadata())

    def values_at(self, file: DataFile, position: int, columns: Sequence[str]) -> list[object] | None:
        """The values of Python of a row, without key columns, by pages; None if `rows_at` must read the row."""
        if self._is_read_whole(file):
            return None
        path = self.meta.paths.data(file)
        with self._opened_if_needed(file) as opened:
            pages = self._pages(file, opened)
            if not pages.reads_plain(columns):
                return None
            with reading(path):
                source = self.meta.env.storage.read_from_end(path, file.bytes, 0)
            with source, suppress(OverflowError):
                return pages.values_at(source, pages.places([position])[0], columns, self.meta.files.cache)
        return None

    def _keys_at(
        self, file: DataFile, places: Sequence[RowOfGroup], pages: PageReader, opened: Callable[[], DataReader]
    ) -> Iterator[pa.Array]:
        """The key columns of some rows."""
        parts = [
            self._keys_of_group(file, group, pages, opened).take([place.row for place in some])
            for group, some in groupby(places, key=lambda place: place.group)
        ]
        return map(pa.concat_arrays, zip(*parts, strict=True))

    def _is_read_whole(self, file: DataFile) -> bool:
        return file.bytes <= self.meta.env.limits.stream_buffer_bytes

    def _whole(self, file: DataFile) -> _Whole:
        """A small file, cached: one read instead of one for the footer, one for the keys and one for the pages."""
        cache, key = self.meta.files.cache, (self.meta.paths.data(file), self.schema.id, "rows")
        if (known := cache.known(key)) is not None:
            return known
        with self.open(file) as reader:
            names = [*self.schema.columns.names, *([ROW_KIND] if reader.has_row_kind else [])]
            rows = reader.read(range(reader.groups), names).combine_chunks()
        whole = _Whole(rows, _searchable(file)(rows.select(self.schema.key)))
        cache.put(key, whole, lambda whole: whole.rows.get_total_buffer_size() + whole.keys.bytes)
        return whole

    @contextmanager
    def _opened_if_needed(self, file: DataFile) -> Iterator[Callable[[], DataReader]]:
        """Returns a function that returns the open file. The first call opens it, and reads the footer if it is not cached."""
        with ExitStack() as closing:
            yield Once(lambda: closing.enter_context(self.open(file)))

    def _pages(self, file: DataFile, opened: Callable[[], DataReader]) -> PageReader:
        return self.meta.files.cache.get(self._pages_key(file), lambda: PageReader(opened()), lambda pages: pages.bytes)

    def _pages_key(self, file: DataFile) -> tuple[str, int, str]:
        return self.meta.paths.data(file), self.schema.id, "pages"

    def _keys_of_group(
        self, file: DataFile, group: int, pages: PageReader, opened: Callable[[], DataReader]
    ) -> SortedKeys | ShuffledKeys:
        def read() -> SortedKeys | ShuffledKeys:
            reader = opened()
            keys = _searchable(file)(reader.read([group], self.schema.key, pages.indexes(group)))
            pages.keep_indexes(reader.source, group, self.meta.files.cache)
            return keys

        key = self.meta.paths.data(file), self.schema.id, "keys", group
        return self.meta.files.cache.get(key, read, lambda keys: keys.bytes)

    def remember(self, file: DataFile, keys: pa.Table) -> None:
        """Caches the key columns of a file just written, if it is small, so that lookups need not read them."""
        if self._is_small(file):
            self.meta.files.cache.put(self._cache_key(file), keys)

    def _is_small(self, file: DataFile) -> bool:
        return file.rows <= self.meta.env.limits.small_file_rows

    def _find_in(self, keys: pa.Table, file: DataFile, repeats: bool) -> Hits:
        rows, positions = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
        with self.open(file) as reader:
            low, high, _ = reader.group_bounds(self.schema.key[0])
            for chunk in reader.chunks(self.schema.key, lookup.groups(keys, low, high).tolist(), rows=_KEYS_AT_ONCE):
                of_keys, of_chunk = lookup.find(keys, chunk.table, repeats=repeats)
                rows.append(of_keys)
                positions.append(of_chunk + chunk.start)
        return Hits(np.concatenate(rows), np.concatenate(positions))

    def _find_among(self, keys: pa.Table, files: Sequence[DataFile]) -> dict[str, Hits]:
        """The hits in small files, found in all of them at once."""
        if not files:
            return {}
        stored = side_by_side([partial(self._keys_of, file) for file in files], self.meta.env.storage.at_once)
        of_keys, rows = lookup.find(keys, pa.concat_tables(stored), repeats=True)
        starts = np.cumsum([0, *(table.num_rows for table in stored[:-1])])
        cuts = np.searchsorted(rows, starts[1:])
        parts = zip(files, np.split(of_keys, cuts), np.split(rows, cuts), starts, strict=True)
        return {file.name: Hits(own, positions - start) for file, own, positions, start in parts}

    def _keys_of(self, file: DataFile) -> pa.Table:
        """The key columns of a small file, cached, because every batch looks keys up in it."""

        def read() -> pa.Table:
            with self.open(file) as reader:
                return reader.read(range(reader.groups), self.schema.key)

        return self.meta.files.cache.get(self._cache_key(file), read)

    def _cache_key(self, file: DataFile) -> tuple[str, str, int]:
        return self.meta.paths.data(file), "keys", self.schema.key


def _digest(schema: Schema) -> bytes:
    """Names a schema. Its number does not: branches count for themselves, and the number of a schema whose commit has lost a race
    is used again."""
    return hashlib.sha256(schema.encode()).digest()


def _searchable(file: DataFile) -> type[SortedKeys] | type[ShuffledKeys]:
    return SortedKeys if file.sorted else ShuffledKeys
