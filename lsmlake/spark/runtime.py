"""The Spark runtime: what a table does when a session is attached. Classic or Connect; no JVM access."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from lsmlake.api.following import Following
from lsmlake.api.runtime import Runtime
from lsmlake.cdc.changes import Piece
from lsmlake.commit.publish import Identity
from lsmlake.compact.job import CompactBuckets
from lsmlake.errors import InvalidOption
from lsmlake.format.snapshot import Snapshot
from lsmlake.read.plan import Plan
from lsmlake.schema.schema import Schema
from lsmlake.spark import arrow, compact, read, settings, stream, write
from lsmlake.spark.python import settle_python
from lsmlake.spark.ship import Package, shipped
from lsmlake.spark.types import is_connect, to_arrow
from lsmlake.store.metadata import Metadata
from lsmlake.write.prepare import Request

_SETTINGS = {
    # we name every file; a listing job for them costs twenty times the look at each
    "spark.sql.sources.parallelPartitionDiscovery.threshold": ("32", "1000000"),
    # the small files of the upper levels would count for more than the large ones below when tasks are cut, and these then all
    # lie in one; in this time a file system reads so much that a file is opened
    "spark.sql.files.openCostInBytes": ("4194304b", "262144b"),
}
"""Of the session: what Spark's default is, and what suits a table. What a user has set stays."""


class SparkRuntime(Runtime):
    """Sets two options of the session that are at Spark's defaults: see `_SETTINGS`."""

    name = "spark"
    filters = True

    def __init__(self, spark) -> None:
        if not hasattr(spark, "createDataFrame"):
            raise InvalidOption(
                "not a Spark session", where="connect(spark=...)", expected="a SparkSession", found=type(spark).__name__
            )
        self.spark = spark
        settle_python(spark)
        self._uneven: set[str] = set()
        for name, (default, better) in _SETTINGS.items():
            if spark.conf.get(name) == default:
                spark.conf.set(name, better)

    @property
    def package(self) -> Package | None:
        """What pickles carry to processes that may lack lsmlake."""
        return shipped(self.spark)

    @property
    def zone(self) -> str:
        return self.spark.conf.get("spark.sql.session.timeZone")

    def owns(self, data: object) -> bool:
        return isinstance(data, DataFrame)

    def columns_of(self, schema: object) -> pa.Schema | None:
        return to_arrow(schema) if isinstance(schema, StructType) else None

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
        return write.upsert(meta, schema, data, identity, request=request, compact=compact, uneven=self._uneven)

    def compactions(self, meta: Metadata, schema: Schema) -> CompactBuckets:
        return compact.run_on(self.spark, meta, schema)

    def frame(self, meta: Metadata, plan: Plan, where: str | None, strategy: str):
        return read.frame(self.spark, meta, plan, where, strategy)

    def changes_frame(self, meta: Metadata, like: Plan, pieces: Sequence[Piece]):
        return arrow.changes(self.spark, meta, like, pieces)

    def read_stream(self, meta: Metadata, following: Following):
        return stream.read_stream(self.spark, meta, following, self.zone)

    def strategy(self, meta: Metadata, plan: Plan) -> tuple[str, ...]:
        return read.explained(self.spark, meta, plan)

    def reads_otherwise(self, where: str, types: Sequence[pa.DataType]) -> str | None:
        return settings.reads_otherwise(self.spark.conf.get, where, types)

    def sink(
        self,
        table: object,
        writer_id: str | None,
        row_kind: str | Mapping[str, object] | None,
        checkpoint: str | None,
        replaces: str | None,
    ) -> stream.Sink:
        return stream.sink(table, writer_id, row_kind, checkpoint, replaces, is_connect(self.spark))

    def write_stream(
        self,
        table: object,
        data: object,
        checkpoint: str,
        trigger: Mapping[str, object],
        row_kind: str | Mapping[str, object] | None,
    ):
        return stream.write_stream(table, data, checkpoint, trigger, row_kind)

    def __reduce__(self):
        return _Detached, ()


class _Detached(Runtime):
    """The runtime in another process, as inside foreachBatch on Connect: no session of its own, the DataFrame brings it."""

    name = "spark"
    package = None

    def __init__(self) -> None:
        self._uneven: set[str] = set()

    def owns(self, data: object) -> bool:
        return isinstance(data, DataFrame)

    upsert = SparkRuntime.upsert
