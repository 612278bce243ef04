"""Text files as UTF-8: decompressed, decoded, and without a byte order mark; and the options that say how they are read: the
words that mean null, the delimiter, the encoding.

A byte order mark tells the encoding of a file. Without one, a file is UTF-8: any other encoding would be a guess that changes
letters without an error, so bytes that are not UTF-8 are refused, with the line and the encodings that the line could have.
"""

from __future__ import annotations

import codecs
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import pyarrow as pa

from lsmlake.errors import InvalidData, Wording

_CODECS = {"gz": "gzip", "bz2": "bz2", "zst": "zstd", "lz4": "lz4"}
COMPRESSED = tuple(_CODECS)
UTF_8 = "utf-8"
_MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF8, UTF_8),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_GUESSES = "cp1252", "latin-1"
_NEED_A_MARK = "utf-16", "utf-32"
"""Encodings whose order of bytes a mark says."""
_NO_TEXT = (
    (b"PK\x03\x04", "a zip file or an Excel workbook", "such as .xlsx, or unpack it"),
    (b"PAR1", "a Parquet file", "which is .parquet"),
    (b"\x1f\x8b", "a file compressed by gzip", "which ends in .gz, such as .csv.gz"),
    (b"BZh", "a file compressed by bzip2", "which ends in .bz2, such as .csv.bz2"),
    (b"\x28\xb5\x2f\xfd", "a file compressed by zstd", "which ends in .zst, such as .csv.zst"),
)
"""The first bytes of files that are no text, what they are, and the suffix that they need."""
_NAME_IT = "name the encoding that the file was written in"
_CHUNK = 1 << 20
_SHOWN = 60
"""Bytes of a line in an error."""


class TextFile(NamedTuple):
    """A text file. `marked`: a byte order mark tells the encoding."""

    path: str
    encoding: str
    marked: bool

    def open(self) -> pa.NativeFile:
        """The text as UTF-8. Its reads raise UnicodeDecodeError for bytes of another encoding, except those of UTF-8 files."""
        stream = _decompressed(self.path)
        if self.encoding != UTF_8:
            return pa.transcoding_input_stream(stream, self.encoding, UTF_8)
        if self.marked:
            stream.read(len(codecs.BOM_UTF8))
        return stream

    def unreadable(self) -> InvalidData | None:
        """The error for the first bytes that are not of the encoding; None if all are."""
        decoder, before, lines = codecs.getincrementaldecoder(self.encoding)(), b"", 1
        with _decompressed(self.path) as stream:
            while True:
                chunk = stream.read(_CHUNK)
                try:
                    made = decoder.decode(chunk, final=not chunk)
                except UnicodeDecodeError as error:
                    ahead = error.object[: error.start]
                    line = lines + ahead.count(b"\n")
                    if not chunk:
                        return self._cut(line, error.object[error.start :])
                    return self._not_of(
                        line, (before + error.object)[: len(before) + error.end + _SHOWN], len(before) + error.start
                    )
                if not chunk:
                    return None
                lines, before = lines + made.count("\n"), chunk[chunk.rfind(b"\n") + 1 :][-_SHOWN:]

    def _cut(self, line: int, rest: bytes) -> InvalidData:
        return InvalidData(
            "the file ends inside of a character",
            where=f"{self.path}, line {line}",
            expected=f"text in {self.encoding.upper()}",
            found=repr(rest)[1:],
            cure="write the file again: it may be cut"
            + ("" if self.marked else "; or name the encoding that it was written in, if this is another one"),
        )

    def _not_of(self, line: int, data: bytes, place: int) -> InvalidData:
        start = max(data.rfind(b"\n", 0, place) + 1, place - _SHOWN // 2)
        end = data.find(b"\n", place)
        shown = data[start : end if end >= 0 else len(data)].rstrip(b"\r")[:_SHOWN]
        readings = {name: text for name in _GUESSES if (text := _decoded(shown, name)) is not None}
        cure = Wording(
            "pass the encoding that the file was written in: "
            + "; or ".join(f"encoding={name!r} reads this as {text!r}" for name, text in readings.items()),
            command="give the encoding that the file was written in: "
            + "; or ".join(f"--encoding {name} reads this as {text!r}" for name, text in readings.items()),
            sql="give the encoding that the file was written in, such as FORMAT_OPTIONS ('encoding' = 'latin-1')",
        )
        return InvalidData(
            f"the file is not {self.encoding.upper()}",
            where=f"{self.path}, line {line}",
            expected=f"text in {self.encoding.upper()}",
            found=repr(shown)[1:],
            cure=self._cure_of_mark() if self.marked else cure if self.encoding == UTF_8 else _NAME_IT,
        )

    def _cure_of_mark(self) -> str:
        return (
            f"write the file again in {self.encoding.upper()}, as its byte order mark says: text of another encoding was "
            "added to it; or take the mark out of the file and name its encoding"
        )


def opened(path: str, encoding: str | None) -> TextFile:
    """A text file. `encoding`: None: it is recognised. Raises InvalidData, OSError."""
    with _decompressed(path) as stream:
        begin = stream.read(1024)
    for mark, what, suffix in _NO_TEXT:
        if begin.startswith(mark):
            raise InvalidData(
                "the file is no text",
                where=path,
                expected="text, as the name of the file says",
                found=what,
                cure=f"give the file the suffix of its format, {suffix}",
            )
    mark = next(((mark, name) for mark, name in _MARKS if begin.startswith(mark)), None)
    if mark is None:
        if begin and encoding in _NEED_A_MARK:
            what = f"the file has no byte order mark, which {encoding} needs"
            expected = "a byte order mark, or the order of the bytes in the encoding"
            raise _unknown_order(path, begin, what, expected, f"{encoding}-le", f"or {encoding}-be")
        if encoding is None and begin.count(b"\0") * 4 > len(begin):
            order = "le" if begin[1::2].count(b"\0") >= begin[::2].count(b"\0") else "be"
            what = "the file has no byte order mark, and many of its bytes are zero"
            expected = "UTF-8, or a byte order mark"
            raise _unknown_order(path, begin, what, expected, f"utf-16-{order}", "if it is text in UTF-16")
        return TextFile(path, encoding or UTF_8, False)
    if encoding is not None and not encoding.startswith(mark[1]):
        raise InvalidData(
            f"the byte order mark of the file is that of {mark[1].upper()}",
            where=path,
            expected=f"encoding={mark[1]!r}, or none",
            found=f"encoding={encoding!r}",
            cure=Wording("leave the encoding out: the mark tells it", command="leave --encoding out: the mark tells it"),
        )
    return TextFile(path, mark[1], True)


def _unknown_order(path: str, begin: bytes, what: str, expected: str, encoding: str, rest: str) -> InvalidData:
    """The error for a file without a byte order mark. `encoding` and `rest`: what to give."""
    cure = Wording(
        f"pass encoding={encoding!r} {rest}",
        command=f"give --encoding {encoding} {rest}",
        sql=f"give FORMAT_OPTIONS ('encoding' = '{encoding}') {rest}",
    )
    return InvalidData(what, where=path, expected=expected, found=repr(begin[:16])[1:], cure=cure)


def _decompressed(path: str) -> pa.NativeFile:
    suffix = path.rpartition(".")[2].lower()
    return pa.input_stream(path, compression=_CODECS.get(suffix))


def _decoded(data: bytes, encoding: str) -> str | None:
    """The text of the bytes, None if they have no printable text in this encoding."""
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError:
        return None
    return text if text.replace("\t", " ").isprintable() or encoding == _GUESSES[-1] else None


# -- options ----------------------------------------------------------------------------------------------------------


_TAB = "\\t"
_NO_DELIMITERS = '"\r\n'


@dataclass(frozen=True)
class FileOptions:
    """`null_values`: words that mean null, beside the empty field. `delimiter`, `encoding`: None: they are recognised."""

    null_values: tuple[str, ...] = ()
    delimiter: str | None = None
    encoding: str | None = None

    @staticmethod
    def of(null_values: str | Collection[str] | None, delimiter: str | None, encoding: str | None) -> FileOptions:
        """The options of a call. Raises InvalidData."""
        words = (null_values,) if isinstance(null_values, str) else tuple(null_values or ())
        separator = None if delimiter is None else _checked_delimiter(delimiter)
        return FileOptions(words, separator, None if encoding is None else _checked_encoding(encoding))

    @property
    def given(self) -> dict[str, object]:
        """The options that are set."""
        options = {"null_values": list(self.null_values), "delimiter": self.delimiter, "encoding": self.encoding}
        return {name: value for name, value in options.items() if value}

    def check(self, known: Sequence[str], where: str, what: str) -> None:
        """Raises InvalidData for an option outside of `known`. `what`: the data, in the plural."""
        for name, value in self.given.items():
            if name not in known:
                flag = {"null_values": "null-value"}.get(name, name)
                raise InvalidData(
                    f"{name} does not apply to {what}",
                    where=where,
                    expected=", ".join(known) if known else "data without options for text files",
                    found=f"{name}={value!r}",
                    cure=Wording(
                        f"leave {name} out, or write the files that it applies to on their own",
                        command=f"leave --{flag} out, or load the files that it applies to on their own",
                    ),
                )


def _checked_delimiter(delimiter: str) -> str:
    delimiter = "\t" if delimiter == _TAB else delimiter
    if len(delimiter) != 1 or not delimiter.isascii() or delimiter in _NO_DELIMITERS:
        raise InvalidData(
            "not a delimiter",
            expected="one ASCII character that is no quote and no line end, such as ';'",
            found=repr(delimiter),
            cure="name the character between the fields of a line",
        )
    return delimiter


def _checked_encoding(encoding: str) -> str:
    try:
        codec = codecs.lookup(encoding)
        "".encode(encoding)  # a codec that makes no text, such as base64, refuses this
        known = codec.incrementaldecoder is not None
    except (LookupError, UnicodeError, ValueError):
        known = False
    if not known:
        raise InvalidData(
            "not an encoding",
            expected="an encoding that Python knows, such as 'latin-1', 'cp1252' or 'utf-16'",
            found=repr(encoding),
            cure="name the encoding that the files were written in",
        )
    return codec.name
