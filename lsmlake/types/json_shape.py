"""Validates metadata files: the type and range of each field is checked before a value is used.

A checksum detects damage, but not a faulty writer. So each kind of file declares its fields as a mapping of names to `JsonKind`s,
and `check` compares a decoded file with it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from lsmlake.errors import Corrupt

RESTORE = "restore the file from a copy, or roll back to a snapshot that does not use it"
NUMBER_MAX = (1 << 63) - 1
BYTES_MAX = 1 << 46
ROWS_MAX = 1 << 36  # of one data file
_FOUND_MAX = 80
NAME_CHARACTERS = r"[A-Za-z0-9_][A-Za-z0-9_.\-]*"
NAME_LENGTH_MAX = 251
"""Not in the pattern, since RE2 takes 0.3 ms to compile a pattern that counts to 250."""
_NAME = re.compile(NAME_CHARACTERS)


class JsonKind(NamedTuple):
    """The valid values of a field: a description and a test."""

    words: str
    fits: Callable[[object], bool]


def integer(least: int = 0, most: int = NUMBER_MAX) -> JsonKind:
    def fits(value: object) -> bool:
        return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most

    return JsonKind(f"an integer from {least} to {most}", fits)


def one_of(*values: str) -> JsonKind:
    return JsonKind(" or ".join(values), lambda value: isinstance(value, str) and value in values)


def optional(kind: JsonKind) -> JsonKind:
    return JsonKind(f"{kind.words}, or null", lambda value: value is None or kind.fits(value))


def listing(kind: JsonKind, most: int = 1 << 20) -> JsonKind:
    """A list of at most `most` items of a kind."""

    def fits(value: object) -> bool:
        return isinstance(value, list) and len(value) <= most and all(map(kind.fits, value))

    return JsonKind(f"a list, each item {kind.words}", fits)


def mapping(kind: JsonKind) -> JsonKind:
    def fits(value: object) -> bool:
        return isinstance(value, dict) and all(map(TEXT.fits, value)) and all(map(kind.fits, value.values()))

    return JsonKind(f"an object, each value {kind.words}", fits)


def pair(first: JsonKind, second: JsonKind) -> JsonKind:
    def fits(value: object) -> bool:
        return isinstance(value, list) and len(value) == 2 and first.fits(value[0]) and second.fits(value[1])

    return JsonKind(f"a list of two: {first.words}; {second.words}", fits)


def is_name(value: object) -> bool:
    """Whether this is a valid name of a file in the table directory."""
    return isinstance(value, str) and len(value) <= NAME_LENGTH_MAX and _NAME.fullmatch(value) is not None


def is_directory(value: object) -> bool:
    """Whether this is a relative path that stays inside the table directory."""
    return is_text(value) and "\0" not in value and all(part not in ("", ".", "..") for part in value.split("/"))


def is_text(value: object) -> bool:
    """Whether a value is text that can be encoded as UTF-8."""
    try:
        return isinstance(value, str) and value.encode() is not None
    except UnicodeEncodeError:
        return False


FLAG = JsonKind("true or false", lambda value: isinstance(value, bool))
TEXT = JsonKind("text", is_text)
NAME = JsonKind("the name of a file", is_name)
NAMED = pair(NAME, integer(1, BYTES_MAX))


def check(
    what: str, content: object, kinds: Mapping[str, JsonKind], where: str, may_lack: Iterable[str] = (), cure: str = RESTORE
) -> None:
    """Raises Corrupt, naming the field and `where`, unless `content` has exactly these fields and each is of its kind."""
    if not isinstance(content, dict):
        raise Corrupt(
            f"{what} is not an object", where=where, expected=f"an object of {list(kinds)}", found=shown(content), cure=cure
        )
    missing, unknown = (), ()
    if content.keys() != kinds.keys():
        missing, unknown = kinds.keys() - content.keys() - set(may_lack), content.keys() - kinds.keys()
    if missing or unknown:
        faults = [f"{word} {shown(sorted(map(str, names)))}" for word, names in (("no", missing), ("unknown", unknown)) if names]
        raise Corrupt(
            f"{what} has missing or unknown fields", where=where, expected=list(kinds), found=", ".join(faults), cure=cure
        )
    for name, value in content.items():
        if not kinds[name].fits(value):
            raise Corrupt(
                f"{what} has an invalid {name!r}", where=where, expected=kinds[name].words, found=shown(value), cure=cure
            )


def shown(value: object) -> str:
    """Formats a value for a message: short and printable."""
    text = (
        ascii(value) if isinstance(value, (str, int, float, bool, type(None))) else f"{type(value).__name__} {ascii(value)[:200]}"
    )
    return text if len(text) <= _FOUND_MAX else f"{text[:_FOUND_MAX]}..."
