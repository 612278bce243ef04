"""DELETE, UPDATE and MERGE as Spark plans: Catalyst evaluates conditions, values and joins, tasks write, the driver commits once.

A statement whose files are small runs in the driver, as it does without Spark, unless its source is a DataFrame or only Spark can
evaluate its text.

An append-only table: rows with their places (`spark.places`), what becomes of them (`spark.clauses`), and one job that writes new
rows and reports the places to remove (`spark.row_edit`). Under a primary key the changes are an upsert of rows with row kinds
(`spark.write`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from pyspark.errors import (
    AnalysisException,
    ArithmeticException,
    ArrayIndexOutOfBoundsException,
    DateTimeException,
    IllegalArgumentException,
    NumberFormatException,
    ParseException,
    PySparkException,
    SparkRuntimeException,
)
from pyspark.sql import Observation
from pyspark.sql import functions as F

from lsmlake.commit.replay import Identity
from lsmlake.compact.bucket import Picker
from lsmlake.errors import InvalidData, InvalidQuery
from lsmlake.options.isolation import SERIALIZABLE
from lsmlake.options.merge import PARTIAL_UPDATE
from lsmlake.predicate import Predicate
from lsmlake.read.partitions import is_of_partitions, partition_matches
from lsmlake.read.plan import Plan, plan
from lsmlake.schema.rowkind import Source
from lsmlake.schema.type_text import backticked
from lsmlake.spark import collected, read, row_edit, write
from lsmlake.spark.clauses import IS_SOURCE, IS_TARGET, LOST_VALUE, Clauses
from lsmlake.spark.merge_source import MergeSource, as_text
from lsmlake.spark.partitions import partition_values
from lsmlake.spark.places import FILE, POSITION, Places
from lsmlake.spark.row_edit import ACTION, column
from lsmlake.store.version import Version
from lsmlake.write.append import joined
from lsmlake.write.candidates import candidates
from lsmlake.write.changeable import OLDER, check_deletable, check_updatable
from lsmlake.write.clause import BY_SOURCE, DELETE, INSERT, MATCHED, NOT_MATCHED, UPDATE, Clause
from lsmlake.write.keys_written import KeysWritten
from lsmlake.write.merge_clauses import assignments, check_clauses, equal_columns, repeats_allowed
from lsmlake.write.merge_join import repeated
from lsmlake.write.prepare import Request, delete_columns
from lsmlake.write.replace import Check
from lsmlake.write.row_edit import replace_rows
from lsmlake.write.statement import DmlReport
from lsmlake.write.upsert import inline_picker
from lsmlake.write.wanted import Wanted

_KIND, _PLACE = "_lsmlake_kind", "_lsmlake_place"
_OF_THE_TEXT = (
    AnalysisException,
    ArithmeticException,
    ArrayIndexOutOfBoundsException,
    DateTimeException,
    IllegalArgumentException,
    NumberFormatException,
    ParseException,
    SparkRuntimeException,
)
_FOUND_MAX = 500


def is_small(planned: Plan) -> bool:
    """Whether the driver may read the files of a statement itself."""
    files = (file for split in planned.splits for file in (*split.files, *split.level0, *split.merged))
    return sum(file.bytes for file in files) <= planned.version.meta.env.limits.driver_statement_bytes


def decided_by_partitions(planned: Plan) -> bool:
    """Whether a DELETE of the rows of a plan reads no rows."""
    predicate = planned.predicate
    by_position = planned.schema.append_only and planned.version.options.layout.deletion_vectors
    if not by_position or predicate is None:
        return by_position
    buckets = {split.bucket for split in planned.splits}
    return is_of_partitions(predicate, planned.schema) and all(
        partition_matches(predicate, planned.schema, bucket) is not None for bucket in buckets
    )


class Few(NamedTuple):
    """A source of few rows. `matches_few`: a row of it matches at most one of the target. `matched_once`: a row of the target
    matches at most one of it."""

    matches_few: bool
    matched_once: bool


@dataclass(frozen=True)
class Target:
    """The rows of a version that a statement may change: those for which `where` is true, which is also `predicate` if lsmlake
    knows its meaning. `own`: the statement reads other rows of this version, too."""

    spark: object
    version: Version
    where: str | None = None
    predicate: Predicate | None = None
    isolation: str = SERIALIZABLE
    own: bool = False
    refine: Callable[[object], object] | None = None
    """Chooses among the rows, and adds columns to them."""
    uneven: set[str] = field(default_factory=set)
    """As in `write.upsert`."""
    few: Few | None = None
    """The source of the merge, if the driver has fetched it."""

    def delete(self) -> DmlReport:
        """Deletes the rows."""
        return self._alone(Clause(BY_SOURCE, DELETE))

    def update(self, values: Mapping[str, str]) -> DmlReport:
        """Gives the rows new values."""
        return self._alone(Clause(BY_SOURCE, UPDATE, values))

    def _alone(self, clause: Clause) -> DmlReport:
        clauses = Clauses.of(self.version.schema, [clause], [clause.values or {}])
        return self._run(clauses, None, None)

    def merge(self, source: MergeSource, on: str, clauses: tuple[Clause, ...]) -> DmlReport:
        """Changes the rows by a MERGE with a DataFrame. If the files are not few, only those are read that can match."""
        check_clauses(clauses)
        schema = self.version.schema
        equal = equal_columns(on, schema.plain_columns, source.columns)
        common = equal_columns(on, schema.plain_columns, source.columns, nulls=True)
        texts = [assignments(clause, schema, source.columns, common) for clause in clauses]
        made, target = Clauses.of(schema, clauses, texts), self
        if source.frame.isStreaming:
            raise InvalidData("a streaming DataFrame is no batch", cure="use foreachBatch and merge each batch")
        if equal and all(clause.when != BY_SOURCE for clause in clauses):
            target = replace(self, few=self._few(source, on, equal))
            if not is_small(plan(self.version)):
                with translated():
                    known = candidates(schema, equal, source)
                target = replace(target, predicate=known, where=as_text(known))
        return target._run(made, source.frame, on)

    def _few(self, source: MergeSource, on: str, equal: Sequence[tuple[str, str]]) -> Few | None:
        """Fetches the source if it may be small."""
        schema = self.version.schema
        limit = collected.row_limit(self.version, self._pick, source.frame, self.uneven)
        if not limit or "select" in on.lower():  # Spark has no subqueries in every kind of join
            return None
        if not source.fetch(limit):
            self.uneven.add(self.version.meta.paths.root)
        if not source.is_fetched:
            return None
        alike = [other for own, other in equal if schema.plain_columns.field(own).type == source.columns.field(other).type]
        matches_few = bool(schema.primary_key) and {own for own, _ in equal} >= set(schema.primary_key)
        return Few(matches_few, bool(alike) and not source.has_repeats(alike))

    @property
    def _pick(self) -> Picker | None:
        return None if self.version.schema.append_only else inline_picker(self.version, None)

    def _run(self, clauses: Clauses, source, on: str | None) -> DmlReport:
        for clause, values in zip(clauses.clauses, clauses.values, strict=True):
            if clause.action == UPDATE:
                check_updatable(self.version.schema, list(values), self.version.meta.paths.root)
            if clause.action == DELETE:
                check_deletable(self.version.schema, self.version.meta.paths.root)
        with translated():
            if self.version.schema.append_only:
                return self._by_position(clauses, source, on)
            return self._by_key(clauses, source, on)

    def _rows(self, clauses: Clauses, rows, source, on: str | None, once: Sequence[str]):
        """The rows that clauses are for, and `ACTION`. `once`: the columns by which a row of the target is counted, to find
        repeats; none: repeats are found later."""
        rows = rows if self.refine is None else self.refine(rows)
        target = rows.selectExpr("*", f"true as {IS_TARGET}").alias("t")
        if source is None:
            return clauses.acting(target, False).where(f"{ACTION} > 0")
        whens = {clause.when for clause in clauses.clauses}
        how = {(False, False): "inner", (True, False): "right", (False, True): "left", (True, True): "full"}
        if self.few:
            if NOT_MATCHED not in whens:
                source = F.broadcast(source)
            else:  # a join that keeps the rows of the source cannot broadcast them, and would shuffle the whole target
                target = target.join(F.broadcast(source.alias("s")), F.expr(on), "left_semi").alias("t")
                target = F.broadcast(target) if self.few.matches_few else target
        both = target.join(
            source.selectExpr("*", f"true as {IS_SOURCE}").alias("s"), F.expr(on), how[NOT_MATCHED in whens, BY_SOURCE in whens]
        )
        acting = clauses.acting(both, True)
        allowed = repeats_allowed(clauses.clauses)
        if self.few and self.few.matched_once:
            return acting.where(f"{ACTION} > 0")
        if not once or (allowed and MATCHED not in whens):
            return acting.where(f"{ACTION} > 0" if allowed else f"{ACTION} > 0 or ({IS_TARGET} and {IS_SOURCE})")
        spread = ", ".join(f"s.{backticked(field.name)}" for field in source.schema.fields if field.dataType.typeName() != "map")
        by = [*(f"t.{backticked(name)}" for name in once), f"if({IS_TARGET}, 0L, xxhash64({spread or '0'}))"]
        place = f"row_number() over (partition by {', '.join(by)} order by {IS_SOURCE}) as {_PLACE}"
        repeat = f"{IS_TARGET} and {IS_SOURCE} and {_PLACE} > 1"
        failure = "false" if allowed else f"boolean(raise_error('{_REPEATED}'))"
        return acting.selectExpr("*", place).where(f"if({repeat}, {failure}, {ACTION} > 0)")

    def _wanted(self, clauses: Clauses, source, on: str | None) -> Wanted | None:
        """The new rows that overtake the statement: those that it would have read. Spark looks at few of them; more count as
        read."""
        if self.isolation != SERIALIZABLE:
            return None
        if self.own:
            return Wanted(everything=True)
        by_source = any(clause.when == BY_SOURCE for clause in clauses.clauses)
        if (source is None and (self.predicate is not None or self.where is None)) or (source is not None and by_source):
            return Wanted(self.predicate)
        most = self.version.meta.env.limits.driver_statement_bytes

        def among(rows: pa.Table) -> np.ndarray:
            if rows.nbytes > most:
                return np.ones(rows.num_rows, bool)
            flags = np.zeros(rows.num_rows, bool)
            numbered = rows.append_column(_PLACE, pa.array(np.arange(rows.num_rows)))
            target = self.spark.createDataFrame(numbered).alias("t")
            found = target.where(self.where) if source is None else target.join(source.alias("s"), F.expr(on), "left_semi")
            flags[found.select(_PLACE).toArrow().column(0).to_numpy()] = True
            return flags

        return Wanted(self.predicate, tuple(self.version.schema.columns.names), among)

    # -- few changes --

    def _collected(self, rows, columns: Sequence[str], source) -> tuple[pa.Table | None, int]:
        """The changes, if they are so few that the driver writes them, and how many rows it would have taken: 0 if it was not
        tried, since a join is not done twice."""
        limit = collected.row_limit(self.version, self._pick, rows, self.uneven) if source is None or self.few else 0
        return collected.rows(rows, columns, limit) if limit else None, limit

    def _note(self, changes: int, limit: int) -> None:
        """Notes that so many changes did not fit the driver."""
        if limit and changes <= limit:
            self.uneven.add(self.version.meta.paths.root)

    # -- append-only tables --

    def _by_position(self, clauses: Clauses, source, on: str | None) -> DmlReport:
        version = self.version
        places = Places.of(plan(version, self.predicate))
        if not places.files and source is None:
            return DmlReport()
        rows = self._rows(clauses, places.rows(self.spark, self.where), source, on, ())
        columns, writes = [ACTION, FILE, POSITION], clauses.numbers(UPDATE, INSERT)
        if writes:
            rows = clauses.new_rows(rows, columns[1:], deleted=False)
            columns += map(column, range(len(version.schema.columns.names)))
        writing = row_edit.Writing(version, writes, clauses.numbers(INSERT))
        found, limit = self._collected(rows, columns, source)
        if found is not None:
            edit = row_edit.here(writing, found.to_batches())
        else:
            edit = row_edit.run(writing, self._together(rows, clauses) if writes else rows.selectExpr(*columns))
            self._note(edit.rows + edit.inserted, limit)
        try:
            if not repeats_allowed(clauses.clauses) and edit.repeats:
                raise repeated()
            removed = places.at(edit.removed)
        except BaseException:
            version.meta.files.discard(edit.added)
            raise
        rewrite = partial(row_edit.rewritten, self.spark)
        snapshot = replace_rows(version, removed, joined(edit.added), self._wanted(clauses, source, on), rewrite)
        updated, deleted = (edit.count(clauses.numbers(action)) for action in (UPDATE, DELETE))
        return DmlReport(snapshot, edit.inserted, updated, deleted)

    def _together(self, rows, clauses: Clauses):
        """Shuffles new rows so that each partition is written by few tasks; the rows to remove stay spread."""
        schema = self.version.schema
        if not schema.partition_columns:
            return rows
        writing = ", ".join(map(str, clauses.numbers(UPDATE, INSERT)))
        partition = partition_values(schema, lambda name: column(schema.columns.names.index(name)))
        return rows.repartition(*partition, F.expr(f"if({ACTION} in ({writing}), 0L, {FILE})"))

    # -- tables with a primary key --

    def _by_key(self, clauses: Clauses, source, on: str | None) -> DmlReport:
        version, schema = self.version, self.version.schema
        planned = plan(version, self.predicate)
        if not planned.files and source is None:
            return DmlReport()
        target = read.frame(self.spark, planned, self.where, read.AUTO)
        rows = self._rows(clauses, target, source, on, schema.primary_key)
        counts = Observation()
        numbers = {"inserted": INSERT, "updated": UPDATE, "deleted": DELETE}
        rows = clauses.new_rows(rows, [], deleted=True)
        request, columns = self._request(clauses, KeysWritten(version, self._wanted(clauses, source, on)).check)
        identity = Identity(version.meta.env.ids())
        found, limit = self._collected(rows, [ACTION, *columns], source)
        if found is not None:
            action = found[ACTION].to_numpy()
            changed = {name: int(np.isin(action, clauses.numbers(one)).sum()) for name, one in numbers.items()}
            return DmlReport(
                write.upsert_collected(version, found.drop_columns([ACTION]), identity, request, self._pick), **changed
            )
        rows = rows.observe(
            counts, *(F.expr(f"{_counted(clauses.numbers(action))} as {name}") for name, action in numbers.items())
        )
        by_tasks = {version.meta.paths.root}  # the driver was tried
        snapshot = write.upsert(version, rows.selectExpr(*columns), identity, request=request, compact=None, uneven=by_tasks)
        changed = {name: int(counts.get.get(name) or 0) for name in numbers}
        self._note(sum(changed.values()), limit)
        return DmlReport(snapshot, **changed)

    def _request(self, clauses: Clauses, check: Check) -> tuple[Request, list[str]]:
        """The upsert that carries out the changes, and its columns: keys to delete, rows, or both with row kinds."""
        schema = self.version.schema
        names, deleting = schema.columns.names, clauses.numbers(DELETE)
        if len(deleting) == len(clauses.clauses):
            request = Request(deletes=True, of_rows=True, check=check)
            names = [name for name in names if name in delete_columns(schema, request)]
            return request, _renamed(schema.columns.names, names)
        if not deleting:
            if schema.parsed_options.merge.engine == PARTIAL_UPDATE and not clauses.numbers(INSERT):
                names = self._written(clauses)
            return Request(check=check), _renamed(schema.columns.names, names)
        kind = f"if({ACTION} in ({', '.join(map(str, deleting))}), '-D', '+I') as {_KIND}"
        return Request(Source(_KIND), check=check), [*_renamed(names, names), kind]

    def _written(self, clauses: Clauses) -> list[str]:
        """The columns that an UPDATE writes under partial-update: the others keep their values."""
        schema = self.version.schema
        kept = {*schema.primary_key, *schema.parsed_options.merge.sequence_field}
        kept.update(name for values in clauses.values for name in values)
        kept.update(name for sequence in schema.parsed_options.columns.sequence_groups for name in sequence)
        return [name for name in schema.columns.names if name in kept]


def _renamed(columns: Sequence[str], names: Sequence[str]) -> list[str]:
    return [f"{column(columns.index(name))} as {backticked(name)}" for name in names]


def _counted(numbers: Sequence[int]) -> str:
    return f"count(if({ACTION} in ({', '.join(map(str, numbers))}), 1, null))" if numbers else "count(null)"


_REPEATED = repeated().what


@contextmanager
def translated() -> Iterator[None]:
    """Raises Spark's errors about the text of a statement, or about values that it computes, as errors of lsmlake."""
    try:
        yield
    except PySparkException as error:
        text = str(error)
        if _REPEATED in text:
            raise repeated() from error
        if OLDER in text:
            raise InvalidData(OLDER, cure="update to a value that is not older") from error
        if LOST_VALUE in text:
            what = text[text.index(LOST_VALUE) :].splitlines()[0]
            raise InvalidData(what, cure="update to another value, or delete the rows and insert them again") from error
        if not isinstance(error, _OF_THE_TEXT):
            raise
        raise InvalidQuery(
            "Spark cannot evaluate the statement", found=text[:_FOUND_MAX], cure="correct the expression that it names"
        ) from error


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
