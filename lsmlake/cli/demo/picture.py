"""The LSM tree of one bucket of a table, drawn."""

from __future__ import annotations

from rich.panel import Panel

from lsmlake.api.table import Table
from lsmlake.format.files import Bucket, BucketState
from lsmlake.maintain.listings import partition_text
from lsmlake.report.runs import tree_rows
from lsmlake.report.tree import tree_picture


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
