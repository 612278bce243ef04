"""The target of a statement: the rows that it may change."""

from __future__ import annotations

from dataclasses import dataclass, field

from lsmlake.compact.bucket import Picker
from lsmlake.options.write_options import SERIALIZABLE
from lsmlake.predicate import Predicate
from lsmlake.read.plan import Plan, plan
from lsmlake.spark.statements.clauses import condition
from lsmlake.tables.version import Version
from lsmlake.write.write import picker


@dataclass(frozen=True)
class SparkTarget:
    """The rows of a version that a statement may change.

    Attributes:
        name: what the statement calls the table.
        where: the condition for the rows, in the words of the statement.
        predicate: what is known of the rows. `decides`: it is the whole condition.
        ranges: limits of the rows, as SQL by which Spark leaves out parts of files.
        own: the statement reads other rows of this version, too.
        uneven: as in `write.upsert`.
    """

    spark: object
    version: Version
    name: str
    isolation: str = SERIALIZABLE
    where: str | None = None
    predicate: Predicate | None = None
    decides: bool = False
    ranges: str | None = None
    own: bool = False
    uneven: set[str] = field(default_factory=set)

    def of(self, rows):
        """Returns the rows that the statement may change, under the name of the table."""
        named = rows.alias(self.name)
        return named if self.where is None else named.where(condition(self.where))

    def plan(self) -> Plan:
        """A read of the rows."""
        return plan(self.version, self.predicate)

    @property
    def picker(self) -> Picker | None:
        """What picks the compaction of the buckets that the statement writes."""
        return None if self.version.schema.append_only else picker(self.version, None)
