"""Updates rows by condition: new values are expressions over the old row. In an append-only table the old rows are removed by
position and the new ones appended; under a primary key the new rows are written like an upsert."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from lsmlake.commit.request import Identity
from lsmlake.dialect.evaluate import Columns
from lsmlake.options.merge_options import PARTIAL_UPDATE
from lsmlake.options.write_options import SERIALIZABLE
from lsmlake.predicate import Predicate
from lsmlake.read.plan import plan
from lsmlake.read.positions import matched, rows_at
from lsmlake.read.scan import read_plan
from lsmlake.statements.attempts import DmlReport
from lsmlake.tables.version import Version
from lsmlake.write.append import append_files
from lsmlake.write.changeable import check_replaces, check_updatable
from lsmlake.write.prepare import prepare
from lsmlake.write.read_set import KeysUnchanged, ReadSet
from lsmlake.write.request import WriteRequest
from lsmlake.write.row_edit import replace_rows, rewritten
from lsmlake.write.write import write_tables


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
        return _by_position(version, assigned, predicate, wanted)
    return _by_key(version, assigned, predicate, wanted)


def _by_position(version: Version, assigned: Columns, predicate: Predicate | None, wanted: ReadSet | None) -> DmlReport:
    schema = version.schema
    removed = matched(plan(version, predicate))
    if not removed:
        return DmlReport()
    old = (rows for one in removed for rows in rows_at(version, one, schema.columns.names))
    new = (prepare(_replaced(rows, assigned), schema, WriteRequest(), None)[0] for rows in old)
    snapshot = replace_rows(version, removed, append_files(version, new), wanted, rewritten)
    return DmlReport(snapshot, updated=sum(one.rows for one in removed))


def _by_key(version: Version, assigned: Columns, predicate: Predicate | None, wanted: ReadSet | None) -> DmlReport:
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

    request = WriteRequest(Identity(version.meta.env.ids()), requires=(KeysUnchanged(version, wanted),))
    snapshot = write_tables(version, replaced(), request)
    return DmlReport(snapshot, updated=updated)


def _replaced(rows: pa.Table, assigned: Columns) -> pa.Table:
    """The rows with the assigned columns."""
    values = assigned.over(rows)
    for field, column in zip(values.schema, values.columns, strict=True):
        rows = rows.set_column(rows.column_names.index(field.name), field.name, column)
    return rows
