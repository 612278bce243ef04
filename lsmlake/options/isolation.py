"""Options of the isolation of statements that change rows by condition, with the names that Apache Iceberg gives them."""

from __future__ import annotations

from dataclasses import dataclass

from lsmlake.options.option import option
from lsmlake.options.types import one_of

SERIALIZABLE, SNAPSHOT = ISOLATIONS = "serializable", "snapshot"

_LEVEL = one_of(*ISOLATIONS)
_MEANING = (
    "the isolation of {}, unless a call names one: serializable evaluates the statement again also if other commits added rows"
    " that satisfy its condition; snapshot leaves such rows as they are"
)


@dataclass(frozen=True)
class IsolationOptions:
    delete: str = option("write.delete.isolation-level", _LEVEL, SERIALIZABLE, _MEANING.format("delete()"), own=True)
    update: str = option("write.update.isolation-level", _LEVEL, SERIALIZABLE, _MEANING.format("update()"), own=True)
    merge: str = option("write.merge.isolation-level", _LEVEL, SERIALIZABLE, _MEANING.format("merge()"), own=True)
