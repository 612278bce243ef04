"""The least value that is greater than all values with a given beginning."""

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
