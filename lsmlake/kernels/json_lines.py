"""Puts every object of a JSON text on one line of its own, in place, without parsing values. Pure.

PyArrow reads objects line by line. In an array of objects the brackets of the array and the commas between its elements are
replaced by white space and line ends; line ends inside of objects by blanks. The text keeps its length, so an offset in the
result is the same offset in the text.
"""

from __future__ import annotations

import numpy as np

_CHUNK = 1 << 22
_QUOTE, _BACKSLASH, _COMMA, _LINE_END, _RETURN, _BLANK = b'"\\,\n\r '
_STEPS = np.zeros(256, np.int8)
"""By how many levels a byte outside of strings changes the depth of nesting."""
_STEPS[list(b"[{")], _STEPS[list(b"]}")] = 1, -1


def is_array(text: bytes) -> bool:
    """Whether the text is a JSON array. `text`: its beginning."""
    return text.lstrip()[:1] == b"["


def is_split(text: bytes) -> bool:
    """Whether the first object of a JSON text continues on a second line. `text`: its beginning."""
    first = text.lstrip().split(b"\n", 1)
    return len(first) == 2 and first[0].count(b"{") != first[0].count(b"}")


def one_line_each(text: bytes) -> bytes | None:
    """The text with one object in each line; None if a string, an object or the array has no end."""
    array, made = is_array(text[:_CHUNK]), np.frombuffer(text, np.uint8).copy()
    state = _State()
    for start in range(0, len(made), _CHUNK):
        _rewrite(made[start : start + _CHUNK], state, array)
    return None if state.depth or state.in_string else made.tobytes()


class _State:
    """The state that one chunk passes to the next."""

    def __init__(self) -> None:
        self.in_string, self.depth, self.backslashes = 0, 0, 0


def _rewrite(data: np.ndarray, state: _State, array: bool) -> None:
    quotes = (data == _QUOTE) & ~_escaped(data, state)
    inside = np.bitwise_xor.accumulate(quotes) ^ bool(state.in_string)
    outside = ~(inside | quotes)
    steps = _STEPS[data] * outside
    depth = np.cumsum(steps, dtype=np.int32) + state.depth
    state.in_string, state.depth = int(inside[-1]), int(depth[-1])
    line_ends = outside & ((data == _LINE_END) | (data == _RETURN))
    if not array:
        data[line_ends & (depth > 0)] = _BLANK
        return
    outer = outside & (((depth == 1) & (steps == 1)) | ((depth == 0) & (steps == -1)))
    data[line_ends] = _BLANK
    data[outside & (data == _COMMA) & (depth == 1) | outer] = _LINE_END


def _escaped(data: np.ndarray, state: _State) -> np.ndarray:
    """Flags the bytes that follow an odd number of backslashes."""
    backslash = data == _BACKSLASH
    if not backslash.any():
        escaped = np.zeros(len(data), bool)
        escaped[0], state.backslashes = state.backslashes % 2 == 1, 0
        return escaped
    places = np.arange(len(data), dtype=np.int32)
    last_other = np.maximum.accumulate(np.where(backslash, -1, places))
    runs = places - last_other  # the backslashes up to each byte; a run from the chunk before goes on
    runs = np.where(last_other < 0, places + 1 + state.backslashes, runs)
    escaped = np.concatenate([[state.backslashes % 2 == 1], (runs[:-1] % 2 == 1) & backslash[:-1]])
    state.backslashes = int(runs[-1]) if backslash[-1] else 0
    return escaped
