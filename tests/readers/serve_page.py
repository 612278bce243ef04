"""The page of the documents on `lsmlake serve`: DuckDB, and Spark with Iceberg's jar, each with the one address of the page.
Tables are published by being read; Spark appends to one."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

from serving import serving

import lsmlake
from lsmlake.cli.docs import DOCUMENTS

_ADDRESS = "http://127.0.0.1:8181"
_DUCKDB = """
from sys import argv
from duckdb_reader import connected
connection = connected("httpfs")
for statement in argv[1].split(";"):
    rows = connection.execute(statement).fetchall() if statement.strip() else []
    print(sorted(rows))
"""
_SPARK = """
from sys import argv
from pyspark.sql import SparkSession
builder = SparkSession.builder.master("local[1]")
for line in argv[1].splitlines():
    builder = builder.config(*line.split("=", 1))
spark = builder.getOrCreate()
for statement in argv[2].split(";"):
    try:
        print(sorted(map(tuple, spark.sql(statement).collect())))
    except Exception as refused:
        print(" ".join(str(refused).split())[:1000])
"""
_ON_SPARK = {
    "SELECT status, sum(amount) FROM lake.sales.orders GROUP BY status": "[('done', 3.0), ('open', 12.0)]",
    "SELECT order_id FROM lake.sales.orders VERSION AS OF 'eod'": "[(1,)]",
    "SELECT count(*) FROM lake.sales.orders.snapshots": "[(2,)]",
    "SELECT * FROM lake.sales.opened": "[(1, 12.0)]",
    "SHOW TABLES IN lake.sales": "[('sales', 'events', False), ('sales', 'orders', False)]",
    "INSERT INTO lake.sales.events VALUES (1, 'a'), (2, 'b')": "[]",
    "INSERT INTO lake.sales.events SELECT id, 'many' FROM range(100)": "[]",
    "SELECT count(*), sum(id) FROM lake.sales.events": "[(102, 4953)]",
    "INSERT INTO lake.sales.orders VALUES (9, 'theirs', 1.0)": "UnsupportedOperationException",
    "DELETE FROM lake.sales.events WHERE id = 1": "UnsupportedOperationException",
}
"""Statement -> its rows, or what is in the error."""


def run_duckdb(folder: Path, command: Sequence[str]) -> list[str]:
    """What went wrong in DuckDB. `command`: runs the program of the reader."""
    _make(folder)
    (sql,) = _blocks("sql")
    with serving(folder / "lake", "--write") as server:
        environment = os.environ | {"PYTHONPATH": str(Path(__file__).parent)}
        given = [command[0], "-c", _DUCKDB, f"{sql.replace(_ADDRESS, server.web)};INSERT INTO lake.sales.events VALUES (7, 'a')"]
        done = subprocess.run(given, cwd=folder, env=environment, capture_output=True, text=True)
    events = lsmlake.connect(folder / "lake").table("sales.events")
    right = "[('done', 3.0), ('open', 12.0)]" in done.stdout and events.to_arrow().to_pylist() == [{"id": 7, "v": "a"}]
    return [*map(str, events.verify())] if right else [f"{sql}\n{done.stdout}{done.stderr}"]


def run_spark(folder: Path, command: Sequence[str]) -> list[str]:
    """What went wrong in Spark."""
    _make(folder)
    (settings,) = _blocks("properties")
    quiet = "spark.ui.enabled=false\nspark.ui.showConsoleProgress=false\nspark.log.level=ERROR\n"
    with serving(folder / "lake", "--write") as server:
        given = [command[0], "-c", _SPARK, quiet + settings.replace(_ADDRESS, server.web).strip(), ";".join(_ON_SPARK)]
        done = subprocess.run(given, cwd=folder, capture_output=True, text=True)
    lines = done.stdout.splitlines()
    wrong = [f"{sql}\n{line}" for (sql, right), line in zip(_ON_SPARK.items(), lines, strict=False) if right not in line]
    wrong += [] if len(lines) == len(_ON_SPARK) else [done.stdout[-500:] + done.stderr[-3_000:]]
    lake = lsmlake.connect(folder / "lake")
    return [*wrong, *(str(finding) for name in lake.tables() for finding in lake.table(name).verify())]


def _blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", DOCUMENTS["serve"].read_text(), re.M | re.S)


def _make(folder: Path) -> None:
    """A warehouse with tables that were never published, and a view."""
    lake = lsmlake.connect(folder / "lake")
    lake.create_database("sales")
    columns = "order_id BIGINT NOT NULL, status STRING, amount DOUBLE"
    orders = lake.create_table("sales.orders", columns, primary_key=["order_id"], options={"bucket": 1})
    orders.upsert([{"order_id": 1, "status": "open", "amount": 12.0}], compact=False)
    orders.create_tag("eod")
    orders.upsert([{"order_id": 2, "status": "done", "amount": 3.0}], compact=False)
    lake.sql("CREATE VIEW sales.opened AS SELECT order_id, amount FROM sales.orders WHERE status = 'open'")
    lake.create_table("sales.events", "id BIGINT, v STRING")
