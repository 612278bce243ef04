"""How users say that text files are to be read: the words that mean null, the delimiter, the encoding."""

from __future__ import annotations

import codecs
from collections.abc import Sequence
from dataclasses import dataclass

from lsmlake.errors import InvalidData, Wording

_TAB = "\\t"
_NO_DELIMITERS = '"\r\n'


@dataclass(frozen=True)
class FileOptions:
    """`null_values`: words that mean null, beside the empty field. `delimiter`, `encoding`: None: recognised."""

    null_values: tuple[str, ...] = ()
    delimiter: str | None = None
    encoding: str | None = None

    @staticmethod
    def of(null_values: str | Sequence[str] | None, delimiter: str | None, encoding: str | None) -> FileOptions:
        """The options of a call. Raises InvalidData."""
        words = (null_values,) if isinstance(null_values, str) else tuple(null_values or ())
        separator = None if delimiter is None else _checked_delimiter(delimiter)
        return FileOptions(words, separator, None if encoding is None else _checked_encoding(encoding))

    @property
    def given(self) -> dict[str, object]:
        """The options that are set."""
        found = {"null_values": list(self.null_values), "delimiter": self.delimiter, "encoding": self.encoding}
        return {name: value for name, value in found.items() if value}

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
        found = codecs.lookup(encoding)
        "".encode(encoding)  # a codec that makes no text, such as base64, refuses this
        known = found.incrementaldecoder is not None
    except (LookupError, UnicodeError, ValueError):
        known = False
    if not known:
        raise InvalidData(
            "not an encoding",
            expected="an encoding that Python knows, such as 'latin-1', 'cp1252' or 'utf-16'",
            found=repr(encoding),
            cure="name the encoding that the files were written in",
        )
    return found.name
