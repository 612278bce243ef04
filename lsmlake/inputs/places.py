"""The rows of files, and the file and line of a row that does not fit."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from lsmlake.errors import InvalidData, RowPlace, Wording
from lsmlake.inputs import input_files
from lsmlake.inputs.csv_files import CsvFile
from lsmlake.inputs.excel_files import ExcelFile
from lsmlake.inputs.text_files import FileOptions


class PlacedTables:
    """The tables of files in their order, an iterator. It knows where its last table comes from.

    `schema`: the columns of the table that the rows are for, if they are known. `guessed`: their types were inferred from the
    first rows.
    """

    def __init__(self, tables: Iterator[tuple[input_files.InputFile, pa.Table]], schema: pa.Schema | None) -> None:
        self.schema, self.guessed = schema, False
        self._tables = tables
        self._file: input_files.InputFile | None = None  # the file of the last table
        self._last, self._row, self._file_row = pa.table({}), 0, 0  # its first row: in all files, and in its file

    def __iter__(self) -> Iterator[pa.Table]:
        return self

    @property
    def row(self) -> int:
        """The number of the first row of the last table, counted through all files."""
        return self._row

    def __next__(self) -> pa.Table:
        self._row, self._file_row = self._row + self._last.num_rows, self._file_row + self._last.num_rows
        self._file, self._last, before = None, pa.table({}), self._file
        file, table = next(self._tables)
        if file is not before:
            self._file_row = 0
        self._file, self._last = file, table
        return table

    def placed(self, error: InvalidData) -> InvalidData:
        """`error`, raised while the last table was written, with its file and line."""
        file, where = self._file, error.where
        if file is None or where.startswith(file.path):
            return error
        cure = error.cure
        if isinstance(where, RowPlace):
            row = where.row - self._row
            line = file.line_of(self._file_row + row)
            cure = self._cure(file, where, row, error)
            where = RowPlace(where.column, self._file_row + row)
            where = f"line {line}, {where}" if line else where
        place = f"{file.path}, {where}" if where else file.path
        return error.changed(where=place, cure=cure)

    def _cure(self, file: input_files.InputFile, where: RowPlace, row: int, error: InvalidData) -> str:
        if self.schema is None or not where.column or error.what != "a value does not fit":
            return error.cure
        cure = error.cure
        if isinstance(file, CsvFile):
            names = {f"column {name!r}": name for name in self._last.column_names}
            cure = file.cure(self._last, row, names[where.column], self.schema) or cure
        elif isinstance(file, ExcelFile):
            cure = file.cure(error.cure)
        if not self.guessed:
            return cure
        further = "; the type was inferred from the rows before, so you may also create the table with a schema"
        return Wording(cure + further, command=(cure.command if isinstance(cure, Wording) else cure) + further)


class FileTables(PlacedTables):
    """The tables of the files `paths`, read as recognised or as `options` say."""

    def __init__(self, paths: list[str], schema: pa.Schema | None, options: FileOptions) -> None:
        super().__init__(self._read(), schema)
        self._paths, self._options = paths, options
        self._ways: dict[tuple[str, ...], list[str]] = {}  # what was recognised -> the files
        self._first: input_files.InputFile | None = None  # opened before it is read

    def _read(self) -> Iterator[tuple[input_files.InputFile, pa.Table]]:
        for path in self._paths:
            file, self._first = self._first or input_files.opened(path, self._options), None
            self._ways.setdefault(file.recognised, []).append(path)
            for table in input_files.read(file, self.schema):
                yield file, table

    def inferred(self) -> pa.Schema:
        """The columns of the first file, see `input_files.inferred`."""
        self._first = input_files.opened(self._paths[0], self._options)
        return input_files.inferred(self._first)

    @property
    def recognised(self) -> list[dict[str, object]]:
        """What was recognised in the files that have been read: an item for each way in which files are read, with its first file
        and the number of files."""
        ways = self._ways.items()
        return [{"file": paths[0], "files": len(paths), "recognised": list(facts)} for facts, paths in ways if facts]


def sentence(recognised: dict[str, object]) -> str:
    """A sentence that says what was recognised, for a report."""
    others = f" and {recognised['files'] - 1} more" if recognised["files"] > 1 else ""
    return f"{recognised['file']}{others}: read as {', '.join(recognised['recognised'])}"
