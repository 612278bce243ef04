"""The Spark runtime: executes the verbs of a table in a Spark session, classic or Connect, without JVM access."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import PurePath

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from lsmlake.api.following import Following
from lsmlake.api.lake import Lake
from lsmlake.api.runtime import Args, Runtime
from lsmlake.api.scan import Scan
from lsmlake.cdc.change_input import ChangeInput
from lsmlake.cdc.change_reader import Piece
from lsmlake.cdc.commits import Feed
from lsmlake.cdc.encoding import EventWriter
from lsmlake.compact.job import CompactBuckets
from lsmlake.errors import InvalidOption
from lsmlake.files.divide import Divide
from lsmlake.format.snapshot import Snapshot
from lsmlake.inputs.data import as_input
from lsmlake.read.measure import Measured
from lsmlake.read.plan import LiveFiles, Plan, plan
from lsmlake.schema.schema import Schema
from lsmlake.spark import (
    change_frames,
    change_scans,
    divide_tasks,
    frame_writer,
    planning,
    read,
    settings,
    spark_catalog,
    spark_measure,
    stream,
    sync_frames,
    task_reads,
    tasks,
)
from lsmlake.spark.frame_plan import runs_python
from lsmlake.spark.frame_types import is_connect, to_arrow
from lsmlake.spark.learned import Learned
from lsmlake.spark.python import settle_python
from lsmlake.spark.ship import Package, shipped
from lsmlake.spark.statements.sides import MergeSource, is_small, small_source
from lsmlake.statements.attempts import DmlReport
from lsmlake.statements.statement import Statement
from lsmlake.tables.version import Metadata, Version
from lsmlake.write.write_request import WriteRequest

_SETTINGS = {
    # lsmlake passes every file by name; a listing job costs twenty times as much as the file status calls
    "spark.sql.sources.parallelPartitionDiscovery.threshold": ("32", "1000000"),
    # with the default, the small files of newer levels outweigh the large files of deeper levels when Spark packs files into
    # tasks, and one task gets all large files; the new value is about what a file system reads in the time of opening a file
    "spark.sql.files.openCostInBytes": ("4194304b", "262144b"),
}
"""Session settings: Spark's default and the value that suits tables in directories. Values set by the user are kept. In an object
store a file takes long to look up and to open, as the defaults assume."""


class SparkRuntime(Runtime):
    """Runs the verbs of tables in a Spark session. `near`: the tables are in directories; the runtime then changes two settings
    of the session that have Spark's defaults, see `_SETTINGS`."""

    name = "spark"
    filters = True

    def __init__(self, spark, near: bool = True) -> None:
        if not hasattr(spark, "createDataFrame"):
            raise InvalidOption(
                "not a Spark session", where="connect(spark=...)", expected="a SparkSession", found=type(spark).__name__
            )
        self.spark, self.near = spark, near
        settle_python(spark)
        self.learned = Learned()
        for name, (default, better) in _SETTINGS.items() if near else ():
            if spark.conf.get(name) == default:
                spark.conf.set(name, better)

    def on_spark(self, what: str) -> SparkRuntime:
        return self

    def for_stream(self, df) -> SparkRuntime:
        """The runtime for the micro-batches of the stream `df`."""
        if runs_python(df):
            return self
        runtime = SparkRuntime(self.spark, self.near)  # `copy` would make what this pickles to
        runtime.learned = replace(self.learned, without_python=True)
        return runtime

    @property
    def package(self) -> Package | None:
        """The package for pickles to processes that may lack lsmlake."""
        return shipped(self.spark)

    @property
    def zone(self) -> str:
        return self.spark.conf.get("spark.sql.session.timeZone")

    def owns(self, data: object) -> bool:
        return isinstance(data, DataFrame)

    def columns_of(self, schema: object) -> pa.Schema | None:
        return to_arrow(schema) if isinstance(schema, StructType) else None

    def upsert(self, version: Version, data: object, request: WriteRequest) -> Snapshot | None:
        return frame_writer.upsert(version, data, request, self.learned)

    def upsert_changes(self, version: Version, data: object, request: WriteRequest, changes: ChangeInput) -> Snapshot | None:
        return change_frames.upsert_changes(version, data, request, changes, self.learned)

    def changing(self, version: Version, statement: Statement) -> Callable[[Version], DmlReport]:
        from lsmlake.spark.statements import execute  # loads sqlglot

        return execute.changing(self, statement, version)

    def explained(self, version: Version, statement: Statement, name: str, mode: str) -> Iterator[str]:
        from lsmlake.spark.statements import execute  # loads sqlglot

        return execute.explained_change(self, statement, version, name, mode)

    def explained_merge(self, version: Version, source: MergeSource, statement: Statement, name: str, mode: str) -> Iterator[str]:
        from lsmlake.spark.statements import execute  # loads sqlglot

        return execute.explained_merge(source, statement, version, name, mode)

    def source(self, version: Version, data: object) -> MergeSource | None:
        if self.owns(data):
            return MergeSource(data)
        small = is_small(plan(version))
        if isinstance(data, Scan):
            small = small and is_small(plan(Version.latest(data.meta)))
            return None if small else MergeSource(replace(data, runtime=self).to_spark())
        return None if small else self.spread(version, lambda: as_input(data).tables)

    def spread(self, version: Version, tables: Callable[[], Iterable[pa.Table]]) -> MergeSource:
        limit = version.meta.env.limits.driver_source_bytes
        return MergeSource(small_source(self.spark, tables(), limit))

    def merging(self, version: Version, source: MergeSource, statement: Statement) -> Callable[..., DmlReport]:
        from lsmlake.spark.statements import execute  # loads sqlglot

        return execute.merging(self, source, statement, version)

    def compactions(self, meta: Metadata, schema: Schema) -> CompactBuckets:
        return tasks.run_on(self.spark, meta, schema)

    @property
    def divide(self) -> Divide:
        return divide_tasks.run_on(self.spark)

    def measure(self, plan: Plan, columns: Sequence[str]) -> Measured:
        return spark_measure.measure(self.spark, plan, columns)

    @property
    def live(self) -> LiveFiles:
        return partial(planning.live, self.spark)

    def frame(self, plan: Plan, where: str | None, strategy: str):
        return read.frame(self.spark, plan, where, strategy)

    def first_by_key(self, plan: Plan, where: str | None, strategy: str, limit: int, order: str):
        return read.first_by_key(self.spark, plan, where, strategy, limit, order)

    def changes_frame(
        self, meta: Metadata, like: Feed, pieces: Sequence[Piece], events: EventWriter | None = None, *, in_order: bool = False
    ):
        """`in_order`: a partition of the DataFrame has all changes of its buckets in order."""
        if pieces and not in_order and events is None and change_scans.are_scanned(self.spark, meta, like, pieces):
            return change_scans.changes(self.spark, meta, like, pieces)
        return task_reads.changes(self.spark, meta, like, pieces, events)

    def as_lists(self, changes: object, key: Sequence[str]):
        return task_reads.as_lists(changes, key)

    def attached(self, spark) -> SparkRuntime:
        return self if spark is self.spark else SparkRuntime(spark, self.near)

    def register_tables(self, lake: Lake, database: str | None) -> list[str]:
        return spark_catalog.register_tables(self.spark, lake, database)

    def register_views(self, lake: Lake, database: str | None) -> list[str]:
        return spark_catalog.register_views(self.spark, lake, database)

    @property
    def executes(self) -> Callable[[Lake, str, Args, Mapping[str, object]], pa.Table | DataFrame]:
        return self._execute

    def _execute(self, lake: Lake, text: str, args: Args, tables: Mapping[str, object]) -> pa.Table | DataFrame:
        """Executes a statement. Spark executes queries, also those inside other statements."""
        from lsmlake.spark.spark_sql import SparkEngine, errors_of_text  # loads sqlglot
        from lsmlake.sql.execution import execute

        with errors_of_text(), SparkEngine(self.spark, self, args, self.learned) as engine:
            return execute(lake, text, args, tables, engine)

    @property
    def keeps_views(self) -> object:
        from lsmlake.views.view_keeper import ViewKeeper  # loads sqlglot

        return ViewKeeper()

    def read_stream(self, meta: Metadata, following: Following):
        return stream.read_stream(self.spark, meta, following, self.zone)

    def strategy(self, plan: Plan) -> tuple[str, ...]:
        return read.explained(self.spark, plan)

    def reads_otherwise(self, where: str, types: Sequence[pa.DataType]) -> str | None:
        return settings.reads_otherwise(self.spark.conf.get, where, types)

    def sink(
        self,
        table: object,
        writer_id: str | None,
        request: WriteRequest,
        changes: ChangeInput | None,
        checkpoint: str | None,
        replaces: str | None,
    ) -> stream.Sink:
        return stream.sink(table, writer_id, request, changes, checkpoint, replaces, is_connect(self.spark))

    def write_stream(
        self,
        table: object,
        data: object,
        checkpoint: str,
        trigger: Mapping[str, object] | None,
        request: WriteRequest,
        changes: ChangeInput | None,
        query_name: str | None,
        writer_id: str | None,
    ):
        return stream.write_stream(table, data, checkpoint, trigger, request, changes, query_name, writer_id)

    def sync(
        self,
        given: object,
        data: object,
        checkpoint: str | PurePath | None,
        column: str | None,
        trigger: Mapping[str, object] | None,
        query_name: str | None,
    ):
        return sync_frames.sync(given, data, checkpoint, column, trigger, query_name)

    def __reduce__(self):
        return _Detached, ()


class _Detached(Runtime):
    """The runtime after unpickling in another process, as inside foreachBatch on Connect: it uses the DataFrame's session."""

    name = "spark"
    package = None

    def __init__(self) -> None:
        self.learned = Learned()

    def owns(self, data: object) -> bool:
        return isinstance(data, DataFrame)

    def source(self, version: Version, data: object) -> MergeSource | None:
        return MergeSource(data) if self.owns(data) else None

    on_spark = SparkRuntime.on_spark
    upsert = SparkRuntime.upsert
    upsert_changes = SparkRuntime.upsert_changes
    merging = SparkRuntime.merging
