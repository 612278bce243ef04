"""Picks the next compaction by the strategy of the table, `tiered` or `universal`, or a full compaction; and turns the options of
a table into a picker, a function of `Levels`.
"""

from __future__ import annotations

from collections.abc import Callable

from lsmlake.lsm.levels import Levels
from lsmlake.lsm.pick.picked import Compaction, last_level_of, stretches, whole_runs
from lsmlake.lsm.pick.tiered import pick_tiered
from lsmlake.lsm.pick.universal import pick_universal
from lsmlake.lsm.row_expiry import RowExpiry
from lsmlake.options.compaction_options import TIERED, CompactionOptions
from lsmlake.schema.schema import Schema


def pick(
    levels: Levels, options: CompactionOptions, *, now_ms: int, hour: int | None = None, empty_picks: int | None = None
) -> Compaction | None:
    """Returns the next compaction, None if the bucket needs none.

    Call again with the resulting levels, including new deletion vectors, until the result is None. Only the universal strategy
    uses `now_ms`, `hour` and `empty_picks`, see `pick_universal`.
    """
    if options.strategy == TIERED:
        return pick_tiered(levels, options)
    return pick_universal(levels, options, now_ms=now_ms, hour=hour, empty_picks=empty_picks)


def pick_full(levels: Levels, options: CompactionOptions) -> Compaction | None:
    """Picks all runs. If the bucket is already one sorted run at the last level, picks its files with deleted rows; None if there
    are none."""
    max_level = last_level_of(options, levels)
    if not levels.runs:
        return None
    if len(levels.runs) > 1 or levels.highest_level < max_level or not levels.runs[0].sorted:
        return whole_runs(levels.runs, max_level, max_level, "full", dead_share=0.0)
    if not levels.dead:
        return None
    return Compaction(stretches(levels.runs[0].files, levels.dead), max_level, max_level, "full: dead rows")


Choice = Callable[[Levels], "Compaction | None"]


def as_needed(options: CompactionOptions, now_ms: int) -> Choice:
    """Returns a picker of the compactions of the table's strategy, and of a full compaction when it is due. The hour of off-peak
    options is that of `now_ms` in UTC, so that every machine chooses alike."""

    def choose(levels: Levels) -> Compaction | None:
        if options.full_delta_commits and commits_since_full(levels, options) >= options.full_delta_commits:
            return pick_full(levels, options)
        return pick(levels, options, now_ms=now_ms)

    return choose


def with_imports(choose: Choice, options: CompactionOptions) -> Choice:
    """Returns `choose`, extended by a full compaction if unsorted files of another system are left."""

    def chosen(levels: Levels) -> Compaction | None:
        return choose(levels) or (None if all(run.sorted for run in levels.runs) else pick_full(levels, options))

    return chosen


def commits_since_full(levels: Levels, options: CompactionOptions) -> int:
    """The number of commits since the whole bucket was one run at the last level, by the sequences of its files; commits before
    its first row do not count."""
    max_level = last_level_of(options, levels)
    newer = [file.sequence for run in levels.runs if run.level < max_level for file in run.files]
    if not newer:
        return 0
    settled = [file.sequence for run in levels.runs if run.level == max_level for file in run.files]
    known = [sequence for sequence in (*settled, *newer) if sequence is not None]
    coming = max(known, default=0) + 1  # of files not committed yet
    dated = [coming if sequence is None else sequence for sequence in newer]
    last_full = max((s for s in settled if s is not None), default=min(dated) - 1)
    return max(dated) - last_full


def in_full(schema: Schema, now_ms: int) -> Choice:
    """Returns a picker that brings everything into one run at the last level, without dead and expired rows."""
    options, expiry = schema.parsed_options.compaction, RowExpiry.of(schema, now_ms)

    def choose(levels: Levels) -> Compaction | None:
        expired = {file.name for file in levels.files if expiry and expiry.may_apply_to(file)}
        if (picked := pick_full(levels, options)) or not expired:
            return picked
        last = last_level_of(options, levels)
        return Compaction(stretches(levels.runs[0].files, expired), last, last, "full: expired rows")

    return choose
