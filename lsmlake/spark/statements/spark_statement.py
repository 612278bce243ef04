"""A statement as a value: a target, the clauses for its rows and, in a merge, a source. For tables with and without a key."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from pyspark.sql import functions as F

from lsmlake.options.write_options import SERIALIZABLE
from lsmlake.spark import collected
from lsmlake.spark.statements.clauses import IS_SOURCE, IS_TARGET, Clauses
from lsmlake.spark.statements.sides import Few, SparkTarget
from lsmlake.spark.statements.spark_errors import REPEATED
from lsmlake.statements.bound import repeats_allowed
from lsmlake.statements.clause import ACTION, BY_SOURCE, MATCHED, NOT_MATCHED
from lsmlake.types.type_text import backticked
from lsmlake.write.read_set import ReadSet

_PLACE = "_lsmlake_place"


@dataclass(frozen=True)
class SparkStatement:
    """A statement that changes rows of a target.

    Attributes:
        source: a DataFrame; None: the statement is not a merge. `name`: the statement's name of the source.
        on: the condition of the join.
        few: the source, if the driver has fetched it.
        upserts: whether a merge makes each row of the source the row of its key, in the table or not.
    """

    target: SparkTarget
    clauses: Clauses
    source: object = None
    name: str = ""
    on: str | None = None
    few: Few | None = None
    upserts: bool = False

    def acting(self, rows, once: Sequence[str]):
        """The rows for which a clause acts, with `ACTION`. `rows`: rows of the target. `once`: the columns that identify a row of
        the target, to find repeated matches; empty: they are found later."""
        source, on, clauses, name = self.source, self.on, self.clauses, self.target.name
        target = self.target.of(rows).selectExpr("*", f"true as {IS_TARGET}").alias(name)
        if source is None:
            return clauses.acting(target, False).where(f"{ACTION} > 0")
        whens = {clause.when for clause in clauses.clauses}
        how = {(False, False): "inner", (True, False): "right", (False, True): "left", (True, True): "full"}
        if self.few:
            if NOT_MATCHED not in whens:
                source = F.broadcast(source)
            else:  # a join that keeps the rows of the source cannot broadcast them, and would shuffle the whole target
                target = target.join(F.broadcast(source.alias(self.name)), F.expr(on), "left_semi").alias(name)
                target = F.broadcast(target) if self.few.matches_few else target
        given = source.selectExpr("*", f"true as {IS_SOURCE}").alias(self.name)
        both = target.join(given, F.expr(on), how[NOT_MATCHED in whens, BY_SOURCE in whens])
        acting = clauses.acting(both, True)
        allowed = repeats_allowed(clauses.clauses)
        if self.few and self.few.matched_once:
            return acting.where(f"{ACTION} > 0")
        if not once or (allowed and MATCHED not in whens):
            return acting.where(f"{ACTION} > 0" if allowed else f"{ACTION} > 0 or ({IS_TARGET} and {IS_SOURCE})")
        compared = [field.name for field in source.schema.fields if field.dataType.typeName() != "map"]
        spread = ", ".join(f"{backticked(self.name)}.{backticked(column)}" for column in compared)
        by = [*(f"{backticked(name)}.{backticked(column)}" for column in once), f"if({IS_TARGET}, 0L, xxhash64({spread or '0'}))"]
        place = f"row_number() over (partition by {', '.join(by)} order by {IS_SOURCE}) as {_PLACE}"
        repeat = f"{IS_TARGET} and {IS_SOURCE} and {_PLACE} > 1"
        failure = "false" if allowed else f"boolean(raise_error('{REPEATED}'))"
        return acting.selectExpr("*", place).where(f"if({repeat}, {failure}, {ACTION} > 0)")

    @property
    def wanted(self) -> ReadSet | None:
        """The rows whose concurrent commit conflicts with the statement, because it would have read them. Spark checks a few new
        rows; larger sets count as read."""
        source, target = self.source, self.target
        if target.isolation != SERIALIZABLE:
            return None
        if target.own:
            return ReadSet(everything=True)
        by_source = any(clause.when == BY_SOURCE for clause in self.clauses.clauses)
        if (source is None and (target.decides or target.where is None)) or (source is not None and by_source):
            return ReadSet(target.predicate)
        most = target.version.meta.env.limits.driver_source_bytes

        def among(rows: pa.Table) -> np.ndarray:
            if rows.nbytes > most:
                return np.ones(rows.num_rows, bool)
            flags = np.zeros(rows.num_rows, bool)
            numbered = rows.append_column(_PLACE, pa.array(np.arange(rows.num_rows)))
            new = target.of(target.spark.createDataFrame(numbered))
            matched = new if source is None else new.join(source.alias(self.name), F.expr(self.on), "left_semi")
            flags[matched.select(_PLACE).toArrow().column(0).to_numpy()] = True
            return flags

        return ReadSet(target.predicate, tuple(target.version.schema.columns.names), among)

    def collected(self, rows, columns: Sequence[str]) -> tuple[pa.Table | None, int]:
        """The changes, if the driver can write them, otherwise None; and the row limit of the driver: 0 if nothing was collected,
        because a large join would run twice."""
        target, tried = self.target, self.source is None or self.few
        limit = collected.row_limit(target.version, target.picker, rows, target.learned) if tried else 0
        return collected.rows(rows, columns, limit) if limit else None, limit

    def note(self, changes: int, limit: int) -> None:
        """Records the table if `changes` changes did not fit the driver although they are within `limit`."""
        if limit and changes <= limit:
            self.target.learned.uneven.add(self.target.version.meta.paths.root)
