"""Reads the indexes of data files: from the manifest entry or from the file beside the data file."""

from __future__ import annotations

from lsmlake.format import file_index
from lsmlake.format.file_index import NOTHING, FileIndex
from lsmlake.format.files import DataFile
from lsmlake.tables.table_files import TableFiles


def index_of_file(files: TableFiles, file: DataFile) -> FileIndex:
    """The index of a data file, cached. Raises Corrupt, UnsupportedFormat, TableNotFound."""
    if file.index is None and file.index_bytes is None:
        return NOTHING
    path = files.paths.index(file)

    def read() -> FileIndex:
        if file.index is not None:
            return file_index.decode(file.index, file.rows, f"{files.paths.data(file)}, its index in the manifest")
        return file_index.decode(files.read(path, file.index_bytes), file.rows, path)

    return files.cache.get(path, read, lambda found: found.bytes)
