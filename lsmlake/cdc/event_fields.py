"""The fields that the rows of events have. Pure.

`known_names` tells them without parsing: a pattern is made of the first event, its names as they are and any values. The events
that match have the same fields, and the next pattern is made of the first one that does not. The parser is only asked for the
names of events that match none (`cdc.event_queries`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lsmlake.cdc.event_queries import BETWEEN
from lsmlake.kernels.keys import joined

_STRING = r'"(?:[^"\\]|\\.)*"'
_SCALAR = rf'(?:{_STRING}|[^\s"{{}}\[\],:]+)'
_FLAT = rf'[\[{{](?:{_STRING}|[^"\[\]{{}}])*[\]}}]'
_NESTED = rf'[\[{{](?:{_STRING}|[^"\[\]{{}}]|{_FLAT})*[\]}}]'
_ANY = rf"(?:{_SCALAR}|{_NESTED})"
"""A value of JSON; one that is nested deeper matches nothing."""
_PATTERNS = 4
_FIELDS_MAX = 200
_BEGIN, _NEXT = re.compile(r"\s*\{\s*"), re.compile(r"\s*,\s*")
_COLON, _END = re.compile(r"\s*:\s*"), re.compile(r"\s*\}")
_DECODER = json.JSONDecoder()


class EventFields(NamedTuple):
    """The fields that the rows of events have: the lists of them that occur, and the number of that of each event."""

    lists: list[list[str]]
    of_event: np.ndarray

    @staticmethod
    def of(texts: pa.ChunkedArray) -> EventFields:
        names = joined(texts)
        names = names if pa.types.is_dictionary(names.type) else names.dictionary_encode()
        lists = [text.split(BETWEEN) if text else [] for text in names.dictionary.to_pylist()]
        return EventFields([*lists, []], np.asarray(pc.fill_null(names.indices, len(lists))).astype(np.int64))

    def having(self, matches: Callable[[list[str]], bool]) -> np.ndarray:
        """Flags the events whose list matches."""
        return np.array([matches(one) for one in self.lists], bool)[self.of_event]

    def have(self, name: str) -> np.ndarray:
        """Flags the events with a field."""
        return self.having(lambda names: name in names)


# -- names without parsing --------------------------------------------------------------------------------------------


def known_names(events: pa.Array, path: Sequence[str], *, many: bool) -> pa.DictionaryArray:
    """The names of the fields of the row of each event, joined by `BETWEEN`; null where they are not known. The text of an event
    may be no JSON.

    Args:
        events: the texts of the events.
        path: where events have the row.
        many: there is a list of rows. All of them have these fields.
    """
    number, lists = np.full(len(events), -1, np.int32), []
    left = np.arange(len(events))
    for _ in range(_PATTERNS):
        if not len(left):
            break
        some = events if len(left) == len(events) else events.take(pa.array(left))
        found = _pattern(some[0].as_py() or "", path, many)
        same = np.asarray(pc.fill_null(pc.match_substring_regex(some, found[0]), False)) if found else np.arange(len(left)) < 1
        if found:
            number[left[same]] = len(lists)
            lists.append(BETWEEN.join(found[1]))
        left = left[~same]
        if same.sum() < len(left):  # most events differ
            break
    return pa.DictionaryArray.from_arrays(pa.array(number, mask=number < 0), pa.array(lists, pa.string()))


def _pattern(event: str, path: Sequence[str], many: bool) -> tuple[str, list[str]] | None:
    """A pattern that matches the beginnings of events, up to the end of the row, with the fields of this event, and the names of
    those of its row. None: the event has no row there."""
    pattern, place = "^", 0
    for name in path:
        fields = list(_members(event, place))
        number = next((number for number, (own, *_) in enumerate(fields) if own == name), None)
        if number is None:
            return None
        pattern += _ANY.join(re.escape(literal) for _, literal, *_ in fields[: number + 1])
        place = fields[number][2]
    if path and event.startswith("null", place):
        return rf"{pattern}null\s*[,}}]", []
    if many:
        bracket = re.compile(r"\[\s*").match(event, place)
        if bracket is None:
            return None
        place = bracket.end()
    row, names = _row(event, place)
    if not row or len(names) > _FIELDS_MAX:
        return None
    rows = rf"\[\s*{row}(?:\s*,\s*{row})*\s*\]" if many else row
    return pattern + rows + ("" if path else r"\s*$"), names


def _row(event: str, place: int) -> tuple[str, list[str]]:
    """A pattern for the object at a place, and its names; ("", []) if there is none."""
    fields = list(_members(event, place))
    closed = _END.match(event, fields[-1][-1]) if fields else None
    if closed is None:
        return "", []
    texts = (re.escape(literal) + (_ANY if event[start] in "[{" else _SCALAR) for _, literal, start, _ in fields)
    return "".join(texts) + re.escape(closed.group()), [name for name, *_ in fields]


def _members(event: str, place: int) -> Iterator[tuple[str, str, int, int]]:
    """The fields of the object at a place: the name, the text from the value before up to the own value, and the places where
    that begins and ends. Stops where the text is no JSON."""
    before, separator = place, _BEGIN.match(event, place)
    while separator is not None:
        try:
            name, end = _DECODER.raw_decode(event, separator.end())
            colon = _COLON.match(event, end)
            if not isinstance(name, str) or colon is None:
                return
            start = colon.end()
            _, end = _DECODER.raw_decode(event, start)
        except (ValueError, RecursionError):
            return
        yield name, event[before:start], start, end
        before, separator = end, _NEXT.match(event, end)
