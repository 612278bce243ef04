"""The argument `order_by` of a write: the order in which the rows of a key in one batch apply."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Literal

from lsmlake.errors import InvalidQuery

_NAME = re.compile(r"\s*[^\W\d]\w*\s*")
_EXPECTED = "the name of a column, an expression of SQL, a list of them, or lsmlake.ANY"


class AnyOrder(Enum):
    """The one value is `ANY`."""

    ANY = "any"

    def __repr__(self) -> str:
        return "lsmlake.ANY"


ANY = AnyOrder.ANY
"""The value of `order_by` for data in which any of the rows of a key will do."""


@dataclass(frozen=True)
class OrderBy:
    """What the argument asks for.

    Attributes:
        expressions: the texts, the most significant first; a greater value is newer, a null is older than any value.
        any: any order of the rows of a key will do.
        zone: the time zone of the session.
        untyped: the data comes from files without types.
    """

    expressions: tuple[str, ...] = ()
    any: bool = False
    zone: str = "UTC"
    untyped: bool = False

    @staticmethod
    def of(given: str | Sequence[str] | Literal[AnyOrder.ANY] | None, zone: str) -> OrderBy | None:
        """Parses the argument. Raises InvalidQuery."""
        if given is None or given is ANY:
            return None if given is None else OrderBy(any=True, zone=zone)
        texts = [given] if isinstance(given, str) else list(given) if isinstance(given, (list, tuple)) else []
        if not texts or not all(isinstance(text, str) for text in texts):
            raise InvalidQuery("order_by names no order", expected=_EXPECTED, found=repr(given), cure="name a column")
        parts = [part for text in texts for part in _parts(text)]
        if not all(parts):
            raise InvalidQuery("an expression of order_by is empty", expected=_EXPECTED, found=repr(given), cure="name a column")
        return OrderBy(tuple(parts), zone=zone)

    @property
    def names(self) -> bool:
        """Whether all expressions are names, which need no SQL."""
        return all(_NAME.fullmatch(text) for text in self.expressions)


def _parts(text: str) -> list[str]:
    names = text.split(",")
    if all(_NAME.fullmatch(name) or not name.strip() for name in names):
        return [name.strip() for name in names]
    from lsmlake.dialect.sort_keys import parts_of  # loads sqlglot

    return parts_of(text)
