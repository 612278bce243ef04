"""Options of retention: how long snapshots, changelogs, consumers and rows are kept."""

from __future__ import annotations

from dataclasses import dataclass

from lsmlake.options.changelog import FULL_COMPACTION, INPUT, LOOKUP
from lsmlake.options.option import Tables, When, option
from lsmlake.options.types import boolean, column, duration, integer

_CHANGELOG = (When("changelog-producer", (INPUT, LOOKUP, FULL_COMPACTION)),)


@dataclass(frozen=True)
class RetentionOptions:
    snapshots_min: int = option("snapshot.num-retained.min", integer(1), 10, "least number of snapshots that are kept")
    snapshots_max: int | None = option(
        "snapshot.num-retained.max", integer(1), None, "greatest number of snapshots that are kept; default: no limit"
    )
    snapshots_ms: int = option(
        "snapshot.time-retained", duration, 3_600_000, "how long a snapshot is kept after the next one was published"
    )
    expire_limit: int = option("snapshot.expire.limit", integer(1), 50, "most snapshots that expire at a time")
    expire_on_commit: bool = option(
        "snapshot.expire.on-commit",
        boolean,
        True,
        "every tenth commit expires snapshots by these options, and tags (under write-only = true only if it is a compaction);"
        " false: only expire_snapshots and expire_tags do",
        own=True,
    )
    changelogs_min: int | None = option(
        "changelog.num-retained.min",
        integer(1),
        None,
        "least number of commits whose changelog is kept; default: as snapshots",
        only=(_CHANGELOG,),
    )
    changelogs_max: int | None = option(
        "changelog.num-retained.max",
        integer(1),
        None,
        "greatest number of commits whose changelog is kept; default: as snapshots",
        only=(_CHANGELOG,),
    )
    changelogs_ms: int | None = option(
        "changelog.time-retained", duration, None, "how long a changelog is kept; default: as snapshots", only=(_CHANGELOG,)
    )
    consumers_ms: int | None = option(
        "consumer.expiration-time", duration, None, "a consumer that made no progress for this long protects no snapshots"
    )
    rows_ms: int | None = option(
        "record-level.expire-time",
        duration,
        None,
        "older rows are dropped when a compaction rewrites their file",
        tables=Tables.KEYED,
    )
    row_time_field: str | None = option(
        "record-level.time-field",
        column,
        None,
        "column with the time of a row: seconds, milliseconds or a timestamp",
        tables=Tables.KEYED,
    )
