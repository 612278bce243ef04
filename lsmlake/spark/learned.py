"""What the writes of a session have told about tables, so that later ones do not try in vain again."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Learned:
    """Roots of tables, to which writes add.

    Attributes:
        uneven: their small batches did not fit the driver.
        long_rows: they have rows that are too long for `spark.arrow_batches`.
    """

    uneven: set[str] = field(default_factory=set)
    long_rows: set[str] = field(default_factory=set)
