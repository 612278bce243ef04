"""The types that public signatures name: modes, and the shapes of values of other packages.

Parameters are described by shape (protocols), so that a type checker refuses a wrong value even if a package has no type
information or is not installed. Results have the types of their packages, which no program loads for that.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from decimal import Decimal
from typing import TYPE_CHECKING, Literal

import pyarrow.compute as pc

ReadMode = Literal["fresh", "raw"]
Isolation = Literal["serializable", "snapshot"]
ChangesMode = Literal["diff", "changelog", "delta"]
StartMode = Literal["latest-full", "latest", "from-snapshot", "from-snapshot-full", "from-timestamp"]
HistoryStart = Literal["latest-full", "earliest-full"]
OnError = Literal["raise", "reject"]
RepairAction = Literal["drop", "null"]
SparkStrategy = Literal["auto", "native", "arrow"]
MetadataTable = Literal[
    "snapshots",
    "history",
    "schemas",
    "options",
    "files",
    "file_key_ranges",
    "manifests",
    "partitions",
    "buckets",
    "table_indexes",
    "file_indexes",
    "aggregation_fields",
    "statistics",
    "tags",
    "branches",
    "consumers",
    "maintenance",
]
RowKind = Literal["+I", "-U", "+U", "-D"]
Scalar = bool | int | float | Decimal | str | bytes | datetime.date | datetime.datetime | datetime.time | None

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import PurePath
    from typing import Any, Protocol, TypeAlias, TypedDict

    from duckdb import DuckDBPyConnection as DuckDBConnection
    from duckdb import DuckDBPyRelation as DuckDBRelation
    from pandas import DataFrame as PandasDataFrame
    from polars import DataFrame as PolarsDataFrame
    from polars import LazyFrame as PolarsLazyFrame
    from pyspark.sql import DataFrame as SparkDataFrame
    from pyspark.sql import SparkSession as ClassicSession
    from pyspark.sql.connect.session import SparkSession as ConnectSession
    from pyspark.sql.streaming import StreamingQuery as StreamingQuery

    from lsmlake.statements.statement import Statement as Statement
    from lsmlake.write.order import AnyOrder

    TorchDataset: TypeAlias = Any
    """A torch.utils.data.IterableDataset. A type checker need not find torch, which is large."""

    class ArrowStream(Protocol):
        """Data with the Arrow stream interface: tables of PyArrow, pandas and Polars, record batch readers, Spark DataFrames."""

        def __arrow_c_stream__(self, requested_schema: object | None = None, /) -> object: ...

    class ArrowArray(Protocol):
        """Data with the Arrow array interface: record batches."""

        def __arrow_c_array__(self, requested_schema: object | None = None, /) -> object: ...

    class PolarsQuery(Protocol):
        """A LazyFrame."""

        def collect_batches(self, *, chunk_size: int | None = None, maintain_order: bool = True) -> object: ...

    class DuckDBQuery(Protocol):
        """A DuckDB relation, whose type information does not name its Arrow stream interface."""

        def create_view(self, view_name: str, replace: bool = True) -> object: ...

    class ArrowDataset(Protocol):
        def scanner(self) -> object: ...

    class ArrowScanner(Protocol):
        def to_reader(self) -> object: ...

    class SparkQuery(Protocol):
        """A Spark DataFrame, classic or Connect."""

        def createOrReplaceTempView(self, name: str) -> None: ...

    class ArrowExpression(Protocol):
        """A pyarrow.compute.Expression."""

        def to_substrait(self, schema: Any, /) -> object: ...

    class ArrowSchema(Protocol):
        """A pyarrow.Schema."""

        def __arrow_c_schema__(self) -> object: ...

        def empty_table(self) -> object: ...

    class ArrowType(Protocol):
        """A pyarrow.DataType."""

        def to_pandas_dtype(self) -> object: ...

    class SparkSchema(Protocol):
        """A pyspark.sql.types.StructType."""

        def fieldNames(self) -> list[str]: ...

    class _Codes(TypedDict, total=False):
        map: Mapping[Any, RowKind]

    class RowKindColumn(_Codes):
        """The column with the row kinds and, in `map`, the row kind that each value of the column stands for."""

        column: str

    class Trigger(TypedDict, total=False):
        """The arguments of `DataStreamWriter.trigger`."""

        processingTime: str
        availableNow: bool
        once: bool

    InMemory: TypeAlias = ArrowStream | ArrowArray | Sequence[Mapping[str, object]] | Mapping[str, object]
    Streamed: TypeAlias = (
        Sequence[ArrowStream]
        | Sequence[ArrowArray]
        | Iterator[ArrowStream]
        | Iterator[ArrowArray]
        | Iterator[Mapping[str, object]]
        | PolarsQuery
    )
    Queried: TypeAlias = DuckDBQuery | ArrowDataset | ArrowScanner
    Paths: TypeAlias = str | PurePath | Sequence[str] | Sequence[PurePath]
    Events: TypeAlias = Sequence[bytes] | Iterator[bytes] | Iterator[str]
    Data: TypeAlias = InMemory | Streamed | Queried | Paths | Events | SparkQuery
    EventBatches: TypeAlias = Data | Iterator[Sequence[str]] | Iterator[Sequence[bytes]] | Iterator[tuple[int, Data]]
    Keys: TypeAlias = ArrowStream | ArrowArray | Sequence[Mapping[str, object]] | Streamed | Queried

    class SparkType(Protocol):
        """A pyspark.sql.types.DataType."""

        def simpleString(self) -> str: ...

    Value: TypeAlias = str | bytes | bool | int | float | Decimal | datetime.date | datetime.time | None
    ColumnType: TypeAlias = str | ArrowType | SparkType
    RowKinds: TypeAlias = str | RowKindColumn
    OrderKeys: TypeAlias = str | Sequence[str] | Literal[AnyOrder.ANY]
    OptionValue: TypeAlias = str | int | float | bool | Sequence[str]
    TableSchema: TypeAlias = ArrowSchema | str | SparkSchema
    SparkSession: TypeAlias = ClassicSession | ConnectSession
    BatchFunction: TypeAlias = Callable[[SparkDataFrame, int], None]

    class MergeSource(Protocol):
        """The source of a MERGE that a runtime spreads over processes. `schema`: as the runtime knows types."""

        schema: object

else:  # the types that the border tests at run time; the verbs themselves refuse other values, with better messages
    Data = EventBatches = Keys = OptionValue = ColumnType = Value = TableSchema = SparkSession = object
    ArrowStream = DuckDBConnection = SparkDataFrame = MergeSource = Statement = object
    DuckDBRelation = PandasDataFrame = PolarsDataFrame = PolarsLazyFrame = StreamingQuery = BatchFunction = TorchDataset = object
    ArrowExpression = pc.Expression
    Trigger = Mapping[str, object]
    RowKinds = str | Mapping[str, object]
    OrderKeys = object
