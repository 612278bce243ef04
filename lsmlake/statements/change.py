"""DELETE and UPDATE in this process.

A condition that is a predicate is evaluated by Arrow, and chooses the files to read. Any other is evaluated by DuckDB, as a MERGE
with a source of one row; the predicates among its parts choose the files.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
from sqlglot import exp

from lsmlake.dialect.evaluate import Columns, Condition, columns_from, condition_from
from lsmlake.predicate import Predicate
from lsmlake.predicate.binding import bound, implied
from lsmlake.read.plan import plan
from lsmlake.statements.assignments import assigned
from lsmlake.statements.attempts import DmlReport
from lsmlake.statements.bound import Bound, Checked
from lsmlake.statements.clause import DELETE, MATCHED, UPDATE
from lsmlake.statements.delete import delete
from lsmlake.statements.explained import change_lines
from lsmlake.statements.merge import merge
from lsmlake.statements.merge_join import Join
from lsmlake.statements.statement import TARGET, ExpressionReader, Statement
from lsmlake.statements.update import update
from lsmlake.tables.version import Version

_ONE_ROW = pa.table({"one": pa.array([0], pa.int8())})


@dataclass(frozen=True)
class CheckedChange:
    """A DELETE or UPDATE that was checked against one version.

    Attributes:
        condition: for which rows; None: `predicate` says it, or it is all rows.
        predicate: what is known of the rows; None: nothing.
        values: the new values; None: the rows are deleted.
    """

    version: Version
    condition: Condition | None
    predicate: Predicate | None
    values: Columns | None
    reader: ExpressionReader
    isolation: str
    zone: str

    @staticmethod
    def of(statement: Statement, version: Version, zone: str) -> CheckedChange:
        """Checks a statement. Raises InvalidQuery."""
        statement.check_conditions()
        (clause,), columns = statement.clauses, version.schema.typed_columns
        reader, where = statement.reader(version), statement.on
        parts = assigned(statement, clause, version.schema, None)
        scope = statement.alone(columns, TARGET)
        condition = None if where is None else condition_from(reader.translator(where.text, scope), where.node, zone)
        predicate = None if where is None else bound(where.node, scope, zone)
        joins = (where is not None and predicate is None) or statement.has_query(parts.values())
        if joins and predicate is None and where is not None:
            predicate = implied(where.node, scope, zone)
        if joins and condition is None:
            condition = condition_from(reader.translator(next(iter(parts.values())).text, scope), exp.true(), zone)
        scope = scope if joins else statement.alone(columns)
        typed = {name: (reader.translator(part.text, scope), part.node) for name, part in parts.items()}
        values = None if clause.action == DELETE else columns_from(typed, columns, zone)
        return CheckedChange(version, condition if joins else None, predicate, values, reader, statement.level(version), zone)

    def run(self) -> DmlReport:
        """Changes the rows.

        Raises:
            InvalidQuery: An expression fails for a row, or the merge engine cannot update rows.
            InvalidData: A new value does not fit its column.
            Overtaken: Another commit changed one of the rows.
        """
        version, values = self.version, self.values
        if self.condition is None and values is None:
            return delete(version, self.predicate, self.isolation)
        if self.condition is None:
            return update(version, values, self.predicate, self.isolation)
        clause = Checked(MATCHED, DELETE if values is None else UPDATE, values, None)
        made = Bound(self.condition, (), (clause,), self.reader, self.predicate)
        memory_bytes = version.options.write.buffer_bytes
        with self.reader.loading() as load, Join(made, [_ONE_ROW], _ONE_ROW.schema, self.zone, memory_bytes) as join:
            join.state(made, load)
            return merge(version, join, self.isolation)


def explained(statement: Statement, version: Version, zone: str, name: str, mode: str) -> Iterator[str]:
    """What EXPLAIN says of a DELETE or UPDATE in this process."""
    made, (clause,) = CheckedChange.of(statement, version, zone), statement.clauses
    values = assigned(statement, clause, version.schema, None)
    by = "Arrow" if made.condition is None else "DuckDB"
    yield from change_lines(name, plan(version, made.predicate), clause, statement.on, values, by, mode)
    yield from made.reader.explained(zone, mode)
