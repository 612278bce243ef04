"""Updates rows by condition: new values are expressions over the old row. In an append-only table the old rows are removed by
position and the new ones appended; under a primary key the new rows are written like an upsert."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from lsmlake.commit.replay import Identity
from lsmlake.dialect.evaluate import Columns, columns_of
from lsmlake.dialect.scope import Scope
from lsmlake.errors import InvalidData, InvalidQuery
from lsmlake.lsm.merge.sequence import SequenceFields
from lsmlake.options.isolation import SERIALIZABLE
from lsmlake.options.merge import DEDUPLICATE, PARTIAL_UPDATE
from lsmlake.predicate import Predicate
from lsmlake.read.plan import plan
from lsmlake.read.positions import matched, rows_at
from lsmlake.read.scan import read_plan
from lsmlake.schema.schema import Schema
from lsmlake.store.version import Version
from lsmlake.write.append import append_files
from lsmlake.write.keys_written import KeysWritten
from lsmlake.write.prepare import Request, prepare
from lsmlake.write.row_edit import replace_rows, rewritten
from lsmlake.write.statement import DmlReport
from lsmlake.write.upsert import inline_picker
from lsmlake.write.upsert_tables import upsert_tables
from lsmlake.write.wanted import Wanted


def update(
    version: Version, values: Mapping[str, str], predicate: Predicate | None, isolation: str, zone: str, now: str
) -> DmlReport:
    """Gives the rows for which `predicate` is true (None: all rows) new values.

    Args:
        version: The version to read.
        values: Column -> an expression in Spark SQL over the old row.
        predicate: The rows to update.
        isolation: See `options.isolation`.
        zone: The session's time zone.
        now: The time of the statement.

    Raises:
        InvalidQuery: An expression is invalid, or the merge engine cannot update rows.
        InvalidData: A new value does not fit its column.
        Overtaken: Another commit changed one of the rows.
    """
    schema = version.schema
    assigned = columns_of(values, Scope.of(schema.plain_columns), schema.plain_columns, zone=zone, now=now)
    check_updatable(schema, assigned.schema.names, version.meta.paths.root)
    wanted = Wanted(predicate) if isolation == SERIALIZABLE else None
    if schema.append_only:
        return _by_position(version, assigned, predicate, wanted)
    return _by_key(version, assigned, predicate, wanted)


def check_updatable(schema: Schema, names: Sequence[str], where: str) -> None:
    """Raises InvalidQuery unless the columns of rows can be updated."""
    if keys := [name for name in names if name in schema.primary_key]:
        raise InvalidQuery(
            "a key column cannot be updated",
            where=where,
            found=keys,
            cure="delete the rows and insert them with another key",
        )
    if not schema.append_only and (engine := schema.parsed_options.merge.engine) not in (DEDUPLICATE, PARTIAL_UPDATE):
        raise InvalidQuery(
            f"merge-engine = {engine} cannot update rows",
            where=where,
            expected=f"{DEDUPLICATE} or {PARTIAL_UPDATE}: under other engines a written row does not replace the row of its key",
            found=engine,
            cure="upsert rows that the merge engine combines with the present ones",
        )


def check_deletable(schema: Schema, where: str) -> None:
    """Raises InvalidQuery if the table ignores deletes."""
    if not schema.append_only and schema.parsed_options.write.ignore_delete:
        raise InvalidQuery(
            "the table ignores deletes",
            where=where,
            found="ignore-delete = true",
            cure="unset ignore-delete first",
        )


OLDER = "an update cannot make a row older by sequence.field: the row of the key would stay as it is"


def check_replaces(schema: Schema, old: pa.Table, new: pa.Table, names: Sequence[str]) -> None:
    """Raises InvalidData if new rows would not replace the old ones: they are older by `sequence.field`, or have a null under a
    merge engine to which null means no change. `old` and `new`: the same rows before and after."""
    if schema.append_only:
        return
    merge = schema.parsed_options.merge
    sequence = SequenceFields(merge.sequence_field, merge.sequence_sort_order == "descending")
    if not {*sequence.columns}.isdisjoint(names):
        after, before = ({name: rows[name] for name in sequence.columns} for rows in (new, old))
        late = ~sequence.on_time(pa.table(after), pa.table({name: before[name].cast(after[name].type) for name in before}))
        if late.any():
            raise InvalidData(
                OLDER,
                where=f"columns {list(sequence.columns)}",
                found=f"{int(late.sum())} rows",
                cure="update to a value that is not older",
            )
    if merge.engine != PARTIAL_UPDATE:
        return
    for name in names:
        lost = pc.and_(pc.is_valid(old[name]), pc.is_null(new[name]))
        if pc.any(lost).as_py():
            raise InvalidData(
                f"under merge-engine = {PARTIAL_UPDATE} a null does not replace a value",
                where=f"column {name!r}",
                expected="a value",
                found=f"{pc.sum(lost).as_py()} rows whose value would become null",
                cure="update to another value, or delete the rows and insert them again",
            )


def _by_position(version: Version, assigned: Columns, predicate: Predicate | None, wanted: Wanted | None) -> DmlReport:
    schema = version.schema
    removed = matched(plan(version, predicate))
    if not removed:
        return DmlReport()
    old = (rows for one in removed for rows in rows_at(version, one, schema.columns.names))
    new = (prepare(_replaced(rows, assigned), schema, Request(), None)[0] for rows in old)
    snapshot = replace_rows(version, removed, append_files(version, new), wanted, rewritten)
    return DmlReport(snapshot, updated=sum(one.rows for one in removed))


def _by_key(version: Version, assigned: Columns, predicate: Predicate | None, wanted: Wanted | None) -> DmlReport:
    schema, options = version.schema, version.options
    written = schema.columns.names
    if options.merge.engine == PARTIAL_UPDATE:  # columns that are not written keep their values
        kept = {*schema.primary_key, *options.merge.sequence_field, *assigned.schema.names}
        kept.update(name for sequence in options.columns.sequence_groups for name in sequence)
        written = [name for name in written if name in kept]
    needed = [name for name in schema.columns.names if name in {*written, *assigned.needs}]
    updated = 0

    def replaced() -> Iterator[pa.Table]:
        nonlocal updated
        for old in read_plan(plan(version, predicate, needed)):
            new = _replaced(old, assigned)
            check_replaces(schema, old, new, assigned.schema.names)
            updated += new.num_rows
            yield new.select(written)

    request = Request(check=KeysWritten(version, wanted).check)
    snapshot = upsert_tables(version, replaced(), request, Identity(version.meta.env.ids()), inline_picker(version, None))
    return DmlReport(snapshot, updated=updated)


def _replaced(rows: pa.Table, assigned: Columns) -> pa.Table:
    """The rows with the assigned columns."""
    values = assigned.over(rows)
    for field, column in zip(values.schema, values.columns, strict=True):
        rows = rows.set_column(rows.column_names.index(field.name), field.name, column)
    return rows
