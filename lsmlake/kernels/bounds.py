"""Bounds of text and bytes: the least value greater than all values with a given prefix, and truncated bounds for manifests. A
truncated maximum is rounded up, so it stays a bound.
"""

from __future__ import annotations


def next_text(prefix: str) -> str | None:
    """Returns the smallest text, by code points, that is greater than all texts that begin with `prefix`."""
    for end in range(len(prefix), 0, -1):
        point = ord(prefix[end - 1]) + 1
        if point == 0xD800:
            point = 0xE000  # surrogates are not characters
        if point <= 0x10FFFF:
            return prefix[: end - 1] + chr(point)
    return None


def next_bytes(prefix: bytes) -> bytes | None:
    stripped = prefix.rstrip(b"\xff")
    return stripped[:-1] + bytes([stripped[-1] + 1]) if stripped else None


def bounds(low: object, high: object, length: int) -> tuple[object, object]:
    """Truncates `low` and `high` to at most `length` bytes; None if there is no such bound."""
    return _cut_low(low, length), _cut_high(high, length)


def _cut_low(value: object, length: int) -> object:
    if isinstance(value, str):
        return value.encode()[:length].decode(errors="ignore")  # a prefix is never greater
    return value[:length] if isinstance(value, bytes) else value


def _cut_high(value: object, length: int) -> object:
    if isinstance(value, str):
        kept = _cut_low(value, length)
        return value if kept == value else next_text(kept)
    if isinstance(value, bytes):
        return value if len(value) <= length else next_bytes(value[:length])
    return value
