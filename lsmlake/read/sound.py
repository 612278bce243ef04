"""Checks the checksums of data files that another engine reads, which does not check them itself.

Footers are always checked, since a damaged one gives wrong rows or ends the process: one read of the end of each file, 0.05 ms.
Whole files are checked on request only: a gigabyte takes a second, whatever few columns a query then reads. A file of another
writer (`imports`) has no checksum of the whole; its columns are decoded instead, which checks those of its pages.

A table handle keeps in its cache which files it has found sound: files never change.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from lsmlake.errors import Corrupt
from lsmlake.files.bucket_files import BucketFiles
from lsmlake.files.checksum import RESTORE, TAIL_BYTES, checksum_of, read_footer
from lsmlake.files.data_reader import reading
from lsmlake.format.files import Bucket, DataFile
from lsmlake.storage.concurrency import side_by_side
from lsmlake.tables.version import Version

_KNOWN_BYTES = 64


def check_footers(version: Version, files: Sequence[DataFile]) -> None:
    """Raises Corrupt."""
    storage = version.meta.env.storage

    def check(file: DataFile, path: str) -> None:
        with reading(path), storage.read_from_end(path, file.bytes, file.footer_bytes or TAIL_BYTES) as source:
            read_footer(source, file, path)

    _check(version, "footer", files, check)


def check_whole(version: Version, bucket_of: Mapping[str, Bucket], files: Sequence[DataFile], columns: Sequence[str]) -> None:
    """Raises Corrupt. `bucket_of`: the bucket of each file, by its name. `columns`: those of which the pages of a file without a
    checksum are checked."""

    def check(file: DataFile, path: str) -> None:
        if file.checksum is None:
            with BucketFiles.of(version, bucket_of[file.name]).open(file) as reader:
                for _ in reader.chunks(columns):
                    pass
            return
        with reading(path), version.meta.env.storage.read(path) as source:
            found = checksum_of(source)
        if found != file.checksum:
            expected = f"checksum {file.checksum:#010x}"
            raise Corrupt("data file is damaged", where=path, expected=expected, found=f"{found:#010x}", cure=RESTORE)

    _check(version, "whole", files, check)


def _check(version: Version, what: str, files: Sequence[DataFile], check: Callable[[DataFile, str], None]) -> None:
    """Calls `check` with the files that were not found sound yet, and their paths."""
    cache = version.meta.files.cache

    def one(file: DataFile, path: str) -> None:
        check(file, path)
        cache.put((what, path), True, lambda _: _KNOWN_BYTES)

    paths = map(version.meta.paths.data, files)
    new = [(file, path) for file, path in zip(files, paths, strict=True) if cache.known((what, path)) is None]
    with version.unless_expired():
        side_by_side([lambda pair=pair: one(*pair) for pair in new], version.meta.env.workers)
