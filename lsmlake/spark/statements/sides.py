"""The two sides of a statement on Spark: the rows of the target that it may change, and the source of a MERGE. Small files and
small sources are read in the driver.

The values of a source limit the files of the target that are read. So the source is used several times: to find these values,
for the join, and again if another commit overtakes the statement. If its values are looked up, the source is evaluated once and
kept by the executors: a source with random rows must not be joined with files that were chosen by the rows of another evaluation.

The driver fetches a source of few rows instead; it is then a constant of the plans, so Spark knows that it is small.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F

from lsmlake.compact.bucket_compaction import Picker
from lsmlake.errors import InvalidQuery
from lsmlake.options.write_options import SERIALIZABLE
from lsmlake.predicate import Predicate
from lsmlake.predicate.tree import And, Column, Compare, In, Literal
from lsmlake.read.partition_match import is_of_partitions, partition_matches
from lsmlake.read.plan import Plan, plan
from lsmlake.schema.schema import Schema
from lsmlake.spark import collected
from lsmlake.spark.frame_types import to_arrow, to_spark
from lsmlake.spark.learned import Learned
from lsmlake.spark.statements.clauses import condition
from lsmlake.tables.version import Version
from lsmlake.types.column_types import any_inside, char_length
from lsmlake.types.type_text import backticked
from lsmlake.write.write import picker


@dataclass(frozen=True)
class SparkTarget:
    """The rows of a version that a statement may change.

    Attributes:
        name: the statement's name of the table.
        where: the condition for the rows, in the words of the statement.
        predicate: true for all rows of the condition. `decides`: whether it is equal to the condition.
        ranges: value ranges of the rows, as SQL with which Spark skips parts of files.
        own: whether the statement also reads other rows of this version.
        learned: as in `spark.frame_writer.upsert`.
    """

    spark: object
    version: Version
    name: str
    isolation: str = SERIALIZABLE
    where: str | None = None
    predicate: Predicate | None = None
    decides: bool = False
    ranges: str | None = None
    own: bool = False
    learned: Learned = field(default_factory=Learned)

    def of(self, rows):
        """Returns the rows that the statement may change, under the name of the table."""
        named = rows.alias(self.name)
        return named if self.where is None else named.where(condition(self.where))

    def plan(self) -> Plan:
        """The plan that reads the rows."""
        return plan(self.version, self.predicate)

    @property
    def picker(self) -> Picker | None:
        """The picker of the inline compactions of the buckets that the statement writes."""
        return None if self.version.schema.append_only else picker(self.version, None)


def is_small(planned: Plan) -> bool:
    """Whether the driver may read the files of a statement itself, with all columns."""
    limits = planned.version.meta.env.limits
    return sum(file.bytes for file in planned.data_files) <= min(limits.driver_source_bytes, limits.driver_statement_bytes)


def decided_by_partitions(planned: Plan) -> bool:
    """Whether a DELETE of all rows of a plan needs to read no rows."""
    predicate = planned.predicate
    by_position = planned.schema.append_only and planned.version.options.layout.deletion_vectors
    if not by_position or predicate is None:
        return by_position
    buckets = {split.bucket for split in planned.splits}
    return is_of_partitions(predicate, planned.schema) and all(
        partition_matches(predicate, planned.schema, bucket) is not None for bucket in buckets
    )


# -- the source -------------------------------------------------------------------------------------------------------


class MergeSource:
    """The rows of a source, and the values of its columns."""

    def __init__(self, frame) -> None:
        self._given, self.schema = frame, frame.schema
        self._is_kept = False
        self._rows: pa.Table | None = None

    @property
    def session(self):
        return self._given.sparkSession

    @property
    def frame(self):
        """The rows."""
        return self._kept if self._is_kept else self._given

    def fetch(self, limit: int) -> bool:
        """Fetches the rows if there are at most about `limit`, and Arrow preserves their types. Returns False if there were
        too many."""
        names = self.schema.names
        typed = not any(any_inside(field.type, pa.types.is_null) for field in self.columns)
        alike = to_spark(self.columns).fields if typed and len({name.lower() for name in names}) == len(names) else []
        if (
            self._rows is not None
            or self._is_kept
            or [one.dataType for one in alike] != [one.dataType for one in self.schema.fields]
        ):
            return True
        self._rows = collected.rows(self._given, list(map(backticked, names)), limit)
        if self._rows is not None:
            self._given = self.session.createDataFrame(self._rows, self.schema)
        return self._rows is not None

    def has_repeats(self, names: Sequence[str]) -> bool:
        """Whether fetched rows repeat values in these columns; True if unknown. Rows with a null do not count."""
        if self._rows is None or any(pa.types.is_nested(kind) or pa.types.is_floating(kind) for kind in self._kinds(names)):
            return True
        rows = self._rows.select(names).drop_null()
        return rows.group_by(names).aggregate([]).num_rows < rows.num_rows

    def _kinds(self, names: Sequence[str]) -> list[pa.DataType]:
        return [self.columns.field(name).type for name in names]

    @property
    def is_fetched(self) -> bool:
        return self._rows is not None

    @property
    def rows(self) -> pa.Table:
        """The rows of a fetched source."""
        assert self._rows is not None, "the caller has asked is_fetched"
        return self._rows.cast(self.columns)

    @cached_property
    def columns(self) -> pa.Schema:
        """The columns of the source as Arrow fields."""
        return to_arrow(self.schema)

    @cached_property
    def _kept(self):
        self._is_kept = True
        return self._given.localCheckpoint(eager=False)  # the first job computes and keeps it

    @cached_property
    def _summary(self) -> pa.Table:
        """For each column with an order: the approximate number of distinct values, the least and the greatest value."""
        asked = []
        for place, name in enumerate(self.columns.names):
            if not pa.types.is_nested(self.columns.field(name).type):
                value = F.expr(backticked(name))
                made = (F.approx_count_distinct(value), F.min(value), F.max(value))
                asked += [one.alias(f"{what}{place}") for what, one in zip(("n", "low", "high"), made, strict=True)]
        return self._kept.agg(*asked).toArrow()

    def distinct(self, column: str, most: int) -> pa.ChunkedArray | None:
        """The distinct values of a column, without null; None if there are more than `most`."""
        if self._rows is not None:
            values = self._rows[column].drop_null().unique()
            return None if len(values) > most else pa.chunked_array([values]).cast(self.columns.field(column).type)
        if self._summary[f"n{self.columns.names.index(column)}"][0].as_py() > 1.2 * most:  # an estimate
            return None
        name = backticked(column)
        rows = self._kept.where(f"{name} is not null").selectExpr(f"{name} as value").distinct().limit(most + 1).toArrow()
        return None if rows.num_rows > most else rows.column(0).cast(self.columns.field(column).type)

    def bounds(self, column: str) -> tuple[object, object]:
        """The least and the greatest value of a column; None without values."""
        if self._rows is not None:
            return tuple(pc.min_max(self._rows[column].cast(self.columns.field(column).type)).as_py().values())
        place, kind = self.columns.names.index(column), self.columns.field(column).type
        return tuple(self._summary[f"{what}{place}"].cast(kind)[0].as_py() for what in ("low", "high"))


class Few(NamedTuple):
    """A source of few rows. `matches_few`: each source row matches at most one target row. `matched_once`: each target row
    matches at most one source row."""

    matches_few: bool
    matched_once: bool


def few_rows(target: SparkTarget, source: MergeSource, on: str, equal: Sequence[tuple[str, str]]) -> Few | None:
    """Fetches the source if it may be small; None if it is not. `equal`: the pairs of columns that the join compares."""
    schema = target.version.schema
    limit = collected.row_limit(target.version, target.picker, source.frame, target.learned)
    if not limit or "select" in on.lower():  # Spark has no subqueries in every kind of join
        return None
    if not source.fetch(limit):
        target.learned.uneven.add(target.version.meta.paths.root)
    if not source.is_fetched:
        return None
    alike = [other for own, other in equal if schema.plain_columns.field(own).type == source.columns.field(other).type]
    matches_few = bool(schema.primary_key) and {own for own, _ in equal} >= set(schema.primary_key)
    return Few(matches_few, bool(alike) and not source.has_repeats(alike))


def small_source(spark, tables: Iterator[pa.Table], limit: int):
    """Returns data in this process as a DataFrame. Raises InvalidQuery if it is larger than `limit` bytes."""
    held, size = [], 0
    for table in tables:
        held.append(table)
        size += table.nbytes
        if size > limit:
            raise InvalidQuery(
                "the source of the merge is too large to pass it through the driver",
                expected=f"at most {limit >> 20} MiB",
                cure="read it with Spark, and pass the DataFrame",
            )
    return spark.createDataFrame(pa.concat_tables(held))


def as_text(predicate: Predicate | None, schema: Schema) -> str | None:
    """The value ranges of a predicate of `write.changeable`, as SQL with which Spark skips parts of files. None: no range can
    be written in SQL."""
    parts = predicate.children if isinstance(predicate, And) else (predicate,)
    return " and ".join(text for part in parts if (text := _range(part, schema)) is not None) or None


def _range(part: Predicate | None, schema: Schema) -> str | None:
    match part:
        case In(Column((name,)), values):
            ends = (">=", min(values)), ("<=", max(values))
        case Compare(op, Column((name,)), Literal(value)):
            ends = ((op, value),)
        case _:
            return None
    if char_length(schema.columns.field(name)) is not None:  # Spark would pad the text
        return None
    texts = [(op, _literal(value)) for op, value in ends]
    if any(text is None for _, text in texts):
        return None
    return " and ".join(f"{backticked(name)} {op} {text}" for op, text in texts)


def _literal(value: object) -> str | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return str(value)
    if isinstance(value, str):
        return f"string(X'{value.encode().hex()}')"  # independent of the session's quoting settings
    if isinstance(value, datetime.date) and not isinstance(value, datetime.datetime):
        return f"date'{value.isoformat()}'"
    return None
