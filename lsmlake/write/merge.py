"""MERGE INTO in this process: rows of a source update, delete or add rows of the table, in one commit.

1. `merge_clauses.checked` checks the statement.
2. The source is loaded (`merge_join.Join`). Its values of columns that must be equal limit the files of the target to read.
3. The target streams through the join: the columns that the statement names, and the place of each row.
4. Whole rows are read only where a clause updates them.
5. An append-only table removes rows by position and appends new ones; under a primary key rows are written by key.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lsmlake.commit.replay import Identity
from lsmlake.format.deletion_vector import EMPTY
from lsmlake.options.isolation import SERIALIZABLE
from lsmlake.predicate import Predicate, and_, evaluate
from lsmlake.read.get import rows_of_keys
from lsmlake.read.plan import Plan, plan
from lsmlake.read.positions import Matched
from lsmlake.read.scan import matching_groups, read_plan
from lsmlake.schema.omitted import as_null, may_be_omitted
from lsmlake.schema.schema import Schema
from lsmlake.store.version import Version
from lsmlake.write.append import append_files
from lsmlake.write.candidates import candidates, of_rows
from lsmlake.write.changeable import check_deletable, check_replaces, check_updatable
from lsmlake.write.clause import BY_SOURCE, DELETE, UPDATE
from lsmlake.write.keys_written import KeysWritten
from lsmlake.write.merge_clauses import TARGET, Statement
from lsmlake.write.merge_join import ACTION, FILE, POSITION, Join
from lsmlake.write.prepare import Request, delete_columns, prepare
from lsmlake.write.row_edit import replace_rows, rewritten
from lsmlake.write.statement import DmlReport
from lsmlake.write.upsert import inline_picker
from lsmlake.write.upsert_tables import Part, upsert_parts
from lsmlake.write.wanted import Wanted


def merge(version: Version, join: Join, isolation: str, own: bool = False) -> DmlReport:
    """Evaluates a MERGE on a version and commits it. `own`: the source is made of rows of this version. Raises Overtaken."""
    statement = join.statement
    for clause in statement.clauses:
        if clause.action == UPDATE:
            check_updatable(version.schema, clause.values.schema.names, version.meta.paths.root)
        if clause.action == DELETE:
            check_deletable(version.schema, version.meta.paths.root)
    predicate = _candidates(version, statement, join)
    wanted = _wanted(statement, join, of_rows(predicate), own) if isolation == SERIALIZABLE else None
    if version.schema.append_only:
        return _by_position(version, join, predicate, wanted)
    return _by_key(version, join, predicate, wanted)


def _wanted(statement: Statement, join: Join, predicate: Predicate | None, own: bool) -> Wanted:
    """The rows that overtake a MERGE: those that match a source row; all, if clauses are for rows that match none."""
    if statement.of(BY_SOURCE) or own:
        return Wanted(everything=own)
    names = tuple(sorted(name.removeprefix(TARGET) for name in statement.on.needs if name.startswith(TARGET)))
    return Wanted(predicate, names, lambda rows: join.matching(_placed(rows.select(list(names)), *_places(rows.num_rows))))


def _candidates(version: Version, statement: Statement, join: Join) -> Predicate | None:
    """What all target rows satisfy that a clause can be for; None: nothing is known."""
    if statement.of(BY_SOURCE):
        return None
    found = statement.known, candidates(version.schema, statement.equal, join)
    known = [one for one in found if one is not None]
    return and_(*known) if known else None


def _planned(version: Version, predicate: Predicate | None, columns: Sequence[str] | None = None) -> Plan:
    """The files of the rows, to be read with as little of the predicate as the join needs."""
    return replace(plan(version, predicate, columns), predicate=of_rows(predicate))


# -- append-only tables ---------------------------------------------------------------------------------------------------


def _by_position(version: Version, join: Join, predicate: Predicate | None, wanted: Wanted | None) -> DmlReport:
    schema, planned = version.schema, _planned(version, predicate)
    files = [(split.bucket, file, split.vectors.get(file.name)) for split in planned.splits for file in split.files]
    vectors = [EMPTY if ref is None else version.meta.vectors.get(ref, file) for _, file, ref in files]
    places = [Matched(*file, vector, None) for file, vector in zip(files, vectors, strict=True)]
    join.run(_target(planned, places, join.statement.needs(TARGET)), ())
    removed: dict[int, list[np.ndarray]] = {}
    counts = {"updated": 0, "deleted": 0, "inserted": 0}

    def new_rows() -> Iterator[pa.Table]:
        for table in join.updates(()):
            counts["updated"] += table.num_rows
            for number, rows in _by_file(table):
                positions = rows[POSITION].to_numpy()
                removed.setdefault(number, []).append(positions)
                one = places[number]
                old = pa.concat_tables(version.files(one.bucket).fetch(one.file, positions, schema.columns.names))
                yield prepare(_updated(old, rows), schema, Request(), None)[0]
        for rows in join.inserts():
            counts["inserted"] += rows.num_rows
            yield prepare(_complete(rows, schema), schema, Request(), None)[0]

    added = append_files(version, new_rows())
    try:
        for table in join.deletes(()):
            counts["deleted"] += table.num_rows
            for number, rows in _by_file(table):
                removed.setdefault(number, []).append(rows[POSITION].to_numpy())
        gone = [places[number]._replace(positions=np.sort(np.concatenate(found))) for number, found in removed.items()]
    except BaseException:
        version.meta.files.discard(added)
        raise
    snapshot = replace_rows(version, gone, added, wanted, rewritten)
    return DmlReport(snapshot, **counts)


def _target(planned: Plan, places: Sequence[Matched], names: Sequence[str]) -> Iterator[pa.Table]:
    """Yields the live candidate rows: their places and the columns, renamed."""
    predicate = planned.predicate
    needed = [*names, *sorted((predicate.columns if predicate else frozenset()) - {*names})]
    for number, one in enumerate(places):
        with planned.version.files(one.bucket).open(one.file) as reader:
            for chunk in reader.chunks(needed, matching_groups(reader, planned)):
                live = ~one.vector.dead_mask(chunk.start, chunk.table.num_rows)
                if predicate is not None:
                    live &= np.asarray(evaluate(predicate, chunk.table))
                positions = np.flatnonzero(live)
                if len(positions):
                    rows = chunk.table.select(list(names)).take(pa.array(positions))
                    yield _placed(rows, np.full(len(positions), number, np.int64), chunk.start + positions)


def _placed(rows: pa.Table, files: np.ndarray, positions: np.ndarray) -> pa.Table:
    columns = {TARGET + name: rows[name] for name in rows.column_names}
    return pa.table({**columns, FILE: pa.array(files), POSITION: pa.array(positions)})


def _by_file(table: pa.Table) -> Iterator[tuple[int, pa.Table]]:
    """Yields (file number, its rows) of rows in the order of their places."""
    numbers = table[FILE].to_numpy()
    edges = [0, *(np.flatnonzero(np.diff(numbers)) + 1).tolist(), len(numbers)]
    for first, last in pairwise(edges):
        yield int(numbers[first]), table.slice(first, last - first)


def _complete(rows: pa.Table, schema: Schema) -> pa.Table:
    """The rows to insert with a null in each column that they lack and that has no default."""
    for field in schema.columns:
        if field.name not in rows.column_names and field.nullable and not may_be_omitted(field):
            rows = rows.append_column(field.name, as_null(field, rows.num_rows))
    return rows


def _updated(old: pa.Table, changes: pa.Table) -> pa.Table:
    """The old rows with the values that the update clauses assign. `changes`: of `Join.updates`, one per row, in their order."""
    action = changes[ACTION]
    for name in changes.column_names:
        number, point, column = name.partition(".")
        if not point or not number.isdigit():
            continue
        place = old.column_names.index(column)
        chosen = pc.equal(action, int(number)).combine_chunks()
        values = pc.if_else(chosen, changes[name].combine_chunks(), old[column].combine_chunks().cast(changes[name].type))
        old = old.set_column(place, column, values)
    return old


# -- tables with a primary key --------------------------------------------------------------------------------------------


def _by_key(version: Version, join: Join, predicate: Predicate | None, wanted: Wanted | None) -> DmlReport:
    schema = version.schema
    deleting = Request(deletes=True, of_rows=True)
    kept = list(dict.fromkeys([*schema.primary_key, *delete_columns(schema, deleting)]))
    names = list(dict.fromkeys([*kept, *join.statement.needs(TARGET)]))
    join.run(_numbered(read_plan(_planned(version, predicate, names))), [TARGET + name for name in kept])
    counts = {"updated": 0, "deleted": 0, "inserted": 0}

    def parts() -> Iterator[Part]:
        for table in join.updates([TARGET + name for name in kept]):
            counts["updated"] += table.num_rows
            keys = _own(table, schema, schema.primary_key)
            old = rows_of_keys(version, keys)
            new = _updated(old, table)
            check_replaces(schema, old, new, schema.columns.names)
            yield _part(new, Request())
        for table in join.deletes([TARGET + name for name in kept]):
            counts["deleted"] += table.num_rows
            yield _part(_own(table, schema, delete_columns(schema, deleting)), deleting)
        for rows in join.inserts():
            counts["inserted"] += rows.num_rows
            yield _part(_complete(rows, schema), Request())

    def _part(rows: pa.Table, request: Request) -> Part:
        prepared = prepare(rows, schema, request, None)[0]
        return Part(prepared, np.arange(prepared.num_rows))

    request = Request(check=KeysWritten(version, wanted).check)
    identity = Identity(version.meta.env.ids())
    snapshot = upsert_parts(version, _in_sequence(parts()), request, identity, inline_picker(version, None))
    return DmlReport(snapshot, **counts)


def _in_sequence(parts: Iterable[Part]) -> Iterator[Part]:
    """Numbers the rows of all parts."""
    first = 0
    for part in parts:
        yield Part(part.rows, part.places + first)
        first += part.rows.num_rows


def _numbered(tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """Yields target rows with a number of their own as their place."""
    first = 0
    for table in tables:
        if table.num_rows:
            yield _placed(table, *_places(table.num_rows, first))
            first += table.num_rows


def _places(count: int, first: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Places of rows of no file."""
    return np.zeros(count, np.int64), np.arange(first, first + count)


def _own(table: pa.Table, schema: Schema, names: Sequence[str]) -> pa.Table:
    """The columns of the target, under their own names, with their own types: DuckDB gives times the zone of the session."""
    fields = [schema.plain_columns.field(name) for name in names]
    return pa.table([table[TARGET + field.name].cast(field.type) for field in fields], schema=pa.schema(fields))
