"""Options of reading."""

from __future__ import annotations

from dataclasses import dataclass

from lsmlake.options.option import option
from lsmlake.options.types import size


@dataclass(frozen=True)
class ReadOptions:
    vector_broadcast_bytes: int = option(
        "read.vector-broadcast-limit",
        size,
        64 << 20,
        "Spark: larger deletion vectors are applied in Arrow tasks instead of by a broadcast",
        own=True,
    )
