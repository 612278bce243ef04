"""Where the verbs run: in this process, or on an attached engine such as Spark.

`Runtime` is both the interface and the implementation for this process; `spark.spark_runtime` overrides it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from lsmlake.api.public_types import MergeSource, SparkDataFrame, SparkSession, Statement
from lsmlake.compact.job import CompactBuckets, compact_here
from lsmlake.errors import InvalidQuery, Wording
from lsmlake.extras import need
from lsmlake.files.divide import Divide, divide
from lsmlake.predicate import Predicate
from lsmlake.predicate.where import known_of
from lsmlake.read.measure import Measured, measure
from lsmlake.read.plan import LiveFiles, Plan
from lsmlake.schema.schema import Schema
from lsmlake.statements.attempts import DmlReport
from lsmlake.tables.version import Metadata, Version

Args = Mapping[str, object] | Sequence[object] | None
"""The values of the parameters of a statement, by name or in order."""


class Runtime:
    """The embedded runtime: all work in this process, Arrow in, Arrow out.

    A runtime with its own kind of data sets overrides the methods.
    """

    name = "embedded"
    filters = False
    """Whether the runtime itself evaluates `where`, including SQL that lsmlake does not support."""
    live: LiveFiles | None = None
    """The function that reads the live files for a plan; None: `Version.entries`."""

    @property
    def zone(self) -> str:
        """The time zone of every time that users give without one: in `where`, in converted data, for time travel."""
        return "UTC"

    def reads_otherwise(self, where: str, types: Sequence[pa.DataType]) -> str | None:
        """The reason why the runtime may evaluate `where` differently from lsmlake; None if it does not. `types`: the types of
        the columns in `where`."""
        return None

    def owns(self, data: object) -> bool:
        """Whether `data` is a distributed data set of this runtime."""
        return False

    def columns_of(self, schema: object) -> pa.Schema | None:
        """A schema of the runtime's own kind as a pyarrow.Schema; None if it is not one."""
        return None

    def known_of(self, where: str, columns: pa.Schema, now: Callable[[], str]) -> tuple[Predicate | None, str | None]:
        """For a runtime that filters itself: the predicate that prunes files, and why it does not cover all of `where`. `now`:
        returns the time of the call. Raises InvalidQuery."""
        try:
            predicate, reason = known_of(where, columns, self.zone, now)
        except InvalidQuery:
            if (reason := self.reads_otherwise(where, tuple(columns.types))) is None:
                raise
            return None, reason
        types = () if predicate is None else tuple(columns.field(name).type for name in predicate.columns)
        otherwise = None if predicate is None else self.reads_otherwise(where, types)
        return (predicate, reason) if otherwise is None else (None, otherwise)

    def changing(self, version: Version, statement: Statement) -> Callable[[Version], DmlReport]:
        """Reads a DELETE or UPDATE for a version. Returns a function that executes it on any version and raises Overtaken."""
        from lsmlake.statements.change import CheckedChange  # loads sqlglot

        return CheckedChange.of(statement, version, self.zone).on

    def explained(self, version: Version, statement: Statement, name: str, mode: str) -> Iterator[str]:
        """The lines of EXPLAIN for a DELETE or UPDATE of the table `name`."""
        from lsmlake.statements.change import explained  # loads sqlglot

        return explained(statement, version, self.zone, name, mode)

    def source(self, version: Version, data: object) -> MergeSource | None:
        """The source of a MERGE as a data set of this runtime, for `merge`; None: the MERGE runs in this process."""
        return None

    def spread(self, version: Version, tables: Callable[[], Iterable[pa.Table]]) -> MergeSource | None:
        """The source, for `merge`, of a MERGE that this process cannot evaluate; None: this runtime cannot evaluate it either."""
        return None

    def compactions(self, meta: Metadata, schema: Schema) -> CompactBuckets:
        """A function that compacts buckets."""
        return compact_here(meta, schema)

    @property
    def divide(self) -> Divide:
        """A function that divides the files of buckets."""
        return divide

    def measure(self, plan: Plan, columns: Sequence[str]) -> Measured:
        """Read a plan and measure these of its columns."""
        return measure(plan, columns)

    def on_spark(self, what: str) -> Any:
        """The runtime of the attached Spark session, which has further methods: `spark.spark_runtime`. Raises InvalidQuery,
        which names `what`, if there is none."""
        need("pyspark", what)
        raise InvalidQuery(f"{what} needs Spark", cure=_ATTACH)

    def attached(self, spark: SparkSession) -> Runtime:
        """The runtime of a Spark session."""
        return self.on_spark("register_views()")

    @property
    def executes(self) -> Callable[[Any, str, Args, Mapping[str, object]], pa.Table | SparkDataFrame]:
        """Executes a statement of SQL for a lake: its text, the values of its parameters, and further data by name."""
        raise InvalidQuery("this lake has no SQL", cure=_CONNECT)

    @property
    def keeps_views(self) -> Any:
        """The functions that create and refresh view tables: `views.view_keeper`."""
        raise InvalidQuery("this lake has no SQL", cure=_CONNECT)

    def strategy(self, plan: Plan) -> tuple[str, ...]:
        """A description of how `frame` would read the plan, as lines of text."""
        return (
            "embedded: Arrow scan, positions masked by vectors, checksums checked",
            "to_polars, to_duckdb: checksums of footers checked, those of pages with verify=True",
        )


_CONNECT = Wording("open it with lsmlake.connect", command="use `lsmlake sql`")
_ATTACH = Wording('attach a session: lsmlake.connect("...", spark=spark)', command="use a Python program with a Spark session")
