"""DELETE and UPDATE in this process.

A condition that is a predicate is evaluated by Arrow, and chooses the files to read. Any other condition is evaluated by DuckDB,
as a MERGE with a source of one row; the predicates among its parts choose the files.

In an append-only table old rows are removed by position, and the new rows of an UPDATE, whose values are expressions over the
old row, are appended. Under a primary key deletes and new rows are written by key, like an upsert.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
from sqlglot import exp

from lsmlake.commit.request import Identity
from lsmlake.dialect.row_evaluation import Columns, Condition, columns_from, condition_from
from lsmlake.options.merge_options import PARTIAL_UPDATE
from lsmlake.options.write_options import SERIALIZABLE
from lsmlake.predicate import Predicate
from lsmlake.predicate.binding import bound, implied
from lsmlake.read.arrow_scan import read_plan
from lsmlake.read.plan import plan
from lsmlake.read.positions import matched, rows_at
from lsmlake.statements.attempts import DmlReport
from lsmlake.statements.bound import Bound, Checked, assigned
from lsmlake.statements.clause import DELETE, MATCHED, UPDATE
from lsmlake.statements.explained import change_lines
from lsmlake.statements.merge import merge
from lsmlake.statements.merge_join import Join
from lsmlake.statements.statement import TARGET, ExpressionReader, Statement
from lsmlake.tables.version import Version
from lsmlake.write.append import append_files
from lsmlake.write.changeable import check_deletable, check_replaces, check_updatable
from lsmlake.write.order import Ordered
from lsmlake.write.prepare import delete_columns, prepare
from lsmlake.write.read_set import KeysUnchanged, ReadSet
from lsmlake.write.row_edit import replace_rows, rewritten
from lsmlake.write.write import write_tables
from lsmlake.write.write_request import WriteRequest

_ONE_ROW = pa.table({"one": pa.array([0], pa.int8())})


@dataclass(frozen=True)
class CheckedChange:
    """A DELETE or UPDATE, checked against one version.

    Attributes:
        statement: the statement that was checked.
        condition: the condition for the rows; None: `predicate` is the exact condition, or without a predicate all rows change.
        predicate: true for all rows to change; None: no predicate could be derived.
        values: the new values; None: the statement deletes the rows.
    """

    statement: Statement
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
        level = statement.level(version)
        return CheckedChange(statement, version, condition if joins else None, predicate, values, reader, level, zone)

    def on(self, version: Version, changes_max: int | None = None) -> DmlReport:
        """Changes the rows of a version. Checks the statement again if this is not the version it was checked against.
        `changes_max`: as in `merge_join.Join`, for a condition that is no predicate.

        Raises:
            InvalidQuery: An expression fails for a row, or the merge engine cannot update rows.
            InvalidData: A new value does not fit its column.
            Overtaken: Another commit changed one of the rows.
            TooManyChanges: The condition is true for more than `changes_max` rows.
        """
        checked = self if version is self.version else CheckedChange.of(self.statement, version, self.zone)
        values = checked.values
        if checked.condition is None and values is None:
            return delete(version, checked.predicate, checked.isolation)
        if checked.condition is None:
            return update(version, values, checked.predicate, checked.isolation)
        clause = Checked(MATCHED, DELETE if values is None else UPDATE, values, None)
        made = Bound(checked.condition, (), (clause,), checked.reader, checked.predicate)
        memory_bytes = version.options.write.buffer_bytes
        one_row = Join(made, [_ONE_ROW], _ONE_ROW.schema, self.zone, memory_bytes, Ordered.ALL, changes_max)
        with checked.reader.loading() as load, one_row as join:
            join.state(made, load)
            return merge(version, join, checked.isolation)


def explained(statement: Statement, version: Version, zone: str, name: str, mode: str) -> Iterator[str]:
    """The lines of EXPLAIN for a DELETE or UPDATE in this process."""
    made, (clause,) = CheckedChange.of(statement, version, zone), statement.clauses
    values = assigned(statement, clause, version.schema, None)
    by = "Arrow" if made.condition is None else "DuckDB"
    yield from change_lines(name, plan(version, made.predicate), clause, statement.on, values, by, mode)
    yield from made.reader.explained(zone, mode)


# -- DELETE -----------------------------------------------------------------------------------------------------------


def delete(version: Version, predicate: Predicate | None, isolation: str) -> DmlReport:
    """Deletes the rows for which `predicate` is true; None: all rows. Raises Overtaken."""
    wanted = ReadSet(predicate) if isolation == SERIALIZABLE else None
    if version.schema.append_only:
        removed = matched(plan(version, predicate))
        snapshot = replace_rows(version, removed, (), wanted, rewritten)
        return DmlReport(snapshot, deleted=sum(one.rows for one in removed))
    check_deletable(version.schema, version.meta.paths.root)
    reads, deleted = plan(version, predicate, delete_columns(version.schema, WriteRequest(deletes=True))), 0

    def keys() -> Iterator[pa.Table]:
        nonlocal deleted
        for table in read_plan(reads):
            deleted += table.num_rows
            yield table

    identity = Identity(version.meta.env.ids())
    requires = (KeysUnchanged(version, wanted),)
    request = WriteRequest(identity, deletes=True, of_rows=True, reclaims=False, requires=requires)
    snapshot = write_tables(version, keys(), request)
    return DmlReport(snapshot, deleted=deleted)


# -- UPDATE -----------------------------------------------------------------------------------------------------------


def update(version: Version, assigned: Columns, predicate: Predicate | None, isolation: str) -> DmlReport:
    """Gives the rows for which `predicate` is true (None: all rows) new values.

    Args:
        version: The version to read.
        assigned: The new values, over the old row.
        predicate: The rows to update.
        isolation: See `options.write_options`.

    Raises:
        InvalidQuery: An expression is invalid, or the merge engine cannot update rows.
        InvalidData: A new value does not fit its column.
        Overtaken: Another commit changed one of the rows.
    """
    schema = version.schema
    check_updatable(schema, assigned.schema.names, version.meta.paths.root)
    wanted = ReadSet(predicate) if isolation == SERIALIZABLE else None
    if schema.append_only:
        return _update_by_position(version, assigned, predicate, wanted)
    return _update_by_key(version, assigned, predicate, wanted)


def _update_by_position(version: Version, assigned: Columns, predicate: Predicate | None, wanted: ReadSet | None) -> DmlReport:
    schema = version.schema
    removed = matched(plan(version, predicate))
    if not removed:
        return DmlReport()
    old = (rows for one in removed for rows in rows_at(version, one, schema.columns.names))
    new = (prepare(_replaced(rows, assigned), schema, WriteRequest(), None)[0] for rows in old)
    snapshot = replace_rows(version, removed, append_files(version, new), wanted, rewritten)
    return DmlReport(snapshot, updated=sum(one.rows for one in removed))


def _update_by_key(version: Version, assigned: Columns, predicate: Predicate | None, wanted: ReadSet | None) -> DmlReport:
    schema, options = version.schema, version.options
    written = schema.columns.names
    if options.merge.engine == PARTIAL_UPDATE:  # columns that are not written keep their values
        kept = {*schema.primary_key, *options.merge.sequence_field, *assigned.schema.names}
        kept.update(name for sequence in options.columns.sequence_groups for name in sequence)
        written = [name for name in written if name in kept]
    needed = [name for name in schema.columns.names if name in {*written, *assigned.needs}]
    reads, updated = plan(version, predicate, needed), 0

    def replaced() -> Iterator[pa.Table]:
        nonlocal updated
        for old in read_plan(reads):
            new = _replaced(old, assigned)
            check_replaces(schema, old, new, assigned.schema.names)
            updated += new.num_rows
            yield new.select(written)

    request = WriteRequest(Identity(version.meta.env.ids()), reclaims=False, requires=(KeysUnchanged(version, wanted),))
    snapshot = write_tables(version, replaced(), request)
    return DmlReport(snapshot, updated=updated)


def _replaced(rows: pa.Table, assigned: Columns) -> pa.Table:
    """The rows with new values in the assigned columns."""
    values = assigned.over(rows)
    for field, column in zip(values.schema, values.columns, strict=True):
        rows = rows.set_column(rows.column_names.index(field.name), field.name, column)
    return rows
