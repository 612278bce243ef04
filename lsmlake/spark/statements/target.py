"""The target of a statement: the rows that it may change."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from lsmlake.compact.bucket import Picker
from lsmlake.options.isolation import SERIALIZABLE
from lsmlake.predicate import Predicate
from lsmlake.read.plan import Plan, plan
from lsmlake.store.version import Version
from lsmlake.write.upsert import inline_picker


@dataclass(frozen=True)
class Target:
    """The rows of a version that a statement may change: those for which `where` is true, which is also `predicate` if lsmlake
    knows its meaning. `own`: the statement reads other rows of this version, too."""

    spark: object
    version: Version
    where: str | None = None
    predicate: Predicate | None = None
    isolation: str = SERIALIZABLE
    own: bool = False
    refine: Callable[[object], object] | None = None
    """Chooses among the rows, and adds columns to them."""
    uneven: set[str] = field(default_factory=set)
    """As in `write.upsert`."""

    def plan(self) -> Plan:
        """A read of the rows."""
        return plan(self.version, self.predicate)

    @property
    def picker(self) -> Picker | None:
        """What picks the compaction of the buckets that the statement writes."""
        return None if self.version.schema.append_only else inline_picker(self.version, None)
