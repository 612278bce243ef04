"""A WHEN clause of a MERGE, as given."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

MATCHED, NOT_MATCHED, BY_SOURCE = "matched", "not matched", "not matched by source"
UPDATE, DELETE, INSERT = "update", "delete", "insert"


@dataclass(frozen=True)
class Clause:
    """`values`: column -> expression; None: all columns, by name. `condition`: None: always."""

    when: str
    action: str
    values: Mapping[str, str] | None = None
    condition: str | None = None
