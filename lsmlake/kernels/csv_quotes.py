"""Checks the quotes of CSV text, chunk by chunk. Pure.

A field in quotes ends with a quote that a delimiter, a line end or the end of the text follows; a quote inside of it is written
twice. PyArrow reads text that breaks this rule without an error: it drops quotes, and a field whose last quote is missing takes
up all rows behind it. A quote inside of a field without quotes, such as 5" pipe, is a character of the field.
"""

from __future__ import annotations

import numpy as np

_QUOTE = ord('"')
_LINE_ENDS = b"\r\n"


class QuoteCheck:
    """Reads the chunks of a text in their order with `fault`."""

    def __init__(self, delimiter: str) -> None:
        self.offset = 0
        """The offset of the first byte that is not checked yet."""
        self._ends = np.zeros(256, bool)
        self._ends[list(delimiter.encode() + _LINE_ENDS)] = True
        self._held = b""  # quotes at the end of the last chunk: the next byte decides what they mean
        self._before = _LINE_ENDS[0]
        self.opened: int | None = None
        """The offset of the opening quote of a field that is not closed yet."""

    def fault(self, chunk: bytes, last: bool = False) -> int | None:
        """The offset in the text of the first quote that breaks the rule, None if there is none. `last`: the text ends here."""
        data = self._held + chunk
        if not last:
            kept = len(data.rstrip(b'"'))
            data, self._held = data[:kept], data[kept:]
        place = self._fault(np.frombuffer(data, np.uint8)) if b'"' in data else None
        if place is None and last and self.opened is not None:
            return self.opened
        if data:
            self._before = data[-1]
        self.offset += len(data)
        return None if place is None else place

    def _fault(self, data: np.ndarray) -> int | None:
        quotes = np.flatnonzero(data == _QUOTE)
        before = np.concatenate([[self._before], data[quotes[quotes > 0] - 1]]) if quotes[0] == 0 else data[quotes - 1]
        behind = np.append(data, _LINE_ENDS[0])[quotes + 1]
        first_opens = self.opened is None
        opens = (np.arange(len(quotes)) % 2 == 0) == first_opens
        fine = np.where(opens, self._ends[before] | (before == _QUOTE), self._ends[behind] | (behind == _QUOTE))
        if first_opens and not self._ends[before[0]]:
            fine[0] = False
        if not fine.all():
            return self._by_turns(quotes, before, behind)
        if not opens[-1]:
            self.opened = None
        elif len(fields := quotes[opens & (before != _QUOTE)]):
            self.opened = self.offset + int(fields[-1])
        return None

    def _by_turns(self, quotes: np.ndarray, before: np.ndarray, behind: np.ndarray) -> int | None:
        """As `_fault`, for text with quotes inside of unquoted fields: decides the quotes one by one."""
        places, starts, ends = quotes.tolist(), self._ends[before].tolist(), self._ends[behind].tolist()
        doubled = (behind == _QUOTE).tolist()
        number = 0
        while number < len(places):
            if self.opened is None:
                if starts[number]:
                    self.opened = self.offset + places[number]
            elif doubled[number]:
                number += 1
            elif ends[number]:
                self.opened = None
            else:
                return self.offset + places[number]
            number += 1
        return None
