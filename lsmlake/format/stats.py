"""Truncates the bounds of text and binary columns for manifests; a truncated maximum is rounded up, so it stays a bound."""

from __future__ import annotations

from lsmlake.kernels.successor import next_bytes, next_text


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
