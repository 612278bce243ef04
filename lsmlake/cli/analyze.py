"""`lsmlake analyze`: compute and show the statistics of a table."""

from __future__ import annotations

import typer

from lsmlake.cli.arguments import Columns, Debug, Json, TableName, Warehouse
from lsmlake.cli.opening import column_names, open_lake, open_table
from lsmlake.cli.output import Sentences, emit
from lsmlake.cli.progress import spinner
from lsmlake.report.views import statistics_view
from lsmlake.schema.values import json_rows


def analyze(
    ctx: typer.Context,
    table: TableName,
    columns: Columns = None,
    json: Json = False,
    warehouse: Warehouse = None,
    debug: Debug = False,
) -> None:
    """Compute statistics of a table's rows, as one commit.

    Counts the rows and, per column, distinct values (about), nulls, the least and greatest value and the lengths of texts.
    `lsmlake system TABLE statistics` shows them later.
    """
    found = open_table(open_lake(ctx, warehouse, debug), table)
    with spinner() as progress:
        progress.add_task("reading", total=None)
        snapshot = found.analyze(column_names(columns))
    if snapshot is None:
        emit([], Sentences((f"{found.name}: nothing was written yet",)), json)
        return
    statistics = found.system_table("statistics", snapshot=snapshot.id)
    emit(json_rows(statistics), statistics_view(statistics), json)
