"""Copies of row groups in the cache on disk, for lookups of single keys: one read finds a row, without key columns and pages.

A row group is copied after some lookups in it (`Limits.copied_after`), and found by every process that shares the cache;
`format.row_blocks` describes a copy. A copy that is lost or damaged is made again. Row groups with nested columns have none, nor
have those whose copy would exceed the limit of an entry.
"""

from __future__ import annotations

import hashlib
from math import inf
from zlib import crc32

import pyarrow as pa

from lsmlake.files.bucket_files import BucketFiles
from lsmlake.files.page_reader import GroupBounds
from lsmlake.format.data_files import DataFile
from lsmlake.format.row_blocks import DAMAGES, END_BYTES, VERSION, BlockPlaces, CopiedRow, RowForm, places_bytes, read_places
from lsmlake.kernels.sorted_keys import Key
from lsmlake.schema.schema import Schema
from lsmlake.storage.disk_cache import DiskCache, DiskEntry

_USES = 256  # lookups between two records of the use of an entry
_COUNT_BYTES, _COPY_BYTES = 64, 512
_FAILED = -1_000  # lookups until the next try, after a copy could not be stored


class RowCopies:
    """The copies of the row groups of a bucket. `making`: whether lookups make copies, besides reading those that exist."""

    def __init__(self, files: BucketFiles, disk: DiskCache, form: RowForm, *, making: bool) -> None:
        self.files, self.disk, self.form, self.making = files, disk, form, making
        self.cache, self.key_places = files.meta.files.cache, files.schema.derived(_key_places)
        self.bounds: dict[str, GroupBounds] = {}  # by the name of the file

    @staticmethod
    def of(files: BucketFiles, *, making: bool) -> RowCopies | None:
        """The copies of a bucket; None if there is no cache for them, or if a column is nested."""
        disk, form = files.meta.env.copies, files.schema.derived(_form)
        return None if disk is None or form is None else RowCopies(files, disk, form, making=making)

    def find(self, key: Key, hash_: int, file: DataFile) -> list[CopiedRow] | None:
        """The rows of a key in a file; None if a row group that can hold it has no copy. `hash_`: the unsigned `spark_hash`."""
        rows: list[CopiedRow] = []
        for group, start in self._groups_of(key, file):
            copy = self.cache.known(self._noted(file, group))
            if not isinstance(copy, _Copy) and (copy := self._sought(file, group, copy)) is None:
                return None
            if not copy.places.may_hold(hash_):
                continue
            try:
                found = copy.rows(hash_, self.form)
            except DAMAGES:
                copy.entry.delete()
                self._note(file, group, 0)
                return None
            for row in found:
                if all(row.values[place] == value for place, value in zip(self.key_places, key.values, strict=True)):
                    rows.append(CopiedRow(start + row.position, row.values))
        return rows

    def _groups_of(self, key: Key, file: DataFile) -> list[tuple[int, int]]:
        """The row groups of a file that can hold a key, with the positions of their first rows."""
        bounds = self.bounds.get(file.name)
        if bounds is None:
            bounds = self.bounds[file.name] = self.files.group_bounds(file)
        return bounds.groups_of(key.values[0])

    def _sought(self, file: DataFile, group: int, known: float | None) -> _Copy | None:
        """A copy that is not in memory; None if there is none. `known`: the lookups so far, if this was looked for before."""
        if known is None or known == 0:
            copy = _Copy.opened(self._entry(file, group))
            if copy is not None:
                return self._keep(file, group, copy)
        if not self.making:
            return None
        asked = (known or 0) + 1
        if asked < self.files.meta.env.limits.copied_after:
            self._note(file, group, asked)
            return None
        return self._made(file, group)

    def _made(self, file: DataFile, group: int) -> _Copy | None:
        """Copies a row group; returns None if it could not be stored."""
        with self.files.open(file) as reader:
            if not self.disk.holds(reader.footer.row_group(group).total_byte_size):
                self._note(file, group, -inf)
                return None
            rows = reader.read([group], self.files.schema.columns.names)
        entry = self._entry(file, group)
        self.disk.put(*self._name(file, group), memoryview(self.form.encode(rows, self.files.schema.key, crc32(entry.name))))
        copy = _Copy.opened(entry)
        if copy is None:
            self._note(file, group, _FAILED)
            return None
        return self._keep(file, group, copy)

    def _keep(self, file: DataFile, group: int, copy: _Copy) -> _Copy:
        self.cache.put(self._noted(file, group), copy, lambda copy: _COPY_BYTES + copy.places.bytes)
        return copy

    def _note(self, file: DataFile, group: int, asked: float) -> None:
        """Notes how many lookups a row group without a copy has had."""
        self.cache.put(self._noted(file, group), asked, lambda _: _COUNT_BYTES)

    def _noted(self, file: DataFile, group: int) -> tuple:
        return file.name, self.files.schema.id, "copy", group

    def _entry(self, file: DataFile, group: int) -> DiskEntry:
        return self.disk.entry(*self._name(file, group))

    def _name(self, file: DataFile, group: int) -> tuple[str, str]:
        """The names of the file and of the part of it, for the cache on disk."""
        columns = self.files.schema.derived(_digest)
        return f"{file.name}\n{file.bytes}\n{file.footer_checksum}", f"rows {VERSION} of row group {group}, columns {columns}"


class _Copy:
    """An entry with the copy of a row group, and the places of its blocks."""

    def __init__(self, entry: DiskEntry, places: BlockPlaces, start: int) -> None:
        self.entry, self.places, self._start, self._uses = entry, places, start, 0

    @staticmethod
    def opened(entry: DiskEntry) -> _Copy | None:
        """The copy in an entry; None if there is none."""
        end = entry.ending(END_BYTES)
        if not end:
            return None
        start = crc32(entry.name)
        try:
            places = read_places(entry.ending(places_bytes(end)), start)
        except DAMAGES:
            entry.delete()
            return None
        entry.use()
        return _Copy(entry, places, start)

    def rows(self, hash_: int, form: RowForm) -> list[CopiedRow]:
        """The rows with a hash. Raises one of DAMAGES if the copy is damaged or was deleted."""
        begin, end = self.places.of(hash_)
        if begin == end:
            return []
        self._uses += 1
        if not self._uses % _USES:
            self.entry.use()
        return form.find(self.entry.read(begin, end - begin), hash_, self._start)


def _form(schema: Schema) -> RowForm | None:
    """The form of copied rows; None if a column is nested."""
    return None if any(map(pa.types.is_nested, schema.row_columns.types)) else RowForm(schema.row_columns)


def _key_places(schema: Schema) -> list[int]:
    return [schema.columns.get_field_index(name) for name in schema.key]


def _digest(schema: Schema) -> str:
    """A name for the columns of a schema and its key: copies of a file under other columns have other values."""
    columns = [(field.name, str(field.type), sorted((field.metadata or {}).items())) for field in schema.columns]
    return hashlib.sha256(repr((columns, schema.key)).encode()).hexdigest()
