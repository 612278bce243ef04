"""The data files of one bucket: opening them, finding keys in them, fetching rows, writing new ones.

The only place that turns a data file into a path. A reader takes the directory from the file's manifest entry; a writer chooses
it for new files by the partition values and the options in effect.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from lsmlake.format.files import Bucket, DataFile
from lsmlake.format.paths import bucket_directory
from lsmlake.lsm import lookup
from lsmlake.schema.schema import Schema
from lsmlake.store.data_reader import DataReader
from lsmlake.store.data_writer import DATA, Origin, write_run
from lsmlake.store.metadata import Metadata

_KEYS_AT_ONCE = 1 << 22
_ROWS_AT_ONCE = 1 << 18


class Hits(NamedTuple):
    """Rows of one file whose key was asked for, dead ones included: `keys`, row numbers of the keys asked for, stand at
    `positions` of the file. Both int64, ascending."""

    keys: np.ndarray
    positions: np.ndarray

    def where(self, mask: np.ndarray) -> Hits:
        return Hits(self.keys[mask], self.positions[mask])


@dataclass(frozen=True)
class BucketFiles:
    """`schema`: the columns that rows are read and written with."""

    meta: Metadata
    schema: Schema
    bucket: Bucket

    def open(self, file: DataFile, encoded: Collection[str] = ()) -> DataReader:
        """A reader of the file; see `DataReader` for `encoded`. Raises Corrupt."""
        return DataReader(self.meta.env, self.meta.paths.data(file), file, self.schema, encoded)

    def write(
        self, tables: Iterable[pa.Table], origin: Origin, nan_columns: Collection[str] = (), prefix: str = DATA
    ) -> tuple[DataFile, ...]:
        """Write one sorted run: see `write_run`."""
        null_name = self.schema.parsed_options.layout.default_partition
        directory = bucket_directory(self.bucket, self.schema.partition_by, null_name)
        return write_run(self.meta.env, self.meta.paths, self.schema, directory, tables, origin, nan_columns, prefix)

    def paths(self, files: Iterable[DataFile]) -> tuple[str, ...]:
        """Where the files are."""
        return tuple(map(self.meta.paths.data, files))

    def delete(self, files: Iterable[DataFile]) -> None:
        """Remove files that no snapshot names, as far as the storage lets us."""
        self.meta.delete_quietly(self.paths(files))

    def find(self, keys: pa.Table, files: Sequence[DataFile], *, repeats: bool = False) -> dict[str, Hits]:
        """File name -> hits of `keys` in it; files without a hit are left out.

        `keys`: the key columns, ascending, unique. `repeats`: a file with rows of another kind than +I may hold several rows of a
        key. Reads the key columns of the row groups that can hold one of them, nothing else.
        """
        spans = zip(files, lookup.slices(keys, files), strict=True)
        reached = {file.name: (file, start, stop) for file, (start, stop) in spans if start < stop}
        found = self._find_among(keys, [file for file, _, _ in reached.values() if self._is_small(file)])
        for name, (file, start, stop) in reached.items():
            if name not in found:
                hits = self._find_in(keys.slice(start, stop - start), file, repeats and file.delete_rows > 0)
                found[name] = Hits(hits.keys + start, hits.positions)
        return {name: found[name] for name in reached if len(found[name].positions)}

    def fetch(self, file: DataFile, positions: np.ndarray, columns: Sequence[str]) -> Iterator[pa.Table]:
        """The rows at `positions` (ascending) in order, some at a time. Reads the row groups they lie in."""
        if not len(positions):
            return
        with self.open(file) as reader:
            groups = np.unique(np.searchsorted(reader.starts, positions, side="right") - 1)
            for chunk in reader.chunks(columns, groups.tolist(), rows=_ROWS_AT_ONCE):
                first, last = np.searchsorted(positions, [chunk.start, chunk.start + chunk.table.num_rows])
                yield chunk.table.take(pa.array(positions[first:last] - chunk.start))

    def remember(self, file: DataFile, keys: pa.Table) -> None:
        """The key columns of a file just written, as they will be read: if it is small, they need not be."""
        if self._is_small(file):
            self.meta.cache.put(self._remembered(file), keys)

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
        """The hits in small files, found at once in all of them."""
        if not files:
            return {}
        stored = [self._keys_of(file) for file in files]
        of_keys, rows = lookup.find(keys, pa.concat_tables(stored), repeats=True)
        starts = np.cumsum([0, *(table.num_rows for table in stored[:-1])])
        cuts = np.searchsorted(rows, starts[1:])
        parts = zip(files, np.split(of_keys, cuts), np.split(rows, cuts), starts, strict=True)
        return {file.name: Hits(own, there - start) for file, own, there, start in parts}

    def _keys_of(self, file: DataFile) -> pa.Table:
        """The key columns of a small file. Every batch looks keys up in it, so they are cached."""

        def read() -> pa.Table:
            with self.open(file) as reader:
                return reader.read(range(reader.groups), self.schema.key)

        return self.meta.cache.get(self._remembered(file), read)

    def _remembered(self, file: DataFile) -> str:
        return f"{self.meta.paths.data(file)}#keys of schema {self.schema.id}"
