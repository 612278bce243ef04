"""The output in notebooks and shells: small HTML tables with all text escaped, and the names for completion. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields
from html import escape

_ROWS_MAX = 100
_INSIDE = frozenset(
    (
        *("env", "meta", "runtime", "kept", "session", "states", "version", "moment"),  # of handles
        *("run", "clauses", "encode", "decode", "of"),
        *("base_manifest_list", "delta_manifest_list", "changelog_manifest_list", "index_manifest"),
    )
)
"""Attributes of public values that only the library uses."""
_TEXT_MAX = 200


def offered(names: Iterable[str]) -> list[str]:
    """Returns the public names of a value, for completion."""
    return [name for name in names if name not in _INSIDE]


def html_pairs(title: str, pairs: Iterable[tuple[str, object]]) -> str:
    """A title and a table of two columns."""
    return html_rows(title, (), pairs)


def html_rows(title: str, head: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    """A title and a table of the first hundred rows."""
    shown = []
    for number, row in enumerate(rows):
        if number == _ROWS_MAX:
            shown.append(f"<tr><td>only the first {_ROWS_MAX} rows are shown</td></tr>")
            break
        shown.append("<tr>" + "".join(f'<td style="text-align:left">{_text(value)}</td>' for value in row) + "</tr>")
    names = "".join(f'<th style="text-align:left">{_text(name)}</th>' for name in head)
    return f"<div><b>{_text(title)}</b><table>{f'<tr>{names}</tr>' if names else ''}{''.join(shown)}</table></div>"


def _text(value: object) -> str:
    text = f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else "" if value is None else str(value)
    return escape(text if len(text) <= _TEXT_MAX else text[:_TEXT_MAX] + "...")


class Shown:
    """Base class of dataclasses that a notebook shows as a table of their fields."""

    def __dir__(self) -> list[str]:
        return offered(super().__dir__())

    def _repr_html_(self) -> str:
        pairs = ((field.name.replace("_", " "), getattr(self, field.name)) for field in fields(self) if field.repr)
        return html_pairs(type(self).__name__, pairs)
