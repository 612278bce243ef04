"""Numbers as change events write them. Pure.

Parsers of JSON read a number with a fraction or an exponent as DOUBLE and print it anew, and do not tell a number from a text
with the same characters. Where that counts, events are parsed with marks: each number, true and false becomes a string that
begins with a mark, so the parser leaves it as it is.

1. `in_doubt` finds the texts of a column that an event may write otherwise.
2. `marked` makes events with marks, which are parsed again. Documents of MongoDB may be strings inside of events; the query
   marks their numbers (`cdc.event_queries`).
3. `unmarked` takes the marks off the texts. Columns that tell numbers from texts keep `MARK` (`tells_numbers`).
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lsmlake.kernels.search import contains
from lsmlake.types.type_table import is_bytes, is_text

MARK = "\ufdd0"
"""A character that Unicode reserves for such internal use."""
STRING = r'"[^"\\]*(?:\\.[^"\\]*)*"'
TOKEN = r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?|true|false|NaN|-?Infinity"
"""Values that get a mark."""
OTHERS = r'[^"0-9tfNI-]'
"""The characters of JSON, outside of strings, with which no such value begins."""
PRINTED_ANEW = (
    r"[:\[,]\s*-?(?:[0-9]+(?:\.[0-9]+)?[eE]|[0-9]{8,}\.|[0-9]+\.[0-9]{8,}|[0-9]+\.[0-9]+0\s*[,\]}]|0\.00|[NI])"
    r"|[:\[,]\s*-0\s*[,\]}]"
)
"""Matches events with a number that a parser may print with other characters."""
PRINTED_ANEW_IN_JAVA = (
    r"[:\[,]\s*+-?+(?=[0-9NI])(?:[0-9]++(?:\.[0-9]++)?+[eE]|[0-9]{8,}+\.|[0-9]++\.[0-9]{8}|[0-9]++\.[0-9][0-9]++(?<=0)\s*+[,\]}]"
    r"|0\.00|[NI]|(?<=-)0\s*+[,\]}])"
)
"""The same for Java, which never goes back in a text where that cannot help: twice as fast."""
NUMBERS = rf"((?:{STRING}|{OTHERS})*)({TOKEN}|\z)"
"""Matches JSON up to the end of the next number, or up to its end."""
_DIGITS = b"0123456789"
_PRINTED_NUMBER = r"^-?(?:0|[0-9]+\.[0-9]+(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+|NaN|Infinity)$"
_PRINTED_INSIDE = r"[:\[,]-?(?:[0-9]+[.eE]|0[,\]}]|[NI])"
_ROUNDED = r"^-?(?:0|[0-9]+\.[0-9]+|[0-9.]+[eE].*)$"
_ROUNDED_DIGITS = 17
_NUMBER_OR_TRUTH = r"^(?:-?[0-9][0-9.eE+-]*|true|false)$"
DIGITS_OF_BOTH = r"^(?:[0-9]{4})+$"
"""Matches digits that may be a number or base64."""


def tells_numbers(type_: pa.DataType, *, decimals: bool) -> bool:
    """Whether a column reads numbers otherwise than texts: BINARY and, if texts of `decimals` may be bytes, DECIMAL."""
    return is_bytes(type_) or (decimals and pa.types.is_decimal(type_))


def in_doubt(texts: pa.Array, events: pa.Array, type_: pa.DataType, *, decimals: bool) -> np.ndarray | None:
    """Flags the texts of a column of this type that their event may write otherwise, or of which nothing tells if they are
    numbers; None: there are none. `decimals`: texts of decimals may be bytes."""
    look = _Look(texts)
    kinds = look.of_unknown_kind(type_) if tells_numbers(type_, decimals=decimals) else None
    printed = look.printed(type_)
    if printed is not None and len(printed):
        printed = printed[np.asarray(pc.match_substring_regex(events.take(pa.array(printed)), PRINTED_ANEW))]
    rows = [one for one in (kinds, printed) if one is not None and len(one)]
    if not rows:
        return None
    flags = np.zeros(len(texts), bool)
    flags[np.concatenate(rows)] = True
    return flags


class _Look:
    """Texts, of which few are matched with a pattern: their first bytes and lengths leave out the others."""

    def __init__(self, texts: pa.Array) -> None:
        self.texts = texts
        _, offsets, data = texts.buffers()
        ends = (
            np.frombuffer(offsets, np.int32)[texts.offset : texts.offset + len(texts) + 1] if offsets else np.zeros(1, np.int32)
        )
        self.data = np.frombuffer(data, np.uint8)[ends[0] : ends[-1]] if data else np.zeros(0, np.uint8)
        self.lengths = np.diff(ends)
        self.first = np.zeros(len(texts), np.uint8)
        some = self.lengths > 0
        self.first[some] = self.data[ends[:-1][some] - ends[0]]

    def of_unknown_kind(self, type_: pa.DataType) -> np.ndarray:
        """The rows of bytes or decimals that may be numbers."""
        if is_bytes(type_):
            return self._matching(self._begins(_DIGITS + b"-tf"), _NUMBER_OR_TRUTH)
        return self._matching(self._begins(_DIGITS) & (self.lengths % 4 == 0), DIGITS_OF_BOTH)

    def printed(self, type_: pa.DataType) -> np.ndarray | None:
        """The rows with a number that the parser may have printed anew; None: such a column has none."""
        t = pa.types
        if t.is_nested(type_):
            return self._matching(self._begins(b"[{"), _PRINTED_INSIDE)
        if is_text(type_):
            inside = self._matching(self._begins(b"[{"), _PRINTED_INSIDE)
            return np.concatenate([inside, self._matching(self._begins(_DIGITS + b"-NI"), _PRINTED_NUMBER)])
        if not (t.is_integer(type_) or t.is_floating(type_) or t.is_decimal(type_)):
            return None
        zero, minus = self.first == ord("0"), self.first == ord("-")
        may_be = (self.lengths >= _ROUNDED_DIGITS) | (self.lengths == len("0.0")) & zero | (self.lengths == len("-0.0")) & minus
        if t.is_floating(type_):  # which has a negative zero
            may_be |= (self.lengths == 1) & zero
        exponents = ((self.data | 0x20) == ord("e")).any()
        return self._matching(self._begins(_DIGITS + b"-") & (exponents | may_be), _ROUNDED)

    def _begins(self, characters: bytes) -> np.ndarray:
        table = np.zeros(256, bool)
        table[list(characters)] = True
        return table[self.first]

    def _matching(self, flags: np.ndarray, pattern: str) -> np.ndarray:
        rows = np.flatnonzero(flags)
        if not len(rows):
            return rows
        some = self.texts if len(rows) == len(self.texts) else self.texts.take(pa.array(rows))
        return rows[np.asarray(pc.fill_null(pc.match_substring_regex(some, pattern), False))]


# -- marks ------------------------------------------------------------------------------------------------------------


def marked(texts: pa.Array) -> tuple[pa.Array, str]:
    """Texts of JSON with marks, and the mark: none of the texts has it."""
    taken = pc.max(pc.count_substring_regex(texts, rf"(?i){MARK}|\\u{ord(MARK):x}")).as_py() or 0
    mark = MARK * (1 + taken)
    made = pc.replace_substring_regex(texts, NUMBERS, marks(mark))
    return pc.replace_substring_regex(made, last_mark(mark), ""), mark


def marks(mark: str) -> str:
    """What replaces each match of `NUMBERS`."""
    return rf'\1"{mark}\2"'


def last_mark(mark: str) -> str:
    """The pattern of the mark that then is at the end, where no number is."""
    return rf'"{mark}"\z'


def unmarked(texts: pa.Array, mark: str = MARK, *, keep: bool = False) -> pa.Array:
    """The texts of a column without marks. `keep`: a number or truth value begins with `MARK`."""
    if pc.any(contains(texts, mark)).as_py() is not True:
        return texts
    inside = pc.replace_substring_regex(texts, rf'"{mark}({TOKEN})"', r"\1")
    return pc.replace_substring_regex(inside, f"^{mark}", MARK if keep else "")
