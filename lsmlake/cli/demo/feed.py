"""Streams the events into the table, one file per micro-batch; compacts and queries it meanwhile.

After a quarter, half and three quarters of the stream, the whole table is compacted in full while the stream continues. After
half, the table is also queried, and its largest tree drawn before and after the compaction. At the end, level 0 is empty.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from rich.columns import Columns
from rich.console import Group
from rich.panel import Panel
from rich.table import Table as Grid
from rich.text import Text

from lsmlake.api.table import Table
from lsmlake.cli.demo.demo_engine import DemoEngine
from lsmlake.cli.demo.events import DemoSource
from lsmlake.cli.demo.screen import Screen
from lsmlake.compact.job import CompactionReport
from lsmlake.errors import CommitConflict
from lsmlake.format.data_files import APPEND, Bucket, BucketState
from lsmlake.maintain.version_listings import partition_text
from lsmlake.report.text import counted, human_bytes, human_count
from lsmlake.report.tree_picture import tree_picture
from lsmlake.report.tree_rows import tree_rows


class Middle(NamedTuple):
    """The table after half of the stream: a snapshot, and the number of micro-batches in it."""

    snapshot: int
    batches: int


def feed(engine: DemoEngine, table: Table, source: DemoSource, screen: Screen) -> Middle:
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


def _half_way(engine: DemoEngine, table: Table, screen: Screen) -> Middle:
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


def fullest(table: Table) -> Bucket:
    """The bucket with the most dead rows; among equals, the one with the most files. The table must not be empty."""
    states = table.states()
    return max(states, key=lambda bucket: (_dead_rows(states[bucket]), len(states[bucket].files)))


def draw(table: Table, bucket: Bucket, when: str) -> Panel:
    """A picture of the current state of `bucket`."""
    title = f"{partition_text(table.version.schema, bucket)}, bucket {bucket.number}, {when}"
    return tree_picture(tree_rows(table.states()[bucket]), title=title)


def _dead_rows(state: BucketState) -> int:
    return sum(ref.cardinality for ref in state.vectors.values())


DELAYS = """
    SELECT carrier, count(*) AS flights, avg(arr_delay) AS late
    FROM {flights} WHERE status = 'arrived' GROUP BY carrier ORDER BY late DESC
"""
CANCELLATIONS = """
    SELECT month, count(*) AS flights, count_if(status = 'cancelled') AS cancelled
    FROM {flights} GROUP BY month ORDER BY month
"""
_LEAST_CARRIERS = 5


def answers(ask: Callable[[str], list[dict]]) -> Columns:
    """Both answers, side by side if there is room. `ask`: answers a query."""
    months = ask(CANCELLATIONS)
    carriers = ask(DELAYS)[: max(_LEAST_CARRIERS, len(months))]
    late = [(row["carrier"], f"{row['flights']:,}", _minutes(row["late"])) for row in carriers]
    cancelled = [(row["month"], f"{row['flights']:,}", f"{row['cancelled']:,}", _share(row)) for row in months]
    return Columns(
        [
            _answer("average delay by carrier, the worst first", ("carrier", "arrived", "minutes"), late),
            _answer("cancellations by month", ("month", "flights", "cancelled", ""), cancelled),
        ],
        padding=(0, 6),
    )


def _minutes(late: float | None) -> str:
    return "-" if late is None else f"{round(late, 1) + 0.0:.1f}"  # + 0.0: no -0.0


def _share(month: dict) -> str:
    return f"{month['cancelled'] / month['flights']:.1%}"


def _answer(title: str, names: Sequence[str], rows: Sequence[Sequence[str]]) -> Group:
    grid = Grid(box=None, pad_edge=False, padding=(0, 3, 0, 0), header_style="dim")
    for number, name in enumerate(names):
        grid.add_column(name, justify="right" if number else "left", no_wrap=True)
    for row in rows:
        grid.add_row(*row)
    return Group(Text(title, "bold"), grid)
