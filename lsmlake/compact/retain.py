"""Retained deletes in a compaction (`files.retained`): it marks the level-0 rows that they ignore, and retains the deletes of its
level-0 inputs in a small file of the bucket.

The newest files of retained deletes are merged into one once `_TIER_FILES` of like size stand in the bucket, so that a delete is
rewritten a few times only. A delete is dropped when it is older than the limit by `SLACK_MS`: files that were written within the
limit may be committed later.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

from lsmlake.compact.compaction_state import CompactionState
from lsmlake.files.retained import Retained
from lsmlake.format.data_files import DataFile
from lsmlake.lsm.levels import recency
from lsmlake.lsm.merge.rules import rule_of
from lsmlake.lsm.pick import Compaction
from lsmlake.schema.schema import ROW_KIND, Schema

SLACK_MS = 86_400_000
_TIER_FILES = 4


def retain(work: CompactionState, picked: Compaction) -> Collection[str]:
    """Marks ignored rows of the level-0 inputs and retains their deletes. Returns the names of the files with ignored rows."""
    level0 = sorted((file for file in picked.inputs if file.level == 0), key=recency, reverse=True)  # oldest first
    retained = Retained.of(work.bucket_files, work.retained, work.rule)
    settlement = retained.settlement(
        level0, lambda file: work.rows(file, [*retained.columns, *([ROW_KIND] if file.delete_rows else [])])
    )
    for name, positions in settlement.ignored.items():
        work.mark(name, positions)
    if settlement.changed is not None and settlement.changed.num_rows:
        now_ms = work.meta.env.clock()
        held = [file for file in work.retained if not has_expired(file, work.schema, now_ms)]
        merged = _like_sized(held, settlement.changed.num_rows)
        kept, since_ms = held[: len(held) - len(merged)], now_ms - retained.limit_ms - SLACK_MS
        files = retained.write(settlement.changed, merged, since_ms, oldest=not kept)
        work.retained = (*kept, *files)
        work.written.extend(files)
    return settlement.ignored.keys()


def drop_expired(work: CompactionState, becoming: Schema | None) -> None:
    """Drops the files all of whose deletes have expired; all files if the next schema of the table, `becoming`, retains no
    deletes or orders rows otherwise."""
    now_ms = work.meta.env.clock()
    work.retained = tuple(file for file in work.retained if not has_expired(file, work.schema, now_ms))
    if becoming is not None and (not rule_of(becoming).retains or _order(becoming) != _order(work.schema)):
        work.retained = ()


def has_expired(file: DataFile, schema: Schema, now_ms: int) -> bool:
    """Whether all deletes of a file of retained deletes have expired. Its deletes are older than the file."""
    return file.created_ms + schema.parsed_options.merge.delete_retained_ms + SLACK_MS < now_ms


def _order(schema: Schema) -> tuple:
    sequence, ids = rule_of(schema).sequence, schema.field_ids()
    return tuple(ids[name] for name in sequence.columns), sequence.descending


def _like_sized(held: Sequence[DataFile], rows: int) -> list[DataFile]:
    """The newest files, oldest first, that are merged with `rows` new rows."""
    taken, sizes = 0, [file.rows for file in held]
    while True:
        tier = _tier(rows + sum(sizes[len(sizes) - taken :]))
        reached = taken
        while reached < len(sizes) and _tier(sizes[len(sizes) - 1 - reached]) <= tier:
            reached += 1
        if reached - taken + 1 < _TIER_FILES:
            return list(held[len(held) - taken :])
        taken = reached


def _tier(rows: int) -> int:
    return int(np.log2(max(rows, 1))) // 3
