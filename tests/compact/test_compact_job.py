"""The compaction job: it starts again from the newest version, a bounded number of times."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pytest
from strategies import new_lake

from lsmlake.api.table import Table
from lsmlake.compact.job import CompactBuckets, Goal, compact_here, compact_table
from lsmlake.errors import CommitConflict
from lsmlake.format.data_files import BucketState, CommitMessage
from lsmlake.storage.memory import MemoryStorage

ATTEMPTS = 10


@pytest.fixture
def table() -> Table:
    lake = new_lake(MemoryStorage())
    made = lake.create_table("d.t", "k BIGINT, v BIGINT", primary_key=["k"], options={"bucket": "1"})
    write(made)
    write(made)
    return made


def write(table: Table) -> None:
    table.upsert(pa.table({"k": [1, 2], "v": [1, 1]}), compact=False)


def preceded(table: Table, times: int, by: CompactBuckets) -> CompactBuckets:
    """Compacts the table; `by` runs first, `times` times."""
    here, left = compact_here(table.meta, table.version.schema), [by] * times

    def run(states: Sequence[BucketState], goal: Goal) -> list[CommitMessage]:
        if left:
            left.pop()(states, goal)
        return here(states, goal)

    return run


def expires(table: Table) -> CompactBuckets:
    """The files that the compaction is about to read are merged into another one, and deleted."""

    def run(states: Sequence[BucketState], goal: Goal) -> list[CommitMessage]:
        write(table)
        table.compact(full=True)
        write(table)
        write(table)
        table.expire_snapshots(retain_max=1, older_than="2100-01-01")
        return []

    return run


def overtakes(table: Table) -> CompactBuckets:
    """Another compaction comes first; then there is something to compact again."""

    def run(states: Sequence[BucketState], goal: Goal) -> list[CommitMessage]:
        table.compact(full=True)
        write(table)
        return []

    return run


@pytest.mark.parametrize("other", [expires, overtakes])
def test_a_job_that_comes_second_starts_again_from_the_newest_version(table, other):
    report = compact_table(table.version, preceded(table, ATTEMPTS - 1, other(table)), lambda bucket: True)
    assert report.buckets == 1
    assert table.compact().snapshot_id is None, "nothing is left to do"


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (expires, r"the snapshot expired in each attempt.*found nothing compacted after 10 attempts"),
        (overtakes, r"other commits changed the buckets in each attempt, found 1 buckets not compacted after 10 attempts"),
    ],
)
def test_a_job_that_always_comes_second_gives_up(table, other, message):
    with pytest.raises(CommitConflict, match=message):
        compact_table(table.version, preceded(table, ATTEMPTS, other(table)), lambda bucket: True)
    assert table.verify() == []
