"""MERGE INTO in this process: rows of a source update, delete or add rows of the table, in one commit.

1. `bound.bound` checks the statement.
2. The source is loaded (`merge_join.Join`). Its values of columns that must be equal limit the files of the target to read.
3. The target streams through the join: the columns that the statement names, and the place of each row.
4. For rows to update, the columns that a clause leaves unchanged are read by place.
5. An append-only table removes rows by position and appends new ones; under a primary key rows are written by key.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lsmlake.commit.request import Identity, replayed
from lsmlake.options.merge_options import PARTIAL_UPDATE
from lsmlake.options.write_options import SERIALIZABLE
from lsmlake.predicate import Predicate, and_
from lsmlake.read.plan import Plan, plan
from lsmlake.read.point import rows_of_keys
from lsmlake.read.positions import MERGED, PLACE, POSITION, Placed, PlacedRows, by_file
from lsmlake.schema.omitted import as_null, may_be_omitted
from lsmlake.schema.schema import Schema
from lsmlake.statements.attempts import DmlReport
from lsmlake.statements.bound import Bound
from lsmlake.statements.clause import ACTION, BY_SOURCE, DELETE, NOT_MATCHED, UPDATE
from lsmlake.statements.merge_join import Join
from lsmlake.statements.statement import TARGET
from lsmlake.tables.version import Version
from lsmlake.write.append import append_files
from lsmlake.write.changeable import candidates, check_deletable, check_replaces, check_updatable, of_rows
from lsmlake.write.order import Arrival, Ordered
from lsmlake.write.prepare import delete_columns, prepare
from lsmlake.write.read_set import KeysUnchanged, ReadSet
from lsmlake.write.row_edit import replace_rows, rewritten
from lsmlake.write.write import Part, picker, write_parts
from lsmlake.write.write_request import WriteRequest


def merge(version: Version, join: Join, isolation: str, own: bool = False, identity: Identity | None = None) -> DmlReport:
    """Evaluates a MERGE on a version and commits it. `own`: the source is read from rows of this version. `identity`: of the
    commit, which is applied once; None: a repetition is not recognised. Raises Overtaken."""
    if identity is not None and (done := replayed(version, identity)):
        return DmlReport(done)
    statement, own = join.statement, own or join.statement.reader.own
    for clause in statement.clauses:
        if clause.action == UPDATE:
            check_updatable(version.schema, clause.values.schema.names, version.meta.paths.root)
        if clause.action == DELETE:
            check_deletable(version.schema, version.meta.paths.root)
    predicate = _candidates(version, statement, join)
    wanted = _wanted(statement, join, of_rows(predicate), own) if isolation == SERIALIZABLE else None
    reads = replace(plan(version, predicate), predicate=of_rows(predicate))  # reads only the columns that the join needs
    change = _by_position if version.schema.append_only else _by_key
    return change(version, join, reads, wanted, identity or Identity(version.meta.env.ids()))


def _wanted(statement: Bound, join: Join, predicate: Predicate | None, own: bool) -> ReadSet:
    """The read set of a MERGE: the rows that match a source row; all rows if a clause is for rows that match no source row."""
    if statement.of(BY_SOURCE) or own:
        return ReadSet(everything=own)
    names = tuple(sorted(name.removeprefix(TARGET) for name in statement.on.needs if name.startswith(TARGET)))

    def among(rows: pa.Table) -> np.ndarray:
        return join.matching(_as_target(Placed(MERGED, np.arange(rows.num_rows), rows.select(list(names))).with_places()))

    return ReadSet(predicate, names, among)


def _as_target(placed: pa.Table) -> pa.Table:
    """Rows with their places, in the form that the join reads."""
    return placed.rename_columns([name if name in PLACE else TARGET + name for name in placed.column_names])


def _candidates(version: Version, statement: Bound, join: Join) -> Predicate | None:
    """A predicate that is true for all target rows to which a clause can apply; None: no predicate could be derived."""
    if statement.of(BY_SOURCE):
        return None
    predicates = statement.known, candidates(version.schema, statement.equal, join)
    known = [one for one in predicates if one is not None]
    return and_(*known) if known else None


# -- append-only tables ---------------------------------------------------------------------------------------------------


def _by_position(version: Version, join: Join, reads: Plan, wanted: ReadSet | None, identity: Identity) -> DmlReport:
    schema, target = version.schema, PlacedRows(replace(reads, columns=tuple(join.statement.needs(TARGET))))
    join.run(map(_as_target, target.read()), ())
    removed: dict[int, list[np.ndarray]] = {}
    kept = _kept_columns(schema, join.statement)
    counts = {"updated": 0, "deleted": 0, "inserted": 0}

    def new_rows() -> Iterator[pa.Table]:
        for table in join.updates(()):
            counts["updated"] += table.num_rows
            for number, rows in by_file(table):
                positions = rows[POSITION].to_numpy()
                removed.setdefault(number, []).append(positions)
                if kept:
                    old = target.fetch(number, positions, kept)
                    yield prepare(_updated(old, rows, schema), schema, WriteRequest(), None)[0]
            if not kept:
                yield prepare(_updated(None, table, schema), schema, WriteRequest(), None)[0]
        for rows in join.inserts():
            counts["inserted"] += rows.num_rows
            yield prepare(_complete(rows, schema), schema, WriteRequest(), None)[0]

    added = append_files(version, new_rows())
    try:
        for table in join.deletes(()):
            counts["deleted"] += table.num_rows
            for number, rows in by_file(table):
                removed.setdefault(number, []).append(rows[POSITION].to_numpy())
        gone = [target.matched(number, np.sort(np.concatenate(chunks))) for number, chunks in removed.items()]
    except BaseException:
        version.meta.files.discard(added)
        raise
    snapshot = replace_rows(version, gone, added, wanted, rewritten, identity)
    return DmlReport(snapshot, **counts)


def _complete(rows: pa.Table, schema: Schema) -> pa.Table:
    """The rows to insert, with null in each missing column without a default."""
    for field in schema.columns:
        if field.name not in rows.column_names and field.nullable and not may_be_omitted(field):
            rows = rows.append_column(field.name, as_null(field, rows.num_rows))
    return rows


def _kept_columns(schema: Schema, statement: Bound) -> list[str]:
    """The columns whose old values are needed, because some update clause does not assign them."""
    assigned = [{*clause.values.schema.names} for clause in statement.clauses if clause.action == UPDATE]
    return [name for name in schema.columns.names if any(name not in names for names in assigned)]


def _updated(old: pa.Table | None, changes: pa.Table, schema: Schema) -> pa.Table:
    """The rows with the values that the update clauses assign. `old`: the columns `_kept_columns` of these rows, or more; None:
    no column is kept. `changes`: the rows of `Join.updates`, one per row, in the same order."""
    columns = {} if old is None else dict(zip(old.column_names, old.columns, strict=True))
    for name in changes.column_names:
        number, point, column = name.partition(".")
        if not point or not number.isdigit():
            continue
        values = changes[name]
        if column in columns:
            chosen = pc.equal(changes[ACTION], int(number)).combine_chunks()
            others = columns[column].combine_chunks().cast(values.type)
            values = pa.chunked_array([pc.if_else(chosen, values.combine_chunks(), others)])
        columns[column] = values
    return pa.table({name: columns[name] for name in schema.columns.names})


# -- tables with a primary key --------------------------------------------------------------------------------------------


def _by_key(version: Version, join: Join, reads: Plan, wanted: ReadSet | None, identity: Identity) -> DmlReport:
    schema, statement = version.schema, join.statement
    deleting = WriteRequest(deletes=True, of_rows=True)
    own = list(dict.fromkeys([*schema.primary_key, *delete_columns(schema, deleting)]))
    target = PlacedRows(replace(reads, columns=tuple(dict.fromkeys([*own, *statement.needs(TARGET)]))))
    merges = version.options.merge.engine == PARTIAL_UPDATE  # then a null does not replace an old value
    kept = schema.columns.names if merges else _kept_columns(schema, statement)
    missing = [name for name in kept if name not in own]
    join.run(map(_as_target, target.read()), [TARGET + name for name in own])
    counts = {"updated": 0, "deleted": 0, "inserted": 0}

    def parts() -> Iterator[Part]:
        for table in join.updates([TARGET + name for name in own]):
            counts["updated"] += table.num_rows
            for number, rows in by_file(table) if missing else [(MERGED, table)]:
                old = _own(rows, schema, own)
                if missing and number == MERGED:
                    old = rows_of_keys(version, old.select(schema.primary_key))
                elif missing:
                    old = _beside(old, target.fetch(number, rows[POSITION].to_numpy(), missing))
                new = _updated(old, rows, schema)
                check_replaces(schema, old, new, schema.columns.names)
                yield _part(new, WriteRequest())
        for table in join.deletes([TARGET + name for name in own]):
            counts["deleted"] += table.num_rows
            yield _part(_own(table, schema, delete_columns(schema, deleting)), deleting)
        for rows in join.inserts():
            counts["inserted"] += rows.num_rows
            yield _part(_complete(rows, schema), WriteRequest())

    def _part(rows: pa.Table, request: WriteRequest) -> Part:
        return Part.of(prepare(rows, schema, request, None)[0])

    request = WriteRequest(identity, requires=(KeysUnchanged(version, wanted),))
    pick = picker(version, None, reclaims=bool(statement.of(NOT_MATCHED)))
    snapshot = write_parts(version, _in_sequence(parts(), join.ordered), request, pick)
    return DmlReport(snapshot, **counts)


def _beside(rows: pa.Table, others: pa.Table) -> pa.Table:
    """A table with the columns of both tables, row by row."""
    for field, column in zip(others.schema, others.columns, strict=True):
        rows = rows.append_column(field, column)
    return rows


def _in_sequence(parts: Iterable[Part], ordered: Ordered) -> Iterator[Part]:
    """Numbers the rows of all parts. Only rows to insert can repeat a key, and their order may be unknown."""
    first = 0
    for part in parts:
        yield Part(part.rows, Arrival(part.arrival.places + first, ordered=ordered))
        first += part.rows.num_rows


def _own(table: pa.Table, schema: Schema, names: Sequence[str]) -> pa.Table:
    """The columns of the target, under their own names, with their own types: DuckDB gives times the zone of the session."""
    fields = [schema.plain_columns.field(name) for name in names]
    return pa.table([table[TARGET + field.name].cast(field.type) for field in fields], schema=pa.schema(fields))
