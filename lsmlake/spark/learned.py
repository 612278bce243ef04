"""What is known before a write: what earlier writes of the session have told about tables, and what a stream has told."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Learned:
    """Writes add to it.

    Attributes:
        uneven: the roots of tables whose small batches did not fit the driver.
        long_rows: those of tables with rows that are too long for `spark.arrow_batches`.
        met: the roots of tables, each with a name that `except_columns` gives and that events for the table had.
        without_python: the rows come from a stream in which no Python function runs; the plan of a micro-batch does not tell.
    """

    uneven: set[str] = field(default_factory=set)
    long_rows: set[str] = field(default_factory=set)
    met: set[tuple[str, str]] = field(default_factory=set)
    without_python: bool = False
