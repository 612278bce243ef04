"""`Scan`: a described read of a table, made by `Table.scan`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from lsmlake.api.public_types import (
    ArrowExpression,
    DuckDBConnection,
    DuckDBRelation,
    PolarsLazyFrame,
    ReadMode,
    Scalar,
    SparkDataFrame,
    SparkStrategy,
    TorchDataset,
)
from lsmlake.api.readable import Readable, check_rows, duckdb_connection, html_table
from lsmlake.api.runtime import Runtime
from lsmlake.api.scan_split import ScanSplit, divided, planned_rows
from lsmlake.api.torch_rows import torch_dataset
from lsmlake.border import public, through
from lsmlake.dialect.connection import PatientConnection
from lsmlake.dialect.sql_types import quoted
from lsmlake.errors import InvalidQuery, LakeError
from lsmlake.extras import need
from lsmlake.notebook import html_pairs
from lsmlake.predicate import Predicate
from lsmlake.predicate.arrow_expression import needed_columns
from lsmlake.predicate.where import predicate_of
from lsmlake.read import plan as planning
from lsmlake.read.aggregate_pushdown import Side, count, extreme, extreme_of
from lsmlake.read.arrow_scan import output_schema
from lsmlake.read.fallback import branches_read, version_to_read
from lsmlake.read.in_duckdb import condition, dataset, relation
from lsmlake.read.in_polars import by_name, expression, lazy_frame, streamed
from lsmlake.read.limit import KeyOrder, files_of_first_rows, first_rows, limited
from lsmlake.read.native import NativeSource, Stream, source_of
from lsmlake.read.plan import Plan, Projection
from lsmlake.read.point import read_keys
from lsmlake.read.travel import Moment
from lsmlake.schema.schema import Schema
from lsmlake.storage.env import moment_of
from lsmlake.tables.version import Metadata, Version

_COLUMNS_SHOWN = 6
_ROWS_SHOWN = 20
_SPARK_LIMIT_MAX = (1 << 31) - 1
_AFTER = " (evaluated by Arrow after the read: no file is pruned)"


def check_order(order: str, limit: int | None, where: object) -> None:
    """Raises InvalidQuery unless a scan can return the first rows by key."""
    what = f"order_by_key={order!r}"
    if order not in ("asc", "desc"):
        raise InvalidQuery("unknown order of keys", expected="'asc' or 'desc'", found=repr(order), cure="correct order_by_key")
    if limit is None:
        raise InvalidQuery(
            "an order needs a limit", found=what, cure="give limit=..., or sort the rows of a scan without an order"
        )
    if isinstance(where, pc.Expression):
        raise InvalidQuery(
            "a pyarrow expression prunes no file, and an order needs that", found=what, cure="write the condition as SQL text"
        )


@public
@dataclass(frozen=True)
class Scan(Readable):
    """A described read of a table: `Table.scan`. Nothing is read until a method is called.

    Each call reads the latest state of the table, unless the scan names a snapshot, a time or a tag. The scan has the Arrow
    stream interface.
    """

    meta: Metadata
    runtime: Runtime
    where: str | ArrowExpression | None
    columns: tuple[str, ...] | None
    mode: ReadMode
    moment: Moment
    limit: int | None = None
    order_by_key: KeyOrder | None = None

    def __repr__(self) -> str:
        return f"<lsmlake scan {', '.join(f'{name} {value}' for name, value in self._arguments())}>"

    def _repr_html_(self) -> str:
        """The arguments and the first rows, or why they cannot be read."""
        arguments = html_pairs("Scan", self._arguments())
        try:
            return arguments + html_table("First rows", self.head(_ROWS_SHOWN))
        except LakeError as error:
            return arguments + html_pairs("No rows", [(type(error).__name__, error)])

    def __len__(self) -> int:
        """The number of rows, as `count`."""
        return self.count()

    def _arguments(self) -> list[tuple[str, object]]:
        """The arguments that were given. Reads nothing."""
        given = ("of", self.meta.paths.root), ("where", self.where), ("columns", self.columns and ", ".join(self.columns))
        rest = (
            ("mode", self.mode),
            ("snapshot", self.moment.snapshot),
            ("timestamp", self.moment.timestamp),
            ("tag", self.moment.tag),
            ("limit", self.limit),
            ("order_by_key", self.order_by_key),
        )
        return [(name, value) for name, value in (*given, *rest) if value is not None]

    @property
    def schema(self) -> pa.Schema:
        """The columns of the rows, in their order. Reads metadata only.

        Raises:
            InvalidQuery: a column or `where` does not fit the table.
            SnapshotNotFound: the snapshot is not retained.
        """
        return self._schema(self._projection(self._version()))

    def plan(self) -> Plan:
        """The files that a read would open, as values. Reads metadata only.

        Raises:
            InvalidQuery: a column or `where` does not fit the table.
            SnapshotNotFound: the snapshot is not retained.
        """
        return self._plan(runtime_filters=False)[0]

    def _plan(self, *, runtime_filters: bool) -> tuple[Plan, str | None]:
        """The plan and, if only a part of `where` prunes files, a text about this. With `runtime_filters`, the runtime applies
        `where`; the plan then has a predicate only if it covers all of `where`."""
        version = self._version()
        predicate, reason = self._predicate(version.schema, runtime_filters)
        if reason is None:
            return self._planned(version, predicate), None
        with version.unless_expired():
            plan = planning.plan(version, predicate, self.columns, self.mode, live=self.runtime.live)
        extent = "off" if predicate is None else "by a part"
        return replace(plan, predicate=None), f"{extent}: only Spark applies this filter. {reason}"

    def _version(self) -> Version:
        return version_to_read(self.meta, self.moment, self.runtime.zone)

    def _needed(self, schema: Schema) -> Sequence[str] | None:
        """The columns to read."""
        return needed_columns(self.where, schema.plain_columns, self.columns) if self._by_arrow else self.columns

    def _planned(self, version: Version, predicate: Predicate | None) -> Plan:
        with version.unless_expired():
            plan = planning.plan(version, predicate, self._needed(version.schema), self.mode, live=self.runtime.live)
            if self.limit is None or self._by_arrow:  # metadata does not say which rows match
                return plan
            if self.order_by_key is not None:
                return files_of_first_rows(plan, self.limit, self.order_by_key)
        return limited(plan, self.limit)

    @property
    def _order(self) -> str:
        """The order of the rows, in words."""
        words = {None: "", "asc": ", in ascending order of the key", "desc": ", in descending order of the key"}
        return words[self.order_by_key]

    @property
    def _by_arrow(self) -> bool:
        """Whether Arrow evaluates `where` after the read."""
        return isinstance(self.where, pc.Expression)

    @property
    def _expression(self) -> ArrowExpression | None:
        """The condition that Arrow evaluates after the read."""
        return self.where if self._by_arrow else None

    def _predicate(self, schema: Schema, runtime_filters: bool) -> tuple[Predicate | None, str | None]:
        """The predicate that prunes files, and the reason why only Spark filters by all of `where`."""
        if self.where is None or self._by_arrow:
            return None, None
        columns, now = schema.typed_columns, partial(moment_of, self.meta.env)
        if runtime_filters:
            return self.runtime.known_of(self.where, columns, now)
        return predicate_of(self.where, columns, self.runtime.zone, now), None

    def to_batches(self) -> pa.RecordBatchReader:
        """The rows as a stream of record batches, read by up to four threads.

        Memory holds a few chunks of each file that is being read; a chunk is a row group or 65,536 rows. Two reads of the same
        plan return the rows in the same order; the order itself is undefined.
        """
        return self._batches(self._version())

    def to_arrow(self) -> pa.Table:
        """All rows as a pyarrow.Table."""
        return self._batches(self._version()).read_all()

    def _batches(self, version: Version) -> pa.RecordBatchReader:
        predicate, _ = self._predicate(version.schema, runtime_filters=False)
        projection = Projection.of(version.schema, predicate, self._needed(version.schema))
        tables_of_keys = read_keys(version, projection) if self.mode == planning.FRESH and self.order_by_key is None else None
        if tables_of_keys is None:
            plan = self._planned(version, predicate)
            tables = planned_rows(plan, self._expression, self.columns, self.limit, self.order_by_key)
        else:
            tables = tables_of_keys if self.limit is None else first_rows(tables_of_keys, self.limit)
        batches = (batch for table in tables for batch in table.to_batches())
        return pa.RecordBatchReader.from_batches(self._schema(projection), through(batches, "Scan"))

    def _projection(self, version: Version) -> Projection:
        predicate, _ = self._predicate(version.schema, runtime_filters=False)
        return Projection.of(version.schema, predicate, self._needed(version.schema))

    def _schema(self, projection: Projection) -> pa.Schema:
        schema = output_schema(projection)
        return pa.schema([schema.field(name) for name in self.columns or schema.names]) if self._by_arrow else schema

    def splits(self) -> list[ScanSplit]:
        """The parts of the scan, for tasks of Dask, Ray and others: each is read by itself, in any process, and together they
        hold the rows of the scan.

        There is one split for each file, and one for the files of a bucket that are merged at read: those with rows at level 0.
        A scan with a limit is a single split, and a table without rows has none. All splits read the snapshot that is the latest
        one now, unless the scan names another. Reads metadata only.

        Raises:
            InvalidQuery: a column or `where` does not fit the table.
            SnapshotNotFound: the snapshot is not retained.
        """
        version = self._version()
        plan = self._planned(version, self._predicate(version.schema, runtime_filters=False)[0])
        return divided(plan, self._expression, self.columns, self.limit, self.order_by_key)

    def to_torch(self, batch_size: int = 1024) -> TorchDataset:
        """A `torch.utils.data.IterableDataset` of the rows, in batches: each is a dict with a tensor for each column.

        It reads the snapshot that is the latest one now, unless the scan names another. The workers of a `DataLoader` and, if
        `torch.distributed` runs, the processes of a group share the splits of the scan, so each row is read once. BOOLEAN,
        integers, FLOAT and DOUBLE become tensors, and an ARRAY of these one with a row of values for each row of the scan, all of
        one length.

        Args:
            batch_size: the most rows of a batch; the last batch of a split has fewer.

        Raises:
            InvalidQuery: a column has another type, or `batch_size` is not positive. While rows are read: a column has a null, or
                arrays of different lengths.
            MissingDependency: torch is not installed.

        Example:
            >>> batches = orders.scan(columns=["amount", "embedding"]).to_torch()
            >>> loader = torch.utils.data.DataLoader(batches, batch_size=None, num_workers=4)
        """
        return torch_dataset(self.splits(), self.schema, batch_size)

    def head(self, rows: int = 10) -> pa.Table:
        """The first rows, in the order of `order_by_key` if the scan has one. Reads only the files that hold them.

        Raises:
            InvalidQuery: `rows` is negative.
        """
        check_rows(rows)
        return replace(self, limit=rows if self.limit is None else min(rows, self.limit)).to_arrow()

    def _stream(self) -> Stream:
        """The rows of the present version, as Arrow reads them."""
        version = self._version()
        schema = self._schema(self._projection(version))
        return Stream(schema, lambda columns: replace(self, columns=columns)._batches(version))

    def count(self) -> int:
        """The number of rows. Reads metadata, the columns of `where` in files whose statistics do not decide it, and the keys of
        rows that must be merged."""
        if self._by_arrow:
            return sum(batch.num_rows for batch in self.to_batches())
        if self.limit is not None and self.where is not None:
            return sum(batch.num_rows for batch in self.to_batches())
        plan = self.plan()
        with plan.version.unless_expired():
            rows = count(plan)
        return rows if self.limit is None else min(rows, self.limit)

    def min(self, column: str) -> Scalar:
        """The least value of a column, or None if there is none; NaN is greater than all numbers.

        Reads only files whose statistics do not give the answer.

        Raises:
            InvalidQuery: the column is unknown or of a nested type, or the scan has a limit.
        """
        return self._extreme(column, "min")

    def max(self, column: str) -> Scalar:
        """The greatest value of a column, as `min`."""
        return self._extreme(column, "max")

    def _extreme(self, column: str, side: Side) -> Scalar:
        if self.limit is not None:
            raise InvalidQuery(f"{side} of some rows is undefined", found=f"limit {self.limit}", cure="omit the limit")
        one = replace(self, columns=(column,))
        if self._by_arrow:
            return extreme_of(one.to_arrow().column(0).combine_chunks(), side)
        plan = one.plan()
        with plan.version.unless_expired():
            return extreme(plan, plan.columns[0], side)

    def to_polars(self, *, verify: bool = False) -> PolarsLazyFrame:
        """A polars.LazyFrame over the rows of the snapshot that is the latest one now, unless the scan names another.

        Polars reads the Parquet files itself, leaves out the dead rows, and pushes projections and filters into the files. Which
        rows level 0 supersedes is found now; under `sequence.field` and merge engines other than deduplicate its rows are merged
        now and held in memory. A query fails if the snapshot has expired and its files are deleted.
        `polars.DataFrame(scan)` is eager.

        Arrow reads as a stream: tables in object stores, sections that must be merged (tables without deletion vectors), and
        files in which fields of nested columns have changed. It also reads all rows of a scan with an order, with a pyarrow
        expression, or with a condition that compares columns of different types.

        Args:
            verify: check the checksums of the files now: Polars does not, so a damaged page can give wrong values. It reads each
                file once per lake, a gigabyte in about a second. Footers, and what Arrow reads, are always checked.

        Raises:
            MissingDependency: Polars is not installed.
            Corrupt: a file is damaged.
        """
        plan = self._native_plan()
        where = None if plan is None or plan.predicate is None else expression(plan.predicate)
        if plan is None or (where is None and plan.predicate is not None):
            return streamed(self._stream())
        limit = self._limit_of(plan)
        frame = lazy_frame(_wide(plan, verify), limit if where is None else None)
        rows = (frame if where is None else frame.filter(where)).select(by_name(*plan.columns))
        return rows if limit is None else rows.head(limit)

    def to_duckdb(self, connection: DuckDBConnection | None = None, *, verify: bool = False) -> DuckDBRelation:
        """A DuckDB relation over the rows of the snapshot that is the latest one now, unless the scan names another.

        DuckDB reads the Parquet files itself, without the dead rows, and pushes filters and projections into them. Arrow reads
        what `to_polars` says, and everything if the connection may not read files (`enable_external_access`). The relation makes
        no names in the connection. It remains valid without the scan, until the snapshot has expired and its files are deleted.

        Args:
            connection: the connection that the relation belongs to. Default: the default connection of the module `duckdb`.
            verify: as in `to_polars`.

        Raises:
            MissingDependency: DuckDB is not installed.
            Corrupt: a file is damaged.
        """
        owner = duckdb_connection(connection)
        return PatientConnection(owner).wait_for(lambda: self._in_duckdb(owner, verify))

    def _in_duckdb(self, owner: DuckDBConnection, verify: bool) -> DuckDBRelation:
        plan = self._native_plan()
        where = None if plan is None or plan.predicate is None else condition(plan.predicate)
        if plan is None or (where is None and plan.predicate is not None):
            return owner.from_arrow(dataset(self._stream()))
        try:
            rows = relation(owner, _wide(plan, verify), dataset)
        except need("duckdb", "to_duckdb()").PermissionException:
            return owner.from_arrow(dataset(self._stream()))
        rows = rows if where is None else rows.filter(where)
        if plan.columns != plan.needed:  # each step costs DuckDB a millisecond
            rows = rows.project(", ".join(map(quoted, plan.columns)))
        limit = self._limit_of(plan)
        return rows if limit is None else rows.limit(limit)

    def _native_plan(self) -> Plan | None:
        """The plan of a scan that an engine in this process can read; None if only Arrow can."""
        return None if self._by_arrow or self.order_by_key is not None else self.plan()

    def _limit_of(self, plan: Plan) -> int | None:
        """The limit; None if the plan has no more rows than it."""
        files = (file for split in plan.splits for file in (*split.files, *split.level0, *split.merged))
        return None if self.limit is None or self.limit > sum(file.rows for file in files) else self.limit

    def to_spark(self, strategy: SparkStrategy = "auto") -> SparkDataFrame:
        """Spark: the rows as a DataFrame, evaluated lazily.

        Args:
            strategy: 'native': Catalyst reads the Parquet files and masks deleted rows by broadcast bitmaps. 'arrow': Python
                tasks read and mask. 'auto' selects one of them for each file, and reads very many small files in tasks, several
                together. All return the same rows; `explain()` shows the choice.
        """
        if self._by_arrow:
            raise InvalidQuery(
                "Spark cannot evaluate a pyarrow expression", found=self.where, cure="write the condition as SQL text in where"
            )
        if self.limit is not None and self.limit > _SPARK_LIMIT_MAX:
            expected = f"at most {_SPARK_LIMIT_MAX:,}"
            raise InvalidQuery("the limit is too large for Spark", expected=expected, found=self.limit, cure="omit the limit")
        plan = self._plan(runtime_filters=True)[0]
        if self.order_by_key is not None:
            return self.runtime.on_spark("to_spark()").first_by_key(plan, self.where, strategy, self.limit, self.order_by_key)
        frame = self.runtime.on_spark("to_spark()").frame(plan, self.where, strategy)
        return frame if self.limit is None else frame.limit(self.limit)

    def explain(self) -> str:
        """Describe a read as text: the files that each pruning step leaves, why not all of `where` prunes, the deleted rows that
        are masked, the rows that wait at level 0, and the strategy."""
        plan, pruning = self._plan(runtime_filters=self.runtime.filters)
        waiting = sum(file.rows for split in plan.splits for file in split.level0)
        steps = " -> ".join(f"{files} ({step})" for step, files in plan.pruned)
        masked = sum(len(split.vectors) for split in plan.splits)
        hidden = len(plan.columns) - _COLUMNS_SHOWN
        return "\n".join(
            [
                f"snapshot  {plan.snapshot.id if plan.snapshot else 'none: the table is empty'}   mode {plan.mode}",
                *branches_read(plan),
                f"columns   {', '.join(plan.columns[:_COLUMNS_SHOWN])}{f' and {hidden:,} more' if hidden > 0 else ''}",
                f"where     {'all rows' if self.where is None else self.where}{_AFTER if self._by_arrow else ''}",
                *([] if pruning is None else [f"pruning   {pruning}"]),
                f"files     {steps}",
                *([] if self.limit is None else [f"limit     {self.limit} rows{self._order}, then reading stops"]),
                f"masked    {plan.dead_rows:,} dead rows in {masked} files",
                f"level 0   {waiting:,} rows waiting in {sum(len(split.level0) for split in plan.splits)} files",
                *(f"strategy  {line}" for line in self.runtime.strategy(plan)),
            ]
        )


def _wide(plan: Plan, verify: bool) -> NativeSource:
    """The source from which an engine reads the columns of the rows and of the predicate. `verify`: check the files first."""
    source = source_of(replace(plan, columns=plan.needed))
    if verify:
        source.check()
    return source
