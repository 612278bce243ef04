"""Tables of a lake in Spark's own catalog: `spark.table("sales.orders")`, `INSERT INTO sales.orders`.

For a table of a Python data source Spark does not keep options for later reads and writes. So each table has its own data source,
lsmlake.<database>.<table>, registered with its path. Spark resolves a catalog name anew for each query, which so reads the latest
snapshot; but it plans a DataFrame of `format("lsmlake")` only once, also as a temporary view. So a view is SQL text with a
catalog name.

A catalog entry is only a name with columns: dropping it does not change the table of the lake.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from pyspark.errors import AnalysisException, PySparkException

from lsmlake.api.lake import Lake
from lsmlake.api.table import Table
from lsmlake.errors import InvalidQuery
from lsmlake.spark.datasource.options import PATH, table_options
from lsmlake.spark.datasource.portable import portable_source
from lsmlake.spark.frame_types import to_spark
from lsmlake.spark.python import check_python
from lsmlake.spark.ship import shipped
from lsmlake.types.column_types import has_sized_text
from lsmlake.types.type_text import backticked

_CATALOG = "spark_catalog"
_FILE = "file:"
_URL = re.compile(r"\w+://([^/@]+)(?:@[^/]*)?")
_WAREHOUSE = "spark.sql.warehouse.dir"
_FOUND_MAX = 300


def register_tables(spark, lake: Lake, database: str | None) -> list[str]:
    """Creates catalog entries for tables; returns their names. Replaces entries that differ from their tables."""
    check_python(spark)
    names = lake.tables() if database is None else [f"{database}.{table}" for table in lake.tables(database)]
    _check_unique(names)
    package = shipped(spark)
    for name in names:
        table = lake.table(name)
        given = {PATH: table.meta.env.storage.place(table.path)}
        try:
            spark.dataSource.register(portable_source(package, _source(name), given, table.meta.env))
            _put(spark, table, given)
        except PySparkException as error:
            message = str(error).split("\n\nJVM stacktrace")[0][:_FOUND_MAX]
            raise InvalidQuery(
                "Spark cannot take the table into its catalog", where=name, found=message, cure="use lake.sql or Table.df"
            ) from error
    return names


def register_views(spark, lake: Lake, database: str | None) -> list[str]:
    """Creates a temporary view of each table, with the table's name; returns the names of the views."""
    names = lake.tables() if database is None else [f"{database}.{table}" for table in lake.tables(database)]
    views = [name.partition(".")[2] for name in names]
    _check_unique(views, cure="name one database")
    for view, name in zip(views, register_tables(spark, lake, database), strict=True):
        spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW {backticked(view)} AS SELECT * FROM {_entry(name)}")
    return views


def _check_unique(names: Sequence[str], cure: str = "rename one of them") -> None:
    """Raises InvalidQuery for names that are equal to Spark."""
    known: dict[str, str] = {}
    for name in names:
        if (other := known.setdefault(name.lower(), name)) is not name:
            raise InvalidQuery(
                "two tables have one name in Spark", expected="names that differ not only in case", found=[other, name], cure=cure
            )


def _source(name: str) -> str:
    return f"lsmlake.{name}"


def _entry(name: str) -> str:
    return ".".join(map(backticked, (_CATALOG, *name.split("."))))


def _put(spark, table: Table, given: dict[str, str]) -> None:
    """Creates the catalog entry of a table, unless an equal one exists."""
    database = table.name.partition(".")[0]
    entry, columns = _entry(table.name), to_spark(table.version.schema.shown_columns)
    _check_place(spark, database, table)
    spark.sql(f"CREATE DATABASE IF NOT EXISTS {backticked(_CATALOG)}.{backticked(database)}")
    if (existing := _columns(spark, entry)) is not None:
        if (options := table_options(existing)) is None:
            raise InvalidQuery(
                "Spark's catalog has another table of this name",
                where=table.name,
                found=existing.simpleString(),
                cure="drop it, or rename one of them",
            )
        sized = any(map(has_sized_text, table.version.schema.columns))  # Spark does not show the lengths of texts
        if options == given and existing.simpleString() == columns.simpleString() and not sized:
            return
        spark.sql(f"DROP TABLE {entry}")
    spark.sql(f"CREATE TABLE {entry} USING {'.'.join(map(backticked, _source(table.name).split('.')))}")


def _columns(spark, entry: str):
    """The columns of a catalog entry; None if the entry does not exist."""
    try:
        return spark.table(entry).schema
    except AnalysisException as error:
        if error.getCondition() == "TABLE_OR_VIEW_NOT_FOUND":
            return None
        raise


def _check_place(spark, database: str, table: Table) -> None:
    """Raises InvalidQuery if Spark's database directory contains the lake's database: DROP DATABASE would remove both."""
    name = f"{_CATALOG}.{database}"
    if spark.catalog.databaseExists(name):
        place = spark.catalog.getDatabase(name).locationUri
    else:
        place = f"{spark.conf.get(_WAREHOUSE)}/{database}.db"
    own = table.meta.env.storage.place(table.path.rpartition("/")[0])
    if _lies_in(own, place):
        raise InvalidQuery(
            "Spark's warehouse is the folder of the lake",
            where=place,
            expected="a folder of its own: DROP DATABASE in Spark removes it",
            cure=f"set {_WAREHOUSE} to another folder before the session starts",
        )


def _lies_in(own: str, place: str) -> bool:
    """Whether a folder of a lake is equal to a folder of Spark, or inside it."""
    if (match := _URL.match(own)) is None:
        return Path(own).resolve().is_relative_to(Path(place.removeprefix(_FILE)).resolve())
    if (other := _URL.match(place)) is None or other[1] != match[1]:  # Spark may name a store by another scheme
        return False
    return f"{own[match.end() :]}/".startswith(f"{place[other.end() :].rstrip('/')}/")
