"""Where the verbs run: in this process, unless a runtime such as Spark is attached.

`Runtime` is what a table asks of a runtime, and the answer of a process that has none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NoReturn

import pyarrow as pa

from lsmlake.api.following import Following
from lsmlake.cdc.changes import Piece
from lsmlake.commit.publish import Identity
from lsmlake.compact.job import CompactBuckets, compact_here
from lsmlake.errors import InvalidQuery, Wording
from lsmlake.extras import need
from lsmlake.format.snapshot import Snapshot
from lsmlake.read.plan import Plan
from lsmlake.schema.schema import Schema
from lsmlake.store.metadata import Metadata
from lsmlake.write.prepare import Request


class Runtime:
    """The embedded runtime: Arrow in, Arrow out, no Spark."""

    name = "embedded"
    filters = False
    """Whether the runtime itself applies `where`, in all of its SQL."""

    @property
    def zone(self) -> str:
        """The time zone of every time that users give without one: in `where`, in data that is converted, for time travel."""
        return "UTC"

    def reads_otherwise(self, where: str, types: Sequence[pa.DataType]) -> str | None:
        """Why the runtime may give `where` another meaning than `parse` does, or `None`. `types`: those of its columns."""
        return None

    def owns(self, data: object) -> bool:
        """Whether `data` is a distributed data set of this runtime."""
        return False

    def columns_of(self, schema: object) -> object | None:
        """A schema of the runtime's own kind as a pyarrow.Schema; `None` if it is not one."""
        return None

    def upsert(
        self,
        meta: Metadata,
        schema: Schema,
        data: object,
        identity: Identity,
        *,
        request: Request,
        compact: bool | None,
    ) -> Snapshot | None:
        """Write a data set that this runtime `owns`, as `request` says."""
        _needs_spark("upsert of a distributed data set")

    def compactions(self, meta: Metadata, schema: Schema) -> CompactBuckets:
        """How buckets are compacted."""
        return compact_here(meta, schema)

    def frame(self, meta: Metadata, plan: Plan, where: str | None, strategy: str) -> object:
        """The plan as a DataFrame of the runtime."""
        _needs_spark("to_spark()")

    def changes_frame(self, meta: Metadata, like: Plan, pieces: Sequence[Piece]) -> object:
        """The changes of `pieces` as a DataFrame of the runtime."""
        _needs_spark("to_spark()")

    def read_stream(self, meta: Metadata, following: Following) -> object:
        """A streaming DataFrame of changes."""
        _needs_spark("read_stream()")

    def strategy(self, meta: Metadata, plan: Plan) -> tuple[str, ...]:
        """How `frame` would read the plan, in words: lines."""
        return ("embedded: Arrow scan, positions masked by vectors",)

    def sink(
        self,
        table: object,
        writer_id: str | None,
        row_kind: str | Mapping[str, object] | None,
        checkpoint: str | None,
        replaces: str | None,
    ) -> object:
        """A function for `foreachBatch`."""
        _needs_spark("sink()")

    def write_stream(
        self,
        table: object,
        data: object,
        checkpoint: str,
        trigger: Mapping[str, object],
        row_kind: str | Mapping[str, object] | None,
    ) -> object:
        """Start a streaming upsert."""
        _needs_spark("write_stream()")


_ATTACH = Wording('attach a session: lsmlake.connect("...", spark=spark)', command="use a Python program with a Spark session")


def _needs_spark(what: str) -> NoReturn:
    need("pyspark", what)
    raise InvalidQuery(f"{what} needs Spark", cure=_ATTACH)
