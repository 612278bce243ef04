"""A statement on a table with a primary key: the changes are an upsert of rows with row kinds (`spark.frame_writer`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from pyspark.sql import Observation
from pyspark.sql import functions as F

from lsmlake.commit.request import Identity
from lsmlake.options.merge_options import PARTIAL_UPDATE
from lsmlake.schema.rowkind import Source
from lsmlake.spark import frame_writer, read
from lsmlake.spark.statements.clauses import Clauses
from lsmlake.spark.statements.row_edit_tasks import column
from lsmlake.spark.statements.spark_statement import SparkStatement
from lsmlake.statements.attempts import DmlReport
from lsmlake.statements.clause import ACTION, DELETE, INSERT, UPDATE
from lsmlake.types.type_text import backticked
from lsmlake.write.order import Arrival, Ordered
from lsmlake.write.prepare import delete_columns
from lsmlake.write.read_set import KeysUnchanged
from lsmlake.write.write import picker
from lsmlake.write.write_request import WriteRequest

_KIND = "_lsmlake_kind"


def run(statement: SparkStatement) -> DmlReport:
    """Executes a statement on a table with a primary key."""
    target, clauses, version = statement.target, statement.clauses, statement.target.version
    planned = target.plan()
    if not planned.files and statement.source is None:
        return DmlReport()
    rows = statement.acting(read.frame(target.spark, planned, target.ranges, read.AUTO), version.schema.primary_key)
    counts = Observation()
    numbers = {"inserted": INSERT, "updated": UPDATE, "deleted": DELETE}
    rows = clauses.new_rows(rows, [], deleted=True)
    request, columns = _request(clauses, Identity(version.meta.env.ids()), KeysUnchanged(version, statement.wanted))
    request = replace(request, reclaims=bool(clauses.numbers(INSERT)))
    changes, limit = statement.collected(rows, [ACTION, *columns])
    if changes is not None:
        action = changes[ACTION].to_numpy()
        changed = {name: int(np.isin(action, clauses.numbers(one)).sum()) for name, one in numbers.items()}
        arrival = Arrival(np.arange(changes.num_rows), ordered=Ordered.QUERY)  # a join gives the rows
        pick = picker(version, None, reclaims=request.reclaims)
        snapshot = frame_writer.upsert_collected(version, changes.drop_columns([ACTION]), request, pick, arrival)
        return DmlReport(snapshot, **changed)
    rows = rows.observe(counts, *(F.expr(f"{_counted(clauses.numbers(action))} as {name}") for name, action in numbers.items()))
    by_tasks = replace(statement.target.learned, uneven={version.meta.paths.root})  # the driver has tried already
    snapshot = frame_writer.upsert(version, rows.selectExpr(*columns), request, by_tasks)
    changed = {name: int(counts.get.get(name) or 0) for name in numbers}
    statement.note(sum(changed.values()), limit)
    return DmlReport(snapshot, **changed)


def _request(clauses: Clauses, identity: Identity, unchanged: KeysUnchanged) -> tuple[WriteRequest, list[str]]:
    """The upsert that executes the changes, and its columns: keys to delete, rows to write, or both with row kinds."""
    schema = clauses.schema
    names, deleting = schema.columns.names, clauses.numbers(DELETE)
    if len(deleting) == len(clauses.clauses):
        request = WriteRequest(identity, deletes=True, of_rows=True, requires=(unchanged,))
        names = [name for name in names if name in delete_columns(schema, request)]
        return request, _renamed(schema.columns.names, names)
    if not deleting:
        if schema.parsed_options.merge.engine == PARTIAL_UPDATE and not clauses.numbers(INSERT):
            names = _written(clauses)
        return WriteRequest(identity, requires=(unchanged,)), _renamed(schema.columns.names, names)
    kind = f"if({ACTION} in ({', '.join(map(str, deleting))}), '-D', '+I') as {_KIND}"
    return WriteRequest(identity, Source(_KIND), requires=(unchanged,)), [*_renamed(names, names), kind]


def _written(clauses: Clauses) -> list[str]:
    """The columns that an UPDATE writes under partial-update: other columns keep their values."""
    schema = clauses.schema
    kept = {*schema.primary_key, *schema.parsed_options.merge.sequence_field}
    kept.update(name for values in clauses.values for name in values)
    kept.update(name for sequence in schema.parsed_options.columns.sequence_groups for name in sequence)
    return [name for name in schema.columns.names if name in kept]


def _renamed(columns: Sequence[str], names: Sequence[str]) -> list[str]:
    return [f"{column(columns.index(name))} as {backticked(name)}" for name in names]


def _counted(numbers: Sequence[int]) -> str:
    return f"count(if({ACTION} in ({', '.join(map(str, numbers))}), 1, null))" if numbers else "count(null)"
