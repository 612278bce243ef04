"""Options of retention: how long snapshots, changelogs, consumers, rows and tags are kept, and when commits create tags."""

from __future__ import annotations

from dataclasses import dataclass

from lsmlake.options.changelog_options import FULL_COMPACTION, INPUT, LOOKUP
from lsmlake.options.option import Tables, When, option
from lsmlake.options.option_types import boolean, column, duration, integer, one_of, text

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


NONE, PROCESS_TIME, WATERMARK, BATCH = "none", "process-time", "watermark", "batch"
DAILY, HOURLY, TWO_HOURS = "daily", "hourly", "two-hours"
_HOUR_MS = 3_600_000
PERIODS_MS = {DAILY: 24 * _HOUR_MS, TWO_HOURS: 2 * _HOUR_MS, HOURLY: _HOUR_MS}
WITH_DASHES, WITHOUT_DASHES, WITHOUT_DASHES_AND_SPACES = "with_dashes", "without_dashes", "without_dashes_and_spaces"

_AUTOMATIC = ((When("tag.automatic-creation", (PROCESS_TIME, WATERMARK)),),)
_CREATED = ((When("tag.automatic-creation", (PROCESS_TIME, WATERMARK, BATCH)),),)


@dataclass(frozen=True)
class TagOptions:
    retained_ms: int | None = option(
        "tag.default-time-retained", duration, None, "how long a new tag is kept; default: until it is deleted"
    )
    creation: str = option(
        "tag.automatic-creation",
        one_of(NONE, PROCESS_TIME, WATERMARK, BATCH),
        NONE,
        "process-time: the first commit after the end of each period creates a tag, named after the period in UTC; watermark: the"
        " first commit whose watermark is after the end of the period does; batch: each commit of rows without a commit_id, so"
        " none of a stream, sets the tag batch-write-<day>",
    )
    watermark_column: str | None = option(
        "watermark.column",
        column,
        None,
        "column with the times of events: seconds, milliseconds or a timestamp; the watermark of a snapshot is the greatest time"
        " that was written so far, minus watermark.delay",
        own=True,
    )
    watermark_delay_ms: int = option(
        "watermark.delay",
        duration,
        0,
        "how late a row may be: the watermark is the greatest time in watermark.column minus this duration",
        own=True,
        only=((When("watermark.column"),),),
    )
    period: str = option(
        "tag.creation-period", one_of(DAILY, HOURLY, TWO_HOURS), DAILY, "the period of automatic tags, in UTC", only=_AUTOMATIC
    )
    delay_ms: int = option(
        "tag.creation-delay",
        duration,
        0,
        "how long after the end of a period its tag is created, so that late rows are in it; less than the period",
        only=_AUTOMATIC,
    )
    retained_max: int | None = option(
        "tag.num-retained-max",
        integer(1),
        None,
        "greatest number of automatic tags; the oldest are deleted first; default: no limit",
        only=_CREATED,
    )
    completion: bool = option(
        "tag.automatic-completion",
        boolean,
        False,
        "true: if periods passed without a commit, the next commits create their tags, one each",
        only=_AUTOMATIC,
    )
    formatter: str = option(
        "tag.period-formatter",
        one_of(WITH_DASHES, WITHOUT_DASHES, WITHOUT_DASHES_AND_SPACES),
        WITH_DASHES,
        "the form of the names of automatic tags: 2026-01-31 12, 20260131 12 or 2026013112",
        only=_AUTOMATIC,
    )
    batch_name: str | None = option(
        "tag.batch.customized-name",
        text,
        None,
        "the name of the tag of tag.automatic-creation = batch; default: batch-write- and the day in UTC",
        only=((When("tag.automatic-creation", (BATCH,)),),),
    )
