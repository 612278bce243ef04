"""The text of a JSON file: an object per line, objects over several lines, or an array of objects.

A file is read whole. `kernels.json_lines` puts every object on one line, where PyArrow finds it; `inputs.json_files` decides the
types of the columns.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as json

from lsmlake.errors import InvalidData
from lsmlake.inputs import text_files
from lsmlake.kernels import json_lines

_BLOCK_BYTES = 1 << 20
_SAMPLE_BYTES = 1 << 20
_SHOWN = 60
_LINE_END, _OBJECT = b"\n{"
_BLANK = np.zeros(256, bool)
_BLANK[list(b" \t\r")] = True
_ROW = re.compile(r"^(?:JSON parse error: )?(.*?)(?: in row (\d+))?$", re.DOTALL)
_STRING = r'"[^"\\]*(?:\\.[^"\\]*)*"'
_NOT_NUMBERS = r"[^0-9.eE+-]+"
_SMALL = r"^-?[0-9.]*[1-9][0-9.]*[eE]-0*[0-9]{3,}$|^-?0\.0{307,}[0-9]*[1-9]"
"""Matches numbers that may be too small for a DOUBLE."""
_ZEROS, _ZERO = re.compile(rb"0\.0{307}"), r"^-?[0.]+(?:[eE].*)?$"
_OTHER_TYPE = re.compile(r"Column\(/(.*)\) changed from (\w+) to (\w+)")


@dataclass(frozen=True)
class JsonFile:
    """The text of a JSON file. `lines`: the same text, of the same length, with one object in each line. `recognised`: the
    recognised settings that differ from the defaults, for reports."""

    path: str
    text: pa.Buffer
    lines: pa.Buffer
    recognised: tuple[str, ...]

    def rows(self, explicit: dict[str, pa.DataType]) -> pa.Table:
        """All rows; columns have the `explicit` types or inferred ones. Raises pa.ArrowException."""
        return self._rows(explicit, max(_BLOCK_BYTES, int(np.diff(self._ends, prepend=-1).max()) + 2))

    def line_of(self, row: int) -> int | None:
        """The line in which the object of a row begins; None if it cannot be found."""
        starts = self._starts
        if row >= len(starts):
            return None
        return int(np.count_nonzero(np.frombuffer(self.text, np.uint8)[: starts[row]] == _LINE_END)) + 1

    def check_small(self) -> None:
        """Raises InvalidData for a number other than zero that is zero as a DOUBLE. PyArrow takes such numbers, and refuses those
        that are too great."""
        data = np.frombuffer(self.lines, np.uint8)
        minus = np.flatnonzero(data[1:-3] == ord("-")) + 1
        minus = minus[(data[minus - 1] | 0x20) == ord("e")]
        digits = [(data[minus + place] >= ord("0")) & (data[minus + place] <= ord("9")) for place in (1, 2, 3)]
        places = np.append(minus[np.logical_and.reduce(digits)], [one.start() for one in _ZEROS.finditer(self.lines)])
        lines = np.unique(np.searchsorted(self._ends, places))
        offsets = np.append(np.append(0, self._ends[:-1] + 1), len(self.lines))
        every = pa.Array.from_buffers(pa.large_string(), len(self._ends), [None, pa.py_buffer(offsets), self.lines])
        numbers = pc.split_pattern_regex(pc.replace_substring_regex(every.take(pa.array(lines)), _STRING, ""), _NOT_NUMBERS)
        owners, texts = pc.list_parent_indices(numbers), numbers.flatten()
        small = pc.match_substring_regex(texts, _SMALL)
        owners, texts = owners.filter(small), texts.filter(small)
        zero = pc.and_(pc.equal(texts.cast(pa.float64()), 0), pc.invert(pc.match_substring_regex(texts, _ZERO)))
        if (first := pc.index(zero, True).as_py()) >= 0:
            row = int(np.searchsorted(self._starts, offsets[lines[owners[first].as_py()]]))
            raise InvalidData(
                "a number is too small for a DOUBLE, in which it would be zero",
                where=f"{self.path}, line {self.line_of(row)}",
                found=texts[first],
                cure="correct the file: write 0, or write the number as a text for a STRING column",
            )

    def error(self, refused: str) -> InvalidData:
        """The error for text that PyArrow refuses."""
        what, row = _ROW.fullmatch(self._refused_in_one_block() or refused).groups()
        line = None if row is None else self.line_of(int(row))
        where = self.path if line is None else f"{self.path}, line {line}"
        if match := _OTHER_TYPE.search(what):
            column, before, now = match.groups()
            return InvalidData(
                "values of one column have different types",
                where=f"{where}, column {column.split('/')[0]!r}",
                expected=f"{before}, as in the table or in rows before",
                found=f"{now} in {column}",
                cure="write the values with one type; in Python, json.load the file, make the values of the column text, and "
                "pass the list of dicts",
            )
        return InvalidData("the file cannot be read", where=where, found=what, cure="correct the file")

    def _no_object(self, row: int) -> InvalidData:
        start = int(self._starts[row])
        return InvalidData(
            "a row of the file is not an object",
            where=f"{self.path}, line {self.line_of(row)}",
            expected='an object in each line, or one array of objects: [{"id": 1}, {"id": 2}]',
            found=repr(self.lines.slice(start, min(_SHOWN, len(self.lines) - start)).to_pybytes().split(b"\n")[0])[1:],
            cure="write each row as an object; in Python, json.load the file and pass a list of dicts",
        )

    def _rows(self, explicit: dict[str, pa.DataType], block: int) -> pa.Table:
        starts = self._starts
        if not len(starts):
            return pa.table({})
        other = np.flatnonzero(np.frombuffer(self.lines, np.uint8)[starts] != _OBJECT)
        if len(other):
            raise self._no_object(int(other[0]))
        options = json.ParseOptions(explicit_schema=pa.schema(explicit))
        return json.read_json(pa.BufferReader(self.lines), json.ReadOptions(block_size=block), options)

    def _refused_in_one_block(self) -> str:
        """The error of PyArrow with the number of the row in the file: it counts the rows of each block."""
        try:
            self._rows({}, len(self.lines) + 2)
        except pa.ArrowException as refused:
            return str(refused)
        return ""

    @cached_property
    def _ends(self) -> np.ndarray:
        """Where each line ends."""
        return np.append(np.flatnonzero(np.frombuffer(self.lines, np.uint8) == _LINE_END), len(self.lines))

    @cached_property
    def _starts(self) -> np.ndarray:
        """Where each row begins: the first byte of each line that is not white space."""
        data = np.append(np.frombuffer(self.lines, np.uint8), np.uint8(_LINE_END))
        starts = np.append(0, self._ends[:-1] + 1)
        blank = _BLANK[data[starts]]
        while blank.any():
            starts[blank] += 1
            blank = _BLANK[data[starts]]
        return starts[data[starts] != _LINE_END]


def opened(path: str, encoding: str | None) -> JsonFile:
    """A JSON file, read whole. Raises InvalidData, OSError."""
    source = text_files.opened(path, encoding)
    try:
        with source.open() as stream:
            text = stream.read_buffer()
    except UnicodeDecodeError as broken:
        raise source.unreadable() or InvalidData("the file cannot be decoded", where=path, cure="correct the file") from broken
    if not _is_utf_8(text):
        raise source.unreadable()
    begin = text.slice(0, min(_SAMPLE_BYTES, len(text))).to_pybytes()
    array = json_lines.is_array(begin)
    recognised = [f"{source.encoding.upper()} by its byte order mark"] if source.marked else []
    recognised += ["an array of objects"] if array else []
    if not array and not json_lines.is_split(begin):
        return JsonFile(path, text, text, tuple(recognised))
    lines = json_lines.one_line_each(text.to_pybytes())
    if lines is None:
        raise InvalidData(
            "the JSON text ends inside of an array, an object or a string",
            where=path,
            expected="a closing bracket for each opening one",
            cure="write the file again: it may be cut",
        )
    return JsonFile(path, text, pa.py_buffer(lines), tuple(recognised))


def _is_utf_8(text: pa.Buffer) -> bool:
    try:
        offsets = pa.py_buffer(np.array([0, len(text)], np.int64))
        pa.Array.from_buffers(pa.large_string(), 1, [None, offsets, text]).validate(full=True)
        return True
    except pa.ArrowInvalid:
        return False
