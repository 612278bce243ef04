"""Counts the rows that an upsert replaces, from the buckets before and after it.

With deletion vectors, a bucket without level 0 holds each key once. So the number of rows that it gains is the number of new
keys, and the other rows of the write replaced older ones. The count costs nothing: the inline compaction has found the older
rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lsmlake.commit.requirements import Overtaken, Requirement, apply
from lsmlake.errors import SnapshotNotFound
from lsmlake.format.data_files import BucketState, CommitMessage
from lsmlake.lsm.levels import Levels
from lsmlake.lsm.merge.rule import OldRow
from lsmlake.lsm.merge.rules import rule_of
from lsmlake.lsm.row_expiry import RowExpiry
from lsmlake.tables.version import Version


class Uncounted(Exception):
    """A bucket keeps rows at level 0, so the rows of its keys are not counted. Never leaves the library."""


def can_count(version: Version) -> bool:
    """Whether upserts of a table can count the rows that they replace: each written row replaces the row of its key, and a
    compaction follows each write."""
    schema, options = version.schema, version.options
    return (
        not schema.append_only
        and not schema.moves_keys
        and rule_of(schema).old_row is OldRow.REPLACED
        and options.layout.deletion_vectors
        and not options.write.write_only
        and options.write.rowkind_field is None
        and RowExpiry.of(schema, 0) is None
    )


@dataclass
class ReplacedRows(Requirement):
    """Requires that the rows that a write replaces can be counted, and counts them.

    Attributes:
        base: the version that the write starts from.
        rows: the rows of the write.
        replaced: those of them whose key was in the table.
    """

    base: Version
    rows: int = 0
    replaced: int = 0

    def check(self, now: Version, messages: Sequence[CommitMessage]) -> None:
        """Raises Uncounted, and Overtaken if `base` has expired, since the compactions may then have started from nothing."""
        try:
            with self.base.unless_expired():
                states = self.base.states([message.bucket for message in messages], statistics=False)
        except SnapshotNotFound as expired:
            raise Overtaken from expired
        self.rows = sum(message.rows for message in messages)
        self.replaced = sum(_replaced(message, states.get(message.bucket)) for message in messages)


def _replaced(message: CommitMessage, before: BucketState | None) -> int:
    """The rows of a message whose key was in its bucket before."""
    edit = message.compact
    if edit is None:
        raise Uncounted
    if _names(edit.base) != _names(before):
        raise Overtaken
    return _keys(edit.base) + message.rows - _keys(apply(edit.base, edit))


def _names(state: BucketState | None) -> set[str]:
    return set() if state is None else {file.name for file in state.files}


def _keys(state: BucketState) -> int:
    levels = Levels.of(state.files, state.dead)
    if levels.level0:
        raise Uncounted
    return levels.live_rows
