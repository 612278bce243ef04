"""Tables in memory with addresses for Iceberg metadata, and the values of their rows."""

from __future__ import annotations

from unittest.mock import patch

from lsmlake.storage.memory import MemoryStorage

ROOT = "memory://warehouse/"
VECTORS = ["vectors", "vectors, lazy", "vectors, few levels", "vectors, universal", "write-only"]
addressed = patch.object(MemoryStorage, "place", lambda self, path: f"{ROOT}{path}")


def hashable(value: object) -> object:
    if isinstance(value, dict):
        return tuple((name, hashable(of)) for name, of in sorted(value.items()))
    if isinstance(value, float) and value != value:
        return "NaN"
    return tuple(map(hashable, value)) if isinstance(value, list) else value
