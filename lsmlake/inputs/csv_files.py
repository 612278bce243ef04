"""CSV files, read in sequence as Arrow tables of text.

No value is interpreted: "007" stays "007" until it is converted to the type of its column. An empty field is null, and so is a
field that is one of the `null_values`; in quotes they are text. `opened` recognises the delimiter from the first lines, and
refuses lines that several delimiters divide evenly. The quotes are checked while the file is read (`kernels.csv_quotes`).
"""

from __future__ import annotations

import csv as python_csv
import io
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import islice

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as csv

from lsmlake.errors import InvalidData, LakeError, Wording
from lsmlake.inputs import text_files
from lsmlake.inputs.text_files import FileOptions, TextFile
from lsmlake.kernels.csv_quotes import QuoteCheck

_DELIMITERS = ",", ";", "\t", "|"
"""The delimiters that are recognised."""
_NAMED = {"\t": "tab"}
_SAMPLE_BYTES = 1 << 20
_HEADER_BYTES, _BLOCK_BYTES = 1 << 16, 1 << 24
"""Types are inferred from a block of this size. A row has to fit into it."""
_HEXADECIMAL = r"^\s*[+-]?0[xX]"
_LEADING_ZERO, _INTEGER, _INTEGER_OF_38_DIGITS = r"^\s*[+-]?0\d", r"^\s*[+-]?\d+\s*$", r"^\s*[+-]?\d{1,38}\s*$"
_NULL_WORDS = (
    "NA",
    "N/A",
    "n/a",
    "#N/A",
    "#NA",
    "NULL",
    "Null",
    "null",
    "None",
    "none",
    "NaN",
    "nan",
    "nil",
    "\\N",
    "",
    "-",
    ".",
    "?",
)
"""Words that an error suggests as `null_values`."""
_SUGGESTED_LENGTH = 20
_TOLD, _TOLD_BYTES = re.compile(rb"\s*(\"?sep=[^\r\n]{1,2})[\r\n]", re.IGNORECASE), 64
"""The line that tells Excel the delimiter."""
_ROW = re.compile(r"Row #(\d+): Expected (\d+) columns, got (\d+): (.*)", re.DOTALL)


@dataclass(frozen=True)
class CsvFile:
    """A CSV file and how it is read. `recognised`: the recognised settings that differ from the defaults, for reports. `names`:
    the names of the columns, if no line of the file has them. `quoted_nulls`: a null word in quotes is null in columns of texts,
    too."""

    text: TextFile
    delimiter: str
    null_values: tuple[str, ...] = ()
    recognised: tuple[str, ...] = ()
    names: tuple[str, ...] | None = None
    quoted_nulls: bool = False

    @property
    def path(self) -> str:
        return self.text.path

    def columns(self) -> pa.Schema:
        """The columns, with types inferred from the first block. Raises InvalidData, pa.ArrowException."""
        words = [*csv.ConvertOptions().null_values, *self.null_values]
        with self._errors():
            with self._open(csv.ConvertOptions(null_values=words)) as reader:
                guessed = reader.schema
            texts = next((batch for batch in self._tables() if batch.num_rows), guessed.empty_table())
        self._check_header(guessed)
        decided = [_type_of_texts(field.type, column) for field, column in zip(guessed, texts.columns, strict=True)]
        return pa.schema(list(zip(self._names(guessed.names), decided, strict=True)))

    def tables(self, schema: pa.Schema | None) -> Iterator[pa.Table]:
        """The rows as text, a table per block; first a table without rows. Raises InvalidData, pa.ArrowException."""
        with self._errors():
            for number, table in enumerate(self._tables()):
                if number == 0:
                    names = self._names(table.column_names)
                    wanted = {field.name for field in schema or () if self.quoted_nulls or _is_no_text(field)}
                    extra = set() if schema is None else set(_made_up(table.column_names)) - set(schema.names)
                table = self._without_words(table.rename_columns(names), wanted)
                yield self._without_nameless(table, extra)

    def line_of(self, row: int) -> int | None:
        """The line in which a row begins; None if it cannot be found. Reads the file up to the row."""
        return self._line(row + (2 if self.names is None else 1))

    def cure(self, table: pa.Table, row: int, column: str, schema: pa.Schema) -> str | None:
        """The cure for a text that does not fit the type of its column, if the text may mean "no value"."""
        value = table[column][row].as_py()
        if not isinstance(value, str) or len(value) > _SUGGESTED_LENGTH:
            return None
        typed = [field.name for field in schema if _is_no_text(field) and field.name in table.column_names]
        columns = (pc.unique(table[name].filter(pc.is_in(table[name], pa.array(_NULL_WORDS)))) for name in typed)
        words = list(
            dict.fromkeys([*self.null_values, value, *(word for column in columns for word in column.to_pylist() if word)])
        )
        flags = " ".join(f"--null-value {word!r}" for word in words)
        return Wording(
            f"correct the value, or pass null_values={words!r} if it stands for no value",
            command=f"correct the value, or give {flags} if it stands for no value",
            sql=f"correct the value, or give FORMAT_OPTIONS ('nullValue' = {value!r}) if it stands for no value",
        )

    def header(self) -> list[str]:
        """The names in the first line. Raises InvalidData, pa.ArrowException."""
        with self._errors():
            try:
                with self._open(block=_HEADER_BYTES) as reader:
                    return reader.schema.names
            except pa.ArrowInvalid:  # a line may be longer than this block
                with self._open() as reader:
                    return reader.schema.names

    # -- reading --------------------------------------------------------------------------------------------------------

    def _tables(self) -> Iterator[pa.Table]:
        names = self.header() if self.names is None else list(self.names)
        convert = csv.ConvertOptions(
            column_types=dict.fromkeys(names, pa.string()),
            null_values=["", *self.null_values],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        )
        with self._open(convert) as reader:
            yield reader.schema.empty_table()
            for batch in reader:
                yield pa.Table.from_batches([batch])

    def _open(
        self, convert: csv.ConvertOptions | None = None, *, block: int | None = None, **reading: object
    ) -> csv.CSVStreamingReader:
        source = pa.PythonFile(_CheckedBytes(self.text, self.delimiter), mode="r")
        parsing = csv.ParseOptions(delimiter=self.delimiter, newlines_in_values=True)
        return csv.open_csv(
            source, csv.ReadOptions(column_names=self.names, block_size=block or _BLOCK_BYTES, **reading), parsing, convert
        )

    def _without_words(self, table: pa.Table, typed: set[str]) -> pa.Table:
        """The table with null for a null word in quotes, in columns whose type is not text."""
        words = pa.array(self.null_values, pa.string())
        for number, name in enumerate(table.column_names if self.null_values else ()):
            if name in typed:
                column = table[number]
                table = table.set_column(number, name, pc.if_else(pc.is_in(column, words), pa.scalar(None, pa.string()), column))
        return table

    def _without_nameless(self, table: pa.Table, extra: set[str]) -> pa.Table:
        """The table without the columns that have no name in the file, no place in the table and no value."""
        for name in extra:
            if table[name].null_count != table.num_rows:
                raise InvalidData(
                    "a column of the file has no name",
                    where=f"{self.path}, line 1",
                    expected="a name for every column that has values",
                    found=f"values in column {int(name[2:]) + 1}",
                    cure=Wording(
                        "name the column in the first line, or take it out of the file (pandas: to_csv(index=False))",
                        command="name the column in the first line, or take it out of the file",
                    ),
                )
        return table.drop_columns(sorted(extra)) if extra else table

    # -- names ----------------------------------------------------------------------------------------------------------

    def _names(self, header: list[str]) -> list[str]:
        """The names of the first line; a column without a name becomes `_c` and its number, as in Spark."""
        names = [name if name.strip() else f"_c{number}" for number, name in enumerate(header)]
        if len(set(names)) != len(names):
            twice = sorted({name for name in names if names.count(name) > 1})
            raise InvalidData(
                "two columns of the file have the same name",
                where=f"{self.path}, line 1",
                expected="names that differ",
                found=twice,
                cure="rename one of them in the first line of the file",
            )
        return names

    def _check_header(self, guessed: pa.Schema) -> None:
        """Refuses a first line that looks like a row: each of its fields is a value of the type that its column has."""
        typed = [field for field in guessed if not (pa.types.is_null(field.type) or pa.types.is_string(field.type))]
        named = all(name.strip() for name in guessed.names)
        if not (typed and named and all(map(_is_value, typed)) and any(map(_is_telling, typed))):
            return
        raise InvalidData(
            "the first line of the file looks like a row, not like the names of the columns",
            where=f"{self.path}, line 1",
            expected="the names of the columns",
            found=self.delimiter.join(guessed.names)[:100],
            cure="write the names of the columns into a line before it; if it has the names, rename those that are numbers or "
            "dates; or create the table with a schema, and load the file by COPY INTO, which reads files without names",
        )

    # -- errors ---------------------------------------------------------------------------------------------------------

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Adds the line number to an error of PyArrow."""
        try:
            yield
        except (pa.ArrowException, UnicodeDecodeError) as refused:
            raise self._error(str(refused)) or refused from refused

    def _error(self, refused: str) -> LakeError | None:
        if "straddl" in refused:
            return InvalidData(
                "a row is too long",
                where=self.path,
                expected=f"rows of at most {_BLOCK_BYTES >> 20} MiB",
                cure="shorten the row, or check that its quotes are closed",
            )
        if "Empty CSV" in refused:
            return InvalidData(
                "the file has no line with the names of the columns", where=self.path, cure="write one, or leave the file out"
            )
        if match := _ROW.search(refused) or ("Expected" in refused and _ROW.search(self._refused_by_one_thread())):
            number, expected, actual, content = match.groups()
            line = self._line(int(number))
            return InvalidData(
                f"a line has {actual} field" + "s" * (actual != "1"),
                where=f"{self.path}, line {line}" if line else f"{self.path}, record {number}",
                expected=f"{expected}, as in the first line",
                found=content[:100],
                cure=Wording(
                    f"correct the line; take lines before the names of the columns out of the file; or pass delimiter= if it is "
                    f"not {_NAMED.get(self.delimiter, self.delimiter)!r}",
                    command="correct the line; take lines before the names of the columns out of the file; or give --delimiter "
                    f"if it is not {_NAMED.get(self.delimiter, self.delimiter)!r}",
                ),
            )
        return self.text.unreadable()

    def _refused_by_one_thread(self) -> str:
        """The error of PyArrow with the number of the row, which it gives if it reads without threads."""
        try:
            with self._open(use_threads=False) as reader:
                for _ in reader:
                    pass
        except pa.ArrowException as refused:
            return str(refused)
        return ""

    def _line(self, record: int) -> int | None:
        """The first line of a record, counted from 1, empty lines left out."""
        with io.TextIOWrapper(io.BufferedReader(_Raw(self.text)), "utf-8", errors="replace", newline="") as lines:
            reader = python_csv.reader(lines, delimiter=self.delimiter)
            try:
                ends = (reader.line_num for fields in reader if fields)
                before = next(islice(ends, record - 2, None), None) if record > 1 else 0
            except python_csv.Error:  # a field longer than Python's limit
                return None
            return None if before is None else before + 1


class _CheckedBytes:
    """The bytes of a CSV file for PyArrow. Raises InvalidData for quotes that it would read wrongly."""

    def __init__(self, text: TextFile, delimiter: str) -> None:
        self._text, self._stream = text, text.open()
        self._check, self._lines, self._opened_line = QuoteCheck(delimiter), 1, 1
        self.closed = False

    def read(self, size: int = -1) -> bytes:
        start, data = self._check.offset, self._stream.read(size)
        fault = self._check.fault(data, last=not data)
        if fault is not None:
            raise self._broken(self._line(data, fault - start))
        if self._check.opened is not None:
            self._opened_line = self._line(data, self._check.opened - start)
        self._lines += data.count(b"\n")
        return data

    def _line(self, data: bytes, place: int) -> int:
        return self._lines + data.count(b"\n", 0, place) if place >= 0 else self._opened_line

    def close(self) -> None:
        self._stream.close()
        self.closed = True

    def _broken(self, line: int) -> InvalidData:
        return InvalidData(
            "a quote is not closed, or a quote inside of a field in quotes is not doubled",
            where=f"{self._text.path}, line {line}",
            expected='fields such as "a ""b"" c", with a delimiter or a line end behind the last quote',
            cure='write each quote inside of a field in quotes twice, not as \\", and close the field',
        )


class _Raw(io.RawIOBase):
    def __init__(self, text: TextFile) -> None:
        self._stream = text.open()

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:
        data = self._stream.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)


# -- recognition --------------------------------------------------------------------------------------------------------


def opened(path: str, default: str, options: FileOptions) -> CsvFile:
    """A CSV file, with its encoding and delimiter. `default`: the delimiter of files with its suffix. Raises InvalidData."""
    text = text_files.opened(path, options.encoding)
    check_first_line(text)
    recognised = [f"{text.encoding.upper()} by its byte order mark"] if text.marked else []
    delimiter = options.delimiter
    if delimiter is None:
        delimiter = _delimiter(text, default)
        recognised += [f"delimiter {_NAMED.get(delimiter, delimiter)!r}"] if delimiter != default else []
    file = CsvFile(text, delimiter, options.null_values)
    nameless = _made_up(file.header())
    recognised += [f"columns without a name: {', '.join(nameless)}"] if nameless else []
    return replace(file, recognised=tuple(recognised))


def check_first_line(text: TextFile) -> None:
    """Refuses the line that tells Excel the delimiter."""
    try:
        with text.open() as stream:
            match = _TOLD.match(stream.read(_TOLD_BYTES))
    except UnicodeDecodeError:  # the error of reading the file names the line
        return
    if match:
        raise InvalidData(
            "the first line of the file tells Excel the delimiter",
            where=f"{text.path}, line 1",
            expected="the names of the columns",
            found=match[1].decode(errors="replace"),
            cure="take the line out of the file",
        )


def _made_up(names: list[str]) -> list[str]:
    return [f"_c{number}" for number, name in enumerate(names) if not name.strip()]


def _delimiter(text: TextFile, default: str) -> str:
    try:
        with text.open() as stream:
            sample = stream.read(_SAMPLE_BYTES)
    except UnicodeDecodeError:
        raise text.unreadable() or InvalidData("the file cannot be decoded", where=text.path, cure="correct the file") from None
    whole = len(sample) < _SAMPLE_BYTES
    sample = sample.decode(errors="replace").encode()  # bytes that are not UTF-8 are refused later
    first = next((line for line in sample.splitlines() if line.strip()), b"").decode(errors="replace")
    candidates = [one for one in dict.fromkeys((default, *_DELIMITERS)) if one in first]
    if not candidates or candidates == [default]:
        return default
    even = [one for one in candidates if _divides_evenly(sample if whole else sample[: sample.rfind(b"\n") + 1], one, whole)]
    if len(even) == 1:
        return even[0]
    if not even and default in candidates:
        return default  # the reader names the line that differs
    names = [_NAMED.get(one, one) for one in even or (default, *candidates)]
    raise InvalidData(
        "the delimiter cannot be told: " + ("several divide all lines evenly" if even else "none divides all lines evenly"),
        where=text.path,
        expected="one delimiter",
        found=" or ".join(map(repr, names)),
        cure=Wording(
            f"pass the delimiter, such as delimiter={(even or candidates)[-1]!r}",
            command=f"give the delimiter, such as --delimiter {names[-1]!r}",
        ),
    )


def _divides_evenly(sample: bytes, delimiter: str, whole: bool) -> bool:
    """Whether all rows have the same number of fields, at least 2. The last row of a part of a file may be cut."""
    refused: list[int] = []

    def refuse(row: csv.InvalidRow) -> str:
        refused.append(row.number)
        return "skip"

    parse = csv.ParseOptions(delimiter=delimiter, newlines_in_values=True, invalid_row_handler=refuse)
    reading = csv.ReadOptions(autogenerate_column_names=True, use_threads=False, block_size=len(sample) + 1)
    try:
        with csv.open_csv(pa.BufferReader(sample), reading, parse) as reader:
            columns, rows = len(reader.schema), sum(batch.num_rows for batch in reader)
    except pa.ArrowException:
        return False
    if QuoteCheck(delimiter).fault(sample, last=whole) is not None:
        return False
    return columns > 1 and (not refused or (not whole and refused == [rows + 1]))


# -- types --------------------------------------------------------------------------------------------------------------


def _is_no_text(field: pa.Field) -> bool:
    return not (pa.types.is_string(field.type) or pa.types.is_binary(field.type))


def _is_value(field: pa.Field) -> bool:
    """Whether the name of a column is a value of its type."""
    try:
        pa.scalar(field.name.strip()).cast(field.type)
        return True
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return False


def _is_telling(field: pa.Field) -> bool:
    """Whether a name that is a value tells of a row: a whole number, such as a year, may be the name of a column of fractions."""
    return not (pa.types.is_floating(field.type) and field.name.strip().isdigit())


def _type_of_texts(guessed: pa.DataType, texts: pa.ChunkedArray) -> pa.DataType:
    """The column type for texts that PyArrow infers as type `guessed`."""
    t = pa.types
    if t.is_time(guessed) or t.is_null(guessed):
        return pa.string()  # Spark infers no times of day
    if t.is_integer(guessed) or t.is_floating(guessed):
        if pc.any(pc.match_substring_regex(texts, _LEADING_ZERO)).as_py():
            return pa.string()
        if pc.any(pc.match_substring_regex(texts, _HEXADECIMAL)).as_py():
            return pa.string()
        if t.is_floating(guessed) and pc.all(pc.match_substring_regex(texts, _INTEGER)).as_py():
            short = pc.all(pc.match_substring_regex(texts, _INTEGER_OF_38_DIGITS)).as_py()
            return pa.decimal128(38, 0) if short else pa.string()
    return guessed
