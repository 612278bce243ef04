"""VARCHAR(n) and CHAR(n): STRING with a length, which the metadata of a field says. `kernels.fitting` fits values.

The length counts characters. A written text may have more only if those behind are blanks, which are cut. CHAR(n) is padded with
blanks to its length. So a stored value always has its form, and readers take it for text.
"""

from __future__ import annotations

import re
from typing import NamedTuple

import pyarrow as pa

TEXT_TYPE = b"text_type"
"""Metadata of a STRING field with a length, such as b"VARCHAR(3)"."""
VARCHAR, CHAR = "VARCHAR", "CHAR"
LENGTH_MAX = (1 << 31) - 1
_WORDS = re.compile(rf"({VARCHAR}|{CHAR})\((0|[1-9][0-9]{{0,9}})\)")


class SizedText(NamedTuple):
    """`name`: VARCHAR or CHAR."""

    name: str
    length: int

    def __str__(self) -> str:
        return f"{self.name}({self.length})"

    @staticmethod
    def parse(words: str) -> SizedText | None:
        """The type that is written so; None for other text."""
        found = _WORDS.fullmatch(words)
        return SizedText(found[1], int(found[2])) if found and int(found[2]) <= LENGTH_MAX else None


def sized_text(field: pa.Field) -> SizedText | None:
    """The type of a STRING field with a length; None for other fields."""
    words = (field.metadata or {}).get(TEXT_TYPE)
    return None if words is None else SizedText.parse(words.decode())


def char_length(field: pa.Field | None) -> int | None:
    """The length of a CHAR(n); None for other fields."""
    text = None if field is None else sized_text(field)
    return text.length if text is not None and text.name == CHAR else None


def with_sized_text(field: pa.Field, text: SizedText | None) -> pa.Field:
    """Returns `field` with this length; None: with none."""
    metadata = {key: value for key, value in (field.metadata or {}).items() if key != TEXT_TYPE}
    return field.with_metadata(metadata if text is None else {**metadata, TEXT_TYPE: str(text).encode()})


def has_sized_text(field: pa.Field) -> bool:
    """Whether a field, or one inside of it, has a length."""
    return sized_text(field) is not None or any(map(has_sized_text, _inner(field.type)))


def widens_text(old: pa.Field, new: pa.Field) -> bool:
    """Whether each stored value of the STRING field `old` is one of `new`, as in Spark: a CHAR(n) stays padded to n."""
    before, after = sized_text(old), sized_text(new)
    if after is None or before == after:
        return True
    return before is not None and after.name == VARCHAR and before.length <= after.length


def _inner(type_: pa.DataType) -> list[pa.Field]:
    if pa.types.is_map(type_):
        return [type_.key_field, type_.item_field]
    return [type_.field(i) for i in range(type_.num_fields)] if pa.types.is_nested(type_) else []
