"""DELETE, UPDATE and MERGE that the driver executes as without Spark: no job is planned, and no code is compiled.

The driver executes a statement only where the answer is the one that Spark gives:

1. Its expressions consist of names, literals and operators, which lsmlake reads completely. Functions, casts of columns and
   queries are Spark's: a session can change what they mean.
2. The session has Spark's defaults for all settings that change the meaning of such expressions.
3. The columns that the statement reads, the rows that it changes, and the compactions that it causes are small.
4. An error is not reported: Spark executes the statement, and reports its own error. Spark may find none, because it need not
   evaluate both sides of an AND.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

import pyarrow as pa
from sqlglot import exp

from lsmlake.dialect.sql_text import nodes, unread
from lsmlake.errors import EngineFailed, InvalidData, InvalidQuery, MissingDependency
from lsmlake.read.plan import Plan, plan
from lsmlake.spark import collected, settings
from lsmlake.spark.frame_types import is_connect
from lsmlake.statements.attempts import DmlReport, TooManyChanges
from lsmlake.statements.bound import bound, schema_of_source
from lsmlake.statements.change import CheckedChange
from lsmlake.statements.clause import NOT_MATCHED
from lsmlake.statements.merge import merge
from lsmlake.statements.merge_join import Join
from lsmlake.statements.statement import SOURCE, TARGET, Statement
from lsmlake.tables.version import Version
from lsmlake.types.column_types import has_sized_text
from lsmlake.write.order import Ordered
from lsmlake.write.write import picker

_OPERATORS = (
    *(exp.And, exp.Or, exp.Not, exp.Paren, exp.Case, exp.If, exp.Is, exp.In, exp.Between, exp.Like, exp.Escape, exp.DPipe),
    *(exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.NullSafeEQ, exp.NullSafeNEQ),
    *(exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Mod, exp.IntDiv, exp.Neg),
    *(exp.Column, exp.Identifier, exp.Dot, exp.Literal, exp.Null, exp.Boolean, exp.DataType, exp.DataTypeParam),
)
_CASTS = exp.Cast, exp.TryCast
_FAILURES = InvalidQuery, InvalidData, EngineFailed, MissingDependency
_EXPANSION = 4  # of a Parquet file in memory


@dataclass(frozen=True)
class DriverStatement:
    """A statement that the driver executes if it suits a version: `change` and `merge` return None if it does not."""

    spark: object
    statement: Statement
    zone: str

    @staticmethod
    def of(spark, statement: Statement, zone: str, read: Callable[[Statement], object]) -> DriverStatement | None:
        """The statement if lsmlake reads its expressions completely, otherwise None. `read`: reads the statement for a version.
        Must be called before the expressions are marked as read by Spark."""
        if is_connect(spark) or not all(map(_is_plain, (part.node for part in statement.parts))):
            return None
        own = replace(statement, queries=None)
        try:
            read(own)
        except _FAILURES:
            return None
        whole = all(unread(part.node) is None for part in statement.parts)
        return DriverStatement(spark, own, zone) if whole else None

    def change(self, version: Version) -> CheckedChange | None:
        """A DELETE or UPDATE, checked for a version that suits the driver; None: Spark executes it."""
        if not self._suits(version, inserts=False):
            return None
        try:
            made = CheckedChange.of(self.statement, version, self.zone)
        except _FAILURES:
            return None
        columns = [*version.schema.primary_key, *(made.predicate.columns if made.predicate else ())]
        if made.condition is not None:
            columns += _of_target((*made.condition.needs, *(made.values.needs if made.values else ())))
        elif made.values is not None:
            columns = version.schema.columns.names
        return made if _fits(plan(version, made.predicate), columns) else None

    def merge(self, version: Version, source: pa.Table, own: bool) -> DmlReport | None:
        """Executes a MERGE with the rows of a source; None: Spark executes it. Raises Overtaken."""
        if not self._suits(version, inserts=any(one.when == NOT_MATCHED for one in self.statement.clauses)):
            return None
        statement, level = self.statement, self.statement.level(version)
        try:
            columns = schema_of_source(source.schema, version.schema.plain_columns)
            made = bound(statement, version, columns, self.zone)
            if any(map(has_sized_text, columns)) or not _fits(plan(version), [*version.schema.primary_key, *made.needs(TARGET)]):
                return None
            memory_bytes, most = version.options.write.buffer_bytes, _changes_max(version)
            with Join(made, [source], columns, self.zone, memory_bytes, Ordered.QUERY, changes_max=most) as join:
                join.state(made, None)
                return merge(version, join, level, own)
        except TooManyChanges:
            return None
        except _FAILURES:
            if _is_old(version):
                raise
            return None

    def _suits(self, version: Version, inserts: bool) -> bool:
        """Whether settings, columns and the size of compactions suit."""
        schema = version.schema
        if not _limit(version) or any(map(has_sized_text, schema.typed_columns)):
            return False
        if settings.computes_otherwise(self.spark.conf.get, (part.text.text for part in self.statement.parts)):
            return False
        pick = None if schema.append_only else picker(version, None, reclaims=inserts)
        return collected.writes_little(version, pick)


def executed(change: CheckedChange) -> DmlReport | None:
    """Executes a DELETE or UPDATE; None: Spark executes it. Raises Overtaken."""
    try:
        return change.on(change.version, _changes_max(change.version))
    except TooManyChanges:
        return None
    except _FAILURES:
        if _is_old(change.version):
            raise
        return None


def _is_old(version: Version) -> bool:
    """Whether there is a newer version. Then a statement may have failed after its commit, and must not be executed twice."""
    return Version.latest(version.meta).number != version.number


def _is_plain(tree: exp.Expression) -> bool:
    """Whether an expression consists of names, literals and operators. A literal may have a type, as in DATE '2026-01-31'."""
    return all(
        isinstance(node, _OPERATORS) or (isinstance(node, _CASTS) and isinstance(node.args["this"], exp.Literal))
        for node in nodes(tree)
    )


def _of_target(names: Iterable[str]) -> list[str]:
    return [name.removeprefix(TARGET) for name in names if not name.startswith(SOURCE)]


def _limit(version: Version) -> int:
    return min(version.options.write.driver_statement_bytes, version.meta.env.limits.driver_statement_bytes)


def _fits(planned: Plan, columns: Iterable[str]) -> bool:
    """Whether the columns to read take little memory. Without deletion vectors, statements rewrite the files with all columns."""
    version, files = planned.version, planned.data_files
    rewrites = version.schema.append_only and not version.options.layout.deletion_vectors
    read = version.schema.columns.names if rewrites else {*columns}
    types = [version.schema.plain_columns.field(name).type for name in read]
    if all(pa.types.is_primitive(kind) or pa.types.is_decimal(kind) for kind in types):
        bits = sum(file.rows for file in files) * sum(kind.bit_width for kind in types)
        return bits // 8 <= _limit(version)
    return _EXPANSION * sum(file.bytes for file in files) <= _limit(version)  # as if it read all columns


def _changes_max(version: Version) -> int:
    """The most rows that the driver changes."""
    files = [file for state in version.states(statistics=False).values() for file in state.files]
    row_bytes = _EXPANSION * sum(file.bytes for file in files) // max(1, sum(file.rows for file in files))
    return _limit(version) // max(1, row_bytes)
