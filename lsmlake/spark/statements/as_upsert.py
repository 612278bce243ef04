"""A MERGE that makes each row of its source the row of its key, in the table or not: an upsert of the source. Spark reads no row
of the table, and there is no join.

The writer finds the old row of each key anyway, to mark it, and so counts the updated rows (`write.replaced`). What it cannot
tell, the join does: which of several source rows match a row of the table, and which row of the source is invalid.
"""

from __future__ import annotations

from lsmlake.commit.request import Identity
from lsmlake.errors import InvalidData
from lsmlake.spark import frame_writer
from lsmlake.spark.statements.clauses import Clauses
from lsmlake.spark.statements.row_edit_tasks import column
from lsmlake.spark.statements.spark_errors import translated
from lsmlake.spark.statements.spark_statement import SparkStatement
from lsmlake.statements.attempts import DmlReport
from lsmlake.statements.clause import ACTION, INSERT
from lsmlake.types.type_text import backticked
from lsmlake.write.read_set import KeysUnchanged
from lsmlake.write.replaced import ReplacedRows, Uncounted
from lsmlake.write.write_request import WriteRequest


def run(statement: SparkStatement) -> DmlReport | None:
    """Executes a statement with `upserts`. None: nothing was written, and only the join knows the result."""
    version = statement.target.version
    counted = ReplacedRows(version)
    requires = KeysUnchanged(version, None), counted  # the written keys are all rows that the statement would read
    request = WriteRequest(Identity(version.meta.env.ids()), distinct=True, requires=requires)
    try:
        with translated():
            snapshot = frame_writer.upsert(version, rows_of(statement), request, statement.target.learned)
    except (InvalidData, Uncounted):
        return None
    return DmlReport(snapshot, inserted=counted.rows - counted.replaced, updated=counted.replaced)


def rows_of(statement: SparkStatement):
    """The rows to write, by the names of the columns."""
    clauses = statement.clauses
    (number,) = clauses.numbers(INSERT)
    insert = Clauses(clauses.schema, clauses.target, (clauses.clauses[number - 1],), (clauses.values[number - 1],))
    source = statement.source.alias(statement.name).selectExpr("*", f"1 as {ACTION}")
    names = clauses.schema.columns.names
    return insert.new_rows(source, [], deleted=False).selectExpr(
        *(f"{column(place)} as {backticked(name)}" for place, name in enumerate(names))
    )
