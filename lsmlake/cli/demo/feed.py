"""Streams the events into the table, one file per micro-batch; compacts and queries it meanwhile.

After a quarter, half and three quarters of the stream, the whole table is compacted in full while the stream continues. After
half, the table is also queried, and its largest tree drawn before and after the compaction. At the end, level 0 is empty.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

from lsmlake.api.table import Table
from lsmlake.cli.demo.engine import Engine
from lsmlake.cli.demo.picture import draw, fullest
from lsmlake.cli.demo.queries import answers
from lsmlake.cli.demo.screen import Screen
from lsmlake.cli.demo.source import Source
from lsmlake.compact.job import CompactionReport
from lsmlake.errors import CommitConflict
from lsmlake.format.files import APPEND
from lsmlake.report.text import counted
from lsmlake.report.units import human_bytes, human_count


class Middle(NamedTuple):
    """The table after half of the stream: a snapshot, and the number of micro-batches in it."""

    snapshot: int
    batches: int


def feed(engine: Engine, table: Table, source: Source, screen: Screen) -> Middle:
    """Stream all events. Raises LakeError."""
    batches, middle = len(source.ends), None
    due = [(max(1, batches * quarter // 4), quarter) for quarter in (1, 2, 3)]
    with screen.progress(source.ends) as progress:
        for done in engine.stream(table, source):
            progress(done, source.day(done))
            while due and due[0][0] <= done:
                _, quarter = due.pop(0)
                if quarter == 2:
                    middle = _half_way(engine, table, screen)
                else:
                    _compact(table, screen)
    if (report := table.compact()).buckets:  # rows of a micro-batch whose own compaction met a conflict
        screen.say(f"compaction of the rows left at level 0: {_summary(report)}")
    return middle


def _half_way(engine: Engine, table: Table, screen: Screen) -> Middle:
    written = [commit for commit in table.snapshots().to_pylist() if commit["commit_kind"] == APPEND][-1]
    middle = Middle(written["snapshot_id"], written["commit_id"] + 1)
    bucket = fullest(table)
    screen.show(draw(table, bucket, f"after {middle.batches} micro-batches"))
    _compact(table, screen)
    screen.show(draw(table, bucket, "after that compaction"))
    screen.show(answers(partial(engine.ask, table)))
    screen.say("")
    return middle


def _compact(table: Table, screen: Screen) -> None:
    """Compact in full while the stream continues. If both change a bucket, the later compaction is dropped; no row is lost."""
    try:
        screen.say(f"compaction job, beside the stream: {_summary(table.compact(full=True))}")
    except CommitConflict:
        screen.say("compaction job, beside the stream: conflict on every attempt; left to the next compaction")


def _summary(report: CompactionReport) -> str:
    if not report.buckets:
        return "nothing to do"
    if not report.rows:
        return f"{counted(report.files_out, 'file')} moved to another level, nothing was rewritten"
    files = f"{counted(report.files_in, 'file')} of {counted(report.buckets, 'bucket')} became {report.files_out:,}"
    return f"{files}, {human_count(report.rows)} rows in {human_bytes(report.bytes)} written"
