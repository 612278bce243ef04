"""The commit columns of changes: which commit made a change, when, and its place among the changes of the commit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from lsmlake.errors import InvalidQuery
from lsmlake.format.snapshot import Snapshot
from lsmlake.predicate import Predicate
from lsmlake.read.plan import Projection
from lsmlake.schema.rowkind import COMMIT_COLUMNS
from lsmlake.schema.schema import Schema

_PIECE_BITS = 40
COMMIT_FIELDS = tuple(
    pa.field(name, type_, nullable=False)
    for name, type_ in zip(COMMIT_COLUMNS, (pa.int64(), pa.timestamp("us", "UTC"), pa.int64()), strict=True)
)
"""The last columns of changes with `commit_columns`: the id of the snapshot, its time, and a number that ascends with the
changes of the commit; a -U is directly before its +U."""


class Commit(NamedTuple):
    """The commit of some changes: the snapshot `id`, its time, and the number of the first of these changes."""

    id: int
    time_ms: int
    first: int

    @staticmethod
    def of(snapshot: Snapshot, piece: int) -> Commit:
        """The commit of the changes of piece number `piece` of a snapshot. A piece has fewer than 2^40 changes."""
        return Commit(snapshot.id, snapshot.time_ms, piece << _PIECE_BITS)

    def columns(self, begun: int, rows: int) -> list[pa.Array]:
        """The values of `COMMIT_FIELDS` for the changes from number `begun` of the piece on."""
        time = pa.scalar(self.time_ms * 1000, pa.int64()).cast(COMMIT_FIELDS[1].type)
        ordinals = self.first + begun + np.arange(rows)
        return [pa.repeat(pa.scalar(self.id, pa.int64()), rows), pa.repeat(time, rows), pa.array(ordinals, pa.int64())]


@dataclass(frozen=True)
class Feed(Projection):
    """The rows and columns that a reader of changes asks for. `commits`: whether it also asks for the commit columns."""

    commits: bool = False

    @staticmethod
    def asked(schema: Schema, predicate: Predicate | None, columns: Sequence[str] | None, commits: bool, where: str) -> Feed:
        """The feed with these columns. Raises InvalidQuery for names that are not columns, and for commit columns if the table
        has columns of the same names."""
        projection = Projection.of(schema, predicate, columns)
        if commits and (taken := [name for name in COMMIT_COLUMNS if name in (one.lower() for one in schema.columns.names)]):
            raise InvalidQuery(
                f"the table has a column {taken[0]!r}, like the commit columns",
                where=where,
                cure="rename the column of the table, or leave commit_columns out",
            )
        return Feed(schema, predicate, projection.columns, commits)
