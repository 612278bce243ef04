"""Prints results: as JSON on request, else as a rich view on a terminal and as plain text to a pipe or file.

No other module writes results to standard output.
"""

from __future__ import annotations

import datetime
import json
import sys
from collections.abc import Iterable, Iterator
from typing import NamedTuple, Protocol


class OutputView(Protocol):
    """Something that can be drawn on a terminal and written as plain lines."""

    def __rich_console__(self, console: object, options: object) -> Iterable[object]: ...

    def lines(self) -> Iterable[str]: ...


class Sentences(NamedTuple):
    """Lines of text, printed unchanged everywhere; a terminal wraps them, so that a path in them can be copied."""

    texts: tuple[str, ...]

    def lines(self) -> Iterable[str]:
        return self.texts


def emit(data: object, view: OutputView | Sentences, as_json: bool) -> None:
    """Write a result to standard output. `data`: dicts, lists, scalars and datetimes; an iterator is printed as a list."""
    if as_json:
        data = list(data) if isinstance(data, Iterator) else data
        ascii_only = not (sys.stdout.encoding or "").lower().startswith("utf")
        print(json.dumps(data, indent=2, ensure_ascii=ascii_only, default=_moment))
    elif sys.stdout.isatty() and not isinstance(view, Sentences):
        from rich.console import Console

        Console(highlight=False, markup=False, emoji=False).print(view)
    else:
        for line in view.lines():
            print(line)


def _moment(value: object) -> str:
    if isinstance(value, datetime.datetime):
        return value.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    raise TypeError(f"{type(value).__name__} is not JSON")
