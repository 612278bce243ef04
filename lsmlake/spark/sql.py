"""Queries of `Lake.sql` with Spark attached: Spark executes the text, in which the tables of the lake are temporary views.

Only the names of tables are replaced, with their VERSION AS OF, so the text keeps its meaning to Spark, which also binds the
parameters. Names without a database, and tables that the lake does not have, are Spark's own. A view holds one snapshot. Connect
analyses a DataFrame again whenever it is used, so there the views stay in the session.
"""

from __future__ import annotations

import pyarrow as pa
import sqlglot
from pyspark.sql import DataFrame
from sqlglot import exp

from lsmlake.api.runtime import Runtime
from lsmlake.dialect.text import PlainSpark, Text
from lsmlake.errors import TableNotFound
from lsmlake.read.plan import plan
from lsmlake.spark.types import quoted
from lsmlake.sql.catalog import Catalog
from lsmlake.store.version import Version


def query(
    spark, runtime: Runtime, args: object, node: exp.Expression, text: Text, catalog: Catalog, *, keeps_views: bool
) -> DataFrame:
    """The rows of a query, evaluated lazily."""
    names = {cte.alias.lower() for cte in node.find_all(exp.CTE)}
    replaced: list[tuple[int, int, str]] = []
    views: dict[tuple, str] = {}
    for table in node.find_all(exp.Table):
        if not table.args.get("db") and (table.name.lower() in names or table.name.lower() not in catalog.given):
            continue
        try:
            rows = catalog.rows(table)
        except TableNotFound:
            if not spark.catalog.tableExists(".".join(quoted(part.name) for part in table.parts)):
                raise
            continue
        key = (catalog.name(table).lower(), id(rows))
        if key not in views:
            views[key] = _view(spark, runtime, rows, f"lsmlake_{catalog.lake.env.ids()}")
        replaced += _replacements(table, node, text, views[key])
    made = text.text
    for start, stop, by in sorted(replaced, reverse=True):
        made = made[:start] + by + made[stop:]
    try:
        return spark.sql(made, args) if args else spark.sql(made)
    finally:
        for view in () if keeps_views else views.values():
            spark.catalog.dropTempView(view)


def _view(spark, runtime: Runtime, rows: pa.Table | Version, name: str) -> str:
    frame = runtime.frame(plan(rows), None, "auto") if isinstance(rows, Version) else spark.createDataFrame(rows)
    frame.createOrReplaceTempView(name)
    return name


def _replacements(table: exp.Table, node: exp.Expression, text: Text, view: str) -> list[tuple[int, int, str]]:
    """Places in the text and what to write there: the name of the view, and columns without the database of the table."""
    first, last = table.parts[0], table.parts[-1]
    stop = last.meta["end"] + 1
    end = _after_version(text.text, stop) if table.args.get("version") else stop
    alias = "" if table.alias else f" AS {quoted(table.name)}"
    found = [(first.meta["start"], end, f"{view}{alias}")]
    if not table.alias:
        for column in node.find_all(exp.Column):
            names = [part.name.lower() for part in column.parts]
            if names[:2] == [part.name.lower() for part in table.parts] and len(names) > 2:
                found.append((column.parts[0].meta["start"], column.parts[1].meta["start"], ""))
    return found


def _after_version(text: str, start: int) -> int:
    """The place behind `[FOR] VERSION AS OF 12`, which begins at `start`."""
    tokens = sqlglot.tokenize(" " * start + text[start:], dialect=PlainSpark)
    place = next(number for number, token in enumerate(tokens) if token.text.upper() == "OF") + 1
    if tokens[place].text.upper() == "TIMESTAMP":  # TIMESTAMP AS OF TIMESTAMP '...'
        place += 1
    return tokens[place].end + 1
